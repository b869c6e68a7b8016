//! Systems of linear equations, inverses, determinants.

use super::matrices::{Matrices, Real, check_square, matrices, of, refusal, result, squares, t, write};
use crate::custom::{AnyView, AnyViewMut, BatchedCall, Outputs, Type, Vjp};
use crate::ops;
use crate::reals::by_dtype;
use crate::{Code, Error, Result, Tensor};
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::prelude::Solve;
use faer::{MatRef, Par};
use ms_core::error::{OrRaise, called};
use ms_core::tensor::{AsTensor, Dim, Dims, broadcast_sizes};

/// Returns the type of the solution of `a x = b`, which is the type of `b`.
fn solution(a: &Type, b: &Type) -> Result<Type> {
    let ((n, batch), (rows, _, others)) = (squares(a)?, matrices(b)?);
    let equal = |a: &[Dim], b: &[Dim]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.may_equal(*b));
    if a.dtype != b.dtype {
        return Err(Error::new(Code::DType, format!("dtypes {} and {} differ", a.dtype, b.dtype)));
    }
    if !n.may_equal(rows) || !equal(&batch, &others) {
        return Err(Error::new(Code::Shape, format!("{b} has no right-hand sides of equations {a}")));
    }
    Ok(b.clone())
}

crate::custom_op! {
    /// Solves `a x = b` for matrices of right-hand sides, in equal batches.
    fn solve_general(a: &Tensor, b: &Tensor) -> Tensor;

    const VERSION: u32 = 1;

    fn types(a: &Type, b: &Type) -> Result<Type> {
        solution(a, b)
    }

    fn run(a: AnyView<'_>, b: AnyView<'_>, mut x: AnyViewMut<'_>) -> Result<()> {
        by_dtype!(a.dtype(), by_lu(&a, &b, &mut x))
    }

    // Giles, An extended collection of matrix derivative results for forward and reverse mode automatic
    // differentiation, 2008, 2.3.1.
    fn derivative(it: &Vjp<'_>) -> (Tensor, Tensor) {
        let gb = solve_general(&t(&it.inputs[0]), it.cotangent());
        (-gb.matmul(t(&it.outputs[0])), gb)
    }

    fn batching(lanes: &BatchedCall<'_>) -> Result<Outputs> {
        lanes.apply(lanes.attrs, &lanes.spread_all())
    }
}

fn by_lu<T: Real>(a: &AnyView<'_>, b: &AnyView<'_>, x: &mut AnyViewMut<'_>) -> Result<()> {
    let (a, b, mut x) = (Matrices::<T>::new(a)?, Matrices::<T>::new(b)?, result::<T>(x)?);
    for at in 0..a.count {
        let lu = a.finite(at)?.partial_piv_lu();
        check_diagonal(lu.U(), at)?;
        let found = lu.solve(b.at(at));
        write(&mut x, at, [b.rows, b.columns], |i, j| found[(i, j)]);
    }
    Ok(())
}

fn check_diagonal<T: Real>(matrix: MatRef<'_, T>, at: usize) -> Result<()> {
    match (0..matrix.nrows()).any(|i| matrix[(i, i)] == T::from_f64_impl(0.0)) {
        true => Err(refusal(at, "is singular")),
        false => Ok(()),
    }
}

crate::custom_op! {
    /// Solves `a x = b`, or `aᵀ x = b` if `transposed`, for triangular matrices, in equal batches.
    fn solve_triangle(a: &Tensor, b: &Tensor, lower: bool, transposed: bool) -> Tensor;

    const VERSION: u32 = 1;

    fn types(a: &Type, b: &Type, _lower: bool, _transposed: bool) -> Result<Type> {
        solution(a, b)
    }

    fn run(a: AnyView<'_>, b: AnyView<'_>, lower: bool, transposed: bool, mut x: AnyViewMut<'_>) -> Result<()> {
        by_dtype!(a.dtype(), by_substitution(&a, &b, lower, transposed, &mut x))
    }

    fn derivative(it: &Vjp<'_>, lower: bool, transposed: bool) -> (Tensor, Tensor) {
        let (a, x) = (&it.inputs[0], &it.outputs[0]);
        let gb = solve_triangle(a, it.cotangent(), lower, !transposed);
        let ga = if transposed { -x.matmul(t(&gb)) } else { -gb.matmul(t(x)) };
        (if lower { ga.tril(0) } else { ga.triu(0) }, gb)
    }

    fn batching(lanes: &BatchedCall<'_>, _lower: bool, _transposed: bool) -> Result<Outputs> {
        lanes.apply(lanes.attrs, &lanes.spread_all())
    }
}

