//! Kernels that programs declare: the operators of their instructions.

use super::elements;
use super::translator::{Applied, Translator};
use ms_core::Result;
use ms_core::ops::formulas::{Binary, Formula, Instruction, Unary};
use ms_core::tensor::{DType, Type};

/// The value of a formula at the elements of its operands.
pub fn translate(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let Some(formula) = Formula::parse(node.text("formula")) else { return node.refused("") };
    let types: Vec<&Type> = (0..node.operands.len()).map(|at| node.operand(at)).collect();
    let float = types.iter().map(|it| it.dtype).find(|it| it.is_float());
    // As in a kernel, intermediate values are not rounded to narrow floats.
    let dtype = match float {
        Some(DType::F64) => DType::F64,
        _ => DType::F32,
    };
    let mut values: Vec<String> = Vec::new();
    // Whose sizes a value has: operands by their positions.
    let mut sources: Vec<Vec<usize>> = Vec::new();
    for (at, (operand, ty)) in node.operands.iter().zip(&types).enumerate() {
        let is_narrow = ty.dtype.is_float() && ty.dtype != dtype;
        values.push(if is_narrow { to.cast(operand, dtype) } else { (*operand).to_owned() });
        sources.push(vec![at]);
    }
    for instruction in &formula.instructions {
        let reads = instruction.reads();
        let operands: Vec<String> = reads.iter().map(|it| values[it.0 as usize].clone()).collect();
        let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
        let value = match *instruction {
            Instruction::Constant(bits) => to.scalar(f64::from_bits(bits), dtype)?,
            Instruction::Unary(Unary::ToFloat, _) => to.cast(operands[0], dtype),
            Instruction::Unary(op, _) => elements::of_elements(to, node, unary(op), &operands, dtype)?,
            Instruction::Binary(op, ..) => elements::of_elements(to, node, binary(op), &operands, dtype)?,
            Instruction::Select(..) => to.apply("Where", &operands),
        };
        let mut from: Vec<usize> = reads.iter().flat_map(|it| sources[it.0 as usize].clone()).collect();
        from.sort_unstable();
        from.dedup();
        values.push(value);
        sources.push(from);
    }
    let result = formula.result.0 as usize;
    let (mut value, ty) = (values[result].clone(), node.result());
    if ty.dtype.is_float() && ty.dtype != dtype {
        value = to.cast(&value, ty.dtype);
    }
    // Operands that the value does not depend on have a part in its shape.
    let is_whole = (1..=ty.dims.len()).all(|back| {
        let size = ty.dims[ty.dims.len() - back];
        let same = |at: &usize| {
            let dims = &types[*at].dims;
            dims.len().checked_sub(back).is_some_and(|axis| dims[axis] == size)
        };
        sources[result].iter().any(same)
    });
    if is_whole {
        return Ok(value);
    }
    let shape = to.shape(&ty.dims)?;
    Ok(to.apply("Expand", &[&value, &shape]))
}

/// The op of elements that computes the same.
fn unary(op: Unary) -> &'static str {
    match op {
        Unary::Neg => "neg",
        Unary::Abs => "abs",
        Unary::Sqrt => "sqrt",
        Unary::Floor => "floor",
        Unary::Ceil => "ceil",
        Unary::Trunc => "trunc",
        Unary::Round => "round",
        Unary::Math(math) => math.name(),
        Unary::Not => "logical_not",
        Unary::ToFloat => "cast",
    }
}

/// [`unary`] of two operands.
fn binary(op: Binary) -> &'static str {
    match op {
        Binary::Add => "add",
        Binary::Sub => "sub",
        Binary::Mul => "mul",
        Binary::Div => "div",
        Binary::Min => "minimum",
        Binary::Max => "maximum",
        Binary::Math(math) => math.name(),
        Binary::Eq => "equal",
        Binary::Ne => "not_equal",
        Binary::Lt => "less",
        Binary::Le => "less_equal",
        Binary::And => "logical_and",
        Binary::Or => "logical_or",
    }
}
