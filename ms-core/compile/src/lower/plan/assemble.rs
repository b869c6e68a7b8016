//! Assembles steps into a [`Routine`]: assigns buffers and memory.

use crate::lower::fusion::emitted::{Arg, Emitted};
use crate::lower::fusion::nest::Nest;
use crate::lower::plan::draft::Draft;
use crate::lower::plan::memory::{self, Lifetime};
use crate::lower::plan::reuse::Uses;
use crate::lower::plan::routines::Routines;
use crate::lower::plan::schedule::step_may_fail;
use crate::lower::plan::{
    Argument, Buffer, BufferId, BufferLocation, Carry, ContractionResult, ContractionStep, Epilogue, EpilogueLoops,
    KernelCall, Loop, PlanOp, PlanStep, Repeat, Routine, Span, View,
};
use crate::lower::rewrites::flat::{
    Access, Check, Flat, FlatNode, FlatValue, Kind, Origin, Region, RegionLoop, TripCount, ValueIndex,
};
use ms_ir::MapVec;
use ms_ir::data::Layout;
use ms_ir::{Contraction, Graph, ParamId};

/// Builds the routine of a graph that was lowered to `steps`. Adds kernels, constants and source locations to
/// `routines`.
pub(in crate::lower) fn assemble(graph: &Graph, flat: &Flat, steps: Vec<Draft>, routines: &mut Routines) -> Routine {
    let mut assembly = Assembly { flat, routines, routine: Routine::default(), buffers: vec![None; flat.values.len()] };
    assembly.routine.name = graph.name().to_owned();
    assembly.routine.inputs = graph.inputs().map_vec(|&it| graph.ty(it).clone());
    assembly.routine.outputs = graph.outputs().map_vec(|&it| graph.ty(it).clone());
    let uses = Uses::of(flat, &steps);
    let may_fail = |it: &Draft| step_may_fail(flat, it, assembly.routines);
    let fallible = steps.iter().rposition(may_fail).map_or(0, |last| last as u32 + 1);
    assembly.routine.reuse = uses.reuse(graph, flat, fallible);
    assembly.place(&steps, &uses);
    assembly.steps(steps);
    assembly.routine
}

struct Assembly<'a> {
    flat: &'a Flat,
    routines: &'a mut Routines,
    routine: Routine,
    /// The buffer of each value, if a step accesses it.
    buffers: Vec<Option<BufferId>>,
}

