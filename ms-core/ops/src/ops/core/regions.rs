//! Shared rules of ops with regions.

use super::{Arrays, Control, Lowering, RegionRule, Regions, Types, evaluate_graph};
use crate::tensor::{Array, Attrs, DType, Type};
use ms_ir::Graph;
use ms_ir::error::{Code, Error, Result};

/// Returns the lowering of an op that applies its only region to its operands.
pub(in crate::ops) const fn applied(control: fn(&Attrs) -> Control) -> Lowering {
    Lowering::Regions(RegionRule { count: 1, control, infer: infer_applied, eval: eval_applied })
}

fn infer_applied(_: &Attrs, regions: &Regions, inputs: &[&Type]) -> Result<Types> {
    check_operands(&regions[0], inputs)?;
    Ok(output_types(&regions[0]).cloned().collect())
}

fn eval_applied(_: &Attrs, regions: &Regions, inputs: &[&Array]) -> Result<Arrays> {
    Ok(evaluate_graph(&regions[0], inputs)?.into())
}

/// Checks that a region takes operands of these types.
///
/// # Errors
/// [`Code::Argument`] if the region has other inputs.
pub(in crate::ops) fn check_operands(region: &Graph, given: &[&Type]) -> Result<()> {
    let wanted: Vec<_> = region.inputs().iter().map(|&id| region.ty(id)).collect();
    if wanted.len() == given.len() && wanted.iter().zip(given).all(|(wanted, given)| wanted.admits(given)) {
        return Ok(());
    }
    Err(Error::new(Code::Argument, format!("`@{}` takes {wanted:?}, not {given:?}", region.name())))
}

/// Returns the types of a region's outputs.
pub(in crate::ops) fn output_types(region: &Graph) -> impl ExactSizeIterator<Item = &Type> {
    region.outputs().iter().map(|&id| region.ty(id))
}

/// Checks that the first results of a region have the types of the carries.
///
/// # Errors
/// [`Code::Argument`] with the first carry whose type changes.
pub(in crate::ops) fn check_carries(region: &Graph, carries: &[&Type]) -> Result<()> {
    let outputs: Vec<&Type> = output_types(region).collect();
    if outputs.len() < carries.len() {
        let message = format!("`@{}` gives {} results for {} carries", region.name(), outputs.len(), carries.len());
        return Err(Error::new(Code::Argument, message));
    }
    match carries.iter().zip(&outputs).position(|(before, after)| before != after) {
        Some(at) => {
            let (before, after) = (carries[at], outputs[at]);
            let message = format!("carry {at} enters `@{}` as {before} and leaves it as {after}", region.name());
            Err(Error::new(Code::Argument, message))
        }
        None => Ok(()),
    }
}

/// Checks that a value is a condition: a `bool` of rank zero.
///
/// # Errors
/// [`Code::Argument`] if the condition is missing or has another type.
pub(in crate::ops) fn check_condition(condition: Option<&Type>) -> Result<()> {
    match condition {
        Some(ty) if *ty == Type::of(DType::Bool, &[]) => Ok(()),
        Some(ty) => Err(Error::new(Code::Argument, format!("a condition is bool[], not {ty}"))),
        None => Err(Error::new(Code::Argument, "a condition is needed")),
    }
}
