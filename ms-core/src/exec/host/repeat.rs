//! Loops.
//!
//! An iteration is a call whose block changes: a computed carry is written to one of the places
//! of its chain's ring, which has one more than the chain has carries, and each further carry of
//! the chain moves on to the address of the one before. A carry that its iteration may write over
//! has one place only. No value is copied but the last ones, to
//! where the loop's results go, when they do not happen to be there.

use super::run::{Patch, Run};
use crate::error::{Code, Error, Result};
use smallvec::SmallVec;

/// A loop with its places. Numbers of words are those of the template.
pub(super) struct Repeated {
    pub body: usize,
    /// The block of an iteration: carries, sequences, what stays the same; then computed carries,
    /// series, and the next condition.
    pub block: usize,
    pub trips: Trips,
    pub carries: Vec<CarryWords>,
    /// Each begins with a computed carry; in the order of these.
    pub chains: Vec<Chain>,
    pub cycles: Vec<Cycle>,
    pub sequences: Vec<Series>,
    pub series: Vec<Series>,
    /// The position of the first output in the block.
    pub outputs: usize,
    /// Whether the block is the same for all iterations but the first.
    pub settles: bool,
    /// What changes from one iteration to the next.
    pub varying: Vec<Patch>,
}

/// Carries that take over from each other in a circle, each from the one before.
pub(super) type Cycle = SmallVec<[usize; 2]>;

/// Words of the addresses where a carry begins, and where its last value goes.
pub(super) struct CarryWords {
    pub initial: usize,
    pub result: usize,
}

/// Carries that take over from each other: each from the one before, the first from the body.
pub(super) struct Chain {
    pub carries: SmallVec<[usize; 2]>,
    /// Words of the addresses of the results of the carries, and of one more place, unless the
    /// one carry is written over.
    pub ring: SmallVec<[usize; 3]>,
    pub bytes: usize,
}

/// A value of which each iteration has one element.
pub(super) struct Series {
    /// The word of its address.
    pub word: usize,
    pub row_bytes: usize,
}

pub(super) enum Trips {
    /// Words of the addresses of the first and the next condition, and of the number of
    /// iterations.
    While { first: usize, next: usize, count: Option<usize> },
    /// Arrays.
    Times { count: usize, reverse: bool },
    /// Stacks; the word of the address of the number.
    Counted { count: usize, reverse: bool },
}

/// What stands for a stack.
///
/// # Safety
/// The address is that of such a number, which may be read.
unsafe fn number(address: u64) -> u64 {
    // SAFETY: as the caller's.
    unsafe { (address as *const u64).read_unaligned() }
}

impl Repeated {
    /// Runs the loop.
    ///
    /// # Safety
    /// As for [`Run::call`], of the routine that the loop stands in.
    pub unsafe fn run(&self, run: &mut Run<'_>) -> Result<()> {
        for (i, carry) in self.carries.iter().enumerate() {
            run.words[self.block + i] = run.words[carry.initial];
        }
        let routine = &run.program.routines[self.body];
        run.patch(&routine.patches, self.block);
        // SAFETY: as the caller's.
        unsafe {
            match self.trips {
                Trips::While { first, next, count } => self.run_while(run, first, next, count)?,
                Trips::Times { count, reverse } => self.run_times(run, count, reverse)?,
                Trips::Counted { count, reverse } => self.run_counted(run, count, reverse)?,
            }
            self.chains.iter().for_each(|it| self.settle(run, it));
        }
        for &carry in self.cycles.iter().flatten() {
            let (from, to) = (run.words[self.block + carry], run.words[self.carries[carry].result]);
            // SAFETY: both are addresses of values of this carry; they were never written here.
            unsafe { copy(from, to, self.cycle_bytes(run, carry)) };
        }
        Ok(())
    }

    fn cycle_bytes(&self, run: &Run<'_>, carry: usize) -> usize {
        run.program.routines[self.body].bytes[carry]
    }

    /// One iteration, number `at`, whose sequences and series are in the block.
    unsafe fn iteration(&self, run: &mut Run<'_>, at: usize) -> Result<()> {
        let routine = &run.program.routines[self.body];
        let settled = self.settles && at > 1;
        if !settled {
            for (i, chain) in self.chains.iter().enumerate() {
                run.words[self.block + self.outputs + i] = run.words[chain.ring[at % chain.ring.len()]];
            }
            run.patch(&self.varying, self.block);
        }
        let mark = run.stacks.mark();
        // SAFETY: the caller's contract, and the block holds places of this loop's own besides.
        unsafe { run.steps(routine, self.block)? };
        if routine.closes_stacks {
            run.stacks.close_from(mark);
        }
        if settled {
            return Ok(());
        }
        for (i, chain) in self.chains.iter().enumerate() {
            let mut next = run.words[self.block + self.outputs + i];
            for &carry in &chain.carries {
                std::mem::swap(&mut next, &mut run.words[self.block + carry]);
            }
        }
        for cycle in &self.cycles {
            let mut next = run.words[self.block + cycle[cycle.len() - 1]];
            for &carry in cycle {
                std::mem::swap(&mut next, &mut run.words[self.block + carry]);
            }
        }
        Ok(())
    }

