//! Tests gradients of functions that read parts of a tensor.

use ms::prelude::*;
use ms::{All, Context, Precision};

/// A function that reads the rows of a matrix with these indices.
type Read = fn(&Tensor, &[i64]) -> Tensor;

fn positions(rows: &[i64]) -> Tensor {
    Tensor::from_slice([rows.len()], rows)
}

/// Reads rows by a product with a matrix of ones and zeros, which reads `x` as a whole.
fn by_product(x: &Tensor, rows: &[i64]) -> Tensor {
    ops::one_hot(positions(rows), 6).cast(x.dtype()).matmul(x)
}

fn by_position(x: &Tensor, rows: &[i64]) -> Tensor {
    ops::stack(&rows.iter().map(|&it| x.at(it as isize)).collect::<Vec<_>>(), 0)
}

fn by_unstacking(x: &Tensor, rows: &[i64]) -> Tensor {
    let all = ops::unstack(x, 0);
    ops::stack(&rows.iter().map(|&it| all[it as usize].clone()).collect::<Vec<_>>(), 0)
}

/// Reads evenly spaced rows as one slice, and other rows as two.
fn by_slices(x: &Tensor, rows: &[i64]) -> Tensor {
    let step = rows[1] - rows[0];
    if step == 0 || rows.windows(2).any(|it| it[1] - it[0] != step) {
        return ops::concat(&[by_position(x, &rows[..1]), by_position(x, &rows[1..])], 0);
    }
    let stop = rows[rows.len() - 1] + step.signum();
    let range = ms::tensor::Index::Slice {
        start: Some(rows[0] as isize),
        stop: (stop >= 0).then_some(stop as isize),
        step: step as isize,
    };
    x.i((range, ..))
}

fn by_gathering(x: &Tensor, rows: &[i64]) -> Tensor {
    let (front, back) = rows.split_at(rows.len() / 2);
    let front = ops::gather(x, positions(front), 0);
    ops::concat(&[front, ops::gather(x, positions(back).cast(DType::I32), 0)], 0)
}

fn by_points(x: &Tensor, rows: &[i64]) -> Tensor {
    let (first, rest) = rows.split_at(1);
    let first = ops::gather_nd(x, &positions(first));
    let rest = ops::gather_nd(x, ops::reshape(positions(rest), [1, rest.len(), 1]));
    ops::concat(&[ops::reshape(first, [1, 3]), ops::reshape(rest, [rest_len(rows), 3])], 0)
}

fn rest_len(rows: &[i64]) -> usize {
    rows.len() - 1
}

fn by_elements(x: &Tensor, rows: &[i64]) -> Tensor {
    let (front, back) = rows.split_at(rows.len() / 2);
    let part = |rows: &[i64]| {
        let index = ops::broadcast_to(ops::reshape(positions(rows), [rows.len(), 1]), [rows.len(), 3]);
        ops::take_along_axis(x, index, 0)
    };
    ops::concat(&[part(front), part(back)], 0)
}

fn in_a_scan(x: &Tensor, rows: &[i64]) -> Tensor {
    let step = |sum: &Tensor, at: &Tensor| {
        let row = ops::gather(x, at, 0);
        // Loops also read at constant indices.
        ((sum + &row + x.at(0)) * 0.0, row)
    };
    let (rest, all) = ops::scan(step, x.at(0) * 0.0, &positions(rows));
    all + rest
}

fn in_a_while(x: &Tensor, rows: &[i64]) -> Tensor {
    let (list, count) = (positions(rows), rows.len() as i64);
    let start = Tensor::zeros([rows.len(), 3]).cast(x.dtype());
    let body = |(i, out): &(Tensor, Tensor)| {
        let row = ops::reshape(ops::gather(x, ops::gather(&list, i, 0), 0), [1, 3]);
        (i + 1, ops::index_add(out, ops::reshape(i, [1]), row, 0))
    };
    ops::while_loop(|(i, _): &(Tensor, Tensor)| i.lt(count), body, (Tensor::scalar(0i64), start)).1
}

fn in_nested_loops(x: &Tensor, rows: &[i64]) -> Tensor {
    let pairs = ops::reshape(positions(rows), [rows.len() / 2, 2]);
    let outer = |carry: &Tensor, pair: &Tensor| {
        let inner = |carry: &Tensor, at: &Tensor| (carry.clone(), ops::gather(x, at, 0));
        (carry.clone(), ops::scan(inner, Tensor::scalar(0.0f32), pair).1)
    };
    ops::reshape(ops::scan(outer, Tensor::scalar(0.0f32), &pairs).1, [rows.len(), 3])
}

fn in_calls(x: &Tensor, rows: &[i64]) -> Tensor {
    let read = ms::jit(|x: &Tensor, at: &Tensor| ops::gather(x, at, 0) + x.at(1) * 0.0);
    ops::stack(&rows.iter().map(|&it| read(x, &Tensor::scalar(it))).collect::<Vec<_>>(), 0)
}

