//! Tests parameters that a network writes, and bodies that return errors.
//!
//! Every form of a program behaves in the same way.

use ms::prelude::*;
use ms::{context, with_context};

#[cell]
struct Centre {
    mean: Parameter,
}

#[cell]
impl Centre {
    fn construct(&self, x: &Tensor) -> Tensor {
        self.mean.set(&(&self.mean * 0.5 + x.mean(()) * 0.5));
        x - &self.mean
    }
}

#[jit]
fn centred(net: &Centre, x: &Tensor) -> Tensor {
    net.call(x)
}

#[jit]
fn gradients(net: &Centre, x: &Tensor) -> (Tensor, Tensor) {
    let of_x = ms::grad(|x: &Tensor| net.call(x).sum(()))(x);
    let (_, of_net) = ms::value_and_grad(|net: &Centre| net.call(x).sum(()))(net);
    (of_x, of_net.get(&net.mean).expect("a gradient of every parameter").clone())
}

fn centre() -> Centre {
    Centre { mean: Parameter::new(Tensor::scalar(0.0f32), "mean") }
}

/// A write of running statistics is visible after the call, and to the next call.
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

/// A write is a constant to gradients: eagerly, through a compiled call, and inside one.
#[test]
fn a_write_ends_gradients() {
    let (net, x) = (centre(), tensor![1.0, 2.0, 3.0]);
    let check = |what: &str, of_x: &Tensor, of_mean: &Tensor| {
        assert_eq!(of_x.to_vec::<f32>(), [1.0; 3], "{what}: the gradient of the input");
        assert_eq!(of_mean.item::<f32>(), 0.0, "{what}: the gradient of the parameter");
    };
    let through = |call: fn(&Centre, &Tensor) -> Tensor| {
        let of_x = ms::grad(|x: &Tensor| call(&net, x).sum(()))(&x);
        let (_, of_net) = ms::value_and_grad(|net: &Centre| call(net, &x).sum(()))(&net);
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

/// A function that returns a `Result` returns the library's errors, compiled or not.
#[test]
fn errors_are_results_in_every_mode() {
    for jit in [true, false] {
        let refused = with_context(Context { jit, ..context() }, || sum(&tensor![1.0, 2.0], &tensor![1.0, 2.0, 3.0]));
        let text = refused.expect_err("shapes that do not broadcast").to_string();
        assert!(text.contains("error[MS100]") && text.contains("tests/language/parameters.rs"), "{text}");
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

/// Runs that write the same parameters are serialised, whichever functions they belong to.
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

/// Updates of one parameter by eager ops and compiled functions are serialised as well.
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

/// Threads that draw from one generator, eagerly or compiled, never draw the same numbers.
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

/// Draws numbers of the default generator, compiled or not.
#[jit]
fn drawn_from_default(x: &Tensor) -> Tensor {
    let mut y = x + random::uniform([4], 0.0, 1.0);
    if y.sum(()) > 0.0 {
        y = y + random::normal([4], 0.0, 1.0);
    }
    y
}

/// Returns the output of a network and some draws, after a seed was set.
fn after_seed(seed: u64, jit: bool) -> Vec<f32> {
    with_context(Context { jit, ..context() }, || {
        random::set_seed(seed);
        let net = nn::Dense::new(4, 3);
        let mut all: Vec<f32> = net.parameters().iter().flat_map(|it| it.value().to_vec::<f32>()).collect();
        (0..10).for_each(|_| all.extend(drawn_from_default(&Tensor::ones([4])).to_vec::<f32>()));
        all.extend(random::permutation(5).to_vec::<i64>().iter().map(|&it| it as f32));
        all
    })
}

/// The numbers that a thread draws after it has set a seed do not depend on other threads.
#[test]
fn a_seed_decides_what_its_thread_draws() {
    let alone: Vec<Vec<f32>> = (0..3).map(|seed| after_seed(seed, true)).collect();
    assert_ne!(alone[0], alone[1]);
    std::thread::scope(|scope| {
        for worker in 0..6 {
            let alone = &alone;
            scope.spawn(move || {
                for round in 0..20 {
                    let seed = (worker + round) % 3;
                    let got = after_seed(seed as u64, worker % 2 == 0);
                    let near = got.iter().zip(&alone[seed]).all(|(a, b)| (a - b).abs() < 1e-5);
                    assert!(near && got.len() == alone[seed].len(), "seed {seed} on thread {worker}");
                }
            });
        }
    });
}

/// Threads without a seed draw different numbers. Threads with derived seeds draw by their seed.
#[test]
fn threads_have_streams_of_their_own() {
    let bits = || random::default_generator().bits((), DType::U64).item::<u64>();
    let joined = |seed: Option<u64>| {
        let draw = move || seed.map_or_else(bits, |seed| random::with_seed(seed, bits));
        std::thread::spawn(draw).join().expect("nothing is refused")
    };
    let mut unseeded: Vec<u64> = (0..8).map(|_| joined(None)).chain([bits()]).collect();
    unseeded.sort_unstable();
    unseeded.dedup();
    assert_eq!(unseeded.len(), 9);
    let derived = || {
        random::set_seed(11);
        [(); 3].map(|()| joined(Some(random::derive_seed())))
    };
    let first = derived();
    assert_eq!(first, derived());
    assert!(first[0] != first[1] && first[1] != first[2]);
}

#[jit]
fn state_of_thread() -> Tensor {
    random::default_generator().state().value()
}

/// A compiled function that only reads the generator's state reads the state of the calling thread.
#[test]
fn the_state_is_that_of_the_calling_thread() {
    random::set_seed(21);
    assert_eq!(state_of_thread().to_vec::<u64>(), [21, 0]);
    let other = || {
        random::set_seed(22);
        random::randn([1]);
        state_of_thread().to_vec::<u64>()
    };
    assert_eq!(std::thread::spawn(other).join().expect("nothing is refused"), [22, 1]);
    assert_eq!(state_of_thread().to_vec::<u64>(), [21, 0]);
}

#[jit]
fn seeded_inside(x: &Tensor) -> Vec<Tensor> {
    let before = random::uniform([2], 0.0, 1.0);
    let fixed = random::with_seed(7, || {
        let mut y = x + random::uniform([2], 0.0, 1.0);
        if x.sum(()) > 0.0 {
            y = y + random::with_seed(8, || random::uniform([2], 0.0, 1.0));
        }
        y + random::uniform([2], 0.0, 1.0)
    });
    vec![before, fixed, random::uniform([2], 0.0, 1.0)]
}

/// A seed for a part of a program affects that part only.
#[test]
fn a_seed_holds_where_it_is_scoped() {
    let draw = || random::uniform([2], 0.0, 1.0).to_vec::<f32>();
    random::set_seed(1);
    let around: Vec<Vec<f32>> = (0..4).map(|_| draw()).collect();
    let first = |seed: u64| {
        random::set_seed(seed);
        (draw(), draw())
    };
    let ((a, b), (c, _)) = (first(7), first(8));
    let fixed: Vec<f32> = (0..2).map(|i| 1.0 + a[i] + c[i] + b[i]).collect();
    for jit in [false, true] {
        with_context(Context { jit, ..context() }, || {
            random::set_seed(1);
            for round in around.chunks(2) {
                let got: Vec<Vec<f32>> = seeded_inside(&Tensor::ones([2])).iter().map(|it| it.to_vec()).collect();
                assert_eq!((&got[0], &got[2]), (&round[0], &round[1]), "jit {jit}");
                assert!(got[1].iter().zip(&fixed).all(|(a, b)| (a - b).abs() < 1e-5), "jit {jit}: {got:?}, {fixed:?}");
            }
        });
    }
    random::set_seed(1);
    let refused = ms::catch(|| random::with_seed(7, || random::bernoulli([2], 1.5)));
    assert!(refused.is_err());
    assert_eq!(draw(), around[0], "an error puts the generator back too");
}

/// A compiled step trains the parameters that are trainable when it is called.
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
            // A thread reads the values that it wrote.
            let want: f32 = many.iter().zip([1.0, 10.0, 100.0]).map(|(it, by)| it.value().item::<f32>() * by).sum();
            assert_eq!(read(), want, "write {i}");
        }
        for reader in readers {
            reader.join().expect("values only grow");
        }
    });
    // A read value does not keep the replaced memory alive.
    let old = many[0].load().try_array().expect("an array");
    assert!(std::sync::Arc::strong_count(old.storage()) > 1);
    many[0].set(zero);
    assert_eq!(std::sync::Arc::strong_count(old.storage()), 1);
}