    unsafe fn run_while(&self, run: &mut Run<'_>, first: usize, next: usize, count: Option<usize>) -> Result<()> {
        let stacks: SmallVec<[u64; 4]> = self.series.iter().map(|it| run.stacks.open(it.row_bytes)).collect();
        let mut at = 0;
        // SAFETY: the addresses are those of bools, an i64, and numbers of stacks, in buffers of
        // the loop's routine.
        unsafe {
            let mut condition = run.words[first] as *const u8;
            while *condition != 0 {
                for (i, &stack) in stacks.iter().enumerate() {
                    let row = run.stacks.push(stack, 1)?;
                    run.words[self.block + self.outputs + self.chains.len() + i] = row as u64;
                }
                self.iteration(run, at)?;
                at += 1;
                condition = run.words[next] as *const u8;
            }
            if let Some(count) = count {
                (run.words[count] as *mut i64).write_unaligned(at as i64);
            }
        }
        self.give(run, &stacks);
        Ok(())
    }

    /// Writes what stands for the stacks of the series.
    fn give(&self, run: &Run<'_>, stacks: &[u64]) {
        for (series, &stack) in self.series.iter().zip(stacks) {
            // SAFETY: the address is that of a buffer of the loop's routine for this number.
            unsafe { (run.words[series.word] as *mut u64).write_unaligned(stack) };
        }
    }

    unsafe fn run_times(&self, run: &mut Run<'_>, count: usize, reverse: bool) -> Result<()> {
        for at in 0..count {
            let row = if reverse { count - 1 - at } else { at };
            for (i, it) in self.sequences.iter().enumerate() {
                run.words[self.block + self.carries.len() + i] = run.words[it.word] + (row * it.row_bytes) as u64;
            }
            for (i, it) in self.series.iter().enumerate() {
                let place = run.words[it.word] + (row * it.row_bytes) as u64;
                run.words[self.block + self.outputs + self.chains.len() + i] = place;
            }
            // SAFETY: as the caller's; sequences and series have `count` elements.
            unsafe { self.iteration(run, at)? };
        }
        Ok(())
    }

    unsafe fn run_counted(&self, run: &mut Run<'_>, count: usize, reverse: bool) -> Result<()> {
        // SAFETY: the addresses are those of an i64, and of numbers of stacks, in buffers of the
        // loop's routine.
        let (count, sequences) = unsafe {
            let numbers = self.sequences.iter().map(|it| number(run.words[it.word])).collect::<SmallVec<[u64; 4]>>();
            ((run.words[count] as *const i64).read_unaligned(), numbers)
        };
        let count = usize::try_from(count)
            .map_err(|_| Error::new(Code::Argument, "the number of iterations is negative").with_op("scan"))?;
        for (it, &stack) in self.sequences.iter().zip(&sequences) {
            let rows = run.stacks.rows(stack, it.row_bytes)?;
            if rows < count {
                let message = format!("{count} iterations over a sequence of {rows} elements");
                return Err(Error::new(Code::Shape, message).with_op("scan"));
            }
        }
        let series: SmallVec<[u64; 4]> = self.series.iter().map(|it| run.stacks.open(it.row_bytes)).collect();
        for &stack in &series {
            run.stacks.push(stack, count)?;
        }
        for at in 0..count {
            let row = if reverse { count - 1 - at } else { at };
            for (i, &stack) in sequences.iter().enumerate() {
                run.words[self.block + self.carries.len() + i] = run.stacks.row(stack, row) as u64;
            }
            for (i, &stack) in series.iter().enumerate() {
                let place = run.stacks.row(stack, row) as u64;
                run.words[self.block + self.outputs + self.chains.len() + i] = place;
            }
            // SAFETY: as the caller's; sequences and series have `count` elements.
            unsafe { self.iteration(run, at)? };
        }
        self.give(run, &series);
        Ok(())
    }

    /// Brings the last values of a chain to where the loop's results go.
    ///
    /// # Safety
    /// As for [`Repeated::run`].
    unsafe fn settle(&self, run: &Run<'_>, chain: &Chain) {
        let word = |it: usize| run.words[it];
        let mut at: SmallVec<[u64; 4]> = chain.carries.iter().map(|it| word(self.block + it)).collect();
        let to: SmallVec<[u64; 4]> = chain.carries.iter().map(|&it| word(self.carries[it].result)).collect();
        while at != to && chain.bytes > 0 {
            // A place that no value is in, and the value that belongs there; or, where values
            // stand in each other's places, any that does not stand in its own.
            let free = (0..to.len()).find(|&i| at[i] != to[i] && !at.contains(&to[i]));
            let (i, place) = match free {
                Some(i) => (i, to[i]),
                None => {
                    let spare = chain.ring.iter().map(|&it| word(it)).find(|it| !at.contains(it));
                    let i = (0..to.len()).find(|&i| at[i] != to[i]).expect("one does not");
                    (i, spare.expect("a ring has more places than values"))
                }
            };
            // SAFETY: both are places of values of this chain, and nothing is in the second.
            unsafe { copy(at[i], place, chain.bytes) };
            at[i] = place;
        }
    }
}

/// Copies a value.
///
/// # Safety
/// The first address is that of `bytes` bytes, the second that of as many that nobody uses.
unsafe fn copy(from: u64, to: u64, bytes: usize) {
    // SAFETY: as the caller's.
    unsafe { (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes) };
}
