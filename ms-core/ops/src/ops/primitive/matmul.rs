//! `matmul`: matrix products.

use crate::ops::core::axis::refusal;
use crate::ops::core::host::{integers, narrow_floats, wide_floats};
use crate::ops::core::rules::broadcast_dims;
use crate::ops::{
    Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules, broadcast_to, cast, reshape,
    transpose,
};
use crate::tensor::{Array, AsTensor, Attrs, DType, Dim, Dims, OpInfo, Scalar, Shape, Tensor, Type};
use crate::tensor::{apply1, filled, promote, refused};
use ms_ir::ContractionRanks;
use ms_ir::error::{Code, Error};
use smallvec::smallvec;

/// Multiplies `[.., m, k]` by `[.., k, n]`, with equal leading dimensions and dtypes, to `[.., m, n]`.
///
/// Floats are accumulated in at least f32, in a fixed order in strict precision (`docs/numerics.md`). Integers wrap,
/// and bools are combined by "and" and "or".
pub static MATMUL: OpDef = OpDef {
    info: OpInfo { number: 400, name: "matmul", attrs: &[] },
    infer: |_, inputs| {
        let (a, b) = (inputs[0], inputs[1]);
        if a.dtype != b.dtype {
            return Err(Error::new(Code::DType, format!("dtypes {} and {} differ", a.dtype, b.dtype)));
        }
        let rank = a.rank();
        if rank < 2 || b.rank() != rank || !a.dims[..rank - 2].iter().zip(&b.dims).all(|(a, b)| a.may_equal(*b)) {
            return Err(Error::new(Code::Shape, format!("{a} and {b} are no stacks of matrices of one size")));
        }
        if !a.dims[rank - 1].may_equal(b.dims[rank - 2]) {
            let message = format!("{a} has {} columns but {b} has {} rows", a.dims[rank - 1], b.dims[rank - 2]);
            return Err(Error::new(Code::Shape, message));
        }
        let mut dims = a.dims.clone();
        dims[rank - 1] = b.dims[rank - 1];
        Ok(smallvec![Type::new(a.dtype, dims)])
    },
    eval: |_, inputs| {
        let (a, b) = (inputs[0], inputs[1]);
        let rank = a.layout().rank();
        let mut shape: Shape = a.shape().into();
        let (m, k, n) = (shape[rank - 2], shape[rank - 1], b.shape()[rank - 1]);
        shape[rank - 1] = n;
        Ok(smallvec![products(a, b, &shape, [m, k, n])?])
    },
    effects: Effects::NONE,
    lowering: Lowering::Contraction(|_, rank| ContractionRanks { batch: rank - 2, k: 1 }),
    samples: || {
        let of =
            |a: &[usize], b: &[usize]| Sample::new([SampleInput::f32(a, -2.0, 2.0), SampleInput::f32(b, -2.0, 2.0)]);
        vec![of(&[3, 5], &[5, 4]), of(&[2, 3, 5], &[2, 5, 4]), of(&[1, 1], &[1, 1])]
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let (g, a, b) = (it.cotangent(), &it.inputs[0], &it.inputs[1]);
            smallvec![
                it.needs[0].then(|| gradient_of(a, g, &transpose(b, -2, -1))),
                it.needs[1].then(|| gradient_of(b, &transpose(a, -2, -1), g)),
            ]
        }),
        finite_derivatives: true,
        batching: Batching::Derived,
        body: None,
    },
};

/// Computes matrix products of sizes `[m, k, n]`, one after the other, as a result of this shape.
pub(super) fn products(a: &Array, b: &Array, shape: &[usize], [m, k, n]: [usize; 3]) -> Result<Array, Error> {
    let (numel, dtype) = (shape.iter().product(), a.dtype());
    if a.numel() == 0 || b.numel() == 0 {
        return Ok(Array::zeros(shape, dtype));
    }
    if dtype.is_float() {
        let (a, b, mut sums) = (wide_floats(a)?, wide_floats(b)?, filled(0.0, numel));
        sum_products(&mut sums, &a, &b, [m, k, n], |sum, a, b| sum + a * b);
        return Ok(narrow_floats(&sums, shape, dtype));
    }
    let (a, b, mut sums) = (integers(a)?, integers(b)?, filled(0, numel));
    // Sums that wrap in 64 bits have the low bits of narrower sums.
    let add: fn(i64, i64, i64) -> i64 = match dtype {
        DType::Bool => |sum, a, b| sum | (a & b),
        _ => |sum, a, b| sum.wrapping_add(a.wrapping_mul(b)),
    };
    sum_products(&mut sums, &a, &b, [m, k, n], add);
    Ok(Array::from_scalars(shape, dtype, &mut |at| Scalar::Int(sums[at])))
}

