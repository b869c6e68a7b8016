//! Caches FFT plans by size, one cache per thread.

use crate::custom::{AnyView, AnyViewMut};
use crate::{Error, Result};
use ms_core::tensor::Element;
use realfft::num_complex::Complex;
use realfft::{FftNum, RealFftPlanner};
use rustfft::{FftDirection, FftPlanner};
use std::cell::RefCell;

/// A dtype that can be transformed.
pub(super) trait Number: FftNum + Element {
    /// Calls a function with the planners of the current thread.
    fn with_plans<R>(f: impl FnOnce(&mut FftPlanner<Self>, &mut RealFftPlanner<Self>) -> R) -> R;
}

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        impl Number for $ty {
            fn with_plans<R>(f: impl FnOnce(&mut FftPlanner<Self>, &mut RealFftPlanner<Self>) -> R) -> R {
                thread_local! {
                    static PLANS: RefCell<(FftPlanner<$ty>, RealFftPlanner<$ty>)> =
                        RefCell::new((FftPlanner::new(), RealFftPlanner::new()));
                }
                PLANS.with_borrow_mut(|(complex, real)| f(complex, real))
            }
        }
    )*};
}

numbers! { f32 f64 }

fn pairs<T: Number>(row: &[T]) -> Vec<Complex<T>> {
    row.chunks_exact(2).map(|it| Complex::new(it[0], it[1])).collect()
}

fn write<T: Number>(to: &mut [T], row: &[Complex<T>]) {
    for (to, from) in to.chunks_exact_mut(2).zip(row) {
        (to[0], to[1]) = (from.re, from.im);
    }
}

fn failed(error: &realfft::FftError) -> Error {
    Error::new(crate::Code::CustomOp, error.to_string())
}

/// Computes a complex transform of each row of `[.., n, 2]`.
pub(super) fn complex<T: Number>(x: &AnyView<'_>, inverse: bool, y: &mut AnyViewMut<'_>) -> Result<()> {
    let (x, mut y) = (x.typed::<T>()?, y.typed::<T>()?);
    let size = x.shape()[x.shape().len() - 2];
    let direction = if inverse { FftDirection::Inverse } else { FftDirection::Forward };
    let plan = T::with_plans(|plans, _| plans.plan_fft(size, direction));
    for (from, to) in x.chunks(size * 2).zip(y.chunks_mut(size * 2)) {
        let mut row = pairs(from);
        plan.process(&mut row);
        write(to, &row);
    }
    Ok(())
}

/// Computes a real-to-complex transform of each row of `[.., n]`, into `[.., n / 2 + 1, 2]`.
pub(super) fn from_real<T: Number>(x: &AnyView<'_>, y: &mut AnyViewMut<'_>) -> Result<()> {
    let (x, mut y) = (x.typed::<T>()?, y.typed::<T>()?);
    let size = x.shape()[x.shape().len() - 1];
    let plan = T::with_plans(|_, plans| plans.plan_fft_forward(size));
    let mut spectrum = plan.make_output_vec();
    for (from, to) in x.chunks(size).zip(y.chunks_mut((size / 2 + 1) * 2)) {
        plan.process(&mut from.to_vec(), &mut spectrum).map_err(|it| failed(&it))?;
        write(to, &spectrum);
    }
    Ok(())
}

/// Computes a complex-to-real transform of each row of `[.., n / 2 + 1, 2]`, into `[.., n]`.
pub(super) fn to_real<T: Number>(x: &AnyView<'_>, y: &mut AnyViewMut<'_>) -> Result<()> {
    let (x, mut y) = (x.typed::<T>()?, y.typed::<T>()?);
    let size = y.shape()[y.shape().len() - 1];
    let plan = T::with_plans(|_, plans| plans.plan_fft_inverse(size));
    for (from, to) in x.chunks((size / 2 + 1) * 2).zip(y.chunks_mut(size)) {
        let mut spectrum = pairs(from);
        // The spectrum of real numbers is real at frequency zero and at n / 2; the plan fails for other input.
        spectrum[0].im = T::zero();
        if size.is_multiple_of(2) {
            spectrum[size / 2].im = T::zero();
        }
        plan.process(&mut spectrum, to).map_err(|it| failed(&it))?;
    }
    Ok(())
}
