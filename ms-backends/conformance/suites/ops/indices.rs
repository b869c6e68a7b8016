//! Tests index expressions with positions in tensors: results of NumPy, gradients, replacement and refusals.

use ms::prelude::*;
use ms::tensor::{Ellipsis, NewAxis, WithStep};
use ms::{Code, jit, vmap};
use ms_conformance::counted::counted;

/// Returns the positions `i`, `j`, `k`, `s`, `k2`, `j0`, and the empty ones `e` and `e2`.
fn positions() -> [Tensor; 8] {
    [
        tensor![1, 0, 1],
        tensor![[2], [0]],
        tensor![-1, 2, 0],
        Tensor::scalar(-2i64),
        tensor![[1], [-3]].cast(DType::I32),
        tensor![[1], [0]],
        Tensor::zeros([0]).cast(DType::I64),
        Tensor::zeros([0, 1]).cast(DType::I64),
    ]
}

/// Returns different factors for the elements of a result.
fn factors(count: usize) -> Vec<f64> {
    (0..count).map(|it| (it % 97 + 1) as f64).collect()
}

type Selected = fn(&Tensor, &[Tensor; 8]) -> Tensor;

/// Checks a selection from the numbers `0..120`, its gradient, and its replacement by other numbers. NumPy has computed
/// the sum of the selection times the factors.
fn check(
    what: &str,
    select: Selected,
    replace: fn(&Tensor, &[Tensor; 8], &Tensor) -> Tensor,
    shape: &[usize],
    sum: f64,
) {
    let (x, at) = (counted([2, 3, 4, 5]).cast(DType::F64), positions());
    let part = select(&x, &at);
    let numbers = part.to_vec::<f64>();
    let factors = factors(numbers.len());
    assert_eq!(part.shape(), shape, "{what}");
    assert_eq!(numbers.iter().zip(&factors).map(|(a, b)| a * b).sum::<f64>(), sum, "{what}");

    let weights = Tensor::from_slice(shape, &factors);
    let gradient = ms::grad(|x: &Tensor| select(x, &at) * &weights)(&x).to_vec::<f64>();
    let values = Tensor::from_slice(shape, &(0..numbers.len()).map(|it| -1.0 - it as f64).collect::<Vec<_>>());
    let replaced = replace(&x, &at, &values).to_vec::<f64>();
    let (mut wanted, mut other) = (vec![0.0; 120], x.to_vec::<f64>());
    for (place, number) in numbers.iter().enumerate() {
        wanted[*number as usize] += factors[place];
        other[*number as usize] = -1.0 - place as f64;
    }
    assert_eq!(gradient, wanted, "the gradient of {what}");
    assert_eq!(replaced, other, "replaced: {what}");
}

