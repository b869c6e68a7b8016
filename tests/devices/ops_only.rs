//! Tests programs on a device that runs ops only.

use super::*;

#[jit]
fn over_a_while(x: &Tensor) -> (Tensor, Tensor) {
    let mut y = x.clone();
    let mut count = Tensor::from(0i64);
    while y.sum(()) < 100.0 {
        y = &y * 2.0;
        count = count + 1;
    }
    let z = if count > 3 { y.t() } else { ops::zeros([3, 2]) };
    (z, count)
}

/// Training and control flow have the bits of the host in strict precision, eagerly and compiled.
#[test]
fn strict_results_are_those_of_the_host() {
    let results = |device: Device, eagerly: bool| {
        let strict = Context { precision: Precision::Strict, ..ms::context() };
        ms::with_context(strict, || {
            on(device, || {
                random::set_seed(1);
                let net = conv_net();
                let optimizer = Adam::new(1e-2);
                let batch = (random::normal([4, 1, 8, 8], 0.0, 1.0), random::randint([4], 0, 10));
                let loss = |net: &ConvNet, (x, y): &(Tensor, Tensor)| ops::cross_entropy(net.call(x), y);
                let losses = (0..3).map(|_| match eagerly {
                    true => optimizer.step_eagerly(&net, &batch, loss),
                    false => optimizer.step(&net, &batch, loss),
                });
                let mut all: Vec<f32> = losses.map(|it| it.item::<f32>()).collect();
                let (z, count) = over_a_while(&ops::arange(6).cast(DType::F32).reshape([2, 3]));
                all.extend(z.to_vec::<f32>());
                all.push(count.item::<i64>() as f32);
                all
            })
        })
    };
    let _alone = alone();
    let device: Device = "simops:1".parse().expect("a name");
    for eagerly in [true, false] {
        let before = SimBackend::simulation_of_ops(1).expect("it exists").counts();
        let (got, want) = (results(device, eagerly), results(Device::CPU, eagerly));
        assert_eq!(got, want, "eagerly: {eagerly}");
        let after = SimBackend::simulation_of_ops(1).expect("it exists").counts();
        assert!(after.steps > before.steps, "the device ran the steps");
    }
}

/// An op that refuses its operands is the error at the first wait.
#[test]
fn refusals_come_later() {
    let _alone = alone();
    on("simops:1".parse().expect("a name"), || {
        let (rows, at) = (ops::zeros([3, 2]), tensor![5i64]);
        let error = catch(|| ops::index_select(&rows, &at, 0).to_vec::<f32>()).expect_err("there are three rows");
        assert_eq!(error.code(), Code::OutOfRange, "{error}");
        assert_eq!(ops::index_select(&rows, tensor![1i64], 0).to_vec::<f32>(), [0.0; 2]);
    });
}
