//! Exports elementwise ops.

use super::message::Attribute;
use super::translator::{Applied, Translator};
use ms_ir::Result;
use ms_ops::tensor::DType;

/// Ops with a single ONNX operator of the same operands, without attributes.
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
    ("bounded", "Identity"),
    ("class_index", "Identity"),
    ("class_weights", "Identity"),
    ("cos", "Cos"),
    ("cosh", "Cosh"),
    ("div", "Div"),
    ("equal", "Equal"),
    ("erf", "Erf"),
    ("exp", "Exp"),
    ("from_zero", "Identity"),
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

/// Elementwise operators that runtimes implement for f32 and f64 only.
const OF_WIDE_FLOATS: &[&str] = &[
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cosh",
    "erf",
    "erfc",
    "expm1",
    "floor_div",
    "fmod",
    "hypot",
    "isfinite",
    "isinf",
    "log1p",
    "remainder",
    "sinh",
    "tan",
];

/// Ops on bools that are exported as integer operators; a nonzero result is true.
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

/// Ops that return their operand.
const OF_ANY_FLOATS: &[&str] = &["hook_backward", "stop_gradient", "tensor_move"];

/// Returns the dtype in which an op is computed, if it differs from the dtype of its operands.
fn compute_dtype(name: &str, dtype: DType) -> Option<DType> {
    match dtype {
        DType::Bool if OF_BOOLS.contains(&name) => Some(DType::I32),
        DType::BF16 if !OF_ANY_FLOATS.contains(&name) => Some(DType::F32),
        DType::F16 if OF_WIDE_FLOATS.contains(&name) => Some(DType::F32),
        _ => None,
    }
}

/// Exports an elementwise op; returns `None` for any other op.
///
/// # Errors
/// [`Code::Export`](ms_ir::Code::Export) for an op without a counterpart.
pub fn translate(to: &mut Translator<'_>, node: &Applied<'_>, name: &str) -> Result<Option<String>> {
    if !(SAME.iter().any(|it| it.0 == name) || COMPOSED.contains(&name)) {
        return Ok(None);
    }
    let dtype = node.result().dtype;
    if name == "pow" && ![DType::I32, DType::I64].contains(&dtype) && !dtype.is_float() {
        return node.refused(", whose powers do not wrap");
    }
    apply(to, node, name, &node.operands, node.operand(0).dtype, dtype).map(Some)
}

/// Exports an elementwise op on operands of dtype `from`, with a result of another dtype.
pub fn apply(
    to: &mut Translator<'_>,
    node: &Applied<'_>,
    name: &str,
    operands: &[&str],
    from: DType,
    result: DType,
) -> Result<String> {
    let Some(dtype) = compute_dtype(name, from) else {
        return of_elements(to, node, name, operands, from);
    };
    let cast: Vec<String> = operands.iter().map(|it| to.cast(it, dtype)).collect();
    let value = of_elements(to, node, name, &cast.iter().map(String::as_str).collect::<Vec<_>>(), dtype)?;
    Ok(to.cast(&value, result))
}

/// Elementwise ops that need several operators, or different operators for some dtypes.
const COMPOSED: &[&str] = &[
    "atan2",
    "bitwise_not",
    "ceil",
    "erfc",
    "expm1",
    "floor",
    "floor_div",
    "fmod",
    "hypot",
    "isfinite",
    "isinf",
    "left_shift",
    "log1p",
    "neg",
    "not_equal",
    "relu",
    "remainder",
    "right_shift",
    "round",
    "rsqrt",
    "square",
    "trunc",
];

