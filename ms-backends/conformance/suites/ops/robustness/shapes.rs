//! Tests operands with shapes that do not belong together.

use ms::Code;
use ms::ops::{AttentionOptions, BatchStatistics, CrossEntropy, Reduction};
use ms::prelude::*;
use ms_conformance::late_errors::catch;

type Shapes = &'static [&'static [usize]];

/// An op on tensors of ones, with shapes that it accepts and shapes that it refuses. Refused shapes would broadcast or
/// fit by their size, but do not belong together.
struct Asks {
    name: &'static str,
    run: fn(&[Tensor]) -> Tensor,
    takes: &'static [Shapes],
    refuses: &'static [Shapes],
}

const fn asks(
    name: &'static str,
    run: fn(&[Tensor]) -> Tensor,
    takes: &'static [Shapes],
    refuses: &'static [Shapes],
) -> Asks {
    Asks { name, run, takes, refuses }
}

const ALIKE: &[Shapes] = &[&[&[3, 2], &[3, 2]], &[&[], &[]], &[&[0], &[0]]];
const UNLIKE: &[Shapes] = &[
    &[&[3, 3], &[3]],
    &[&[4, 1], &[4]],
    &[&[4], &[4, 1]],
    &[&[2, 3], &[3, 2]],
    &[&[5], &[1]],
    &[&[1], &[5]],
    &[&[2], &[]],
];

fn classes(x: &Tensor) -> Tensor {
    x.cast(DType::I64)
}

fn masked(x: &[Tensor]) -> Tensor {
    let options = AttentionOptions { mask: Some(x[1].clone()), ..AttentionOptions::default() };
    ops::scaled_dot_product_attention(&x[0], &x[0], &x[0], &options)
}

fn weighted(weight: &Tensor) -> CrossEntropy {
    CrossEntropy { weight: Some(weight.clone()), ..CrossEntropy::default() }
}

