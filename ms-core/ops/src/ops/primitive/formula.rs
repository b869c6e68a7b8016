//! `formula`: an elementwise function stored as an attribute, which `kernel!` declares.

use crate::ops::core::elementwise::evaluate;
use crate::ops::core::formulas::{self, Dtypes, Formula, Kind};
use crate::ops::core::rules::{broadcast_dims, sum_to};
use crate::ops::{
    Batching, Cotangents, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules, Types, Vjp, cast,
};
use crate::tensor::{Attrs, DType, OpInfo, Tensor, Type, apply1};
use ms_ir::error::{Code, Error, Result};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`FORMULA`].
    pub(in crate::ops) struct FormulaAttrs {
        /// The name in reports.
        name: str,
        /// The text of the formula.
        formula: str,
    }
}

/// Evaluates a [`Formula`] on the elements of the operands, which are broadcast. All operands of [`Kind::Float`] have
/// one dtype, and so have all of [`Kind::Int`].
///
/// The derivative is a formula as well, so derivatives of any order are single kernels.
pub static FORMULA: OpDef = OpDef {
    info: OpInfo { number: 900, name: "formula", attrs: FormulaAttrs::DECLARED },
    infer,
    eval: |attrs, inputs| {
        let formula = formula_of(attrs)?;
        let dtypes = Dtypes::of(formula.operands.iter().copied().zip(inputs.iter().map(|it| it.dtype())));
        let dtype = formula.kind().map_or(dtypes.float, |it| dtypes.dtype(it));
        evaluate(dtype, inputs, &|elements| formulas::evaluate(&formula, dtypes, elements))
    },
    effects: Effects::NONE,
    lowering: Lowering::Map(|attrs, builder, operands| {
        let formula = formula_of(attrs).expect("the type rule accepted it");
        formulas::lower(&formula, builder, operands)
    }),
    samples,
    transforms: &TransformRules {
        derivative: Derivative::Rule(pull),
        finite_derivatives: false,
        batching: Batching::Derived,
        body: None,
    },
};

fn formula_of(attrs: &Attrs) -> Result<Formula> {
    let text = FormulaAttrs::of(attrs).formula();
    Formula::parse(text).ok_or_else(|| Error::new(Code::Argument, format!("{text:?} is not a formula")))
}

/// Infers the type of the result; errors name the kernel.
fn infer(attrs: &Attrs, inputs: &[&Type]) -> Result<Types> {
    typed(attrs, inputs).map_err(|error| error.with_op(FormulaAttrs::of(attrs).name()))
}

fn typed(attrs: &Attrs, inputs: &[&Type]) -> Result<Types> {
    let formula = formula_of(attrs)?;
    if inputs.len() != formula.operands.len() {
        let message = format!("{} operands for a formula of {}", inputs.len(), formula.operands.len());
        return Err(Error::new(Code::Argument, message));
    }
    let dtypes = Dtypes::of(formula.operands.iter().copied().zip(inputs.iter().map(|it| it.dtype)));
    let mut dims = inputs[0].dims.clone();
    for (input, &kind) in inputs.iter().zip(&formula.operands) {
        if !kind.is_of(input.dtype) {
            let wanted = match kind {
                Kind::Float => "floats".to_owned(),
                Kind::Int => "integers".to_owned(),
                Kind::Bool => "bools".to_owned(),
                Kind::Of(dtype) => dtype.to_string(),
            };
            return Err(Error::new(Code::DType, format!("takes {wanted}, not {}", input.dtype)));
        }
        let wanted = dtypes.dtype(kind);
        if wanted != input.dtype {
            return Err(Error::new(Code::DType, format!("dtypes {wanted} and {} differ", input.dtype)));
        }
        dims = broadcast_dims(&dims, &input.dims)?;
    }
    for (kind, number) in formula.integers() {
        let dtype = dtypes.dtype(kind);
        if !number.is_within(dtype) {
            return Err(Error::new(Code::DType, format!("the constant {number} is outside the range of {dtype}")));
        }
    }
    let result = formula.kind().expect("the text of a formula is checked when it is read");
    Ok(smallvec![Type::new(dtypes.dtype(result), dims)])
}

