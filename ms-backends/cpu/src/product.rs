//! Products of matrices: f32 and f64 through the `gemm` crates, everything else by widening.
//!
//! A large product is cut into column or row panels. The cut depends on the sizes alone, so
//! that the bits of the result are the same for every number of threads.

use crate::interp::number::Number;
use crate::packing::{columns_at_once, prepare_thread, reserve};
use crate::threads;
use gemm_common::Parallelism;
use half::{bf16, f16};
use ms_core::error::Result;
use ms_core::exec::MatrixProduct;
use ms_core::tensor::{DType, try_filled, try_room};

/// Multiply-adds per panel of a product that is worth cutting.
const PANEL_WORK: usize = 1 << 20;

/// Panels of one product at most.
const MAX_PANELS: usize = 64;

/// Runs a product.
///
/// # Safety
/// Every element that the product's sizes and strides reach from the three addresses lies in
/// memory that lives during the call; nobody writes `a` and `b` or touches `out` meanwhile.
///
/// # Errors
/// [`Code::Memory`](ms_core::Code::Memory) when the system has no memory for copies of the operands.
pub unsafe fn run(product: &MatrixProduct, a: *const u8, b: *const u8, out: *mut u8) -> Result<()> {
    // SAFETY: the caller's contract is the same, and the types are those of the dtype.
    unsafe {
        match product.dtype {
            DType::F32 => floats::<f32>(product, a, b, out),
            DType::F64 => floats::<f64>(product, a, b, out),
            DType::F16 => halves(product, a, b, out, f16::to_f32, f16::from_f32),
            DType::BF16 => halves(product, a, b, out, bf16::to_f32, bf16::from_f32),
            DType::Bool => integers(product, a, b, out, |it: u8| (it != 0) as u8, |it| it),
            DType::I8 => integers(product, a, b, out, |it: i8| it as i32, |it| it as i8),
            DType::I16 => integers(product, a, b, out, |it: i16| it as i32, |it| it as i16),
            DType::U8 => integers(product, a, b, out, |it: u8| it as u32, |it| it as u8),
            DType::U16 => integers(product, a, b, out, |it: u16| it as u32, |it| it as u16),
            DType::I32 | DType::U32 => integers(product, a, b, out, |it: u32| it, |it| it),
            DType::I64 | DType::U64 => integers(product, a, b, out, |it: u64| it, |it| it),
        }
    }
}

/// An element type of the `gemm` crates.
pub trait Gemm: Copy + Send + Sync + Default {
    /// Rows and columns of the tiles of the kernels that this processor runs.
    fn tile() -> [usize; 2];

    /// `out = a b`, or `out += a b`, for `[m, k, n]` and non-negative strides of `out`.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn gemm(
        sizes: [usize; 3],
        out: Matrix<*mut Self>,
        accumulate: bool,
        a: Matrix<*const Self>,
        b: Matrix<*const Self>,
    );
}

/// A matrix: its first element, and steps between rows and columns.
#[derive(Clone, Copy)]
pub struct Matrix<P> {
    /// The first element.
    pub first: P,
    /// Steps between rows and between columns.
    pub steps: [isize; 2],
}

impl<P> Matrix<P> {
    /// A row-major matrix without gaps.
    pub fn dense(first: P, columns: usize) -> Self {
        Self { first, steps: [columns as isize, 1] }
    }

    /// The matrix with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self { first: self.first, steps: [self.steps[1], self.steps[0]] }
    }
}

macro_rules! gemm_types {
    ($($ty:ident, $lanes:literal, $module:path, $kernels:path;)*) => {$(
        impl Gemm for $ty {
            fn tile() -> [usize; 2] {
                use $kernels as kernels;
                #[cfg(target_arch = "x86_64")]
                {
                    use kernels::{avx512f::$ty as wide, fma::$ty as narrow};
                    if is_x86_feature_detected!("avx512f") {
                        return [2 * $lanes * wide::MR_DIV_N, wide::NR];
                    }
                    if is_x86_feature_detected!("fma") {
                        return [$lanes * narrow::MR_DIV_N, narrow::NR];
                    }
                }
                [kernels::scalar::$ty::MR_DIV_N, kernels::scalar::$ty::NR]
            }

            unsafe fn gemm(
                [m, k, n]: [usize; 3],
                out: Matrix<*mut Self>,
                accumulate: bool,
                a: Matrix<*const Self>,
                b: Matrix<*const Self>,
            ) {
                use $module as kernels;
                // The kernels prefer column-major results, which a transposed row-major one is.
                let is_turned = out.steps[1] < out.steps[0];
                let (m, n, out, a, b) = match is_turned {
                    true => (n, m, out.transposed(), b.transposed(), a.transposed()),
                    false => (m, n, out, a, b),
                };
                let width = columns_at_once::<Self>();
                for start in (0..n).step_by(width) {
                    let to = out.first.wrapping_offset(start as isize * out.steps[1]);
                    let from = b.first.wrapping_offset(start as isize * b.steps[1]);
                    // SAFETY: as the caller's, of some columns of the product, or of the transposed one.
                    unsafe {
                        kernels::get_gemm_fn()(
                            m, width.min(n - start), k,
                            to, out.steps[1], out.steps[0], accumulate,
                            a.first, a.steps[1], a.steps[0],
                            from, b.steps[1], b.steps[0],
                            1.0, 1.0, false, false, false, Parallelism::None,
                        )
                    }
                }
            }
        }
    )*};
}

