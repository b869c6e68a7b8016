//! Tests that every random program computes the same bits natively, eagerly and compiled.

// Generated code is uniform, unlike hand-written code.
#![allow(warnings, clippy::all)]

use ms::error::OrRaise;
use ms::prelude::*;
use ms::{Code, Context, Error, Result, with_context};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// A program in both forms.
struct Program {
    seed: u64,
    /// Whether control flow on a tensor changes host-only state. The program is then right, or an error.
    refusable: bool,
    native: fn(&Numbers, f32, f32, usize, bool) -> Result<f32>,
    annotated: fn(&Net, &Tensor, &Tensor, usize, bool) -> Result<Tensor>,
}

/// The cells and the parameter that programs call, read and write.
#[cell]
struct Net {
    mix: Mix,
    tally: Tally,
    slot: Parameter,
}

/// A cell without state.
#[cell]
struct Mix {
    weight: Parameter,
}

#[cell]
impl Mix {
    fn construct(&self, a: &Tensor, b: &Tensor) -> Tensor {
        ops::select(&(a < b), &(a * &self.weight + b), &(a - b))
    }
}

/// A cell with state that changes with every call.
#[cell]
struct Tally {
    total: Parameter,
}

#[cell]
impl Tally {
    fn construct(&self, a: &Tensor) -> Tensor {
        if a < self.total {
            self.total.set(&(&self.total * 0.5 + a));
            return self.total.value() + 1.0;
        }
        self.total.set(&(&self.total - a));
        self.total.value()
    }
}

/// The counterpart of `Net` on numbers.
#[derive(Default)]
struct Numbers {
    total: Cell<f32>,
    slot: Cell<f32>,
}

impl Numbers {
    fn tally(&self, a: f32) -> f32 {
        if a < self.total.get() {
            self.total.set(self.total.get() * 0.5 + a);
            return self.total.get() + 1.0;
        }
        self.total.set(self.total.get() - a);
        self.total.get()
    }
}

fn mix(a: f32, b: f32) -> f32 {
    if a < b { a * 0.5 + b } else { a - b }
}

/// A host condition with a type that only rustc knows.
fn holds(condition: bool) -> bool {
    condition
}

/// Returns the half of an even number.
fn half(number: usize) -> Option<usize> {
    (number % 2 == 0).then_some(number / 2)
}

/// Returns the number, unless it is too large.
fn below_three(number: usize) -> Result<usize> {
    if number < 3 { Ok(number) } else { Err(Error::new(Code::Argument, "too large")) }
}

/// A number that helpers compute with.
trait Number: Clone {
    fn plus(&self, other: &Self) -> Self;
}

impl Number for f32 {
    fn plus(&self, other: &Self) -> Self {
        self + other
    }
}

impl Number for Tensor {
    fn plus(&self, other: &Self) -> Self {
        self + other
    }
}

fn put<T: Clone>(y: &mut T, x: &T) {
    *y = x.clone();
}

fn add_to<T: Number>(y: &mut T, x: &T) {
    *y = y.plus(x);
}

fn apply(mut f: impl FnMut()) {
    f()
}

fn pick<'a, T>(first: bool, a: &'a mut T, b: &'a mut T) -> &'a mut T {
    if first { a } else { b }
}

impl Net {
    fn step(&self, y: &mut Tensor, x: &Tensor) {
        *y = x.clone();
    }
}

impl Numbers {
    fn step(&self, y: &mut f32, x: &f32) {
        *y = *x;
    }
}

#[derive(Clone, Tree)]
struct Pair<T> {
    a: T,
    b: T,
}

impl<T> Pair<T> {
    fn flip(&mut self) {
        std::mem::swap(&mut self.a, &mut self.b);
    }
}

fn flip<T>(pair: &mut Pair<T>) {
    pair.flip();
}

struct Hold<'a, T> {
    t: &'a mut T,
}

fn rotate<T>(list: &mut Vec<T>) {
    list.rotate_left(1);
}

