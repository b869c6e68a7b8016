//! From fusion groups to a [`Routine`]: steps, buffers, memory.

use super::emit::{Arg, Emitted, emit};
use super::flatten::{Access, Flat, FlatNode, FlatValue, Kind, NodeIndex, Origin, ValueIndex};
use super::group::Groups;
use super::lines::Numbers;
use super::memory::{self, Lifetime};
use super::nest::Nest;
use super::plan::{
    Argument, Buffer, BufferId, Carry, Loop, Place, Plan, PlanStep, Repeat, Routine, RoutineId, Span, View,
};
use super::region::{Region, RegionLoop, Trips};
use super::reuse::{Reuse, Uses};
use super::routines::Routines;
use super::sink::{sink, transpose_products};
use crate::error::Result;
use crate::ir::{Graph, Role, Scope};
use crate::tensor::Layout;
use rustc_hash::FxHashMap;
use std::panic::Location;

/// How a graph is lowered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LowerOptions {
    /// Whether ops share kernels. It changes no bit of a result.
    pub fuse: bool,
    /// Whether results equal those of running op by op to the bit. Otherwise `a * b + c` within
    /// a kernel is rounded once, and products may be computed transposed, which libraries round
    /// differently.
    pub exact: bool,
}

impl Default for LowerOptions {
    fn default() -> Self {
        Self { fuse: true, exact: true }
    }
}

/// Lowers a graph, and each distinct graph in it once, to a plan.
///
/// # Errors
/// [`Code::Backend`](crate::Code::Backend) for transforms that are not expanded and for symbolic
/// dimensions.
pub fn lower(graph: &Graph, options: &LowerOptions) -> Result<Plan> {
    Ok(Routines::plan(graph, options)?.0)
}

/// [`lower`] of what became of a traced graph: steps that may refuse say which of its nodes they
/// stand for.
///
/// # Errors
/// As for [`lower`].
pub fn lower_traced(graph: &Graph, options: &LowerOptions, traced: &Graph) -> Result<Plan> {
    let (mut plan, located) = Routines::plan(graph, options)?;
    if !located.is_empty() {
        let numbers = Numbers::of(traced);
        for Located { routine, step, line } in located {
            if let PlanStep::Library { node, .. } = &mut plan.routines[routine.0 as usize].steps[step] {
                *node = numbers.number(line);
            }
        }
    }
    Ok(plan)
}

/// The line of a step that may refuse.
pub(super) struct Located {
    pub routine: RoutineId,
    pub step: usize,
    pub line: &'static Location<'static>,
}

/// The routine of a graph; kernels, constants, lines and the routines of its own graphs go to
/// `routines`.
pub(super) fn routine(graph: &Graph, routines: &mut Routines) -> Result<Routine> {
    let options = routines.options;
    let mut flat = Flat::new(graph, routines)?;
    if options.fuse {
        sink(&mut flat);
    }
    if !options.exact {
        transpose_products(&mut flat);
    }
    let groups = Groups::new(&flat, options.fuse);
    let stored = groups.stored(&flat);
    let mut steps = Vec::with_capacity(groups.list.len());
    for group in &groups.list {
        steps.push(match group.domain {
            Some(_) => Draft::Kernel(Box::new(emit(&mut flat, &groups, group, &stored, !options.exact)?)),
            None => Draft::Whole(group.nodes[0]),
        });
    }
    let mut assembly = Assembly { flat: &flat, routines, routine: Routine::default(), buffers: FxHashMap::default() };
    assembly.routine.name = graph.name().to_owned();
    assembly.routine.inputs = graph.inputs().iter().map(|&it| graph.ty(it).clone()).collect();
    assembly.routine.outputs = graph.outputs().iter().map(|&it| graph.ty(it).clone()).collect();
    let uses = Uses::of(&flat, &steps);
    assembly.place(&steps, &uses);
    assembly.routine.reuse = Reuse::of(graph, &flat, &uses);
    assembly.steps(steps);
    Ok(assembly.routine)
}

/// A step whose buffers have no place yet.
pub(super) enum Draft {
    Kernel(Box<Emitted>),
    /// A product, a library op, or a node with graphs.
    Whole(NodeIndex),
}

/// A value that a step touches.
pub(super) struct Use {
    pub value: ValueIndex,
    /// A value that the step reads and may overwrite with this one.
    pub over: Option<ValueIndex>,
}

