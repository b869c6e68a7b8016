//! `select`: an elementwise choice by a condition.

use crate::ops::core::elementwise::evaluate;
use crate::ops::core::operand::{Operand, common_dtype};
use crate::ops::core::rules::{broadcast_dims, sum_to};
use crate::ops::{Batching, Derivative, Effects, IntoOperand, Lowering, OpDef, Sample, SampleInput, TransformRules};
use crate::tensor::{AsTensor, Attrs, DType, OpInfo, Tensor, Type, apply1};
use ms_ir::error::{Code, Error};
use ms_ir::{Node, ValueId};
use smallvec::smallvec;

/// Returns the second operand where the first, of bools, is true, else the third; operands broadcast.
pub static SELECT: OpDef = OpDef {
    info: OpInfo { number: 202, name: "select", attrs: &[] },
    infer: |_, inputs| {
        let [condition, then, other] = inputs else { unreachable!("`select` has three operands") };
        if condition.dtype != DType::Bool {
            return Err(Error::new(Code::DType, format!("the condition is {}, not bool", condition.dtype)));
        }
        if then.dtype != other.dtype {
            return Err(Error::new(Code::DType, format!("dtypes {} and {} differ", then.dtype, other.dtype)));
        }
        let dims = broadcast_dims(&broadcast_dims(&condition.dims, &then.dims)?, &other.dims)?;
        Ok(smallvec![Type::new(then.dtype, dims)])
    },
    eval: |_, inputs| evaluate(inputs[1].dtype(), inputs, &|v| if v[0].as_bool() { v[1] } else { v[2] }),
    effects: Effects::NONE,
    lowering: Lowering::Map(|_, body, v| body.select(v[0], v[1], v[2])),
    samples: || {
        let sample = |dtype, shapes: [&[usize]; 3]| {
            let [condition, then, other] = shapes;
            Sample::new([
                SampleInput::of(DType::Bool, condition, 0.0, 1.0),
                SampleInput::of(dtype, then, -2.0, 2.0),
                SampleInput::of(dtype, other, -2.0, 2.0),
            ])
        };
        let broadcast = sample(DType::F32, [&[4, 1], &[3], &[2, 1, 1]]);
        DType::ALL.iter().map(|&dtype| sample(dtype, [&[3, 5]; 3])).chain([broadcast]).collect()
    },
    transforms: &TransformRules {
        derivative: Derivative::Rule(|it| {
            let [condition, then, other] = it.inputs else { unreachable!("`select` has three operands") };
            let g = it.cotangent();
            smallvec![
                None,
                it.needs[1].then(|| sum_to(select(condition, g, 0.0), then)),
                it.needs[2].then(|| sum_to(select(condition, 0.0, g), other)),
            ]
        }),
        finite_derivatives: true,
        batching: Batching::Derived,
        body: None,
    },
};

/// Returns `then` where `condition` is true, else `other`, as NumPy's `where`. The two promote to a common dtype, and a
/// condition of numbers is true unless zero.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::select(tensor![true, false], tensor![1., 2.], 0.).to_vec::<f32>(), [1., 0.]);
/// ```
#[track_caller]
pub fn select(condition: impl AsTensor, then: impl IntoOperand, other: impl IntoOperand) -> Tensor {
    select_operands(&condition.as_tensor(), [then.operand(), other.operand()])
}

#[track_caller]
fn select_operands(condition: &Tensor, branches: [Operand<'_>; 2]) -> Tensor {
    let condition = crate::ops::cast(condition, DType::Bool);
    let dtype = common_dtype(&branches);
    let [then, other] = branches.map(|it| it.into_tensor(dtype).map_err(|it| it.with_op("select")));
    let (then, other) = (or_poison!(then), or_poison!(other));
    apply1(SELECT.op(), &Attrs::none(), &[&condition, &then, &other])
}

/// Creates a node that chooses between two values of one type by a `bool[]`.
#[doc(hidden)]
pub fn select_node(condition: ValueId, then: ValueId, other: ValueId) -> Node {
    Node::new(SELECT.op(), Attrs::none(), [condition, then, other])
}

impl Tensor {
    /// Returns `then` where this condition is true, else `other`.
    #[track_caller]
    pub fn select(&self, then: impl IntoOperand, other: impl IntoOperand) -> Self {
        select(self, then, other)
    }
}
