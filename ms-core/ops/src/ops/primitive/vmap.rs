//! `vmap`: a region over many lanes, until it is expanded.

use ms_ir::MapVec;
use crate::ops::core::regions::output_types;
use crate::ops::{Batching, Control, Derivative, Effects, Ints, Lowering, OpDef, RegionRule, TransformNode};
use crate::tensor::{Attrs, Dim, OpInfo, Type};
use ms_ir::error::{Code, Error};

fn refuse(message: &str) -> Error {
    Error::new(Code::Argument, message).with_op("vmap")
}

/// Whether an operand or a result of [`VMAP`] has a lane axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// A value that all lanes share; a result that differs between lanes is an error.
    Shared,
    /// A value per lane, along the first axis.
    Own,
    /// A result that may differ between lanes, of which the largest element is returned: the state of a random
    /// generator.
    Furthest,
}

impl Lane {
    /// Encodes the variant as an attribute.
    pub(in crate::ops) const fn code(self) -> i64 {
        self as i64
    }

    /// Decodes the variant of an attribute.
    const fn of(code: i64) -> Self {
        match code {
            0 => Self::Shared,
            1 => Self::Own,
            _ => Self::Furthest,
        }
    }

    /// Returns the type for all lanes from the type for one.
    fn spread(self, ty: &Type, lanes: Dim) -> Type {
        if self == Self::Own { ty.stacked(lanes) } else { ty.clone() }
    }
}

/// Applies region 0 to each of `size` lanes. The attributes `operands` and `results` have a [`Lane`] for each operand
/// and result.
pub static VMAP: OpDef = OpDef {
    info: OpInfo { number: 720, name: "vmap", attrs: VmapAttrs::DECLARED },
    infer: |_, _| Err(refuse("the types are those of the graph that is mapped")),
    eval: |_, _| Err(refuse("it is expanded before it is evaluated")),
    derivative: Derivative::None("it is expanded before it is differentiated"),
    finite_derivatives: false,
    effects: Effects::REGIONS,
    batching: Batching::Derived,
    lowering: Lowering::Regions(RegionRule {
        count: 1,
        control: |attrs| {
            let (size, operands, results) = form(attrs);
            Control::TransformNode(TransformNode::Vmap { size, operands, results })
        },
        infer: |attrs, regions, inputs| {
            let (lanes, operands, results) = form(attrs);
            let region = &regions[0];
            let wanted = region.inputs().iter().map(|&it| region.ty(it));
            let wanted: Vec<Type> = wanted.zip(&operands).map(|(ty, lane)| lane.spread(ty, lanes)).collect();
            if region.inputs().len() != operands.len() || !wanted.iter().eq(inputs.iter().copied()) {
                return Err(refuse(&format!("`@{}` takes {wanted:?} over lanes, not {inputs:?}", region.name())));
            }
            if region.outputs().len() != results.len() {
                return Err(refuse("one result for each that the graph has"));
            }
            Ok(output_types(region).zip(results).map(|(ty, lane)| lane.spread(ty, lanes)).collect())
        },
        eval: |_, _, _| Err(refuse("it is expanded before it is evaluated")),
    }),
    samples: Vec::new,
};

attributes! {
    /// The attributes of [`VMAP`].
    pub(in crate::ops) struct VmapAttrs { size: Dim, operands: [i64] where 0..=2, results: [i64] where 0..=2 }
}

/// Returns the number of lanes, and the [`Lane`] of each operand and each result.
fn form(attrs: &Attrs) -> (Dim, Vec<Lane>, Vec<Lane>) {
    let it = VmapAttrs::of(attrs);
    let lanes = |codes: Ints<'_>| codes.as_slice().map_vec(|&it| Lane::of(it));
    (it.size(), lanes(it.operands()), lanes(it.results()))
}