/// Exports an elementwise op on operands that already have the compute dtype.
pub fn of_elements(
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
        "atan2" => angle(to, operands[0], operands[1], dtype)?,
        "hypot" => length(to, operands, dtype)?,
        "left_shift" | "right_shift" => shift(to, name, operands, dtype)?,
        "expm1" => expm1(to, operands[0], dtype)?,
        "log1p" => log1p(to, operands[0], dtype)?,
        "floor_div" | "trunc_div" | "remainder" | "fmod" => division(to, name, operands, dtype)?,
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

/// Computes `e^x - 1` as `tanh(x / 2) (e^x + 1)`, which is accurate near zero and -1 for large negative `x`.
fn expm1(to: &mut Translator<'_>, x: &str, dtype: DType) -> Result<String> {
    let (half, one) = (to.scalar(0.5, dtype)?, to.scalar(1, dtype)?);
    let half = to.apply("Mul", &[x, &half]);
    let (tanh, exp) = (to.apply("Tanh", &[&half]), to.apply("Exp", &[x]));
    let sum = to.apply("Add", &[&exp, &one]);
    Ok(to.apply("Mul", &[&tanh, &sum]))
}

/// Computes `log(1 + x)`, near zero as `2 atanh(x / (x + 2))`, which is accurate there.
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

/// Exports quotients and remainders. An integer divisor of zero gives zero. `trunc_div` occurs in formulas only, on
/// integers.
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
        if name == "trunc_div" {
            let quotient = to.apply("Div", &[a, &divisor]);
            return Ok(to.apply("Where", &[&is_zero, &zero, &quotient]));
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
    // The signs are compared directly, since the product of the operands may underflow.
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

/// Returns whether a float has the sign bit set. The reciprocal of zero shows the sign of zero.
fn is_negative(to: &mut Translator<'_>, x: &str, zero: &str) -> String {
    let inverse = to.apply("Reciprocal", &[x]);
    let [below, from_below] = [x, &inverse].map(|it| to.apply("Less", &[it, zero]));
    to.apply("Or", &[&below, &from_below])
}

/// Returns the magnitudes of two floats, and the larger and the smaller magnitude.
fn by_size(to: &mut Translator<'_>, operands: [&str; 2]) -> ([String; 2], [String; 2]) {
    let sizes = operands.map(|it| to.apply("Abs", &[it]));
    let ordered = ["Max", "Min"].map(|it| to.apply(it, &[&sizes[0], &sizes[1]]));
    (sizes, ordered)
}

/// Computes `atan2`: the angle in the first octant, mirrored to the octant of `(x, y)`.
fn angle(to: &mut Translator<'_>, y: &str, x: &str, dtype: DType) -> Result<String> {
    let ([height, width], [long, short]) = by_size(to, [y, x]);
    let zero = to.scalar(0, dtype)?;
    // Equal magnitudes may both be zero or both infinite, with a quotient of NaN.
    let (quotient, sign) = (to.apply("Div", &[&short, &long]), to.apply("Sign", &[&long]));
    let equal = to.apply("Equal", &[&short, &long]);
    let ratio = to.apply("Where", &[&equal, &sign, &quotient]);
    let mut angle = to.apply("Atan", &[&ratio]);
    let steep = to.apply("Greater", &[&height, &width]);
    let left = is_negative(to, x, &zero);
    for (mirrored, at) in [(steep, std::f64::consts::FRAC_PI_2), (left, std::f64::consts::PI)] {
        let at = to.scalar(at, dtype)?;
        let rest = to.apply("Sub", &[&at, &angle]);
        angle = to.apply("Where", &[&mirrored, &rest, &angle]);
    }
    let below = is_negative(to, y, &zero);
    let negative = to.apply("Neg", &[&angle]);
    Ok(to.apply("Where", &[&below, &negative, &angle]))
}

/// Computes `sqrt(a^2 + b^2)` without overflow; infinite if either operand is.
fn length(to: &mut Translator<'_>, operands: &[&str], dtype: DType) -> Result<String> {
    let (sizes, [long, short]) = by_size(to, [operands[0], operands[1]]);
    let (zero, one, infinity) = (to.scalar(0, dtype)?, to.scalar(1, dtype)?, to.scalar(f64::INFINITY, dtype)?);
    let (quotient, is_zero) = (to.apply("Div", &[&short, &long]), to.apply("Equal", &[&long, &zero]));
    let ratio = to.apply("Where", &[&is_zero, &zero, &quotient]);
    let square = to.apply("Mul", &[&ratio, &ratio]);
    let sum = to.apply("Add", &[&square, &one]);
    let root = to.apply("Sqrt", &[&sum]);
    let length = to.apply("Mul", &[&long, &root]);
    let infinite = sizes.map(|it| to.apply("Equal", &[&it, &infinity]));
    let either = to.apply("Or", &[&infinite[0], &infinite[1]]);
    Ok(to.apply("Where", &[&either, &infinity, &length]))
}

/// Exports shifts. ONNX shifts unsigned integers by less than their width, so operands are widened to 64 bits.
fn shift(to: &mut Translator<'_>, name: &str, operands: &[&str], dtype: DType) -> Result<String> {
    let [bits, by] = [operands[0], operands[1]].map(|it| to.cast(it, DType::I64));
    let (zero, width) = (to.scalar(0, DType::I64)?, to.scalar(8 * dtype.size() as i64, DType::I64)?);
    let (negative, inside) = (to.apply("Less", &[&by, &zero]), to.apply("Less", &[&by, &width]));
    let not_negative = to.apply("Not", &[&negative]);
    let fits = to.apply("And", &[&not_negative, &inside]);
    let shifted = |to: &mut Translator<'_>, direction: &str, bits: &str, by: &str| {
        let [bits, by] = [bits, by].map(|it| to.cast(it, DType::U64));
        let shifted = to.with("BitShift", &[&bits, &by], &[("direction", Attribute::Text(direction))]);
        to.cast(&shifted, DType::I64)
    };
    let direction = if name == "left_shift" { "LEFT" } else { "RIGHT" };
    let keeps_sign = name == "right_shift" && dtype.is_signed_int();
    let result = if keeps_sign {
        // A logical shift inserts zeros. A negative number is inverted before and after, which inserts ones.
        let last = to.scalar(63, DType::I64)?;
        let by = to.apply("Where", &[&fits, &by, &last]);
        let (is_negative, inverse) = (to.apply("Less", &[&bits, &zero]), to.apply("BitwiseNot", &[&bits]));
        let bits = to.apply("Where", &[&is_negative, &inverse, &bits]);
        let shifted = shifted(to, direction, &bits, &by);
        let inverse = to.apply("BitwiseNot", &[&shifted]);
        to.apply("Where", &[&is_negative, &inverse, &shifted])
    } else {
        let by = to.apply("Where", &[&fits, &by, &zero]);
        let shifted = shifted(to, direction, &bits, &by);
        to.apply("Where", &[&fits, &shifted, &zero])
    };
    Ok(to.cast(&result, dtype))
}
