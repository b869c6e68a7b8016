//! Tests that memory does not grow without bound: a dropped model releases everything that was created for it.

use ms::Context;
use ms::prelude::*;
use ms_conformance::thread_time::thread_seconds;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The system's allocator, which counts the bytes in use.
struct Counted;

/// The number of bytes in use.
static LIVE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: `System` is a valid allocator, and every call is forwarded to it with unchanged arguments.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: `layout` has a non-zero size by the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: `System` allocated `block` with `layout`, since `alloc` forwards to it.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static MEMORY: Counted = Counted;

/// Serialises the tests of this file: they measure the memory of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The limit, in bytes, on the memory that remains of one model. Its parameters alone are larger.
const MODEL_BYTES: isize = 256;

/// The limit on one-time allocations, such as blocks of memory that ended threads leave to other threads.
const ONCE_BYTES: isize = 128 << 10;

/// Creates, uses and drops models. The remaining memory must not grow with their number.
#[track_caller]
fn check(name: &str, count: usize, mut model: impl FnMut(usize)) {
    let warm = count / 4;
    (0..warm).for_each(&mut model);
    ms::flush_cache();
    let before = LIVE.load(Ordering::Relaxed);
    (warm..count).for_each(model);
    ms::flush_cache();
    let (left, models) = (LIVE.load(Ordering::Relaxed) - before, (count - warm) as isize);
    assert!(left <= ONCE_BYTES + MODEL_BYTES * models, "{name}: {left} bytes stay of {models} models");
}

fn batch() -> (Tensor, Tensor) {
    (Tensor::ones([2, 8]), Tensor::zeros([2, 8]))
}

fn loss(net: &nn::Dense, (x, y): &(Tensor, Tensor)) -> Tensor {
    ops::mse_loss(net.call(x), y)
}

#[jit]
fn predict(net: &nn::Dense, x: &Tensor) -> Tensor {
    net.call(x)
}

#[jit]
fn gradients(net: &nn::Dense, batch: &(Tensor, Tensor)) -> (Tensor, ms::Gradients) {
    ms::value_and_grad(|net: &nn::Dense| loss(net, batch))(net)
}

#[jit]
fn update(net: &nn::Dense, opt: &Adam, batch: &(Tensor, Tensor)) -> Tensor {
    let (value, gradients) = ms::value_and_grad(|net: &nn::Dense| loss(net, batch))(net);
    opt.update(&gradients);
    value
}

#[jit]
fn trained_inside(batch: &(Tensor, Tensor)) -> Tensor {
    let (net, opt) = (nn::Dense::new(8, 8), SGD::new(0.1).momentum(0.5));
    let (value, gradients) = ms::value_and_grad(|net: &nn::Dense| loss(net, batch))(&net);
    opt.update(&gradients);
    value
}

#[test]
fn models_that_were_trained() {
    let _alone = alone();
    let batch = batch();
    check("step", 1000, |_| {
        let (net, opt) = (nn::Dense::new(8, 8), Adam::new(1e-3));
        let first = opt.step(&net, &batch, loss).item::<f32>();
        assert!(opt.step(&net, &batch, loss).item::<f32>() < first);
    });
}

/// Runs `MS_STEPS` steps of one model, eagerly and compiled.
#[test]
fn steps_of_one_model() {
    let _alone = alone();
    let (count, batch) = (std::env::var("MS_STEPS").map_or(1_000, |it| it.parse().expect("a number")), batch());
    for compiled in [false, true] {
        let (net, opt) = (nn::Dense::new(8, 8), Adam::new(1e-3));
        let step = |_| {
            let loss = if compiled { opt.step(&net, &batch, loss) } else { opt.step_eagerly(&net, &batch, loss) };
            assert!(loss.item::<f32>().is_finite());
        };
        (0..count / 4).for_each(step);
        let before = LIVE.load(Ordering::Relaxed);
        (0..count).for_each(step);
        let left = LIVE.load(Ordering::Relaxed) - before;
        assert!(left <= ONCE_BYTES, "compiled {compiled}: {left} bytes stay of the steps");
    }
}

#[test]
fn models_of_every_transform() {
    let _alone = alone();
    let batch = batch();
    check("jit", 200, |_| {
        predict(&nn::Dense::new(8, 8), &batch.0);
    });
    check("gradients as a result", 200, |_| {
        let net = nn::Dense::new(8, 8);
        for _ in 0..2 {
            assert_eq!(gradients(&net, &batch).1.len(), 2);
        }
    });
    check("an update in a function", 200, |_| {
        let (net, opt) = (nn::Dense::new(8, 8), Adam::new(1e-2));
        let first = update(&net, &opt, &batch).item::<f32>();
        assert!(update(&net, &opt, &batch).item::<f32>() < first);
    });
    check("made in a function", 200, |_| {
        trained_inside(&batch);
    });
    check("a gradient of a closure that captures it", 200, |_| {
        let net = nn::Dense::new(8, 8);
        ms::grad(|x: &Tensor| ops::sum(predict(&net, x), ()))(&batch.0);
        ms::grad(|x: &Tensor| ops::sum(net.call(x), ()))(&batch.0);
    });
    check("vmap of a closure that captures it", 200, |_| {
        let net = nn::Dense::new(8, 8);
        ms::vmap(|x: &Tensor| net.call(&x.reshape([1, 8])))(&batch.0);
    });
    check("an ensemble", 200, |_| {
        let cells = [nn::Dense::new(8, 8), nn::Dense::new(8, 8)];
        ms::vmap_cells(&cells).in_axes(None)(&batch.0);
    });
    check("eager training", 200, |_| {
        let (net, opt) = (nn::Dense::new(8, 8), Adam::new(1e-3));
        opt.step_eagerly(&net, &batch, loss);
    });
}

