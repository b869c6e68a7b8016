//! Builds steps of single ops for eager execution: a small key, a call's argument block, and the step to compile.

mod op;

pub use op::{EagerOp, OperandClass};

use crate::lower::fusion::gather::GatherWalk;
use crate::lower::fusion::nest::{Axis, Nest, Walk, kept_strides};
use crate::lower::plan::IndexedAxis;
use crate::target::Target;
use ms_ir::data::{Array, Attr, AttrKind, Attrs, DType, Layout, Op, Type};
use ms_ir::op::{Lowering, OpDef, ReduceRule, definition};
use ms_ir::{
    ContractionRanks, ContractionTypes, Kernel, KernelBuilder, LaneAxis, Param, ParamId, Precision, Reducer,
    ReductionOrder, Role, Scope, StrideClass, Val,
};
use smallvec::SmallVec;

/// An op in eager execution. Extents, strides and addresses are arguments of a call, so its code serves all shapes of a
/// class.
///
/// `K` is the kernel of the op, or the [`KernelKey`] from which it is built.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step<K = Kernel> {
    /// A generated kernel.
    Kernel(K),
    /// A contraction.
    Contraction {
        /// Determines the order in which terms of floats are added.
        precision: Precision,
        /// The element types of operands and result.
        types: ContractionTypes,
        /// The number of axes of each kind of its operands.
        ranks: ContractionRanks,
    },
    /// An op that the backend's library runs as a whole.
    Library {
        /// The op.
        op: Op,
        /// The attributes.
        attrs: Attrs,
        /// See [`PlanStep::Library`](crate::lower::PlanStep::Library).
        precision: Precision,
        /// The element types of its operands.
        dtypes: SmallVec<[DType; 4]>,
    },
    /// A check of an operand: the kernel that computes its record, and a look at the record. It has no results.
    Check {
        /// The kernel. Its last param is the record. The address of the record in an argument block is zero, since the
        /// device provides the memory.
        kernel: K,
        /// The op.
        op: Op,
        /// The attributes.
        attrs: Attrs,
    },
}

/// The key of a [`Step`].
pub type StepKey = Step<KernelKey>;

impl StepKey {
    /// Returns the key of an op on these operands that is not a kernel: a contraction or a library op.
    pub fn whole(def: &'static OpDef, attrs: &Attrs, operands: &[&Array], precision: Precision) -> Self {
        match def.lowering {
            Lowering::Contraction(ranks) => Self::Contraction {
                precision,
                types: ContractionTypes::of(operands[0].dtype()),
                ranks: ranks(attrs, operands[0].layout().rank()),
            },
            ref lowering => Self::library(def, attrs, operands, lowering.library_precision(precision)),
        }
    }

    /// Returns the key of an op on these operands that the library runs as a whole, in this precision.
    pub fn library(def: &'static OpDef, attrs: &Attrs, operands: &[&Array], precision: Precision) -> Self {
        let dtypes = operands.iter().map(|it| it.dtype()).collect();
        Self::Library { op: def.op(), attrs: attrs.clone(), precision, dtypes }
    }

    /// Builds the step of the key for `target`.
    pub fn build(&self, target: &Target) -> Step {
        match self {
            Self::Kernel(key) => Step::Kernel(key.build(target, KernelKey::value)),
            &Self::Contraction { precision, types, ranks } => Step::Contraction { precision, types, ranks },
            &Self::Library { op, ref attrs, precision, ref dtypes } => {
                Step::Library { op, attrs: attrs.clone(), precision, dtypes: dtypes.clone() }
            }
            Self::Check { kernel, op, attrs } => {
                Step::Check { kernel: kernel.build(target, KernelKey::record), op: *op, attrs: attrs.clone() }
            }
        }
    }
}

impl Step {
    /// Returns the number of words in the argument block of a call. Only kernels and checks have one.
    pub fn call_words(&self) -> usize {
        match self {
            Self::Kernel(kernel) | Self::Check { kernel, .. } => kernel.call_words(),
            Self::Contraction { .. } | Self::Library { .. } => 0,
        }
    }
}

/// The key of the kernel of one op. Extents and strides are not part of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KernelKey {
    /// The op; `None` is a copy to row-major memory.
    op: Option<Op>,
    /// The attributes that the body depends on.
    attrs: Attrs,
    /// Whether each axis of a generated result has one element and thus no loop.
    single: SmallVec<[bool; 4]>,
    lanes: LaneAxis,
    par: u8,
    seq: u8,
    /// The order of a reduction, and the number of its loops that iterate over one row together with the lanes.
    order: ReductionOrder,
    run: u8,
    /// The operands, then the result.
    params: SmallVec<[Param; 4]>,
}