fn by_substitution<T: Real>(
    a: &AnyView<'_>,
    b: &AnyView<'_>,
    lower: bool,
    transposed: bool,
    x: &mut AnyViewMut<'_>,
) -> Result<()> {
    let (a, b, mut x) = (Matrices::<T>::new(a)?, Matrices::<T>::new(b)?, result::<T>(x)?);
    for at in 0..a.count {
        let (matrix, mut found) = (a.at(at), b.at(at).to_owned());
        check_diagonal(matrix, at)?;
        let matrix = if transposed { matrix.transpose() } else { matrix };
        match lower != transposed {
            true => solve_lower_triangular_in_place(matrix, found.as_mut(), Par::Seq),
            false => solve_upper_triangular_in_place(matrix, found.as_mut(), Par::Seq),
        }
        write(&mut x, at, [b.rows, b.columns], |i, j| found[(i, j)]);
    }
    Ok(())
}

/// Broadcasts the batch axes of both operands and applies an op to them; `b` may be a vector.
#[track_caller]
fn in_one_batch(name: &'static str, a: &Tensor, b: &Tensor, op: impl Fn(&Tensor, &Tensor) -> Tensor) -> Tensor {
    if b.rank() == 1 {
        return in_one_batch(name, a, &b.expand_dims(-1), op).squeeze(-1);
    }
    let _called = called(name);
    let split = |it: &Tensor| -> Result<(Dims, Dims)> {
        let ty = it.ty();
        let (rows, columns, batch) = matrices(&ty)?;
        Ok((batch, [rows, columns].into_iter().collect()))
    };
    let spread = || {
        let ((mine, matrix), (theirs, sides)) = (split(a)?, split(b)?);
        let batch = broadcast_sizes(&mine, &theirs)?;
        let shape = |last: Dims| -> Dims { batch.iter().copied().chain(last).collect() };
        Ok((shape(matrix), shape(sides)))
    };
    let spread: Result<(Dims, Dims)> = spread();
    let (left, right) = spread.map_err(|it| it.with_op(name)).or_raise();
    op(&ops::broadcast_to(a, left), &ops::broadcast_to(b, right))
}

/// Solves `a x = b` for `x`. `a` is `[.., n, n]`; `b` is `[.., n, k]`, or `[n]` for one right-hand side; `x` has the
/// shape of `b`. Elements are f32 or f64. Batch axes broadcast.
///
/// # Panics
/// Raises [`Code::NoDecomposition`] for a singular matrix, [`Code::Shape`] for shapes that do not match, and
/// [`Code::DType`] for other dtypes.
///
/// ```
/// use ms::{linalg, prelude::*};
/// let x = linalg::solve(tensor![[0.0, 2.0], [1.0, 0.0]], tensor![4.0, 3.0]);
/// assert_eq!(x.to_vec::<f32>(), [3.0, 2.0]);
/// ```
#[track_caller]
pub fn solve(a: impl AsTensor, b: impl AsTensor) -> Tensor {
    in_one_batch("solve", &a.as_tensor(), &b.as_tensor(), |a, b| solve_general(a, b))
}

