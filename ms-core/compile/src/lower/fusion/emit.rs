//! Emits the kernel of a fusion group: its operands, loops and body.

use crate::lower::fusion::body::apply;
use crate::lower::fusion::domain::{AxisSet, Domain};
use crate::lower::fusion::emitted::{Arg, Emitted, ParamAccess};
use crate::lower::fusion::gather::Positions;
use crate::lower::fusion::group::{Group, Groups, operand_axes, result_axes};
use crate::lower::fusion::nest::{Nest, Walk};
use crate::lower::fusion::simplify::simplify;
use crate::lower::fusion::slices::{Slice, Stores};
use crate::lower::fusion::stage::Stages;
use crate::lower::plan::routines::Routines;
use crate::lower::rewrites::flat::{Access, Flat, Kind, NodeIndex, Origin, Source, ValueIndex};
use crate::target::Target;
use ms_ir::data::{DType, Layout, Strides};
use ms_ir::error::{Code, Error, Result};
use ms_ir::{BinaryOp, Kernel, KernelBuilder, ParamId, Role, Scope, Val};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::rc::Rc;

/// Emits the kernel of a group into `routines`. `stores` determines where its values are written.
///
/// Adds to `flat` the values that the kernel spills to memory between its loops.
pub(in crate::lower) fn emit(
    flat: &mut Flat,
    groups: &Groups,
    group: &Group,
    stores: &Stores,
    target: &Target,
    routines: &mut Routines,
) -> Result<Emitted> {
    let precision = routines.precision();
    let stages = Stages::new(flat, groups, group, stores, target);
    let operands = Operands::gather(flat, group, &stages, stores)?;
    let domain = group.domain.as_ref().expect("only kernels are emitted");
    let nodes = group.nodes.iter().map(|&it| &flat.nodes[it]);
    let generates = nodes.clone().any(|it| matches!(it.kind, Kind::Generate(_)));
    // Axes are not merged where loops must correspond to them: in epilogues and generated values.
    let apart = match (generates, group.rows, group.op) {
        (false, Some(rows), _) => domain.axes().len().min(rows + 1),
        (true, ..) | (_, _, Some(_)) => domain.axes().len(),
        _ => 0,
    };
    let fences: SmallVec<[usize; 4]> = (0..apart).collect();
    // All reductions of a kernel have the same number of accumulators.
    let accumulator = nodes.clone().find_map(|it| match it.kind {
        Kind::Reduce(rule) => Some((rule.accumulate)(it.inputs[0].dtype)),
        _ => None,
    });
    let nest = Nest::new(domain.axes(), &operands.walks, &fences, accumulator)
        .ok_or_else(|| Error::new(Code::Verify, "a fusion group's operands fit its reduction"))?;
    let order = precision.order(target.relaxed_order, accumulator.map_or(0, |it| nest.chain(it)));
    let mut body = KernelBuilder::new(nest.par, nest.seq, nest.lanes).with_order(order, order.run(nest.run));
    for (i, (arg, walk)) in operands.args.iter().zip(&operands.walks).enumerate() {
        body.param(walk.dtype, arg.role, nest.step(i, walk.dtype));
    }
    let emitter = Emitter {
        flat,
        domain,
        operands: &operands,
        members: &group.nodes,
        body,
        points: FxHashMap::default(),
        reductions: FxHashMap::default(),
    };
    let kernel = simplify(target.expand(emitter.run(&stages)), precision.is_relaxed());
    debug_assert!(kernel.check().and_then(|()| target.check(&kernel)).is_ok(), "{kernel:?}");
    debug_assert!(group.nodes.len() == 1 || kernel.call_words() <= target.budget.words, "{kernel:?}");
    let accesses = ParamAccess::of(&kernel);
    Ok(Emitted { kernel: routines.kernel(kernel), nest: Rc::new(nest), accesses, args: operands.args })
}

