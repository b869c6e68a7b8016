//! Runs loops.
//!
//! An iteration is a call whose argument block changes. The buffers of a chain form a ring, which has one more buffer
//! than the chain has carries. A computed carry is written to one of them, and each further carry of the chain takes
//! the address of the previous one. A carry that is updated in place has a single buffer. Only the last values are
//! copied to the loop's results, unless they are there already.
//!
//! If the device decides the condition, the iteration is issued once, and its addresses stay the same. The carries are
//! in the memory of the results, and the iteration ends with copies to the next carries.

use super::program::{Chain, Cycle, Repeated, TripCount};
use super::run::Run;
use crate::exec::{Driver, LoopCondition};
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
        if let TripCount::While { first, next, on_device, .. } = self.trips
            && run.decides(on_device)
        {
            // SAFETY: the addresses of the containing routine's buffers are valid by this method's contract.
            return unsafe { self.run_on_device(run, first, next) };
        }
        let routine = &run.program.routines[self.body];
        run.patch(&routine.patches, self.block);
        // SAFETY: the addresses that the loop's words contain are in buffers of the containing routine, which are valid
        // by this method's contract.
        unsafe {
            match self.trips {
                TripCount::While { first, next, count, .. } => self.run_while(run, first, next, count)?,
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
        if !(D::CONDITIONS && run.is_body) {
            run.driver.iterated(&mut run.commands)?;
        }
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

    /// Issues a loop whose condition the device decides. The block has the addresses of the initial values of carries.
    ///
    /// # Safety
    /// See [`Repeated::run`].
    unsafe fn run_on_device<D: Driver>(&self, run: &mut Run<'_, '_, D>, first: usize, next: usize) -> Result<()> {
        let routine = &run.program.routines[self.body];
        // A carry that keeps its value is read where it is.
        let kept = |cycle: &&Cycle| cycle.len() == 1;
        let moved = self.chains.iter().map(|it| &it.carries).chain(self.cycles.iter().filter(|it| !kept(it)));
        for &carry in moved.flatten() {
            let (from, to) = (run.words[self.block + carry], run.words[self.carries[carry].result]);
            if from != to {
                // SAFETY: both are buffers of the carry with its number of bytes. A result has the memory of at most
                // one initial value, of the same carry.
                unsafe { run.copy(from, to, routine.bytes[carry])? };
            }
            run.words[self.block + carry] = to;
        }
        for (i, chain) in self.chains.iter().enumerate() {
            run.words[self.block + self.outputs + i] = run.words[chain.ring[chain.ring.len() - 1]];
        }
        run.patch(&routine.patches, self.block);
        let body = run.body(|run| {
            // SAFETY: the block has the addresses of the loop's buffers, and the words are patched from it.
            unsafe { run.steps(routine)? };
            self.chains.iter().enumerate().try_for_each(|(i, chain)| {
                let from = run.words[self.block + self.outputs + i];
                // SAFETY: the iteration wrote the value to the spare buffer of the chain, or to the only one.
                unsafe { self.shift(run, from, &chain.carries) }
            })?;
            self.cycles.iter().filter(|it| !kept(it)).try_for_each(|cycle| {
                let last = cycle[cycle.len() - 1];
                let scratch = run.words[self.scratch.expect("the loader adds memory for cycles")];
                let from = run.words[self.block + last];
                // SAFETY: no step uses the workspace between others, and the carries have equal sizes.
                unsafe {
                    run.copy(from, scratch, routine.bytes[last])?;
                    self.shift(run, scratch, cycle)
                }
            })
        })?;
        let condition = LoopCondition { first: run.words[first], next: run.words[next] };
        // SAFETY: the words have the addresses of bools in buffers of the loop's routine. Earlier steps wrote the first
        // condition, and the body writes the next one.
        unsafe { run.driver.repeat(&mut run.commands, condition, body)? };
        for &[carry] in self.cycles.iter().filter(kept).filter_map(|it| it.first_chunk()) {
            let (from, to) = (run.words[self.block + carry], run.words[self.carries[carry].result]);
            // SAFETY: they are the initial value and the result of the carry, which the loop did not write.
            unsafe { run.copy(from, to, routine.bytes[carry])? };
        }
        Ok(())
    }

    /// Copies the value of each carry but the last to the next one, and the value at `from` to the first.
    ///
    /// # Safety
    /// The block has the addresses of the carries, whose buffers are distinct and have the size of the value.
    unsafe fn shift<D: Driver>(&self, run: &mut Run<'_, '_, D>, from: u64, carries: &[usize]) -> Result<()> {
        let bytes = run.program.routines[self.body].bytes[carries[0]];
        let places: SmallVec<[u64; 4]> =
            std::iter::once(from).chain(carries.iter().map(|it| run.words[self.block + it])).collect();
        for pair in places.windows(2).rev().filter(|it| it[0] != it[1] && bytes > 0) {
            // SAFETY: the buffers are distinct and have `bytes` bytes by this method's contract.
            unsafe { run.copy(pair[0], pair[1], bytes)? };
        }
        Ok(())
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