/// An operand of an elementwise op.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// Elements in memory.
    Memory(&'a Layout, DType),
    /// A host scalar, which is an immediate of the kernel.
    Number(DType),
}

/// An op that is a kernel, on concrete operands: its key and loops.
#[derive(Clone, Debug)]
pub struct Call {
    /// The key of its step.
    pub key: StepKey,
    /// The loops over operands in memory and result, in this order.
    pub nest: Nest,
    /// The gathered axis of the first operand, if there is one.
    axis: Option<IndexedAxis>,
}

impl Call {
    #[inline]
    fn new(key: KernelKey, nest: Nest, axis: Option<IndexedAxis>) -> Self {
        Self { key: Step::Kernel(key), nest, axis }
    }

    /// Returns the argument block of the call, of `words` words. It contains the addresses of operands and result, and
    /// the bits of host scalars.
    #[inline]
    pub fn block(
        &self,
        addresses: impl IntoIterator<Item = u64>,
        numbers: &[u64],
        words: usize,
    ) -> SmallVec<[u64; 24]> {
        let mut block = self.nest.argument_block(addresses);
        if let Some(IndexedAxis { stride, extent }) = self.axis {
            block.extend([stride as u64, extent as u64]);
        }
        block.extend_from_slice(numbers);
        // A whole call starts at position zero of all loops.
        block.resize(words, 0);
        block
    }
}

/// Prepares the call of an op on operands of these layouts with a row-major result of type `out`. A reduction has the
/// order of the precision on the target.
///
/// The operands of an op of [`Lowering::Position`] are the elements of its operands, one by one, preceded by the iota.
///
/// Returns `None` in these cases:
///
/// - an elementwise op, see [`prepare_map`];
/// - an op that is not a single kernel (views, products, constants, library ops);
/// - symbolic dimensions;
/// - a reduction whose operand must be copied to row-major memory first ([`crate::lower::fusion::nest`]).
#[inline]
pub fn prepare(
    def: &'static OpDef,
    attrs: &Attrs,
    inputs: &[(&Layout, DType)],
    out: &Type,
    precision: Precision,
    target: &Target,
) -> Option<Call> {
    match &def.lowering {
        Lowering::Position(_) => {
            let shape = out.shape()?;
            let result = Layout::contiguous(&shape);
            let mut operands: SmallVec<[(&Layout, DType); 4]> = SmallVec::new();
            operands.push((&result, DType::I64));
            operands.extend_from_slice(inputs);
            operands.push((&result, out.dtype));
            let nest = Nest::elementwise(&shape, &operands);
            let key = KernelKey::new(Some(def.op()), of_body(def, attrs), &nest, params(Role::Iota, &operands));
            Some(Call::new(key, nest, None))
        }
        Lowering::Gather(axis) => Some(prepare_gather(def, inputs[0], inputs[1], axis(attrs))),
        Lowering::Reduce(rule) => {
            reduction(def, rule, attrs, inputs[0], out.dtype, |it| precision.order(target.relaxed_order, it))
        }
        Lowering::Generate(_) => {
            let shape = out.shape()?;
            let axes: SmallVec<[Axis; 4]> = shape.iter().map(|&size| Axis { size, reduced: false }).collect();
            let walk = Walk { dtype: out.dtype, strides: Layout::contiguous(&shape).strides().into() };
            let fences: SmallVec<[usize; 4]> = (0..axes.len()).collect();
            let nest = Nest::new(&axes, &[walk], &fences, None)?;
            let mut key = KernelKey::new(Some(def.op()), of_body(def, attrs), &nest, [(out.dtype, Role::Output)]);
            key.single = shape.iter().map(|&size| size == 1).collect();
            Some(Call::new(key, nest, None))
        }
        Lowering::Map(_)
        | Lowering::View(_)
        | Lowering::Contraction(_)
        | Lowering::Constant(_)
        | Lowering::Check(_)
        | Lowering::Library
        | Lowering::Spatial(_)
        | Lowering::Update
        | Lowering::Slices(_)
        | Lowering::Composite(_)
        | Lowering::Regions(_) => None,
    }
}

/// Prepares the call of an op of [`Lowering::Map`] with a row-major result of type `out`. Returns `None` for symbolic
/// dimensions.
#[inline]
pub fn prepare_map(def: &'static OpDef, attrs: &Attrs, inputs: &[Source<'_>], out: &Type) -> Option<Call> {
    let shape = out.shape()?;
    let result = Layout::contiguous(&shape);
    let mut operands: SmallVec<[(&Layout, DType); 4]> = SmallVec::new();
    let mut params: SmallVec<[(DType, Role); 4]> = SmallVec::new();
    for input in inputs {
        params.push(match *input {
            Source::Memory(layout, dtype) => {
                operands.push((layout, dtype));
                (dtype, Role::Input)
            }
            Source::Number(dtype) => (dtype, Role::Immediate),
        });
    }
    operands.push((&result, out.dtype));
    params.push((out.dtype, Role::Output));
    let nest = Nest::elementwise(&shape, &operands);
    Some(Call::new(KernelKey::new(Some(def.op()), attrs.clone(), &nest, params), nest, None))
}

