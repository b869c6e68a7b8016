//! Exports quantisation.

use super::message::{Attribute, OPSET, OPSET_OF_BLOCKS};
use super::translator::{Applied, Translator};
use ms_ir::{Graph, Node, Result, Type};
use ms_ops::tensor::{Attr, DType};

/// Returns the opset version that a node of the graph needs. Quantisation of blocks, of f16 and bf16, and to 16 bits is
/// newer than the other operators.
pub fn opset(graph: &Graph, node: &Node) -> u64 {
    if !["quantize", "dequantize"].contains(&node.op.name()) {
        return OPSET;
    }
    let is_blocked = node.attrs.as_slice().get(1) != Some(&Attr::Int(0));
    let is_old = |ty: &Type| matches!(ty.dtype, DType::F32 | DType::I8 | DType::U8 | DType::I32);
    let types = node.inputs.iter().chain(&node.outputs).map(|it| graph.ty(*it));
    if is_blocked || !types.into_iter().all(is_old) { OPSET_OF_BLOCKS } else { OPSET }
}

/// Exports `quantize` or `dequantize`; returns `None` for any other op.
///
/// # Errors
/// [`Code::Export`](ms_ir::Code::Export) for zeros of blocks of i32, which ONNX has not.
pub fn translate(to: &mut Translator<'_>, node: &Applied<'_>, name: &str) -> Result<Option<String>> {
    let operator = match name {
        "quantize" => "QuantizeLinear",
        "dequantize" => "DequantizeLinear",
        _ => return Ok(None),
    };
    let (axis, block, scales) = (node.int("axis"), node.int("block"), node.operand(1).rank());
    let mut attributes = Vec::new();
    if scales > 0 {
        attributes.push(("axis", Attribute::Int(axis)));
    }
    if block > 0 {
        attributes.push(("block_size", Attribute::Int(block)));
    }
    let [x, scale, zero] = node.operands[..] else { unreachable!("the op has three operands") };
    if node.operand(0).dtype != DType::I32 {
        return Ok(Some(to.with(operator, &[x, scale, zero], &attributes)));
    }
    // The operator takes no zeros of i32.
    let zero = match (block, scales) {
        (0, 0) => zero.to_owned(),
        (0, _) => {
            let mut along = vec![1; node.operand(0).rank()];
            along[axis as usize] = -1;
            let along = to.list(&along)?;
            to.apply("Reshape", &[zero, &along])
        }
        _ => return node.refused(" of i32 in blocks"),
    };
    let centered = to.apply("Sub", &[x, &zero]);
    Ok(Some(to.with(operator, &[&centered, scale], &attributes)))
}
