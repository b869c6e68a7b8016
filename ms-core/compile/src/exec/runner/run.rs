//! Executes one run of a loaded plan.

use super::observer::{Observer, What};
use super::program::{CallWords, OperandWord, Patch, Program, Routine, Step, StreamOrder};
use super::read_inputs::ReadInputs;
use super::stack::Stacks;
use crate::exec::watch::Start;
use crate::exec::{Driver, KernelLaunch, StepCall, StepOperand};
use ms_ir::data::{Array, MemorySpace, StreamKind, Type, with_stream};
use ms_ir::error::{Missing, Result};
use smallvec::SmallVec;
use std::sync::Arc;

/// The state of one run.
///
/// The unsafe blocks below rely on these invariants. The loader checked that every step is in bounds of its buffers,
/// and that argument blocks fit the routines that they are passed to. Buffers are constants, ranges of the arena, or
/// inputs and outputs of a call. This run owns the arena until everything is submitted, and the contract of
/// [`Run::call`] covers the addresses of inputs and outputs. In a well-formed plan the buffers of a step overlap only
/// if its contract allows it.
pub(super) struct Run<'a, 'r, D: Driver> {
    pub program: &'a Program<D>,
    pub driver: &'a D,
    pub commands: D::Commands,
    pub words: &'a mut [u64],
    pub stacks: &'a mut Stacks,
    /// The inputs, if the run writes none of them.
    pub read: ReadInputs<'r>,
    /// Records the steps, if the thread is profiled.
    pub observer: Option<Observer>,
    /// Whether the commands are those of a [body](Driver::body).
    pub is_body: bool,
}

