//! Functions of elements.

use super::message::Attribute;
use super::translator::{Applied, Translator};
use ms_core::Result;
use ms_core::tensor::DType;

/// Ops that are one operator on the same operands, without attributes.
const SAME: &[(&str, &str)] = &[
    ("abs", "Abs"),
    ("acos", "Acos"),
    ("acosh", "Acosh"),
    ("add", "Add"),
    ("asin", "Asin"),
    ("asinh", "Asinh"),
    ("atan", "Atan"),
    ("atanh", "Atanh"),
    ("bitwise_and", "BitwiseAnd"),
    ("bitwise_or", "BitwiseOr"),
    ("bitwise_xor", "BitwiseXor"),
    ("class_index", "Identity"),
    ("class_weights", "Identity"),
    ("cos", "Cos"),
    ("cosh", "Cosh"),
    ("div", "Div"),
    ("equal", "Equal"),
    ("erf", "Erf"),
    ("exp", "Exp"),
    ("greater", "Greater"),
    ("greater_equal", "GreaterOrEqual"),
    ("hook_backward", "Identity"),
    ("isnan", "IsNaN"),
    ("less", "Less"),
    ("less_equal", "LessOrEqual"),
    ("log", "Log"),
    ("logical_and", "And"),
    ("logical_not", "Not"),
    ("logical_or", "Or"),
    ("logical_xor", "Xor"),
    ("maximum", "Max"),
    ("minimum", "Min"),
    ("mul", "Mul"),
    ("pow", "Pow"),
    ("reciprocal", "Reciprocal"),
    ("select", "Where"),
    ("sigmoid", "Sigmoid"),
    ("sign", "Sign"),
    ("sin", "Sin"),
    ("sinh", "Sinh"),
    ("sqrt", "Sqrt"),
    ("stop_gradient", "Identity"),
    ("sub", "Sub"),
    ("tan", "Tan"),
    ("tanh", "Tanh"),
    ("tensor_move", "Identity"),
];

/// Functions of elements that runtimes have for f32 and f64 only.
const OF_WIDE_FLOATS: &[&str] = &[
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cosh",
    "erf",
    "erfc",
    "expm1",
    "floor_div",
    "fmod",
    "isfinite",
    "isinf",
    "log1p",
    "remainder",
    "sinh",
    "tan",
];

/// Ops of bools that are operators of integers, whose results are true unless they are zero.
const OF_BOOLS: &[&str] = &[
    "add",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "maximum",
    "minimum",
    "mul",
];

/// Ops whose result is their operand.
const OF_ANY_FLOATS: &[&str] = &["hook_backward", "stop_gradient", "tensor_move"];

/// The dtype of the operands in which an op is applied, if that is not their own.
fn through(name: &str, node: &Applied<'_>) -> Option<DType> {
    match node.operand(0).dtype {
        DType::Bool if OF_BOOLS.contains(&name) => Some(DType::I32),
        DType::BF16 if !OF_ANY_FLOATS.contains(&name) => Some(DType::F32),
        DType::F16 if OF_WIDE_FLOATS.contains(&name) => Some(DType::F32),
        _ => None,
    }
}

/// The result of a function of elements; `None` for any other op.
///
/// # Errors
/// [`Code::Export`](ms_core::Code::Export) for one without a counterpart.
pub fn translate(to: &mut Translator<'_>, node: &Applied<'_>, name: &str) -> Result<Option<String>> {
    if !(SAME.iter().any(|it| it.0 == name) || COMPOSED.contains(&name)) {
        return Ok(None);
    }
    let dtype = node.result().dtype;
    if name == "pow" && ![DType::I32, DType::I64].contains(&dtype) && !dtype.is_float() {
        return node.refused(", whose powers do not wrap");
    }
    let Some(dtype) = through(name, node) else {
        return of_elements(to, node, name, &node.operands, node.operand(0).dtype).map(Some);
    };
    let cast: Vec<String> = node.operands.iter().map(|it| to.cast(it, dtype)).collect();
    let result = of_elements(to, node, name, &cast.iter().map(String::as_str).collect::<Vec<_>>(), dtype)?;
    Ok(Some(to.cast(&result, node.result().dtype)))
}

/// Functions of elements that are several operators, or another one for some dtypes.
const COMPOSED: &[&str] = &[
    "bitwise_not",
    "ceil",
    "erfc",
    "expm1",
    "floor",
    "floor_div",
    "fmod",
    "isfinite",
    "isinf",
    "log1p",
    "neg",
    "not_equal",
    "relu",
    "remainder",
    "round",
    "rsqrt",
    "square",
    "trunc",
];

