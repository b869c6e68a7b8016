//! Tests cases that have the same outcome eagerly and compiled.

use super::{Case, Gives, NAN, Refused, check, empty, image, row, verdict};
use ms::Code;
use ms::ops::{CrossEntropy, Reduction};
use ms::prelude::*;
use ms_conformance::late_errors::catch;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn pair() -> [Tensor; 2] {
    [Tensor::ones([2, 4]), Tensor::ones([4])]
}

fn grouped(groups: usize) -> Tensor {
    let [x, per_channel] = pair();
    ops::group_norm(x, groups, &per_channel, &per_channel, 0.5)
}

/// Cases that have the same outcome eagerly and compiled.
static ONE_RULE: &[Case] = &[
    Case("no groups", || grouped(0), Refused(Code::Argument)),
    Case("groups that do not divide", || grouped(3), Refused(Code::Argument)),
    Case("more groups than channels", || grouped(8), Refused(Code::Argument)),
    Case("groups of one channel", || grouped(4), Gives(&[2, 4], &[1.0; 8])),
    Case("the batch norm of one row", || nn::BatchNorm::new(4).call(&Tensor::ones([1, 4])), Refused(Code::Argument)),
    Case("the batch norm of no row", || nn::BatchNorm::new(4).call(&Tensor::ones([0, 4])), Refused(Code::Argument)),
    Case(
        "the batch norm of one picture",
        || nn::BatchNorm::new(1).call(&image([1, 2])),
        Gives(&[1, 1, 1, 2], &[0.0; 2]),
    ),
    Case(
        "batch_norm of one row",
        || ops::batch_norm(Tensor::ones([1, 4]), Tensor::ones([4]), Tensor::ones([4]), None, 1e-5),
        Refused(Code::Argument),
    ),
    Case(
        "instance_norm of one place",
        || ops::instance_norm(Tensor::ones([2, 4, 1]), Tensor::ones([4]), Tensor::ones([4]), 1e-5),
        Refused(Code::Argument),
    ),
    Case("layer_norm from far off", || ops::layer_norm(row(), None, None, -(1 << 40), 0.5), Refused(Code::OutOfRange)),
    Case("layer_norm behind the end", || ops::layer_norm(row(), None, None, 1, 0.5), Refused(Code::OutOfRange)),
    Case("rms_norm from far off", || ops::rms_norm(row(), row(), 1 << 40, 0.5), Refused(Code::OutOfRange)),
    Case("dropout of all", || ops::dropout(row(), 1.0), Refused(Code::Argument)),
    Case("dropout of fewer than none", || ops::dropout(row(), -0.5), Refused(Code::Argument)),
    Case("dropout with nan", || ops::dropout(row(), NAN), Refused(Code::Argument)),
    Case("huber_loss without a bend", || ops::huber_loss(row(), row(), 0.0, Reduction::Mean), Refused(Code::Argument)),
    Case("a negative beta", || ops::smooth_l1_loss(row(), row(), -1.0, Reduction::Mean), Refused(Code::Argument)),
    Case("a beta of zero", || ops::smooth_l1_loss(row(), row() * 2, 0.0, Reduction::Sum), Gives(&[], &[6.0])),
    Case(
        "smoothing above one",
        || CrossEntropy { label_smoothing: 1.5, ..CrossEntropy::default() }.of(row(), tensor![1].at(0)),
        Refused(Code::Argument),
    ),
    Case(
        "a class to ignore among distributions",
        || CrossEntropy { ignore_index: Some(1), ..CrossEntropy::default() }.of(row(), row()),
        Refused(Code::Argument),
    ),
    Case(
        "a padding outside the table",
        || ops::embedding(tensor![0], Tensor::ones([3, 2]), Some(3)),
        Refused(Code::OutOfRange),
    ),
    Case("a negative deviation", || random::normal([2], 0.0, -1.0), Refused(Code::Argument)),
    Case("a range backwards", || random::uniform([2], 1.0, 0.0), Refused(Code::Argument)),
    Case("an infinite range", || random::uniform([2], 0.0, f64::INFINITY), Refused(Code::Argument)),
    // An index out of range is an error, whether or not the result has elements.
    Case("rows of no element", || ops::gather(Tensor::ones([3, 0]), tensor![7], 0), Refused(Code::OutOfRange)),
    Case("rows of rows", || ops::gather_nd(Tensor::ones([3, 0]), tensor![[7]]), Refused(Code::OutOfRange)),
    Case(
        "take from nothing",
        || ops::take_along_axis(Tensor::ones([0, 1]), tensor![[0]], 0),
        Refused(Code::OutOfRange),
    ),
    Case("scatter to nothing", || ops::scatter(empty(), tensor![0], tensor![1.0], 0), Refused(Code::OutOfRange)),
    Case("add to nothing", || ops::scatter_add(empty(), tensor![0], tensor![1.0], 0), Refused(Code::OutOfRange)),
    Case("add rows to nothing", || ops::index_add(empty(), tensor![0], tensor![1.0], 0), Refused(Code::OutOfRange)),
    Case(
        "add slices to nothing",
        || ops::scatter_nd_add(Tensor::ones([3, 0]), tensor![[-4]], Tensor::ones([1, 0])),
        Refused(Code::OutOfRange),
    ),
    Case("rows of no element that are there", || ops::gather(Tensor::ones([3, 0]), tensor![2], 0), Gives(&[1, 0], &[])),
    // These cases have empty views, and many empty rows.
    Case("the sum of nothing backwards", || Tensor::ones([0, 3]).flip(1).sum(()), Gives(&[], &[0.0])),
    Case("the product of nothing backwards", || Tensor::ones([2, 0, 3]).flip([0, 2]).prod(()), Gives(&[], &[1.0])),
    Case("sums of nothing backwards", || Tensor::ones([0, 3]).flip([0, 1]).sum(0), Gives(&[3], &[0.0; 3])),
    Case(
        "nothing turned and backwards",
        || Tensor::ones([3, 0]).t().flip(1).sum(keepdims([0, 1])),
        Gives(&[1, 1], &[0.0]),
    ),
    Case("whether any of nothing", || Tensor::ones([0, 3]).flip(1).gt(0.0).any(()), Gives(&[], &[0.0])),
    Case(
        "layer_norm of nothing backwards",
        || ops::layer_norm(Tensor::ones([0, 2, 3]).flip(2), None, None, 0, 1e-5),
        Gives(&[0, 2, 3], &[]),
    ),
    Case("a sum with many empty rows", || Tensor::zeros([1 << 40, 0]) + 1.0, Gives(&[1 << 40, 0], &[])),
    Case(
        "many empty rows turned",
        || Tensor::zeros([1 << 40, 0, 2]).transpose(0, 2) * 2.0,
        Gives(&[2, 0, 1 << 40], &[]),
    ),
    Case("the sum of many empty rows", || Tensor::zeros([1 << 40, 0]).sum(()), Gives(&[], &[0.0])),
    Case("eye without columns", || ops::eye_of(1usize << 40, 0, 0, DType::F32), Gives(&[1 << 40, 0], &[])),
    Case("numbers of many empty rows", || ops::iota([1 << 40, 0], 0, DType::I64), Gives(&[1 << 40, 0], &[])),
    Case("eye far below", || ops::eye_of(2, 2, isize::MIN + 7, DType::F32), Gives(&[2, 2], &[0.0; 4])),
    Case("randint from far below", || random::randint([1], -i64::MAX, 0).lt(0), Gives(&[1], &[1.0])),
    Case("randint from the least", || random::randint([1], i64::MIN, 0).lt(0), Gives(&[1], &[1.0])),
    Case("randint from below half of all", || random::randint([1], i64::MIN / 2 - 9, 0).lt(0), Gives(&[1], &[1.0])),
];

#[jit]
fn ruled(at: usize) -> Tensor {
    (ONE_RULE[at].1)()
}

#[test]
fn one_rule_holds_eagerly_and_compiled() {
    check(ONE_RULE);
    let compiled = ONE_RULE.iter().enumerate().filter_map(|(at, case)| {
        let Ok(outcome) = catch_unwind(AssertUnwindSafe(|| catch(|| ruled(at)))) else {
            return Some(format!("{}, compiled: panicked without an error", case.0));
        };
        Some(format!("{}, compiled: {}", case.0, verdict(outcome, &case.2)?))
    });
    let found: Vec<String> = compiled.collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