fn grow<T>(list: &mut Vec<T>, last: T) {
    list.push(last);
}

fn total<T: Number>(list: &[T]) -> T {
    list[1..].iter().fold(list[0].clone(), |sum, it| sum.plus(it))
}

fn count(n: &mut usize) {
    *n += 1;
}

/// Holds a number behind a trait object.
trait Store<T> {
    fn keep(&self, it: &T);
    fn get(&self) -> T;
}

impl<T: Clone> Store<T> for std::cell::RefCell<T> {
    fn keep(&self, it: &T) {
        self.replace(it.clone());
    }

    fn get(&self) -> T {
        self.borrow().clone()
    }
}

fn hidden<T: Clone + 'static>(it: &T) -> Box<dyn Store<T>> {
    Box::new(std::cell::RefCell::new(it.clone()))
}

include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// Returns inputs of a program. They have few host values, so that few versions are compiled.
fn inputs() -> Vec<(f32, f32, usize, bool)> {
    let host = [(0, false), (1, true), (2, false), (3, true)];
    let numbers = [(0.0, 0.0), (1.0, -0.5), (-2.25, 0.75), (0.5, 0.5), (7.0, 3.5)];
    host.iter().flat_map(|&(k, flag)| numbers.map(|(x, y)| (x, y, k, flag))).collect()
}

/// The result of a run, and its final state.
type Outcome = std::result::Result<[f32; 3], String>;

fn same(a: &Outcome, b: &Outcome) -> bool {
    match (a, b) {
        (Ok(a), Ok(b)) => a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())),
        (Err(a), Err(b)) => a == b,
        _ => false,
    }
}

fn refusal(error: Error) -> String {
    error.to_string().lines().filter(|it| it.starts_with("error")).collect::<Vec<_>>().join("; ")
}

/// The errors of control flow on a tensor that changes host-only state, and the error that reports several.
const REFUSALS: [&str; 3] = ["error[MS040]", "error[MS041]", "error[MS112]"];

fn is_refused(outcome: &Outcome) -> bool {
    let refused = |it: &str| REFUSALS.iter().any(|code| it.starts_with(code));
    outcome.as_ref().is_err_and(|text| text.split("; ").all(refused))
}

/// Runs the native form.
fn native(program: &Program, (x, y, k, flag): (f32, f32, usize, bool)) -> Outcome {
    let numbers = Numbers::default();
    numbers.slot.set(0.25);
    let result = (program.native)(&numbers, x, y, k, flag).map_err(refusal)?;
    Ok([result, numbers.total.get(), numbers.slot.get()])
}

/// Runs the annotated form.
fn annotated(program: &Program, net: &Net, (x, y, k, flag): (f32, f32, usize, bool)) -> Outcome {
    net.tally.total.set(&Tensor::scalar(0.0f32));
    net.slot.set(&Tensor::scalar(0.25f32));
    let run = || (program.annotated)(net, &Tensor::scalar(x), &Tensor::scalar(y), k, flag).map(|it| it.item::<f32>());
    let result = ms::catch(run).and_then(|it| it).map_err(refusal)?;
    Ok([result, net.tally.total.value().item(), net.slot.value().item()])
}

#[test]
fn random_programs_give_the_same_bits() {
    let scalar = |value: f32, name| Parameter::new(Tensor::scalar(value), name);
    let net = Net {
        mix: Mix { weight: scalar(0.5, "weight") },
        tally: Tally { total: scalar(0.0, "total") },
        slot: scalar(0.25, "slot"),
    };
    let context = |jit| Context { jit, precision: Precision::Strict, ..ms::context() };
    // The first failure of each program.
    let mut wrong: BTreeMap<u64, String> = BTreeMap::new();
    let mut refused: BTreeSet<u64> = BTreeSet::new();
    for program in PROGRAMS {
        for input in inputs() {
            let want = native(program, input);
            for jit in [false, true] {
                let got = with_context(context(jit), || annotated(program, &net, input));
                let seed = program.seed;
                if jit && program.refusable && is_refused(&got) {
                    refused.insert(seed);
                } else if !same(&got, &want) {
                    wrong.entry(seed).or_insert_with(|| format!("{seed} {input:?}, jit {jit}: {got:?}, not {want:?}"));
                }
            }
        }
    }
    println!("refused: {refused:?}");
    let shown: Vec<&str> = wrong.values().take(20).map(String::as_str).collect();
    let (count, of) = (wrong.len(), PROGRAMS.len());
    assert!(wrong.is_empty(), "{count} programs of {of}: {:?}\n{}", wrong.keys(), shown.join("\n"));
}