static ASKS: &[Asks] = &[
    asks("mse_loss", |x| ops::mse_loss(&x[0], &x[1]), ALIKE, UNLIKE),
    asks("l1_loss", |x| ops::l1_loss(&x[0], &x[1]), ALIKE, UNLIKE),
    asks("smooth_l1_loss", |x| ops::smooth_l1_loss(&x[0], &x[1], 1.0, Reduction::Mean), ALIKE, UNLIKE),
    asks("huber_loss", |x| ops::huber_loss(&x[0], &x[1], 1.0, Reduction::Mean), ALIKE, UNLIKE),
    asks("binary_cross_entropy", |x| ops::binary_cross_entropy(&x[0], &x[1], None, Reduction::Mean), ALIKE, UNLIKE),
    asks("bce_with_logits", |x| ops::bce_with_logits(&x[0], &x[1], None, Reduction::Mean), ALIKE, UNLIKE),
    asks("kl_div", |x| ops::kl_div(&x[0], &x[1], false, Reduction::Mean), ALIKE, UNLIKE),
    asks("kl_div of logarithms", |x| ops::kl_div(&x[0], &x[1], true, Reduction::Mean), ALIKE, UNLIKE),
    asks(
        "binary_cross_entropy with a weight",
        |x| ops::binary_cross_entropy(&x[0], &x[1], Some(&x[2]), Reduction::None),
        &[&[&[2, 3], &[2, 3], &[3]], &[&[2, 3], &[2, 3], &[]]],
        &[&[&[3], &[3], &[2, 3]], &[&[1], &[1], &[4]]],
    ),
    asks(
        "bce_with_logits with a weight",
        |x| ops::bce_with_logits(&x[0], &x[1], Some(&x[2]), Reduction::None),
        &[&[&[2, 3], &[2, 3], &[3]], &[&[2, 3], &[2, 3], &[2, 1]]],
        &[&[&[3], &[3], &[2, 3]], &[&[1], &[1], &[4]]],
    ),
    asks(
        "cross_entropy with distributions",
        |x| ops::cross_entropy(&x[0], &x[1]),
        &[&[&[3, 3], &[3, 3]], &[&[2, 3, 4], &[2, 3, 4]], &[&[3], &[3]]],
        &[&[&[3, 3], &[3]], &[&[3, 3], &[1, 3]], &[&[3, 3], &[3, 1]], &[&[2, 3, 4], &[3, 4]], &[&[2, 3], &[]]],
    ),
    asks(
        "cross_entropy with classes",
        |x| ops::cross_entropy(&x[0], classes(&x[1])),
        &[&[&[3, 4], &[3]], &[&[2, 3, 4], &[2, 4]], &[&[3], &[]]],
        &[&[&[3, 4], &[4]], &[&[3, 4], &[3, 1]], &[&[3, 4], &[1]], &[&[3, 4], &[]]],
    ),
    asks(
        "cross_entropy with a weight",
        |x| weighted(&x[2]).of(&x[0], classes(&x[1])),
        &[&[&[3, 4], &[3], &[4]]],
        &[&[&[3, 4], &[3], &[3]], &[&[3, 4], &[3], &[1]], &[&[3, 4], &[3], &[2, 2]]],
    ),
    asks(
        "nll_loss with distributions",
        |x| ops::nll_loss(&x[0], &x[1]),
        &[&[&[3, 3], &[3, 3]]],
        &[&[&[3, 3], &[3]], &[&[3, 3], &[1, 3]]],
    ),
    asks(
        "cosine_embedding_loss",
        |x| ops::cosine_embedding_loss(&x[0], &x[1], &x[2], 0.0, Reduction::Mean),
        &[&[&[2, 3], &[2, 3], &[2]], &[&[3], &[3], &[]]],
        &[&[&[2, 3], &[1, 3], &[2]], &[&[2, 3], &[2, 3], &[2, 1]], &[&[2, 3], &[2, 3], &[]]],
    ),
    asks(
        "embedding",
        |x| ops::embedding(classes(&x[0]), &x[1], Some(0)),
        &[&[&[2], &[5, 3]], &[&[2, 4], &[5, 3]]],
        &[&[&[2], &[5]], &[&[2], &[5, 3, 2]]],
    ),
    asks(
        "attention with a mask",
        masked,
        &[&[&[2, 3, 4], &[3, 3]], &[&[2, 3, 4], &[1, 1, 3]]],
        &[&[&[2, 3, 4], &[5, 2, 3, 3]], &[&[1, 3, 4], &[2, 3, 3]], &[&[2, 3, 4], &[4]]],
    ),
    asks(
        "layer_norm",
        |x| ops::layer_norm(&x[0], Some(&x[1]), Some(&x[2]), 1, 1e-5),
        &[&[&[2, 3], &[3], &[3]], &[&[2, 3, 4], &[3, 4], &[3, 4]]],
        &[&[&[2, 3], &[1], &[3]], &[&[2, 3], &[3], &[1]], &[&[2, 3], &[2, 3], &[3]], &[&[2, 3, 4], &[4], &[4]]],
    ),
    asks(
        "rms_norm",
        |x| ops::rms_norm(&x[0], &x[1], -1, 1e-5),
        &[&[&[2, 3], &[3]], &[&[2, 3], &[]]],
        &[&[&[2, 3], &[1]], &[&[2, 3], &[2, 3]]],
    ),
    asks(
        "group_norm",
        |x| ops::group_norm(&x[0], 2, &x[1], &x[2], 1e-5),
        &[&[&[2, 4, 3], &[4], &[4]], &[&[2, 4], &[4], &[4]]],
        &[&[&[2, 4, 3], &[1], &[4]], &[&[2, 4, 3], &[4], &[3]], &[&[4], &[4], &[4]], &[&[], &[4], &[4]]],
    ),
    asks(
        "instance_norm",
        |x| ops::instance_norm(&x[0], &x[1], &x[2], 1e-5),
        &[&[&[2, 3, 4], &[3], &[3]]],
        &[&[&[2, 3, 4], &[1], &[3]], &[&[2, 3, 4], &[3], &[3, 1]], &[&[3], &[3], &[3]]],
    ),
    asks(
        "batch_norm",
        |x| ops::batch_norm(&x[0], &x[1], &x[2], None, 1e-5),
        &[&[&[2, 3], &[3], &[3]], &[&[1, 3, 2], &[3], &[3]]],
        &[&[&[2, 3], &[1], &[3]], &[&[2, 3], &[3], &[1]], &[&[3], &[3], &[3]], &[&[2, 3], &[2, 3], &[3]]],
    ),
    asks(
        "batch_norm by statistics",
        |x| {
            let kept = BatchStatistics { mean: x[1].clone(), var: x[2].clone() };
            ops::batch_norm(&x[0], Tensor::ones([3]), Tensor::ones([3]), Some(&kept), 1e-5)
        },
        &[&[&[2, 3], &[3], &[3]], &[&[1, 3], &[3], &[3]]],
        &[&[&[2, 3], &[1], &[3]], &[&[2, 3], &[3], &[1]]],
    ),
    asks(
        "lstm",
        |x| ops::lstm(&x[0], (&x[1], &x[2]), (&x[3], &x[4]), None).0,
        &[&[&[5, 2, 3], &[2, 4], &[2, 4], &[16, 3], &[16, 4]]],
        &[
            &[&[5, 2, 3], &[1, 4], &[2, 4], &[16, 3], &[16, 4]],
            &[&[5, 2, 3], &[2, 4], &[2, 1], &[16, 3], &[16, 4]],
            &[&[5, 2, 3], &[2, 4], &[2, 4], &[12, 3], &[16, 4]],
            &[&[5, 2, 3], &[2, 4], &[2, 4], &[16, 3], &[16, 3]],
        ],
    ),
    asks(
        "gru",
        |x| ops::gru(&x[0], &x[1], (&x[2], &x[3]), None).0,
        &[&[&[5, 2, 3], &[2, 4], &[12, 3], &[12, 4]]],
        &[&[&[5, 2, 3], &[1, 4], &[12, 3], &[12, 4]], &[&[5, 2, 3], &[2, 4], &[4, 3], &[12, 4]]],
    ),
    asks(
        "dense",
        |x| ops::dense(&x[0], &x[1], Some(&x[2])),
        &[&[&[2, 3], &[4, 3], &[4]], &[&[3], &[4, 3], &[4]]],
        &[&[&[2, 3], &[4, 3], &[1]], &[&[2, 3], &[4, 3], &[2, 4]], &[&[2, 3], &[3], &[1]]],
    ),
    asks(
        "conv1d",
        |x| ops::conv1d(&x[0], &x[1], Some(&x[2]), &ops::ConvOptions::new(1)),
        &[&[&[1, 2, 5], &[4, 2, 3], &[4]]],
        &[&[&[1, 2, 5], &[4, 2, 3], &[1]], &[&[1, 2, 5], &[4, 2, 3], &[2, 2]]],
    ),
];

#[jit]
fn asked(at: usize, x: &Vec<Tensor>) -> Tensor {
    (ASKS[at].run)(x)
}

#[test]
fn operands_of_other_shapes_are_refused() {
    for (at, asks) in ASKS.iter().enumerate() {
        let given = |shapes: Shapes| shapes.iter().map(|&it| Tensor::ones(it)).collect::<Vec<_>>();
        let ways = |x: &Vec<Tensor>| [catch(|| (asks.run)(x)), catch(|| asked(at, x))];
        for shapes in asks.takes {
            for outcome in ways(&given(shapes)) {
                assert!(outcome.is_ok(), "{} of {shapes:?}: {}", asks.name, outcome.expect_err("it is refused"));
            }
        }
        for shapes in asks.refuses {
            for outcome in ways(&given(shapes)) {
                match outcome {
                    Ok(got) => panic!("{} of {shapes:?} is accepted: {got}", asks.name),
                    Err(error) => assert_eq!(error.code(), Code::Shape, "{} of {shapes:?}: {error}", asks.name),
                }
            }
        }
    }
}
