//! Makes rustc report statics that annotated code reads.
//!
//! For types with interior mutability, `Named(&VALUE).read()` resolves to the deprecated [`ChangingStatic::read`].
//! Method resolution finds it before [`FixedValue::read`], because it takes `self` by value and `FixedValue::read` by
//! reference.

use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize,
};
use std::sync::{LazyLock, Mutex, OnceLock, RwLock};
use std::thread::LocalKey;

/// A path that occurs in annotated code.
pub struct Named<'a, T: ?Sized>(pub &'a T);

/// A type whose constants a pure function may read.
#[diagnostic::on_unimplemented(
    message = "a pure function reads no static",
    label = "depends on the process",
    note = "pass the value as an argument, or remove `pure`; for more information, run `ms explain MS024`"
)]
pub trait PureRead<'a> {}

/// A mutable static.
pub trait ChangingStatic {
    /// Reads the static in annotated code.
    #[deprecated(note = "what a compiled function reads of a static is frozen into its graph; pass the value as an \
                argument, or call `ms::retrace` after a change; for more information, run `ms explain MS025`")]
    fn read(self)
    where
        Self: Sized,
    {
    }

    /// Reads the static in a pure function.
    fn pure_read<'a>(self)
    where
        Self: PureRead<'a> + Sized,
    {
    }
}

/// Constants, and immutable statics.
pub trait FixedValue {
    /// Reads the constant in annotated code.
    fn read(&self) {}

    /// Reads the constant in a pure function.
    fn pure_read(&self) {}
}

impl<T: ?Sized> FixedValue for Named<'_, T> {}

macro_rules! changing {
    ($($ty:ty),*) => {$(impl ChangingStatic for Named<'_, $ty> {})*};
}

changing!(
    AtomicBool,
    AtomicI8,
    AtomicI16,
    AtomicI32,
    AtomicI64,
    AtomicIsize,
    AtomicU8,
    AtomicU16,
    AtomicU32,
    AtomicU64,
    AtomicUsize
);

impl<T: ?Sized> ChangingStatic for Named<'_, Mutex<T>> {}
impl<T: ?Sized> ChangingStatic for Named<'_, RwLock<T>> {}
impl<T> ChangingStatic for Named<'_, OnceLock<T>> {}
impl<T> ChangingStatic for Named<'_, LocalKey<T>> {}

/// A static that is initialised once per process, differently in each.
pub trait ComputedStatic {
    /// Reads the static in annotated code.
    fn read(self)
    where
        Self: Sized,
    {
    }

    /// Reads the static in a pure function.
    fn pure_read<'a>(self)
    where
        Self: PureRead<'a> + Sized,
    {
    }
}

impl<T, F> ComputedStatic for Named<'_, LazyLock<T, F>> {}

/// Marks a `static mut` that annotated code reads.
#[deprecated(
    note = "what a compiled function reads of a static is frozen into its graph; pass the value as an argument, \
            or call `ms::retrace` after a change; for more information, run `ms explain MS025`"
)]
pub fn static_mut() {}
