//! Dense layers.

use crate::ops::core::axis::refusal;
use crate::ops::core::composite::first_result;
use crate::ops::core::rules::{check_dims, to_operand};
use crate::ops::core::wide::Inner;
use crate::ops::{Batching, Cotangents, Derivative, Sample, SampleInput, cast, matmul, reshape, transpose};
use crate::tensor::{AsTensor, Attrs, DType, Dim, Outputs, Tensor};
use ms_ir::error::{Code, OrRaise, called, raise};
use smallvec::smallvec;

composite! {
    /// Computes `x Wᵀ + b` for the operands `x` `[.., in]`, `W` `[out, in]`, and an optional `b` `[out]`.
    DENSE = 830: "dense", &[];
    body product;
    derivative Derivative::Rule(|it| gradients(it.cotangent(), it.inputs, it.needs)), finite: true;
    // The product accumulates in f32. A cast of the weight would take longer than a product with few rows.
    inner Inner::OperandDtype;
    batching Batching::Partial(|it| it.only_first().then(|| it.apply(it.attrs, it.inputs)));
    samples || {
        let of = |dtype, shapes: &[&[usize]]| {
            Sample::new(shapes.iter().map(|it| SampleInput::of(dtype, it, -2.0, 2.0)))
        };
        let dtypes = [DType::F32, DType::F64, DType::F16, DType::BF16].map(|it| of(it, &[&[3, 5], &[4, 5], &[4]]));
        let others = [of(DType::F32, &[&[2, 3, 5], &[4, 5]]), of(DType::F32, &[&[5], &[2, 5], &[2]])];
        dtypes.into_iter().chain(others).collect()
    };
}

fn product(_: &Attrs, inputs: &[&Tensor]) -> Outputs {
    let [x, weight, bias @ ..] = inputs else { unreachable!("a bias is the only operand that may lack") };
    let &[outputs, _] = &weight.dims()[..] else {
        let message = format!("the weight is {}, but has to have outputs and inputs", weight.ty());
        raise(refusal("dense", &[x, weight], Code::Shape, message));
    };
    let out = matmul(*x, transpose(*weight, 0, 1));
    match bias.first() {
        Some(&bias) => {
            check_dims("dense", "bias", bias, &[outputs]).or_raise();
            smallvec![out + bias]
        }
        None => smallvec![out],
    }
}

/// Returns the gradients that are needed of the operands `x`, `W`, and `b` if there is one.
pub(super) fn gradients(g: &Tensor, operands: &[Tensor], needs: &[bool]) -> Cotangents {
    let (x, weight) = (&operands[0], &operands[1]);
    let to_x = needs[0].then(|| cast(matmul(g, weight), x.dtype()));
    let to_weight = needs[1].then(|| cast(matmul(transpose(rows(g), 0, 1), rows(x)), weight.dtype()));
    let to_bias = |bias: &Tensor| needs[2].then(|| to_operand(g, bias));
    [to_x, to_weight].into_iter().chain(operands.get(2).map(to_bias)).collect()
}

/// Reshapes `[.., features]` to `[rows, features]`.
fn rows(x: &Tensor) -> Tensor {
    let dims = x.dims();
    let (&features, leading) = dims.split_last().expect("a product takes no scalars");
    reshape(x, [leading.iter().copied().product::<Dim>(), features])
}

/// Applies a dense layer: `x Wᵀ + b` with `x` `[.., in]`, `weight` `[out, in]` and `bias` `[out]`.
///
/// # Panics
/// Raises [`Code::Shape`] when sizes do not match.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::dense(tensor![[1., 2.]], tensor![[3., 4.]], Some(&tensor![1.])).to_vec::<f32>(), [12.]);
/// ```
#[track_caller]
pub fn dense(x: impl AsTensor, weight: impl AsTensor, bias: Option<&Tensor>) -> Tensor {
    let _called = called("dense");
    let weight = weight.as_tensor();
    let x = x.as_tensor();
    propagate_poison!(x, weight);
    if let Some(bias) = bias {
        propagate_poison!(bias);
    }
    let operands: Vec<&Tensor> = [Some(&*x), Some(&*weight), bias].into_iter().flatten().collect();
    first_result(&DENSE, &Attrs::none(), &operands)
}
