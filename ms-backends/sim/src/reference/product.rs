//! Computes sums of products in the order of strict precision: matrix products, and contractions.

use ms_ir::data::{Element, Scalar, try_filled};
use ms_ir::error::Result;
use ms_ir::{CHUNK, Contraction, ContractionAxis, PairwiseTree, with_element};
use std::num::Wrapping;
use std::ops::Add;

/// The type of terms and sums: f32, f64, or integers that wrap. The sum of bools counts the true terms.
pub trait Accumulator: Copy + Default + Add<Output = Self> {
    /// Converts an element, which is exact.
    fn of(scalar: Scalar) -> Self;

    /// Returns the sum as a scalar, which is rounded to the type of the result.
    fn to_scalar(self) -> Scalar;

    /// Returns `a * b + self`, rounded once.
    fn multiply_add(self, a: Self, b: Self) -> Self;
}

macro_rules! floats {
    ($($ty:ident)*) => {$(
        impl Accumulator for $ty {
            fn of(scalar: Scalar) -> Self {
                $ty::from_scalar(scalar)
            }

            fn to_scalar(self) -> Scalar {
                Element::to_scalar(self)
            }

            #[inline(always)]
            fn multiply_add(self, a: Self, b: Self) -> Self {
                a.mul_add(b, self)
            }
        }
    )*};
}

floats!(f32 f64);

impl Accumulator for Wrapping<i64> {
    fn of(scalar: Scalar) -> Self {
        Self(i64::from_scalar(scalar))
    }

    fn to_scalar(self) -> Scalar {
        Scalar::Int(self.0)
    }

    #[inline(always)]
    fn multiply_add(self, a: Self, b: Self) -> Self {
        self + a * b
    }
}

/// Evaluates an expression with `$t` as the accumulator of a dtype.
macro_rules! with_accumulator {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype.compute() {
            ms_ir::data::DType::F32 => {
                type $t = f32;
                $body
            }
            ms_ir::data::DType::F64 => {
                type $t = f64;
                $body
            }
            _ => {
                type $t = std::num::Wrapping<i64>;
                $body
            }
        }
    };
}
pub(crate) use with_accumulator;

/// Multiplies the row-major matrices `a` `[m, k]` and `b` `[k, n]` into `out` `[m, n]`. Each element is the sum of the
/// [tree](PairwiseTree) of its chunks, and each chunk is a chain of fused multiply-adds from +0.
///
/// # Errors
/// [`Code::Memory`](ms_ir::Code::Memory) if memory runs out.
pub fn multiply<T: Accumulator>(a: &[T], b: &[T], [m, k, n]: [usize; 3], out: &mut [T]) -> Result<()> {
    assert_eq!((a.len(), b.len(), out.len()), (m * k, k * n, m * n), "matrices have their sizes");
    let tree = PairwiseTree::of_terms(k);
    let mut sums = try_filled(T::default(), (tree.slots() + 1) * n)?;
    for row in 0..m {
        sums.fill(T::default());
        let terms = &a[row * k..][..k];
        for (chunk, terms) in terms.chunks(CHUNK).enumerate() {
            let (slots, sum) = sums.split_at_mut(tree.slots() * n);
            sum.fill(T::default());
            add_products(terms, &b[chunk * CHUNK * n..], sum);
            let combined = tree.combined(chunk);
            for slot in combined.clone().rev() {
                sum.iter_mut().zip(&slots[slot * n..][..n]).for_each(|(sum, &slot)| *sum = slot + *sum);
            }
            slots[combined.start * n..][..n].copy_from_slice(sum);
        }
        out[row * n..][..n].copy_from_slice(&sums[..n]);
    }
    Ok(())
}

/// Adds the products of terms with the rows of a matrix to a row of sums, one row after the other.
fn add_products<T: Accumulator>(terms: &[T], rows: &[T], sums: &mut [T]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("fma") && is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2 and FMA.
        return unsafe { add_products_by_fma(terms, rows, sums) };
    }
    add_each(terms, rows, sums);
}

/// Implements [`add_products`] with instructions of the processor. Without them each multiply-add is a call.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn add_products_by_fma<T: Accumulator>(terms: &[T], rows: &[T], sums: &mut [T]) {
    add_each(terms, rows, sums);
}

#[inline(always)]
fn add_each<T: Accumulator>(terms: &[T], rows: &[T], sums: &mut [T]) {
    let n = sums.len();
    for (at, &term) in terms.iter().enumerate() {
        let row = &rows[at * n..][..n];
        sums.iter_mut().zip(row).for_each(|(sum, &it)| *sum = sum.multiply_add(term, it));
    }
}