gemm_types! {
    f32, 8, gemm_f32::gemm::f32, gemm_f32::microkernel;
    f64, 4, gemm_f64::gemm::f64, gemm_f64::microkernel;
}

/// Plain addresses: several threads may hold them, as every use of one is `unsafe`.
pub trait Addresses: Copy {}

impl<T> Addresses for *const T {}
impl<T> Addresses for *mut T {}
impl<P: Addresses> Addresses for Matrix<P> {}
impl<A: Addresses, B: Addresses, C: Addresses> Addresses for (A, B, C) {}

/// Addresses that a region's threads share.
pub struct Shared<P>(P);

impl<P: Addresses> Shared<P> {
    /// Addresses for a region whose threads write disjoint parts.
    pub fn new(addresses: P) -> Self {
        Self(addresses)
    }

    /// The addresses.
    pub fn get(&self) -> P {
        self.0
    }
}

// SAFETY: addresses are numbers; who reads or writes through them answers for races.
unsafe impl<P: Addresses> Sync for Shared<P> {}

unsafe fn floats<T: Gemm>(product: &MatrixProduct, a: *const u8, b: *const u8, out: *mut u8) -> Result<()> {
    let &MatrixProduct { m, k, n, .. } = product;
    let batch = product.batch_len();
    if batch * m * n == 0 {
        return Ok(());
    }
    let matrices = Shared::new((
        Matrix { first: a.cast::<T>(), steps: product.a },
        Matrix { first: b.cast::<T>(), steps: product.b },
        Matrix { first: out.cast::<T>(), steps: product.out },
    ));
    let work = m * n * k.max(1);
    // Panels run along the longer side of the result.
    let by_columns = n >= m;
    let side = if by_columns { n } else { m };
    let panels = (work / PANEL_WORK).clamp(1, MAX_PANELS).min(side.div_ceil(64)).max(1);
    let panel = side.div_ceil(panels).next_multiple_of(16);
    let panels = side.div_ceil(panel);
    let sizes = if by_columns { [m, k, panel.min(n)] } else { [panel.min(m), k, n] };
    reserve::<T>(sizes, batch * panels)?;
    threads::try_for_each(batch * panels, batch * work, |chunk| {
        prepare_thread()?;
        let (mut a, mut b, mut out) = matrices.get();
        let offsets = product.batch_offsets(chunk / panels);
        let start = chunk % panels * panel;
        let len = panel.min(side - start);
        a.first = a.first.wrapping_offset(offsets[0]);
        b.first = b.first.wrapping_offset(offsets[1]);
        out.first = out.first.wrapping_offset(offsets[2]);
        let (m, n) = if by_columns { (m, len) } else { (len, n) };
        let (rows, columns) = if by_columns { (0, start as isize) } else { (start as isize, 0) };
        a.first = a.first.wrapping_offset(rows * a.steps[0]);
        b.first = b.first.wrapping_offset(columns * b.steps[1]);
        out.first = out.first.wrapping_offset(rows * out.steps[0] + columns * out.steps[1]);
        // SAFETY: the panel is part of the product that the caller vouches for.
        unsafe { T::gemm([m, k, n], out, false, a, b) };
        Ok(())
    })
}

