//! Tests profiles: the records of ops and of compiled functions, and that profiling changes no result.

use ms::prelude::*;
use ms::{Profile, Record};

#[jit]
fn layer(x: &Tensor, w: &Tensor) -> Tensor {
    ops::softmax(x.matmul(w), -1)
}

#[jit]
fn counted(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    while x.sum(()) < 1000.0 {
        x = x.matmul(&x);
    }
    x
}

#[jit]
fn sorted(x: &Tensor) -> (Tensor, Tensor) {
    ops::sort(x, -1, false)
}

fn of<'a>(profile: &'a Profile, name: &str) -> Vec<&'a Record> {
    profile.steps.iter().filter(|it| it.name.starts_with(name)).collect()
}

#[test]
fn compiled_steps() {
    let (x, w) = (random::uniform([64, 32], -1.0, 1.0), random::uniform([32, 48], -1.0, 1.0));
    let want = layer(&x, &w);
    let (got, profile) = ms::profile(|| layer(&x, &w));
    assert_eq!(got.to_vec::<f32>(), want.to_vec::<f32>());
    let products = of(&profile, "product [64, 32] [32, 48] f32");
    assert_eq!(products.len(), 1, "{profile}");
    let product = products[0];
    assert_eq!(product.step.as_ref().map(|it| &*it.0), Some("layer"));
    if !product.name.contains("then") {
        let bytes = 4 * (64 * 32 + 32 * 48 + 64 * 48);
        assert_eq!((product.work.operations, product.work.bytes), (2 * 64 * 32 * 48, bytes));
    }
    let kernels = of(&profile, "kernel [64] max, sum of [48]");
    assert_eq!(kernels.len(), 1, "{profile}");
    let at = kernels[0].kernel.expect("a kernel is kept");
    assert!(profile.kernels[at].kernel.to_string().contains("reduce sum"));
    assert!(kernels[0].work.bytes >= 2 * 4 * 64 * 48);
    assert!(profile.steps.is_sorted_by_key(|it| it.start) && profile.by_reference == 0);
    assert!(profile.steps.iter().map(|it| it.time).sum::<std::time::Duration>() <= profile.time);
    let (_, empty) = ms::profile(|| ());
    assert!(empty.steps.is_empty());
}

/// Every iteration of a loop has separate records.
#[test]
fn loops() {
    let x = Tensor::full([4, 4], 0.5f32);
    let mut iterations = 0;
    let mut y = x.clone();
    while y.sum(()).item::<f32>() < 1000.0 {
        (y, iterations) = (y.matmul(&y), iterations + 1);
    }
    let (got, profile) = ms::profile(|| counted(&x));
    assert_eq!(got.to_vec::<f32>(), y.to_vec::<f32>());
    assert_eq!(of(&profile, "product [4, 4] [4, 4]").len(), iterations, "{profile}");
}

#[test]
fn eager_ops() {
    let x = Tensor::ones([8, 8]);
    let ((), profile) = ms::profile(|| drop((&x + 1.0).matmul(&x).t()));
    let names: Vec<&str> = profile.steps.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["add f32[8, 8], f32[]", "matmul f32[8, 8], f32[8, 8]"], "views run no code");
    let line = profile.steps[0].line.as_ref().expect("ops know their line");
    assert!(line.contains("profile.rs"), "{line}");
    assert_eq!(profile.steps[1].work.operations, 2 * 8 * 8 * 8);
}

/// A profiled training step writes its slots as it does without a profile.
#[test]
fn training_steps() {
    let train = |profiled: bool| {
        random::set_seed(3);
        let (net, opt) = (nn::Dense::new(5, 3), Adam::new(1e-2));
        let batch = (random::uniform([7, 5], -1.0, 1.0), random::randint([7], 0, 3));
        let step = || opt.step(&net, &batch, |net, (x, y)| ops::cross_entropy(net.call(x), y)).item::<f32>();
        let losses: Vec<f32> = (0..4)
            .map(|_| {
                let (loss, profile) = if profiled { ms::profile(step) } else { (step(), ms::profile(|| ()).1) };
                assert_eq!(profile.steps.is_empty(), !profiled);
                assert_eq!(profile.by_reference, 0, "{profile}");
                loss
            })
            .collect();
        (losses, net.weight.value().to_vec::<f32>())
    };
    assert_eq!(train(true), train(false));
}

