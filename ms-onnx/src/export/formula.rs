//! Exports user-defined kernels as one ONNX operator for each instruction.

use super::elements;
use super::translator::{Applied, Translator};
use ms_ir::Result;
use ms_ops::ops::formulas::{self, Binary, Dtypes, Formula, Instruction, Kind, Unary};
use ms_ops::tensor::{DType, Type};

/// Exports the value of a formula.
pub fn translate(to: &mut Translator<'_>, node: &Applied<'_>) -> Result<String> {
    let Some(formula) = Formula::parse(node.text("formula")) else { return node.refused("") };
    let types: Vec<&Type> = (0..node.operands.len()).map(|at| node.operand(at)).collect();
    let dtypes = Dtypes::of(formula.operands.iter().copied().zip(types.iter().map(|it| it.dtype)));
    // Kernels do not round intermediate values to f16 or bf16 either.
    let computed = |kind: Kind| match dtypes.dtype(kind) {
        DType::F16 | DType::BF16 => DType::F32,
        dtype => dtype,
    };
    let Some(kinds) = formula.kinds() else { return node.refused("") };
    let mut values: Vec<String> = Vec::new();
    // The operands, by position, that determine the shape of each value.
    let mut sources: Vec<Vec<usize>> = Vec::new();
    for (at, (operand, &kind)) in node.operands.iter().zip(&kinds).enumerate() {
        let dtype = computed(kind);
        values.push(if types[at].dtype == dtype { (*operand).to_owned() } else { to.cast(operand, dtype) });
        sources.push(vec![at]);
    }
    for (instruction, &kind) in formula.instructions.iter().zip(&kinds[values.len()..]) {
        let reads = instruction.reads();
        let operands: Vec<String> = reads.iter().map(|it| values[it.0 as usize].clone()).collect();
        let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
        let result = computed(kind);
        let from = reads.first().map_or(result, |it| computed(kinds[it.0 as usize]));
        let value = match *instruction {
            Instruction::Constant(kind, bits) => to.scalar(formulas::number(kind, bits), result)?,
            Instruction::Cast(..) if from == result => operands[0].to_owned(),
            Instruction::Cast(..) => to.cast(operands[0], result),
            Instruction::Unary(op, _) => elements::apply(to, node, unary(op, from), &operands, from, result)?,
            Instruction::Binary(op, ..) => elements::apply(to, node, binary(op, from), &operands, from, result)?,
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
    if computed(kinds[result]) != ty.dtype {
        value = to.cast(&value, ty.dtype);
    }
    // The shape of the result also depends on operands that the value does not use.
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

/// Returns the elementwise op of a unary instruction on this dtype.
fn unary(op: Unary, dtype: DType) -> &'static str {
    match op {
        Unary::Neg => "neg",
        Unary::Abs => "abs",
        Unary::Sqrt => "sqrt",
        Unary::Floor => "floor",
        Unary::Ceil => "ceil",
        Unary::Trunc => "trunc",
        Unary::Round => "round",
        Unary::Math(math) => math.name(),
        Unary::Not if dtype == DType::Bool => "logical_not",
        Unary::Not => "bitwise_not",
    }
}

/// Returns the elementwise op of a binary instruction on this dtype.
fn binary(op: Binary, dtype: DType) -> &'static str {
    let is_bool = dtype == DType::Bool;
    match op {
        Binary::Add => "add",
        Binary::Sub => "sub",
        Binary::Mul => "mul",
        Binary::Div if dtype.is_float() => "div",
        Binary::Div => "trunc_div",
        Binary::Rem => "fmod",
        Binary::Min => "minimum",
        Binary::Max => "maximum",
        Binary::Math(math) => math.name(),
        Binary::Eq => "equal",
        Binary::Ne => "not_equal",
        Binary::Lt => "less",
        Binary::Le => "less_equal",
        Binary::And if is_bool => "logical_and",
        Binary::And => "bitwise_and",
        Binary::Or if is_bool => "logical_or",
        Binary::Or => "bitwise_or",
        Binary::Xor if is_bool => "logical_xor",
        Binary::Xor => "bitwise_xor",
        Binary::Shl => "left_shift",
        Binary::Shr => "right_shift",
    }
}