/// Products of f16 and bf16: in f32, rounded once.
unsafe fn halves<H: Copy>(
    product: &MatrixProduct,
    a: *const u8,
    b: *const u8,
    out: *mut u8,
    widen: fn(H) -> f32,
    narrow: fn(f32) -> H,
) -> Result<()> {
    let &MatrixProduct { m, k, n, .. } = product;
    let mut dense = try_filled(0f32, m * n)?;
    let wide = MatrixProduct {
        dtype: DType::F32,
        a: [k as isize, 1],
        b: [n as isize, 1],
        out: [n as isize, 1],
        batch: Default::default(),
        ..*product
    };
    for i in 0..product.batch_len() {
        let at = product.batch_offsets(i);
        // SAFETY: as the caller's; the dense copies are row-major and of the right sizes.
        unsafe {
            let a = gather(a.cast::<H>().wrapping_offset(at[0]), [m, k], product.a, widen)?;
            let b = gather(b.cast::<H>().wrapping_offset(at[1]), [k, n], product.b, widen)?;
            floats::<f32>(&wide, a.as_ptr().cast(), b.as_ptr().cast(), dense.as_mut_ptr().cast())?;
            scatter(&dense, out.cast::<H>().wrapping_offset(at[2]), n, product.out, narrow);
        }
    }
    Ok(())
}

/// Products of integers, which wrap, and of truth values, where a sum is a disjunction.
unsafe fn integers<M: Copy, C: Number>(
    product: &MatrixProduct,
    a: *const u8,
    b: *const u8,
    out: *mut u8,
    widen: impl Fn(M) -> C + Copy,
    narrow: impl Fn(C) -> M + Copy,
) -> Result<()> {
    /// Columns whose sums stay in the first-level cache.
    const COLUMNS: usize = 512;
    let &MatrixProduct { m, k, n, .. } = product;
    let mut sums = try_filled(C::ZERO, m * n)?;
    for i in 0..product.batch_len() {
        let at = product.batch_offsets(i);
        // SAFETY: as the caller's.
        let (a, b) = unsafe {
            (
                gather(a.cast::<M>().wrapping_offset(at[0]), [m, k], product.a, widen)?,
                gather(b.cast::<M>().wrapping_offset(at[1]), [k, n], product.b, widen)?,
            )
        };
        sums.fill(C::ZERO);
        for row in 0..m {
            let sums = &mut sums[row * n..(row + 1) * n];
            for (block, sums) in sums.chunks_mut(COLUMNS).enumerate() {
                for step in 0..k {
                    let factor = a[row * k + step];
                    let b = &b[step * n + block * COLUMNS..][..sums.len()];
                    for (sum, &b) in sums.iter_mut().zip(b) {
                        *sum = sum.add(factor.mul(b));
                    }
                }
            }
        }
        // SAFETY: as the caller's.
        unsafe { scatter(&sums, out.cast::<M>().wrapping_offset(at[2]), n, product.out, narrow) };
    }
    Ok(())
}

/// A row-major copy of a strided matrix.
unsafe fn gather<M: Copy, C>(
    first: *const M,
    [rows, columns]: [usize; 2],
    steps: [isize; 2],
    widen: impl Fn(M) -> C,
) -> Result<Vec<C>> {
    let mut out = try_room(rows * columns)?;
    for row in 0..rows as isize {
        let first = first.wrapping_offset(row * steps[0]);
        // SAFETY: as the caller's.
        out.extend((0..columns as isize).map(|it| widen(unsafe { *first.wrapping_offset(it * steps[1]) })));
    }
    Ok(out)
}

