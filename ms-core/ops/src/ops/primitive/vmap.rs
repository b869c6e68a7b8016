//! `vmap`: a region over many lanes, until it is expanded.

use crate::ops::core::regions::output_types;
use crate::ops::{
    Batching, Control, Derivative, Effects, Ints, Lane, Lowering, OpDef, RegionRule, TransformNode, TransformRules,
};
use crate::tensor::{Attrs, Dim, OpInfo, Type};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error};

fn refuse(message: &str) -> Error {
    Error::new(Code::Argument, message).with_op("vmap")
}

/// Applies region 0 to each of `size` lanes. The attributes `operands` and `results` have a [`Lane`] for each operand
/// and result.
pub static VMAP: OpDef = OpDef {
    info: OpInfo { number: 720, name: "vmap", attrs: VmapAttrs::DECLARED },
    infer: |_, _| Err(refuse("the types are those of the graph that is mapped")),
    eval: |_, _| Err(refuse("it is expanded before it is evaluated")),
    effects: Effects::REGIONS,
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
    transforms: &TransformRules {
        derivative: Derivative::None("it is expanded before it is differentiated"),
        finite_derivatives: false,
        batching: Batching::Derived,
        body: None,
    },
};

attributes! {
    /// The attributes of [`VMAP`].
    struct VmapAttrs { size: Dim, operands: [i64] where 0..=2, results: [i64] where 0..=2 }
}

/// Returns the number of lanes, and the [`Lane`] of each operand and each result.
fn form(attrs: &Attrs) -> (Dim, Vec<Lane>, Vec<Lane>) {
    let it = VmapAttrs::of(attrs);
    let lanes = |codes: Ints<'_>| codes.as_slice().map_vec(|&it| Lane::of(it));
    (it.size(), lanes(it.operands()), lanes(it.results()))
}

pub(in crate::ops) fn attrs(size: Dim, operands: &[Lane], results: &[Lane]) -> Attrs {
    let codes = |lanes: &[Lane]| lanes.iter().map(|it| it.code()).collect::<Vec<i64>>();
    VmapAttrs::attrs(size, &codes(operands)[..], &codes(results)[..])
}
