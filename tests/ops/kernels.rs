//! Kernels that programs declare: values, derivatives, lanes, dtypes, fusion, failures.

use crate::told::catch;
use ms::Code;
use ms::kernel::Float;
use ms::prelude::*;

/// A function of numbers of kernels, which kernels call.
fn softplus(x: Float) -> Float {
    x.exp().ln_1p()
}

ms::kernel! {
    /// `x tanh(softplus x)`.
    pub fn mish(x: Float) -> Float {
        x * softplus(x).tanh()
    }
}

ms::kernel! {
    /// The Huber loss of a difference, in three pieces.
    fn huber(a: Float, b: Float, delta: f64) -> Float {
        let d = a - b;
        let size = d.abs();
        if size <= delta {
            0.5 * d * d
        } else if size.lt(1e6) {
            delta * (size - 0.5 * delta)
        } else {
            0.0
        }
    }
}

ms::kernel! {
    /// One step of Newton's method for the square root of `x`, `steps` times.
    fn newton(x: Float, steps: usize) -> Float {
        let mut y = if steps > 100 { Float::from(1.0) } else { x };
        for _ in 0..steps {
            y = (y + x / y) / 2;
        }
        y
    }
}

ms::kernel! {
    fn inside(x: Float, low: Float, closed: Bool) -> Bool {
        !(x >= 10) && (low < x || closed && x == low)
    }
}

ms::kernel! {
    /// `x ln x`, whose limit at zero is zero; the logarithm there is infinite.
    fn entropy(x: Float) -> Float {
        if x > 0.0 { x * x.ln() } else { 0.0 }
    }
}

ms::kernel! {
    fn everything(x: Float, y: Float) -> Float {
        let a = x.sin() * y.cos() + x.tan() - y.atan() + x.asin() * y.acos() + x.sinh() * y.cosh();
        let b = x.asinh() + (y + 1.5).acosh() + x.atanh() + x.erf() * y.erfc() + x.sqrt() * y.rsqrt();
        let c = x.exp_m1() + y.ln() + x.powf(y) + x.powi(3) - y.powi(-2) + x.atan2(y) + x.sigmoid() + y.recip();
        let d = x.max(y) * x.min(0.3) + (x - 0.4).signum() + (3.0 * x).floor() + y.ceil() + x.trunc() + y.round_ties_even();
        a + b + c + d.clamp(-100, 100.0) + (-x) * (x < y).to_float()
    }
}

/// The same of tensors.
fn everything_of(x: &Tensor, y: &Tensor) -> Tensor {
    let a = x.sin() * y.cos() + x.tan() - y.atan() + x.asin() * y.acos() + x.sinh() * y.cosh();
    let b = x.asinh() + (y + 1.5).acosh() + x.atanh() + x.erf() * y.erfc() + x.sqrt() * y.rsqrt();
    let c =
        x.expm1() + y.log() + x.pow(y) + x * x * x - (y * y).reciprocal() + x.atan2(y) + x.sigmoid() + y.reciprocal();
    let d = x.maximum(y) * x.minimum(0.3) + (x - 0.4).sign() + (x * 3.0).floor() + y.ceil() + x.trunc() + y.round();
    a + b + c + ops::clamp(&d, -100.0, 100.0) - x * x.lt(y).cast(DType::F32)
}

fn close(what: &str, got: &Tensor, want: &Tensor) {
    assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()), "{what}");
    let (got, want) = (got.to_vec::<f32>(), want.to_vec::<f32>());
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 2e-5 * (1.0 + b.abs());
    assert!(got.iter().zip(&want).all(near), "{what}: {got:?}, not {want:?}");
}

