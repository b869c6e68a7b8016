//! Implements control flow as functions over pytrees: `cond`, `switch`, `while_loop`, `fori_loop`, `scan`.
//!
//! Eagerly they run step by step; in a trace each is one node.

use super::bounds::Bound;
use super::carry::{Carry, Held, Leaves, held};
use super::kind::{Condition, OnTensor};
use super::range::{Over, range};
use super::repeat::repeat;
use super::{Open, branch, set_distinct};
use crate::trace::arg::{Tree, leaves};
use crate::trace::tracer::{Repeated, Tracer, run_traced};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, OrRaise, Result, raise};
use ms_ops::ops;
use ms_ops::tensor::{DispatchMode, Scan, Tensor, Type, dispatch_mode};
use std::panic::Location;
use std::rc::Rc;

/// Returns the result of `then` for the operands if the condition holds, and the result of `otherwise` if not. On a
/// traced condition both are traced, and must return pytrees with equal structure and types.
///
/// ```
/// use ms_core::{Tensor, ops, trace::cond};
/// let half = |x: &Tensor| ops::mul(x, 0.5);
/// let x = Tensor::scalar(8.0);
/// assert_eq!(cond(x.gt(1.0), half, Tensor::clone, &x).item::<f32>(), 4.0);
/// ```
///
/// # Errors
/// Raises [`Code::TypeChange`] or [`Code::HostChange`] when the two return different structures, and [`Code::Shape`] or
/// [`Code::DType`] for a condition that is not one bool.
#[track_caller]
pub fn cond<C, T, R>(condition: C, then: impl FnOnce(&T) -> R, otherwise: impl FnOnce(&T) -> R, operands: &T) -> R
where
    C: Condition,
    C::Kind: Carry<R>,
{
    let mut region = branch::<C::Kind>();
    let mut result = held("the result of `cond`");
    if region.test(condition) {
        region.begin();
        region.first(&mut result, Some(then(operands)));
        if region.is_decided() {
            return region.alone(&mut result).expect("the arm has a result");
        }
        region.turn();
    }
    let mut second = Some(otherwise(operands));
    region.second(&mut result, &mut second);
    if !region.is_decided() {
        region.join();
    }
    region.value(result, second).expect("both arms have a result")
}

/// Returns the result of branch number `index` for the operands. The index is clamped to the first and the last branch.
/// On a traced index all branches are traced, and must return pytrees with equal structure and types.
///
/// ```
/// use ms_core::{Tensor, ops, trace::switch};
/// let x = Tensor::scalar(3.0);
/// let branches: [&dyn Fn(&Tensor) -> Tensor; 3] = [&|x| ops::neg(x), &|x| x.clone(), &|x| ops::mul(x, x)];
/// let all = [-1, 0, 1, 2, 9].map(|i| switch(i, &branches, &x).item::<f32>());
/// assert_eq!(all, [-3.0, -3.0, 3.0, 9.0, 9.0]);
/// ```
///
/// # Errors
/// Raises [`Code::Argument`] when there is no branch, and the errors of [`cond`].
#[track_caller]
pub fn switch<T, R>(index: impl Into<Bound>, branches: &[&dyn Fn(&T) -> R], operands: &T) -> R
where
    OnTensor: Carry<R>,
{
    if branches.is_empty() {
        raise(Error::new(Code::Argument, "a switch without branches").with_op("switch"));
    }
    let last = branches.len() - 1;
    match index.into() {
        Bound::Number(index) => branches[index.clamp(0, last as i64) as usize](operands),
        Bound::Tensor(index) => pick(&ops::reshape(&index, [0usize; 0]), branches, 0, operands),
    }
}