#[test]
fn expressions_select_as_in_numpy() {
    // The cases use x = np.arange(120).reshape(2, 3, 4, 5). Each has the shape of NumPy 2.4's selection, and its sum
    // times 1, 2, .., 97, 1, ..
    macro_rules! cases {
        ($names:tt: $($index:expr => [$($size:literal),*], $sum:literal;)*) => {$({
            fn select(x: &Tensor, $names: &[Tensor; 8]) -> Tensor {
                let _unused = $names;
                x.i($index)
            }
            fn replace(x: &Tensor, $names: &[Tensor; 8], values: &Tensor) -> Tensor {
                let _unused = $names;
                x.set_at($index, values)
            }
            let (what, shape, sum) = (stringify!($index), &[$($size),*], f64::from($sum));
            check(what, select, replace, shape, sum);
            let compiled = |x: &Tensor, at: &[Tensor; 8]| jit(select)(x, at);
            check(&format!("{what}, compiled"), compiled, |x, at, values| jit(replace)(x, at, values), shape, sum);
        })*};
    }
    cases! {
        [i, j, k, s, k2, j0, e, e2]:
        s => [3, 4, 5], 71980;
        i => [3, 3, 4, 5], 558162;
        (.., k) => [2, 3, 4, 5], 391192;
        (.., j) => [2, 2, 1, 4, 5], 227440;
        (0, k) => [3, 4, 5], 52180;
        (.., 0, k) => [2, 3, 5], 24815;
        (0, .., k) => [3, 3, 5], 31110;
        (.., k2, k) => [2, 2, 3, 5], 113230;
        (i, .., k) => [3, 3, 5], 72510;
        (i, k, ..) => [3, 4, 5], 125380;
        (.., k2, .., k) => [2, 3, 2, 4], 55120;
        (i, Ellipsis, k) => [3, 3, 4], 47856;
        (Ellipsis, k) => [2, 3, 4, 3], 208020;
        (Ellipsis, k2, k) => [2, 3, 2, 3], 50514;
        (i, NewAxis, k) => [3, 1, 4, 5], 125380;
        (NewAxis, i, k) => [1, 3, 4, 5], 125380;
        (i, NewAxis) => [3, 1, 3, 4, 5], 558162;
        (1.., k, (..).step(-1)) => [1, 3, 4, 5], 158230;
        (.., j, k) => [2, 2, 3, 5], 127030;
        (i, 0) => [3, 4, 5], 92580;
        (0, 1, k) => [3, 5], 3295;
        (i, 1, k) => [3, 5], 8095;
        (i, 1, .., k) => [3, 4], 5432;
        (s, .., k) => [3, 3, 5], 31110;
        (i, k, j) => [2, 3, 5], 31190;
        (i, 0, k, Ellipsis) => [3, 5], 5695;
        (i, 0, k, s) => [3], 293;
        (i, 0, k, Ellipsis, s) => [3], 293;
        (.., k, s, 1..3) => [2, 3, 2], 6080;
        (NewAxis, .., 1, k, NewAxis) => [1, 2, 3, 1, 5], 34115;
        (i, k, 1..3, (..).step(2)) => [3, 2, 3], 11676;
        (i, k, 0, (..).step(2)) => [3, 3], 2742;
        (i, .., 0, 1..2) => [3, 3, 1], 2865;
        (Ellipsis, 0, k) => [2, 3, 3], 12018;
        (.., 0, 1, Ellipsis, k) => [3, 2], 851;
        (j0, i) => [2, 3, 4, 5], 217092;
        (e, .., 0) => [0, 3, 5], 0;
        (.., e) => [2, 0, 4, 5], 0;
        (i, e2) => [0, 3, 4, 5], 0;
    }
}

#[test]
fn lanes_have_their_own_positions() {
    let x = counted([2, 3, 4]).cast(DType::F64);
    let (rows, columns) = (tensor![[0, 2], [1, -1]], tensor![3, 0]);
    let pick = |x: &Tensor, rows: &Tensor, columns: &Tensor| x.at((rows, columns));
    let got = vmap(pick).in_axes((0, 0, None))(&x, &rows, &columns);
    assert_eq!(got.to_vec::<f64>(), [3.0, 8.0, 19.0, 20.0]);
    let got = vmap(|x: &Tensor, rows: &Tensor| x.at((rows, 1..3))).in_axes((None, 0))(&x.at(0), &rows);
    assert_eq!(got.shape(), [2, 2, 2]);
    assert_eq!(got.to_vec::<f64>(), [1.0, 2.0, 9.0, 10.0, 5.0, 6.0, 9.0, 10.0]);
}

#[jit(dims(x = [n, m], at = [k]))]
fn of_any_size(x: &Tensor, at: &Tensor) -> (Tensor, Tensor) {
    (x.i((.., at)), x.set_at((at, at), 0.0))
}

#[test]
fn sizes_may_be_symbolic() {
    for (n, m, k) in [(2, 3, 1), (4, 4, 3), (3, 5, 2)] {
        let (x, at) = (counted([n, m]).cast(DType::F64) + 1.0, ops::arange(k as i64));
        let (columns, cleared) = of_any_size(&x, &at);
        assert_eq!(columns.shape(), [n, k]);
        assert_eq!(columns.to_vec::<f64>(), x.i((.., ..k)).to_vec::<f64>());
        let zeros = cleared.to_vec::<f64>().iter().filter(|it| **it == 0.0).count();
        assert_eq!((zeros, cleared.shape()), (k, &[n, m][..]));
    }
}

#[test]
fn the_last_of_several_values_holds_and_gradients_go_there() {
    let (x, at, value) = (tensor![0.0, 0.0, 0.0], tensor![1, 1, -1], tensor![3.0, 4.0, 5.0]);
    assert_eq!(x.set_at(&at, &value).to_vec::<f32>(), [0.0, 4.0, 5.0]);
    let gradient = ms::grad(|v: &Tensor| x.set_at(&at, v) * tensor![10.0, 20.0, 30.0])(&value);
    assert_eq!(gradient.to_vec::<f32>(), [0.0, 20.0, 30.0]);
    let mut y = x.clone();
    y.assign_at((&at,), 7.0);
    assert_eq!(y.to_vec::<f32>(), [0.0, 7.0, 7.0]);
    // The sum of the gradient of x0 (2 x1^2 + x2^2) is 2 x1^2 + x2^2 + 4 x0 x1 + 2 x0 x2.
    let second = ms::grad(ms::grad(|x: &Tensor| x.at(&at) * x.at(&at) * x.at(0)))(&tensor![2.0, 3.0, 4.0]);
    assert_eq!(second.to_vec::<f32>(), [20.0, 20.0, 12.0]);
}

