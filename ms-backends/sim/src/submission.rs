//! Defines the steps of a submission: [`Steps`] as they are issued, and [`HostSteps`] as they run.

use crate::kernel::SimKernel;
use crate::reference::{ReferenceContraction, ReferenceDriver, ReferenceStep};
use crate::scheduler::Random;
use ms_compile::exec::{Check, Driver, StepCall, StepOperand};
use ms_ir::error::Result;
use ms_x64::KernelCode;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// A step. Its addresses are words of the submission.
pub enum Step {
    Launch {
        kernel: Arc<SimKernel>,
        block: Range<usize>,
    },
    Contraction {
        code: Arc<ReferenceContraction>,
        call: CallWords,
    },
    Library {
        code: Arc<ReferenceStep>,
        call: CallWords,
    },
    Check {
        check: Arc<Check>,
        record: usize,
        views: Range<usize>,
    },
    Copy {
        from: usize,
        to: usize,
        bytes: usize,
    },
    SetNumber {
        to: usize,
        number: u64,
    },
    /// Runs one of two bodies: of a true and of a false condition.
    Branch {
        condition: usize,
        bodies: Box<[HostSteps; 2]>,
    },
    /// Runs a body as long as a condition holds: the first one, and then the next one.
    Repeat {
        first: usize,
        next: usize,
        body: Box<HostSteps>,
    },
}

/// The words of a call that have the addresses of operands and results.
#[derive(Clone, PartialEq, Eq)]
pub struct CallWords {
    pub operands: Range<usize>,
    pub results: Range<usize>,
}

/// A step, and whether it does not run behind a failure.
pub struct IssuedStep {
    pub step: Step,
    pub is_guarded: bool,
}

impl Step {
    /// Returns whether another step has the same code, and its addresses in the same words.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Launch { kernel, block }, Self::Launch { kernel: of_other, block: others }) => {
                Arc::ptr_eq(kernel, of_other) && block == others
            }
            (Self::Contraction { code, call }, Self::Contraction { code: of_other, call: others }) => {
                Arc::ptr_eq(code, of_other) && call == others
            }
            (Self::Library { code, call }, Self::Library { code: of_other, call: others }) => {
                Arc::ptr_eq(code, of_other) && call == others
            }
            (Self::Check { check, .. }, Self::Check { check: of_other, .. }) => Arc::ptr_eq(check, of_other),
            (Self::Copy { bytes, .. }, Self::Copy { bytes: others, .. }) => bytes == others,
            (Self::SetNumber { number, .. }, Self::SetNumber { number: others, .. }) => number == others,
            (Self::Branch { bodies, .. }, Self::Branch { bodies: others, .. }) => {
                bodies.iter().zip(&**others).all(|(body, other)| body.are_like(&other.issued))
            }
            (Self::Repeat { body, .. }, Self::Repeat { body: other, .. }) => body.are_like(&other.issued),
            _ => false,
        }
    }
}

/// Steps that were issued and not yet submitted.
#[derive(Default)]
pub struct Steps {
    pub steps: Vec<IssuedStep>,
    /// The argument blocks and addresses of the steps, one after another.
    pub words: Vec<u64>,
    /// The words that are addresses of the device.
    pub addresses: Vec<usize>,
}

impl Steps {
    /// Adds the argument block of a kernel.
    pub fn add_block(&mut self, block: &[u64], addresses: &[usize]) -> Range<usize> {
        let first = self.words.len();
        self.words.extend_from_slice(block);
        self.addresses.extend(addresses.iter().map(|it| first + it));
        first..self.words.len()
    }

    /// Adds the address of a device. Returns its word.
    pub fn add_address(&mut self, address: u64) -> usize {
        self.addresses.push(self.words.len());
        self.words.push(address);
        self.words.len() - 1
    }

    /// Adds addresses of the device. Returns their words.
    pub fn add_addresses(&mut self, addresses: impl Iterator<Item = u64>) -> Range<usize> {
        let first = self.words.len();
        addresses.for_each(|it| _ = self.add_address(it));
        first..self.words.len()
    }

