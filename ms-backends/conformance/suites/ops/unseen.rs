//! Tests attention with queries that use no key: the results and gradients are zeros in every implementation.

use super::numbers;
use ms::internals::session::{Compiled, Precision};
use ms::internals::trace;
use ms::prelude::*;

/// The first query that may use keys. All keys are excluded for earlier queries.
const FIRST: usize = 2;

fn operand(rows: usize, dtype: DType) -> Tensor {
    let values: Vec<f64> = (0..rows * 2).map(|at| ((at + 1) as f64 * 0.618).fract() - 0.5).collect();
    Tensor::from_slice([rows, 2], &values).cast(dtype)
}

/// Returns a mask `[queries, keys]` of bools, or of numbers that are added.
fn mask(queries: usize, keys: usize, added: Option<DType>) -> Tensor {
    let used = ops::broadcast_to(ops::arange(queries as i64).ge(FIRST as i64).expand_dims(-1), [queries, keys]);
    match added {
        Some(dtype) => {
            let all = |value: f64| ops::full_of([queries, keys], value, dtype);
            ops::select(used, all(0.25), all(f64::NEG_INFINITY))
        }
        None => used,
    }
}

/// Returns the result, and the gradients of the sum of its squares.
fn attended(all: &[Tensor], causal: bool) -> Vec<Tensor> {
    let of = |wrt: &Vec<Tensor>| {
        let options = ops::AttentionOptions { mask: all.get(3).cloned(), causal, scale: None };
        ops::scaled_dot_product_attention(&wrt[0], &wrt[1], &wrt[2], &options)
    };
    let wrt = all[..3].to_vec();
    [of(&wrt)].into_iter().chain(ms::grad(|wrt: &Vec<Tensor>| of(wrt).square().sum(()))(&wrt)).collect()
}

fn check(what: &str, [queries, keys]: [usize; 2], causal: bool, all: &[Tensor]) {
    let types: Vec<_> = all.iter().map(Tensor::ty).collect();
    let compiled = |precision| {
        let graph = trace::build("attended", &types, |it| Ok(attended(it, causal))).expect("attention is traced");
        Compiled::new(&graph, precision).and_then(|it| it.run(all)).expect("the graph runs").into_vec()
    };
    let ways = [attended(all, causal), compiled(Precision::Highest), compiled(Precision::Strict)];
    for (way, results) in ways.iter().enumerate() {
        let (y, of_q) = (numbers(&results[0]), numbers(&results[1]));
        let unseen = if keys == 0 { queries } else { FIRST };
        let what = format!("{what}, {queries} queries, {keys} keys, causal {causal}, way {way}");
        assert!(y[..unseen * 2].iter().chain(&of_q[..unseen * 2]).all(|&it| it == 0.0), "{what}: {y:?}, {of_q:?}");
        assert!(results.iter().flat_map(numbers).all(f64::is_finite), "{what}");
        assert!(keys == 0 || y[unseen * 2..].iter().all(|&it| it != 0.0), "{what}: {y:?}");
    }
}

#[test]
fn results_and_gradients_are_zeros() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        for ([queries, keys], causal) in
            [[4, 3], [3, 4], [5, 5], [3, 0]].iter().flat_map(|it| [(*it, false), (*it, true)])
        {
            for added in [None, Some(dtype), Some(DType::F32)] {
                let all =
                    [operand(queries, dtype), operand(keys, dtype), operand(keys, dtype), mask(queries, keys, added)];
                check(&format!("{dtype}, mask of {added:?}"), [queries, keys], causal, &all);
            }
        }
    }
    // For this number of queries, native code computes attention in blocks.
    for added in [None, Some(DType::F32)] {
        let (queries, keys) = (4100, 1100);
        let all = [
            operand(queries, DType::F32),
            operand(keys, DType::F32),
            operand(keys, DType::F32),
            mask(queries, keys, added),
        ];
        check("in blocks", [queries, keys], false, &all);
    }
}

#[test]
fn layers_and_weights() {
    let layer = nn::MultiheadAttention::new(2, 1).batch_first(true);
    let x = operand(3, DType::F32).expand_dims(0);
    let none = nn::AttentionMask::padding(Tensor::from_slice([1, 3], &[true; 3]));
    let loss = |x: &Tensor| layer.call(x, x, x, &none).square().sum(());
    assert!(numbers(&layer.call(&x, &x, &x, &none)).iter().all(|&it| it == 0.0), "the bias is zero");
    assert!(numbers(&ms::grad(loss)(&x)).iter().all(|&it| it == 0.0));
    assert!(numbers(&layer.weights(&x, &x, &none)).iter().all(|&it| it == 0.0));
}