/// Selects among `branches`, whose numbers start at `first`.
#[track_caller]
fn pick<T, R>(index: &Tensor, branches: &[&dyn Fn(&T) -> R], first: usize, operands: &T) -> R
where
    OnTensor: Carry<R>,
{
    if let [one] = branches {
        return one(operands);
    }
    let (low, high) = branches.split_at(branches.len() / 2);
    let middle = first + low.len();
    let below = index.lt(middle as i64);
    cond(below, |it| pick(index, low, first, it), |it| pick(index, high, middle, it), operands)
}

/// Iterates `body` on `init` as long as `condition` holds, and returns the last value.
///
/// ```
/// use ms_core::{Tensor, ops, trace::while_loop};
/// let (x, n) = while_loop(
///     |(x, _): &(Tensor, Tensor)| x.gt(1.0),
///     |(x, n)| (ops::mul(x, 0.5), ops::add(n, 1)),
///     (Tensor::scalar(10.0), Tensor::scalar(0)),
/// );
/// assert_eq!((x.item::<f32>(), n.item::<i64>()), (0.625, 4));
/// ```
///
/// # Errors
/// Raises [`Code::TypeChange`] or [`Code::HostChange`], naming the part, when an iteration changes the type of a carry.
/// Also raises the errors of a condition.
#[track_caller]
pub fn while_loop<T: Tree>(condition: impl Fn(&T) -> Tensor, body: impl Fn(&T) -> T, init: T) -> T {
    let mut region = repeat::<OnTensor>();
    let (mut carry, mut borders) = (init, carry_of("while_loop"));
    loop {
        region.head();
        region.carry(&mut borders, &mut carry);
        if region.is_over() {
            region.carry(&mut borders, &mut carry);
            return carry;
        }
        if !region.test(condition(&carry)) {
            return carry;
        }
        region.carry(&mut borders, &mut carry);
        carry = checked(&carry, body(&carry), "while_loop");
    }
}

/// Iterates `body` on `init` for every number in `low..high`, passed as an `i64[]`, and returns the last value.
///
/// ```
/// use ms_core::{Tensor, ops, trace::fori_loop};
/// let sum = fori_loop(0, 5, |i, sum: &Tensor| ops::add(sum, i), Tensor::scalar(0));
/// assert_eq!(sum.item::<i64>(), 10);
/// ```
///
/// # Errors
/// Raises the errors of [`while_loop`]; [`Code::DType`] or [`Code::Shape`] for a bound that is not one integer.
#[track_caller]
pub fn fori_loop<T: Tree>(
    low: impl Into<Bound>,
    high: impl Into<Bound>,
    body: impl Fn(&Tensor, &T) -> T,
    init: T,
) -> T {
    let mut region = Over(range(low, high)).iterate();
    let (mut carry, mut borders) = (init, carry_of("fori_loop"));
    loop {
        region.head();
        region.carry(&mut borders, &mut carry);
        if region.is_over() {
            region.carry(&mut borders, &mut carry);
            return carry;
        }
        let Some(i) = region.next() else { return carry };
        carry = checked(&carry, body(&i, &carry), "fori_loop");
    }
}

/// Iterates `f` on `init` for every element along the first axis of `xs`. Returns the last carry, and the outputs of
/// all iterations stacked along a new first axis.
///
/// ```
/// use ms_core::{Tensor, ops, trace::scan};
/// let xs = Tensor::from_slice([3], &[1.0f32, 2.0, 3.0]);
/// let running = |sum: &Tensor, x: &Tensor| {
///     let sum = ops::add(sum, x);
///     (sum.clone(), sum)
/// };
/// let (last, all) = scan(running, Tensor::scalar(0.0), &xs);
/// assert_eq!((last.item::<f32>(), all.to_vec::<f32>()), (6.0, vec![1.0, 3.0, 6.0]));
/// ```
///
/// # Errors Raises [`Code::Shape`] when tensors of `xs` have no first axis or first axes of different sizes, and
/// [`Code::Argument`] when there is no tensor. Raises the errors of [`while_loop`] for carries.
#[track_caller]
pub fn scan<T: Tree, X: Tree, Y: Tree>(f: impl Fn(&T, &X) -> (T, Y), init: T, xs: &X) -> (T, Y) {
    let location = Location::caller();
    let length = length(&leaves(xs)).map_err(|it| it.with_op("scan").at(location)).or_raise();
    match Tracer::current().filter(|_| dispatch_mode() == DispatchMode::Trace) {
        Some(tracer) => traced_scan(tracer, f, init, xs, length, location),
        None => eager_scan(f, init, xs, length),
    }
}

