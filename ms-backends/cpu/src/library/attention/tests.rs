//! Tests native attention against the bodies of the composites, which the reference evaluates.

use super::QUERIES;
use crate::library::EagerOp;
use crate::library::eager::placed;
use ms_compile::exec::ArrayLayout;
use ms_ir::Precision;
use ms_ir::data::{Array, Attrs, DType, Scalar, Type};
use ms_ops::ops::{BLOCKED_ATTENTION, BLOCKED_ATTENTION_GRAD, BlockedAttentionAttrs, OpDef, SampleInput};
use ms_x64::Isa;
use ms_x64::gemm::Arithmetic;

/// Returns the results of an op by native loops.
fn native(isa: Isa, def: &'static OpDef, attrs: &Attrs, inputs: &[&Array]) -> Vec<Array> {
    let types: Vec<Type> = inputs.iter().map(|it| it.ty()).collect();
    let types = (def.infer)(attrs, &types.iter().collect::<Vec<_>>()).expect("the operands fit");
    // Initial values reveal elements that are never written.
    let filled = |it: &Type| Array::full(&it.shape().expect("sizes are constant"), Scalar::Float(7e7), it.dtype);
    let results: Vec<Array> = types.iter().map(filled).collect();
    let op = EagerOp::new(Arithmetic::new(isa, Precision::Strict), def.op(), attrs.clone());
    // SAFETY: the results have the types of the type rule, and only this call accesses them.
    unsafe { op.run(inputs, &results, &[]) }.expect("there is memory");
    assert!(op.is_prepared(), "{} runs no native code", def.name());
    results
}

fn numbers(of: &Array) -> Vec<f64> {
    of.on_host().expect("the elements are readable").scalars().into_iter().map(|it| it.as_f64()).collect()
}

#[track_caller]
fn near(what: &str, got: &[Array], want: &[Array]) {
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let (got, want) = (numbers(got), numbers(want));
        let largest = want.iter().filter(|it| it.is_finite()).fold(1f64, |most, it| most.max(it.abs()));
        for (element, (a, b)) in got.iter().zip(&want).enumerate() {
            let is_near = (a - b).abs() <= 2e-5 * largest || (a.is_nan() && b.is_nan()) || a == b;
            assert!(is_near, "{what}: element {element} of result {at} is {a}, not {b}");
        }
    }
}

/// A case of attention: the shapes of the operands, and the mask.
struct Case {
    shapes: [Vec<usize>; 3],
    mask: Option<Array>,
    causal: bool,
}

impl Case {
    fn operands(&self) -> Vec<Array> {
        let operand = |(seed, shape): (usize, &Vec<usize>)| SampleInput::of(DType::F32, shape, -1.5, 1.5).array(seed);
        self.shapes.iter().enumerate().map(operand).chain(self.mask.clone()).collect()
    }

    fn attrs(&self) -> Attrs {
        BlockedAttentionAttrs::attrs(self.causal, true, 0.6, QUERIES)
    }

    /// Returns the operands of the gradient: attention's operands, its result, and the result's cotangent.
    fn of_gradient(&self, operands: &[Array], result: &Array) -> Vec<Array> {
        let cotangent = SampleInput::of(DType::F32, result.shape(), -1.0, 1.0).array(11);
        let mut all = operands[..3].to_vec();
        all.extend([result.clone(), cotangent]);
        all.extend_from_slice(&operands[3..]);
        all
    }
}

#[track_caller]
fn check(case: &Case) {
    let attrs = case.attrs();
    let operands = case.operands();
    let inputs: Vec<&Array> = operands.iter().collect();
    let want = (BLOCKED_ATTENTION.eval)(&attrs, &inputs).expect("the operands fit");
    let of_gradient = case.of_gradient(&operands, &want[0]);
    let of_gradient: Vec<&Array> = of_gradient.iter().collect();
    let gradients = (BLOCKED_ATTENTION_GRAD.eval)(&attrs, &of_gradient).expect("the operands fit");
    for isa in Isa::ALL.into_iter().filter(|it| it.is_supported()) {
        let types: Vec<Type> = inputs.iter().map(|it| it.ty()).collect();
        let what = format!("{types:?}, causal: {}, {isa}", case.causal);
        near(&what, &native(isa, &BLOCKED_ATTENTION, &attrs, &inputs), &want);
        near(&what, &native(isa, &BLOCKED_ATTENTION_GRAD, &attrs, &of_gradient), &gradients);
    }
}

/// Checks attention of a batch with these numbers of queries, keys, features and values.
#[track_caller]
fn check_sizes(batch: &[usize], [queries, keys, features, values]: [usize; 4]) {
    let shape = |rows, columns| [batch, &[rows, columns]].concat();
    let shapes = || [shape(queries, features), shape(keys, features), shape(keys, values)];
    for causal in [false, true] {
        check(&Case { shapes: shapes(), mask: None, causal });
    }
}

