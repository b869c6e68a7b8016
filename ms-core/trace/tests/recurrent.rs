//! Recurrent layers: their traces are loops whose size does not depend on the number of steps.

use ms_core::ops::core::testing::{refused, run};
use ms_core::ops::{cast, evaluate_graph, gru, lstm};
use ms_core::tensor::{DType, Tensor};
use ms_core::{Code, trace};

/// `0, 1, 2, ...` with a shape.
fn counted<const N: usize>(shape: [usize; N]) -> Tensor {
    let numel = shape.iter().product::<usize>();
    Tensor::from_slice(shape, &(0..numel).map(|it| it as f32).collect::<Vec<_>>())
}

#[test]
fn recurrent_layers_are_loops() {
    type Layer = fn(&[Tensor]) -> Vec<Tensor>;
    let layers: [(usize, Layer); 2] = [
        (4, |it| {
            let (y, h, c) = lstm(&it[0], (&it[1], &it[2]), (&it[3], &it[4]), Some((&it[5], &it[6])));
            vec![y, h, c]
        }),
        (3, |it| {
            let (y, h) = gru(&it[0], &it[1], (&it[3], &it[4]), Some((&it[5], &it[6])));
            vec![y, h]
        }),
    ];
    let (batch, hidden) = (2, 3);
    for (gates, layer) in layers {
        let gates = gates * hidden;
        let operands = |time: usize, state: DType| {
            let shapes: [&[usize]; 7] = [
                &[time, batch, 5],
                &[batch, hidden],
                &[batch, hidden],
                &[gates, 5],
                &[gates, hidden],
                &[gates],
                &[gates],
            ];
            let dtypes = [DType::F32, state, state, DType::F32, DType::F32, DType::F32, DType::F32];
            let operand = |(shape, dtype): (&&[usize], DType)| {
                let numel = shape.iter().product::<usize>();
                let values: Vec<f64> =
                    (0..numel).map(|it| (it as f64 * 0.7 + shape.len() as f64).sin() * 0.5).collect();
                cast(Tensor::from_slice(*shape, &values), dtype)
            };
            run(|| shapes.iter().zip(dtypes).map(operand).collect::<Vec<Tensor>>())
        };
        let traced = |operands: &[Tensor]| {
            let types: Vec<_> = operands.iter().map(Tensor::ty).collect();
            trace::build("layer", &types, |it| Ok(layer(it))).expect("shapes fit")
        };
        assert_eq!(traced(&operands(3, DType::F32)).len(), traced(&operands(50, DType::F32)).len());
        for dtype in [DType::F32, DType::F64] {
            let operands = operands(4, dtype);
            let arrays: Vec<_> = operands.iter().filter_map(Tensor::as_array).collect();
            let got = evaluate_graph(&traced(&operands), &arrays).expect("it runs");
            for (got, want) in got.iter().zip(run(|| layer(&operands))) {
                let want = want.try_array().expect("an array");
                assert_eq!(
                    (got.ty(), got.on_host().expect("the elements are readable").to_bytes()),
                    (want.ty(), want.on_host().expect("the elements are readable").to_bytes()),
                    "{gates} {dtype}"
                );
            }
        }
        let wrong = || {
            drop(layer(
                &[&operands(2, DType::F32)[..1], &[counted([5, hidden])], &operands(2, DType::F32)[2..]].concat(),
            ))
        };
        assert_eq!(refused(wrong), Code::Shape);
    }
}
