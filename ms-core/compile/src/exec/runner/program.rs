//! Defines a plan that is loaded: prepared as far as possible without addresses.

use crate::exec::{Check, Driver, LibraryCall, TileArguments};
use ms_ir::Contraction;
use ms_ir::data::{Array, Storage};
use ms_ir::op::definition;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// A plan prepared as far as possible without addresses, for driver `D`.
///
/// The argument blocks of all calls, of kernels and of routines, are in one template of words. A routine is never
/// active twice in a run, so each has one range of words and one of the arena. A run copies the template. Addresses in
/// the arena and of constants are written into the copy once per arena. Addresses of inputs and outputs are written
/// once per call of a routine.
pub(super) struct Program<D: Driver> {
    pub constants: Vec<Array>,
    pub arena_bytes: usize,
    pub template: Vec<u64>,
    /// The words with addresses in the arena, and their offsets there.
    pub arena_words: Vec<(u32, usize)>,
    /// The last one is the main routine.
    pub routines: Vec<Routine<D>>,
    /// The argument block of the main routine.
    pub main_block: usize,
}

/// A routine. The argument block of a call has the addresses of its inputs, then of its outputs.
pub(super) struct Routine<D: Driver> {
    pub name: Arc<str>,
    pub patches: Vec<Patch>,
    pub steps: Vec<Step<D>>,
    /// The number of inputs.
    pub inputs: usize,
    /// Sizes in bytes of inputs and outputs.
    pub bytes: Vec<usize>,
    /// Whether it opens stacks.
    pub opens_stacks: bool,
    /// Whether it returns none of the stacks that it opens, so that they are closed when it ends.
    pub closes_stacks: bool,
}

/// A word with an address in an input or output.
#[derive(Clone, Copy)]
pub(super) struct Patch {
    pub word: u32,
    /// The position in the call's argument block.
    pub arg: u32,
    pub offset: usize,
}

pub(super) enum Step<D: Driver> {
    /// A call of a kernel with an argument block of the template.
    Kernel { code: D::Kernel, words: Range<usize> },
    /// Calls of kernels that may run concurrently, each with an argument block of the template.
    Kernels(Box<[(D::Kernel, Range<usize>)]>),
    /// A kernel that only copies operands to results. It is skipped if all results share their operands' memory.
    /// `pairs` are the words with the addresses of source and destination.
    Copy { code: D::Kernel, words: Range<usize>, pairs: SmallVec<[[usize; 2]; 1]> },
    /// A contraction, whose result is stored or read by epilogues.
    Contraction { contraction: Box<Contraction>, code: Arc<D::Contraction>, call: CallWords<D> },
    /// A library step.
    Library { step: Arc<LibraryCall>, code: Arc<D::LibraryStep>, call: CallWords<D>, order: StreamOrder },
    /// A look at the record of a check. `record` is the word with its address, and `views` have those of the views.
    Check { check: Arc<Check>, record: usize, views: SmallVec<[usize; 2]> },
    /// A call of a routine.
    Call { routine: usize, block: usize },
    /// A branch: a call of one of two routines.
    Branch { condition: usize, routines: [usize; 2], block: usize, on_device: bool },
    /// A loop: successive calls of a routine.
    Loop(Box<Repeated>),
}

/// The order of a library step among the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StreamOrder {
    /// After all earlier steps.
    InOrder,
    /// On the stream for communication. Later steps wait for it if it `joins` at once.
    Forked { fork: u32, joins: bool },
    /// After all earlier steps and this fork.
    Joining(u32),
}

impl<D: Driver> Step<D> {
    /// Returns whether a queued driver may submit the issued steps before later ones are issued, if it may in the
    /// `submitting` routines. It does so to read a condition, to act on the host, or because a loop is long. Also
    /// returns true for a step that runs beside others, and for the step that ends it: it may fail until then.
    fn submits(&self, submitting: &[bool]) -> bool {
        match self {
            Self::Kernel { .. } | Self::Kernels(_) | Self::Copy { .. } => false,
            Self::Contraction { .. } | Self::Check { .. } => false,
            Self::Library { step, order, .. } => {
                *order != StreamOrder::InOrder || definition(step.op).effects.act_on_host()
            }
            Self::Call { routine, .. } => submitting[*routine],
            Self::Branch { on_device, .. } => !on_device,
            Self::Loop(it) => !it.on_device(),
        }
    }

