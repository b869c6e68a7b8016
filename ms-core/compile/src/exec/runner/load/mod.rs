//! Loads plans: prepares and checks the argument blocks of all calls.

mod epilogues;
mod forks;
mod prepare;
#[cfg(test)]
mod tests;

use super::check::{Checker, malformed};
use super::copied::copied;
use super::program::{CarryWords, Chain, Cycle, Patch, Program, Repeated, Routine, Series, Step, TripCount};
use crate::exec::{Driver, KernelLaunch};
use crate::lower::{
    self, Argument, BufferId, BufferLocation, IndexedAxis, KernelCall, KernelId, Loop, NextCarry, Plan, PlanStep,
    Repeat, Span, is_stack, value_bytes,
};
use forks::Workspace;
use ms_ir::MapVec;
use ms_ir::data::{Array, MemorySpace, StreamKind, Type, with_stream};
use ms_ir::error::Result;
use ms_ir::{Kernel, Param, Role};
use smallvec::SmallVec;
use std::ops::Range;

/// Prepares a plan with its kernels, in order.
pub(super) fn program<D: Driver>(driver: &D, plan: &Plan, kernels: &[D::Kernel]) -> Result<Program<D>> {
    let constants = constants(plan, driver.space())?;
    let arena = plan.arena().ok_or_else(|| malformed("a routine calls one that does not come before it"))?;
    let (bases, arena_bytes) = arena;
    let mut words = Words::default();
    let mut workspace = Workspace::behind(arena_bytes);
    let mut routines: Vec<Routine<D>> = Vec::with_capacity(plan.routines.len());
    for (routine, base) in plan.routines.iter().zip(bases) {
        let check = Checker { plan, routine };
        routine.buffers.iter().try_for_each(|it| check.check_buffer(it))?;
        let mut loader = Loader {
            driver,
            check,
            constants: &constants,
            kernels,
            done: &routines,
            base,
            words: &mut words,
            workspace: &mut workspace,
            patches: Vec::new(),
            started: Vec::new(),
            accesses: vec![0; routine.buffers.len()],
            scratch: Vec::new(),
        };
        let steps = routine.steps.try_map_vec(|it| loader.step(it))?;
        if loader.scratch.iter().any(|it| loader.accesses[it.0 as usize] != 1) {
            return Err(malformed("only one kernel accesses its scratch memory"));
        }
        let mut patches = loader.patches;
        patches.sort_by_key(|it| it.arg);
        let types = || routine.inputs.iter().chain(&routine.outputs);
        let bytes = |ty: &Type| value_bytes(ty).ok_or_else(|| malformed("a type has a symbolic dimension"));
        let opens = steps.iter().any(|it| opens_stacks(it, &routines));
        routines.push(Routine {
            name: routine.name.as_str().into(),
            patches,
            steps,
            inputs: routine.inputs.len(),
            bytes: types().map(bytes).collect::<Result<_>>()?,
            opens_stacks: opens,
            closes_stacks: opens && !routine.outputs.iter().any(is_stack),
        });
    }
    let Words { mut template, mut arena_words } = words;
    let main_block = template.len();
    let main = plan.routines.last().ok_or_else(|| malformed("it has no routine"))?;
    template.resize(main_block + main.inputs.len() + main.outputs.len(), 0);
    let arena_bytes = workspace.end(arena_bytes, &mut arena_words).ok_or_else(|| malformed("its memory has a size"))?;
    Ok(Program { constants, arena_bytes, template, arena_words, routines, main_block })
}

/// Copies the constants of a plan to the memory of the device.
fn constants(plan: &Plan, space: MemorySpace) -> Result<Vec<Array>> {
    let constants = plan.constants.try_map_vec(|it| it.to_array().to_space(space))?;
    if let MemorySpace::Device(memory) = space
        && !constants.is_empty()
    {
        with_stream(memory, StreamKind::Copy, |stream| memory.wait(memory.fence(stream)))?;
    }
    Ok(constants)
}

