//! Tests programs on a device with separate memory, beside the host.

use ms::prelude::*;
use ms::tensor::Device;
use ms::{Code, catch, grad, random};
use ms_sim::SimBackend;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[path = "../common/gpt.rs"]
mod gpt;

mod conditions;
mod elsewhere;
mod failures;
mod memory;
mod ops_only;
mod waits;

fn sim(id: u16) -> Device {
    format!("sim:{id}").parse().expect("a name")
}

/// Runs `f` with new tensors on a device.
fn on<R>(device: Device, f: impl FnOnce() -> R) -> R {
    ms::with_context(Context { device_target: device.kind(), device_id: device.id(), ..ms::context() }, f)
}

#[jit]
fn scaled_sum(x: &Tensor, y: &Tensor) -> Tensor {
    (x * 2.0 + y).sum(())
}

#[jit]
fn constant() -> Tensor {
    ops::arange(4) * 3
}

#[jit]
fn noisy(x: &Tensor) -> Tensor {
    x + random::uniform([3], 0.0, 1.0)
}

/// A compiled function has code for each device, and runs on the device of its arguments.
#[test]
fn compiled_functions_run_where_their_arguments_are() {
    let (x, y) = on(Device::CPU, || (tensor![1., 2., 3.], tensor![10., 20., 30.]));
    for device in [Device::CPU, sim(0), sim(1), Device::CPU, sim(0)] {
        let out = scaled_sum(&x.to(device), &y.to(device));
        assert_eq!((out.device(), out.item::<f32>()), (device, 72.0));
    }
    let error = catch(|| scaled_sum(&x.to(sim(0)), &y)).expect_err("two devices");
    assert_eq!(error.code(), Code::Devices);
    let said = error.to_string();
    assert!(["`sim:0`", "`cpu`", "`scaled_sum`"].iter().all(|it| said.contains(it)), "{said}");
    // Scalars on the host move to the device of the other operand.
    let out = scaled_sum(&x.to(sim(0)), &Tensor::scalar(1.0));
    assert_eq!((out.device(), out.item::<f32>()), (sim(0), 15.0));
}

#[test]
fn new_tensors_are_on_the_device_of_the_settings() {
    for device in [sim(0), Device::CPU, sim(1)] {
        on(device, || {
            let made = [
                tensor![1., 2.],
                Tensor::from(vec![1u8]),
                Tensor::scalar(1.5),
                Tensor::zeros([2]),
                ops::eye(3),
                random::normal([3], 0.0, 1.0),
                constant(),
            ];
            made.iter().enumerate().for_each(|(at, it)| assert_eq!(it.device(), device, "tensor {at}"));
            assert_eq!(constant().to_vec::<i64>(), [0, 3, 6, 9]);
        });
    }
    for target in ["Ascend", "cuda", "GPU"] {
        let none = Context { device_target: target.parse().expect("a name"), ..ms::context() };
        let error = catch(|| ms::with_context(none, || ())).expect_err("no such device");
        assert_eq!(error.code(), Code::DeviceUnavailable);
        assert!(error.to_string().contains("backends for cpu, heap, sim, simops"), "{error}");
    }
}

/// The state of a generator moves to the device that draws. The numbers are the same everywhere.
#[test]
fn random_numbers_are_those_of_the_seed_on_every_device() {
    let x = tensor![0., 0., 0.];
    let drawn = |devices: [Device; 4]| {
        random::set_seed(5);
        devices.map(|it| {
            let drawn = noisy(&x.to(it));
            assert_eq!(drawn.device(), it);
            drawn.to_vec::<f32>()
        })
    };
    assert_eq!(drawn([sim(0), Device::CPU, sim(1), sim(0)]), drawn([Device::CPU; 4]));
}

#[cell]
struct Net {
    hidden: nn::Dense,
    out: nn::Dense,
}

#[cell]
impl Net {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.out(&self.hidden(x).relu())
    }
}

#[cell]
struct ConvNet {
    first: nn::Conv2d,
    norm: nn::BatchNorm,
    out: nn::Dense,
}

#[cell]
impl ConvNet {
    fn construct(&self, x: &Tensor) -> Tensor {
        let x = self.norm(&self.first(x)).relu();
        self.out(&ops::flatten(&x, 1))
    }
}

/// A network of ten classes for images of 8 x 8.
fn conv_net() -> ConvNet {
    ConvNet { first: nn::Conv2d::new(1, 4, 3), norm: nn::BatchNorm::new(4), out: nn::Dense::new(4 * 6 * 6, 10) }
}

/// Runs `f` in strict precision, in which all devices give the same bits.
fn strictly<R>(f: impl FnOnce() -> R) -> R {
    ms::with_context(Context { precision: Precision::Strict, ..ms::context() }, f)
}