/// The way in which the gradient of a program is taken.
#[derive(Clone, Copy, Debug)]
enum Path {
    /// The eager tape.
    Eager,
    /// The gradient of the compiled program, taken outside.
    Outside,
    /// The gradient inside a compiled function.
    Inside,
}

/// Returns the gradients of a program with respect to a weight and both numbers.
fn pulled(net: &Net, x: &Tensor, y: &Tensor, at: usize, k: usize, flag: bool) -> Vec<Tensor> {
    let f = |_: &Parameter, x: &Tensor, y: &Tensor| (PROGRAMS[at].annotated)(net, x, y, k, flag).or_raise();
    let (weight, x, y) = ms::grad(f).wrt_all()(&net.mix.weight, x, y);
    vec![weight, x, y]
}

#[jit]
fn pulled_inside(net: &Net, x: &Tensor, y: &Tensor, at: usize, k: usize, flag: bool) -> Vec<Tensor> {
    pulled(net, x, y, at, k, flag)
}

/// Returns the bits of the gradients of a program and of its final state; empty if it is an error.
fn bits(net: &Net, at: usize, (x, y, k, flag): (f32, f32, usize, bool), path: Path) -> Vec<u32> {
    net.tally.total.set(&Tensor::scalar(0.0f32));
    net.slot.set(&Tensor::scalar(0.25f32));
    let run = || match path {
        Path::Inside => pulled_inside(net, &Tensor::scalar(x), &Tensor::scalar(y), at, k, flag),
        _ => pulled(net, &Tensor::scalar(x), &Tensor::scalar(y), at, k, flag),
    };
    let context = Context { jit: !matches!(path, Path::Eager), precision: Precision::Strict, ..ms::context() };
    let Ok(gradients) = with_context(context, || ms::catch(run)) else { return Vec::new() };
    let held = [net.tally.total.value(), net.slot.value()];
    // The sign of zeros and the bits of NaNs are ignored.
    let bits = |it: f32| if it.is_nan() { f32::NAN.to_bits() } else { (it + 0.0).to_bits() };
    gradients.iter().chain(&held).map(|it| bits(it.item::<f32>())).collect()
}

#[test]
fn gradients_of_random_programs_have_the_same_bits() {
    let scalar = |value: f32, name| Parameter::new(Tensor::scalar(value), name);
    let net = Net {
        mix: Mix { weight: scalar(0.7, "weight") },
        tally: Tally { total: scalar(0.0, "total") },
        slot: scalar(0.25, "slot"),
    };
    let mut wrong = Vec::new();
    // One program in ten is enough, since each takes three compilations.
    for at in (0..PROGRAMS.len()).step_by(10).filter(|&at| !PROGRAMS[at].refusable) {
        for input in [(0.3, 0.9, 1, true), (-1.7, 0.45, 2, false), (2.3, -1.1, 3, true)] {
            let want = bits(&net, at, input, Path::Eager);
            for path in [Path::Outside, Path::Inside] {
                let got = bits(&net, at, input, path);
                if got != want {
                    let [got, want] =
                        [got, want.clone()].map(|it| it.into_iter().map(f32::from_bits).collect::<Vec<_>>());
                    wrong.push(format!("{} {input:?} {path:?}: {got:?}, not {want:?}", PROGRAMS[at].seed));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
}