/// Checks that the driver decides a condition if the plan says so.
fn on_device_of<D: Driver>(on_device: bool) -> Result<bool> {
    if on_device && !D::CONDITIONS {
        return Err(malformed("the device decides no conditions"));
    }
    Ok(on_device)
}

/// Returns whether a step opens stacks that remain open after it.
fn opens_stacks<D: Driver>(step: &Step<D>, routines: &[Routine<D>]) -> bool {
    let open = |it: usize| routines[it].opens_stacks && !routines[it].closes_stacks;
    match step {
        Step::Kernel { .. }
        | Step::Kernels(_)
        | Step::Copy { .. }
        | Step::Contraction { .. }
        | Step::Library { .. }
        | Step::Check { .. } => false,
        Step::Call { routine, .. } => open(*routine),
        Step::Branch { routines, .. } => routines.iter().any(|&it| open(it)),
        Step::Loop(it) => open(it.body) || (!it.series.is_empty() && !matches!(it.trips, TripCount::Fixed { .. })),
    }
}

/// The words of all argument blocks.
#[derive(Default)]
struct Words {
    template: Vec<u64>,
    /// The words with addresses in the arena, and their offsets there.
    arena_words: Vec<(u32, usize)>,
}

/// The alignment of the workspace in bytes.
const WORKSPACE_ALIGN: usize = 64;

/// Prepares the steps of a routine.
struct Loader<'a, D: Driver> {
    driver: &'a D,
    check: Checker<'a>,
    constants: &'a [Array],
    kernels: &'a [D::Kernel],
    /// The routines before this one.
    done: &'a [Routine<D>],
    /// The offset of this routine's arena in the run's arena.
    base: usize,
    words: &'a mut Words,
    workspace: &'a mut Workspace,
    patches: Vec<Patch>,
    /// The results of steps that start something, and the numbers of their forks.
    started: Vec<(BufferId, u32)>,
    /// The number of accesses of each buffer of the routine.
    accesses: Vec<u32>,
    /// The scratch memory of kernels.
    scratch: Vec<BufferId>,
}

impl<'a, D: Driver> Loader<'a, D> {
    fn step(&mut self, step: &PlanStep) -> Result<Step<D>> {
        match step {
            PlanStep::Kernel(KernelCall { kernel, extents, args }) => {
                let (kernel, code) = self.kernel(*kernel)?;
                let copied = copied(kernel, args);
                let words = self.kernel_block(kernel, extents, args, None)?;
                let block = &self.words.template[words.clone()];
                let code = self.driver.prepare_kernel(KernelLaunch { kernel: code, block });
                let Some(mut pairs) = copied else { return Ok(Step::Kernel { code, words }) };
                for at in pairs.iter_mut().flatten() {
                    *at = words.start + kernel.param_word(*at);
                }
                Ok(Step::Copy { code, words, pairs })
            }
            PlanStep::Kernels(calls) => {
                self.check.check_independent(calls)?;
                let mut block = |KernelCall { kernel, extents, args }: &KernelCall| {
                    let (kernel, code) = self.kernel(*kernel)?;
                    Ok((code, self.kernel_block(kernel, extents, args, None)?))
                };
                let blocks = calls.try_map_vec(&mut block)?;
                let launch = |(kernel, words): &(&'a D::Kernel, Range<usize>)| KernelLaunch {
                    kernel: *kernel,
                    block: &self.words.template[words.clone()],
                };
                let codes = self.driver.prepare_kernels(&blocks.map_vec(launch));
                Ok(Step::Kernels(codes.into_iter().zip(blocks.into_iter().map(|it| it.1)).collect()))
            }
            PlanStep::Contraction(it) => self.contraction(it),
            PlanStep::Library { .. } => self.library(step),
            PlanStep::Check { .. } => self.run_time_check(step),
            PlanStep::Call { routine, inputs, outputs } => {
                let routine = routine.0 as usize;
                let block = self.block(routine, inputs.iter().chain(outputs))?;
                Ok(Step::Call { routine, block })
            }
            PlanStep::Branch { condition, routines, inputs, outputs, on_device } => {
                let on_device = on_device_of::<D>(*on_device)?;
                let routines = routines.map(|it| it.0 as usize);
                let [yes, no] = routines.map(|it| &self.done[it]);
                if yes.inputs != no.inputs || yes.bytes != no.bytes {
                    return Err(malformed("branches take and give the same"));
                }
                let condition = self.address(condition, 1)?;
                let block = self.block(routines[0], inputs.iter().chain(outputs))?;
                Ok(Step::Branch { condition, routines, block, on_device })
            }
            PlanStep::Loop(it) => Ok(Step::Loop(Box::new(self.repeated(it)?))),
        }
    }