/// The buffers of a kernel and their strides over the domain.
#[derive(Default)]
struct Operands {
    args: Vec<Arg>,
    walks: Vec<Walk>,
    /// Params that are read, by value, first element and strides.
    read: FxHashMap<(ValueIndex, usize, Strides), ParamId>,
    /// Params that are gathered from, by value, first element, strides and axis.
    indexed: FxHashMap<(ValueIndex, usize, Strides, Positions), ParamId>,
    written: FxHashMap<ValueIndex, ParamId>,
    /// Params that are slices of other values, by the value that is written to them.
    slices: FxHashMap<ValueIndex, Vec<ParamId>>,
}

impl Operands {
    fn gather(flat: &mut Flat, group: &Group, stages: &Stages, stores: &Stores) -> Result<Self> {
        let domain = group.domain.as_ref().expect("only kernels are emitted");
        let mut out = Self::default();
        let misfit = || Error::new(Code::Verify, "a fusion group's operands fit its domain");
        let dense_part = |value: ValueIndex, layout: &Layout, strides: &Strides| {
            let is_whole = |it: &AxisSet| flat.numel(value) == domain.numel(*it) && *strides == domain.dense(*it);
            [AxisSet::All, AxisSet::NotReduced].into_iter().find(|it| layout.offset() == 0 && is_whole(it))
        };
        let inside = |value: ValueIndex| flat.producer(value).is_some_and(|it| group.nodes.binary_search(&it).is_ok());
        for &index in &group.nodes {
            let node = &flat.nodes[index];
            let part = operand_axes(flat, node, domain).ok_or_else(misfit)?;
            for (at, access) in node.inputs.iter().enumerate() {
                let Some(value) = access.value().filter(|&it| !inside(it)) else { continue };
                let strides = domain.walk(part, &access.layout).ok_or_else(misfit)?;
                if at == 0
                    && let Kind::Gather { axis, .. } = node.kind
                {
                    let offset = access.layout.offset();
                    let key = (value, offset, strides, axis);
                    if !out.indexed.contains_key(&key) {
                        let bytes = Some(axis.of_dtype(access.dtype));
                        let arg = Arg { value, role: Role::Indexed, offset, axis: bytes, dense: None };
                        let param = out.push(arg, access.dtype, key.2.clone());
                        out.indexed.insert(key, param);
                    }
                    continue;
                }
                let key = (value, access.layout.offset(), strides);
                if out.read.contains_key(&key) {
                    continue;
                }
                let dense = dense_part(value, &access.layout, &key.2);
                let role = if flat.values[value].origin == Origin::Position { Role::Iota } else { Role::Input };
                let arg = Arg { value, role, offset: access.layout.offset(), axis: None, dense };
                let param = out.push(arg, access.dtype, key.2.clone());
                out.read.insert(key, param);
            }
        }
        let results = group.nodes.iter().flat_map(|&it| flat.nodes[it].outputs.iter().copied());
        for value in results.filter(|&it| stores.is_written(it)) {
            let part = result_axes(flat, value, domain).ok_or_else(misfit)?;
            let dtype = flat.values[value].dtype;
            if stores.has_own(value) {
                let arg = Arg { value, role: Role::Output, offset: 0, axis: None, dense: Some(part) };
                let param = out.push(arg, dtype, domain.dense(part));
                out.written.insert(value, param);
            }
            for Slice { whole, layout } in stores.slices(value) {
                let strides = domain.walk(part, layout).ok_or_else(misfit)?;
                let dense = dense_part(*whole, layout, &strides);
                let arg = Arg { value: *whole, role: Role::Output, offset: layout.offset(), axis: None, dense };
                let param = out.push(arg, dtype, strides);
                out.slices.entry(value).or_default().push(param);
            }
        }
        out.place_scratch(flat, domain, stages);
        for value in stages.rounds.iter().flat_map(|it| &it.reloaded) {
            let role = &mut out.args[out.written[value].0 as usize].role;
            if *role == Role::Output {
                *role = Role::Reloaded;
            }
        }
        Ok(out)
    }

