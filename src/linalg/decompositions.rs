//! Matrix decompositions: Cholesky, QR, singular values, eigenvalues of symmetric matrices.

use super::matrices::{
    Matrices, Real, check_square, matrices, of, refusal, result, scaled_columns, squares, symmetric, t, write,
};
use super::systems::solve_triangular;
use crate::custom::{AnyView, AnyViewMut, BatchedCall, Outputs, Type, Vjp};
use crate::ops;
use crate::reals::by_dtype;
use crate::{Code, Error, Result, Tensor};
use faer::Side;
use ms_core::error::{OrRaise, called};
use ms_core::tensor::{AsTensor, Ellipsis};

crate::custom_op! {
    /// Computes Cholesky factors. Reads only the lower triangle.
    fn lower_cholesky(x: &Tensor) -> Tensor;

    const VERSION: u32 = 1;

    fn types(x: &Type) -> Result<Type> {
        squares(x).map(|_| x.clone())
    }

    fn run(x: AnyView<'_>, mut l: AnyViewMut<'_>) -> Result<()> {
        by_dtype!(x.dtype(), factor(&x, &mut l))
    }

    // Murray, Differentiation of the Cholesky decomposition, 2016, (8).
    fn derivative(it: &Vjp<'_>) -> Tensor {
        let l = &it.outputs[0];
        let product = t(l).matmul(it.cotangent().tril(0));
        let half = (product.tril(0) + product.tril(-1)) * 0.5;
        let left = solve_triangular(l, half, true, true);
        symmetric(&solve_triangular(l, t(&left), true, true))
    }

    fn batching(lanes: &BatchedCall<'_>) -> Result<Outputs> {
        lanes.apply(lanes.attrs, &lanes.spread_all())
    }
}

fn factor<T: Real>(x: &AnyView<'_>, l: &mut AnyViewMut<'_>) -> Result<()> {
    let (x, mut l) = (Matrices::<T>::new(x)?, result::<T>(l)?);
    for at in 0..x.count {
        let found = x.finite(at)?.llt(Side::Lower).map_err(|_| refusal(at, "is not positive definite"))?;
        let zero = T::from_f64_impl(0.0);
        write(&mut l, at, [x.rows, x.rows], |i, j| if i >= j { found.L()[(i, j)] } else { zero });
    }
    Ok(())
}

/// Computes the Cholesky factor: the lower triangular `l`, with a positive diagonal, such that `l lᵀ` is `x`. Matrices
/// are `[.., n, n]`, f32 or f64.
///
/// `x` should be symmetric; otherwise the mean of `x` and its transpose is decomposed.
///
/// # Panics
/// Raises [`Code::NoDecomposition`](crate::Code) for a matrix that is not positive definite,
/// [`Code::Shape`](crate::Code) unless matrices are square, and [`Code::DType`](crate::Code) for other dtypes.
///
/// ```
/// use ms::{linalg, prelude::*};
/// assert_eq!(linalg::cholesky(tensor![[4.0, 2.0], [2.0, 5.0]]).to_vec::<f32>(), [2.0, 0.0, 1.0, 2.0]);
/// ```
#[track_caller]
pub fn cholesky(x: impl AsTensor) -> Tensor {
    let _called = called("cholesky");
    let x = x.as_tensor();
    check_square("cholesky", &x);
    lower_cholesky(&symmetric(&x))
}