#[test]
fn values_eagerly_and_compiled() {
    let x = tensor![-3., -0.5, 0., 2.];
    let want = &x * x.exp().log1p().tanh();
    close("eagerly", &mish(&x), &want);
    close("compiled", &ms::jit(|x: &Tensor| mish(x))(&x), &want);
    close("of a parameter", &mish(Parameter::new(x.clone(), "x")), &want);
    // The attribute is a constant of the kernel; operands are broadcast.
    let pieces = huber(tensor![[0., 3.], [-4., 1e7]], tensor![0.5, 1.], 1.0);
    close("pieces", &pieces, &tensor![[0.125, 1.5], [4., 0.]]);
    close("repeated", &newton(tensor![4., 9.], 6), &tensor![2., 3.]);
    let got = inside(tensor![1., 2., 3., 10.], 2.0, tensor![true, true, false, true]);
    assert_eq!((got.dtype(), got.to_vec::<bool>()), (DType::Bool, vec![false, true, true, false]));
    // Integers become f32, numbers follow, and narrow floats are rounded once.
    assert_eq!(mish(tensor![1, 2]).dtype(), DType::F32);
    let half = mish(x.cast(DType::F16));
    assert_eq!(
        (half.dtype(), half.cast(DType::F32).to_vec::<f32>()),
        (DType::F16, want.cast(DType::F16).cast(DType::F32).to_vec::<f32>())
    );
    assert_eq!(mish(x.cast(DType::F64)).dtype(), DType::F64);
    assert_eq!(mish(Tensor::zeros([0, 2])).shape(), [0, 2]);
}

/// Compares with a function of tensors: it, and its derivatives in every mode.
macro_rules! same {
    ($what:literal, [$($x:ident = $at:expr),+], $kernel:expr, $want:expr) => {{
        $(let $x = $at;)+
        fn both(f: impl Fn($(same!(@ty $x)),+) -> Tensor) -> impl Fn($(same!(@ty $x)),+) -> Tensor { f }
        let (kernel, want) = (both($kernel), both($want));
        close($what, &kernel($(&$x),+), &want($(&$x),+));
        let first = |f: &dyn Fn($(same!(@ty $x)),+) -> Tensor| ms::grad(|x: &Tensor| same!(@call f x [$($x)+]).sum(()))(same!(@first $($x)+));
        close(concat!($what, ", gradient"), &first(&kernel), &first(&want));
        let second = |f: &dyn Fn($(same!(@ty $x)),+) -> Tensor| {
            ms::grad(|x: &Tensor| ms::grad(|x: &Tensor| same!(@call f x [$($x)+]).sum(()))(x).sum(()))(same!(@first $($x)+))
        };
        close(concat!($what, ", second gradient"), &second(&kernel), &second(&want));
        let tangent = |f: &dyn Fn($(same!(@ty $x)),+) -> Tensor| {
            let x = same!(@first $($x)+);
            ms::jvp(|x: &Tensor| same!(@call f x [$($x)+]))(x, &ops::ones_like(x)).1
        };
        close(concat!($what, ", tangent"), &tangent(&kernel), &tangent(&want));
    }};
    (@ty $x:ident) => { &Tensor };
    (@first $x:ident $($rest:ident)*) => { &$x };
    (@call $f:ident $x:ident [$first:ident]) => { $f($x) };
    (@call $f:ident $x:ident [$first:ident $($rest:ident)+]) => { $f($x, $(&$rest),+) };
}

#[test]
fn derivatives_of_every_order() {
    let x = || tensor![0.2, 0.35, 0.7];
    same!("mish", [x = tensor![-3., -0.5, 0., 2.]], |x| mish(x), |x| x * x.exp().log1p().tanh());
    same!(
        "everything",
        [x = x(), y = tensor![[0.3, 0.45, 0.6], [0.9, 0.2, 0.5]]],
        |x, y| everything(x, y),
        everything_of
    );
    same!("by the second", [y = x(), x = tensor![0.5]], |y, x| everything(x, y), |y, x| everything_of(x, y));
    // Compiled, and of a compiled gradient.
    let compiled = ms::jit(|x: &Tensor| ms::grad(ms::grad(|x: &Tensor| mish(x)))(x));
    let eager = ms::grad(ms::grad(|x: &Tensor| mish(x)))(&x());
    close("compiled", &compiled(&x()), &eager);
    // What is not selected does not reach the gradient.
    let gradient = ms::grad(|x: &Tensor| entropy(x))(&tensor![0., 1.]);
    assert_eq!(gradient.to_vec::<f32>(), [0., 1.]);
    // A bool has no gradient.
    let no_gradient = ms::grad(|x: &Tensor| inside(x, 0.0, true).cast(DType::F32) * x)(&x());
    assert_eq!(no_gradient.to_vec::<f32>(), [1.; 3]);
}