    /// Returns a kernel of the plan with its code.
    fn kernel(&self, id: KernelId) -> Result<(&'a Kernel, &'a D::Kernel)> {
        let at = id.0 as usize;
        let found = self.check.plan.kernels.get(at).zip(self.kernels.get(at));
        found.ok_or_else(|| malformed("a step names a kernel that is not there"))
    }

    /// Adds the argument block of a kernel call and checks that its arguments fit. `tile_param` is the param that is
    /// not a buffer, if there is one: its number and byte strides.
    fn kernel_block(
        &mut self,
        kernel: &Kernel,
        extents: &[usize],
        args: &[Argument],
        tile_param: Option<(usize, &[i64])>,
    ) -> Result<Range<usize>> {
        let loops = kernel.loops();
        let count = args.len() + usize::from(tile_param.is_some());
        if extents.len() != loops || count != kernel.params.len() || !kernel.takes(extents) {
            return Err(malformed("a call fits its kernel"));
        }
        let first = self.next_word();
        self.words.template.extend(extents.iter().map(|&it| it as u64));
        let mut rest = args.iter();
        for (at, param) in kernel.params.iter().enumerate() {
            let strides = match tile_param.filter(|it| it.0 == at) {
                Some((_, strides)) => {
                    self.words.template.push(0);
                    strides
                }
                None => {
                    let arg = rest.next().ok_or_else(|| malformed("a call fits its kernel"))?;
                    self.argument(arg, kernel, param, extents)?;
                    &arg.strides
                }
            };
            self.words.template.extend(strides.iter().map(|&it| it as u64));
        }
        for IndexedAxis { stride, extent } in args.iter().filter_map(|it| it.axis) {
            self.words.template.extend([stride as u64, extent as u64]);
        }
        self.words.template.resize(first + kernel.call_words(), 0);
        Ok(first..self.next_word())
    }

    /// Adds the address of an argument.
    fn argument(&mut self, arg: &Argument, kernel: &Kernel, param: &Param, extents: &[usize]) -> Result<()> {
        if arg.strides.len() != extents.len() {
            return Err(malformed("an argument has a stride for every loop"));
        }
        if param.role == Role::Immediate {
            return Err(malformed("an argument of a step is a buffer"));
        }
        if arg.axis.is_some() != (param.role == Role::Indexed) {
            return Err(malformed("an argument has an axis if its param is indexed"));
        }
        self.check.check_argument(arg, kernel, param, extents)?;
        if param.role == Role::Scratch {
            self.scratch.push(arg.buffer);
        }
        self.push_address(arg.buffer, arg.offset)
    }

