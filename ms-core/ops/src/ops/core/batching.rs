//! Batching rules of primitives, for `vmap`.

use crate::ops::{
    Lowering, OpDef, cast, concat, definition, expand_dims, full_of, iota, matmul, reshape, transform_rules, transpose,
};
use crate::tensor::{Attr, Attrs, DType, Dim, Dims, Op, Outputs, Scalar, Tensor, Type, apply};
use ms_ir::error::{Code, Error, Result};
use smallvec::SmallVec;

/// The batching rule of an op. Under `vmap`, some operands have an additional first axis, the lane axis.
pub enum Batching {
    /// Derives the rule from the lowering. Elementwise ops and matrix products broadcast over the lanes, and reductions
    /// shift their axes. Ops without operands run once for all lanes, and all others run lane by lane.
    Derived,
    /// Applies a rule written against [`Tensor`]. The first axis of every result is the lane axis.
    Rule(fn(&BatchedCall<'_>) -> Result<Outputs>),
    /// Applies a rule of a composite to the operands that it covers. It returns `None` for others, and the ops of the
    /// body are batched instead.
    Partial(fn(&BatchedCall<'_>) -> Option<Result<Outputs>>),
}

/// An application of an op over lanes.
pub struct BatchedCall<'a> {
    /// The op.
    pub op: Op,
    /// The attributes for one lane.
    pub attrs: &'a Attrs,
    /// The operands.
    pub inputs: &'a [Tensor],
    /// Whether each operand has the lane axis; all lanes share the others.
    pub mapped: &'a [bool],
    /// The number of lanes.
    pub size: Dim,
}

/// Applies an op over lanes. The first axis of each result is the lane axis. Returns `None` for a composite with a rule
/// that does not cover these operands.
///
/// # Errors
/// The errors of the op.
pub fn batch(lanes: &BatchedCall<'_>) -> Result<Option<Outputs>> {
    if lanes.size == Dim::new(0) {
        return lanes.empty_results().map(Some);
    }
    let def = definition(lanes.op);
    match &transform_rules(def).batching {
        Batching::Rule(rule) => rule(lanes).map(Some),
        Batching::Partial(rule) => rule(lanes).transpose(),
        Batching::Derived => derived(def, lanes).map(Some),
    }
}

fn derived(def: &OpDef, lanes: &BatchedCall<'_>) -> Result<Outputs> {
    match def.lowering {
        Lowering::Map(_) => lanes.apply(lanes.attrs, &lanes.aligned()),
        Lowering::Reduce(_) => lanes.apply(&lanes.shifted("axes"), lanes.inputs),
        Lowering::Contraction(_) => Ok(SmallVec::from_iter([product(lanes)])),
        _ => lanes.one_by_one(),
    }
}

impl BatchedCall<'_> {
    /// Applies the op itself to operands with all lanes.
    ///
    /// # Errors
    /// The errors of the op.
    pub fn apply(&self, attrs: &Attrs, inputs: &[Tensor]) -> Result<Outputs> {
        apply(self.op, attrs, &inputs.iter().collect::<SmallVec<[&Tensor; 3]>>())
    }

    /// Whether only the first operand has the lane axis.
    pub fn only_first(&self) -> bool {
        self.mapped[0] && !self.mapped[1..].contains(&true)
    }

    /// Returns the rank of an operand in one lane.
    pub fn rank(&self, operand: usize) -> usize {
        self.inputs[operand].rank() - usize::from(self.mapped[operand])
    }

    /// Returns the dimensions of an operand in one lane.
    pub fn dims(&self, operand: usize) -> Dims {
        self.inputs[operand].dims()[usize::from(self.mapped[operand])..].into()
    }

    /// Returns an operand with the lane axis; broadcasts an operand without one.
    pub fn spread(&self, operand: usize) -> Tensor {
        let x = &self.inputs[operand];
        if self.mapped[operand] {
            return x.clone();
        }
        crate::ops::broadcast_to(x, front(self.size, &x.dims()))
    }

    /// Returns the attributes with their names.
    fn named_attrs(&self) -> impl Iterator<Item = (&'static str, &Attr)> {
        self.op.0.attrs.iter().map(|it| it.name).zip(self.attrs.as_slice())
    }

    /// Returns the attributes with the axis or axes of the attribute `name` shifted by one.
    pub fn shifted(&self, name: &str) -> Attrs {
        let shift = |(own, attr): (&str, &Attr)| match attr {
            Attr::Int(axis) if own == name => Attr::Int(axis.saturating_add(1)),
            Attr::Ints(axes) if own == name => Attr::Ints(axes.iter().map(|it| it.saturating_add(1)).collect()),
            other => other.clone(),
        };
        Attrs::new(self.named_attrs().map(shift))
    }

    /// Returns the attributes with a number prepended to the lists of these names.
    pub fn fronted(&self, fronts: &[(&str, Dim)]) -> Attrs {
        let front = |(name, attr): (&str, &Attr)| match (fronts.iter().find(|it| it.0 == name), attr) {
            (Some(&(_, front)), Attr::Ints(list)) => match front.as_known() {
                Some(front) => Attr::Ints(std::iter::once(front).chain(list.iter().copied()).collect()),
                None => Attr::Sizes(std::iter::once(front).chain(list.iter().map(|&it| Dim::signed(it))).collect()),
            },
            (Some(&(_, front)), Attr::Sizes(list)) => {
                Attr::Sizes(std::iter::once(front).chain(list.iter().copied()).collect())
            }
            _ => attr.clone(),
        };
        Attrs::new(self.named_attrs().map(front))
    }

    /// Returns all operands with the lane axis.
    pub fn spread_all(&self) -> SmallVec<[Tensor; 3]> {
        (0..self.inputs.len()).map(|it| self.spread(it)).collect()
    }

    /// Converts an operand of positions `[..]` to rows `[.., 2]` of lane and position, with the lane axis.
    pub fn places(&self, operand: usize) -> Tensor {
        self.prepend_lane(&expand_dims(self.spread(operand), -1))
    }

    /// Converts an operand of positions along several axes, `[.., k]`, to rows `[.., k + 1]` with the lane as first
    /// position.
    pub fn rows(&self, operand: usize) -> Tensor {
        self.prepend_lane(&self.spread(operand))
    }

    fn prepend_lane(&self, positions: &Tensor) -> Tensor {
        let mut shape = positions.dims();
        *shape.last_mut().expect("positions are rows") = Dim::new(1);
        concat(&[iota(shape, 0, DType::I64), cast(positions, DType::I64)], -1)
    }

    /// Applies the op with the lane axis merged into the first axis of all operands, and splits that axis of its
    /// results. Legal for ops that treat all positions of the first axis independently.
    ///
    /// # Errors
    /// The errors of the op.
    pub fn merged(&self) -> Result<Outputs> {
        self.merged_to(self.inputs.len())
    }

    /// Applies [`BatchedCall::merged`] to the first `count` operands; all lanes share the others.
    ///
    /// # Errors
    /// The errors of the op.
    pub fn merged_to(&self, count: usize) -> Result<Outputs> {
        let merge = |i: usize| if i < count { self.merge(&self.spread(i)) } else { self.inputs[i].clone() };
        let outputs = self.apply(self.attrs, &(0..self.inputs.len()).map(merge).collect::<Vec<_>>())?;
        Ok(outputs.iter().map(|it| self.apart(it, 0)).collect())
    }

    /// Applies an elementwise composite whose results all depend on the operand `whole`. Returns `None` unless `whole`
    /// has the largest rank.
    pub fn broadcast(&self, whole: usize) -> Option<Result<Outputs>> {
        let mut inputs = self.aligned();
        let rank = (0..inputs.len()).map(|it| self.rank(it)).max();
        (rank == Some(self.rank(whole))).then(|| {
            inputs[whole] = self.spread(whole);
            self.apply(self.attrs, &inputs)
        })
    }

    /// Merges the first two axes.
    pub fn merge(&self, x: &Tensor) -> Tensor {
        let dims = x.dims();
        reshape(x, front(dims[0] * dims[1], &dims[2..]))
    }

    /// Splits an axis into a lane axis and the rest.
    pub fn apart(&self, x: &Tensor, axis: usize) -> Tensor {
        let mut dims = x.dims();
        dims[axis] = dims[axis] / self.size;
        dims.insert(axis, self.size);
        reshape(x, dims)
    }

    /// Returns the operands with axes of size 1 inserted after the lane axis, so that axes align for broadcasting as in
    /// one lane.
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

    /// Returns the number of lanes.
    ///
    /// # Errors
    /// [`Code::Shape`] if the number is symbolic.
    pub fn count(&self) -> Result<usize> {
        self.size.as_const().ok_or_else(|| {
            let message = format!("`{}` needs a number of lanes that is known, not {}", self.op.name(), self.size);
            Error::new(Code::Shape, message)
        })
    }

    /// Returns the operands of one lane.
    pub fn lane(&self, lane: usize) -> Vec<Tensor> {
        let operand = |(x, &mapped): (&Tensor, &bool)| if mapped { lane_of(x, lane) } else { x.clone() };
        self.inputs.iter().zip(self.mapped).map(operand).collect()
    }

    /// Applies the op lane by lane, and stacks the results.
    ///
    /// # Errors
    /// The errors of the op.
    pub fn one_by_one(&self) -> Result<Outputs> {
        let lanes = (0..self.count()?).map(|lane| self.apply(self.attrs, &self.lane(lane)));
        let lanes: Vec<Outputs> = lanes.collect::<Result<_>>()?;
        let joined = |i: usize| concat(&lanes.iter().map(|it| expand_dims(&it[i], 0)).collect::<Vec<_>>(), 0);
        Ok((0..lanes[0].len()).map(joined).collect())
    }

    /// Returns the empty results of zero lanes.
    fn empty_results(&self) -> Result<Outputs> {
        let types: Vec<Type> =
            (0..self.inputs.len()).map(|it| Type::new(self.inputs[it].dtype(), self.dims(it))).collect();
        let types = (definition(self.op).infer)(self.attrs, &types.iter().collect::<Vec<_>>())?;
        let empty = |ty: &Type| full_of(front(Dim::new(0), &ty.dims), Scalar::Int(0), ty.dtype);
        Ok(types.iter().map(empty).collect())
    }
}

/// Prepends a dimension.
fn front(first: Dim, rest: &[Dim]) -> Dims {
    std::iter::once(first).chain(rest.iter().copied()).collect()
}

/// Returns the slice of a tensor at a position of its first axis.
fn lane_of(x: &Tensor, lane: usize) -> Tensor {
    reshape(crate::ops::slice::narrow(x, 0, lane, 1), &x.dims()[1..])
}

/// Applies a matrix product over lanes.
fn product(lanes: &BatchedCall<'_>) -> Tensor {
    let [a, b] = lanes.inputs else { unreachable!("a product has two operands") };
    // Vectors times a shared matrix are one matrix product.
    let (a_dims, b_dims) = (a.dims(), b.dims());
    if lanes.mapped == [false, true] && a_dims.len() == 2 && b_dims[2] == 1 {
        let rows = matmul(reshape(b, &b_dims[..2]), transpose(a, 0, 1));
        return expand_dims(rows, -1);
    }
    matmul(a, b)
}