crate::custom_op! {
    /// Computes the QR decomposition `x = q r` of matrices `[.., m, n]`, f32 or f64. `q` is `[.., m, k]` with
    /// orthonormal columns, and `r` is `[.., k, n]` and upper triangular, with `k = min(m, n)`. The signs on the
    /// diagonal of `r` are unspecified.
    ///
    /// The derivative raises [`Code::NoDecomposition`](crate::Code) unless the first `k` columns are linearly
    /// independent. It raises [`Code::SymbolicShape`](crate::Code) unless it is known which of `m` and `n` is smaller.
    ///
    /// # Panics
    /// Raises [`Code::NoDecomposition`](crate::Code) for elements that are not finite, [`Code::Shape`](crate::Code) for
    /// fewer than two axes, and [`Code::DType`](crate::Code) for other dtypes.
    ///
    /// ```
    /// use ms::{linalg, prelude::*};
    /// let (q, r) = linalg::qr(&tensor![[0.0, 2.0], [3.0, 4.0]]);
    /// assert!((q.matmul(&r) - tensor![[0.0, 2.0], [3.0, 4.0]]).abs().max(()).item::<f32>() < 1e-6);
    /// ```
    pub fn qr(x: &Tensor) -> (Tensor, Tensor);

    const VERSION: u32 = 1;

    fn types(x: &Type) -> Result<[Type; 2]> {
        let (m, n, batch) = matrices(x)?;
        let k = m.min(n);
        Ok([of(x, &batch, &[m, k]), of(x, &batch, &[k, n])])
    }

    fn run(x: AnyView<'_>, mut q: AnyViewMut<'_>, mut r: AnyViewMut<'_>) -> Result<()> {
        by_dtype!(x.dtype(), orthogonal(&x, &mut q, &mut r))
    }

    // Walter, Lehmann, Lamour, On evaluating higher-order derivatives of the QR decomposition, 2012. For more columns
    // than rows: Roberts, Roberts, QR and LQ decomposition matrix backpropagation algorithms, 2020.
    fn derivative(it: &Vjp<'_>) -> Option<Tensor> {
        let (x, q, r) = (&it.inputs[0], &it.outputs[0], &it.outputs[1]);
        let gq = it.cotangents[0].clone().unwrap_or_else(|| ops::zeros_like(q));
        let gr = it.cotangents[1].clone().unwrap_or_else(|| ops::zeros_like(r)).triu(0);
        let (m, n) = (x.dim(-2), x.dim(-1));
        if m.min(n) == n {
            return Some(of_tall(q, r, &gq, &gr));
        }
        let Some(m) = m.as_const().filter(|_| m.min(n) == m) else {
            let message = format!("the gradient of `qr` needs to know which of {m} and {n} is less");
            return Err(Error::new(Code::SymbolicShape, message)).or_raise();
        };
        let m = m as isize;
        let split = |it: &Tensor| [it.i((Ellipsis, ..m)), it.i((Ellipsis, m..))];
        let ([_, right], [first, _], [g_first, g_rest]) = (split(x), split(r), split(&gr));
        let left = of_tall(q, &first, &(gq + right.matmul(t(&g_rest))), &g_first);
        Some(ops::concat(&[left, q.matmul(g_rest)], -1))
    }

    fn batching(lanes: &BatchedCall<'_>) -> Result<Outputs> {
        lanes.apply(lanes.attrs, &lanes.spread_all())
    }
}

/// Computes the gradient of a QR decomposition with no more columns than rows.
#[track_caller]
fn of_tall(q: &Tensor, r: &Tensor, gq: &Tensor, gr: &Tensor) -> Tensor {
    let product = r.matmul(t(gr)) - t(gq).matmul(q);
    let mirrored = product.tril(0) + t(&product.tril(-1));
    t(&solve_triangular(r, t(&(gq + q.matmul(mirrored))), false, false))
}

fn orthogonal<T: Real>(x: &AnyView<'_>, q: &mut AnyViewMut<'_>, r: &mut AnyViewMut<'_>) -> Result<()> {
    let (x, mut q, mut r) = (Matrices::<T>::new(x)?, result::<T>(q)?, result::<T>(r)?);
    let k = x.rows.min(x.columns);
    for at in 0..x.count {
        let found = x.finite(at)?.qr();
        let basis = found.compute_thin_Q();
        write(&mut q, at, [x.rows, k], |i, j| basis[(i, j)]);
        let zero = T::from_f64_impl(0.0);
        write(&mut r, at, [k, x.columns], |i, j| if i <= j { found.thin_R()[(i, j)] } else { zero });
    }
    Ok(())
}

