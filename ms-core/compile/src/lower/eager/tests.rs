//! Tests the keys and the argument blocks of single ops.

use super::*;
use ms_ir::{BinaryOp, Inst};
use ms_ops::ops::{
    ADD, CLASS_INDEX, CONV, CONV_INPUT_GRAD, CONV_WEIGHT_GRAD, GATHER, IOTA, MATMUL, MAX_POOL, RESHAPE, SORT, SUM,
};
use std::collections::HashSet;

/// Builds the kernel of a call, for no particular target.
fn build(call: &Call) -> Kernel {
    match call.key.build(&Target::unbounded()) {
        Step::Kernel(kernel) => kernel,
        other => panic!("{other:?} is no kernel"),
    }
}

#[test]
fn one_kernel_serves_all_shapes_of_a_class() {
    let call = |shape: &[usize], b: &[usize]| {
        let (a, b) = (Layout::contiguous(shape), Layout::contiguous(b));
        let sources = [&a, &b].map(|it| Source::Memory(it, DType::F32));
        prepare_map(&ADD, &Attrs::none(), &sources, &Type::of(DType::F32, shape)).expect("add is one kernel")
    };
    assert_eq!(call(&[3], &[3]).key, call(&[2, 4, 8], &[2, 4, 8]).key);
    assert_eq!(call(&[3], &[3]).key, call(&[], &[]).key);
    assert_ne!(call(&[3], &[3]).key, call(&[3], &[1]).key);
    assert_ne!(call(&[2, 3], &[2, 3]).key, call(&[2, 3], &[3]).key);

    let call = call(&[2, 3], &[3]);
    let kernel = build(&call);
    assert_eq!((kernel.par, kernel.seq, kernel.lanes), (1, 0, LaneAxis::Parallel));
    assert!(kernel.insts.contains(&Inst::Binary(BinaryOp::Add, Val(0), Val(1))));
    let block = call.nest.argument_block([1000, 2000, 3000]);
    assert_eq!(&*block, &[2, 3, 1000, 12, 4, 2000, 0, 4, 3000, 12, 4]);
    assert_eq!(block.len(), kernel.call_words());
}

/// A host scalar is a word of the argument block, and neither its value nor its presence changes the loops.
#[test]
fn numbers_are_immediates() {
    let layout = Layout::contiguous(&[2, 3]).permute(&[1, 0]);
    let sources = [Source::Number(DType::F32), Source::Memory(&layout, DType::F32)];
    let call = prepare_map(&ADD, &Attrs::none(), &sources, &Type::of(DType::F32, &[3, 2])).expect("one kernel");
    let kernel = build(&call);
    kernel.check().expect("a kernel of an op is well formed");
    assert_eq!(
        kernel.params.iter().map(|it| it.role).collect::<Vec<_>>(),
        [Role::Immediate, Role::Input, Role::Output]
    );
    let words = [3, 2, 1000, 4, 12, 2000, 8, 4, 7];
    assert_eq!(&*call.block([1000, 2000], &[7], kernel.call_words()), &words);
    assert_eq!([0, 1, 2].map(|it| kernel.param_word(it)), [8, 2, 5]);
}

#[test]
fn reductions_by_row_and_by_column() {
    let in_precision = |shape: &[usize], axes: &[usize], precision: Precision| {
        let layout = Layout::contiguous(shape);
        let attrs = Attrs::new([Attr::from(axes), false.into()]);
        let out = (SUM.infer)(&attrs, &[&Type::of(DType::BF16, shape)]).expect("the axes exist").remove(0);
        prepare(&SUM, &attrs, &[(&layout, DType::BF16)], &out, precision, &Target::unbounded())
            .expect("a row-major operand needs no copy")
    };
    let call = |shape: &[usize], axes: &[usize]| in_precision(shape, axes, Precision::Highest);
    let rows = call(&[4, 32], &[1]);
    let kernel = build(&rows);
    assert_eq!((kernel.par, kernel.seq, kernel.lanes), (1, 0, LaneAxis::Reduced));
    assert_eq!(kernel.params[1].step, StrideClass::Zero);
    assert!(kernel.insts.iter().any(|it| matches!(it, Inst::Reduce(Reducer::Sum, _))));
    assert_eq!(&*rows.nest.argument_block([8, 16]), &[4, 32, 8, 64, 2, 16, 2, 0]);

    let columns = call(&[4, 32], &[0]);
    assert_eq!((columns.nest.par, columns.nest.seq, columns.nest.lanes), (0, 1, LaneAxis::Parallel));
    assert_eq!(&*columns.nest.argument_block([8, 16]), &[32, 4, 8, 2, 64, 16, 2, 0]);
    assert_eq!(&*call(&[2, 4, 8], &[0, 1, 2]).nest.extents, &[64]);

    let strict = in_precision(&[4, 32], &[1], Precision::Strict);
    assert_ne!(strict.key, rows.key);
    assert_eq!(build(&strict).order, ReductionOrder::Blocks);
}