/// An optimiser that outlives its models keeps no state for them.
#[test]
fn models_of_one_optimiser() {
    let _alone = alone();
    let (opt, batch) = (Adam::new(1e-3), batch());
    check("eagerly", 200, |_| {
        opt.step_eagerly(&nn::Dense::new(8, 8), &batch, loss);
    });
    check("compiled", 200, |_| {
        opt.step(&nn::Dense::new(8, 8), &batch, loss);
    });
}

thread_local! {
    static CURRENT: RefCell<Option<nn::Dense>> = const { RefCell::new(None) };
}

#[jit]
fn with_current(x: &Tensor) -> Tensor {
    current(x)
}

fn current(x: &Tensor) -> Tensor {
    CURRENT.with(|it| it.borrow().as_ref().expect("set before the call").call(x))
}

/// A function that accesses its model other than through an argument is traced again after the model is dropped.
#[test]
fn a_model_that_is_no_argument() {
    let _alone = alone();
    let x = Tensor::ones([2, 8]);
    check("thread-local", 200, |_| {
        let net = nn::Dense::new(8, 8);
        let want = net.call(&x).to_vec::<f32>();
        CURRENT.set(Some(net));
        for _ in 0..2 {
            assert_eq!(with_current(&x).to_vec::<f32>(), want);
        }
    });
}

#[test]
fn models_with_a_cache_on_disk() {
    let _alone = alone();
    let path = std::env::temp_dir().join(format!("ms-growth-{}", std::process::id()));
    let context = Context { enable_compile_cache: true, compile_cache_path: Some(path.clone()), ..ms::context() };
    ms::with_context(context, || {
        let batch = batch();
        check("step", 200, |_| {
            let (net, opt) = (nn::Dense::new(8, 8), Adam::new(1e-3));
            opt.step(&net, &batch, loss);
        });
    });
    let _ = std::fs::remove_dir_all(path);
}

/// Models are dropped while other threads call theirs, and while one calls the same model.
#[test]
fn models_of_many_threads() {
    let _alone = alone();
    let x = Tensor::ones([2, 8]);
    check("threads", 80, |_| {
        let shared = Arc::new(nn::Dense::new(8, 8));
        std::thread::scope(|scope| {
            let threads = [(); 3].map(|()| {
                let (shared, x) = (shared.clone(), &x);
                scope.spawn(move || {
                    for _ in 0..5 {
                        let own = nn::Dense::new(8, 8);
                        let want = own.call(x).to_vec::<f32>();
                        assert_eq!(predict(&own, x).to_vec::<f32>(), want);
                        drop(own);
                        predict(&shared, x);
                    }
                })
            });
            drop(shared);
            // The scope waits for the threads' work, not for their thread-locals to be dropped.
            threads.into_iter().for_each(|it| it.join().expect("no thread fails"));
        });
    });
}

/// Each optimiser has a separate state, even if one function creates several.
#[test]
fn optimisers_in_one_function_are_apart() {
    let _alone = alone();
    let batch = batch();
    let losses =
        |net: &nn::Dense, opt: &Adam| -> Vec<f32> { (0..3).map(|_| update(net, opt, &batch).item::<f32>()).collect() };
    let net = |seed| {
        random::set_seed(seed);
        nn::Dense::new(8, 8)
    };
    let first = losses(&net(1), &Adam::new(1e-2));
    let (other, opt) = (net(2), Adam::new(1e-2));
    losses(&other, &opt);
    assert_eq!(losses(&net(1), &Adam::new(1e-2)), first);
    let kept = (net(1), Adam::new(1e-2));
    let again = losses(&kept.0, &kept.1);
    losses(&other, &opt);
    assert_eq!(again, first);
}

/// The number of tensors in a list.
const FEW: usize = 1500;

/// A nesting depth far greater than a stack allows.
const MANY: usize = 100_000;

#[jit]
fn doubled(xs: &Vec<Tensor>) -> Vec<Tensor> {
    xs.iter().map(|it| it + it).collect()
}

#[jit]
fn summed(xs: &Vec<Tensor>) -> Tensor {
    xs.iter().fold(Tensor::scalar(0.0), |sum, it| sum + it)
}

#[jit]
fn stacked(xs: &Vec<Tensor>) -> Tensor {
    ops::stack(xs, 0)
}

