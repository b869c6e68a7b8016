//! Imports elementwise operators.

use super::Applied;
use ms_ops::tensor::DType;
use ms_ops::{Result, Tensor, ops};

/// The default constants of `Selu`.
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_GAMMA: f64 = 1.050_700_987_355_480_5;

/// Imports an elementwise operator; returns `None` for any other operator.
///
/// # Errors
/// [`Code::Io`](ms_ir::Code::Io) for missing operands.
pub fn apply(node: &Applied<'_>) -> Result<Option<Tensor>> {
    let name = node.node.operator.as_str();
    if let Some(unary) = unary(name) {
        return Ok(Some(unary(&node.tensor(0)?)));
    }
    if let Some(binary) = binary(name) {
        return Ok(Some(binary(&node.tensor(0)?, &node.tensor(1)?)));
    }
    if let Some(fold) = variadic(name) {
        let mut result = node.tensor(0)?;
        for at in 1..node.operands.len() {
            result = fold(&result, &node.tensor(at)?);
        }
        return Ok(Some(result));
    }
    let alpha = |otherwise: f64| node.float("alpha", otherwise);
    Ok(Some(match name {
        "BitShift" => {
            let (bits, by) = (node.tensor(0)?, node.tensor(1)?);
            match node.text("direction", "")?.as_str() {
                "LEFT" => ops::left_shift(&bits, &by),
                "RIGHT" => ops::right_shift(&bits, &by),
                _ => return Err(node.unsupported("in this direction")),
            }
        }
        "Celu" => ops::celu(node.tensor(0)?, alpha(1.0)?),
        "Clip" => {
            let mut x = node.tensor(0)?;
            if let Some(low) = node.optional(1) {
                x = ops::maximum(&x, &low);
            }
            match node.optional(2) {
                Some(high) => ops::minimum(&x, &high),
                None => x,
            }
        }
        "Elu" => ops::elu(node.tensor(0)?, alpha(1.0)?),
        "Gelu" if node.text("approximate", "none")? == "tanh" => ops::gelu_tanh(node.tensor(0)?),
        "Gelu" => ops::gelu(node.tensor(0)?),
        "HardSigmoid" => {
            let line = node.tensor(0)? * alpha(0.2)? + node.float("beta", 0.5)?;
            ops::clamp(line, 0.0, 1.0)
        }
        "IsInf" => {
            let x = node.tensor(0)?;
            let positive = node.int("detect_positive", 1)? != 0;
            match (positive, node.int("detect_negative", 1)? != 0) {
                (true, true) => ops::isinf(&x),
                (true, false) => ops::logical_and(ops::isinf(&x), ops::greater(&x, 0.0)),
                (false, true) => ops::logical_and(ops::isinf(&x), ops::less(&x, 0.0)),
                (false, false) => return Err(node.unsupported("that detects nothing")),
            }
        }
        "LeakyRelu" => ops::leaky_relu(node.tensor(0)?, alpha(0.01)?),
        "Mod" => {
            let (a, b) = (node.tensor(0)?, node.tensor(1)?);
            if node.int("fmod", 0)? != 0 { ops::fmod(&a, &b) } else { ops::remainder(&a, &b) }
        }
        "PRelu" => {
            let (x, slope) = (node.tensor(0)?, node.tensor(1)?);
            ops::select(ops::less(&x, 0.0), &x * slope, &x)
        }
        "Selu" => {
            let (alpha, gamma) = (alpha(SELU_ALPHA)?, node.float("gamma", SELU_GAMMA)?);
            match (alpha as f32, gamma as f32) == (SELU_ALPHA as f32, SELU_GAMMA as f32) {
                true => ops::selu(node.tensor(0)?),
                false => ops::elu(node.tensor(0)?, alpha) * gamma,
            }
        }
        "Where" => ops::select(node.tensor(0)?, &node.tensor(1)?, &node.tensor(2)?),
        _ => return Ok(None),
    }))
}

fn unary(name: &str) -> Option<fn(&Tensor) -> Tensor> {
    Some(match name {
        "Abs" => |x| ops::abs(x),
        "Acos" => |x| ops::acos(x),
        "Acosh" => |x| ops::acosh(x),
        "Asin" => |x| ops::asin(x),
        "Asinh" => |x| ops::asinh(x),
        "Atan" => |x| ops::atan(x),
        "Atanh" => |x| ops::atanh(x),
        "BitwiseNot" => |x| ops::bitwise_not(x),
        "Ceil" => |x| ops::ceil(x),
        "Cos" => |x| ops::cos(x),
        "Cosh" => |x| ops::cosh(x),
        "Erf" => |x| ops::erf(x),
        "Exp" => |x| ops::exp(x),
        "Floor" => |x| ops::floor(x),
        "HardSwish" => |x| ops::hswish(x),
        "IsNaN" => |x| ops::isnan(x),
        "Log" => |x| ops::log(x),
        "Mish" => |x| ops::mish(x),
        "Neg" => |x| ops::neg(x),
        "Not" => |x| ops::logical_not(x),
        "Reciprocal" => |x| ops::reciprocal(x),
        "Relu" => |x| ops::relu(x),
        "Round" => |x| ops::round(x),
        "Sigmoid" => |x| ops::sigmoid(x),
        "Sign" => |x| ops::sign(x),
        "Sin" => |x| ops::sin(x),
        "Sinh" => |x| ops::sinh(x),
        "Softplus" => |x| ops::logaddexp(x, ops::zeros_like(x)),
        "Softsign" => |x| ops::softsign(x),
        "Sqrt" => |x| ops::sqrt(x),
        "Tan" => |x| ops::tan(x),
        "Tanh" => |x| ops::tanh(x),
        _ => return None,
    })
}

fn binary(name: &str) -> Option<fn(&Tensor, &Tensor) -> Tensor> {
    Some(match name {
        "Add" => |a, b| ops::add(a, b),
        "And" => |a, b| ops::logical_and(a, b),
        "BitwiseAnd" => |a, b| ops::bitwise_and(a, b),
        "BitwiseOr" => |a, b| ops::bitwise_or(a, b),
        "BitwiseXor" => |a, b| ops::bitwise_xor(a, b),
        "Div" => quotient,
        "Equal" => |a, b| ops::equal(a, b),
        "Greater" => |a, b| ops::greater(a, b),
        "GreaterOrEqual" => |a, b| ops::greater_equal(a, b),
        "Less" => |a, b| ops::less(a, b),
        "LessOrEqual" => |a, b| ops::less_equal(a, b),
        "Mul" => |a, b| ops::mul(a, b),
        "Or" => |a, b| ops::logical_or(a, b),
        "Pow" => |a, b| ops::cast(ops::pow(a, b), a.dtype()),
        "Sub" => |a, b| ops::sub(a, b),
        "Xor" => |a, b| ops::logical_xor(a, b),
        _ => return None,
    })
}

fn variadic(name: &str) -> Option<fn(&Tensor, &Tensor) -> Tensor> {
    Some(match name {
        "Max" => |a, b| ops::maximum(a, b),
        "Min" => |a, b| ops::minimum(a, b),
        "Sum" => |a, b| ops::add(a, b),
        _ => return None,
    })
}

/// Divides; an integer quotient is truncated.
fn quotient(a: &Tensor, b: &Tensor) -> Tensor {
    match a.dtype() {
        it if it.is_float() => ops::div(a, b),
        DType::Bool => ops::div(a, b),
        _ => ops::floor_div(a - ops::fmod(a, b), b),
    }
}