#[test]
fn what_is_no_position_is_refused() {
    let x = counted([2, 3]).cast(DType::F64);
    let read = |at: &Tensor| x.i((.., at));
    let both = |at: &Tensor| x.i((&tensor![0, 1], at));
    let write = |at: &Tensor| x.set_at((.., at), 0.0);
    for f in [&read as &dyn Fn(&Tensor) -> Tensor, &both, &write] {
        let code = |at: Tensor| ms::catch(|| f(&at).to_vec::<f64>()).expect_err("refused").code();
        assert_eq!(code(tensor![0, 3]), Code::OutOfRange);
        assert_eq!(code(tensor![-4, 0]), Code::OutOfRange);
        assert_eq!(code(tensor![0.0, 1.0]), Code::DType);
        assert_eq!(code(tensor![true, false]), Code::DType);
    }
    let code = |f: &dyn Fn() -> Tensor| ms::catch(f).expect_err("refused").code();
    let (two, three) = (tensor![0, 1], tensor![0, 1, 0]);
    assert_eq!(code(&|| x.i((&two, &three))), Code::Shape);
    assert_eq!(code(&|| x.i((&two, &two, &two))), Code::OutOfRange);
    assert_eq!(code(&|| x.set_at(&two, Tensor::ones([3, 3]))), Code::Shape);
    let compiled = ms::catch(|| jit(|x: &Tensor, at: &Tensor| x.i((at, at)))(&x, &tensor![2]).to_vec::<f64>());
    assert_eq!(compiled.expect_err("refused").code(), Code::OutOfRange);
}

/// An error while a compiled function runs names the function that the user called, as the eager error does.
#[test]
fn compiled_functions_name_what_was_called() {
    type Function = fn(&Tensor, &Tensor) -> Tensor;
    macro_rules! cases {
        ($($name:literal: $case:expr;)*) => { [$({
            fn case(x: &Tensor, at: &Tensor) -> Tensor {
                let case: Function = $case;
                case(x, at)
            }
            ($name, case as Function, (|x, at| jit(case)(x, at)) as Function)
        }),*] };
    }
    let cases = cases! {
        "embedding": |x, at| ops::embedding(at, x, None);
        "embedding": |x, at| ops::embedding(at, x, Some(0)) + ops::softmax(x.i(0..2), 0);
        "gather": |x, at| ops::gather(x, at, 0);
        "index_select": |x, at| ops::index_select(x, at, 0);
        "take_along_axis": |x, at| ops::take_along_axis(x, at.reshape((2, 1)), 0);
        "gather_nd": |x, at| ops::gather_nd(x, at.reshape((2, 1)));
        "index_add": |x, at| ops::index_add(x, at, x.i(0..2), 0);
        "scatter_add": |x, at| ops::scatter_add(x, at.reshape((2, 1)), x.i((0..2, 0..1)), 0);
        "segment": |x, at| ops::segment(x.i(0..2), at, 3, ops::Segment::Max);
        "one_hot": |_, at| ops::one_hot(at, 3);
        "cross_entropy": |x, at| ops::cross_entropy(x.i(0..2), at);
        "nll_loss": |x, at| ops::nll_loss(x.i(0..2), at);
    };
    let x = counted([3, 2]);
    let mut wrong = Vec::new();
    for (name, case, compiled) in cases {
        for at in [tensor![1, 7], tensor![-1, 0], tensor![0, -9]] {
            let told = |f: &dyn Fn() -> Tensor| ms::catch(|| f().to_vec::<f32>()).err();
            let (got, want) = (told(&|| compiled(&x, &at)), told(&|| case(&x, &at)));
            let of = |error: &Option<ms::Error>| {
                error.as_ref().map(|it| (it.report().op.clone(), it.code(), it.report().location.map(|it| it.line())))
            };
            if of(&got) != of(&want) || want.is_some_and(|it| it.report().op.as_deref() != Some(name)) {
                wrong.push(format!(
                    "{name} {:?}: {:?}\n  eagerly {:?}",
                    at.to_vec::<i64>(),
                    of(&got),
                    told(&|| case(&x, &at))
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
