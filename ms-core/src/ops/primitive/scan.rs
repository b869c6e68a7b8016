//! `scan`: a loop over the elements of sequences.

use crate::error::{Code, Error, OrExhausted, Result};
use crate::ops::core::evaluate::evaluate_graph;
use crate::ops::core::regions::{check_carries, check_operands, output_types};
use crate::ops::{Arrays, Batching, Derivative, Lowering, OpDef, RegionRule, Types};
use crate::tensor::{Array, Attrs, DType, Dim, OpInfo, Type, try_room};

/// A loop over sequences, from first to last, or from last to first if attribute `reverse` is set.
///
/// Attribute `length` is the number of iterations; if it is negative, operand 0, an `i64[]`, is the
/// number, and the sequences' first axis is [`Dim::DYNAMIC`]. Then follow `carries` carries,
/// `sequences` sequences with that first axis, and invariants.
///
/// Region 0 takes the carries, one element of each sequence, and the invariants. Its first results
/// become the carries; each further result is an element of a result sequence, at the position of
/// the elements of the iteration.
///
/// Results: the last carries, then the result sequences.
pub static SCAN: OpDef = OpDef {
    info: OpInfo { number: 704, name: "scan", attrs: &["length", "carries", "sequences", "reverse"] },
    infer: |_, _| Err(Error::new(Code::Argument, "the types of a `scan` are those of its region")),
    eval: |_, _| Err(Error::new(Code::Argument, "a `scan` is evaluated with its region")),
    derivative: Derivative::None("its derivative is that of its region"),
    batching: Batching::Derived,
    lowering: Lowering::Regions(RegionRule { count: 1, infer, eval }),
    samples: Vec::new,
};

/// The division of the operands of a `scan`.
pub struct ScanOperands {
    /// The number of iterations, if it is constant.
    pub length: Option<usize>,
    /// The position of the first carry: after the number of iterations, if that is an operand.
    pub carries: usize,
    /// The position of the first sequence.
    pub sequences: usize,
    /// The position of the first invariant.
    pub invariants: usize,
    /// From last to first.
    pub reverse: bool,
}

impl ScanOperands {
    /// The division by a node's attributes.
    pub fn of(attrs: &Attrs) -> Self {
        let length = usize::try_from(attrs.int(0)).ok();
        let carries = if length.is_some() { 0 } else { 1 };
        let sequences = carries + attrs.int(1) as usize;
        let invariants = sequences + attrs.int(2) as usize;
        Self { length, carries, sequences, invariants, reverse: attrs.bool(3) }
    }
}

fn infer(attrs: &Attrs, regions: &crate::ops::Regions, inputs: &[&Type]) -> Result<Types> {
    let at = ScanOperands::of(attrs);
    let body = &regions[0];
    if inputs.len() < at.invariants {
        let message = format!("{} operands, but carries and sequences are {}", inputs.len(), at.invariants);
        return Err(Error::new(Code::Argument, message));
    }
    if at.length.is_none() && *inputs[0] != Type::of(DType::I64, &[]) {
        return Err(Error::new(Code::Argument, format!("the number of iterations is i64[], not {}", inputs[0])));
    }
    let first = at.length.map_or(Dim::DYNAMIC, Dim::new);
    let sequences = &inputs[at.sequences..at.invariants];
    if let Some(other) = sequences.iter().find(|it| it.dims.first() != Some(&first)) {
        return Err(Error::new(Code::Shape, format!("a sequence of {first} elements is needed, not {other}")));
    }
    let elements: Vec<Type> =
        sequences.iter().map(|it| Type::new(it.dtype, it.dims[1..].iter().copied().collect())).collect();
    let carries = &inputs[at.carries..at.sequences];
    let operands: Vec<&Type> =
        carries.iter().copied().chain(&elements).chain(inputs[at.invariants..].iter().copied()).collect();
    check_operands(body, &operands)?;
    check_carries(body, carries)?;
    let stacks = output_types(body).skip(carries.len()).map(|it| it.stacked(first));
    Ok(carries.iter().map(|&it| it.clone()).chain(stacks).collect())
}

fn eval(attrs: &Attrs, regions: &crate::ops::Regions, inputs: &[&Array]) -> Result<Arrays> {
    let at = ScanOperands::of(attrs);
    let count = match at.length {
        Some(length) => length,
        None => usize::try_from(inputs[0].as_slice::<i64>()?[0])
            .map_err(|_| Error::new(Code::Argument, "the number of iterations is negative"))?,
    };
    let mut carries: Vec<Array> = inputs[at.carries..at.sequences].iter().map(|&it| it.clone()).collect();
    let stacked: Vec<&Type> = output_types(&regions[0]).skip(carries.len()).collect();
    let mut rows: Vec<Vec<Array>> = vec![Vec::new(); stacked.len()];
    for step in 0..count {
        let position = if at.reverse { count - 1 - step } else { step };
        let elements: Vec<Array> = inputs[at.sequences..at.invariants].iter().map(|it| element(it, position)).collect();
        let operands: Vec<&Array> =
            carries.iter().chain(&elements).chain(inputs[at.invariants..].iter().copied()).collect();
        let mut results = evaluate_graph(&regions[0], &operands)?.into_iter();
        carries = results.by_ref().take(carries.len()).collect();
        rows.iter_mut().zip(results).for_each(|(rows, row)| rows.push(row));
    }
    if at.reverse {
        rows.iter_mut().for_each(|rows| rows.reverse());
    }
    Ok(carries.into_iter().chain(rows.iter().zip(stacked).map(|(rows, ty)| stack_rows(rows, ty))).collect())
}

/// The element at a position of the first axis.
fn element(sequence: &Array, position: usize) -> Array {
    let row = sequence.layout().slice(0, position, 1, 1);
    let row = row.reshape(&sequence.shape()[1..]).expect("an axis of size one can be left out of any layout");
    sequence.with_layout(row)
}

/// Values of one type along a new first axis.
pub(in crate::ops) fn stack_rows(rows: &[Array], ty: &Type) -> Array {
    let mut shape: Vec<usize> = vec![rows.len()];
    shape.extend(ty.dims.iter().map(|it| it.as_const().expect("an element has a constant shape")));
    let mut bytes = try_room(rows.iter().map(|it| it.numel() * ty.dtype.size()).sum()).or_exhausted();
    rows.iter().for_each(|it| bytes.extend_from_slice(it.to_contiguous().bytes()));
    Array::from_bytes(&shape, ty.dtype, &bytes)
}