    /// Adds the argument block of a call and checks that its values fit the routine.
    fn block<'s>(&mut self, routine: usize, spans: impl Iterator<Item = &'s Span>) -> Result<usize> {
        let routine = &self.done[routine];
        let block = self.next_word();
        let mut bytes = routine.bytes.iter();
        for span in spans {
            let &bytes = bytes.next().ok_or_else(|| malformed("a call fits its routine"))?;
            self.address(span, bytes)?;
        }
        if bytes.next().is_some() {
            return Err(malformed("a call fits its routine"));
        }
        Ok(block)
    }

    fn repeated(&mut self, step: &Loop) -> Result<Repeated> {
        let body = &self.done[step.body.0 as usize];
        let counts = [step.carries.len(), step.sequences.len(), step.invariants.len()];
        let first_invariant = counts[0] + counts[1];
        let computes = |it: &usize| !matches!(step.carries[*it].next, NextCarry::From(_));
        let heads: SmallVec<[usize; 4]> = (0..counts[0]).filter(computes).collect();
        let conditions = usize::from(matches!(step.repeat, Repeat::While { .. }));
        let fits = body.inputs == first_invariant + counts[2]
            && body.bytes.len() == body.inputs + heads.len() + step.series.len() + conditions
            && step.spares.len() == step.carries.iter().filter(|it| it.next == NextCarry::Computed).count();
        if !fits {
            return Err(malformed("a loop fits its body"));
        }
        let (inputs, outputs) = body.bytes.split_at(body.inputs);
        let (chains, cycles) = self.chains(step, &heads, inputs, outputs)?;
        let count = match step.repeat {
            Repeat::While { .. } | Repeat::Counted { .. } => None,
            Repeat::Fixed { count, .. } => Some(count),
        };
        let trips = match &step.repeat {
            Repeat::While { first, next, count } => {
                if outputs.last() != Some(&1) || !step.sequences.is_empty() {
                    return Err(malformed("a loop's body ends with the condition"));
                }
                let count = count.as_ref().map(|it| self.address(it, 8)).transpose()?;
                let on_device = on_device_of::<D>(step.on_device)?;
                TripCount::While { first: self.address(first, 1)?, next: self.address(next, 1)?, count, on_device }
            }
            &Repeat::Fixed { count, reverse } => TripCount::Fixed { count, reverse },
            Repeat::Counted { count, reverse } => {
                TripCount::Counted { count: self.address(count, 8)?, reverse: *reverse }
            }
        };
        let mut series = |spans: &[Span], rows: &[usize]| {
            let place = |(span, &row_bytes): (&Span, &usize)| {
                let bytes = count.map_or(Some(lower::STACK_BYTES), |it| row_bytes.checked_mul(it));
                let bytes = bytes.ok_or_else(|| malformed("a sequence is too long"))?;
                Ok(Series { word: self.address(span, bytes)?, row_bytes })
            };
            spans.iter().zip(rows).map(place).collect::<Result<Vec<_>>>()
        };
        let sequences = series(&step.sequences, &inputs[counts[0]..])?;
        let series = series(&step.series, &outputs[heads.len()..])?;
        let mut carries = Vec::with_capacity(counts[0]);
        for (carry, &bytes) in step.carries.iter().zip(inputs) {
            let (initial, result) = (self.address(&carry.initial, bytes)?, self.address(&carry.result, bytes)?);
            carries.push(CarryWords { initial, result });
        }
        let block = self.next_word();
        self.words.template.resize(block + first_invariant, 0);
        for (span, &bytes) in step.invariants.iter().zip(&inputs[first_invariant..]) {
            self.address(span, bytes)?;
        }
        self.words.template.resize(block + body.inputs + heads.len() + series.len(), 0);
        if let Repeat::While { next, .. } = &step.repeat {
            self.address(next, 1)?;
        }
        let condition = body.bytes.len() - conditions;
        let varies = |it: &&Patch| {
            let arg = it.arg as usize;
            arg < first_invariant || (body.inputs..condition).contains(&arg)
        };
        let moved = cycles.iter().filter(|it| step.on_device && it.len() > 1).map(|it| inputs[it[0]]).max();
        let scratch = moved.map(|bytes| self.workspace(bytes));
        let is_fixed = chains.iter().all(|it| it.ring.len() == 1) && cycles.iter().all(|it| it.len() == 1);
        Ok(Repeated {
            is_fixed: is_fixed && sequences.is_empty() && series.is_empty(),
            body: step.body.0 as usize,
            block,
            trips,
            carries,
            chains,
            cycles,
            sequences,
            series,
            outputs: body.inputs,
            varying: body.patches.iter().filter(varies).copied().collect(),
            scratch,
        })
    }

    /// Partitions carries into chains and cycles.
    fn chains(
        &mut self,
        step: &Loop,
        heads: &[usize],
        inputs: &[usize],
        outputs: &[usize],
    ) -> Result<(Vec<Chain>, Vec<Cycle>)> {
        let mut follower: Vec<Option<usize>> = vec![None; step.carries.len()];
        for (to, carry) in step.carries.iter().enumerate() {
            if let NextCarry::From(from) = carry.next {
                let from = from as usize;
                if from >= step.carries.len() || inputs[from] != inputs[to] || follower[from].replace(to).is_some() {
                    return Err(malformed("one carry of the same type takes over from each"));
                }
            }
        }
        let mut seen = vec![false; step.carries.len()];
        let mut chains = Vec::with_capacity(heads.len());
        let mut spares = step.spares.iter();
        for (&head, &bytes) in heads.iter().zip(outputs) {
            let carries: SmallVec<[usize; 2]> = std::iter::successors(Some(head), |&it| follower[it]).collect();
            carries.iter().for_each(|&it| seen[it] = true);
            let updated = step.carries[head].next == NextCarry::Updated;
            if updated && carries.len() > 1 {
                return Err(malformed("no carry takes over from one that is written over"));
            }
            let spare = if updated { None } else { spares.next() };
            let places: SmallVec<[&Span; 3]> =
                carries.iter().map(|&it| &step.carries[it].result).chain(spare).collect();
            let mut known = SmallVec::<[(BufferLocation, usize); 3]>::new();
            for span in &places {
                let place = (self.check.buffer(span.buffer)?.place, span.offset);
                if known.contains(&place) || bytes != inputs[head] {
                    return Err(malformed("a chain of carries has places of its own"));
                }
                known.push(place);
            }
            let ring = places.into_iter().map(|it| self.address(it, bytes)).collect::<Result<_>>()?;
            chains.push(Chain { carries, ring, bytes });
        }
        let mut cycles = Vec::new();
        for start in 0..step.carries.len() {
            let mut cycle = Cycle::new();
            let mut at = start;
            while !std::mem::replace(&mut seen[at], true) {
                cycle.push(at);
                at = follower[at].expect("who follows nobody that is computed stands in a circle");
            }
            if !cycle.is_empty() {
                cycles.push(cycle);
            }
        }
        Ok((chains, cycles))
    }

    fn next_word(&self) -> usize {
        self.words.template.len()
    }

    /// Adds a word with the address of a value of this many bytes.
    fn address(&mut self, span: &Span, bytes: usize) -> Result<usize> {
        self.check.check_span(span, bytes)?;
        let word = self.next_word();
        self.push_address(span.buffer, span.offset)?;
        Ok(word)
    }

    fn push_address(&mut self, buffer: BufferId, offset: usize) -> Result<()> {
        let word = self.next_word() as u32;
        let inputs = self.check.routine.inputs.len() as u32;
        let mut known = 0;
        match self.check.buffer(buffer)?.place {
            BufferLocation::Constant(i) => known = self.constants[i as usize].device_ptr() as u64 + offset as u64,
            BufferLocation::Arena(at) => self.words.arena_words.push((word, self.base + at + offset)),
            BufferLocation::Input(i) => self.patches.push(Patch { word, arg: i, offset }),
            BufferLocation::Output(i) => self.patches.push(Patch { word, arg: inputs + i, offset }),
            BufferLocation::Position => known = offset as u64,
        }
        self.accesses[buffer.0 as usize] += 1;
        self.words.template.push(known);
        Ok(())
    }
}
