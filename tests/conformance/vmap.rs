//! Runs the cases of MindSpore's tests of `vmap` (`tests/st/vmap`), with the same numbers eagerly and compiled.

use ms::prelude::*;
use ms::{grad, jit, vmap, vmap_cells};

/// A row: the name of the test, its results in all variants, and the numbers of each result.
struct Row {
    test: &'static str,
    run: fn() -> Vec<Tensor>,
    want: Vec<f32>,
}

// --- test_vmap_graph::test_vmap_cond ---

#[jit]
fn constant_conditions(x: &Tensor, y: &Tensor) -> Tensor {
    let (mut a, b) = (Tensor::scalar(2.0), Tensor::scalar(5.0));
    let mut out = x + y;
    out = out + 1.0;
    if a < b {
        out = out + &a + &b;
    } else {
        out = out - &a;
    }
    while a < b {
        out = out + &a;
        a = a + 1.0;
    }
    out
}

fn conditions() -> Vec<Tensor> {
    let (x, y) = (tensor![2.0, 3.0, 1.0], tensor![5.0, 4.0, 3.0]);
    vec![vmap(constant_conditions)(&x, &y), jit(vmap(constant_conditions))(&x, &y)]
}

// --- test_vmap_graph::test_vmap_reduce ---

fn reductions() -> Vec<Tensor> {
    let rows = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]];
    let x = rows.reshape([1, 3, 1, 3]).broadcast_to([6, 3, 3, 3]);
    let all = |x: &Tensor| ops::sum(x, ());
    let kept = |x: &Tensor| ops::sum(x, keepdims(()));
    let listed = |x: &Tensor| ops::sum(x, [0, 1, 2]);
    let negative = |x: &Tensor| ops::sum(x, keepdims([-1, -3, -2]));
    let in_turn = |x: &Tensor| ops::sum(ops::sum(x, 0), [0, 1]);
    let pairs = |x: &Tensor| ops::sum(ops::sum(x, keepdims([0, 2])), keepdims(1));
    let both = |it: [Tensor; 2]| it.map(|it| it.reshape([3]));
    [
        both([vmap(all).in_axes(1)(&x), jit(vmap(all).in_axes(1))(&x)]),
        both([vmap(kept).in_axes(1)(&x), jit(vmap(kept).in_axes(1))(&x)]),
        both([vmap(listed).in_axes(1)(&x), jit(vmap(listed).in_axes(1))(&x)]),
        both([vmap(negative).in_axes(1)(&x), jit(vmap(negative).in_axes(1))(&x)]),
        both([vmap(in_turn).in_axes(1)(&x), jit(vmap(in_turn).in_axes(1))(&x)]),
        both([vmap(pairs).in_axes(1)(&x), jit(vmap(pairs).in_axes(1))(&x)]),
    ]
    .concat()
}

// --- test_vmap_graph::test_vmap_general_rule ---

fn convolve(x: &Tensor, w: &Tensor) -> Tensor {
    let taps = w.shape()[0];
    let places = 0..x.shape()[0] + 1 - taps;
    let out: Vec<Tensor> = places.map(|at| ops::sum(x.i(at..at + taps) * w, ())).collect();
    ops::stack(&out, 0)
}

fn convolutions() -> Vec<Tensor> {
    let (x, w) = (Tensor::arange(5.0), tensor![1.0, 2.0, 3.0]);
    let (xs, ws) = (ops::stack(&[&x, &x, &x], 0), ops::stack(&[&w, &w, &w], 0));
    vec![vmap(convolve)(&xs, &ws), jit(vmap(convolve))(&xs, &ws), vmap(convolve).in_axes((0, None))(&xs, &w)]
}

fn scaled_convolutions() -> Vec<Tensor> {
    let (x, w) = (Tensor::arange(5.0), tensor![1.0, 2.0, 3.0]);
    let xs = ops::stack(&[&x, &(&x + 1.0), &(&x + 2.0)], 0);
    let ws = ops::stack(&[&w, &(&w * 2.0), &(&w * 3.0)], 0);
    vec![vmap(convolve)(&xs, &ws), jit(vmap(convolve))(&xs, &ws)]
}

// --- test_vmap_graph: celllist_nested_grad ---

#[cell]
struct Assigning {
    held: Parameter,
}

#[cell]
impl Assigning {
    fn new(value: f32) -> Self {
        Self { held: Parameter::init("held", [2], DType::F32, || Tensor::full([2], value)) }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        self.held.set(x);
        // The written value is a constant, so only the second term has a gradient.
        self.held.value() * self.held.value() + x * 2.0
    }
}