/// Returns the common size of the first axis of all tensors.
fn length(sequences: &[Tensor]) -> Result<usize> {
    let first = sequences.first().ok_or_else(|| Error::new(Code::Argument, "there is nothing to scan over"))?;
    let size = |it: &Tensor| match it.dims().first() {
        Some(&size) => Ok(size),
        None => Err(Error::new(Code::Shape, format!("`{}` has no axis to scan over", it.ty()))),
    };
    let length = size(first)?;
    for other in sequences {
        if size(other)? != length {
            let message = format!("`{}` and `{}` have first axes of different sizes", first.ty(), other.ty());
            return Err(Error::new(Code::Shape, message));
        }
    }
    length.as_const().ok_or_else(|| Error::new(Code::Sizes, format!("the number {length} of iterations is symbolic")))
}

/// Returns one element of each sequence.
fn element<X: Tree>(xs: &X, at: usize) -> X {
    xs.rebuild(&mut |it| it.at(at as isize))
}

#[track_caller]
fn eager_scan<T: Tree, X: Tree, Y: Tree>(f: impl Fn(&T, &X) -> (T, Y), init: T, xs: &X, length: usize) -> (T, Y) {
    let mut carry = init;
    if length == 0 {
        return nothing(f, carry, xs);
    }
    let mut all: Vec<Y> = Vec::with_capacity(length);
    for at in 0..length {
        set_distinct::<OnTensor, T>(&mut carry);
        let (next, y) = f(&carry, &element(xs, at));
        carry = checked(&carry, next, "scan");
        all.push(y);
    }
    set_distinct::<OnTensor, T>(&mut carry);
    let columns: Vec<Vec<Tensor>> = all.map_vec(leaves);
    let mut next = 0;
    let stacked = all[0].rebuild(&mut |_| {
        next += 1;
        ops::stack(&columns.map_vec(|it| &it[next - 1]), 0)
    });
    (carry, stacked)
}

/// Returns the results of zero iterations. Their types come from a trace that is discarded.
#[track_caller]
fn nothing<T: Tree, X: Tree, Y: Tree>(f: impl Fn(&T, &X) -> (T, Y), init: T, xs: &X) -> (T, Y) {
    let tracer = Tracer::new("scan");
    let traced = run_traced(&tracer, || {
        let carry = init.rebuild(&mut |it| tracer.input(it.ty()));
        f(&carry, &xs.rebuild(&mut |it| tracer.input(row(it)))).1
    });
    match traced {
        Some(y) => {
            let empty = |it: &Tensor| {
                let dims: ms_ops::tensor::Dims = std::iter::once(0.into()).chain(it.dims()).collect();
                ops::full_of(dims, 0, it.dtype())
            };
            (init, y.rebuild(&mut |it| empty(it)))
        }
        None => raise(tracer.finish(&[]).err().expect("an early leave records its error")),
    }
}

/// Returns the type of an element of a sequence.
fn row(sequence: &Tensor) -> Type {
    let ty = sequence.ty();
    Type::new(ty.dtype, ty.dims[1..].iter().copied().collect())
}

