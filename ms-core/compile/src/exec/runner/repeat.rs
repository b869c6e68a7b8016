//! Runs loops.
//!
//! An iteration is a call whose argument block changes. The buffers of a chain form a ring, which has one more buffer
//! than the chain has carries. A computed carry is written to one of them, and each further carry of the chain takes
//! the address of the previous one. A carry that is updated in place has a single buffer. Only the last values are
//! copied to the loop's results, unless they are there already.

use super::program::{Chain, Repeated, TripCount};
use super::run::Run;
use crate::exec::Driver;
use ms_ir::error::{Code, Error, Missing, Result};
use smallvec::SmallVec;

impl Repeated {
    /// Runs the loop.
    ///
    /// # Safety
    /// The addresses in the block of the routine that contains the loop are valid as for [`Run::call`].
    pub unsafe fn run<D: Driver>(&self, run: &mut Run<'_, '_, D>) -> Result<()> {
        for (i, carry) in self.carries.iter().enumerate() {
            run.words[self.block + i] = run.words[carry.initial];
        }
        let routine = &run.program.routines[self.body];
        run.patch(&routine.patches, self.block);
        // SAFETY: the addresses that the loop's words contain are in buffers of the containing routine, which are valid
        // by this method's contract.
        unsafe {
            match self.trips {
                TripCount::While { first, next, count } => self.run_while(run, first, next, count)?,
                TripCount::Fixed { count, reverse } => self.run_times(run, count, reverse)?,
                TripCount::Counted { count, reverse } => self.run_counted(run, count, reverse)?,
            }
            self.chains.iter().try_for_each(|it| self.copy_results(run, it))?;
        }
        for &carry in self.cycles.iter().flatten() {
            let (from, to) = (run.words[self.block + carry], run.words[self.carries[carry].result]);
            // SAFETY: `from` is the initial value of this cycle's carry and `to` its result, distinct buffers of the
            // routine. The loop has written to neither.
            unsafe { run.copy(from, to, routine.bytes[carry])? };
        }
        Ok(())
    }