/// Adds the products of each row of `a` and each column of `b` to the zeros in `sums`, in the order of the terms.
fn sum_products<T: Copy>(sums: &mut [T], a: &[T], b: &[T], [m, k, n]: [usize; 3], add: impl Fn(T, T, T) -> T) {
    for (at, row) in sums.chunks_mut(n).enumerate() {
        let (left, right) = (&a[at * k..][..k], &b[at / m * k * n..][..k * n]);
        for (&a, b) in left.iter().zip(right.chunks(n)) {
            for (sum, &b) in row.iter_mut().zip(b) {
                *sum = add(*sum, a, b);
            }
        }
    }
}

/// Returns the product of `a` and `b`, which is the gradient of `x`.
///
/// If `x` is a transposed view, the product is computed as `(bᵀ aᵀ)ᵀ`. The gradient of the underlying array is then
/// row-major. Graphs have no layouts; there, lowering decides.
#[track_caller]
fn gradient_of(x: &Tensor, a: &Tensor, b: &Tensor) -> Tensor {
    let is_transposed = x.as_array().is_some_and(|it| {
        let strides = it.layout().strides();
        let [.., row, column] = strides[..] else { return false };
        row == 1 && column > 1
    });
    if is_transposed {
        return transpose(product_of(&transpose(b, -2, -1), &transpose(a, -2, -1)), -2, -1);
    }
    product_of(a, b)
}

#[track_caller]
fn product_of(a: &Tensor, b: &Tensor) -> Tensor {
    apply1(MATMUL.op(), &Attrs::none(), &[a, b])
}

/// Returns the matrix product by NumPy's rules: leading dimensions broadcast. A one-dimensional operand is a row on the
/// left or a column on the right, and its axis is removed from the result. Dtypes promote. In strict precision each
/// element is summed in the order of the inner axis, with the same bits on every machine (`docs/numerics.md`).
///
/// # Panics
/// Raises [`Code::Shape`] when the inner sizes differ, an operand has rank 0, or leading dimensions do not broadcast.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::matmul(tensor![[1., 2.], [3., 4.]], tensor![1., 10.]).to_vec::<f32>(), [21., 43.]);
/// ```
#[track_caller]
pub fn matmul(a: impl AsTensor, b: impl AsTensor) -> Tensor {
    multiply(&a.as_tensor(), &b.as_tensor())
}

#[track_caller]
fn multiply(a: &Tensor, b: &Tensor) -> Tensor {
    propagate_poison!(a, b);
    let refusal = |message: String| refusal("matmul", &[a, b], Code::Shape, message);
    if a.rank() == 0 || b.rank() == 0 {
        return refused(refusal("a zero-dimensional operand; multiply with `*`".into()));
    }
    let dtype = promote(a.dtype(), b.dtype());
    let (row, column) = (a.rank() == 1, b.rank() == 1);
    let mut left = cast(a, dtype);
    let mut right = cast(b, dtype);
    if row {
        left = reshape(&left, (1usize, left.dims()[0]));
    }
    if column {
        right = reshape(&right, (right.dims()[0], 1usize));
    }
    let (inner, rows) = (left.dim(-1), right.dim(-2));
    if !inner.may_equal(rows) {
        return refused(refusal(format!(
            "the last axis of the left operand has size {inner}, its partner on the right {rows}"
        )));
    }
    let out = or_poison!(stacked(&left, &right).map_err(|it| crate::ops::axis::named("matmul", &[a, b], it)));
    let mut shape = out.dims();
    if column {
        shape.pop();
    }
    if row {
        shape.remove(shape.len() - 1 - usize::from(!column));
    }
    reshape(&out, shape)
}

/// Multiplies stacks of matrices whose leading dimensions broadcast.
#[track_caller]
fn stacked(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let (a_dims, b_dims) = (a.dims(), b.dims());
    let (batch_a, rows) = a_dims.split_at(a.rank() - 2);
    let (batch_b, columns) = b_dims.split_at(b.rank() - 2);
    if batch_b.is_empty() && !batch_a.is_empty() {
        // A matrix shared by the whole stack gives a single product, and so does its gradient.
        let tall = reshape(a, [batch_a.iter().copied().product::<Dim>() * rows[0], rows[1]]);
        let mut shape = a_dims.clone();
        shape[batch_a.len() + 1] = columns[1];
        return Ok(reshape(product_of(&tall, b), shape));
    }
    let batch = broadcast_dims(batch_a, batch_b)?;
    let full = |x: &Tensor, matrix: &[Dim]| {
        let shape: Dims = batch.iter().chain(matrix).copied().collect();
        broadcast_to(x, shape)
    };
    Ok(product_of(&full(a, rows), &full(b, columns)))
}

impl Tensor {
    /// Returns the matrix product by NumPy's rules; see [`matmul`].
    #[track_caller]
    pub fn matmul(&self, other: impl AsTensor) -> Self {
        matmul(self, other)
    }
}