fn ensemble_gradients() -> Vec<Tensor> {
    let models = [Assigning::new(1.0), Assigning::new(2.0), Assigning::new(3.0)];
    let x = tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
    let loss = |x: &Tensor| vmap_cells(&models)(x);
    let gradient = grad(loss)(&x);
    for (i, model) in models.iter().enumerate() {
        assert_eq!(model.held.value().to_vec::<f32>(), x.at(i as isize).to_vec::<f32>());
    }
    let each = vmap(|row: &Tensor| grad(|x: &Tensor| models[0].call(x))(row)).in_axes(0);
    // Every lane would write the same cell.
    assert_eq!(ms::catch(|| each(&x)).expect_err("refused").code(), ms::Code::Mapped);
    vec![gradient, jit(gradients_inside)(&x)]
}

fn gradients_inside(x: &Tensor) -> Tensor {
    let models: Vec<Assigning> = (0..3).map(|_| Assigning::new(1.0)).collect();
    grad(|x: &Tensor| vmap_cells(&models)(x))(x)
}

// --- test_vmap_pynative::test_vmap_nested ---

#[jit]
fn sum(x: &Tensor, y: &Tensor) -> Tensor {
    x + y
}

fn nested() -> Vec<Tensor> {
    let (x, y) = (Tensor::arange(8.0).reshape([2, 4]) + 1.0, tensor![1.0, 4.0]);
    let free = tensor![1.0];
    let inner = |x: &Tensor| vmap(|y: &Tensor| sum(x, y) + free.at(0))(&y);
    let captured = vmap(|row: &Tensor| vmap(inner)(row))(&x);
    let plain = |x: &Tensor, y: &Tensor, free: &Tensor| sum(x, y) + free.at(0);
    let lanes = vmap(plain).in_axes((None, 0, None));
    let lanes = vmap(vmap(lanes).in_axes((0, None, None))).in_axes((0, None, None));
    let given = lanes(&x, &y, &free);
    vec![captured, given, jit(lanes)(&x, &y, &free)]
}

// --- test_vmap_pynative::test_vmap_monad ---

fn written(slot: &Parameter, value: &Tensor, more: &Tensor, row: &Tensor, update: &Tensor) -> Tensor {
    slot.set(value);
    slot.set(&(slot.value() + more));
    ops::print("{}", &[&slot.value()]);
    slot.set(&ops::index_add(slot.value(), row, update, 0));
    slot.value()
}

fn side_effects() -> Vec<Tensor> {
    let slot = Parameter::new(Tensor::zeros([3, 2, 3]), "slot");
    let lanes = |values: [f32; 3]| Tensor::from_slice([1, 3, 1], &values).broadcast_to([1, 3, 3]);
    // The lanes are axis 1.
    let value = ops::concat(&[lanes([1.0, -4.0, -5.0]), lanes([1.0, 10.0, 9.0])], 0);
    let (more, rows, update) = (tensor![2.0, 1.0, 3.0], tensor![[1i64], [0], [0]], Tensor::full([1, 3], 10.0));
    let mapped = vmap(written).in_axes((0, 1, 0, 0, None)).out_axes(1);
    let ((first, second), lines) = ops::capture_prints(|| {
        let first = mapped(&slot, &value, &more, &rows, &update);
        assert_eq!(slot.value().to_vec::<f32>(), first.transpose(0, 1).to_vec::<f32>());
        (first, jit(mapped)(&slot, &value, &more, &rows, &update))
    });
    assert!(lines[0].starts_with("[[3. 3. 3.]"), "the first lane prints first: {lines:?}");
    assert_eq!(lines.len() % 6, 0);
    vec![first, second]
}

#[test]
fn rows_give_the_same_numbers_eagerly_and_compiled() {
    let rows = [
        Row { test: "test_vmap_cond", run: conditions, want: vec![24.0, 24.0, 21.0] },
        Row { test: "test_vmap_reduce", run: reductions, want: vec![108.0, 270.0, 432.0] },
        Row { test: "test_vmap_general_rule", run: convolutions, want: [8.0, 14.0, 20.0].repeat(3) },
        Row {
            test: "test_vmap_general_rule, scaled",
            run: scaled_convolutions,
            want: vec![8.0, 14.0, 20.0, 28.0, 40.0, 52.0, 60.0, 78.0, 96.0],
        },
        Row { test: "celllist_nested_grad", run: ensemble_gradients, want: vec![2.0; 6] },
        Row {
            test: "test_vmap_nested",
            run: nested,
            want: (0..8).flat_map(|it| [it as f32 + 3.0, it as f32 + 6.0]).collect(),
        },
        Row {
            test: "test_vmap_monad",
            run: side_effects,
            want: [3.0, 7.0, 8.0, 13.0, 11.0, 12.0].into_iter().flat_map(|it| [it; 3]).collect(),
        },
    ];
    for row in rows {
        for compiled in [true, false] {
            let results = ms::with_context(Context { jit: compiled, ..ms::context() }, row.run);
            for (at, result) in results.iter().enumerate() {
                assert_eq!(result.to_vec::<f32>(), row.want, "{}, result {at}, compiled: {compiled}", row.test);
            }
        }
    }
}