/// Returns the params of operands in memory and of the result, which is last. The first operand has the role `first`.
fn params(first: Role, operands: &[(&Layout, DType)]) -> impl Iterator<Item = (DType, Role)> {
    let last = operands.len() - 1;
    let role = move |at: usize| match at {
        _ if at == last => Role::Output,
        0 => first,
        _ => Role::Input,
    };
    operands.iter().enumerate().map(move |(at, it)| (it.1, role(at)))
}

/// Prepares the call that copies a view to row-major memory.
pub fn prepare_copy(layout: &Layout, dtype: DType) -> Call {
    prepare_write(layout, &Layout::contiguous(layout.shape()), dtype)
}

/// Prepares the call that copies a view to another view of the same shape without overlapping elements.
pub fn prepare_write(layout: &Layout, to: &Layout, dtype: DType) -> Call {
    let operands = [(layout, dtype), (to, dtype)];
    let nest = Nest::elementwise(layout.shape(), &operands);
    Call::new(KernelKey::new(None, Attrs::none(), &nest, params(Role::Input, &operands)), nest, None)
}

/// Prepares the call that gathers slices of the first operand, at the indices along `axis` in the second one, into a
/// row-major result.
pub fn prepare_gather(
    def: &'static OpDef,
    (operand, dtype): (&Layout, DType),
    (index, index_dtype): (&Layout, DType),
    axis: usize,
) -> Call {
    let walk = GatherWalk::new(operand, index, axis);
    let result = Layout::contiguous(walk.operand.shape());
    let operands = [(&walk.operand, dtype), (&walk.index, index_dtype), (&result, dtype)];
    let nest = Nest::elementwise(result.shape(), &operands);
    let key = KernelKey::new(Some(def.op()), Attrs::none(), &nest, params(Role::Indexed, &operands));
    Call::new(key, nest, Some(walk.axis.of_dtype(dtype)))
}

/// Prepares the check of an operand of this layout by an op with `sizes` [sizes](OpDef::check_sizes). The operands of
/// the call are the iota, the operand and the record.
pub fn prepare_check(def: &'static OpDef, attrs: &Attrs, operand: (&Layout, DType), sizes: usize) -> Call {
    let shape = operand.0.shape();
    let positions = Layout::contiguous(shape);
    let nest = Nest::exact_reduction(shape, &[(&positions, DType::I64), operand, (&positions, DType::I64)]);
    let sizes = std::iter::repeat_n((DType::I64, Role::Immediate), sizes);
    let params = [(DType::I64, Role::Iota), (operand.1, Role::Input)].into_iter().chain(sizes);
    let params = params.chain([(DType::I64, Role::Output)]);
    let mut kernel = KernelKey::new(Some(def.op()), of_check(def, attrs), &nest, params);
    // One record has the same code as any row, also if the operand is a single element.
    kernel.params.last_mut().expect("the record is a param").step = StrideClass::Zero;
    Call { key: Step::Check { kernel, op: def.op(), attrs: attrs.clone() }, nest, axis: None }
}

fn reduction(
    def: &'static OpDef,
    rule: &ReduceRule,
    attrs: &Attrs,
    input: (&Layout, DType),
    out: DType,
    order_of_chain: impl Fn(usize) -> ReductionOrder,
) -> Option<Call> {
    let (layout, dtype) = input;
    let reduced = (rule.axes)(attrs);
    let axes: SmallVec<[Axis; 4]> = (layout.shape().iter().enumerate())
        .map(|(axis, &size)| Axis { size, reduced: reduced.contains(&axis) })
        .collect();
    let walks = [Walk { dtype, strides: layout.strides().into() }, Walk { dtype: out, strides: kept_strides(&axes) }];
    let nest = Nest::new(&axes, &walks, &[], Some((rule.accumulate)(dtype)))?;
    let mut key = KernelKey::new(Some(def.op()), Attrs::none(), &nest, [(dtype, Role::Input), (out, Role::Output)]);
    let order = order_of_chain(nest.chain((rule.accumulate)(dtype)));
    (key.order, key.run) = (order, order.run(nest.run));
    Some(Call::new(key, nest, None))
}