#[test]
fn sizes_at_the_edges_of_blocks() {
    for [queries, keys] in [[1, 1], [47, 48], [48, 47], [49, 96], [97, 33], [5, 70], [70, 5]] {
        check_sizes(&[2], [queries, keys, 5, 3]);
    }
    for [features, values] in [[1, 1], [16, 17], [33, 8], [64, 32]] {
        check_sizes(&[3], [50, 50, features, values]);
    }
    for [features, values] in [[0, 2], [2, 0], [0, 0]] {
        check_sizes(&[2], [50, 51, features, values]);
    }
    // More keys than a block has, and none.
    check_sizes(&[], [50, 1100, 3, 2]);
    check_sizes(&[], [1100, 1100, 2, 1]);
    check_sizes(&[2, 2], [3, 2050, 2, 2]);
    check_sizes(&[2], [3, 0, 2, 2]);
    check_sizes(&[0], [3, 4, 2, 2]);
}

#[test]
fn operands_are_broadcast() {
    let shape = |it: &[usize]| it.to_vec();
    for [q, k, v] in [
        [&[2, 3, 50, 4][..], &[3, 51, 4], &[51, 2]],
        [&[50, 4], &[2, 1, 51, 4], &[1, 3, 51, 2]],
        [&[2, 1, 50, 4], &[1, 3, 51, 4], &[2, 3, 51, 2]],
    ] {
        for causal in [false, true] {
            check(&Case { shapes: [shape(q), shape(k), shape(v)], mask: None, causal });
        }
    }
}

#[test]
fn masks() {
    let of = |dtype, shape: &[usize]| SampleInput::of(dtype, shape, -1.0, 1.0).array(5);
    let shapes = || [vec![2, 2, 50, 4], vec![2, 2, 51, 4], vec![2, 2, 51, 2]];
    for shape in [&[2, 2, 50, 51][..], &[2, 1, 1, 51], &[2, 50, 1], &[50, 51], &[51], &[1, 1], &[]] {
        for (dtype, causal) in [(DType::F32, false), (DType::Bool, false), (DType::Bool, true), (DType::I64, true)] {
            check(&Case { shapes: shapes(), mask: Some(of(dtype, shape)), causal });
        }
    }
}

/// A positive infinite or NaN score makes its row NaN; a query without keys has zeros.
#[test]
fn what_is_not_finite() {
    for (value, keys) in
        [(f32::NEG_INFINITY, 0..51), (f32::NEG_INFINITY, 3..40), (f32::INFINITY, 7..8), (f32::NAN, 50..51)]
    {
        let mut mask = vec![0f32; 50 * 51];
        mask[20 * 51..21 * 51][keys].fill(value);
        let mask = Some(Array::from_slice(&[50, 51], &mask));
        check(&Case { shapes: [vec![50, 4], vec![51, 4], vec![51, 2]], mask, causal: false });
    }
    // Whole blocks of excluded keys, at the beginning and at the end.
    for keys in [0..1030, 1020..1100] {
        let mut mask = vec![0f32; 1100];
        mask[keys].fill(f32::NEG_INFINITY);
        let mask = Some(Array::from_slice(&[1100], &mask));
        check(&Case { shapes: [vec![3, 4], vec![1100, 4], vec![1100, 2]], mask, causal: false });
    }
}

#[test]
fn only_masks_have_other_dtypes() {
    let attrs = BlockedAttentionAttrs::attrs(false, true, 0.6, QUERIES);
    let operands = |at: usize, count: usize, dtype: DType| -> Vec<Array> {
        let of = |it: usize| if it == at { dtype } else { DType::F32 };
        (0..count).map(|it| SampleInput::of(of(it), &[2, 2], 0.0, 3.0).array(it)).collect()
    };
    let isa = Isa::ALL.into_iter().find(|it| it.is_supported()).expect("one is");
    for (def, mask) in [(&BLOCKED_ATTENTION, 3), (&BLOCKED_ATTENTION_GRAD, 5)] {
        for dtype in DType::ALL.into_iter().filter(|&it| it != DType::F32) {
            for at in 0..mask {
                let layouts: Vec<ArrayLayout> = operands(at, mask, dtype).iter().map(|it| placed(it).0).collect();
                let code = super::prepare(isa, def.op(), &attrs, &layouts).expect("there is memory");
                assert!(code.is_none(), "{} with {dtype} for operand {at}", def.name());
            }
        }
        let operands = operands(mask, mask + 1, DType::U32);
        let inputs: Vec<&Array> = operands.iter().collect();
        let want = (def.eval)(&attrs, &inputs).expect("the operands fit");
        near("a mask of integers", &native(isa, def, &attrs, &inputs), &want);
    }
}
