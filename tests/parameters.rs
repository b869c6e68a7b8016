//! Parameters that a network writes, and bodies that give errors: the same in every form of a program.

use ms::prelude::*;
use ms::{context, with_context};

#[cell]
struct Centre {
    mean: Parameter,
}

#[cell]
impl Centre {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.mean.set(&(&self.mean * 0.5 + x.mean((), false) * 0.5));
        x - &self.mean
    }
}

#[jit]
fn centred(net: &Centre, x: &Tensor) -> Tensor {
    net.call(x)
}

#[jit]
fn gradients(net: &Centre, x: &Tensor) -> (Tensor, Tensor) {
    let of_x = ms::grad(|x: &Tensor| net.call(x).sum((), false))(x);
    let (_, of_net) = ms::value_and_grad(|net: &Centre| net.call(x).sum((), false))(net);
    (of_x, of_net.get(&net.mean).expect("a gradient of every parameter").clone())
}

fn centre() -> Centre {
    Centre { mean: Parameter::new(Tensor::scalar(0.0f32), "mean") }
}

/// Running statistics: a write is seen after the call, and by the next one.
#[test]
fn a_write_is_seen_afterwards() {
    for jit in [true, false] {
        with_context(Context { jit, ..context() }, || {
            let (net, x) = (centre(), tensor![1.0, 2.0, 3.0]);
            assert_eq!(centred(&net, &x).to_vec::<f32>(), [0.0, 1.0, 2.0]);
            assert_eq!(net.mean.value().item::<f32>(), 1.0);
            assert_eq!(centred(&net, &x).to_vec::<f32>(), [-0.5, 0.5, 1.5]);
            assert_eq!(net.mean.value().item::<f32>(), 1.5);
        });
    }
}

/// What was written is a constant to gradients: eagerly, through a compiled call, inside one.
#[test]
fn a_write_ends_gradients() {
    let (net, x) = (centre(), tensor![1.0, 2.0, 3.0]);
    let check = |what: &str, of_x: &Tensor, of_mean: &Tensor| {
        assert_eq!(of_x.to_vec::<f32>(), [1.0; 3], "{what}: the gradient of the input");
        assert_eq!(of_mean.item::<f32>(), 0.0, "{what}: the gradient of the parameter");
    };
    let through = |call: fn(&Centre, &Tensor) -> Tensor| {
        let of_x = ms::grad(|x: &Tensor| call(&net, x).sum((), false))(&x);
        let (_, of_net) = ms::value_and_grad(|net: &Centre| call(net, &x).sum((), false))(&net);
        (of_x, of_net.get(&net.mean).expect("a gradient of every parameter").clone())
    };
    let (of_x, of_mean) = through(|net, x| net.call(x));
    check("eagerly", &of_x, &of_mean);
    let (of_x, of_mean) = through(centred);
    check("through a compiled call", &of_x, &of_mean);
    let (of_x, of_mean) = gradients(&net, &x);
    check("inside a compiled call", &of_x, &of_mean);
}

#[jit]
fn sum(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    Ok(x + y)
}

/// A function that gives a `Result` gives what the library refuses, compiled or not.
#[test]
fn refusals_are_results_in_every_mode() {
    for jit in [true, false] {
        let refused = with_context(Context { jit, ..context() }, || sum(&tensor![1.0, 2.0], &tensor![1.0, 2.0, 3.0]));
        let text = refused.expect_err("shapes that do not broadcast").to_string();
        assert!(text.contains("error[MS100]") && text.contains("tests/parameters.rs"), "{text}");
    }
}

#[jit]
fn advance(count: &Parameter, sum: &Parameter, x: &Tensor) -> Tensor {
    let next = count + x;
    sum.set(&(sum + &next));
    count.set(&next);
    next
}

#[jit]
fn advance_otherwise(sum: &Parameter, count: &Parameter, x: &Tensor) -> Tensor {
    let next = count + x;
    count.set(&next);
    sum.set(&(sum + &next));
    next
}

/// Runs that write the same parameters come one after the other, whichever functions they are of.
#[test]
fn runs_that_write_a_parameter_are_serialised() {
    const RUNS: usize = 1000;
    let (count, sum) = (&Parameter::new(Tensor::scalar(0.0), "count"), &Parameter::new(Tensor::scalar(0.0), "sum"));
    let x = &Tensor::scalar(1.0);
    let given: Vec<f32> = std::thread::scope(|scope| {
        let run = |other: bool| {
            let one = move || if other { advance_otherwise(sum, count, x) } else { advance(count, sum, x) };
            scope.spawn(move || (0..RUNS).map(|_| one().item::<f32>()).collect::<Vec<_>>())
        };
        let threads = [false, true, false, true].map(run);
        threads.into_iter().flat_map(|it| it.join().expect("it runs")).collect()
    });
    let total = given.len() as f32;
    assert_eq!(count.value().item::<f32>(), total);
    assert_eq!(sum.value().item::<f32>(), total * (total + 1.0) / 2.0);
    // Every run saw another count.
    let mut given = given;
    given.sort_by(f32::total_cmp);
    assert!(given.iter().enumerate().all(|(i, &it)| it == (i + 1) as f32));
}