#[jit]
fn given_up(xs: Vec<Tensor>) -> Vec<Tensor> {
    xs.iter().map(|it| it * 2.0).collect()
}

#[jit]
fn chained(x: &Tensor, n: usize) -> Vec<Tensor> {
    let mut all = vec![x + 1.0];
    for at in 1..n {
        all.push(&all[at - 1] + 1.0);
    }
    all
}

/// The time of compilation and of a run is linear in the number of tensors.
#[test]
fn lists_of_many_tensors() {
    let _alone = alone();
    let list = |n: usize| -> Vec<Tensor> { (0..n).map(|it| Tensor::scalar((it % 7) as f32)).collect() };
    let ones = |xs: &[Tensor]| xs.iter().all(|it| it.item::<f32>() == 1.0);
    type Case<'a> = (&'a str, &'a dyn Fn(&Vec<Tensor>));
    let cases: [Case<'_>; 6] = [
        ("lists", &|xs| assert_eq!(doubled(xs)[xs.len() - 1].item::<f32>(), 2.0 * xs[xs.len() - 1].item::<f32>())),
        ("one op", &|xs| assert_eq!(stacked(xs).shape(), [xs.len()])),
        ("given up", &|xs| assert_eq!(given_up(list(xs.len()))[1].item::<f32>(), 2.0)),
        ("a chain", &|xs| {
            let all = chained(&Tensor::scalar(0.0), xs.len());
            assert_eq!(all[xs.len() - 1].item::<f32>(), xs.len() as f32);
        }),
        ("a tape", &|xs| assert!(ones(&ms::grad(|xs: &Vec<Tensor>| summed(xs))(xs)))),
        ("a gradient", &|xs| {
            let gradient = ms::jit(|xs: &Vec<Tensor>| ms::grad(|xs: &Vec<Tensor>| summed(xs))(xs));
            assert!(ones(&gradient(xs)));
        }),
    ];
    const TIMES: usize = 10;
    for (name, run) in cases {
        let seconds = [FEW, TIMES * FEW].map(|n| {
            let xs = list(n);
            let start = thread_seconds();
            (0..2).for_each(|_| run(&xs));
            thread_seconds() - start
        });
        let times = seconds[1] / seconds[0];
        assert!(times < 2.5 * TIMES as f64, "{name}: {TIMES} times the tensors take {times} times as long");
    }
}

#[cell]
struct Chain {
    layer: nn::Dense,
    next: Option<Box<Chain>>,
}

#[cell]
impl Chain {
    fn new(layers: usize) -> Self {
        let mut chain = Self { layer: nn::Dense::new(1, 1), next: None };
        for _ in 1..layers {
            chain = Self { layer: nn::Dense::new(1, 1), next: Some(Box::new(chain)) };
        }
        chain
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        match &self.next {
            Some(next) => next.call(&self.layer(x)),
            None => self.layer(x),
        }
    }

    /// Drops the chain link by link, without recursion.
    fn unlink(mut self) {
        while let Some(next) = self.next.take() {
            self = *next;
        }
    }
}

#[derive(Tree, Clone)]
struct Link {
    value: Tensor,
    next: Option<Box<Link>>,
}

#[jit]
fn through(chain: &Chain, x: &Tensor) -> Tensor {
    chain.call(x)
}

#[jit]
fn last(link: &Link) -> Tensor {
    let mut link = link;
    while let Some(next) = &link.next {
        link = next;
    }
    &link.value + 1.0
}

/// Nesting that is too deep is an error before the stack overflows. Less nesting runs.
#[test]
fn cells_in_cells() {
    let _alone = alone();
    let x = Tensor::ones([1, 1]);
    type Use<'a> = (&'a str, &'a dyn Fn(&Chain));
    let uses: [Use<'_>; 6] = [
        ("eagerly", &|it| drop(it.call(&x))),
        ("compiled", &|it| drop(through(it, &x))),
        ("a gradient", &|it| drop(ms::grad(|net: &Chain| net.call(&x))(it))),
        ("parameters", &|it| drop(it.parameters())),
        ("names", &|it| drop(it.named_parameters())),
        ("a mode", &|it| it.set_train(false)),
    ];
    let (flat, deep) = (Chain::new(100), Chain::new(MANY / 10));
    for (name, run) in uses {
        run(&flat);
        let refused = ms::catch(|| run(&deep)).expect_err(name);
        assert!([ms::Code::Nesting, ms::Code::Recursion].contains(&refused.code()), "{name}: {refused}");
    }
    deep.unlink();
    let link = |n| {
        (1..n).fold(Link { value: Tensor::scalar(1.0), next: None }, |link, _| Link {
            value: Tensor::scalar(2.0),
            next: Some(Box::new(link)),
        })
    };
    assert_eq!(last(&link(100)).item::<f32>(), 2.0);
    let mut deep = link(MANY);
    assert_eq!(ms::catch(|| last(&deep)).expect_err("too deep").code(), ms::Code::Nesting);
    while let Some(next) = deep.next.take() {
        deep = *next;
    }
}
