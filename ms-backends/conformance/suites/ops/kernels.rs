//! Tests kernels that programs declare: values, derivatives, lanes, dtypes, fusion and failures.

use super::{Failure, check_failures};
use ms::Code;
use ms::kernel::Float;
use ms::prelude::*;

/// Computes on numbers of kernels. Kernels call this function.
fn softplus(x: Float) -> Float {
    x.exp().ln_1p()
}

ms::kernel! {
    /// Computes `x tanh(softplus x)`.
    pub fn mish(x: Float) -> Float {
        x * softplus(x).tanh()
    }
}

ms::kernel! {
    /// Computes the Huber loss of a difference, in three pieces.
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
    /// Runs `steps` steps of Newton's method for the square root of `x`.
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
    /// Computes `x ln x`. Its limit at zero is zero, where the logarithm is infinite.
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
        a + b + c + d.clamp(-100, 100.0) + (-x) * (x < y) as Float
    }
}

/// Computes `everything` by ops on tensors.
fn everything_of(x: &Tensor, y: &Tensor) -> Tensor {
    let a = x.sin() * y.cos() + x.tan() - y.atan() + x.asin() * y.acos() + x.sinh() * y.cosh();
    let b = x.asinh() + (y + 1.5).acosh() + x.atanh() + x.erf() * y.erfc() + x.sqrt() * y.rsqrt();
    let c =
        x.expm1() + y.log() + x.pow(y) + x * x * x - (y * y).reciprocal() + x.atan2(y) + x.sigmoid() + y.reciprocal();
    let d = x.maximum(y) * x.minimum(0.3) + (x - 0.4).sign() + (x * 3.0).floor() + y.ceil() + x.trunc() + y.round();
    a + b + c + ops::clamp(&d, -100.0, 100.0) - x * x.lt(y).cast(DType::F32)
}

ms::kernel! {
    /// Runs `steps` divisions of Euclid's algorithm.
    fn gcd(a: Int, b: Int, steps: usize) -> Int {
        let (mut a, mut b) = (a.abs(), b.abs());
        for _ in 0..steps {
            let rest = a % b;
            let done = b == 0;
            a = if done { a } else { b };
            b = if done { b } else { rest };
        }
        a
    }
}

ms::kernel! {
    /// Computes the finaliser of a 32-bit hash.
    fn mixed(x: U32) -> U32 {
        let mut x = x ^ x >> 16;
        x *= 0x85eb_ca6bu32;
        x ^= x >> 13;
        x *= 0xc2b2_ae35u32;
        x ^ x >> 16
    }
}

ms::kernel! {
    /// Rounds to eighths in one byte, and returns the rounding error too.
    fn quantised(x: Float, scale: F32) -> (I8, Float, Bool) {
        let scaled = x as F32 / scale;
        let q = (scaled * 8).round_ties_even() as I8;
        let lost = x - (q as F32 * scale / 8) as Float;
        (q, lost, q == 127 || q == -128)
    }
}

ms::kernel! {
    /// Multiplies complex numbers.
    fn complex(a: Float, b: Float, c: Float, d: Float) -> (Float, Float) {
        (a * c - b * d, a * d + b * c)
    }
}

ms::kernel! {
    fn selected(bits: Int, flag: Bool, n: i32) -> (Int, Bool) {
        let mut y = bits << n | bits & 1;
        y = if flag { !y } else { -y };
        (if n > 2 { y.clamp(-50, 50).pow(2) } else { y.min(7).max(bits / 3).signum() + 1 }, flag ^ (y >= 0))
    }
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
    // The attribute is a constant of the kernel. Operands are broadcast.
    let pieces = huber(tensor![[0., 3.], [-4., 1e7]], tensor![0.5, 1.], 1.0);
    close("pieces", &pieces, &tensor![[0.125, 1.5], [4., 0.]]);
    close("repeated", &newton(tensor![4., 9.], 6), &tensor![2., 3.]);
    let got = inside(tensor![1., 2., 3., 10.], 2.0, tensor![true, true, false, true]);
    assert_eq!((got.dtype(), got.to_vec::<bool>()), (DType::Bool, vec![false, true, true, false]));
    // Integers become f32, host numbers take the dtype of the operands, and narrow floats are rounded once.
    assert_eq!(mish(tensor![1, 2]).dtype(), DType::F32);
    let half = mish(x.cast(DType::F16));
    assert_eq!(
        (half.dtype(), half.cast(DType::F32).to_vec::<f32>()),
        (DType::F16, want.cast(DType::F16).cast(DType::F32).to_vec::<f32>())
    );
    assert_eq!(mish(x.cast(DType::F64)).dtype(), DType::F64);
    assert_eq!(mish(Tensor::zeros([0, 2])).shape(), [0, 2]);
}