/// Solves `a x = b`, or `aᵀ x = b` if `transposed`, with the lower or the upper triangle of `a`. The other triangle is
/// not read. Shapes are as in [`solve`].
///
/// # Panics
/// Raises the errors of [`solve`], with [`Code::NoDecomposition`] for a zero on the diagonal.
///
/// ```
/// use ms::{linalg, prelude::*};
/// let x = linalg::solve_triangular(tensor![[2.0, 9.0], [1.0, 4.0]], tensor![4.0, 10.0], true, false);
/// assert_eq!(x.to_vec::<f32>(), [2.0, 2.0]);
/// ```
#[track_caller]
pub fn solve_triangular(a: impl AsTensor, b: impl AsTensor, lower: bool, transposed: bool) -> Tensor {
    let op = |a: &Tensor, b: &Tensor| solve_triangle(a, b, lower, transposed);
    in_one_batch("solve_triangular", &a.as_tensor(), &b.as_tensor(), op)
}

/// Inverts matrices `[.., n, n]`, f32 or f64.
///
/// # Panics
/// Raises the errors of [`solve`].
///
/// ```
/// use ms::{linalg, prelude::*};
/// assert_eq!(linalg::inv(tensor![[0.0, 2.0], [4.0, 0.0]]).to_vec::<f32>(), [0.0, 0.25, 0.5, 0.0]);
/// ```
#[track_caller]
pub fn inv(x: impl AsTensor) -> Tensor {
    let x = x.as_tensor();
    let _called = called("inv");
    check_square("inv", &x);
    solve(&*x, ops::eye_of(x.dim(-1), x.dim(-1), 0, x.dtype()))
}

/// Solves linear least squares: `x` minimises the norms of the columns of `a x - b`. `a` is `[.., m, n]` with linearly
/// independent columns. `b` is `[.., m, k]`, or `[m]`, and `x` is `[.., n, k]`, or `[n]`. Elements are f32 or f64.
/// Batch axes broadcast.
///
/// # Panics
/// Raises [`Code::Shape`] for fewer rows than columns, and for symbolic sizes for which this is unknown. Raises the
/// errors of [`solve`], with [`Code::NoDecomposition`] for columns that are exactly linearly dependent.
///
/// ```
/// use ms::{linalg, prelude::*};
/// // The line through (0, 1), (1, 3), (2, 5).
/// let x = linalg::lstsq(tensor![[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], tensor![1.0, 3.0, 5.0]);
/// assert!((x - tensor![1.0, 2.0]).abs().max(()).item::<f32>() < 1e-5);
/// ```
#[track_caller]
pub fn lstsq(a: impl AsTensor, b: impl AsTensor) -> Tensor {
    let _called = called("lstsq");
    let (a, b) = (a.as_tensor(), b.as_tensor());
    let (m, n, _) = matrices(&a.ty()).map_err(|it| it.with_op("lstsq")).or_raise();
    if m.min(n) != n {
        let error = Error::new(Code::Shape, format!("{} has not as many rows as columns at least", a.ty()));
        return Err(error.with_op("lstsq")).or_raise();
    }
    let (q, r) = super::qr(&a);
    solve_triangular(r, t(&q).matmul(&*b), false, false)
}

crate::custom_op! {
    /// Computes the sign of the determinant, the logarithm of its absolute value, and the determinant.
    fn determinants(x: &Tensor) -> (Tensor, Tensor, Tensor);

    const VERSION: u32 = 1;

    fn types(x: &Type) -> Result<[Type; 3]> {
        let (_, batch) = squares(x)?;
        let ty = of(x, &batch, &[]);
        Ok([ty.clone(), ty.clone(), ty])
    }

    fn run(x: AnyView<'_>, mut sign: AnyViewMut<'_>, mut log: AnyViewMut<'_>, mut det: AnyViewMut<'_>) -> Result<()> {
        by_dtype!(x.dtype(), by_pivots(&x, &mut sign, &mut log, &mut det))
    }

    // Jacobi's formula; Giles, 2008, 2.2.4.
    fn derivative(it: &Vjp<'_>) -> Option<Tensor> {
        let by_log = it.cotangents[1].clone();
        let by_det = it.cotangents[2].as_ref().map(|g| g * &it.outputs[2]);
        let g = match (by_log, by_det) {
            (Some(a), Some(b)) => a + b,
            (a, b) => a.or(b)?,
        };
        Some(t(&inv(&it.inputs[0])) * g.expand_dims([-2, -1]))
    }

    fn batching(lanes: &BatchedCall<'_>) -> Result<Outputs> {
        lanes.apply(lanes.attrs, &lanes.spread_all())
    }
}