impl Draft {
    /// The values that the step touches.
    pub fn uses(&self, flat: &Flat) -> Vec<Use> {
        match self {
            Self::Kernel(emitted) => {
                let over = emitted.overwritten(flat);
                emitted.args.iter().zip(over).map(|(it, over)| Use { value: it.value, over }).collect()
            }
            Self::Whole(node) => {
                let node = &flat.nodes[*node];
                let updated = flat.updated(node);
                let over = |value| updated.iter().find(|it| it.0 == value).map(|it| it.1);
                let values = node.inputs.iter().filter_map(Access::value).chain(node.outputs.iter().copied());
                values.map(|value| Use { value, over: over(value) }).collect()
            }
        }
    }
}

impl Emitted {
    /// For each argument that is a result, an operand of its own to be written over.
    fn overwritten(&self, flat: &Flat) -> Vec<Option<ValueIndex>> {
        let operands = self.overwritable(flat);
        let made = |size: usize| {
            operands.iter().filter(move |it| it.1 == size && flat.producer(it.0).is_some()).map(|it| it.0)
        };
        // Several results take several operands.
        let mut results = 0..;
        let over = |arg: &Arg| {
            let at = if arg.role == Role::Output { results.next()? } else { return None };
            let size = if arg.dense { flat.values[arg.value].dtype.size() } else { return None };
            made(size).nth(at).or_else(|| made(size).next())
        };
        self.args.iter().map(over).collect()
    }

    /// Operands that dense results with elements of as many bytes may be written over, and these
    /// bytes: both are walked through in the same order, and every element is read before it is
    /// written.
    pub fn overwritable(&self, flat: &Flat) -> Vec<(ValueIndex, usize)> {
        if self.kernel.stages.iter().any(|it| it.scope != Scope::Point) {
            return Vec::new();
        }
        let operands = || self.args.iter().filter(|it| it.role == Role::Input);
        let mut reads: FxHashMap<ValueIndex, usize> = FxHashMap::default();
        operands().for_each(|it| *reads.entry(it.value).or_default() += 1);
        let fits = |it: &&Arg| it.dense && reads[&it.value] == 1;
        operands().filter(fits).map(|it| (it.value, flat.values[it.value].dtype.size())).collect()
    }
}

struct Assembly<'a> {
    flat: &'a Flat,
    routines: &'a mut Routines,
    routine: Routine,
    buffers: FxHashMap<ValueIndex, BufferId>,
}