#[test]
fn lanes() {
    let x = tensor![[0.5, 1.], [2., 3.]];
    let mapped = |x: &Tensor| ms::vmap(|row: &Tensor| huber(row, tensor![0., 1.], 1.0))(x);
    let want = huber(&x, tensor![[0., 1.]], 1.0);
    close("eagerly", &mapped(&x), &want);
    close("compiled", &ms::jit(|x: &Tensor| ms::vmap(|row: &Tensor| huber(row, tensor![0., 1.], 1.0))(x))(&x), &want);
    let of_gradient = ms::vmap(ms::grad(|row: &Tensor| mish(row)))(&x);
    close("of a gradient", &of_gradient, &ms::grad(|x: &Tensor| mish(x))(&x));
}

#[jit]
fn surrounded(x: &Tensor) -> Tensor {
    mish(x * 2.0 + 1.0) - x
}

#[jit]
fn slope(x: &Tensor) -> Tensor {
    ms::grad(|x: &Tensor| surrounded(x))(x)
}

/// With its neighbours, a kernel is one kernel of the device; so is its gradient.
#[test]
fn neighbours_are_fused() {
    let x = tensor![1., 2., 3.];
    for (name, run) in [("surrounded", surrounded as fn(&Tensor) -> Tensor), ("slope", slope)] {
        drop(run(&x));
        let report = ms::compile_report().into_iter().rev().find(|it| it.name == name).expect("it was compiled");
        let plan = report.stages.iter().find_map(|it| it.plan).expect("a plan");
        assert_eq!(plan.steps, 1, "{name}: {plan:?}");
    }
}

#[jit(dims(x = [rows, _]))]
fn symbolic(x: &Tensor) -> Tensor {
    mish(x).sum(0)
}

#[test]
fn symbolic_sizes() {
    close("two rows", &symbolic(&tensor![[1.], [2.]]), &mish(tensor![[1.], [2.]]).sum(0));
    close("one row", &symbolic(&tensor![[1.]]), &mish(tensor![1.]));
}

#[test]
fn failures() {
    type Case<'a> = (Code, &'a [&'a str], Box<dyn Fn()>);
    let cases: [Case<'_>; 3] = [
        (
            Code::Shape,
            &["`huber`: ", "[2] and [3]", "kernels.rs"],
            Box::new(|| drop(huber(tensor![1., 2.], tensor![1., 2., 3.], 1.0))),
        ),
        (
            Code::DType,
            &["`inside`: a condition is bools, not f32[1]"],
            Box::new(|| drop(inside(tensor![1.], 0.0, tensor![1.]))),
        ),
        (
            Code::Shape,
            &["`huber`: ", "[2] and [3]", "kernels.rs"],
            Box::new(|| drop(ms::jit(|x: &Tensor| huber(x, tensor![1., 2., 3.], 1.0))(&tensor![1., 2.]))),
        ),
    ];
    for (at, (code, words, case)) in cases.iter().enumerate() {
        let error = catch(case).expect_err("it fails");
        let said = error.to_string();
        assert_eq!(error.code(), *code, "case {at}: {said}");
        words.iter().for_each(|it| assert!(said.contains(it), "case {at}: {said}\nhas no {it}"));
    }
}