/// A function of elements, of operands of this dtype.
fn of_elements(
    to: &mut Translator<'_>,
    node: &Applied<'_>,
    name: &str,
    operands: &[&str],
    dtype: DType,
) -> Result<String> {
    if let Some((_, operator)) = SAME.iter().find(|it| it.0 == name) {
        return Ok(to.apply(operator, operands));
    }
    Ok(match name {
        "not_equal" => {
            let equal = to.apply("Equal", operands);
            to.apply("Not", &[&equal])
        }
        "isinf" => to.apply("IsInf", operands),
        "isfinite" => {
            let (nan, infinite) = (to.apply("IsNaN", operands), to.apply("IsInf", operands));
            let either = to.apply("Or", &[&nan, &infinite]);
            to.apply("Not", &[&either])
        }
        "square" => to.apply("Mul", &[operands[0], operands[0]]),
        "rsqrt" => {
            let root = to.apply("Sqrt", operands);
            to.apply("Reciprocal", &[&root])
        }
        "expm1" => expm1(to, operands[0], dtype)?,
        "log1p" => log1p(to, operands[0], dtype)?,
        "floor_div" | "remainder" | "fmod" => division(to, name, operands, dtype)?,
        "erfc" => {
            let (one, erf) = (to.scalar(1, dtype)?, to.apply("Erf", operands));
            to.apply("Sub", &[&one, &erf])
        }
        "neg" if !dtype.is_float() => {
            let zero = to.scalar(0, dtype)?;
            to.apply("Sub", &[&zero, operands[0]])
        }
        "neg" => to.apply("Neg", operands),
        "relu" if [DType::U8, DType::U16, DType::U32, DType::U64].contains(&dtype) => operands[0].to_owned(),
        "relu" => to.apply("Relu", operands),
        "ceil" | "floor" | "round" | "trunc" if !dtype.is_float() => operands[0].to_owned(),
        "ceil" => to.apply("Ceil", operands),
        "floor" => to.apply("Floor", operands),
        "round" => to.apply("Round", operands),
        "trunc" => {
            let (sign, size) = (to.apply("Sign", operands), to.apply("Abs", operands));
            let floor = to.apply("Floor", &[&size]);
            to.apply("Mul", &[&sign, &floor])
        }
        "bitwise_not" if dtype == DType::Bool => to.apply("Not", operands),
        "bitwise_not" => to.apply("BitwiseNot", operands),
        _ => return node.refused(""),
    })
}

/// `e^x - 1` as `tanh(x / 2) (e^x + 1)`, which is exact near zero and -1 far below it.
fn expm1(to: &mut Translator<'_>, x: &str, dtype: DType) -> Result<String> {
    let (half, one) = (to.scalar(0.5, dtype)?, to.scalar(1, dtype)?);
    let half = to.apply("Mul", &[x, &half]);
    let (tanh, exp) = (to.apply("Tanh", &[&half]), to.apply("Exp", &[x]));
    let sum = to.apply("Add", &[&exp, &one]);
    Ok(to.apply("Mul", &[&tanh, &sum]))
}

/// `log(1 + x)`: near zero as `2 atanh(x / (x + 2))`, which is exact there.
fn log1p(to: &mut Translator<'_>, x: &str, dtype: DType) -> Result<String> {
    let (half, one, two) = (to.scalar(0.5, dtype)?, to.scalar(1, dtype)?, to.scalar(2, dtype)?);
    let above = to.apply("Add", &[x, &two]);
    let ratio = to.apply("Div", &[x, &above]);
    let near = to.apply("Atanh", &[&ratio]);
    let near = to.apply("Mul", &[&two, &near]);
    let sum = to.apply("Add", &[x, &one]);
    let far = to.apply("Log", &[&sum]);
    let size = to.apply("Abs", &[x]);
    let is_near = to.apply("Less", &[&size, &half]);
    Ok(to.apply("Where", &[&is_near, &near, &far]))
}

/// Quotients and remainders. For integers a divisor of zero gives zero.
fn division(to: &mut Translator<'_>, name: &str, operands: &[&str], dtype: DType) -> Result<String> {
    let (a, b) = (operands[0], operands[1]);
    let zero = to.scalar(0, dtype)?;
    let truncated = ("fmod", Attribute::Int(1));
    if !dtype.is_float() {
        let one = to.scalar(1, dtype)?;
        let is_zero = to.apply("Equal", &[b, &zero]);
        let divisor = to.apply("Where", &[&is_zero, &one, b]);
        if name == "fmod" {
            return Ok(to.with("Mod", &[a, &divisor], &[truncated]));
        }
        let rest = to.apply("Mod", &[a, &divisor]);
        if name == "remainder" {
            return Ok(rest);
        }
        let whole = to.apply("Sub", &[a, &rest]);
        let quotient = to.apply("Div", &[&whole, &divisor]);
        return Ok(to.apply("Where", &[&is_zero, &zero, &quotient]));
    }
    let rest = to.with("Mod", &[a, b], &[truncated]);
    if name == "fmod" {
        return Ok(rest);
    }
    // Not by the sign of a product, which may vanish.
    let signs = [&rest[..], b].map(|it| to.apply("Less", &[it, &zero]));
    let (differ, exact) = (to.apply("Xor", &[&signs[0], &signs[1]]), to.apply("Equal", &[&rest, &zero]));
    let inexact = to.apply("Not", &[&exact]);
    let differ = to.apply("And", &[&differ, &inexact]);
    let turned = to.apply("Add", &[&rest, b]);
    let rest = to.apply("Where", &[&differ, &turned, &rest]);
    if name == "remainder" {
        return Ok(rest);
    }
    let whole = to.apply("Sub", &[a, &rest]);
    let quotient = to.apply("Div", &[&whole, b]);
    Ok(to.apply("Round", &[&quotient]))
}
