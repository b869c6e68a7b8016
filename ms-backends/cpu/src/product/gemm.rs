//! Products of f32 and f64 by the `gemm` crates, and of f16 and bf16 by widening.
//!
//! A large product is cut into column or row panels. The cut depends only on the sizes, so that the
//! bits of the result are the same for every number of threads; they may differ between CPUs.

use super::packing::{columns_at_once, prepare_thread, reserve};
use super::{Matrix, Shared, gather, scatter};
use crate::threads;
use gemm_common::Parallelism;
use ms_core::error::Result;
use ms_core::exec::MatrixProduct;
use ms_core::tensor::{DType, try_filled};

/// Minimum number of multiply-adds of a panel.
const PANEL_WORK: usize = 1 << 20;

/// Maximum number of panels of a product.
const MAX_PANELS: usize = 64;

/// An element type of the `gemm` crates.
pub trait Gemm: Copy + Send + Sync + Default {
    /// Rows and columns of the tiles of the kernels for this CPU.
    fn tile() -> [usize; 2];

    /// `out = a b` for `[m, k, n]` and non-negative strides of `out`.
    ///
    /// # Safety
    /// As [`run`](super::run).
    unsafe fn gemm(sizes: [usize; 3], out: Matrix<*mut Self>, a: Matrix<*const Self>, b: Matrix<*const Self>);
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
                a: Matrix<*const Self>,
                b: Matrix<*const Self>,
            ) {
                use $module as kernels;
                // The kernels prefer column-major results, and a transposed row-major one is.
                let is_turned = out.steps[1] < out.steps[0];
                let (m, n, out, a, b) = match is_turned {
                    true => (n, m, out.transposed(), b.transposed(), a.transposed()),
                    false => (m, n, out, a, b),
                };
                let width = columns_at_once::<Self>();
                for start in (0..n).step_by(width) {
                    let to = out.first.wrapping_offset(start as isize * out.steps[1]);
                    let from = b.first.wrapping_offset(start as isize * b.steps[1]);
                    // SAFETY: as the caller's, for some columns of the product, or of the transposed one.
                    unsafe {
                        kernels::get_gemm_fn()(
                            m, width.min(n - start), k,
                            to, out.steps[1], out.steps[0], false,
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

/// A product of an element type of the crates.
///
/// # Safety
/// As [`run`](super::run).
pub unsafe fn floats<T: Gemm>(product: &MatrixProduct, a: *const u8, b: *const u8, out: *mut u8) -> Result<()> {
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
        // SAFETY: the panel is a part of the product of the caller's contract.
        unsafe { T::gemm([m, k, n], out, a, b) };
        Ok(())
    })
}

/// Products of f16 and bf16: in f32, rounded once.
///
/// # Safety
/// As [`run`](super::run).
pub unsafe fn halves<H: Copy>(
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