fn by_pivots<T: Real>(
    x: &AnyView<'_>,
    sign: &mut AnyViewMut<'_>,
    log: &mut AnyViewMut<'_>,
    det: &mut AnyViewMut<'_>,
) -> Result<()> {
    let x = Matrices::<T>::new(x)?;
    let (mut sign, mut log, mut det) = (result::<T>(sign)?, result::<T>(log)?, result::<T>(det)?);
    if x.rows == 0 {
        // The determinant of an empty matrix is the empty product, 1. Its logarithm is zero, which results already
        // hold.
        sign.fill(T::from_f64_impl(1.0));
        det.fill(T::from_f64_impl(1.0));
    }
    for at in 0..x.count {
        let lu = x.finite(at)?.partial_piv_lu();
        let pivots: Vec<f64> = (0..x.rows).map(|i| lu.U()[(i, i)].to_scalar().as_f64()).collect();
        let odd = is_odd(lu.P().arrays().0) != (pivots.iter().filter(|it| **it < 0.0).count() % 2 == 1);
        let unit = if pivots.contains(&0.0) {
            0.0
        } else if odd {
            -1.0
        } else {
            1.0
        };
        let size: f64 = pivots.iter().map(|it| it.abs()).product();
        sign[at] = T::from_f64_impl(unit);
        log[at] = T::from_f64_impl(pivots.iter().map(|it| it.abs().ln()).sum());
        det[at] = T::from_f64_impl(if unit == 0.0 { 0.0 } else { unit * size });
    }
    Ok(())
}

/// Returns whether a permutation is odd, that is, has an odd number of cycles of even length.
fn is_odd(permutation: &[usize]) -> bool {
    let mut seen = vec![false; permutation.len()];
    let mut odd = false;
    for start in 0..permutation.len() {
        let (mut at, mut length) = (start, 0usize);
        while !std::mem::replace(&mut seen[at], true) {
            (at, length) = (permutation[at], length + 1);
        }
        odd ^= length > 0 && length % 2 == 0;
    }
    odd
}

/// Computes the determinants `[..]` of matrices `[.., n, n]`, f32 or f64. The derivative needs the inverse: it raises
/// [`Code::NoDecomposition`] for a singular matrix.
///
/// # Panics
/// Raises [`Code::NoDecomposition`] for elements that are not finite, [`Code::Shape`] unless matrices are square, and
/// [`Code::DType`] for other dtypes.
///
/// ```
/// use ms::{linalg, prelude::*};
/// assert_eq!(linalg::det(tensor![[0.0, 2.0], [3.0, 0.0]]).item::<f32>(), -6.0);
/// ```
#[track_caller]
pub fn det(x: impl AsTensor) -> Tensor {
    let _called = called("det");
    determinants(&x.as_tensor()).2
}

/// Computes the signs of the determinants of matrices `[.., n, n]`, and the logarithms of their absolute values, which
/// do not overflow. Each result is `[..]`, f32 or f64. A singular matrix has the sign 0 and the logarithm `-inf`.
///
/// # Panics
/// Raises the errors of [`det`].
///
/// ```
/// use ms::{linalg, prelude::*};
/// let (sign, log) = linalg::slogdet(tensor![[0.0, 1.0], [1.0, 0.0]]);
/// assert_eq!((sign.item::<f32>(), log.item::<f32>()), (-1.0, 0.0));
/// ```
#[track_caller]
pub fn slogdet(x: impl AsTensor) -> (Tensor, Tensor) {
    let _called = called("slogdet");
    let (sign, log, _) = determinants(&x.as_tensor());
    (sign, log)
}
