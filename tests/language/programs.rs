//! Runs the programs of MindSpore's static-graph tutorials: every form of a program has the same result.

use ms::prelude::*;
use ms::{context, with_context};
use std::sync::atomic::{AtomicI64, Ordering};

#[cell]
struct Network {
    flatten: nn::Flatten,
    dense_relu_sequential: nn::Sequential,
}

#[cell]
impl Network {
    fn new() -> Self {
        Self {
            flatten: nn::Flatten::new(),
            dense_relu_sequential: nn::sequential![
                nn::Dense::new(28 * 28, 512),
                nn::ReLU,
                nn::Dense::new(512, 512),
                nn::ReLU,
                nn::Dense::new(512, 10)
            ],
        }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        self.dense_relu_sequential(&self.flatten(x))
    }
}

/// The network with a compiled `construct`.
#[cell]
struct JitNetwork {
    network: Network,
}

#[cell]
impl JitNetwork {
    #[jit]
    fn construct(&self, x: &Tensor) -> Tensor {
        self.network(x)
    }
}

#[jit]
fn run_given(network: &Network, x: &Tensor) -> Tensor {
    network.call(x)
}

#[jit]
fn run_made_inside(x: &Tensor) -> Tensor {
    let model = Network::new();
    model.call(x)
}

fn helper(x: &Tensor) -> Tensor {
    (x * 2.0 + 1.0).relu()
}

fn in_mode<R>(mode: Mode, precision: Precision, f: impl FnOnce() -> R) -> R {
    with_context(Context { mode, precision, ..context() }, f)
}

fn assert_close(got: &Tensor, want: &Tensor, tolerance: f32, what: &str) {
    assert_eq!(got.shape(), want.shape(), "{what}");
    let pairs = got.to_vec::<f32>().into_iter().zip(want.to_vec::<f32>());
    for (i, (got, want)) in pairs.enumerate() {
        assert!((got - want).abs() <= tolerance, "{what}: element {i} is {got}, not {want}");
    }
}

/// The forms are: eagerly, in graph mode, as an argument of a `#[jit]` function, and with a compiled `construct`.
#[test]
fn four_forms_of_one_network_agree() {
    for (precision, tolerance) in [(Precision::Strict, 0.0), (Precision::Highest, 1e-6)] {
        let network = JitNetwork { network: Network::new() };
        let x = random::uniform([64, 1, 28, 28], 0.0, 1.0);
        let eager = in_mode(Mode::PyNative, precision, || network.network.call(&x));
        assert_eq!(eager.shape(), [64, 10]);
        let graph = in_mode(Mode::Graph, precision, || network.network.call(&x));
        let given = in_mode(Mode::PyNative, precision, || run_given(&network.network, &x));
        let construct = in_mode(Mode::PyNative, precision, || network.call(&x));
        for (what, form) in [("graph mode", graph), ("argument", given), ("construct", construct)] {
            assert_close(&form, &eager, tolerance, &format!("{what}, {precision:?}"));
        }
    }
}

/// The model is created once, and its parameters belong to the function.
#[test]
fn a_model_made_inside_keeps_its_parameters() {
    let x = Tensor::ones([2, 1, 28, 28]);
    let first = run_made_inside(&x);
    assert_eq!(run_made_inside(&x).to_vec::<f32>(), first.to_vec::<f32>());
    let larger = run_made_inside(&Tensor::ones([3, 1, 28, 28]));
    assert_close(&larger.i(0..2), &first, 1e-5, "another shape, the same parameters");
    let debugged = with_context(Context { jit: false, ..context() }, || run_made_inside(&x));
    assert_close(&debugged, &first, 1e-5, "without compiling, the same parameters");
}

/// Functions and closures compile in the form of a transformation.
#[test]
fn functions_and_closures_compile() {
    let x = Tensor::from_slice([3], &[-1.0f32, 0.0, 2.0]);
    let run_with_jit = ms::jit(|x: &Tensor| helper(x));
    assert_eq!(run_with_jit(&x).to_vec::<f32>(), [0.0, 1.0, 5.0]);
    assert_eq!(ms::jit(helper)(&x).to_vec::<f32>(), [0.0, 1.0, 5.0]);
}

#[cell]
struct Add;

#[cell]
impl Add {
    fn construct(&self, x: &Tensor) -> Tensor {
        let x = x + x;
        &x + &x
    }
}

#[cell]
struct Mul;

#[cell]
impl Mul {
    #[jit]
    fn construct(&self, x: &Tensor) -> Tensor {
        let x = x * x;
        &x * &x
    }
}

#[cell]
struct Mixed {
    add: Add,
    mul: Mul,
}

#[cell]
impl Mixed {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.add(&self.mul(&self.add(x)))
    }
}

/// Only one `construct` is compiled. The rest runs eagerly.
#[test]
fn eager_and_compiled_parts_mix() {
    let out = Mixed { add: Add, mul: Mul }.call(&Tensor::ones([3, 3]));
    assert_eq!(out.to_vec::<f32>(), [1024.0; 9]);
}

#[jit]
fn add_func(x: &Tensor, y: &Tensor) -> Tensor {
    x + y
}

#[cell]
struct AddNet;

#[cell]
impl AddNet {
    #[jit]
    fn construct(&self, x: &Tensor, y: &Tensor) -> Tensor {
        x + y
    }
}