/// Returns the attributes that the body of a generated op depends on. Attributes that are sizes are blanked.
fn of_body(def: &OpDef, attrs: &Attrs) -> Attrs {
    let own = def.info.attrs.iter().zip(attrs.as_slice());
    Attrs::new(own.map(|(it, attr)| match it.kind {
        AttrKind::Size => Attr::Int(0),
        AttrKind::Sizes => Attr::Ints(SmallVec::new()),
        _ => attr.clone(),
    }))
}

/// Returns the attributes that the body of a check depends on. Its sizes are operands, and text is only in errors.
fn of_check(def: &OpDef, attrs: &Attrs) -> Attrs {
    let own = def.info.attrs.iter().zip(attrs.as_slice());
    Attrs::new(own.map(|(it, attr)| match it.kind {
        AttrKind::Size | AttrKind::Extent => Attr::Int(0),
        AttrKind::Str => Attr::Bool(false),
        _ => attr.clone(),
    }))
}

/// Returns the index along each axis. Axes of one element have no loop.
fn indices(body: &mut KernelBuilder, single: &[bool]) -> SmallVec<[Val; 4]> {
    let mut next = 0;
    let mut index = |single: &bool| {
        if *single {
            return body.constant(0i64, DType::I64);
        }
        next += 1;
        body.index(next - 1)
    };
    single.iter().map(&mut index).collect()
}

impl KernelKey {
    /// Builds the key of an op whose params have these dtypes and roles. Params in memory are the operands of the nest.
    fn new(op: Option<Op>, attrs: Attrs, nest: &Nest, params: impl IntoIterator<Item = (DType, Role)>) -> Self {
        let mut operands = 0..;
        let mut step = |dtype, role| match role {
            Role::Immediate => StrideClass::Zero,
            _ => nest.step(operands.next().expect("the range has no end"), dtype),
        };
        let params = params.into_iter().map(|(dtype, role)| Param { dtype, role, step: step(dtype, role) });
        Self {
            op,
            attrs,
            single: SmallVec::new(),
            lanes: nest.lanes,
            par: nest.par,
            seq: nest.seq,
            order: ReductionOrder::Lanes,
            run: 0,
            params: params.collect(),
        }
    }

    /// Builds the kernel of the key for `target`. `value` builds the result from the params that are read.
    fn build(&self, target: &Target, value: impl Fn(&Self, &mut KernelBuilder, &[ParamId]) -> Val) -> Kernel {
        let mut body = KernelBuilder::new(self.par, self.seq, self.lanes).with_order(self.order, self.run);
        let params: SmallVec<[ParamId; 4]> =
            self.params.iter().map(|it| body.param(it.dtype, it.role, it.step)).collect();
        let (&out, inputs) = params.split_last().expect("a key names its result");
        let value = value(self, &mut body, inputs);
        body.store(out, value);
        body.end_stage(Scope::Point);
        target.expand(body.finish())
    }

    /// Builds the result of the op.
    fn value(&self, body: &mut KernelBuilder, inputs: &[ParamId]) -> Val {
        let out_dtype = self.params[inputs.len()].dtype;
        let lowering = self.op.map(definition).map(|it| &it.lowering);
        let read = &inputs[usize::from(matches!(lowering, Some(Lowering::Gather(_))))..];
        let values: SmallVec<[Val; 4]> = read.iter().map(|&it| body.load(it)).collect();
        match lowering {
            None => values[0],
            Some(Lowering::Gather(_)) => {
                let position = body.cast(values[0], DType::I64);
                body.gather(inputs[0], position)
            }
            Some(Lowering::Map(map) | Lowering::Position(map)) => map(&self.attrs, body, &values),
            Some(Lowering::Generate(generate)) => {
                let position = indices(body, &self.single);
                generate(&self.attrs, body, &position, out_dtype)
            }
            Some(Lowering::Reduce(rule)) => {
                let wide = body.cast(values[0], (rule.accumulate)(body.ty(values[0])));
                let reduced = body.reduce(rule.reducer, wide);
                body.end_stage(Scope::Loop);
                body.cast(reduced, out_dtype)
            }
            Some(_) => unreachable!("`prepare` makes keys of other ops only"),
        }
    }

    /// Builds the record of the op's check.
    fn record(&self, body: &mut KernelBuilder, inputs: &[ParamId]) -> Val {
        let op = self.op.expect("a check is of an op");
        let values: SmallVec<[Val; 4]> = inputs.iter().map(|&it| body.load(it)).collect();
        let term = definition(op).build_check(&self.attrs, body, &values);
        let record = body.reduce(Reducer::Min, term);
        body.end_stage(Scope::Loop);
        record
    }
}

#[cfg(test)]
mod tests;
