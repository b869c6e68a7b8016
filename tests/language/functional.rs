//! Tests `while_loop`, `fori_loop`, `scan`, `cond` and `switch`: eagerly, compiled, differentiated and over lanes.

use ms::prelude::*;
use ms::{Code, catch, grad, jit, vmap};

fn f32s(x: &Tensor) -> Vec<f32> {
    x.to_vec::<f32>()
}

fn near(got: &Tensor, want: &[f32]) {
    let got = f32s(got);
    let close = got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() <= 1e-5 * (1.0 + b.abs()));
    assert!(close, "{got:?}, not {want:?}");
}

/// Computes a square root by Newton's iteration.
fn root(a: &Tensor) -> Tensor {
    let (x, _) = ops::while_loop(
        |(x, a): &(Tensor, Tensor)| ops::abs(x * x - a).gt(1e-4),
        |(x, a)| ((x + a / x) * 0.5, a.clone()),
        (a * 0.5 + 0.5, a.clone()),
    );
    x
}

fn power(x: &Tensor, n: &Tensor) -> Tensor {
    ops::fori_loop(0, n, |_, y: &Tensor| y * x, Tensor::ones_like(x))
}

fn running(x: &Tensor) -> (Tensor, Tensor) {
    let step = |s: &Tensor, x: &Tensor| {
        let s = s * 0.5 + x;
        (s.clone(), &s * &s)
    };
    ops::scan(step, Tensor::scalar(0.0), x)
}

fn piece(x: &Tensor) -> Tensor {
    ops::cond(x.gt(1.0), |x: &Tensor| ops::log(x) * 3.0, |x| x * x, x)
}

fn chosen(i: &Tensor, x: &Tensor) -> Tensor {
    let branches: [&dyn Fn(&Tensor) -> Tensor; 4] = [&|x| -x, &|x| x * 2.0, &|x| ops::exp(x), &|x| x * x];
    ops::switch(i, &branches, x)
}

#[test]
fn eagerly_and_compiled() {
    let x = tensor![1.0, 2.0, 3.0, 4.0];
    for _ in 0..2 {
        for (a, want) in [(2.0f32, 2f32.sqrt()), (9.0, 3.0), (1.0, 1.0)] {
            near(&root(&Tensor::scalar(a)), &[want]);
            near(&jit(root)(&Tensor::scalar(a)), &[want]);
        }
        for n in [0i64, 1, 5] {
            let want = 1.5f32.powi(n as i32);
            near(&power(&Tensor::scalar(1.5), &Tensor::scalar(n)), &[want]);
            near(&jit(power)(&Tensor::scalar(1.5), &Tensor::scalar(n)), &[want]);
        }
        for (last, all) in [running(&x), jit(running)(&x)] {
            near(&last, &[6.125]);
            near(&all, &[1.0, 6.25, 18.0625, 37.515625]);
        }
        for (last, all) in [running(&x.i(0..0)), jit(running)(&x.i(0..0))] {
            near(&last, &[0.0]);
            assert_eq!(all.shape(), [0]);
        }
        for (x, want) in [(2.0f32, 2f32.ln() * 3.0), (0.5, 0.25)] {
            near(&piece(&Tensor::scalar(x)), &[want]);
            near(&jit(piece)(&Tensor::scalar(x)), &[want]);
        }
        for (i, want) in [(-2i64, -0.5), (0, -0.5), (1, 1.0), (2, 0.5f32.exp()), (3, 0.25), (7, 0.25)] {
            near(&chosen(&Tensor::scalar(i), &Tensor::scalar(0.5)), &[want]);
            near(&jit(chosen)(&Tensor::scalar(i), &Tensor::scalar(0.5)), &[want]);
        }
    }
}