impl<'r, D: Driver> Run<'_, 'r, D> {
    /// Issues the main routine.
    ///
    /// # Safety
    /// `places` are the addresses of the inputs, which are valid for reads when the steps run, and of the outputs,
    /// which nothing else accesses meanwhile.
    pub unsafe fn main(&mut self, places: impl Iterator<Item = u64>) -> Result<()> {
        let block = self.program.main_block;
        let mut words = self.words[block..].iter_mut();
        places.for_each(|place| *words.next().expect("a block has a word for every input and output") = place);
        // SAFETY: the main block now has the addresses of valid inputs and outputs.
        unsafe { self.call(self.program.routines.len() - 1, block) }
    }

    /// Calls a routine.
    ///
    /// # Safety
    /// The block has the addresses of the routine's inputs, which are valid for reads when the steps run. It also has
    /// those of its outputs, which nothing else accesses meanwhile.
    pub unsafe fn call(&mut self, routine: usize, block: usize) -> Result<()> {
        let routine = &self.program.routines[routine];
        self.patch(&routine.patches, block);
        if !routine.closes_stacks {
            // SAFETY: the words are patched from `block`, whose addresses are valid by this method's contract.
            return unsafe { self.steps(routine) };
        }
        let mark = self.stacks.mark();
        // SAFETY: the words are patched from `block`, whose addresses are valid by this method's contract.
        unsafe { self.steps(routine)? };
        self.close_stacks(mark);
        Ok(())
    }

    /// Closes the stacks that were opened since a mark.
    pub fn close_stacks(&mut self, mark: usize) {
        self.stacks.close_from(mark).for_each(|it| self.driver.free(&mut self.commands, it));
    }

    /// Copies addresses from a block to the words of the routine's steps.
    #[inline]
    pub fn patch(&mut self, patches: &[Patch], block: usize) {
        for patch in patches {
            self.words[patch.word as usize] = self.words[block + patch.arg as usize] + patch.offset as u64;
        }
    }

    /// Runs the steps of a routine whose words are patched with the addresses of the block.
    ///
    /// # Safety
    /// The words of the routine's steps are patched from a block with valid addresses, as for [`Run::call`].
    pub unsafe fn steps(&mut self, routine: &Routine<D>) -> Result<()> {
        let driver = self.driver;
        for (at, step) in routine.steps.iter().enumerate() {
            let start = self.observer.as_mut().map(|it| it.begin(&routine.name, at));
            match step {
                // SAFETY: the loader checked that the block fits the kernel and stays within live buffers.
                Step::Kernel { code, words } => unsafe {
                    driver.launch(&mut self.commands, code, &self.words[words.clone()])?;
                },
                Step::Kernels(calls) => {
                    let launches: SmallVec<[KernelLaunch<'_, D::Kernel>; 16]> = calls
                        .iter()
                        .map(|(kernel, words)| KernelLaunch { kernel, block: &self.words[words.clone()] })
                        .collect();
                    // SAFETY: the loader checked that each block fits its kernel and stays within live buffers, and
                    // that the kernels are independent.
                    unsafe { driver.launch_together(&mut self.commands, &launches)? }
                }
                Step::Copy { code, words, .. } => {
                    if step.is_issued(self.words) {
                        // SAFETY: the loader checked that the block fits the kernel and stays within live buffers.
                        unsafe { driver.launch(&mut self.commands, code, &self.words[words.clone()])? };
                    }
                }
                Step::Contraction { code, call, .. } => {
                    // SAFETY: the loader checked that operands, result and epilogues fit the contraction and stay
                    // within their live buffers. Lowering keeps operands and result disjoint. Its epilogues write no
                    // operands, and access elements that another writes at the same rows only.
                    self.with_call(call, |commands, call| unsafe { driver.contract(commands, code, call) })
                        .map_err(|it| it.of_memory(Missing::Product))?;
                }
                Step::Library { code, call, order, .. } => {
                    if D::FORKS && *order != StreamOrder::InOrder && self.observer.is_none() {
                        // SAFETY: lowering keeps the memory of a step that starts something until the step that ends
                        // it.
                        unsafe { self.communicate(code, call, *order)? };
                        continue;
                    }
                    // SAFETY: the loader checked that all views stay within their buffers. Lowering guarantees that
                    // operands and results fit the op, and that its epilogues write neither operands nor elements that
                    // another accesses.
                    self.with_call(call, |commands, call| unsafe { driver.library(commands, code, call) })?;
                }
                Step::Check { check, record, views } => {
                    let views: SmallVec<[u64; 2]> = views.iter().map(|&it| self.words[it]).collect();
                    // SAFETY: the loader checked that the record and the views stay within their buffers, which
                    // earlier steps wrote.
                    unsafe { driver.check(&mut self.commands, check, self.words[*record], &views)? };
                }
                // SAFETY: the loader checked that the block fits the routine, and its addresses are those of live
                // buffers of this one.
                Step::Call { routine, block } => unsafe { self.call(*routine, *block)? },
                Step::Branch { condition, routines: [yes, no], block, on_device } => {
                    // SAFETY: the condition is a bool that earlier steps wrote as 0 or 1, and the loader checked that
                    // the block fits both routines.
                    unsafe {
                        if self.decides(*on_device) {
                            let yes = self.body(|run| run.call(*yes, *block))?;
                            let no = self.body(|run| run.call(*no, *block))?;
                            driver.branch(&mut self.commands, self.words[*condition], [yes, no])?;
                            continue;
                        }
                        let taken = driver.condition(&mut self.commands, self.words[*condition])?;
                        self.call(if taken { *yes } else { *no }, *block)?;
                    }
                }
                // SAFETY: the addresses of this routine's buffers are valid, and the loader checked that the loop's
                // blocks fit its body.
                Step::Loop(repeated) => unsafe { repeated.run(self)? },
            }
            if let Some(start) = start {
                self.observe(start, step)?;
            }
        }
        Ok(())
    }

    /// Issues a library step that runs on the stream for communication, or waits for such steps.
    ///
    /// # Safety
    /// The conditions of [`Driver::library`] hold, and no step before the join accesses results of a forked step or
    /// writes its operands.
    unsafe fn communicate(
        &mut self,
        code: &Arc<D::LibraryStep>,
        call: &CallWords<D>,
        order: StreamOrder,
    ) -> Result<()> {
        let driver = self.driver;
        let issue = |run: &mut Self| {
            // SAFETY: the conditions hold by this method's contract.
            run.with_call(call, |commands, call| unsafe { driver.library(commands, code, call) })
        };
        match order {
            StreamOrder::InOrder => issue(self),
            StreamOrder::Joining(fork) => {
                driver.join(&mut self.commands, fork)?;
                issue(self)
            }
            StreamOrder::Forked { fork, joins } => {
                let body = self.body(issue)?;
                // SAFETY: the conditions of the only step of the body hold until the join by this method's contract.
                unsafe { driver.fork(&mut self.commands, fork, StreamKind::Communicate, body)? };
                if joins { driver.join(&mut self.commands, fork) } else { Ok(()) }
            }
        }
    }

    /// Returns whether the device decides the condition of a step in this run.
    #[inline]
    pub fn decides(&self, on_device: bool) -> bool {
        D::CONDITIONS && on_device && self.observer.is_none()
    }

    /// Issues the steps of a body.
    pub fn body(&mut self, issue: impl FnOnce(&mut Self) -> Result<()>) -> Result<D::Commands> {
        let body = self.driver.body(&self.commands);
        let outer = (std::mem::replace(&mut self.commands, body), std::mem::replace(&mut self.is_body, true));
        let done = issue(self);
        let body = std::mem::replace(&mut self.commands, outer.0);
        self.is_body = outer.1;
        done.map(|()| body)
    }

    /// Copies bytes from one address to another.
    ///
    /// # Safety
    /// See [`Driver::copy`].
    #[inline]
    pub unsafe fn copy(&mut self, from: u64, to: u64, bytes: usize) -> Result<()> {
        let start = self.observer.as_ref().map(|_| Start::now());
        // SAFETY: the ranges are live and disjoint, without conflicting accesses, by this method's contract.
        unsafe { self.driver.copy(&mut self.commands, from, to, bytes)? };
        match start {
            Some(start) => self.record(start, |_, _| What::copy(bytes)),
            None => Ok(()),
        }
    }

    /// Records a step that was issued since `start`.
    #[cold]
    fn observe(&mut self, start: Start, step: &Step<D>) -> Result<()> {
        match step.is_issued(self.words) {
            true => self.record(start, |driver, words| What::of_step(driver, step, words)),
            false => Ok(()),
        }
    }

    /// Waits for what was issued since `start`, and records it.
    #[cold]
    fn record(&mut self, start: Start, what: impl FnOnce(&D, &[u64]) -> What) -> Result<()> {
        if D::QUEUED {
            self.driver.submit(&mut self.commands)?;
            if let MemorySpace::Device(memory) = self.driver.space() {
                with_stream(memory, StreamKind::Compute, |stream| memory.wait(memory.fence(stream)))?;
            }
        }
        let span = start.end();
        if let Some(observer) = &self.observer {
            observer.record(span, what(self.driver, self.words));
        }
        Ok(())
    }

    /// Calls `issue` with the memory of a call of a contraction or a library step.
    // Inlined, the arrays would be part of the frame of every routine that runs.
    #[inline(never)]
    fn with_call<R>(
        &mut self,
        call: &CallWords<D>,
        issue: impl FnOnce(&mut D::Commands, StepCall<'_>) -> Result<R>,
    ) -> Result<R> {
        let operands: SmallVec<[StepOperand<'_>; 8]> = call.operands.iter().map(|&it| self.operand(it)).collect();
        let words = &*self.words;
        let results: SmallVec<[u64; 4]> = call.results.iter().map(|&it| words[it]).collect();
        let epilogues: SmallVec<[&[u64]; 2]> = call.epilogues.iter().map(|it| &words[it.block.clone()]).collect();
        let workspace = call.workspace.map_or(0, |it| words[it]);
        let call = StepCall { operands: &operands, results: &results, epilogues: &epilogues, workspace };
        issue(&mut self.commands, call)
    }

    /// Returns an operand of a step, with its block if that belongs to an input that the run does not write.
    fn operand(&self, OperandWord { word, is_input }: OperandWord) -> StepOperand<'r> {
        let address = self.words[word];
        let parameter_storage = if is_input { self.read.block_at(address as usize) } else { None };
        StepOperand { address, parameter_storage }
    }

    /// Copies the rows of a stack into an array.
    pub fn gather(&mut self, number: u64, row: &Type) -> Result<Array> {
        let shape = row.shape().expect("rows have a constant shape");
        let row_bytes = shape.iter().product::<usize>() * row.dtype.size();
        let rows = self.stacks.rows(number, row_bytes)?;
        let shape: SmallVec<[usize; 4]> = std::iter::once(rows).chain(shape).collect();
        // SAFETY: the loop below writes all rows before the array is read.
        let out = unsafe { Array::uninit_in(self.driver.space(), &shape, row.dtype)? };
        for i in 0..if row_bytes == 0 { 0 } else { rows } {
            let to = out.device_ptr() as u64 + (i * row_bytes) as u64;
            // SAFETY: the stack has row `i`, and row `i` of the new array has `row_bytes` bytes.
            unsafe { self.copy(self.stacks.row(number, i), to, row_bytes)? };
        }
        Ok(out)
    }
}