/// Writes a row-major matrix of `columns` columns to a strided one.
unsafe fn scatter<M, C: Copy>(values: &[C], first: *mut M, columns: usize, steps: [isize; 2], narrow: impl Fn(C) -> M) {
    if columns == 0 {
        return;
    }
    for (row, values) in values.chunks(columns).enumerate() {
        let first = first.wrapping_offset(row as isize * steps[0]);
        for (column, &value) in values.iter().enumerate() {
            // SAFETY: as the caller's.
            unsafe { *first.wrapping_offset(column as isize * steps[1]) = narrow(value) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_core::tensor::{Array, Element, Layout, Scalar};
    use ms_core::with_element;

    fn filled(shape: &[usize], dtype: DType, seed: u64) -> Array {
        let mut out = Array::zeros(shape, dtype);
        let mut state = seed;
        let unsigned = dtype.is_int() && !dtype.is_signed_int();
        let low = if unsigned { 0 } else { -7 };
        with_element!(dtype, T => {
            for it in out.as_mut_slice::<T>() {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                *it = T::from_scalar(Scalar::Int((state >> 60) as i64 + low));
            }
        });
        out
    }

    /// The product of small integers, which every dtype but bool holds exactly or wraps alike.
    fn model(a: &Array, b: &Array) -> Vec<Scalar> {
        let (rank, shape) = (a.layout().rank(), a.shape());
        let (m, k, n) = (shape[rank - 2], shape[rank - 1], b.shape()[rank - 1]);
        let (xs, ys) = (a.scalars(), b.scalars());
        let batch: usize = shape[..rank - 2].iter().product();
        let mut out = Vec::new();
        for i in 0..batch * m {
            for j in 0..n {
                let terms = (0..k).map(|p| {
                    let (x, y) = (xs[i * k + p], ys[(i / m * k + p) * n + j]);
                    (x.as_f64() * y.as_f64(), x.as_bool() && y.as_bool())
                });
                let (sum, any) = terms.fold((0.0, false), |(sum, any), (x, y)| (sum + x, any | y));
                out.push(if a.dtype() == DType::Bool { Scalar::Bool(any) } else { wrap(sum, a.dtype()) });
            }
        }
        out
    }

    fn wrap(value: f64, dtype: DType) -> Scalar {
        let scalar = if dtype.is_float() { Scalar::Float(value) } else { Scalar::Int(value as i64) };
        with_element!(dtype, T => T::from_scalar(scalar).to_scalar())
    }

    #[track_caller]
    fn check(a: &Array, b: &Array) {
        let rank = a.layout().rank();
        let mut shape = a.shape_owned();
        shape[rank - 1] = b.shape()[rank - 1];
        let out = Array::full(&shape, Scalar::Int(1), a.dtype());
        let product = MatrixProduct::new(a.dtype(), a.layout(), b.layout(), out.layout()).expect("the shapes fit");
        // SAFETY: the layouts lie inside the arrays, and `out` is fresh.
        unsafe { run(&product, a.as_ptr(), b.as_ptr(), out.as_mut_ptr()) }.expect("a product of one dtype");
        assert_eq!(out.scalars(), model(a, b), "{} x {}", a.ty(), b.ty());
    }

    #[test]
    fn every_dtype_and_shape() {
        for dtype in DType::ALL {
            for (batch, m, k, n) in
                [(1, 1, 1, 1), (1, 5, 7, 3), (2, 3, 0, 4), (3, 0, 2, 2), (0, 2, 2, 2), (2, 1, 9, 17)]
            {
                check(&filled(&[batch, m, k], dtype, 1), &filled(&[batch, k, n], dtype, 2));
            }
        }
        for (m, k, n) in [(64, 64, 128), (130, 300, 257), (1, 300, 200), (200, 300, 1), (3, 5, 3000), (3000, 5, 3)] {
            check(&filled(&[m, k], DType::F32, 3), &filled(&[k, n], DType::F32, 4));
        }
        check(&filled(&[33, 40], DType::I64, 3), &filled(&[40, 1100], DType::I64, 4));
    }

    #[test]
    fn strided_operands() {
        for dtype in [DType::F32, DType::F64, DType::BF16, DType::I8] {
            let (x, y) = (filled(&[2, 40, 30], dtype, 5), filled(&[50, 40], dtype, 6));
            let x = x.with_layout(x.layout().permute(&[0, 2, 1]));
            let y = y.with_layout(y.layout().permute(&[1, 0]).broadcast_to(&[2, 40, 50]).expect("a broadcast"));
            check(&x, &y);
            let reversed = x.layout().slice(2, 39, 40, -1).slice(1, 1, 14, 2);
            check(&x.with_layout(reversed), &y);
        }
    }

    #[test]
    fn panels_do_not_depend_on_threads() {
        let mut a = Array::zeros(&[300, 200], DType::F32);
        for (i, it) in a.as_mut_slice::<f32>().iter_mut().enumerate() {
            *it = (i as f32 * 0.37).sin();
        }
        let b = a.with_layout(Layout::contiguous(&[200, 300]));
        let multiply = || {
            let out = Array::zeros(&[300, 300], DType::F32);
            let product = MatrixProduct::new(DType::F32, a.layout(), b.layout(), out.layout()).expect("fits");
            // SAFETY: the layouts lie inside the arrays, and `out` is fresh.
            unsafe { run(&product, a.as_ptr(), b.as_ptr(), out.as_mut_ptr()) }.expect("a product of one dtype");
            out.to_bytes()
        };
        let parallel = multiply();
        assert!(threads::serial(multiply) == parallel);
    }
}