/// Compares a kernel and its derivatives in every mode with a function of tensors.
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
    // Compares a compiled gradient of a gradient with the eager one.
    let compiled = ms::jit(|x: &Tensor| ms::grad(ms::grad(|x: &Tensor| mish(x)))(x));
    let eager = ms::grad(ms::grad(|x: &Tensor| mish(x)))(&x());
    close("compiled", &compiled(&x()), &eager);
    // The value that is not selected does not reach the gradient.
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

/// A kernel is fused with its neighbours to one kernel of the device, and so is its gradient.
#[test]
fn neighbours_are_fused() {
    let x = tensor![1., 2., 3.];
    for (name, run) in [("surrounded", surrounded as fn(&Tensor) -> Tensor), ("slope", slope)] {
        drop(run(&x));
        assert_eq!(steps_of(name), 1, "{name}");
    }
}

/// Runs eagerly, compiled, and mapped over the rows of the first operand.
macro_rules! every_way {
    (|$x:ident| $call:expr, $at:expr) => {{
        let x = $at;
        let all = [
            (|$x: &Tensor| $call)(&x),
            ms::jit(|$x: &Tensor| $call)(&x),
            ms::vmap(|$x: &Tensor| $call)(&x),
            ms::jit(|x: &Tensor| ms::vmap(|$x: &Tensor| $call)(x))(&x),
        ];
        for (at, got) in all.iter().enumerate() {
            let numbers = |it: &Tensor| it.cast(DType::F64).to_vec::<f64>();
            assert_eq!((got.dtype(), numbers(got)), (all[0].dtype(), numbers(&all[0])), "way {at}");
        }
        all.into_iter().next().expect("there are four ways")
    }};
}

/// Computes the same 32-bit hash as `mixed`, in plain Rust.
fn mixed_of(x: u32) -> u32 {
    let x = (x ^ x >> 16).wrapping_mul(0x85eb_ca6b);
    let x = (x ^ x >> 13).wrapping_mul(0xc2b2_ae35);
    x ^ x >> 16
}

#[test]
fn integers_of_every_dtype() {
    use DType::*;
    for dtype in [I8, I16, I32, I64, U8, U16, U32, U64] {
        let got = every_way!(|x| gcd(x, Tensor::from(8i32).cast(x.dtype()), 6), tensor![[12, 7], [0, 100]].cast(dtype));
        assert_eq!((got.dtype(), got.cast(I64).to_vec::<i64>()), (dtype, vec![4, 1, 8, 4]), "{dtype}");
    }
    // Integers promote, host numbers take their dtype, and only narrow results wrap.
    assert_eq!(gcd(tensor![12i8], tensor![18i32], 6).dtype(), I32);
    assert_eq!(gcd(tensor![12i8], 18, 6).dtype(), I8);
    let words = [0u32, 1, 0xffff_ffff, 12345];
    let got = every_way!(|x| mixed(x).cast(I64), Tensor::from_vec(words.to_vec()).reshape([2, 2]));
    assert_eq!(got.to_vec::<i64>(), words.map(|it| i64::from(mixed_of(it))));
    // In eight bits, 100 << 3 is 32, its complement is -33, and the square of that is 65.
    assert_eq!(selected(tensor![100i8], true, 3).0.to_vec::<i8>(), [65]);
}

#[test]
fn several_results() {
    let x = tensor![[0.3, -1.7], [40., 0.0625]];
    let (q, lost, full) = quantised(&x, Tensor::from(0.5f32));
    assert_eq!((q.dtype(), q.to_vec::<i8>()), (DType::I8, vec![5, -27, 127, 1]));
    assert_eq!((full.dtype(), full.to_vec::<bool>()), (DType::Bool, vec![false, false, true, false]));
    close("what is lost", &lost, &(&x - q.cast(DType::F32) / 16.0));
    every_way!(|x| quantised(x, Tensor::from(0.5f32)).0, x.clone());
    every_way!(|x| quantised(x, Tensor::from(0.5f32)).2, x.clone());
    every_way!(|x| selected(x.cast(DType::I32), x.gt(0.0), 3).0, x.clone());
    every_way!(|x| selected(x.cast(DType::I64), x.gt(0.0), 1).1, x.clone());
    // The floats of one result have the operands' dtype. Another result has a fixed dtype.
    let half = quantised(x.cast(DType::BF16), Tensor::from(0.5f32));
    assert_eq!((half.0.dtype(), half.1.dtype()), (DType::I8, DType::BF16));
}

#[jit]
fn product(a: &Tensor, b: &Tensor, c: &Tensor, d: &Tensor) -> (Tensor, Tensor) {
    complex(a, b, c, d)
}