    /// Runs iteration `at`. The block already has the addresses of its sequences and series.
    unsafe fn iteration<D: Driver>(&self, run: &mut Run<'_, '_, D>, at: usize) -> Result<()> {
        let routine = &run.program.routines[self.body];
        let fixed = self.is_fixed && at > 1;
        if !fixed {
            for (i, chain) in self.chains.iter().enumerate() {
                run.words[self.block + self.outputs + i] = run.words[chain.ring[at % chain.ring.len()]];
            }
            run.patch(&self.varying, self.block);
        }
        let mark = run.stacks.mark();
        // SAFETY: the block has the addresses of sequences and series by this method's contract. All others are
        // addresses of the loop's buffers.
        unsafe { run.steps(routine)? };
        if routine.closes_stacks {
            run.close_stacks(mark);
        }
        run.driver.iterated(&mut run.commands)?;
        if fixed {
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

    unsafe fn run_while<D: Driver>(
        &self,
        run: &mut Run<'_, '_, D>,
        first: usize,
        next: usize,
        count: Option<usize>,
    ) -> Result<()> {
        let stacks: SmallVec<[u64; 4]> = self.series.iter().map(|it| run.stacks.open(it.row_bytes)).collect();
        let mut at = 0;
        // SAFETY: the words have the addresses of bools, an i64 and stack numbers in buffers of the loop's routine. The
        // previous iteration, or the steps before the loop, wrote the condition.
        unsafe {
            let mut condition = first;
            while run.driver.condition(&mut run.commands, run.words[condition])? {
                for (i, &stack) in stacks.iter().enumerate() {
                    let row =
                        run.stacks.push(stack, 1, run.driver.space()).map_err(|it| it.of_memory(Missing::Inside))?;
                    run.words[self.block + self.outputs + self.chains.len() + i] = row;
                }
                self.iteration(run, at)?;
                at += 1;
                condition = next;
            }
            if let Some(count) = count {
                run.driver.set_number(&mut run.commands, run.words[count], at as u64)?;
            }
        }
        self.write_numbers(run, &stacks)
    }

    /// Writes the numbers of the stacks to the series.
    fn write_numbers<D: Driver>(&self, run: &mut Run<'_, '_, D>, stacks: &[u64]) -> Result<()> {
        for (series, &stack) in self.series.iter().zip(stacks) {
            // SAFETY: the word has the address of an eight-byte buffer for this number in the loop's routine.
            unsafe { run.driver.set_number(&mut run.commands, run.words[series.word], stack)? };
        }
        Ok(())
    }

    unsafe fn run_times<D: Driver>(&self, run: &mut Run<'_, '_, D>, count: usize, reverse: bool) -> Result<()> {
        for at in 0..count {
            let row = if reverse { count - 1 - at } else { at };
            for (i, it) in self.sequences.iter().enumerate() {
                run.words[self.block + self.carries.len() + i] = run.words[it.word] + (row * it.row_bytes) as u64;
            }
            for (i, it) in self.series.iter().enumerate() {
                let address = run.words[it.word] + (row * it.row_bytes) as u64;
                run.words[self.block + self.outputs + self.chains.len() + i] = address;
            }
            // SAFETY: sequences and series have `count` elements each, and `row < count`.
            unsafe { self.iteration(run, at)? };
        }
        Ok(())
    }

    unsafe fn run_counted<D: Driver>(&self, run: &mut Run<'_, '_, D>, count: usize, reverse: bool) -> Result<()> {
        // The number of iterations and the numbers of the stacks are read at once.
        let at = std::iter::once(count).chain(self.sequences.iter().map(|it| it.word)).map(|it| run.words[it]);
        let at: SmallVec<[u64; 4]> = at.collect();
        let mut numbers: SmallVec<[u64; 4]> = SmallVec::from_elem(0, at.len());
        // SAFETY: the words have the addresses of an i64 and of stack numbers, which earlier steps wrote, in buffers of
        // the loop's routine.
        unsafe { run.driver.numbers(&mut run.commands, &at, &mut numbers)? };
        let (count, sequences) = (numbers[0] as i64, &numbers[1..]);
        let count = usize::try_from(count)
            .map_err(|_| Error::new(Code::Argument, "the number of iterations is negative").with_op("scan"))?;
        for (it, &stack) in self.sequences.iter().zip(sequences) {
            let rows = run.stacks.rows(stack, it.row_bytes)?;
            if rows < count {
                let message = format!("{count} iterations over a sequence of {rows} elements");
                return Err(Error::new(Code::Shape, message).with_op("scan"));
            }
        }
        let series: SmallVec<[u64; 4]> = self.series.iter().map(|it| run.stacks.open(it.row_bytes)).collect();
        for &stack in &series {
            run.stacks.push(stack, count, run.driver.space()).map_err(|it| it.of_memory(Missing::Inside))?;
        }
        for at in 0..count {
            let row = if reverse { count - 1 - at } else { at };
            for (i, &stack) in sequences.iter().enumerate() {
                run.words[self.block + self.carries.len() + i] = run.stacks.row(stack, row);
            }
            for (i, &stack) in series.iter().enumerate() {
                run.words[self.block + self.outputs + self.chains.len() + i] = run.stacks.row(stack, row);
            }
            // SAFETY: `row < count`, every sequence has at least `count` rows by the check above, and `count` rows were
            // pushed on every series.
            unsafe { self.iteration(run, at)? };
        }
        self.write_numbers(run, &series)
    }

    /// Copies the last values of a chain to the loop's results.
    ///
    /// # Safety
    /// The addresses of the chain's results and ring are valid, as for [`Repeated::run`].
    unsafe fn copy_results<D: Driver>(&self, run: &mut Run<'_, '_, D>, chain: &Chain) -> Result<()> {
        let mut at: SmallVec<[u64; 4]> = chain.carries.iter().map(|it| run.words[self.block + it]).collect();
        let to: SmallVec<[u64; 4]> = chain.carries.iter().map(|&it| run.words[self.carries[it].result]).collect();
        while at != to && chain.bytes > 0 {
            // A result that holds no live value, and its value. In a cycle, it is the spare buffer and any value that
            // is not in its result.
            let free = (0..to.len()).find(|&i| at[i] != to[i] && !at.contains(&to[i]));
            let (i, target) = match free {
                Some(i) => (i, to[i]),
                None => {
                    let spare = chain.ring.iter().map(|&it| run.words[it]).find(|it| !at.contains(it));
                    let i = (0..to.len()).find(|&i| at[i] != to[i]).expect("one is not in its result");
                    (i, spare.expect("a ring has more buffers than values"))
                }
            };
            // SAFETY: both are distinct buffers of this chain with `chain.bytes` bytes, and `target` holds no live
            // value.
            unsafe { run.copy(at[i], target, chain.bytes)? };
            at[i] = target;
        }
        Ok(())
    }
}