crate::custom_op! {
    /// Computes the singular value decomposition `x = u diag(s) vt` of matrices `[.., m, n]`, f32 or f64. `u` is
    /// `[.., m, k]`, `s` is `[.., k]` and descending, and `vt` is `[.., k, n]`, with `k = min(m, n)`. The columns of
    /// `u` and the rows of `vt` are orthonormal; their signs are unspecified.
    ///
    /// Singular vectors of equal singular values have no derivative: their gradients are NaN or infinite. For matrices
    /// that are not square, the same holds where a singular value is zero. Gradients of singular values alone are
    /// always finite.
    ///
    /// # Panics
    /// Raises [`Code::NoDecomposition`](crate::Code) for elements that are not finite, [`Code::Shape`](crate::Code) for
    /// fewer than two axes, and [`Code::DType`](crate::Code) for other dtypes.
    ///
    /// ```
    /// use ms::{linalg, prelude::*};
    /// let (_, s, _) = linalg::svd(&tensor![[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]]);
    /// assert!((s - tensor![3.0, 2.0]).abs().max(()).item::<f32>() < 1e-6);
    /// ```
    pub fn svd(x: &Tensor) -> (Tensor, Tensor, Tensor);

    const VERSION: u32 = 1;

    fn types(x: &Type) -> Result<[Type; 3]> {
        let (m, n, batch) = matrices(x)?;
        let k = m.min(n);
        Ok([of(x, &batch, &[m, k]), of(x, &batch, &[k]), of(x, &batch, &[k, n])])
    }

    fn run(x: AnyView<'_>, mut u: AnyViewMut<'_>, mut s: AnyViewMut<'_>, mut vt: AnyViewMut<'_>) -> Result<()> {
        by_dtype!(x.dtype(), singular(&x, &mut u, &mut s, &mut vt))
    }

    // Townsend, Differentiating the singular value decomposition, 2016, (21); Giles, 2008, 3.2 for the values alone.
    fn derivative(it: &Vjp<'_>) -> Option<Tensor> {
        let (u, s, vt) = (&it.outputs[0], &it.outputs[1], &it.outputs[2]);
        let [gu, gs, gvt] = [&it.cotangents[0], &it.cotangents[1], &it.cotangents[2]];
        let mut gradient = gs.as_ref().map(|gs| scaled_columns(u, gs).matmul(vt));
        let mut add = |term: Tensor| {
            gradient = Some(match gradient.take() {
                Some(sum) => sum + term,
                None => term,
            });
        };
        let factors = inverse_differences(&s.square());
        let beyond = |basis: &Tensor, g: &Tensor| g - basis.matmul(t(basis).matmul(g));
        if let Some(gu) = gu {
            let product = t(u).matmul(gu);
            add(u.matmul(scaled_columns(&(&factors * (&product - t(&product))), s)).matmul(vt));
            if u.dim(-2) != u.dim(-1) {
                add(scaled_columns(&beyond(u, gu), &(1.0 / s)).matmul(vt));
            }
        }
        if let Some(gvt) = gvt {
            let (v, gv) = (t(vt), t(gvt));
            let product = vt.matmul(&gv);
            add(scaled_columns(u, s).matmul(&factors * (&product - t(&product))).matmul(vt));
            if vt.dim(-2) != vt.dim(-1) {
                add(scaled_columns(u, &(1.0 / s)).matmul(t(&beyond(&v, &gv))));
            }
        }
        gradient
    }

    fn batching(lanes: &BatchedCall<'_>) -> Result<Outputs> {
        lanes.apply(lanes.attrs, &lanes.spread_all())
    }
}

/// Returns `1 / (x[j] - x[i])` in row `i` and column `j`, and zeros on the diagonal.
#[track_caller]
fn inverse_differences(x: &Tensor) -> Tensor {
    let eye = ops::eye_of(x.dim(-1), x.dim(-1), 0, x.dtype());
    (1.0 - &eye) / (x.expand_dims(-2) - x.expand_dims(-1) + eye)
}