/// The test takes a sum, and the gradients of a compiled sum with respect to both arguments.
#[test]
fn gradients_pass_through_a_compiled_construct() {
    let (x, y) = (tensor![1.0, 2.0, 3.0], tensor![4.0, 5.0, 6.0]);
    assert_eq!(add_func(&x, &y).to_vec::<f32>(), [5.0, 7.0, 9.0]);
    let net = AddNet;
    let gradients = GradOperation::new().get_all().of(|x: &Tensor, y: &Tensor| net.call(x, y));
    let (gx, gy) = gradients(&x, &y);
    assert_eq!((gx.to_vec::<f32>(), gy.to_vec::<f32>()), (vec![1.0; 3], vec![1.0; 3]));
}

#[jit]
fn conv_fn(conv: &nn::Conv2d, x: &Tensor) -> Tensor {
    conv.call(x)
}

/// A layer that is created outside is passed as an argument.
#[test]
fn a_convolution_is_an_argument() {
    let conv = nn::Conv2d::new(3, 4, 3).stride(2);
    let x = random::uniform([1, 3, 3, 3], -1.0, 1.0);
    let compiled = conv_fn(&conv, &x);
    assert_eq!(compiled.shape(), [1, 4, 1, 1]);
    assert_close(&compiled, &conv.call(&x), 1e-6, "compiled and eager");
}

#[jit]
fn func(input_x: &Tensor, input_y: &Tensor) -> Tensor {
    let mut output = input_x.clone();
    for _ in 0..200 {
        output = input_x + input_x * input_y + output;
    }
    output
}

/// A host loop of 200 iterations is unrolled.
#[test]
fn a_host_loop_unrolls() {
    assert_eq!(func(&tensor![1.0], &tensor![2.0]).to_vec::<f32>(), [601.0]);
}

/// `pow` exists as a function and as a primitive object.
#[test]
fn pow_is_a_function_and_an_object() {
    let x = tensor![1.0, 2.0, 4.0];
    assert_eq!(ops::pow(&x, 3.0).to_vec::<f32>(), [1.0, 8.0, 64.0]);
    assert_eq!(ops::Pow::new().call(&x, 3.0).to_vec::<f32>(), [1.0, 8.0, 64.0]);
}

/// Gradient descent trains a linear model to the same losses, compiled and eagerly.
#[test]
fn a_linear_model_trains_to_the_same_losses() {
    let x = random::uniform([32, 3], -1.0, 1.0);
    let y = x.matmul(tensor![[1.5], [-2.0], [0.5]]) + 0.25;
    let losses = |compiled: bool| -> Vec<f32> {
        let net = nn::Dense::new(3, 1);
        // The default generator is avoided here, since other tests draw from it concurrently.
        for parameter in net.trainable_parameters() {
            parameter.set(&Tensor::full_like(parameter.value(), 0.1));
        }
        let opt = SGD::new(0.01);
        let batch = (x.clone(), y.clone());
        let loss = |net: &nn::Dense, (x, y): &(Tensor, Tensor)| ops::mse_loss(net.call(x), y);
        let step = |_| {
            let loss = if compiled { opt.step(&net, &batch, loss) } else { opt.step_eagerly(&net, &batch, loss) };
            loss.item::<f32>()
        };
        (0..1000).map(step).collect()
    };
    let (eager, compiled) = (losses(false), losses(true));
    assert!(eager[999] < 0.1 * eager[0], "the loss falls from {} to {}", eager[0], eager[999]);
    for (i, (a, b)) in eager.iter().zip(&compiled).enumerate() {
        assert!((a - b).abs() <= 1e-6, "step {i}: {a} eagerly, {b} compiled");
    }
}

#[jit]
fn made_by_many(x: &Tensor) -> Tensor {
    nn::Dense::new(4, 3).call(x)
}

/// On several threads, the first thread creates the parameters, once.
#[test]
fn threads_share_the_model_that_a_function_makes() {
    let x = Tensor::ones([2, 4]);
    let first_calls: Vec<Vec<f32>> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..8).map(|_| scope.spawn(|| made_by_many(&x).to_vec::<f32>())).collect();
        calls.into_iter().map(|it| it.join().expect("the call returns")).collect()
    });
    assert!(first_calls.iter().all(|it| *it == first_calls[0]), "{first_calls:?}");
}

static VALUE: AtomicI64 = AtomicI64::new(5);

#[jit]
fn shadows_a_static(x: &Tensor) -> Tensor {
    let value = 1;
    x + value
}

/// An assignment to a static inside is a compile error: `ui-tests/fail/MS023_static_assignment.rs`.
#[test]
fn a_local_leaves_a_static_alone() {
    assert_eq!(shadows_a_static(&Tensor::scalar(2.0f32)).item::<f32>(), 3.0);
    assert_eq!(VALUE.load(Ordering::Relaxed), 5);
}

#[jit]
fn if_net(x: &Tensor, y: &Tensor) -> Tensor {
    let mut x = x.clone();
    let mut out = Tensor::zeros_like(&x);
    for _ in 0..100 {
        if x < y {
            x = x - y
        } else {
            x = x + y
        }
        out = out + &x;
    }
    out
}

#[jit]
fn select_net(x: &Tensor, y: &Tensor) -> Tensor {
    let mut x = x.clone();
    let mut out = x.clone();
    for _ in 0..100 {
        let cond = x.lt(y);
        x = ops::select(&cond, &(&x - y), &(&x + y));
        out = out + &x;
    }
    out
}

/// Uses `if` and `select` in a host loop.
#[test]
fn a_decision_in_a_loop_is_a_selection_in_a_loop() {
    for f in [if_net, select_net] {
        let run = || f(&Tensor::from_slice([1], &[0.0f32]), &Tensor::from_slice([1], &[1.0f32])).to_vec::<f32>();
        for _ in 0..2 {
            assert_eq!(run(), [-5050.0]);
        }
        assert_eq!(with_context(Context { jit: false, ..context() }, run), [-5050.0]);
    }
}
