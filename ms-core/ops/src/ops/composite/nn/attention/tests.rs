//! Tests that blocked attention equals attention.

use super::block::Block;
use super::{AttentionAttrs, BLOCKED_ATTENTION, BlockedAttentionAttrs, SCALED_DOT_PRODUCT_ATTENTION};
use crate::ops::core::testing::{run, scattered};
use crate::ops::{Arrays, flops, full_of};
use crate::tensor::{Array, DType, Tensor, Type};
use ms_ir::error::Result;

/// Evaluates attention at once, or in blocks of `queries` queries.
fn attend(causal: bool, scale: Option<f64>, queries: Option<usize>, inputs: &[&Array]) -> Result<Arrays> {
    let (scaled, scale) = (scale.is_some(), scale.unwrap_or(1.0));
    match queries {
        Some(it) => (BLOCKED_ATTENTION.eval)(&BlockedAttentionAttrs::attrs(causal, scaled, scale, it), inputs),
        None => (SCALED_DOT_PRODUCT_ATTENTION.eval)(&AttentionAttrs::attrs(causal, scaled, scale), inputs),
    }
}

#[test]
fn blocks_do_not_change_results() {
    let numbers = |shape: &[usize], seed| scattered(shape, DType::F32, -1.0, 1.0, seed);
    let bools = |shape: &[usize]| scattered(shape, DType::Bool, 0.0, 1.0, 9);
    // More queries than keys, fewer, and equally many.
    for [queries, keys] in [[7, 4], [4, 7], [5, 5], [0, 3]] {
        let operands = [numbers(&[2, queries, 3], 1), numbers(&[2, keys, 3], 2), numbers(&[2, keys, 2], 3)];
        let mut masks = vec![None, Some(numbers(&[queries, 1], 4)), Some(bools(&[2, queries, keys]))];
        masks.extend([&[keys][..], &[1, keys], &[2, 1, keys], &[1, 1], &[]].map(|it| Some(numbers(it, 5))));
        for (mask, causal) in masks.iter().flat_map(|it| [(it, false), (it, true)]) {
            let inputs: Vec<&Array> = operands.iter().chain(mask).collect();
            let attended = |of_block: Option<usize>| {
                let results = attend(causal, Some(0.5), of_block, &inputs).expect("the operands fit");
                results[0].on_host().expect("the elements are readable").scalars()
            };
            let whole = attended(None);
            for of_block in [1, 2, 3, 16, usize::MAX] {
                for (a, b) in attended(Some(of_block)).into_iter().zip(&whole) {
                    let (a, b) = (a.as_f64(), b.as_f64());
                    // The first query may have no key.
                    let is_near = (a - b).abs() <= 1e-6 || (a.is_nan() && b.is_nan());
                    assert!(is_near, "{a} is not {b}: {mask:?}, {causal}, blocks of {of_block}");
                }
            }
        }
    }
}

/// Checks that blocks refuse whatever attention at once refuses, instead of slicing incompatible operands to legal
/// ones.
#[test]
fn operands_that_do_not_fit() {
    let check = |[q, k, v]: [&[usize]; 3], mask: Option<&[usize]>| {
        let arrays: Vec<Array> =
            [q, k, v].into_iter().chain(mask).map(|it| scattered(it, DType::F32, -1.0, 1.0, 1)).collect();
        let inputs: Vec<&Array> = arrays.iter().collect();
        for causal in [false, true] {
            let refused = |of_block: Option<usize>| {
                let error = attend(causal, None, of_block, &inputs).expect_err("operands do not fit");
                // The lines differ in the location in the body only.
                let lines = error.to_string().lines().filter(|it| !it.contains("-->")).collect::<Vec<_>>().join("\n");
                (error.code(), lines)
            };
            assert_eq!(refused(None), refused(Some(2)), "{q:?}, {k:?}, {v:?}, {mask:?}");
        }
    };
    check([&[4, 3], &[5, 3], &[6, 2]], None);
    check([&[4, 3], &[5, 3], &[4, 2]], None);
    check([&[4, 3], &[5, 2], &[5, 2]], None);
    check([&[4, 3], &[5, 3], &[5, 2]], Some(&[4, 6]));
    check([&[4, 3], &[5, 3], &[5, 2]], Some(&[5, 5]));
    check([&[4, 3], &[5, 3], &[5, 2]], Some(&[3]));
    check([&[2, 4, 3], &[2, 5, 3], &[2, 5, 2]], Some(&[3, 4, 5]));
}

#[test]
fn blocks_hold_four_million_scores_or_128_queries() {
    let of = |operands: &[&[usize]]| {
        run(|| {
            let operands: Vec<Tensor> = operands.iter().map(|it| full_of(*it, 0.0, DType::F32)).collect();
            Block::whole(&operands.iter().collect::<Vec<_>>()).queries_of_blocks()
        })
    };
    let check = |q: &[usize], k: &[usize], want: Option<usize>| assert_eq!(of(&[q, k, k]), want, "{q:?}, {k:?}");
    check(&[2048, 1], &[2048, 1], None);
    check(&[2049, 1], &[2048, 1], Some(1040));
    check(&[3, 2, 1024, 1], &[1024, 1], Some(512));
    check(&[1024, 1], &[3, 2, 1024, 1], Some(512));
    check(&[2, 1, 1024, 1], &[3, 1024, 1], Some(512));
    check(&[16, 4096, 1], &[16, 4096, 1], Some(128));
    check(&[4, 1 << 21, 1], &[4, 1, 1], Some(1 << 20));
    check(&[0, 1 << 20, 1], &[0, 1 << 20, 1], None);
    check(&[1 << 20, 1], &[0, 1], None);
    check(&[2], &[4096, 4096], None);
    // Incompatible operands are not partitioned.
    assert_eq!(of(&[&[4096, 1], &[2048, 1], &[2048]]), None);
    assert_eq!(of(&[&[4096, 1], &[2048, 1], &[2049, 1]]), None);
    assert_eq!(of(&[&[4096, 1], &[2048, 1], &[2048, 1], &[2049]]), None);
}

#[test]
fn operations_are_those_of_the_body() {
    let of = |shape: &[usize]| Type::of(DType::F32, shape);
    let inputs = [of(&[2, 6, 4]), of(&[2, 5, 4]), of(&[2, 5, 3])];
    let count = |causal, queries| {
        let attrs = BlockedAttentionAttrs::attrs(causal, true, 1.0, queries);
        flops(BLOCKED_ATTENTION.op(), &attrs, &inputs.each_ref(), &[of(&[2, 6, 3])])
    };
    let products = 2 * 2 * 6 * 5 * (4 + 3);
    assert!((products + 60..2 * products).contains(&count(false, 6usize)), "{}", count(false, 6usize));
    assert_eq!(count(false, 2usize), count(false, 6usize));
    // Causal blocks skip keys that none of their queries uses.
    assert!(count(true, 2usize) < count(true, 6usize));
}
