//! How an op runs on many lanes at once: what `vmap` asks of every primitive.

use super::{Lowering, OpDef, concat, definition, expand_dims, full_of, matmul, reshape, transpose};
use crate::error::{OrRaise, Result};
use crate::tensor::{Attr, Attrs, Op, Outputs, Scalar, Tensor, Type, apply};
use smallvec::SmallVec;

/// How an op runs on operands some of which have a further first axis, that of the lanes.
pub enum Batching {
    /// As its lowering says: elementwise ops and products broadcast over the lanes, folds leave
    /// their axis alone, ops without operands are the same for all lanes, and what has no such
    /// form runs on one lane after the other.
    Derived,
    /// A rule, written against [`Tensor`]. Every result has the lanes as its first axis.
    Rule(fn(&Lanes<'_>) -> Outputs),
    /// A rule of an op whose lanes differ even where none of its operands has lanes: each lane
    /// draws numbers of its own.
    Independent(fn(&Lanes<'_>) -> Outputs),
}

/// One application of an op over lanes.
pub struct Lanes<'a> {
    /// Which op.
    pub op: Op,
    /// The attributes, as those of one lane.
    pub attrs: &'a Attrs,
    /// The operands.
    pub inputs: &'a [Tensor],
    /// Which of them have the lanes as their first axis; the others are the same for all lanes.
    pub mapped: &'a [bool],
    /// How many lanes there are.
    pub size: usize,
}

/// The results of an op over lanes, each with the lanes as its first axis.
///
/// # Errors
/// What the op refuses.
pub fn batch(lanes: &Lanes<'_>) -> Result<Outputs> {
    let def = definition(lanes.op);
    match &def.batching {
        Batching::Rule(rule) | Batching::Independent(rule) => Ok(rule(lanes)),
        Batching::Derived => derived(def, lanes),
    }
}

fn derived(def: &OpDef, lanes: &Lanes<'_>) -> Result<Outputs> {
    match def.lowering {
        Lowering::Map(_) => lanes.apply(lanes.attrs, &lanes.aligned()),
        Lowering::Reduce(_) => lanes.apply(&lanes.shifted(0), lanes.inputs),
        Lowering::Product => Ok(SmallVec::from_iter([product(lanes)])),
        _ => lanes.one_by_one(),
    }
}

impl Lanes<'_> {
    /// The op itself on operands that hold all lanes.
    ///
    /// # Errors
    /// What it refuses.
    pub fn apply(&self, attrs: &Attrs, inputs: &[Tensor]) -> Result<Outputs> {
        apply(self.op, attrs, &inputs.iter().collect::<SmallVec<[&Tensor; 3]>>())
    }

    /// The only result of the op on operands that hold all lanes.
    pub fn apply1(&self, attrs: &Attrs, inputs: &[Tensor]) -> Outputs {
        self.apply(attrs, inputs).or_raise()
    }

    /// The rank of an operand in one lane.
    pub fn rank(&self, operand: usize) -> usize {
        self.inputs[operand].rank() - usize::from(self.mapped[operand])
    }

    /// The shape of an operand in one lane.
    pub fn shape(&self, operand: usize) -> &[usize] {
        &self.inputs[operand].shape()[usize::from(self.mapped[operand])..]
    }

    /// An operand with the lanes as its first axis: repeated where it has none.
    pub fn spread(&self, operand: usize) -> Tensor {
        let x = &self.inputs[operand];
        if self.mapped[operand] {
            return x.clone();
        }
        let shape: Vec<usize> = std::iter::once(self.size).chain(x.shape().iter().copied()).collect();
        super::broadcast_to(x, shape)
    }

    /// The attributes with the axis or axes of attribute `i` moved behind that of the lanes.
    pub fn shifted(&self, i: usize) -> Attrs {
        let shift = |(at, attr): (usize, &Attr)| match attr {
            Attr::Int(axis) if at == i => Attr::Int(axis + 1),
            Attr::Ints(axes) if at == i => Attr::Ints(axes.iter().map(|it| it + 1).collect()),
            other => other.clone(),
        };
        Attrs::new(self.attrs.as_slice().iter().enumerate().map(shift))
    }

    /// The operands with axes of size one behind that of the lanes, so that broadcasting meets
    /// the same axes as in one lane.
    fn aligned(&self) -> SmallVec<[Tensor; 3]> {
        let rank = (0..self.inputs.len()).map(|it| self.rank(it)).max().unwrap_or(0);
        let align = |i: usize| {
            let missing = rank - self.rank(i);
            if !self.mapped[i] || missing == 0 {
                return self.inputs[i].clone();
            }
            expand_dims(&self.inputs[i], (1..=missing as isize).collect::<Vec<_>>())
        };
        (0..self.inputs.len()).map(align).collect()
    }

    /// Every lane for itself, and the results side by side.
    ///
    /// # Errors
    /// What the op refuses.
    pub fn one_by_one(&self) -> Result<Outputs> {
        if self.size == 0 {
            return self.no_lanes();
        }
        let lanes: Vec<Outputs> = (0..self.size)
            .map(|lane| {
                let operand = |(x, &mapped): (&Tensor, &bool)| if mapped { lane_of(x, lane) } else { x.clone() };
                self.apply(self.attrs, &self.inputs.iter().zip(self.mapped).map(operand).collect::<Vec<_>>())
            })
            .collect::<Result<_>>()?;
        let joined = |i: usize| concat(&lanes.iter().map(|it| expand_dims(&it[i], 0)).collect::<Vec<_>>(), 0);
        Ok((0..lanes[0].len()).map(joined).collect())
    }

    /// The results of no lanes: empty.
    fn no_lanes(&self) -> Result<Outputs> {
        let types: Vec<Type> =
            (0..self.inputs.len()).map(|it| Type::of(self.inputs[it].dtype(), self.shape(it))).collect();
        let types = (definition(self.op).infer)(self.attrs, &types.iter().collect::<Vec<_>>())?;
        let empty = |ty: &Type| {
            let shape = ty.shape().expect("operands of constant shapes give such results");
            let shape: Vec<usize> = std::iter::once(0).chain(shape).collect();
            full_of(shape, Scalar::Int(0), ty.dtype)
        };
        Ok(types.iter().map(empty).collect())
    }
}

/// The slice of a tensor at a position of its first axis.
pub(crate) fn lane_of(x: &Tensor, lane: usize) -> Tensor {
    reshape(super::slice::narrow(x, 0, lane, 1), &x.shape()[1..])
}

/// A product of matrices over lanes.
fn product(lanes: &Lanes<'_>) -> Tensor {
    let [a, b] = lanes.inputs else { unreachable!("a product has two operands") };
    // One matrix with a column for each lane is a single product of the other order.
    if let ([false, true], &[_, _], &[size, inner, 1]) = (lanes.mapped, a.shape(), b.shape()) {
        let rows = matmul(reshape(b, [size, inner]), transpose(a, 0, 1));
        return reshape(&rows, [size, a.shape()[0], 1]);
    }
    matmul(a, b)
}
