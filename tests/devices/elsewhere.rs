//! Tests the backend of `docs/backend.md`, which programs elsewhere link as a crate.

use super::*;

#[path = "../../examples/backend/src/lib.rs"]
mod heap;

#[jit]
fn doubled_until(x: &Tensor, limit: f32) -> (Tensor, Tensor) {
    let mut y = x.clone();
    let mut count = Tensor::from(0i64);
    while y.sum(()) < limit {
        y = &y * 2.0;
        count = count + 1;
    }
    (if count > 3 { y.t() } else { ops::zeros([3, 2]) }, count)
}

/// Training, control flow and checks, eagerly and compiled, have the bits of the host.
#[test]
fn bits_are_those_of_the_host() {
    let results = |device: Device, jit: bool| {
        let strict = Context { precision: Precision::Strict, jit, ..ms::context() };
        ms::with_context(strict, || {
            on(device, || {
                random::set_seed(1);
                let net = nn::sequential![nn::Conv2d::new(1, 4, 3), nn::Flatten::new(), nn::Dense::new(4 * 6 * 6, 10)];
                let optimizer = Adam::new(1e-2);
                let batch = (random::normal([4, 1, 8, 8], 0.0, 1.0), random::randint([4], 0, 10));
                let loss = |net: &nn::Sequential, (x, y): &(Tensor, Tensor)| ops::cross_entropy(net.call(x), y);
                let losses = (0..3).map(|_| optimizer.step(&net, &batch, loss));
                let mut all: Vec<f32> = losses.map(|it| it.item::<f32>()).collect();
                let (z, count) = doubled_until(&ops::arange(6).cast(DType::F32).reshape([2, 3]), 100.0);
                assert_eq!(z.device(), device);
                all.extend(z.to_vec::<f32>());
                all.push(count.item::<i64>() as f32);
                let rows = ops::zeros([3, 2]);
                let error = catch(|| ops::index_select(&rows, tensor![5i64], 0)).expect_err("there are three rows");
                assert_eq!(error.code(), Code::OutOfRange, "{error}");
                all.into_iter().map(f32::to_bits).collect::<Vec<u32>>()
            })
        })
    };
    let _alone = alone();
    let device: Device = "heap".parse().expect("a name");
    for jit in [false, true] {
        assert_eq!(results(device, jit), results(Device::CPU, jit), "compiled: {jit}");
    }
}

#[test]
fn there_is_one_heap() {
    let error = catch(|| tensor![1.0].to("heap:1".parse::<Device>().expect("a name"))).expect_err("there is one");
    assert_eq!(error.code(), Code::DeviceUnavailable);
    assert!(error.to_string().contains("`heap:0`"), "{error}");
}
