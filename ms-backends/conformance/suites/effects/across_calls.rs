//! Tests the order of effects across calls, branches and loops.
//!
//! The effects are parameters that cells share, assertions, random numbers, updates of optimisers, and running
//! statistics. Each case has the same result eagerly, compiled, and compiled again, at every level of copies, and
//! without shared graphs.

use ms::Code;
use ms::prelude::*;
use ms_conformance::ways::{check, numbers, parameter, rounded};

// --- a parameter of two cells, assigned in one and read in the other ---

macro_rules! pairs {
    ($($module:ident: $(#[$mark:meta])*;)*) => {$(
        mod $module {
            use super::*;

            $(#[$mark])*
            #[cell]
            pub struct Writer {
                held: Parameter,
                by: f64,
            }

            #[cell]
            impl Writer {
                fn construct(&self, x: &Tensor) -> Tensor {
                    let before = self.held.value();
                    self.held.set(&(x * self.by + &self.held));
                    before
                }
            }

            $(#[$mark])*
            #[cell]
            pub struct Reader {
                held: Parameter,
            }

            #[cell]
            impl Reader {
                fn construct(&self, x: &Tensor) -> Tensor {
                    (x * &self.held).tanh()
                }
            }

            #[cell]
            pub struct Net {
                writers: Vec<Writer>,
                readers: Vec<Reader>,
            }

            #[cell]
            impl Net {
                pub fn new() -> Self {
                    // The first writer and the first reader share one parameter, and the second ones another parameter.
                    let held = HELD.map(parameter);
                    let writer = |(it, by): (&Parameter, f64)| Writer { held: it.clone(), by };
                    Self {
                        writers: held.iter().zip([1.0, 2.0]).map(writer).collect(),
                        readers: held.iter().map(|it| Reader { held: it.clone() }).collect(),
                    }
                }

                fn construct(&self, x: &Tensor) -> Tensor {
                    let mut y = x.clone();
                    for (writer, reader) in self.writers.iter().zip(&self.readers) {
                        let first = reader.call(&y);
                        let before = writer.call(&y);
                        let second = reader.call(&y);
                        y = first + before * 10.0 + second;
                    }
                    if y > 0.0 {
                        y = y + self.writers[0].call(x);
                    } else {
                        y = y - self.readers[0].call(x);
                    }
                    while y < 20.0 {
                        y = &y + self.readers[1].call(&y) + 3.0;
                        self.writers[1].call(&(x * 0.1));
                    }
                    y
                }

                pub fn held(&self) -> Vec<f32> {
                    self.readers.iter().map(|it| it.held.value().item()).collect()
                }
            }

            #[jit]
            pub fn value(net: &Net, x: &Tensor) -> Tensor {
                net.call(x)
            }

            #[jit]
            pub fn gradients(net: &Net, x: &Tensor) -> Vec<Tensor> {
                let (of_net, of_x) = ms::grad(|net: &Net, x: &Tensor| net.call(x)).wrt_all()(net, x);
                of_net.iter().map(|it| it.1.clone()).chain([of_x]).collect()
            }

            #[test]
            fn one_cell_writes_what_the_other_reads() {
                for x in [1.5, -2.0] {
                    let tensor = &Tensor::scalar(x);
                    let (got, _): (Vec<f32>, _) = check("value", || {
                        let net = Net::new();
                        (0..2).flat_map(|_| [vec![value(&net, tensor).item()], net.held()].concat()).collect()
                    });
                    let near = |(got, want): (&f32, &f32)| (got - want).abs() <= 1e-4 * want.abs().max(1.0);
                    let want = shared_in_rust(x);
                    assert!(got.len() == want.len() && got.iter().zip(&want).all(near), "{x}: {got:?}, not {want:?}");
                    check("gradients", || {
                        let net = Net::new();
                        (rounded(&gradients(&net, tensor), 3), net.held())
                    });
                }
            }
        }
    )*};
}

pairs! {
    plain:;
    lazy: #[lazy_inline];
    kept: #[no_inline];
    both: #[lazy_inline] #[no_inline];
}

const HELD: [f32; 2] = [0.5, -0.25];

/// Computes two calls of `Net` in plain Rust: for each, the value and the parameters.
fn shared_in_rust(x: f32) -> Vec<f32> {
    let mut held = HELD;
    let mut seen = Vec::new();
    let read = |held: f32, x: f32| (x * held).tanh();
    let write = |held: &mut f32, by: f32, x: f32| {
        let before = *held;
        *held += x * by;
        before
    };
    for _ in 0..2 {
        let mut y = x;
        for (i, by) in [(0, 1.0), (1, 2.0)] {
            let first = read(held[i], y);
            let before = write(&mut held[i], by, y);
            y = first + before * 10.0 + read(held[i], y);
        }
        y = if y > 0.0 { y + write(&mut held[0], 1.0, x) } else { y - read(held[0], x) };
        while y < 20.0 {
            y = y + read(held[1], y) + 3.0;
            write(&mut held[1], 2.0, x * 0.1);
        }
        seen.extend([y, held[0], held[1]]);
    }
    seen
}

// --- assignments by their names, and what depends on them ---

#[no_inline]
fn added(p: &Parameter, x: &Tensor) -> Tensor {
    ops::assign_add(p, x) * 10.0
}

#[jit]
fn assigns(p: &Parameter, x: &Tensor) -> Vec<Tensor> {
    let first = ops::assign(p, x);
    let second = ops::assign_add(p, x * 2.0);
    let mut third = ops::assign_sub(p, 0.5);
    if x > 0.0 {
        third = third + ops::assign_add(p, 10.0);
    } else {
        third = third - ops::assign_sub(p, 20.0);
    }
    let (mut rounds, mut sum) = (Tensor::scalar(0.0), Tensor::scalar(0.0));
    while rounds < 3.0 {
        sum = sum + ops::assign_add(p, &rounds);
        ms::print!("{} {}", p, &sum);
        rounds = rounds + 1.0;
    }
    let called = added(p, x) + added(p, &(x * 2.0));
    let before = ops::depend(p, ops::assign(p, x));
    vec![first, second, third, sum, called, before, ops::assign_sub(p, p), p.value()]
}

#[test]
fn assignments_return_the_new_value() {
    for (x, want, lines) in [
        (2.0, [2.0, 6.0, 21.0, 50.5, 450.0, 2.0, 0.0, 0.0], ["15.5 15.5", "16.5 32.0", "18.5 50.5"]),
        (-2.0, [-2.0, -6.0, 20.0, -75.5, -550.0, -2.0, 0.0, 0.0], ["-26.5 -26.5", "-25.5 -52.0", "-23.5 -75.5"]),
    ] {
        let got = check("assigns", || {
            let p = parameter(9.0);
            (numbers(&assigns(&p, &Tensor::scalar(x))), p.value().item::<f32>())
        });
        assert_eq!(got, ((want.to_vec(), 0.0), lines.map(str::to_owned).to_vec()), "{x}");
    }
}

// --- a write is a gradient barrier ---

macro_rules! barriers {
    ($($name:ident($p:ident, $x:ident) $body:block gives $want:expr;)*) => {
        $(
            #[jit]
            fn $name($p: &Parameter, $x: &Tensor) -> Tensor $body
        )*

        #[test]
        fn a_write_is_a_gradient_barrier() {
            $({
                #[jit]
                fn inside(p: &Held, x: &Tensor) -> (Tensor, Tensor) {
                    let (of_p, of_x) = ms::grad(|p: &Held, x: &Tensor| $name(&p.0, x)).wrt_all()(p, x);
                    (of_p.get(&p.0).expect("a gradient of every parameter").clone(), of_x)
                }
                type Run = fn(&Held, &Tensor) -> (Tensor, Tensor);
                let outside: Run = |p, x| {
                    let (of_p, of_x) = ms::grad(|p: &Held, x: &Tensor| $name(&p.0, x)).wrt_all()(p, x);
                    (of_p.get(&p.0).expect("a gradient of every parameter").clone(), of_x)
                };
                let inside: Run = |p, x| inside(p, x);
                for run in [outside, inside] {
                    let got = check(stringify!($name), || {
                        let (of_p, of_x) = run(&Held(parameter(5.0)), &Tensor::scalar(3.0));
                        [of_p.item::<f32>(), of_x.item::<f32>()]
                    });
                    assert_eq!(got.0, $want, "{}", stringify!($name));
                }
            })*
        }
    };
}

#[cell]
struct Held(Parameter);

// Each case has the gradients of `p` = 5 and of `x` = 3.
barriers! {
    read_before_and_after(p, x) { let old = p * x; p.set(&(x * x)); old + p * x } gives [3.0, 5.0 + 9.0];
    result_of_assign(p, x) { ops::assign(p, x * x) * x + ops::assign_add(p, x) } gives [0.0, 9.0];
    written_in_a_branch(p, x) {
        if x > 0.0 { p.set(&(p * x)); } else { p.set(x); }
        p * x
    } gives [0.0, 15.0];
    written_in_one_arm(p, x) {
        if x < 0.0 { p.set(x); }
        p * x
    } gives [3.0, 5.0];
    written_in_a_loop(p, x) {
        let (mut i, mut sum) = (x * 0.0, x * 0.0);
        while i < 3.0 {
            sum = sum + p * x;
            p.set(&(p + x));
            i = i + 1.0;
        }
        sum
    } gives [3.0, 5.0 + 8.0 + 11.0];
    written_in_a_call(p, x) { added(p, x) + p * x } gives [0.0, 8.0];
}

// --- assertions and prints ---

#[no_inline]
fn halved(x: &Tensor) -> Tensor {
    ops::assert_that(&x.lt(100.0), "called with {}", &[x]);
    x * 0.5
}

#[jit]
fn asserts(p: &Parameter, x: &Tensor) -> Tensor {
    let mut y = x.clone();
    ms::print!("from {}", &y);
    if y > 10.0 {
        ops::assert_that(&y.lt(50.0), "in the branch: {}", &[&y]);
        ms::print!("large");
    }
    while y < 8.0 {
        ms::print!("round {}", &y);
        ops::assert_that(&y.gt(0.0), "in the loop: {}", &[&y]);
        y = y * 2.0;
    }
    p.set(&y);
    let y = halved(&y);
    ms::print!("to {}", &y);
    y
}

#[test]
fn assertions_and_prints_in_branches_loops_and_calls() {
    let cases: [(f32, Option<&str>, &[&str]); 5] = [
        (3.0, None, &["from 3.0", "round 3.0", "round 6.0", "to 6.0"]),
        (20.0, None, &["from 20.0", "large", "to 10.0"]),
        (60.0, Some("in the branch: 60.0"), &["from 60.0"]),
        (-1.0, Some("in the loop: -1.0"), &["from -1.0", "round -1.0"]),
        (f32::NAN, Some("called with nan"), &["from nan"]),
    ];
    for (x, says, prints) in cases {
        let (got, printed) = check("asserts", || {
            let p = parameter(7.0);
            let result = ms::catch(|| asserts(&p, &Tensor::scalar(x)).item::<f32>());
            result.map(|y| [y, p.value().item()]).map_err(|error| {
                assert_eq!(error.code(), Code::Assertion);
                error.report().message.clone()
            })
        });
        assert_eq!(
            (got.err().as_deref(), printed.as_slice()),
            (says, &*prints.iter().map(|it| it.to_string()).collect::<Vec<_>>()),
            "{x}"
        );
    }
}

// --- random numbers ---

#[cell]
struct Noise {
    width: f64,
    dropout: nn::Dropout,
}

#[cell]
impl Noise {
    #[lazy_inline]
    fn new(width: f64) -> Self {
        Self { width, dropout: nn::Dropout::new(0.25) }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let mut y = x + random::normal([3], 0.0, self.width);
        for _ in 0..6 {
            y = (&y * 0.5).sin() + &y;
        }
        self.dropout(&y)
    }
}

#[jit]
fn noisy(all: &[Noise; 2], x: &Tensor) -> Vec<Tensor> {
    let first = random::uniform([2], 0.0, 1.0);
    let mut y = all[1].call(&all[0].call(x));
    if y.sum(()) > 0.0 {
        y = y + random::uniform([3], 1.0, 2.0);
    } else {
        y = y - random::uniform([3], 1.0, 2.0) - random::normal([3], 0.0, 1.0);
    }
    let mut rounds = Tensor::scalar(0.0);
    while rounds < 3.0 {
        y = y + random::uniform([3], 0.0, 0.1);
        rounds = rounds + random::uniform((), 0.5, 1.0);
    }
    let last = all[0].call(&random::normal([3], 0.0, 1.0));
    let gradient = ms::grad(|x: &Tensor| (all[1].call(x) * random::uniform([3], 0.0, 1.0)).sum(()))(x);
    vec![first, y, rounds, last, gradient, random::uniform([2], 0.0, 1.0)]
}

#[test]
fn random_numbers_are_drawn_in_order() {
    for x in [5.0, -5.0] {
        let ((drawn, state), _) = check("random", || {
            let all = [Noise::new(0.5), Noise::new(0.25)];
            let x = &Tensor::full([3], x);
            let both = [noisy(&all, x), noisy(&all, x)].concat();
            (rounded(&both, 3), random::default_generator().state().value().to_vec::<u64>())
        });
        let half = drawn.len() / 2;
        assert_ne!(drawn[..half], drawn[half..], "the second call draws further numbers");
        assert!(state[1] >= 2 * 13, "{state:?}");
    }
}

// --- updates of optimisers, and running statistics ---

#[cell]
struct Normed {
    fc: nn::Dense,
    norm: nn::BatchNorm,
    calls: Parameter,
}

#[cell]
impl Normed {
    fn construct(&self, x: &Tensor) -> Tensor {
        ops::assign_add(&self.calls, 1.0);
        self.norm(&self.fc(x)) * 2.0 - &self.norm.moving_mean
    }
}

fn normed() -> Normed {
    let fc = nn::Dense::new(2, 2);
    fc.parameters()[0].set(&tensor![[0.5, -0.25], [0.125, 0.75]]);
    let calls = parameter(0.0);
    calls.set_requires_grad(false);
    Normed { fc, norm: nn::BatchNorm::new(2), calls }
}

#[jit]
fn trained(net: &Normed, sgd: &Momentum, x: &Tensor) -> Vec<Tensor> {
    let loss = |net: &Normed| net.call(x).square().sum(());
    let mut seen = vec![];
    for _ in 0..2 {
        let (value, gradients) = ms::value_and_grad(loss)(net);
        sgd.update(&gradients);
        // The loss after the update.
        seen.extend([value, loss(net)]);
    }
    let mut rounds = Tensor::scalar(0.0);
    while rounds < 3.0 {
        let (value, gradients) = ms::value_and_grad(loss)(net);
        if value > 0.5 {
            sgd.update(&gradients);
            ms::print!("another update");
        }
        rounds = rounds + 1.0;
    }
    seen.push(loss(net));
    seen
}

#[test]
fn updates_and_statistics_keep_their_order() {
    let (got, printed) = check("training", || {
        let (net, sgd) = (normed(), Momentum::new(0.0625, 0.5));
        sgd.prepare(&net.trainable_parameters());
        let x = &tensor![[1.0, 0.5], [-0.5, 2.0], [0.25, -1.0]];
        let losses = [trained(&net, &sgd, x), trained(&net, &sgd, x)].concat();
        net.set_train(false);
        let evaluated = [net.call(x), trained(&net, &sgd, x).remove(0)];
        let state: Vec<Tensor> = net.parameters().iter().map(Parameter::value).collect();
        rounded(&[losses, evaluated.to_vec(), state].concat(), 3)
    });
    // Three times eight calls, and one more.
    assert_eq!(got.last(), Some(&(25.0 * 1e3)));
    assert!(!printed.is_empty());
}