/// Returns the gradients of the operands, each a formula of the operands and the result's gradient.
fn pull(it: &Vjp<'_>) -> Cotangents {
    let formula = formula_of(it.attrs).expect("the type rule accepted it");
    let name = format!("{}.gradient", FormulaAttrs::of(it.attrs).name());
    let applied = |derivative: &Formula, operands: &[&Tensor]| {
        apply1(FORMULA.op(), &FormulaAttrs::attrs(&*name, &*derivative.to_string()), operands)
    };
    let cotangent = it.cotangent();
    let mixes = it.inputs.iter().any(|x| x.dtype().is_float() && x.dtype() != cotangent.dtype());
    let gradient = |at: usize| {
        let mut operands: Vec<&Tensor> = it.inputs.iter().collect();
        let gradient = match (it.needs[at], mixes) {
            (false, _) => return None,
            (true, false) => {
                let derivative = formula.derivative(at)?;
                operands.push(cotangent);
                applied(&derivative, &operands)
            }
            // Forward mode transposes the VJP, so the product must be visibly linear in the cotangent.
            (true, true) => cast(cotangent * applied(&formula.slope(at)?, &operands), it.inputs[at].dtype()),
        };
        Some(sum_to(gradient, &it.inputs[at]))
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
    let inverses = "float: const float 0.25; mul 0 1; asin 2; acos 2; atanh 2; const float 2.0; add 0 6; acosh 7; log 7; \
        add 3 4; mul 10 5; add 11 8; sub 12 9 -> 13";
    let choices = "float bool float: max 0 2; min 0 2; lt 0 2; not 5; and 6 1; or 6 1; cast float 8; select 7 3 4; \
        mul 10 9; neg 11; add 12 3 -> 13";
    let powers = "float float: pow 0 1; atan2 0 1; add 2 3 -> 4";
    let mut all: Vec<Sample> =
        [DType::F32, DType::F64, DType::F16, DType::BF16].map(|it| of(mish, vec![wide(it)])).into_iter().collect();
    let bools = || SampleInput::of(DType::Bool, &[5], 0.0, 1.0);
    let int = |dtype: DType, low: f64, high: f64| SampleInput::of(dtype, &[3, 5], low, high);
    let integers = "int int: add 0 1; sub 0 1; mul 2 3; const int 3; rem 4 5; div 0 1; min 0 1; max 0 1; and 0 8; \
        or 1 9; xor 10 11; neg 12; abs 7; shl 14 5; shr 13 5; lt 15 16; not 6; select 17 18 16; le 0 1; ne 0 1; \
        eq 0 6; and 20 21; or 23 22; cast int 24; add 25 19 -> 26";
    for dtype in [DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64] {
        all.push(of(integers, vec![int(dtype, -9.0, 9.0), int(dtype, -9.0, 9.0)]));
    }
    all.extend([
        of(functions, vec![f32(&[4, 1], 0.2, 1.2), f32(&[3], 0.2, 1.2)]),
        of(inverses, vec![f32(&[2, 3], 0.3, 1.2)]),
        of(choices, vec![f32(&[3, 5], -2.0, 2.0), bools(), f32(&[3, 1], -2.0, 2.0)]),
        of(powers, vec![f32(&[7], 0.3, 3.0), f32(&[], 0.5, 2.0)]),
        of(
            "float float: le 0 1; eq 0 1; or 2 3; ne 0 1; and 4 5 -> 6",
            vec![f32(&[6], -1.0, 1.0), f32(&[6], -1.0, 1.0)],
        ),
        of("float: floor 0; ceil 0; trunc 0; round 0; add 1 2; mul 5 3; sub 6 4 -> 7", vec![f32(&[9], -2.9, 2.9)]),
        of("float: exp 0 -> 1", vec![f32(&[0, 3], 0.0, 1.0)]),
        // Bools, and bits of integers.
        of("bool bool: xor 0 1; not 2 -> 3", vec![bools(), bools()]),
        of("u32: shr 0 0; xor 0 1; const u32 2654435769; mul 2 3; cast i64 4 -> 5", vec![int(DType::U32, 0.0, 9.0)]),
        // Mixed dtypes, by casts.
        of(
            "i8 float f64: cast f64 0; cast f64 1; mul 3 4; mul 5 2; exp 6 -> 7",
            vec![int(DType::I8, -3.0, 3.0), f32(&[3, 1], -0.5, 0.5), SampleInput::of(DType::F64, &[5], -0.5, 0.5)],
        ),
        of(
            "float f64: cast f64 0; sin 2; mul 3 1 -> 4",
            vec![wide(DType::F16), SampleInput::of(DType::F64, &[5], -1.0, 1.0)],
        ),
        of("float: floor 0; cast i16 1; cast float 2; mul 3 0 -> 4", vec![f32(&[9], 0.1, 0.9)]),
    ]);
    all
}