    /// Assigns memory to values that are passed between loops. Such a value gets the memory of a result that is first
    /// written after the value's last read, or a separate buffer. A loop reads an element before it writes one. So the
    /// loop with the last read of a value may write its memory.
    fn place_scratch(&mut self, flat: &mut Flat, domain: &Domain, stages: &Stages) {
        /// Memory that values use one after the other.
        struct BufferLocation {
            param: ParamId,
            dtype: DType,
            /// The last loop that reads its current value.
            last: Option<usize>,
            /// The loop that writes the result that owns this memory.
            end: Option<usize>,
        }
        let results = stages.rounds.iter().flat_map(|it| &it.stored).copied();
        let mut places: Vec<BufferLocation> = results
            .filter(|it| !stages.scratch.contains(it))
            .filter_map(|it| {
                let (param, dtype) = (*self.written.get(&it)?, flat.values[it].dtype);
                Some(BufferLocation { param, dtype, last: None, end: stages.stored_in(it) })
            })
            .collect();
        let mut values = stages.scratch.clone();
        values.sort_by_key(|&it| stages.stored_in(it));
        for value in values {
            let (dtype, first, last) = (flat.values[value].dtype, stages.stored_in(value), stages.last_reload(value));
            let fits = |it: &&mut BufferLocation| {
                it.dtype == dtype && it.last <= first && it.end.is_none_or(|end| last <= Some(end))
            };
            if let Some(place) = places.iter_mut().find(fits) {
                place.last = last;
                self.written.insert(value, place.param);
                continue;
            }
            let (shape, origin) = (flat.values[value].shape.clone(), flat.values[value].origin);
            let own = flat.add_value(dtype, shape, origin);
            let arg = Arg { value: own, role: Role::Scratch, offset: 0, axis: None, dense: Some(AxisSet::All) };
            let param = self.push(arg, dtype, domain.dense(AxisSet::All));
            places.push(BufferLocation { param, dtype, last, end: None });
            self.written.insert(value, param);
        }
    }

    fn push(&mut self, arg: Arg, dtype: DType, strides: Strides) -> ParamId {
        self.args.push(arg);
        self.walks.push(Walk { dtype, strides });
        ParamId(self.args.len() as u32 - 1)
    }
}

struct Emitter<'a> {
    flat: &'a Flat,
    domain: &'a Domain,
    operands: &'a Operands,
    /// The nodes of the group, in order.
    members: &'a [NodeIndex],
    body: KernelBuilder,
    /// Values that are visible in all later stages.
    points: FxHashMap<Key, Val>,
    /// Reductions whose results are still in the dtype of their accumulators.
    reductions: FxHashMap<NodeIndex, Val>,
}

/// The key of a value in the body.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    /// The result of a member.
    Result(ValueIndex),
    /// An element of a buffer.
    Load(ParamId),
}