/// A contraction with the offsets of its elements along the axes of each kind, in row-major order.
pub struct ReferenceContraction {
    contraction: Contraction,
    batch: Vec<Offsets>,
    m: Vec<Offsets>,
    n: Vec<Offsets>,
    k: Vec<Offsets>,
}

/// The offsets of `a`, `b` and the result, in elements.
type Offsets = [isize; 3];

impl ReferenceContraction {
    /// Prepares a contraction.
    pub fn new(contraction: &Contraction) -> Self {
        let Contraction { batch, m, n, k, .. } = contraction;
        Self { batch: offsets(batch), m: offsets(m), n: offsets(n), k: offsets(k), contraction: contraction.clone() }
    }

    /// Computes the contraction.
    ///
    /// # Safety
    /// The addresses of the operands and of the result are the host's. All elements that sizes and strides address are
    /// live. Nothing else writes the operands or accesses the result.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if memory runs out.
    pub unsafe fn run(&self, operands: [*const u8; 2], out: *mut u8) -> Result<()> {
        // SAFETY: the conditions of `run_in` are those of this function.
        with_accumulator!(self.contraction.types.accumulator, T => unsafe { self.run_in::<T>(operands, out) })
    }

    /// Computes the contraction in an accumulator type.
    ///
    /// # Safety
    /// The conditions of [`Self::run`] hold.
    unsafe fn run_in<T: Accumulator>(&self, [a, b]: [*const u8; 2], out: *mut u8) -> Result<()> {
        let Self { batch, m, n, k, .. } = self;
        let types = self.contraction.types;
        let sizes @ [rows, terms, columns] = [m.len(), k.len(), n.len()];
        let mut left = try_filled(T::default(), rows * terms)?;
        let mut right = try_filled(T::default(), terms * columns)?;
        let mut products = try_filled(T::default(), rows * columns)?;
        for first in batch {
            let of_a = m.iter().flat_map(|m| k.iter().map(move |k| first[0] + m[0] + k[0]));
            let of_b = k.iter().flat_map(|k| n.iter().map(move |n| first[1] + k[1] + n[1]));
            let of_out = m.iter().flat_map(|m| n.iter().map(move |n| first[2] + m[2] + n[2]));
            // SAFETY: the offsets address live elements of the operands, by this function's contract.
            unsafe {
                with_element!(types.a, E => read::<E, T>(a, of_a, &mut left));
                with_element!(types.b, E => read::<E, T>(b, of_b, &mut right));
            }
            multiply(&left, &right, sizes, &mut products)?;
            // SAFETY: the offsets address live elements of the result, which nothing else accesses.
            unsafe { with_element!(types.out, E => write::<E, T>(out, of_out, &products)) };
        }
        Ok(())
    }
}

/// Returns the offsets of the elements along axes, in row-major order.
fn offsets(axes: &[ContractionAxis]) -> Vec<Offsets> {
    axes.iter().fold(vec![[0; 3]], |outer, axis| {
        let step = |first: Offsets, at: usize| std::array::from_fn(|it| first[it] + at as isize * axis.strides[it]);
        outer.iter().flat_map(|&first| (0..axis.size).map(move |at| step(first, at))).collect()
    })
}

/// Reads elements of type `E` at offsets.
///
/// # Safety
/// The offsets address live elements.
unsafe fn read<E: Element, T: Accumulator>(from: *const u8, offsets: impl Iterator<Item = isize>, to: &mut [T]) {
    for (to, offset) in to.iter_mut().zip(offsets) {
        // SAFETY: the offset addresses a live element, by this function's contract.
        let element = unsafe { from.cast::<E>().offset(offset).read_unaligned() };
        *to = T::of(element.to_scalar());
    }
}

/// Writes elements of type `E` at offsets.
///
/// # Safety
/// The offsets address live elements, and nothing else accesses them.
unsafe fn write<E: Element, T: Accumulator>(to: *mut u8, offsets: impl Iterator<Item = isize>, from: &[T]) {
    for (&from, offset) in from.iter().zip(offsets) {
        let element = E::from_scalar(from.to_scalar());
        // SAFETY: the offset addresses a live element that nothing else accesses, by this function's contract.
        unsafe { to.cast::<E>().offset(offset).write_unaligned(element) };
    }
}