#[test]
fn derivatives() {
    let four = Tensor::scalar(4.0);
    let three = Tensor::scalar(3i64);
    let x = tensor![1.0, 2.0, 3.0, 4.0];
    let total = |x: &Tensor| ops::add(running(x).0, ops::sum(running(x).1, ()));
    let want = {
        // The expected gradients are central differences in f64.
        let f = |x: &[f64]| {
            let (mut s, mut sum) = (0.0, 0.0);
            for x in x {
                s = s * 0.5 + x;
                sum += s * s;
            }
            s + sum
        };
        let at = [1.0, 2.0, 3.0, 4.0];
        let moved = |i: usize, h: f64| {
            let mut x = at;
            x[i] += h;
            f(&x)
        };
        (0..4).map(|i| ((moved(i, 1e-5) - moved(i, -1e-5)) / 2e-5) as f32).collect::<Vec<_>>()
    };
    for _ in 0..2 {
        for g in [grad(root)(&four), jit(grad(root))(&four)] {
            near(&g, &[0.25]);
        }
        for g in [grad(power)(&four, &three), jit(grad(power))(&four, &three)] {
            near(&g, &[48.0]);
        }
        for g in [grad(total)(&x), jit(grad(total))(&x)] {
            near(&g, &want);
        }
        for (at, want) in [(2.0f32, 1.5), (0.5, 1.0)] {
            near(&grad(piece)(&Tensor::scalar(at)), &[want]);
            near(&jit(grad(piece))(&Tensor::scalar(at)), &[want]);
        }
    }
    let second = jit(grad(grad(power)))(&four, &three);
    near(&second, &[24.0]);
}

/// A scan of a thousand steps agrees with its closed form, and so does its gradient.
#[test]
fn a_long_scan() {
    let decay = |k: &Tensor, x: &Tensor| ops::scan(|s: &Tensor, x: &Tensor| (s * k + x, ()), Tensor::scalar(0.0), x).0;
    let (k, x) = (Tensor::scalar(0.999), Tensor::ones([1000]));
    let want: f64 = (0..1000).map(|i| 0.999f64.powi(i)).sum();
    near(&jit(decay)(&k, &x), &[want as f32]);
    let slope: f64 = (1..1000).map(|i| i as f64 * 0.999f64.powi(i - 1)).sum();
    let got = jit(grad(decay))(&k, &x).item::<f32>();
    assert!((got as f64 - slope).abs() < 1e-3 * slope, "{got}, not {slope}");
}

#[test]
fn over_lanes_that_decide_for_themselves() {
    let xs = tensor![2.0, 9.0, 1.0, 0.25];
    let ns = tensor![0i64, 3, 1, 2];
    let is = tensor![3i64, 0, -1, 2];
    let sequences = Tensor::from_slice([2, 4], &[1.0f32, 2.0, 3.0, 4.0, 0.5, 0.5, 0.5, 0.5]);
    let each = |f: &dyn Fn(isize) -> Tensor| (0..4).map(|i| f(i).item::<f32>()).collect::<Vec<_>>();
    for _ in 0..2 {
        near(&vmap(root)(&xs), &each(&|i| root(&xs.at(i))));
        near(&vmap(power)(&xs, &ns), &each(&|i| power(&xs.at(i), &ns.at(i))));
        near(&vmap(piece)(&xs), &each(&|i| piece(&xs.at(i))));
        near(&vmap(chosen)(&is, &xs), &each(&|i| chosen(&is.at(i), &xs.at(i))));
        let (last, all) = vmap(running)(&sequences);
        for i in 0..2 {
            let (one, rows) = running(&sequences.at(i));
            near(&last.at(i), &f32s(&one));
            near(&all.at(i), &f32s(&rows));
        }
        // The gradient of each lane agrees with the gradient of all lanes.
        for got in
            [vmap(grad(root))(&xs), grad(vmap(root))(&xs), jit(vmap(grad(root)))(&xs), jit(grad(vmap(root)))(&xs)]
        {
            near(&got, &each(&|i| grad(root)(&xs.at(i))));
        }
        for got in [vmap(grad(power))(&xs, &ns), grad(vmap(power))(&xs, &ns)] {
            near(&got, &each(&|i| grad(power)(&xs.at(i), &ns.at(i))));
        }
        for got in [vmap(grad(piece))(&xs), grad(vmap(piece))(&xs)] {
            near(&got, &each(&|i| grad(piece)(&xs.at(i))));
        }
        let by_x = |x: &Tensor, i: &Tensor| chosen(i, x);
        for got in [vmap(grad(by_x))(&xs, &is), grad(vmap(by_x))(&xs, &is)] {
            near(&got, &each(&|i| grad(by_x)(&xs.at(i), &is.at(i))));
        }
    }
}