    /// Returns whether other steps do the same: they have the same code and the same words.
    fn are_like(&self, other: &Self) -> bool {
        let is_like = |(a, b): (&IssuedStep, &IssuedStep)| a.is_guarded == b.is_guarded && a.step.is_like(&b.step);
        self.words == other.words
            && self.steps.len() == other.steps.len()
            && self.steps.iter().zip(&other.steps).all(is_like)
    }
}

/// Steps with the addresses of the bytes behind device memory, like an instantiated graph of a GPU. They own no memory.
pub struct HostSteps {
    issued: Steps,
    /// The words with host addresses.
    words: Vec<u64>,
}

impl HostSteps {
    /// Returns whether these are steps that were issued like others.
    pub fn are_like(&self, issued: &Steps) -> bool {
        self.issued.are_like(issued)
    }

    /// Prepares steps to run any number of times. `real` returns the host address of a device address.
    pub fn new(issued: Steps, real: impl Fn(u64) -> u64) -> Self {
        let mut words = issued.words.clone();
        issued.addresses.iter().for_each(|&it| words[it] = real(words[it]));
        Self { issued, words }
    }

    /// Runs the steps in order. Behind a failure, of earlier work or of a step, `random` decides which of the steps run
    /// that are not guarded.
    ///
    /// # Safety
    /// The conditions of the calls that issued the steps hold, for the bytes behind their addresses.
    ///
    /// # Errors
    /// The first error of a step.
    pub unsafe fn run(&self, is_behind: bool, random: &mut Random) -> Result<()> {
        let mut done = Ok(());
        for IssuedStep { step, is_guarded } in &self.issued.steps {
            let is_behind = is_behind || done.is_err();
            if is_behind && (*is_guarded || random.flip()) {
                continue;
            }
            // SAFETY: the conditions of the step hold by this function's contract.
            let ran = unsafe { self.run_step(step, is_behind, random) };
            done = done.and(ran);
        }
        done
    }

    /// Runs a step. Behind a failure, conditions are not specified: either body of a branch runs, and the body of a loop
    /// runs once.
    ///
    /// # Safety
    /// The conditions of the call that issued the step hold, for the bytes behind its addresses.
    unsafe fn run_step(&self, step: &Step, is_behind: bool, random: &mut Random) -> Result<()> {
        let words = &self.words;
        // SAFETY: the conditions of each step hold by this function's contract. Earlier steps write the conditions of
        // branches and loops.
        unsafe {
            let holds = |at: usize| ReferenceDriver.condition(&mut (), words[at]);
            match step {
                Step::Launch { kernel, block } => {
                    kernel.code.call(&words[block.clone()]);
                    Ok(())
                }
                Step::Contraction { code, call } => {
                    with_call(words, call, |it| ReferenceDriver.contract(&mut (), code, it))
                }
                Step::Library { code, call } => with_call(words, call, |it| ReferenceDriver.library(&mut (), code, it)),
                Step::Check { check, record, views } => {
                    ReferenceDriver.check(&mut (), check, words[*record], &words[views.clone()])
                }
                Step::Copy { from, to, bytes } => ReferenceDriver.copy(&mut (), words[*from], words[*to], *bytes),
                Step::SetNumber { to, number } => ReferenceDriver.set_number(&mut (), words[*to], *number),
                Step::Branch { condition, bodies } => {
                    let [yes, no] = &**bodies;
                    let is_taken = if is_behind { random.flip() } else { holds(*condition)? };
                    if is_taken { yes } else { no }.run(is_behind, random)
                }
                Step::Repeat { body, .. } if is_behind => body.run(true, random),
                Step::Repeat { first, next, body } => {
                    let mut at = *first;
                    while holds(at)? {
                        body.run(false, random)?;
                        at = *next;
                    }
                    Ok(())
                }
            }
        }
    }
}

/// Calls `run` with the memory of a call whose addresses are in `words`.
pub fn with_call<R>(words: &[u64], call: &CallWords, run: impl FnOnce(StepCall<'_>) -> R) -> R {
    let operands = words[call.operands.clone()].iter().map(|&it| StepOperand::at(it));
    let operands: SmallVec<[StepOperand<'_>; 4]> = operands.collect();
    run(StepCall { operands: &operands, results: &words[call.results.clone()], epilogues: &[], workspace: 0 })
}
