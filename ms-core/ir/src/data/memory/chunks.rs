//! Allocates blocks of medium size from chunks that are mapped as huge pages.
//!
//! Arrays of this size are too small for separate huge pages. With small pages, a model with many of them spends most
//! of its first step on page faults.

use super::huge_page::{HUGE_PAGE, map};
use memmap2::MmapMut;
use std::collections::BTreeMap;
use std::ptr::NonNull;

/// Bytes of a chunk.
const CHUNK: usize = 8 * HUGE_PAGE;

/// The chunks of the process.
pub struct Chunks {
    /// The chunks, by the address of their first block.
    all: BTreeMap<usize, Chunk>,
    /// The address of the chunk that new blocks come from, and the number of its allocated bytes.
    current: Option<(usize, usize)>,
}

struct Chunk {
    mapping: MmapMut,
    /// The number of its live blocks.
    blocks: usize,
}

impl Chunks {
    /// Creates an empty allocator.
    pub const fn new() -> Self {
        Self { all: BTreeMap::new(), current: None }
    }

    /// Allocates a block of `bytes` bytes, at most [`CHUNK`], if the system has memory for it.
    pub fn cut(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        let (start, used) = match self.current {
            Some((start, used)) if used + bytes <= CHUNK => (start, used),
            _ => {
                let (block, mapping) = map(CHUNK)?;
                let start = block.as_ptr() as usize;
                self.retire();
                self.all.insert(start, Chunk { mapping, blocks: 0 });
                (start, 0)
            }
        };
        self.current = Some((start, used + bytes));
        let chunk = self.all.get_mut(&start).expect("it was mapped");
        chunk.blocks += 1;
        let offset = start - chunk.mapping.as_ptr() as usize + used;
        NonNull::new(chunk.mapping.as_mut_ptr().wrapping_add(offset))
    }

    /// Returns the memory of a block to the system if it [is from](Self::cut) a chunk, and returns whether it is.
    ///
    /// # Safety
    /// The block has this many bytes, and is not used any more.
    pub unsafe fn give_back(&mut self, block: NonNull<u8>, bytes: usize) -> bool {
        let address = block.as_ptr() as usize;
        let Some((&start, chunk)) = self.all.range_mut(..=address).next_back() else { return false };
        if address - start >= CHUNK {
            return false;
        }
        chunk.blocks -= 1;
        if chunk.blocks > 0 {
            // SAFETY: the block has `bytes` bytes of this chunk and is not used any more, by this method's contract.
            unsafe { discard(&chunk.mapping, address, bytes) };
        } else if self.current.is_none_or(|it| it.0 != start) {
            self.all.remove(&start);
        } else {
            self.current = Some((start, 0));
        }
        true
    }

    /// Retires the current chunk, and unmaps it if it has no live blocks.
    fn retire(&mut self) {
        if let Some((start, _)) = self.current.take()
            && self.all.get(&start).is_some_and(|it| it.blocks == 0)
        {
            self.all.remove(&start);
        }
    }
}

/// Returns the pages of a block of a mapping to the system. All sizes of medium blocks are multiples of 16 KiB. On
/// systems where pages may be larger, they stay until the chunk is unmapped.
///
/// # Safety
/// The block lies in the mapping and is not used any more.
unsafe fn discard(mapping: &MmapMut, address: usize, bytes: usize) {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    {
        let offset = address - mapping.as_ptr() as usize;
        // SAFETY: the block is not read again, and its 4 KiB pages contain no other block, since block sizes are
        // multiples of 16 KiB. If the system refuses, the pages stay.
        unsafe { mapping.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, bytes) }.ok();
    }
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    let _ = (mapping, address, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 1 << 20;

    #[test]
    fn blocks_are_cut_one_after_the_other_and_chunks_are_unmapped_with_their_last_block() {
        let mut chunks = Chunks::new();
        let blocks: Vec<NonNull<u8>> =
            (0..3 * CHUNK / BLOCK).map(|_| chunks.cut(BLOCK).expect("the system has so much")).collect();
        for (i, block) in blocks.iter().enumerate() {
            assert_eq!(block.as_ptr() as usize % HUGE_PAGE, i * BLOCK % HUGE_PAGE);
            // SAFETY: `cut` returned this block of `BLOCK` bytes, and only this test uses it.
            unsafe { block.as_ptr().write_bytes(i as u8 + 1, BLOCK) };
        }
        for (i, block) in blocks.iter().enumerate() {
            // SAFETY: the loop above initialised all `BLOCK` bytes, and only this test uses them.
            let content = unsafe { std::slice::from_raw_parts(block.as_ptr(), BLOCK) };
            assert!(content.iter().all(|&it| it == i as u8 + 1), "block {i}");
        }
        assert_eq!(chunks.all.len(), 3);
        let (first, rest) = blocks.split_at(CHUNK / BLOCK + 1);
        for &block in first {
            // SAFETY: the block has `BLOCK` bytes and is not used again.
            assert!(unsafe { chunks.give_back(block, BLOCK) });
        }
        assert_eq!(chunks.all.len(), 2);
        for &block in rest {
            // SAFETY: the block has `BLOCK` bytes and is not used again.
            assert!(unsafe { chunks.give_back(block, BLOCK) });
        }
        assert_eq!(chunks.all.len(), 1, "new blocks are cut from the last chunk");
        assert_eq!(chunks.cut(BLOCK), Some(blocks[2 * CHUNK / BLOCK]));
    }

    #[test]
    fn a_returned_block_loses_its_content_and_no_other_does() {
        let mut chunks = Chunks::new();
        let [a, b] = [16 << 10, 80 << 10].map(|bytes| {
            let block = chunks.cut(bytes).expect("the system has so much");
            // SAFETY: `cut` returned this block of `bytes` bytes, and only this test uses it.
            unsafe { block.as_ptr().write_bytes(7, bytes) };
            block
        });
        // SAFETY: block `a` is only read as raw bytes afterwards. Its chunk stays mapped, because it also contains
        // block `b`.
        unsafe {
            assert!(chunks.give_back(a, 16 << 10));
            let (gone, kept) = (a.as_ptr().read_volatile(), b.as_ptr().read_volatile());
            assert_eq!(kept, 7);
            assert!(gone == 0 || cfg!(not(all(target_os = "linux", target_arch = "x86_64"))));
        }
    }

    #[test]
    fn blocks_of_others_are_not_taken() {
        let mut chunks = Chunks::new();
        let mut other = vec![0u8; BLOCK];
        let block = NonNull::new(other.as_mut_ptr()).expect("it has an address");
        // SAFETY: the block is not from a chunk, so its memory is not touched.
        assert!(!unsafe { chunks.give_back(block, BLOCK) });
        chunks.cut(BLOCK).expect("the system has so much");
        // SAFETY: the block is not from a chunk, so its memory is not touched.
        assert!(!unsafe { chunks.give_back(block, BLOCK) });
    }
}