/// Training gives the same bits on the device as on the host, with eager and compiled steps.
#[test]
fn training_is_the_same_on_every_device() {
    let train = |device: Device, eagerly: bool| {
        on(device, || {
            random::set_seed(1);
            let net = Net { hidden: nn::Dense::new(4, 8), out: nn::Dense::new(8, 1) };
            let optimizer = Adam::new(1e-2);
            let batch = (random::normal([16, 4], 0.0, 1.0), random::normal([16, 1], 0.0, 1.0));
            let loss = |net: &Net, (x, y): &(Tensor, Tensor)| ops::mse_loss(net.call(x), y);
            let losses = (0..5).map(|_| match eagerly {
                true => optimizer.step_eagerly(&net, &batch, loss),
                false => optimizer.step(&net, &batch, loss),
            });
            let losses: Vec<f32> = losses.map(|it| it.item::<f32>()).collect();
            net.parameters().iter().for_each(|it| assert_eq!(it.value().device(), device));
            losses
        })
    };
    for eagerly in [true, false] {
        let [host, there] = [Device::CPU, sim(0)].map(|device| strictly(|| train(device, eagerly)));
        assert!(host[4] < host[0], "{host:?}");
        assert_eq!(there, host);
    }
}

/// Steps of training replay what an earlier one submitted. Losses, parameters and snapshots of them have the bits of the
/// host.
#[test]
fn captured_training_has_the_bits_of_the_host() {
    let train = |device: Device| {
        on(device, || {
            random::set_seed(1);
            let (net, optimizer) = (conv_net(), Adam::new(1e-2));
            let batch = (random::normal([4, 1, 8, 8], 0.0, 1.0), random::randint([4], 0, 10));
            let loss = |net: &ConvNet, (x, y): &(Tensor, Tensor)| ops::cross_entropy(net.call(x), y);
            let values = || net.parameters().iter().map(|it| it.value()).collect::<Vec<_>>();
            let mut kept = Vec::new();
            for step in 0..24 {
                let loss = optimizer.step(&net, &batch, loss);
                match step % 8 {
                    3 => kept.push(loss),
                    5 => kept.extend(values()),
                    _ => {}
                }
            }
            kept.extend(values());
            kept.iter().map(|it| it.to_vec::<f32>()).collect::<Vec<_>>()
        })
    };
    let _alone = alone();
    let simulation = SimBackend::simulation(2).expect("it exists");
    let before = simulation.counts();
    let there = strictly(|| train(sim(2)));
    let replays = simulation.counts().replays - before.replays;
    assert!((10..24).contains(&replays), "{replays} replays of 24 steps");
    assert_eq!(there, strictly(|| train(Device::CPU)));
}

#[test]
fn cells_move() {
    strictly(|| {
        let net = Net { hidden: nn::Dense::new(4, 8), out: nn::Dense::new(8, 1) };
        let compiled = ms::jit(|net: &Net, x: &Tensor| net.call(x));
        let x = random::normal([2, 4], 0.0, 1.0);
        let want = [net.call(&x), compiled(&net, &x)].map(|it| it.to_vec::<f32>());
        for device in [sim(0), sim(1), Device::CPU] {
            let there = x.to(device);
            let got = [net.to(device).call(&there), compiled(&net, &there)];
            got.iter().for_each(|it| assert_eq!(it.device(), device));
            assert_eq!(got.map(|it| it.to_vec::<f32>()), want);
        }
        let error = catch(|| drop(net.to("sim:9").parameters())).expect_err("no such device");
        assert_eq!(error.code(), Code::DeviceUnavailable);
        net.parameters().iter().for_each(|it| assert_eq!(it.value().device(), Device::CPU));
    });
}

/// A copy to another device is the identity for gradients. The gradient is on the device of the tensor.
#[test]
fn gradients_flow_through_copies() {
    let cubes = |x: &Tensor| {
        let there = (x * x).to("sim:0");
        (&there * x.to("sim:0")).sum(())
    };
    let (x, direction) = on(Device::CPU, || (tensor![1., 2., 3.], tensor![1., 0., 0.]));
    let slope = grad(cubes)(&x);
    assert_eq!((slope.device(), slope.to_vec::<f32>()), (Device::CPU, vec![3., 12., 27.]));
    let second = grad(move |x: &Tensor| grad(cubes)(x).sum(()))(&x);
    assert_eq!((second.device(), second.to_vec::<f32>()), (Device::CPU, vec![6., 12., 18.]));
    let (_, tangent) = ms::jvp(cubes)(&x, &direction);
    assert_eq!(tangent.to_vec::<f32>(), [3.]);
}

#[test]
fn traced_values_are_on_no_device() {
    let moved = ms::jit(|x: &Tensor| x.to("cpu") + 1.0);
    let error = catch(|| moved(&tensor![1.])).expect_err("refused");
    assert_eq!(error.code(), Code::TracedValue);
    assert!(error.to_string().contains("move them before the call"), "{error}");
}

/// Allows only one test at a time to count, or to wait for all devices.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}