fn singular<T: Real>(
    x: &AnyView<'_>,
    u: &mut AnyViewMut<'_>,
    s: &mut AnyViewMut<'_>,
    vt: &mut AnyViewMut<'_>,
) -> Result<()> {
    let (x, mut u, mut s, mut vt) = (Matrices::<T>::new(x)?, result::<T>(u)?, result::<T>(s)?, result::<T>(vt)?);
    let k = x.rows.min(x.columns);
    for at in 0..x.count {
        let found = x.finite(at)?.thin_svd().map_err(|_| refusal(at, "has singular values that were not found"))?;
        write(&mut u, at, [x.rows, k], |i, j| found.U()[(i, j)]);
        write(&mut s, at, [1, k], |_, j| found.S()[j]);
        write(&mut vt, at, [k, x.columns], |i, j| found.V()[(j, i)]);
    }
    Ok(())
}

crate::custom_op! {
    /// Computes eigenvalues and eigenvectors. Reads only the lower triangle.
    fn lower_eigh(x: &Tensor) -> (Tensor, Tensor);

    const VERSION: u32 = 1;

    fn types(x: &Type) -> Result<[Type; 2]> {
        let (n, batch) = squares(x)?;
        Ok([of(x, &batch, &[n]), x.clone()])
    }

    fn run(x: AnyView<'_>, mut w: AnyViewMut<'_>, mut v: AnyViewMut<'_>) -> Result<()> {
        by_dtype!(x.dtype(), eigen(&x, &mut w, &mut v))
    }

    // Giles, An extended collection of matrix derivative results for forward and reverse mode automatic
    // differentiation, 2008, 3.1.
    fn derivative(it: &Vjp<'_>) -> Option<Tensor> {
        let (w, v) = (&it.outputs[0], &it.outputs[1]);
        let by_values = it.cotangents[0].as_ref().map(|g| scaled_columns(v, g).matmul(t(v)));
        let by_vectors = it.cotangents[1].as_ref().map(|g| {
            v.matmul(inverse_differences(w) * t(v).matmul(g)).matmul(t(v))
        });
        let gradient = match (by_values, by_vectors) {
            (Some(a), Some(b)) => a + b,
            (a, b) => a.or(b)?,
        };
        Some(symmetric(&gradient))
    }

    fn batching(lanes: &BatchedCall<'_>) -> Result<Outputs> {
        lanes.apply(lanes.attrs, &lanes.spread_all())
    }
}

fn eigen<T: Real>(x: &AnyView<'_>, w: &mut AnyViewMut<'_>, v: &mut AnyViewMut<'_>) -> Result<()> {
    let (x, mut w, mut v) = (Matrices::<T>::new(x)?, result::<T>(w)?, result::<T>(v)?);
    for at in 0..x.count {
        let found = x.finite(at)?.self_adjoint_eigen(Side::Lower);
        let found = found.map_err(|_| refusal(at, "has eigenvalues that were not found"))?;
        write(&mut w, at, [1, x.rows], |_, j| found.S()[j]);
        write(&mut v, at, [x.rows, x.rows], |i, j| found.U()[(i, j)]);
    }
    Ok(())
}

/// Computes the eigendecomposition `x = v diag(w) vᵀ` of symmetric matrices `[.., n, n]`, f32 or f64. The eigenvalues
/// `w` are `[.., n]` and ascending. The columns of `v`, `[.., n, n]`, are orthonormal eigenvectors; their signs are
/// unspecified.
///
/// `x` should be symmetric; otherwise the mean of `x` and its transpose is decomposed. Eigenvectors of equal
/// eigenvalues have no derivative: their gradients are NaN or infinite. Gradients of eigenvalues alone are always
/// finite.
///
/// # Panics
/// Raises [`Code::NoDecomposition`](crate::Code) for elements that are not finite, [`Code::Shape`](crate::Code) unless
/// matrices are square, and [`Code::DType`](crate::Code) for other dtypes.
///
/// ```
/// use ms::{linalg, prelude::*};
/// let (w, _) = linalg::eigh(tensor![[2.0, 1.0], [1.0, 2.0]]);
/// assert!((w - tensor![1.0, 3.0]).abs().max(()).item::<f32>() < 1e-6);
/// ```
#[track_caller]
pub fn eigh(x: impl AsTensor) -> (Tensor, Tensor) {
    let _called = called("eigh");
    let x = x.as_tensor();
    check_square("eigh", &x);
    lower_eigh(&symmetric(&x))
}
