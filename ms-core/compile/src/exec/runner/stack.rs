//! Implements stacks: sequences of values that loops push, with a length known only at run time.
//!
//! A buffer holds the number of a stack. Stacks that a routine opens and does not return are closed when it ends, so
//! numbers follow the nesting of calls.

use ms_ir::data::{MemorySpace, Storage};
use ms_ir::error::{Code, Error, Result};

/// Approximate size in bytes of the first chunk of a stack; each further one is twice as large.
const FIRST_CHUNK: usize = 2 << 10;

/// The stacks of one run.
#[derive(Default)]
pub(super) struct Stacks {
    open: Vec<Stack>,
}

struct Stack {
    row_bytes: usize,
    rows: usize,
    memory: Memory,
}

enum Memory {
    /// Contiguous rows at an address, in memory that the stack does not own.
    Borrowed(u64),
    /// Chunks; chunk `k` has `first << k` rows.
    Chunks { first: usize, chunks: Vec<Storage> },
}

impl Stacks {
    /// Returns the number of open stacks.
    pub fn mark(&self) -> usize {
        self.open.len()
    }

    /// Closes the stacks that were opened since `mark`, and returns their memory.
    pub fn close_from(&mut self, mark: usize) -> impl Iterator<Item = Storage> {
        let chunks = |it: Stack| match it.memory {
            Memory::Chunks { chunks, .. } => chunks,
            Memory::Borrowed(_) => Vec::new(),
        };
        self.open.drain(mark..).flat_map(chunks)
    }

    /// Opens an empty stack and returns its number.
    pub fn open(&mut self, row_bytes: usize) -> u64 {
        let first = 1 << (FIRST_CHUNK / row_bytes.max(1)).max(1).ilog2();
        self.add(Stack { row_bytes, rows: 0, memory: Memory::Chunks { first, chunks: Vec::new() } })
    }

    /// Opens a stack of contiguous rows in borrowed memory and returns its number.
    pub fn borrow(&mut self, first: u64, rows: usize, row_bytes: usize) -> u64 {
        self.add(Stack { row_bytes, rows, memory: Memory::Borrowed(first) })
    }

    fn add(&mut self, stack: Stack) -> u64 {
        self.open.push(stack);
        self.open.len() as u64 - 1
    }

    /// Returns the stack with this number, if it exists and has rows of this size.
    fn get(&self, number: u64, row_bytes: usize) -> Result<&Stack> {
        let found = self.open.get(number as usize).filter(|it| it.row_bytes == row_bytes);
        found.ok_or_else(|| Error::new(Code::Verify, "a step uses a stack that does not exist"))
    }

    /// Returns the number of rows of a stack with rows of this size.
    ///
    /// # Errors
    /// [`Code::Verify`] if there is no such stack.
    pub fn rows(&self, number: u64, row_bytes: usize) -> Result<usize> {
        self.get(number, row_bytes).map(|it| it.rows)
    }

    /// Returns the address of a row of an open stack.
    pub fn row(&self, number: u64, row: usize) -> u64 {
        self.open[number as usize].row(row)
    }

    /// Pushes rows on an owned stack with memory in `space`, and returns the address of the first one.
    ///
    /// # Errors
    /// [`Code::Memory`] if memory runs out; the errors of the device.
    pub fn push(&mut self, number: u64, rows: usize, space: MemorySpace) -> Result<u64> {
        let stack = &mut self.open[number as usize];
        let row = stack.rows;
        let missing = || Error::new(Code::Memory, format!("no memory holds {rows} values of a loop"));
        stack.rows = row.checked_add(rows).ok_or_else(missing)?;
        if let Memory::Chunks { first, chunks } = &mut stack.memory {
            while chunk_rows(*first, chunks.len()).ok_or_else(missing)? - *first < stack.rows {
                let bytes = chunk_rows(*first, chunks.len()).and_then(|it| it.checked_mul(stack.row_bytes));
                chunks.push(Storage::uninit_in(space, bytes.ok_or_else(missing)?)?);
            }
        }
        Ok(stack.row(row))
    }
}

/// Returns the number of rows of chunk `k`; `None` on overflow.
fn chunk_rows(first: usize, k: usize) -> Option<usize> {
    first.checked_mul(1usize.checked_shl(k as u32)?)
}

impl Stack {
    fn row(&self, row: usize) -> u64 {
        match &self.memory {
            Memory::Borrowed(first) => first + (row * self.row_bytes) as u64,
            Memory::Chunks { first, chunks } => {
                let chunk = (row / first + 1).ilog2() as usize;
                // Without a row there is no chunk, and the address is never accessed.
                let memory = chunks.get(chunk).map_or(0, |it| it.device_ptr() as u64);
                memory + ((row - ((first << chunk) - first)) * self.row_bytes) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_addresses() {
        for row_bytes in [8, 24, 5000] {
            let mut stacks = Stacks::default();
            let stack = stacks.open(row_bytes);
            for i in 0..3000u64 {
                // SAFETY: the pushed row has eight bytes, and only this thread accesses the stack.
                unsafe { (stacks.push(stack, 1, MemorySpace::Host).expect("memory") as *mut u64).write_unaligned(i) };
            }
            assert_eq!(stacks.rows(stack, row_bytes).expect("it is open"), 3000);
            for i in 0..3000u64 {
                // SAFETY: row `i` has eight bytes, which the loop above wrote.
                assert_eq!(unsafe { (stacks.row(stack, i as usize) as *const u64).read_unaligned() }, i);
            }
            assert!(stacks.rows(stack, row_bytes + 1).is_err());
            assert!(stacks.close_from(0).count() > 1);
            assert!(stacks.rows(stack, row_bytes).is_err());
        }
    }
}