#[test]
fn traces_are_json() {
    let x = random::uniform([33], -1.0, 1.0);
    let ((), profile) = ms::profile(|| drop((sorted(&x), &x * 2.0)));
    let json: serde_json::Value = serde_json::from_str(&profile.to_chrome_trace()).expect("it is JSON");
    let events = json["traceEvents"].as_array().expect("a list");
    assert_eq!(events.len(), profile.steps.len());
    let sort = events.iter().find(|it| it["name"].as_str().is_some_and(|it| it.starts_with("sort"))).expect("a step");
    assert_eq!((sort["ph"].as_str(), sort["cat"].as_str()), (Some("X"), Some("compiled")));
    assert!(sort["args"]["line"].as_str().is_some_and(|it| it.contains("profile.rs")), "{sort}");
    assert!(sort["dur"].as_f64().is_some_and(|it| it >= 0.0));
    assert!(events.last().is_some_and(|it| it["cat"] == "eager"));
    assert!(profile.to_string().contains("sort f32[33]"));
}

/// Measures the roofline of the processor, and the fraction of it that a step reaches.
#[test]
fn the_roof() {
    let roof = ms::roof().expect("the processor's is measured");
    assert!(roof.operations > 1e8 && roof.bytes.iter().all(|it| it.1 > 1e8), "{roof:?}");
    assert!(roof.bytes.is_sorted_by_key(|it| it.0));
    let ((), profile) = ms::profile(|| drop(Tensor::ones([256, 256]).matmul(&Tensor::ones([256, 256]))));
    let product = of(&profile, "matmul")[0];
    assert!(profile.fraction(product.work, product.time).is_some_and(|it| it > 0.0));
}

#[jit]
fn convolved(x: &Tensor, w: &Tensor) -> Tensor {
    ops::conv2d(x, w, None, &ops::ConvOptions::new(2))
}

/// A record names the implementation of its op, and why earlier ones of the list declined.
#[test]
fn implementations() {
    let cases: [([[usize; 4]; 2], &str); 2] = [
        ([[1, 2, 9, 9], [1, 2, 3, 3]], "direct with one output channel (not zeros: there are summands)"),
        ([[1, 1, 4, 41], [9, 1, 3, 40]], "direct: 4 output positions are less than 64"),
    ];
    for ([x, w], want) in cases {
        let (_, profile) = ms::profile(|| convolved(&Tensor::ones(x), &Tensor::ones(w)));
        let found = of(&profile, "conv f32")[0].implementation.as_deref().expect("the backend chooses");
        assert!(found.contains(want), "{found}");
        assert!(profile.to_string().contains(want) && profile.to_chrome_trace().contains(want), "{profile}");
    }
}

/// Ops without a kernel run native loops of the backend, not the reference evaluation.
#[test]
fn nothing_runs_by_reference() {
    let x = random::uniform([2, 3, 8, 8], -1.0, 1.0);
    let index = tensor![[0i64, 1], [1, 2]];
    let pool = ops::PoolOptions::new(2, 2);
    let run = |x: &Tensor| {
        let rows = x.reshape([6, 64]);
        drop((ops::argmax(x, 1), ops::argmin(x, ()), ops::cumsum(x, 2), ops::cumprod(x, -1)));
        drop((ops::sort(x, 1, true), ops::topk(&rows, 3, -1, true), ops::gather_nd(x, &index)));
        drop((ops::avg_pool(x, &pool), ops::max_pool(x, &pool), ops::adaptive_avg_pool2d(x, [3, 3])));
        let loss = |x: &Tensor| {
            let pooled = ops::avg_pool(x, &pool).sum(()) + ops::max_pool(x, &pool).sum(());
            pooled + ops::adaptive_avg_pool2d(x, [3, 3]).square().sum(()) + ops::cumsum(x, 1).square().sum(())
        };
        drop(ms::grad(loss)(x));
    };
    let ((), profile) = ms::profile(|| run(&x));
    assert!(profile.steps.len() > 12);
    assert_eq!(profile.by_reference, 0, "{profile}");
}
