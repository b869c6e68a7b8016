//! Products of f32 and f64 by the `gemm` crates, and of f16 and bf16 by widening.
//!
//! A large product is cut into column or row panels. The cut depends only on the sizes, so that the
//! bits of the result are the same for every number of threads; they may differ between CPUs.

use super::matrices::Matrices;
use super::packing::{columns_at_once, prepare_thread, reserve};
use super::{Matrix, Part, Shared, To, gather, put, scatter};
use crate::threads;
use gemm_common::Parallelism;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use ms_core::error::Result;
use ms_core::ir::ContractionTypes;
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
pub unsafe fn floats<T: Gemm>(product: &Matrices, a: *const u8, b: *const u8, to: To<'_>) -> Result<()> {
    let &Matrices { m, k, n, .. } = product;
    let batch = product.count();
    if batch * m * n == 0 {
        return Ok(());
    }
    let matrices = Shared::new((
        Matrix { first: a.cast::<T>(), steps: product.a },
        Matrix { first: b.cast::<T>(), steps: product.b },
        Matrix { first: to.first.cast::<T>(), steps: product.out },
    ));
    let work = m * n * k.max(1);
    // Panels run along the longer side of the result.
    let by_columns = n >= m;
    let side = if by_columns { n } else { m };
    let panels = (work / PANEL_WORK).clamp(1, MAX_PANELS).min(side.div_ceil(64)).max(1);
    let panel = side.div_ceil(panels).next_multiple_of(16);
    let panels = side.div_ceil(panel);
    if let Some(parts) = to.parts.filter(|it| it.by_rows() && by_columns && panels > 1) {
        for i in 0..batch {
            let at = product.offsets(i);
            let [a, b] = [(a, at[0]), (b, at[1])].map(|(it, at)| it.cast::<T>().wrapping_offset(at).cast());
            let compute = |to: Matrix<*mut u8>| {
                let whole = Matrices::single([m, k, n], product.a, product.b, to.steps);
                // SAFETY: as the caller's, for one of the products.
                unsafe { floats::<T>(&whole, a, b, To { first: to.first, parts: None }) }
            };
            // SAFETY: as the caller's.
            unsafe { parts.run_shared(&Part { product: i, rows: 0..m, columns: 0..n }, compute)? };
        }
        return Ok(());
    }
    let sizes = if by_columns { [m, k, panel.min(n)] } else { [panel.min(m), k, n] };
    reserve::<T>(sizes, batch * panels)?;
    threads::try_for_each(batch * panels, batch * work, |chunk| {
        prepare_thread()?;
        let (mut a, mut b, mut out) = matrices.get();
        let offsets = product.offsets(chunk / panels);
        let start = chunk % panels * panel;
        let len = panel.min(side - start);
        a.first = a.first.wrapping_offset(offsets[0]);
        b.first = b.first.wrapping_offset(offsets[1]);
        out.first = out.first.wrapping_offset(offsets[2]);
        let panel = start..start + len;
        let (rows, columns) = if by_columns { (0..m, panel) } else { (panel, 0..n) };
        let (a, b) = (a.skip(rows.start, 0), b.skip(0, columns.start));
        let sizes = [rows.len(), k, columns.len()];
        let Some(parts) = &to.parts else {
            // SAFETY: the panel is a part of the product of the caller's contract.
            unsafe { T::gemm(sizes, out.skip(rows.start, columns.start), a, b) };
            return Ok(());
        };
        let compute = |to: Matrix<*mut u8>| {
            // SAFETY: as above.
            unsafe { T::gemm(sizes, Matrix { first: to.first.cast(), steps: to.steps }, a, b) };
            Ok(())
        };
        // SAFETY: as the caller's.
        unsafe { parts.run(&Part { product: chunk / panels, rows, columns }, compute) }
    })
}

