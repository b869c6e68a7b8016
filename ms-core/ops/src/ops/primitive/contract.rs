//! `contract`: sums of products over axes of two operands.

use crate::ops::primitive::matmul::products;
use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules, add, permute};
use crate::tensor::{Attrs, OpInfo, Tensor, Type, apply1};
use ms_ir::ContractionRanks;
use ms_ir::error::{Code, Error};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`CONTRACT`]: the number of batch axes, which both operands and the result have, and the
    /// number of reduced axes.
    struct ContractAttrs { batch: usize, summed: usize }
}

/// Contracts `[batch.., m.., k..]` with `[batch.., k.., n..]` to `[batch.., m.., n..]`, summed over the axes `k` in
/// row-major order. With one axis of each kind it is [`matmul`](super::MATMUL), with the same rules for dtypes and
/// sums.
pub static CONTRACT: OpDef = OpDef {
    info: OpInfo { number: 401, name: "contract", attrs: ContractAttrs::DECLARED },
    infer: |attrs, inputs| {
        let (a, b) = (inputs[0], inputs[1]);
        if a.dtype != b.dtype {
            return Err(Error::new(Code::DType, format!("dtypes {} and {} differ", a.dtype, b.dtype)));
        }
        let ContractionRanks { batch, k } = ranks(attrs);
        let Some(rows) = a.rank().checked_sub(batch + k).filter(|_| b.rank() >= batch + k) else {
            let message = format!("{a} and {b} have fewer axes than {batch} of a batch and {k} that are summed");
            return Err(Error::new(Code::Shape, message));
        };
        let shared = a.dims[..batch].iter().chain(&a.dims[batch + rows..]);
        if !shared.zip(&b.dims).all(|(a, b)| a.may_equal(*b)) {
            return Err(Error::new(Code::Shape, format!("axes that {a} and {b} share have different sizes")));
        }
        let dims = a.dims[..batch + rows].iter().chain(&b.dims[batch + k..]).copied().collect();
        Ok(smallvec![Type::new(a.dtype, dims)])
    },
    eval: |attrs, inputs| {
        let (a, b) = (inputs[0], inputs[1]);
        let ContractionRanks { batch, k } = ranks(attrs);
        let (m, n) = (a.layout().rank() - k, batch + k);
        let shape: Vec<usize> = a.shape()[..m].iter().chain(&b.shape()[n..]).copied().collect();
        let size = |sizes: &[usize]| sizes.iter().product::<usize>();
        let sizes = [size(&a.shape()[batch..m]), size(&a.shape()[m..]), size(&b.shape()[n..])];
        Ok(smallvec![products(a, b, &shape, sizes)?])
    },
    effects: Effects::NONE,
    lowering: Lowering::Contraction(|attrs, _| ranks(attrs)),
    samples: || {
        let of = |a: &[usize], b: &[usize], batch: usize, summed: usize| {
            let inputs = [SampleInput::f32(a, -2.0, 2.0), SampleInput::f32(b, -2.0, 2.0)];
            Sample::new(inputs).attrs(ContractAttrs::attrs(batch, summed))
        };
        vec![
            of(&[2, 3, 4, 5], &[4, 5, 3], 0, 2),
            of(&[2, 3, 2, 4], &[2, 4, 3, 2], 1, 1),
            of(&[3, 2, 4], &[3, 2, 4], 2, 1),
            of(&[3], &[2, 2], 0, 0),
        ]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let (g, a, b) = (it.cotangent(), &it.inputs[0], &it.inputs[1]);
            let ContractionRanks { batch, k } = ranks(it.attrs);
            let (rows, columns) = (a.rank() - batch - k, b.rank() - batch - k);
            smallvec![
                it.needs[0].then(|| contract(g, &swapped(b, batch, k), batch, columns)),
                it.needs[1].then(|| contract(&swapped(a, batch, rows), g, batch, rows)),
            ]
        }),
        finite_derivatives: true,
        batching: Batching::Rule(|lanes| {
            let ContractionRanks { batch, k } = ranks(lanes.attrs);
            if lanes.mapped == [true, false] && batch == 0 {
                // Lanes become rows.
                return lanes.apply(lanes.attrs, lanes.inputs);
            }
            lanes.apply(&ContractAttrs::attrs(batch + 1, k), &[lanes.spread(0), lanes.spread(1)])
        }),
        body: None,
    },
};

fn ranks(attrs: &Attrs) -> ContractionRanks {
    let attrs = ContractAttrs::of(attrs);
    ContractionRanks { batch: attrs.batch(), k: attrs.summed() }
}

/// Returns a view in which `count` axes after the batch axes move to the end.
#[track_caller]
fn swapped(x: &Tensor, batch: usize, count: usize) -> Tensor {
    let axes = (0..batch).chain(batch + count..x.rank()).chain(batch..batch + count);
    permute(x, axes.collect::<Vec<_>>())
}

/// Contracts `a` `[batch.., m.., k..]` with `b` `[batch.., k.., n..]` over the `summed` axes `k`.
#[track_caller]
pub(in crate::ops) fn contract(a: &Tensor, b: &Tensor, batch: usize, summed: usize) -> Tensor {
    apply1(CONTRACT.op(), &ContractAttrs::attrs(batch, summed), &[a, b])
}

/// Returns `first + Σ a b`, where `a` `[steps, ..]` and `b` `[steps, ..]` are multiplied in each step as by a node with
/// these ranks. `of_a` and `of_b` give the order of an element's axes as operands of the node.
#[track_caller]
#[doc(hidden)]
pub fn sum_of_products(
    first: &Tensor,
    [a, b]: [&Tensor; 2],
    [of_a, of_b]: [&[usize]; 2],
    ContractionRanks { batch, k }: ContractionRanks,
) -> Tensor {
    let stacked = |x: &Tensor, axes: &[usize], outer: usize| {
        let inside = axes.iter().map(|it| it + 1);
        permute(x, inside.clone().take(outer).chain([0]).chain(inside.skip(outer)).collect::<Vec<_>>())
    };
    add(first, contract(&stacked(a, of_a, of_a.len() - k), &stacked(b, of_b, batch), batch, k + 1))
}
