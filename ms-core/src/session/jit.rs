//! Functions and closures, compiled: `jit`.

use super::call::{JitFn, JitReturn};
use super::grad::Transformed;
use super::signature::type_key;
use crate::trace::Arg;
use rustc_hash::FxHashMap;
use std::any::{TypeId, type_name};
use std::panic::Location;
use std::sync::{LazyLock, Mutex, PoisonError};

/// A function or closure of references that can be compiled.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be compiled",
    note = "MS052: a compiled function takes references to arguments (`|x: &Tensor, n: &usize|`) and gives a `Tree`"
)]
pub trait Jittable<Args>: Sized {
    /// The compiled function.
    type Jitted: ?Sized;

    /// See [`jit`].
    fn into_jitted(self, function: &'static JitFn) -> Box<Self::Jitted>;
}

macro_rules! functions {
    ($(($($ty:ident $arg:ident),*);)*) => {$(
        impl<Func, R, $($ty),*> Jittable<(R, $($ty,)*)> for Func
        where
            Func: Fn($(&$ty),*) -> R + 'static,
            R: JitReturn + 'static,
            $($ty: Arg + 'static),*
        {
            type Jitted = dyn Fn($(&$ty),*) -> R;

            fn into_jitted(self, function: &'static JitFn) -> Box<Self::Jitted> {
                let key = type_key(&self);
                Box::new(move |$($arg: &$ty),*| {
                    let mut call = function.begin(key, |_sink| { $(_sink.argument(concat!("argument ", stringify!($arg))); $arg.visit(_sink);)* });
                    if let Some(result) = call.cached() {
                        return result;
                    }
                    $(let $arg = call.enter($arg);)*
                    call.finish(|| self($(&$arg),*))
                })
            }
        }
    )*};
}

functions! {
    ();
    (A a);
    (A a, B b);
    (A a, B b, C c);
    (A a, B b, C c, D d);
    (A a, B b, C c, D d, E e);
    (A a, B b, C c, D d, E e, G g);
}

/// The compiled form of a function, or of a closure that captures nothing: a call traces it once
/// per signature, compiles the graph, and runs it.
///
/// What the function needs are its arguments; a captured value would be frozen into the graph,
/// so that a closure that captures is refused when it is compiled by rustc.
///
/// ```
/// use ms_core::{Tensor, ops, session};
/// let twice = session::jit(|x: &Tensor| ops::add(x, x));
/// assert_eq!(twice(&Tensor::from_slice([2], &[1.0f32, 2.0])).to_vec::<f32>(), [2.0, 4.0]);
/// ```
#[track_caller]
pub fn jit<Args, F: Jittable<Args> + 'static>(f: F) -> Transformed<F::Jitted> {
    const {
        assert!(
            size_of::<F>() == 0,
            "MS022: the closure captures variables; pass them as arguments, so that they are inputs of the graph \
             and not constants"
        );
    }
    Transformed(f.into_jitted(site::<F>(Location::caller())))
}

/// The call site of a closure or function: one for each type.
fn site<F: 'static>(location: &'static Location<'static>) -> &'static JitFn {
    static SITES: LazyLock<Mutex<FxHashMap<TypeId, &'static JitFn>>> = LazyLock::new(Mutex::default);
    let mut sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
    sites
        .entry(TypeId::of::<F>())
        .or_insert_with(|| Box::leak(Box::new(JitFn::new(type_name::<F>(), location.file(), location.line(), 0))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tensor, ops};

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
}