/// Products whose operands or results are f16 or bf16: in f32, rounded once.
///
/// # Safety
/// As [`run`](super::run), for accumulators of f32.
pub unsafe fn widened(
    types: ContractionTypes,
    product: &Matrices,
    a: *const u8,
    b: *const u8,
    to: To<'_>,
) -> Result<()> {
    let &Matrices { m, k, n, .. } = product;
    if m * n == 0 {
        return Ok(());
    }
    for i in 0..product.count() {
        let at = product.offsets(i);
        // SAFETY: as the caller's; dense copies are row-major and of the right sizes.
        unsafe {
            let a_wide = wide(types.a, a, at[0], [m, k], product.a)?;
            let b_wide = wide(types.b, b, at[1], [k, n], product.b)?;
            let is_wide = types.out == DType::F32;
            let mut dense = try_filled(0f32, if is_wide { 0 } else { m * n })?;
            let given = |first: *const u8, at: isize, steps| (first.cast::<f32>().wrapping_offset(at), steps);
            let (a, a_steps) = a_wide.as_ref().map_or(given(a, at[0], product.a), |it| (it.0.as_ptr(), it.1));
            let (b, b_steps) = b_wide.as_ref().map_or(given(b, at[1], product.b), |it| (it.0.as_ptr(), it.1));
            let (own, steps) = match is_wide {
                true => {
                    let first = to.first.cast::<f32>().wrapping_offset(at[2]).cast();
                    (To { first, parts: to.parts.map(|it| it.from(i)) }, product.out)
                }
                false => (To { first: dense.as_mut_ptr().cast(), parts: None }, [n as isize, 1]),
            };
            let single = Matrices::single([m, k, n], a_steps, b_steps, steps);
            floats::<f32>(&single, a.cast(), b.cast(), own)?;
            match types.out {
                DType::F16 => put(&dense, i, product, to, |it, out: Matrix<*mut f16>| {
                    scatter(it, out.first, n, out.steps, f16::from_f32)
                })?,
                DType::BF16 => put(&dense, i, product, to, |it, out: Matrix<*mut bf16>| {
                    scatter(it, out.first, n, out.steps, bf16::from_f32)
                })?,
                _ => {}
            }
        }
    }
    Ok(())
}

/// A copy of a matrix in f32, with its steps, unless f32 is its type. Rows or columns that are dense stay so.
///
/// # Safety
/// The elements are valid for reads.
unsafe fn wide(
    dtype: DType,
    first: *const u8,
    at: isize,
    sizes: [usize; 2],
    steps: [isize; 2],
) -> Result<Option<(Vec<f32>, [isize; 2])>> {
    // SAFETY: the caller's contract is the same.
    unsafe {
        Ok(match dtype {
            DType::F16 => Some(widened_lines(first.cast::<f16>().wrapping_offset(at), sizes, steps, f16::to_f32)?),
            DType::BF16 => Some(widened_lines(first.cast::<bf16>().wrapping_offset(at), sizes, steps, bf16::to_f32)?),
            _ => None,
        })
    }
}

/// # Safety
/// As [`wide`].
unsafe fn widened_lines<H: Copy>(
    first: *const H,
    [rows, columns]: [usize; 2],
    steps: [isize; 2],
    widen: fn(H) -> f32,
) -> Result<(Vec<f32>, [isize; 2])>
where
    [H]: HalfFloatSliceExt,
{
    let by_columns = steps[0] == 1 && steps[1] != 1;
    let ([lines, len], [across, along], own) = match by_columns {
        true => ([columns, rows], [steps[1], steps[0]], [1, rows as isize]),
        false => ([rows, columns], steps, [columns as isize, 1]),
    };
    if along != 1 {
        // SAFETY: as the caller's.
        return Ok((unsafe { gather(first, [lines, len], [across, along], widen)? }, own));
    }
    let mut out = try_filled(0f32, lines * len)?;
    for (line, out) in out.chunks_exact_mut(len.max(1)).enumerate() {
        // SAFETY: as the caller's.
        let line = unsafe { std::slice::from_raw_parts(first.wrapping_offset(line as isize * across), len) };
        line.convert_to_f32_slice(out);
    }
    Ok((out, own))
}