#[jit]
fn bump(count: &Parameter) -> Tensor {
    ops::assign_add(count, 1.0)
}

/// Updates of one parameter by eager ops and compiled functions come one after the other, too.
#[test]
fn no_update_is_lost() {
    const RUNS: usize = 1000;
    let count = &Parameter::new(Tensor::scalar(0.0), "count");
    let eager = |count: &Parameter| ops::assign_add(count, 1.0);
    let down = |count: &Parameter| ops::assign_sub(count, -1.0);
    let all: [fn(&Parameter) -> Tensor; 4] = [eager, |it| bump(it), down, |it| bump(it)];
    std::thread::scope(|scope| {
        all.iter().for_each(|one| drop(scope.spawn(move || (0..RUNS).for_each(|_| drop(one(count))))));
    });
    assert_eq!(count.value().item::<f32>(), (all.len() * RUNS) as f32);
}

fn source() -> &'static random::Generator {
    static SOURCE: std::sync::LazyLock<random::Generator> = std::sync::LazyLock::new(|| random::Generator::new(3));
    &SOURCE
}

#[jit]
fn draw() -> Tensor {
    source().bits((), DType::U64)
}

/// Threads that draw from one generator, eagerly or compiled, never draw the same.
#[test]
fn draws_of_threads_differ() {
    const RUNS: usize = 500;
    assert_eq!(source().state().value().to_vec::<u64>(), [3, 0]);
    let mut drawn: Vec<u64> = std::thread::scope(|scope| {
        let run = |jit: bool| {
            let one = move || if jit { draw() } else { source().bits((), DType::U64) };
            scope.spawn(move || (0..RUNS).map(|_| one().item::<u64>()).collect::<Vec<_>>())
        };
        let threads = [false, true, false, true].map(run);
        threads.into_iter().flat_map(|it| it.join().expect("it runs")).collect()
    });
    assert_eq!(source().state().value().to_vec::<u64>(), [3, drawn.len() as u64]);
    let all = drawn.len();
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), all);
}

/// A compiled step trains the parameters that train when it is called.
#[test]
fn freezing_is_seen_by_the_next_call() {
    for jit in [true, false] {
        with_context(Context { jit, ..context() }, || {
            let (net, opt) = (nn::Dense::new(3, 1), SGD::new(0.1));
            let batch = (Tensor::ones([4, 3]), Tensor::zeros([4, 1]));
            let parameters = net.parameters();
            for frozen in [None, Some(0), Some(1), None] {
                parameters.iter().enumerate().for_each(|(i, it)| it.set_requires_grad(frozen != Some(i)));
                let before: Vec<Vec<f32>> = parameters.iter().map(|it| it.value().to_vec()).collect();
                opt.step(&net, &batch, |net, (x, y)| ops::mse_loss(&net.call(x), y));
                for (i, (parameter, before)) in parameters.iter().zip(&before).enumerate() {
                    let same = parameter.value().to_vec::<f32>() == *before;
                    assert_eq!(same, frozen == Some(i), "parameter {i} where {frozen:?} is frozen, jit {jit}");
                }
            }
        });
    }
}

/// A function that only reads parameters sees every write to them, on every thread.
#[test]
fn reads_see_the_writes_before_them() {
    #[jit]
    fn difference(many: &[Parameter; 3], x: &Tensor) -> Tensor {
        &many[0] + &many[1] * 10.0 + &many[2] * 100.0 + x
    }
    let many = &std::array::from_fn(|_| Parameter::new(Tensor::scalar(0.0), ""));
    let zero = &Tensor::scalar(0.0);
    let read = || difference(many, zero).item::<f32>();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(move || {
                    let mut last = 0.0;
                    while last < 333.0 * 50.0 {
                        let now = read();
                        assert!(now >= last, "{now} after {last}");
                        last = now;
                    }
                })
            })
            .collect();
        for i in 1..=150u32 {
            let (slot, scale) = (&many[(i % 3) as usize], i.div_ceil(3));
            slot.set(&Tensor::scalar((scale * 3) as f32));
            // What this thread wrote, it reads.
            let want: f32 = many.iter().zip([1.0, 10.0, 100.0]).map(|(it, by)| it.value().item::<f32>() * by).sum();
            assert_eq!(read(), want, "write {i}");
        }
        for reader in readers {
            reader.join().expect("values only grow");
        }
    });
    // What was read is not kept from being freed.
    let old = many[0].load().try_array().expect("an array");
    assert!(std::sync::Arc::strong_count(old.storage()) > 1);
    many[0].set(zero);
    assert_eq!(std::sync::Arc::strong_count(old.storage()), 1);
}