    /// Returns whether the driver executes something: the step is no call of routines, and a copy has distinct memory.
    pub fn is_issued(&self, words: &[u64]) -> bool {
        match self {
            Self::Copy { pairs, .. } => pairs.iter().any(|&[from, to]| words[from] != words[to]),
            Self::Call { .. } | Self::Branch { .. } | Self::Loop(_) => false,
            _ => true,
        }
    }
}

/// The words with the addresses of a call of a contraction or a library step.
pub(super) struct CallWords<D: Driver> {
    pub operands: SmallVec<[OperandWord; 2]>,
    /// The results; empty if epilogues read the result of a contraction.
    pub results: SmallVec<[usize; 1]>,
    pub epilogues: Box<[Epilogue<D>]>,
    /// The workspace, if the step needs one.
    pub workspace: Option<usize>,
}

/// An epilogue of a contraction or a library op, with the argument block of a call.
pub(super) struct Epilogue<D: Driver> {
    pub code: D::Kernel,
    pub block: Range<usize>,
    pub words: TileArguments,
}

/// The word with the address of an operand.
#[derive(Clone, Copy)]
pub(super) struct OperandWord {
    pub word: usize,
    /// Whether it is an input of its routine, and so possibly an input of the run.
    pub is_input: bool,
}

impl<D: Driver> Program<D> {
    /// Returns the number of steps of the main routine up to the last one at which a queued driver submits issued
    /// steps, or joins a fork.
    pub fn submitting_steps(&self) -> u32 {
        // Callees come before their callers.
        let mut submitting = vec![false; self.routines.len()];
        for at in 0..self.routines.len() {
            submitting[at] = self.routines[at].steps.iter().any(|it| it.submits(&submitting));
        }
        let main = self.routines.last().map_or(&[][..], |it| &it.steps);
        main.iter().rposition(|it| it.submits(&submitting)).map_or(0, |it| it as u32 + 1)
    }

    /// Relocates a copy of the template to an arena.
    pub fn place(&self, words: &mut [u64], arena: &Storage) {
        for &(word, at) in &self.arena_words {
            words[word as usize] = arena.device_ptr() as u64 + at as u64;
        }
    }
}

/// A loop. Words are numbered as in the template.
pub(super) struct Repeated {
    pub body: usize,
    /// The argument block of an iteration: carries, sequences, invariants; then computed carries, series, and the next
    /// condition.
    pub block: usize,
    pub trips: TripCount,
    pub carries: Vec<CarryWords>,
    /// The chains, in the order of the computed carries with which they begin.
    pub chains: Vec<Chain>,
    pub cycles: Vec<Cycle>,
    pub sequences: Vec<Series>,
    pub series: Vec<Series>,
    /// The position of the first output in the block.
    pub outputs: usize,
    /// Whether the block is the same in all iterations but the first.
    pub is_fixed: bool,
    /// The words that change from one iteration to the next.
    pub varying: Vec<Patch>,
    /// The word with the address of memory for a value of a cycle, if the device decides the condition.
    pub scratch: Option<usize>,
}

impl Repeated {
    /// Returns whether the device decides the condition.
    pub fn on_device(&self) -> bool {
        matches!(self.trips, TripCount::While { on_device: true, .. })
    }
}

/// Carries that are permuted cyclically: each takes the value of the previous one.
pub(super) type Cycle = SmallVec<[usize; 2]>;

/// The words with the addresses of a carry's initial value and of its result.
pub(super) struct CarryWords {
    pub initial: usize,
    pub result: usize,
}

/// Carries that are shifted: each takes the value of the previous one, and the first takes the value that the body
/// computes.
pub(super) struct Chain {
    pub carries: SmallVec<[usize; 2]>,
    /// The words with the addresses of the results of the carries, and of one more buffer. A single carry that is
    /// updated in place needs no extra buffer.
    pub ring: SmallVec<[usize; 3]>,
    pub bytes: usize,
}

/// A value with one element per iteration.
pub(super) struct Series {
    /// The word with its address.
    pub word: usize,
    pub row_bytes: usize,
}

pub(super) enum TripCount {
    /// Iterates until a condition is false.
    While {
        /// The words with the addresses of the first and the next condition.
        first: usize,
        next: usize,
        /// The word with the address of the number of iterations.
        count: Option<usize>,
        /// Whether the device decides the condition.
        on_device: bool,
    },
    /// Iterates a constant number of times over arrays.
    Fixed { count: usize, reverse: bool },
    /// Iterates a computed number of times over stacks. `count` is the word with the address of the number.
    Counted { count: usize, reverse: bool },
}