#[track_caller]
fn traced_scan<T: Tree, X: Tree, Y: Tree>(
    tracer: Rc<Tracer>,
    f: impl Fn(&T, &X) -> (T, Y),
    init: T,
    xs: &X,
    length: usize,
    location: &'static Location<'static>,
) -> (T, Y) {
    let open = Open::new(tracer, location);
    let tracer = &open.tracer;
    let mut before = leaves(&init);
    let carries = before.len();
    let mut borders: Held<T> = carry_of("scan");
    borders.leaves = Leaves::of::<OnTensor, T>(&init);
    tracer.open("scan", true);
    let mut params: Vec<Option<Tensor>> = Vec::new();
    let mut declare = |it: &Tensor, ty: Type| {
        let param = tracer.named_input(ty, tracer.name_of(it));
        params.push(Some(param.clone()));
        param
    };
    let carry = init.rebuild(&mut |it| declare(it, it.ty()));
    let x = xs.rebuild(&mut |it| declare(it, row(it)));
    let (next, y) = f(&carry, &x);
    let after = open.leaves::<OnTensor, T>(borders.name, &next);
    let rows = leaves(&y);
    let refusal = difference(&borders, &after);
    let body = tracer.suspend();
    before.extend(leaves(xs));
    let lost = refusal.is_some() || before.iter().chain(&after.tensors).chain(&rows).any(Tensor::is_poisoned);
    if let Some(error) = refusal {
        open.report(error);
    }
    let outputs = if lost {
        let stacked = rows.iter().map(|it| it.ty().stacked(length.into()));
        before[..carries].iter().map(Tensor::ty).chain(stacked).map(|ty| tracer.poisoned(ty)).collect()
    } else {
        let sequences = before.len() - carries;
        let repeated = Repeated::Over { count: length, sequences, rows: rows.clone() };
        let after: Vec<Tensor> = after.tensors.into_iter().chain(params[carries..].iter().flatten().cloned()).collect();
        let mut outputs = tracer.repeat(repeated, body, [&before, &after], &params, location).or_raise();
        outputs.drain(carries..before.len());
        outputs
    };
    let mut outputs = outputs.into_iter();
    let mut put = |_: &Tensor| outputs.next().expect("one for each carry and each row");
    (init.rebuild(&mut put), y.rebuild(&mut put))
}

/// Adds a [`Scan`] as a node.
pub(crate) fn scan_carries(tracer: Rc<Tracer>, scan: &Scan<'_>) -> (Vec<Tensor>, Tensor) {
    let step = |carries: &Vec<Tensor>, x: &Tensor| {
        let next = (scan.step)(carries, x);
        let row = next[0].clone();
        (next, row)
    };
    traced_scan(tracer, step, scan.carries.to_vec(), scan.sequence, scan.length, scan.location)
}

/// Creates the saved values of a loop's single variable.
fn carry_of<T>(name: &'static str) -> Held<T> {
    held(match name {
        "while_loop" => "the carry of `while_loop`",
        "fori_loop" => "the carry of `fori_loop`",
        _ => "the carry of `scan`",
    })
}

/// Returns the error for a carry that an iteration changed.
fn difference<T: Tree>(borders: &Held<T>, after: &Leaves) -> Option<Error> {
    if !after.fits(&borders.leaves) {
        return Some(borders.mismatch("after an iteration than before it"));
    }
    let pairs = borders.leaves.tensors.iter().zip(&after.tensors).enumerate();
    let mut changed = pairs.filter(|(_, (a, b))| a.ty() != b.ty() && !a.is_poisoned() && !b.is_poisoned());
    changed.next().map(|(i, (a, b))| borders.retyped(i, [a, b], "before an iteration, but after it"))
}

/// Returns the carry after an eager iteration, after checking its types as in a trace.
#[track_caller]
fn checked<T: Tree>(before: &T, after: T, name: &'static str) -> T {
    if dispatch_mode() == DispatchMode::Trace {
        return after;
    }
    let mut borders: Held<T> = carry_of(name);
    borders.leaves = Leaves::of::<OnTensor, T>(before);
    match difference(&borders, &Leaves::of::<OnTensor, T>(&after)) {
        None => after,
        Some(error) => raise(error.at(Location::caller())),
    }
}