impl Assembly<'_> {
    /// Gives every value that a step touches a buffer.
    fn place(&mut self, steps: &[Draft], uses: &Uses) {
        let mut lifetimes: Vec<Lifetime> = Vec::new();
        let mut intermediates: FxHashMap<ValueIndex, usize> = FxHashMap::default();
        for (step, draft) in steps.iter().enumerate() {
            for it in draft.uses(self.flat) {
                if let Some(&known) = intermediates.get(&it.value) {
                    lifetimes[known].last = step;
                } else if !self.buffers.contains_key(&it.value) {
                    let place = match (uses.output_of.get(&it.value), self.flat.values[it.value].origin) {
                        (Some(&output), _) => Place::Output(output),
                        (None, Origin::Input(input)) => Place::Input(input),
                        (None, Origin::Constant(constant)) => self.constant(constant),
                        (None, Origin::Node(_)) => {
                            let over = it.over.and_then(|it| intermediates.get(&it).copied());
                            intermediates.insert(it.value, lifetimes.len());
                            lifetimes.push(Lifetime { bytes: self.bytes(it.value), first: step, last: step, over });
                            Place::Arena(0)
                        }
                    };
                    self.buffer(it.value, place);
                }
            }
        }
        let arena = memory::plan(&lifetimes);
        for (value, index) in intermediates {
            let buffer = self.buffers[&value];
            self.routine.buffers[buffer.0 as usize].place = Place::Arena(arena.offsets[index]);
        }
        self.routine.arena_bytes = arena.bytes;
    }

    fn bytes(&self, value: ValueIndex) -> usize {
        self.flat.numel(value) * self.flat.values[value].dtype.size()
    }

    fn buffer(&mut self, value: ValueIndex, place: Place) {
        self.buffers.insert(value, BufferId(self.routine.buffers.len() as u32));
        self.routine.buffers.push(Buffer { bytes: self.bytes(value), place });
    }

    /// Takes constant data into the plan.
    fn constant(&mut self, index: u32) -> Place {
        Place::Constant(self.routines.constant(&self.flat.constants[index as usize]))
    }

    fn steps(&mut self, steps: Vec<Draft>) {
        for draft in steps {
            let step = match draft {
                Draft::Kernel(emitted) => {
                    let Emitted { kernel, nest, args } = *emitted;
                    let args = args.iter().enumerate().map(|(i, arg)| self.argument(i, arg, &nest)).collect();
                    PlanStep::Kernel { kernel: self.routines.kernel(kernel), extents: nest.extents, args }
                }
                Draft::Whole(node) => {
                    let node = &self.flat.nodes[node];
                    if let (Kind::Library(_), Some(line)) = (node.kind, node.location) {
                        self.routines.located(self.routine.steps.len(), line);
                    }
                    self.whole(node)
                }
            };
            self.routine.steps.push(step);
        }
    }

    fn argument(&self, index: usize, arg: &Arg, nest: &Nest) -> Argument {
        let offset = arg.offset * self.flat.values[arg.value].dtype.size();
        Argument { buffer: self.buffers[&arg.value], offset, strides: nest.strides(index).collect() }
    }

    fn whole(&self, node: &FlatNode) -> PlanStep {
        let mut inputs = node.inputs.iter().map(|it| self.operand(it));
        let mut outputs = node.outputs.iter().map(|&it| self.result(it));
        match node.kind {
            Kind::Library(op) => PlanStep::Library {
                op,
                attrs: node.attrs.clone(),
                inputs: inputs.collect(),
                outputs: outputs.collect(),
                node: None,
            },
            Kind::Product => {
                let mut next = || inputs.next().expect("a product has two operands");
                let (a, b) = (next(), next());
                PlanStep::Product { a, b, out: outputs.next().expect("a product has a result") }
            }
            Kind::Region(number) => {
                drop((inputs, outputs));
                self.region(&self.flat.regions[number], node)
            }
            _ => unreachable!("other ops are kernels"),
        }
    }

    fn region(&self, region: &Region, node: &FlatNode) -> PlanStep {
        let taken: Vec<Span> = node.inputs.iter().map(|it| self.span(it)).collect();
        let given: Vec<Span> = node.outputs.iter().map(|it| Span { buffer: self.buffers[it], offset: 0 }).collect();
        match region {
            Region::Call(routine, _) => PlanStep::Call { routine: *routine, inputs: taken, outputs: given },
            Region::Branch(routines, _) => PlanStep::Branch {
                condition: taken[0],
                routines: *routines,
                inputs: taken[1..].to_vec(),
                outputs: given,
            },
            Region::Loop(region) => PlanStep::Loop(Box::new(repeated(region, &taken, &given))),
        }
    }

    /// Where a row-major operand lies.
    fn span(&self, access: &Access) -> Span {
        let value = access.value().expect("operands of routines are in memory");
        let first = if access.layout.numel() == 0 { 0 } else { access.layout.offset() };
        Span { buffer: self.buffers[&value], offset: first * access.dtype.size() }
    }

    fn operand(&self, access: &Access) -> View {
        let value = access.value().expect("operands of whole steps are in memory");
        View { buffer: self.buffers[&value], dtype: access.dtype, layout: access.layout.clone() }
    }

    fn result(&self, value: ValueIndex) -> View {
        let FlatValue { dtype, shape, .. } = &self.flat.values[value];
        View { buffer: self.buffers[&value], dtype: *dtype, layout: Layout::contiguous(shape) }
    }
}

/// A loop on operands and results as [`RegionLoop`] orders them.
fn repeated(region: &RegionLoop, taken: &[Span], given: &[Span]) -> Loop {
    let mut given = given.iter().copied();
    let mut next_given = || given.next().expect("a loop has as many results as its region says");
    let count = region.next.len();
    let results: Vec<Span> = (0..count).map(|_| next_given()).collect();
    let iterations = matches!(region.trips, Trips::While { counted: true }).then(&mut next_given);
    let series = (0..region.series).map(|_| next_given()).collect();
    let (repeat, taken) = match region.trips {
        Trips::While { .. } => (Repeat::While { first: taken[0], next: next_given(), count: iterations }, &taken[1..]),
        Trips::Times { count, reverse } => (Repeat::Times { count, reverse }, taken),
        Trips::Counted { reverse } => (Repeat::Counted { count: taken[0], reverse }, &taken[1..]),
    };
    let (carries, rest) = taken.split_at(count);
    let (sequences, invariants) = rest.split_at(region.sequences);
    let carry = |((&initial, result), &next)| Carry { initial, result, next };
    Loop {
        body: region.body,
        repeat,
        carries: carries.iter().zip(results).zip(&region.next).map(carry).collect(),
        sequences: sequences.to_vec(),
        invariants: invariants.to_vec(),
        series,
        spares: given.collect(),
    }
}