fn in_branches(x: &Tensor, rows: &[i64]) -> Tensor {
    let row = |&it: &i64| {
        let other = move |x: &Tensor| x.at(it as isize) * 1.0;
        ops::cond(x.at(0).sum(()).lt(100.0), move |x: &Tensor| x.at(it as isize), other, x)
    };
    ops::stack(&rows.iter().map(row).collect::<Vec<_>>(), 0)
}

/// A function of rows. It reads some of them several times, forwards, backwards and with strides.
fn of_rows(x: &Tensor, read: Read) -> Tensor {
    let lists: [&[i64]; 6] = [&[0, 1, 2, 3], &[5, 4, 3, 2], &[4, 2, 0, 4], &[1, 3], &[2, 2, 2, 2], &[0, 1, 2, 3, 4, 5]];
    let of = |(at, rows): (usize, &&[i64])| {
        let rows = read(x, rows);
        let weights = Tensor::arange(rows.shape()[0] as i64).cast(x.dtype()).reshape([rows.shape()[0], 1]) + at as f64;
        (rows * weights * 0.1).sin().sum(0)
    };
    let sums = lists.iter().enumerate().map(of);
    sums.reduce(|a, b| a * b).expect("there are lists") + (x * x).sum(0)
}

static WAYS: &[(&str, Read)] = &[
    ("product", by_product),
    ("positions", by_position),
    ("unstack", by_unstacking),
    ("slices", by_slices),
    ("gather", by_gathering),
    ("gather_nd", by_points),
    ("take_along_axis", by_elements),
    ("scan", in_a_scan),
    ("while", in_a_while),
    ("nested loops", in_nested_loops),
    ("calls", in_calls),
    ("branches", in_branches),
];

/// Returns a function's value and its derivatives to the third order, in both modes and over lanes.
fn derivatives(x: &Tensor, way: usize) -> Vec<Tensor> {
    let f = move |x: &Tensor| of_rows(x, WAYS[way].1);
    let g = move |x: &Tensor| ms::grad(f)(x);
    let second = move |x: &Tensor| ms::grad(move |x: &Tensor| g(x) * x)(x);
    vec![
        f(x),
        g(x),
        second(x),
        ms::jvp(g)(x, &x.cos()).1,
        ms::grad(move |x: &Tensor| ms::jvp(f)(x, &x.cos()).1)(x),
        ms::vmap(g)(&ops::stack(&[x, &(x * 0.5)], 0)),
        ms::grad(move |x: &Tensor| second(x) * x)(x),
    ]
}

#[test]
fn parts_of_a_tensor() {
    let x = (Tensor::arange(18).cast(DType::F64) * 0.37).sin().reshape([6, 3]);
    let values = |all: Vec<Tensor>| all.iter().map(Tensor::to_vec::<f64>).collect::<Vec<_>>();
    let compiled = ms::jit(|x: &Tensor, way: &usize| derivatives(x, *way));
    let want = values(derivatives(&x, 0));
    for (way, (name, _)) in WAYS.iter().enumerate() {
        for (mode, got) in [("eagerly", derivatives(&x, way)), ("compiled", compiled(&x, &way))] {
            for (at, (got, want)) in values(got).iter().zip(&want).enumerate() {
                let close = got.iter().zip(want).all(|(a, b)| (a - b).abs() <= 1e-9 * (1.0 + b.abs()));
                assert!(got.len() == want.len() && close, "{name} {mode}, {at}: {got:?}, not {want:?}");
            }
        }
    }
}

/// Gradients of parts are added in one order, backwards over the steps. So they are bit-identical eagerly and compiled.
#[test]
fn parts_are_added_in_one_order() {
    let windows = |x: &Tensor, rows: &Tensor| {
        let part = |at: usize| x.i((at..at + 7, ..)).sum(()) * rows.at(at as isize).sum(());
        let sum = (0..20).map(part).reduce(|a, b| a + b).expect("there are some");
        // The next reads take the whole tensor, then parts again.
        let sum = (0..20).fold(sum + (x * 0.3).sum(()), |sum, at| {
            sum + (ops::gather(rows, Tensor::scalar(at % 3), 0) * x.at(3)).sum(())
        });
        let body = |at: &Tensor, sum: &Tensor| sum + (ops::gather(x, at, 0) * rows.at(1)).sum(());
        ops::fori_loop(0, 20, body, sum)
    };
    for dtype in [DType::F32, DType::BF16] {
        let random = |scale: f64| ((Tensor::arange(26 * 5).cast(DType::F64) * scale).sin() * 3.0).reshape([26, 5]);
        let (x, rows) = (random(0.73).cast(dtype), random(1.31).cast(dtype));
        let both = |(a, b): (Tensor, Tensor)| [a.cast(DType::F64).to_vec::<f64>(), b.cast(DType::F64).to_vec::<f64>()];
        let gradients = ms::grad(windows).wrt(All);
        let compiled = ms::jit(move |x: &Tensor, rows: &Tensor| ms::grad(windows).wrt(All)(x, rows));
        let strict = Context { precision: Precision::Strict, ..ms::context() };
        ms::with_context(strict, || assert_eq!(both(gradients(&x, &rows)), both(compiled(&x, &rows)), "{dtype}"));
    }
}
