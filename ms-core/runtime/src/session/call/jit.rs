//! Compiles functions and closures: `jit`.

use super::{JitFn, JitReturn};
use crate::session::{Function, TracedArguments, Transform};
use ms_ir::error::OrRaise;
use ms_ops::tensor::Tensor;
use ms_trace::trace::{Sink, TypeKey, type_key};
use rustc_hash::FxHashMap;
use std::panic::Location;
use std::sync::{LazyLock, Mutex, PoisonError};

/// A function that is compiled when it is called.
pub struct Jit<F> {
    f: F,
    function: &'static JitFn,
}

#[diagnostic::do_not_recommend]
impl<Args: TracedArguments, F: Function<Args, Output: JitReturn>> Transform<Args> for Jit<F> {
    type Output = F::Output;
    const CAPTURES: bool = F::CAPTURES;

    fn sign(&self, sink: &mut Sink<'_>) {
        self.f.sign(sink);
    }

    fn call(&self, arguments: Args::Refs<'_>) -> F::Output {
        let sign = |sink: &mut Sink<'_>| self.f.sign(sink);
        call_compiled::<Args, _>(self.function, type_key(&self.f), sign, arguments, |it| self.f.invoke(it))
    }
}

/// Calls `function` with the body `body`. `sign` visits everything besides the arguments that determines the graph.
#[track_caller]
pub(in crate::session) fn call_compiled<Args: TracedArguments, R: JitReturn>(
    function: &'static JitFn,
    key: TypeKey,
    sign: impl Fn(&mut Sink<'_>),
    arguments: Args::Refs<'_>,
    body: impl Fn(Args::Refs<'_>) -> R,
) -> R {
    let mut call = function.begin(key, |sink| {
        sign(sink);
        Args::visit(arguments, sink);
    });
    if let Some(result) = call.cached() {
        return result;
    }
    match call.tracer() {
        Some(tracer) => {
            let mut next = |_: usize, it: &Tensor| tracer.value(it).or_raise();
            Args::enter(arguments, &mut next, |arguments| call.finish(|| body(arguments)))
        }
        None => call.finish(|| body(arguments)),
    }
}

/// Returns the compiled form of a function, or of a closure without captures. A call traces it once per signature,
/// compiles the graph, and runs it.
///
/// All inputs of the function are arguments. A captured value would be frozen into the graph, so rustc rejects a
/// closure with captures.
///
/// ```
/// use ms_core::{Tensor, ops, session};
/// let twice = session::jit(|x: &Tensor| ops::add(x, x));
/// assert_eq!(twice(&Tensor::from_slice([2], &[1.0f32, 2.0])).to_vec::<f32>(), [2.0, 4.0]);
/// ```
#[track_caller]
pub fn jit<'f, Args: TracedArguments, F>(f: F) -> Args::Transformed<'f, Jit<F>>
where
    F: Function<Args, Output: JitReturn + 'f> + 'f,
{
    // The bound is not `F: 'static`, for which rustc would suggest `move`.
    const { captures_nothing(F::CAPTURES) }
    Args::transformed(Jit { function: site(type_key(&f), Location::caller()), f })
}

/// Rejects a closure with captures, which a compiled call would freeze, at compile time.
///
/// # Panics
/// Panics if it captures anything.
#[track_caller]
pub const fn captures_nothing(captures: bool) {
    if captures {
        panic!(
            "MS022: the closure captures a variable; pass it as an argument, or with the batch (`ms explain MS022`)"
        );
    }
}

/// Returns the call site of a closure or function: one for each type.
pub(in crate::session) fn site(key: TypeKey, location: &'static Location<'static>) -> &'static JitFn {
    static SITES: LazyLock<Mutex<FxHashMap<TypeKey, &'static JitFn>>> = LazyLock::new(Mutex::default);
    let mut sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
    sites.entry(key).or_insert_with(|| Box::leak(Box::new(JitFn::new(key.name(), location.file(), location.line(), 0))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tensor, ops};
    use ms_trace::trace::Frozen;
    use rustc_hash::FxBuildHasher;
    use std::hash::BuildHasher;

    fn sum(x: &Tensor, y: &Tensor) -> Tensor {
        ops::add(x, y)
    }

    #[test]
    fn functions_and_closures_of_any_arity() {
        let x = Tensor::from_slice([2], &[1.0f32, 2.0]);
        for _ in 0..2 {
            assert_eq!(jit(sum)(&x, &x).to_vec::<f32>(), [2.0, 4.0]);
            assert_eq!(jit(|x: &Tensor| sum(x, &sum(x, x)))(&x).to_vec::<f32>(), [3.0, 6.0]);
            assert_eq!(jit(|| Tensor::scalar(3.0))().item::<f32>(), 3.0);
        }
    }

    #[test]
    fn host_arguments_are_part_of_the_key() {
        let repeated = jit(|x: &Tensor, n: &usize| (1..*n).fold(x.clone(), |sum, _| ops::add(&sum, x)));
        let x = Tensor::scalar(2.0);
        assert_eq!([1, 2, 5].map(|n| repeated(&x, &n).item::<f32>()), [2.0, 4.0, 10.0]);
    }

    /// Values with the same 64-bit hash are distinguished.
    #[test]
    fn frozen_values_are_told_apart_by_their_content() {
        // The factor of the hash after each word.
        const FACTOR: u64 = 0xf135_7aea_2e62_a9c5;
        let all = [(2u64, 3u64), (1, FACTOR.wrapping_add(3))];
        let hashes = all.map(|it| FxBuildHasher.hash_one(it));
        assert_eq!(hashes[0], hashes[1], "the pair collides");
        let first = jit(|x: &Tensor, it: &Frozen<(u64, u64)>| ops::mul(x, Tensor::scalar(it.0 as f32)));
        let x = Tensor::scalar(10.0);
        for _ in 0..2 {
            assert_eq!(all.map(|it| first(&x, &Frozen::new(it)).item::<f32>()), [20.0, 10.0]);
        }
    }
}
