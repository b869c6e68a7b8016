//! Makes rustc report statics that annotated code reads.
//!
//! For types with interior mutability, `Named(&VALUE).read()` resolves to [`ChangingStatic::read`],
//! which is deprecated; it takes the value by value, so method resolution finds it before
//! [`FixedValue::read`], which takes a reference.

use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize,
};
use std::sync::{LazyLock, Mutex, OnceLock, RwLock};
use std::thread::LocalKey;

/// A path that annotated code names.
pub struct Named<'a, T: ?Sized>(pub &'a T);

/// A type that a pure function may read from a constant.
#[diagnostic::on_unimplemented(
    message = "a pure function reads no static",
    label = "depends on the process",
    note = "pass the value as an argument, or remove `pure`; for more information, run `ms explain MS024`"
)]
pub trait PureRead<'a> {}

/// A mutable static.
pub trait ChangingStatic {
    /// Named in annotated code.
    #[deprecated(note = "what a compiled function reads of a static is frozen into its graph; pass the value as an \
                argument, or call `ms::retrace` after a change; for more information, run `ms explain MS025`")]
    fn read(self)
    where
        Self: Sized,
    {
    }

    /// Named in a pure function.
    fn pure_read<'a>(self)
    where
        Self: PureRead<'a> + Sized,
    {
    }
}

/// Constants, and immutable statics.
pub trait FixedValue {
    /// Named in annotated code.
    fn read(&self) {}

    /// Named in a pure function.
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
    /// Named in annotated code.
    fn read(self)
    where
        Self: Sized,
    {
    }

    /// Named in a pure function.
    fn pure_read<'a>(self)
    where
        Self: PureRead<'a> + Sized,
    {
    }
}

impl<T, F> ComputedStatic for Named<'_, LazyLock<T, F>> {}

/// A `static mut` is named in annotated code.
#[deprecated(
    note = "what a compiled function reads of a static is frozen into its graph; pass the value as an argument, \
            or call `ms::retrace` after a change; for more information, run `ms explain MS025`"
)]
pub fn static_mut() {}
