//! `scan`: a loop over the elements of sequences.

use crate::ops::core::host::dense;
use crate::ops::core::regions::{check_carries, check_operands, output_types};
use crate::ops::evaluate_graph;
use crate::ops::{
    Arrays, Batching, Control, Derivative, Effects, Loop, Lowering, OpDef, RegionRule, TransformRules, Types,
};
use crate::tensor::{Array, Attr, Attrs, DType, Dim, OpInfo, Type, try_room};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, OrExhausted, Result};

/// Runs a loop over sequences, from first to last, or from last to first if attribute `reverse` is set.
///
/// Attribute `length` is the number of iterations. If it is negative, operand 0, an `i64[]`, is the number, and the
/// sequences' first axis is [`Dim::DYNAMIC`]. Then follow `carries` carries, `sequences` sequences with that first
/// axis, and invariants.
///
/// Region 0 takes the carries, one element of each sequence, and the invariants. Its first results become the carries.
/// Each further result is an element of a result sequence, at the position of the elements of the iteration.
///
/// The results are the last carries, then the result sequences.
pub static SCAN: OpDef = OpDef {
    info: OpInfo { number: 704, name: "scan", attrs: ScanAttrs::DECLARED },
    infer: |_, _| Err(Error::new(Code::Argument, "the types of a `scan` are those of its region")),
    eval: |_, _| Err(Error::new(Code::Argument, "a `scan` is evaluated with its region")),
    effects: Effects::REGIONS,
    lowering: Lowering::Regions(RegionRule { count: 1, control: |attrs| Control::Loop(form(attrs)), infer, eval }),
    samples: Vec::new,
    transforms: &TransformRules {
        derivative: Derivative::None("transforms differentiate its region"),
        finite_derivatives: false,
        batching: Batching::Derived,
        body: None,
    },
};

attributes! {
    /// The attributes of [`SCAN`].
    struct ScanAttrs { length: i64 where -1..=i64::MAX, carries: usize, sequences: usize, reverse: bool }
}

fn form(attrs: &Attrs) -> Loop {
    let it = ScanAttrs::of(attrs);
    Loop::scan(usize::try_from(it.length()).ok(), it.carries(), it.sequences(), it.reverse())
}

pub(in crate::ops) fn attrs(at: &Loop) -> Attrs {
    let length = at.length().map_or(Attr::Int(-1), Attr::from);
    ScanAttrs::attrs(length, at.carries, at.sequences, at.reverse())
}

fn infer(attrs: &Attrs, regions: &crate::ops::Regions, inputs: &[&Type]) -> Result<Types> {
    let (at, body) = (form(attrs), &regions[0]);
    let needed = at.first_carry() + at.invariants();
    if inputs.len() < needed {
        let message = format!("{} operands, but carries and sequences are {needed}", inputs.len());
        return Err(Error::new(Code::Argument, message));
    }
    if at.is_counted() && *inputs[0] != Type::of(DType::I64, &[]) {
        return Err(Error::new(Code::Argument, format!("the number of iterations is i64[], not {}", inputs[0])));
    }
    let first = at.length().map_or(Dim::DYNAMIC, Dim::new);
    let own = &inputs[at.first_carry()..];
    let (carries, sequences) = (&own[..at.carries], &own[at.elements()]);
    if let Some(other) = sequences.iter().find(|it| it.dims.first() != Some(&first)) {
        return Err(Error::new(Code::Shape, format!("a sequence of {first} elements is needed, not {other}")));
    }
    let elements: Vec<Type> = sequences.map_vec(|it| Type::new(it.dtype, it.dims[1..].iter().copied().collect()));
    let operands: Vec<&Type> =
        carries.iter().copied().chain(&elements).chain(own[at.invariants()..].iter().copied()).collect();
    check_operands(body, &operands)?;
    check_carries(body, carries)?;
    let stacks = output_types(body).skip(carries.len()).map(|it| it.stacked(first));
    Ok(carries.iter().map(|&it| it.clone()).chain(stacks).collect())
}

fn eval(attrs: &Attrs, regions: &crate::ops::Regions, inputs: &[&Array]) -> Result<Arrays> {
    let at = form(attrs);
    let own = &inputs[at.first_carry()..];
    let count = match at.length() {
        Some(length) => length,
        None => usize::try_from(inputs[0].on_host()?.as_slice::<i64>()?[0])
            .map_err(|_| Error::new(Code::Argument, "the number of iterations is negative"))?,
    };
    let mut carries: Vec<Array> = own[..at.carries].map_vec(|&it| it.clone());
    let stacked: Vec<&Type> = output_types(&regions[0]).skip(carries.len()).collect();
    let mut rows: Vec<Vec<Array>> = vec![Vec::new(); stacked.len()];
    for step in 0..count {
        let position = if at.reverse() { count - 1 - step } else { step };
        let elements: Vec<Array> = own[at.elements()].map_vec(|it| element(it, position));
        let operands: Vec<&Array> =
            carries.iter().chain(&elements).chain(own[at.invariants()..].iter().copied()).collect();
        let mut results = evaluate_graph(&regions[0], &operands)?.into_iter();
        carries = results.by_ref().take(carries.len()).collect();
        rows.iter_mut().zip(results).for_each(|(rows, row)| rows.push(row));
    }
    if at.reverse() {
        rows.iter_mut().for_each(|rows| rows.reverse());
    }
    let stacks = rows.iter().zip(stacked).map(|(rows, ty)| stack_rows(rows, ty));
    carries.into_iter().map(Ok).chain(stacks).collect()
}

/// Returns the element at a position of the first axis.
fn element(sequence: &Array, position: usize) -> Array {
    let row = sequence.layout().slice(0, position, 1, 1);
    let row = row.reshape(&sequence.shape()[1..]).expect("an axis of size one can be left out of any layout");
    sequence.with_layout(row)
}

/// Stacks values of one type along a new first axis.
pub(in crate::ops) fn stack_rows(rows: &[Array], ty: &Type) -> Result<Array> {
    let mut shape: Vec<usize> = vec![rows.len()];
    shape.extend(ty.dims.iter().map(|it| it.as_const().expect("an element has a constant shape")));
    let mut bytes = try_room(rows.iter().map(|it| it.numel() * ty.dtype.size()).sum()).or_exhausted();
    for row in rows {
        bytes.extend_from_slice(dense(row)?.bytes());
    }
    Ok(Array::from_bytes(&shape, ty.dtype, &bytes))
}