/// Shapes, limits and texts of errors are no part of a check's code.
#[test]
fn one_kernel_checks_all_sizes() {
    let check = |def: &'static OpDef, attrs: Attrs, layout: &Layout, sizes: usize| {
        let call = prepare_check(def, &attrs, (layout, DType::I32), sizes);
        match call.key.build(&Target::unbounded()) {
            Step::Check { kernel, .. } => (kernel, call),
            other => panic!("{other:?} is no check"),
        }
    };
    let class = |classes: i64, caller: &str| Attrs::new([classes.into(), Attr::from(&[][..] as &[i64]), caller.into()]);
    let (kernel, call) = check(&CLASS_INDEX, class(7, "a"), &Layout::contiguous(&[2, 3]), 1);
    kernel.check().expect("a kernel of a check is well formed");
    assert_eq!(&*call.block([0, 1000, 0], &[7], kernel.call_words()), &[6, 0, 8, 1000, 4, 0, 0, 7]);
    for shape in [&[][..], &[1], &[5], &[4, 100]] {
        assert_eq!(check(&CLASS_INDEX, class(9, "b"), &Layout::contiguous(shape), 1).0, kernel, "{shape:?}");
    }
    let columns = Layout::contiguous(&[2, 3]).permute(&[1, 0]);
    let (kernel, call) = check(&GATHER, Attrs::new([0usize.into()]), &columns, 2);
    assert_eq!((kernel.par, kernel.seq, kernel.lanes), (0, 1, LaneAxis::Reduced));
    let words = [2, 3, 0, 8, 16, 1000, 12, 4, 0, 0, 0, 5, 10];
    assert_eq!(&*call.block([0, 1000, 0], &[5, 10], kernel.call_words()), &words);
}

#[test]
fn positions_have_bases() {
    let attrs = Attrs::new([Attr::from(&[8usize][..]), 0usize.into(), 0i64.into(), 1i64.into(), DType::I64.into()]);
    let out = (IOTA.infer)(&attrs, &[]).expect("it needs no operands").remove(0);
    let call = prepare(&IOTA, &attrs, &[], &out, Precision::Highest, &Target::unbounded()).expect("iota is one kernel");
    let kernel = build(&call);
    assert!(kernel.reads_position());
    assert_eq!(kernel.call_words(), call.nest.argument_block([1000]).len() + kernel.loops());
    assert_eq!(kernel.base_word(0), 3);
}

/// Convolutions are products. Other library ops have one key for all precisions.
#[test]
fn precisions_that_change_nothing_have_one_key() {
    let [x, w] = [&[1, 2, 4, 4][..], &[3, 2, 3, 3]].map(|it| Array::zeros(it, DType::F32));
    let key = |def: &'static OpDef, precision| StepKey::whole(def, &Attrs::none(), &[&x, &w], precision);
    let keys = |def| Precision::ALL.map(|it| key(def, it)).into_iter().collect::<HashSet<_>>().len();
    let defs = [&CONV, &CONV_INPUT_GRAD, &CONV_WEIGHT_GRAD, &MATMUL, &MAX_POOL, &SORT];
    assert_eq!(defs.map(keys), [4, 4, 4, 4, 1, 1]);
}

#[test]
fn views_are_no_kernels() {
    let layout = Layout::contiguous(&[2]);
    let out = Type::of(DType::F32, &[2]);
    assert!(
        prepare(&RESHAPE, &Attrs::none(), &[(&layout, DType::F32)], &out, Precision::Highest, &Target::unbounded())
            .is_none()
    );
    let copy = prepare_copy(&Layout::contiguous(&[3, 2]).permute(&[1, 0]), DType::I8);
    assert_eq!(build(&copy).insts.len(), 2);
}
