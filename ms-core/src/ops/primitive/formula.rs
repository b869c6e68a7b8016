//! `formula`: a function of elements that is an attribute: what `kernel!` declares.

use crate::error::{Code, Error, Result};
use crate::ops::core::elementwise::evaluate;
use crate::ops::core::formulas::{self, Formula, Kind};
use crate::ops::core::rules::{broadcast_dims, sum_to};
use crate::ops::{Batching, Cotangents, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, Types, Vjp};
use crate::tensor::{Attrs, DType, OpInfo, Type, apply1};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`FORMULA`].
    pub(in crate::ops) struct FormulaAttrs {
        /// What reports call it.
        name: str,
        /// Its text.
        formula: str,
    }
}

/// The value of a [`Formula`] at the elements of the operands, which are broadcast. Floats are of one dtype, that of
/// the result if it is a float.
///
/// Its derivative is a formula as well, so that derivatives of any order are single kernels.
pub static FORMULA: OpDef = OpDef {
    info: OpInfo { number: 900, name: "formula", attrs: FormulaAttrs::DECLARED },
    infer,
    eval: |attrs, inputs| {
        let formula = formula_of(attrs)?;
        let types: Vec<Type> = inputs.iter().map(|it| it.ty()).collect();
        let dtype = infer(attrs, &types.iter().collect::<Vec<_>>())?[0].dtype;
        evaluate(dtype, inputs, &|elements| formulas::evaluate(&formula, elements))
    },
    derivative: Derivative::Rule(pull),
    finite_derivatives: false,
    effects: Effects::NONE,
    batching: Batching::Derived,
    lowering: Lowering::Map(|attrs, builder, operands| {
        let formula = formula_of(attrs).expect("the type rule accepted it");
        formulas::lower(&formula, builder, operands)
    }),
    samples,
};

fn formula_of(attrs: &Attrs) -> Result<Formula> {
    let text = FormulaAttrs::of(attrs).formula();
    Formula::parse(text).ok_or_else(|| Error::new(Code::Argument, format!("{text:?} is not a formula")))
}

/// The type rule; errors name the kernel.
fn infer(attrs: &Attrs, inputs: &[&Type]) -> Result<Types> {
    typed(attrs, inputs).map_err(|error| error.with_op(FormulaAttrs::of(attrs).name()))
}

fn typed(attrs: &Attrs, inputs: &[&Type]) -> Result<Types> {
    let formula = formula_of(attrs)?;
    if inputs.len() != formula.operands.len() {
        let message = format!("{} operands for a formula of {}", inputs.len(), formula.operands.len());
        return Err(Error::new(Code::Argument, message));
    }
    let mut dtype: Option<DType> = None;
    let mut dims = inputs[0].dims.clone();
    for (input, kind) in inputs.iter().zip(&formula.operands) {
        if !kind.is_of(input.dtype) {
            let wanted = if *kind == Kind::Float { "floats" } else { "bools" };
            return Err(Error::new(Code::DType, format!("takes {wanted}, not {}", input.dtype)));
        }
        if *kind == Kind::Float && *dtype.get_or_insert(input.dtype) != input.dtype {
            let message = format!("dtypes {} and {} differ", dtype.unwrap_or(input.dtype), input.dtype);
            return Err(Error::new(Code::DType, message));
        }
        dims = broadcast_dims(&dims, &input.dims)?;
    }
    let Some(dtype) = dtype else {
        return Err(Error::new(Code::DType, "an operand of a formula is a float"));
    };
    let is_bool = formula.kind() == Some(Kind::Bool);
    Ok(smallvec![Type::new(if is_bool { DType::Bool } else { dtype }, dims)])
}

/// The gradients of the operands, each a formula of the operands and the result's gradient.
fn pull(it: &Vjp<'_>) -> Cotangents {
    let formula = formula_of(it.attrs).expect("the type rule accepted it");
    let gradient = |at: usize| {
        let derivative = it.needs[at].then(|| formula.derivative(at)).flatten()?;
        let name = format!("{}.gradient", FormulaAttrs::of(it.attrs).name());
        let attrs = FormulaAttrs::attrs(&*name, &*derivative.to_string());
        let operands: Vec<_> = it.inputs.iter().chain([it.cotangent()]).collect();
        Some(sum_to(apply1(FORMULA.op(), &attrs, &operands), &it.inputs[at]))
    };
    (0..it.inputs.len()).map(gradient).collect()
}

fn samples() -> Vec<Sample> {
    let of =
        |formula: &str, inputs: Vec<SampleInput>| Sample::new(inputs).attrs(FormulaAttrs::attrs("sample", formula));
    let f32 = |shape: &[usize], low: f64, high: f64| SampleInput::f32(shape, low, high);
    let wide = |dtype: DType| SampleInput::of(dtype, &[3, 5], -2.0, 2.0);
    // x tanh(ln(1 + e^x))
    let mish = "float: exp 0; log1p 1; tanh 2; mul 0 3 -> 4";
    let functions = "float float: \
        sin 0; cos 0; mul 2 3; atan 4; sinh 1; cosh 1; div 6 7; asinh 8; add 5 9; \
        erf 0; erfc 1; mul 11 12; add 10 13; abs 14; sqrt 15; rsqrt 15; sub 16 17; expm1 18; tan 0; add 19 20 -> 21";
    let inverses = "float: const 0.25; mul 0 1; asin 2; acos 2; atanh 2; const 2.0; add 0 6; acosh 7; log 7; \
        add 3 4; mul 10 5; add 11 8; sub 12 9 -> 13";
    let choices = "float bool float: max 0 2; min 0 2; lt 0 2; not 5; and 6 1; or 6 1; float 8; select 7 3 4; \
        mul 10 9; neg 11; add 12 3 -> 13";
    let powers = "float float: pow 0 1; atan2 0 1; add 2 3 -> 4";
    let mut all: Vec<Sample> =
        [DType::F32, DType::F64, DType::F16, DType::BF16].map(|it| of(mish, vec![wide(it)])).into_iter().collect();
    let bools = SampleInput::of(DType::Bool, &[5], 0.0, 1.0);
    all.extend([
        of(functions, vec![f32(&[4, 1], 0.2, 1.2), f32(&[3], 0.2, 1.2)]),
        of(inverses, vec![f32(&[2, 3], 0.3, 1.2)]),
        of(choices, vec![f32(&[3, 5], -2.0, 2.0), bools, f32(&[3, 1], -2.0, 2.0)]),
        of(powers, vec![f32(&[7], 0.3, 3.0), f32(&[], 0.5, 2.0)]),
        of(
            "float float: le 0 1; eq 0 1; or 2 3; ne 0 1; and 4 5 -> 6",
            vec![f32(&[6], -1.0, 1.0), f32(&[6], -1.0, 1.0)],
        ),
        of("float: floor 0; ceil 0; trunc 0; round 0; add 1 2; mul 5 3; sub 6 4 -> 7", vec![f32(&[9], -2.9, 2.9)]),
        of("float: exp 0 -> 1", vec![f32(&[0, 3], 0.0, 1.0)]),
    ]);
    all
}