#[test]
fn parameters_are_read_and_written_inside() {
    let count = Parameter::new(tensor![0.0], "count");
    let step = |x: &Tensor| {
        ops::fori_loop(
            0,
            3,
            |_, x: &Tensor| {
                count.set(&(count.value() + 1.0));
                x + count.value()
            },
            x.clone(),
        )
    };
    near(&step(&tensor![0.0]), &[6.0]);
    near(&vmap(|x: &Tensor| step(x))(&tensor![[0.0], [1.0]]), &[15.0, 16.0]);
    near(&count.value(), &[6.0]);
}

#[test]
fn what_does_not_fit_names_the_part() {
    let x = Tensor::scalar(1.0);
    let grows = |x: &Tensor| {
        ops::while_loop(
            |(x, _): &(Tensor, Vec<Tensor>)| x.lt(3.0),
            |(x, y)| (x + 1.0, vec![y[0].clone(), ops::stack(&[&y[1], &y[1]], 0)]),
            (x.clone(), vec![x.clone(), x.clone()]),
        )
        .0
    };
    let retyped = |x: &Tensor| ops::fori_loop(0, 2, |i, _: &Tensor| i.clone(), x.clone());
    let scanned = |x: &Tensor| ops::scan(|s: &Tensor, x: &Tensor| (s.clone(), x.clone()), x.clone(), x).0;
    let other = |x: &Tensor| ops::cond(x.gt(0.0), |x: &Tensor| x.clone(), |x| x.cast(DType::I32), x);
    type Case<'a> = (&'a dyn Fn() -> Tensor, Code, &'a str);
    let cases: [Case<'_>; 7] = [
        (&|| grows(&x), Code::TypeChange, "the carry of `while_loop`"),
        (&|| jit(grows)(&x), Code::TypeChange, "the carry of `while_loop`"),
        (&|| retyped(&x), Code::TypeChange, "f32[] before an iteration, but after it i64[]"),
        (&|| jit(retyped)(&x), Code::TypeChange, "f32[] before an iteration, but after it i64[]"),
        (&|| scanned(&x), Code::Shape, "no axis to scan over"),
        (&|| jit(scanned)(&x), Code::Shape, "no axis to scan over"),
        (&|| jit(other)(&x), Code::TypeChange, "the result of `cond` is f32[] in one arm, but in the other i32[]"),
    ];
    for (case, code, want) in cases {
        let error = catch(case).expect_err(want);
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(want), "{error}\n{want}");
    }
}

#[test]
fn a_cell_of_a_list_is_chosen_by_a_tensor() {
    let layers: nn::CellList<nn::Dense> = (0..3).map(|_| nn::Dense::new(2, 2)).collect();
    let x = tensor![1.0, -2.0];
    let chosen = jit(|layers: &nn::CellList<nn::Dense>, i: &Tensor, x: &Tensor| layers.select(i).call(x));
    for i in 0..3usize {
        let want = f32s(&layers[i].call(&x));
        let at = Tensor::scalar(i as i64);
        near(&layers.select(&at).call(&x), &want);
        near(&layers.select(i as i64).call(&x), &want);
        near(&chosen(&layers, &at, &x), &want);
    }
    let all = vmap(|i: &Tensor| layers.select(i).call(&x))(&tensor![2i64, 0, 1]);
    near(&all.at(0), &f32s(&layers[2].call(&x)));
    near(&all.at(1), &f32s(&layers[0].call(&x)));
}