#[jit]
fn product_slopes(a: &Tensor, b: &Tensor, c: &Tensor, d: &Tensor) -> (Tensor, Tensor, Tensor, Tensor) {
    ms::grad(|a: &Tensor, b: &Tensor, c: &Tensor, d: &Tensor| {
        let (re, im) = complex(a, b, c, d);
        &re * &re + im * 3.0
    })
    .wrt_all()(a, b, c, d)
}

fn steps_of(name: &str) -> usize {
    let report = ms::compile_report().into_iter().rev().find(|it| it.name == name).expect("it was compiled");
    report.stages.iter().find_map(|it| it.plan).expect("a plan").steps
}

/// All results of one kernel are one step, and so are the gradients of its operands.
#[test]
fn several_results_are_one_kernel() {
    let [a, b, c, d] = [tensor![1., 2.], tensor![3., 4.], tensor![5., 6.], tensor![7., 8.]];
    let (re, im) = product(&a, &b, &c, &d);
    assert_eq!((re.to_vec::<f32>(), im.to_vec::<f32>()), (vec![-16., -20.], vec![22., 40.]));
    assert_eq!(steps_of("product"), 1);
    let (ga, gb, gc, gd) = product_slopes(&a, &b, &c, &d);
    assert_eq!(steps_of("product_slopes"), 1);
    // The gradient is 2 re d(re) + 3 d(im).
    close("a", &ga, &(&re * &c * 2.0 + &d * 3.0));
    close("b", &gb, &(&re * &d * -2.0 + &c * 3.0));
    close("c", &gc, &(&re * &a * 2.0 + &b * 3.0));
    close("d", &gd, &(&re * &b * -2.0 + &a * 3.0));
}

/// Derivatives pass through conversions of floats, and end at integers.
#[test]
fn derivatives_between_kinds() {
    let x = tensor![0.3, -0.7];
    let lost = |x: &Tensor| quantised(x, Tensor::from(0.5f32)).1;
    assert_eq!(ms::grad(lost)(&x).to_vec::<f32>(), [1., 1.]);
    assert_eq!(ms::jvp(lost)(&x, &Tensor::ones([2])).1.to_vec::<f32>(), [1., 1.]);
    assert_eq!(ms::grad(|x: &Tensor| quantised(x, 0.5).0.cast(DType::F32) * x)(&x).to_vec::<f32>(), [5., -11.]);
    ms::kernel! {
        fn wide(x: Float, scale: F64, n: Int) -> F64 {
            (x as F64 * scale + n as F64).exp() * (x as F64)
        }
    }
    let scale = tensor![0.5f64, 2.];
    let of = |x: &Tensor, scale: &Tensor| wide(x, scale, tensor![1, -1]);
    let plain = |x: &Tensor, scale: &Tensor| (x.cast(DType::F64) * scale + tensor![1., -1.]).exp() * x.cast(DType::F64);
    for (got, want) in [
        (of(&x, &scale), plain(&x, &scale)),
        (ms::grad(of)(&x, &scale), ms::grad(plain)(&x, &scale)),
        (ms::grad(of).wrt(ms::At::<1>)(&x, &scale), ms::grad(plain).wrt(ms::At::<1>)(&x, &scale)),
        (
            ms::jvp(|x: &Tensor| of(x, &scale))(&x, &Tensor::ones([2])).1,
            ms::jvp(|x: &Tensor| plain(x, &scale))(&x, &Tensor::ones([2])).1,
        ),
    ] {
        assert_eq!(got.dtype(), want.dtype());
        close("mixed dtypes", &got.cast(DType::F32), &want.cast(DType::F32));
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
    let cases: [Failure<'_>; 8] = [
        (Code::DType, &["`gcd`: takes integers, not f32", "cast first"], Box::new(|| drop(gcd(tensor![1.], 2, 1)))),
        (Code::DType, &["`gcd`: takes integers, not bool"], Box::new(|| drop(gcd(tensor![true], 2, 1)))),
        (
            Code::DType,
            &["`mixed`: takes u32, not i64[1]", "cast first", "kernels.rs"],
            Box::new(|| drop(mixed(tensor![1]))),
        ),
        (
            Code::DType,
            &["`selected`: the constant -50 is outside the range of u8", "kernels.rs"],
            Box::new(|| drop(selected(tensor![1u8], true, 3))),
        ),
        (
            Code::NoGradient,
            &["i64"],
            Box::new(|| drop(ms::grad(|x: &Tensor| gcd(x, 2, 1).cast(DType::F32))(&tensor![1]))),
        ),
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
    check_failures(&cases);
}