impl Emitter<'_> {
    fn run(mut self, stages: &Stages) -> Kernel {
        for (level, points) in stages.points.iter().enumerate() {
            self.point(points);
            if let Some(round) = stages.rounds.get(level) {
                let mut local = FxHashMap::default();
                for value in &round.reloaded {
                    let val = self.body.load(self.operands.written[value]);
                    local.insert(Key::Result(*value), val);
                }
                for &index in &round.computed {
                    self.node(index, AxisSet::All, &mut local);
                }
                for value in &round.stored {
                    self.store(*value, local[&Key::Result(*value)]);
                }
                self.body.end_stage(Scope::Loop);
            }
        }
        self.body.finish()
    }

    /// Emits the instructions that run once per point: the results of the previous loop, then the members.
    fn point(&mut self, members: &[NodeIndex]) {
        let mut finished: Vec<(NodeIndex, Val)> = self.reductions.drain().collect();
        finished.sort_unstable_by_key(|it| it.0);
        let mut results = Vec::new();
        for (index, val) in finished {
            let value = self.flat.nodes[index].outputs[0];
            let val = self.body.cast(val, self.flat.values[value].dtype);
            self.points.insert(Key::Result(value), val);
            results.push(value);
        }
        let mut points = std::mem::take(&mut self.points);
        for &index in members {
            self.node(index, AxisSet::NotReduced, &mut points);
            results.push(self.flat.nodes[index].outputs[0]);
        }
        self.points = points;
        for value in results {
            self.store(value, self.points[&Key::Result(value)]);
        }
        self.body.end_stage(Scope::Point);
    }

    /// Writes a value to all its locations.
    fn store(&mut self, value: ValueIndex, val: Val) {
        let own = self.operands.written.get(&value);
        let slices = self.operands.slices.get(&value).into_iter().flatten();
        own.into_iter().chain(slices).for_each(|&param| self.body.store(param, val));
    }

    /// Emits one member; `local` contains the values of the stage.
    fn node(&mut self, index: NodeIndex, stage: AxisSet, local: &mut FxHashMap<Key, Val>) {
        let node = &self.flat.nodes[index];
        let result = node.outputs[0];
        let part = operand_axes(self.flat, node, self.domain).expect("members fit the domain");
        if let Kind::Gather { axis, .. } = node.kind {
            let position = self.operand(&node.inputs[1], part, stage, local);
            let position = self.body.cast(position, DType::I64);
            let element = self.body.gather(self.indexed(&node.inputs[0], part, axis), position);
            local.insert(Key::Result(result), element);
            return;
        }
        let values: SmallVec<[Val; 4]> = match node.kind {
            Kind::Generate(_) => self.position(result),
            _ => node.inputs.iter().map(|it| self.operand(it, part, stage, local)).collect(),
        };
        if let Kind::Reduce(rule) = node.kind {
            let wide = self.body.cast(values[0], (rule.accumulate)(node.inputs[0].dtype));
            let reduced = self.body.reduce(rule.reducer, wide);
            self.reductions.insert(index, reduced);
            return;
        }
        let val = apply(self.flat, node, &mut self.body, &values);
        local.insert(Key::Result(result), val);
    }

    fn operand(&mut self, access: &Access, part: AxisSet, stage: AxisSet, local: &mut FxHashMap<Key, Val>) -> Val {
        let value = match access.source {
            Source::Splat(scalar) => return self.body.constant(scalar, access.dtype),
            Source::Value(value) => value,
        };
        let inside = self.flat.producer(value).is_some_and(|it| self.members.binary_search(&it).is_ok());
        let key = if inside {
            Key::Result(value)
        } else {
            let strides = self.domain.walk(part, &access.layout).expect("the operand was gathered with this walk");
            Key::Load(self.operands.read[&(value, access.layout.offset(), strides)])
        };
        if let Some(&val) = local.get(&key).or_else(|| self.points.get(&key)) {
            return val;
        }
        let Key::Load(param) = key else { unreachable!("a member comes after those that it reads") };
        debug_assert!(stage == AxisSet::All || part == AxisSet::NotReduced || !self.domain.is_reduced());
        let val = self.body.load(param);
        local.insert(key, val);
        val
    }

    /// Returns the param of the buffer that a gather reads.
    fn indexed(&self, access: &Access, part: AxisSet, axis: Positions) -> ParamId {
        let value = access.value().expect("what is read at positions is in memory");
        let strides = self.domain.walk(part, &access.layout).expect("the operand was gathered with this walk");
        self.operands.indexed[&(value, access.layout.offset(), strides, axis)]
    }

    /// Returns the index along each axis of a generated value, whose group has one loop per axis.
    fn position(&mut self, value: ValueIndex) -> SmallVec<[Val; 4]> {
        let shape = &self.flat.values[value].shape;
        let axes = self.domain.axes();
        let mut next = axes.len();
        let mut position: SmallVec<[Val; 4]> = SmallVec::new();
        for &size in shape.iter().rev() {
            let (mut index, mut inner) = (None, 1);
            while inner < size {
                next -= 1;
                let loop_index = self.body.index(next as u8);
                let scaled = if inner == 1 {
                    loop_index
                } else {
                    let factor = self.body.constant(inner as i64, DType::I64);
                    self.body.binary(BinaryOp::Mul, loop_index, factor)
                };
                index = Some(match index {
                    Some(index) => self.body.binary(BinaryOp::Add, index, scaled),
                    None => scaled,
                });
                inner *= axes[next].size;
            }
            position.push(index.unwrap_or_else(|| self.body.constant(0i64, DType::I64)));
        }
        position.reverse();
        position
    }
}