impl Assembly<'_> {
    /// Assigns a buffer to every value that a step accesses.
    fn place(&mut self, steps: &[Draft], uses: &Uses) {
        let mut lifetimes: Vec<Lifetime> = Vec::new();
        // Most steps write a value that no other step writes.
        self.routine.buffers.reserve(steps.len());
        // The lifetime in the arena of each value.
        let mut intermediates: Vec<Option<usize>> = vec![None; self.flat.values.len()];
        for (step, draft) in steps.iter().enumerate() {
            for it in draft.uses(self.flat) {
                if let Some(known) = intermediates[it.value] {
                    lifetimes[known].last = step;
                } else if self.buffers[it.value].is_none() {
                    let place = match (uses.output_of.get(&it.value), self.flat.values[it.value].origin) {
                        (Some(&output), _) => BufferLocation::Output(output),
                        (None, Origin::Input(input)) => BufferLocation::Input(input),
                        (None, Origin::Constant(constant)) => self.constant(constant),
                        (None, Origin::Position) => BufferLocation::Position,
                        (None, Origin::Node(_)) => {
                            let over = it.over.and_then(|it| intermediates[it]);
                            intermediates[it.value] = Some(lifetimes.len());
                            lifetimes.push(Lifetime { bytes: self.bytes(it.value), first: step, last: step, over });
                            BufferLocation::Arena(0)
                        }
                    };
                    self.buffer(it.value, place);
                }
            }
        }
        let arena = memory::plan(&lifetimes);
        for (value, index) in intermediates.into_iter().enumerate() {
            let Some(index) = index else { continue };
            let buffer = self.buffer_of(value);
            self.routine.buffers[buffer.0 as usize].place = BufferLocation::Arena(arena.offsets[index]);
        }
        self.routine.arena_bytes = arena.bytes;
    }

    fn bytes(&self, value: ValueIndex) -> usize {
        self.flat.numel(value).saturating_mul(self.flat.values[value].dtype.size())
    }

    fn buffer(&mut self, value: ValueIndex, place: BufferLocation) {
        self.buffers[value] = Some(BufferId(self.routine.buffers.len() as u32));
        self.routine.buffers.push(Buffer { bytes: self.bytes(value), place });
    }

    /// The buffer of a value that a step accesses.
    fn buffer_of(&self, value: ValueIndex) -> BufferId {
        self.buffers[value].expect("values that steps access have buffers")
    }

    /// Adds constant data to the plan.
    fn constant(&mut self, index: u32) -> BufferLocation {
        BufferLocation::Constant(self.routines.constant(&self.flat.constants[index as usize]))
    }

    fn steps(&mut self, steps: Vec<Draft>) {
        self.routine.steps.reserve_exact(steps.len());
        for draft in steps {
            let step = match draft {
                Draft::Kernel(ref emitted) => PlanStep::Kernel(self.call(emitted)),
                Draft::Kernels(ref all) => PlanStep::Kernels(all.map_vec(|it| self.call(it))),
                Draft::Contraction(node, epilogues) => {
                    let node = &self.flat.nodes[node];
                    let mut step = self.contraction(node, ContractionResult::Epilogues(Vec::new()));
                    let epilogue = |it| self.epilogue(&step.contraction, node.outputs[0], it);
                    step.result = ContractionResult::Epilogues(epilogues.into_iter().map(epilogue).collect());
                    PlanStep::Contraction(Box::new(step))
                }
                Draft::Whole(node) | Draft::Library(node, _) => {
                    let node = &self.flat.nodes[node];
                    if let (Kind::Library(_) | Kind::Check(_), Some(line)) = (node.kind, node.location) {
                        self.routines.located(self.routine.steps.len(), line);
                    }
                    let mut step = self.whole(node);
                    if let (PlanStep::Library { epilogues, .. }, Draft::Library(_, all)) = (&mut step, &draft) {
                        epilogues.extend(all.iter().map(|it| self.call(it)));
                    }
                    step
                }
            };
            self.routine.steps.push(step);
        }
    }

    fn call(&self, emitted: &Emitted) -> KernelCall {
        let Emitted { kernel, nest, args, .. } = emitted;
        let args = args.iter().enumerate().map(|(i, arg)| self.argument(i, arg, nest)).collect();
        KernelCall { kernel: *kernel, extents: nest.extents.clone(), args }
    }

    fn argument(&self, index: usize, arg: &Arg, nest: &Nest) -> Argument {
        let offset = arg.offset * self.flat.values[arg.value].dtype.size();
        Argument { buffer: self.buffer_of(arg.value), offset, strides: nest.strides(index).collect(), axis: arg.axis }
    }

    fn whole(&self, node: &FlatNode) -> PlanStep {
        let inputs = node.inputs.iter().map(|it| self.operand(it));
        let outputs = node.outputs.iter().map(|&it| self.result(it));
        match node.kind {
            Kind::Library(op) => PlanStep::Library {
                op: PlanOp(op),
                attrs: node.attrs.clone(),
                precision: self.routines.library_precision(op),
                inputs: inputs.collect(),
                outputs: outputs.collect(),
                node: None,
                epilogues: Vec::new(),
            },
            Kind::Check(number) => {
                let Check { op, operands, .. } = &self.flat.checks[number];
                drop(inputs);
                PlanStep::Check {
                    op: PlanOp(*op),
                    attrs: node.attrs.clone(),
                    operands: operands.clone(),
                    record: self.span(&node.inputs[0]),
                    views: node.inputs[1..].map_vec(|it| self.operand(it)),
                    node: None,
                }
            }
            Kind::Contraction(_) => {
                drop((inputs, outputs));
                let out = Span { buffer: self.buffer_of(node.outputs[0]), offset: 0 };
                PlanStep::Contraction(Box::new(self.contraction(node, ContractionResult::Stored(out))))
            }
            Kind::Region(number) => {
                drop((inputs, outputs));
                self.region(&self.flat.regions[number], node)
            }
            _ => unreachable!("other ops are kernels"),
        }
    }

    fn contraction(&self, node: &FlatNode, result: ContractionResult) -> ContractionStep {
        let [a, b] = &node.inputs[..] else { unreachable!("a contraction has two operands") };
        let contraction = self.flat.contraction(node, self.routines.precision());
        ContractionStep { contraction, a: self.span(a), b: self.span(b), result }
    }

    /// Builds an epilogue of a contraction with this result. An epilogue that does not read the result iterates over
    /// its rows.
    fn epilogue(&self, contraction: &Contraction, result: ValueIndex, emitted: Emitted) -> Epilogue {
        let Emitted { kernel, nest, args, .. } = emitted;
        let at = args.iter().position(|it| it.value == result);
        let loops = match at {
            Some(at) => EpilogueLoops::Elements(ParamId(at as u32)),
            None => EpilogueLoops::Rows(nest.extents[EpilogueLoops::rows(contraction)..].into()),
        };
        let others = args.iter().enumerate().filter(|it| Some(it.0) != at);
        let args = others.map(|(i, arg)| self.argument(i, arg, &nest)).collect();
        Epilogue { kernel, loops, args }
    }

    fn region(&self, region: &Region, node: &FlatNode) -> PlanStep {
        let taken: Vec<Span> = node.inputs.map_vec(|it| self.span(it));
        let given: Vec<Span> = node.outputs.map_vec(|it| Span { buffer: self.buffer_of(*it), offset: 0 });
        match region {
            Region::Call(routine, _) => PlanStep::Call { routine: *routine, inputs: taken, outputs: given },
            Region::Branch(routines, _) => PlanStep::Branch {
                condition: taken[0],
                routines: *routines,
                inputs: taken[1..].to_vec(),
                outputs: given,
                on_device: false,
            },
            Region::Repeat(..) => unreachable!("it is a kernel"),
            Region::Loop(region) => PlanStep::Loop(Box::new(repeated(region, &taken, &given))),
        }
    }

    /// Returns the location of an operand's first element.
    fn span(&self, access: &Access) -> Span {
        let value = access.value().expect("operands of these steps are in memory");
        let first = if access.layout.numel() == 0 { 0 } else { access.layout.offset() };
        Span { buffer: self.buffer_of(value), offset: first * access.dtype.size() }
    }

    fn operand(&self, access: &Access) -> View {
        let value = access.value().expect("operands of whole steps are in memory");
        View { buffer: self.buffer_of(value), dtype: access.dtype, layout: access.layout.clone() }
    }

    fn result(&self, value: ValueIndex) -> View {
        let FlatValue { dtype, shape, .. } = &self.flat.values[value];
        View { buffer: self.buffer_of(value), dtype: *dtype, layout: Layout::contiguous(shape) }
    }
}

/// Builds a loop with operands and results in the order of [`RegionLoop`].
fn repeated(region: &RegionLoop, taken: &[Span], given: &[Span]) -> Loop {
    let mut given = given.iter().copied();
    let mut next_given = || given.next().expect("a loop has as many results as its region says");
    let count = region.next.len();
    let results: Vec<Span> = (0..count).map(|_| next_given()).collect();
    let iterations = matches!(region.trips, TripCount::While { counted: true }).then(&mut next_given);
    let series = (0..region.series).map(|_| next_given()).collect();
    let (repeat, taken) = match region.trips {
        TripCount::While { .. } => {
            (Repeat::While { first: taken[0], next: next_given(), count: iterations }, &taken[1..])
        }
        TripCount::Fixed { count, reverse } => (Repeat::Fixed { count, reverse }, taken),
        TripCount::Counted { reverse } => (Repeat::Counted { count: taken[0], reverse }, &taken[1..]),
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
        on_device: false,
    }
}
