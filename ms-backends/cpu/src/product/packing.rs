//! Memory for the packed copies of operands that the `gemm` crates make, which end the process where
//! the system has none: what they ask for is bounded, and asked for before.

use super::gemm::Gemm;
use crate::threads;
use dyn_stack::{MemBuffer, StackReq};
use gemm_common::cache::{CACHE_INFO, kernel_params};
use gemm_common::gemm::{CACHELINE_ALIGN, L2_SLAB};
use ms_core::error::{Code, Error, Result};
use ms_core::tensor::try_room;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of the right operand that one call of the kernels packs at once, about: a part of a large
/// cache.
const PACKED: usize = 4 << 20;

/// Tiles of rows of the left operand that one call packs at once, at most.
const TILES: usize = 16;

/// Rows and columns that are added to fill tiles, at most.
const FILL: usize = 64;

/// Bytes that a block takes besides what is asked for: its alignment, and what the allocator keeps of it.
const AROUND: usize = 8 << 10;

/// The longest part of rows of the left operand that is packed at once.
fn depth<T: Gemm>() -> usize {
    static DEPTHS: [OnceLock<usize>; 2] = [const { OnceLock::new() }; 2];
    let size = size_of::<T>();
    *DEPTHS[size / 8].get_or_init(|| {
        let [rows, columns] = T::tile();
        // Sums of any length are cut into equal parts of at most so many terms.
        let longest = (9..29).map(|it| kernel_params(1 << 12, 1 << 12, 1 << it, rows, columns, size).kc);
        longest.max().expect("there are several lengths")
    })
}

/// How many columns of a product one call of the kernels gives at most, so that what it packs is
/// bounded whatever the caches are.
pub fn columns_at_once<T: Gemm>() -> usize {
    (PACKED / (depth::<T>() * size_of::<T>())).next_multiple_of(FILL)
}

/// Makes sure that there is memory for what is packed for products `[m, k, n]`, so `many` of which run
/// at once as there are threads.
///
/// # Errors
/// [`Code::Memory`] when the system has none.
pub fn reserve<T: Gemm>([m, k, n]: [usize; 3], many: usize) -> Result<()> {
    prepare_thread()?;
    // Either operand may be the one that is packed by columns.
    let most = columns_at_once::<T>().max(TILES * T::tile()[0]);
    let side = |it: usize| it.min(most) + FILL;
    let bytes = (side(m) + side(n)) * k.min(depth::<T>()) * size_of::<T>() + AROUND;
    let many = many.min(threads::count());
    // Threads that have no block yet make theirs in front of what they pack.
    let blocks = many.saturating_sub(PREPARED.load(Ordering::Relaxed)) * block_bytes();
    // The allocator finds room for a small block elsewhere than for a large one: each is asked for by itself.
    let mut rooms: SmallVec<[Vec<u8>; 4]> = SmallVec::new();
    for _ in 0..many {
        rooms.push(try_room(bytes)?);
    }
    if blocks > 0 {
        rooms.push(try_room(blocks)?);
    }
    Ok(())
}

/// Threads that have the block which the kernels keep on each.
static PREPARED: AtomicUsize = AtomicUsize::new(0);

/// Bytes of that block.
fn block_bytes() -> usize {
    CACHE_INFO[1].cache_bytes
}

/// Gives this thread the block that the kernels keep on each, if it has none yet.
///
/// # Errors
/// [`Code::Memory`] when the system has no memory for it.
pub fn prepare_thread() -> Result<()> {
    thread_local! {
        static IS_PREPARED: Cell<bool> = const { Cell::new(false) };
    }
    if IS_PREPARED.get() {
        return Ok(());
    }
    let bytes = block_bytes();
    let block = MemBuffer::try_new(StackReq::new_aligned::<u8>(bytes, CACHELINE_ALIGN));
    let refuse = |_| Error::new(Code::Memory, format!("the system has no memory for {bytes} bytes of packed operands"));
    // It is set, so that the block that the kernels would make by themselves is not made.
    L2_SLAB.set(block.map_err(refuse)?);
    IS_PREPARED.set(true);
    PREPARED.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one call packs stays below a bound for products of any size, and is not so little that
    /// packing the other operand again would take long.
    #[test]
    fn what_is_packed_is_bounded() {
        fn check<T: Gemm>() {
            let (depth, columns) = (depth::<T>(), columns_at_once::<T>());
            for k in [1usize, 500, 513, 1000, 5000, 1 << 20, 1 << 30] {
                let [rows, width] = T::tile();
                let cut = kernel_params(1 << 20, columns, k, rows, width, size_of::<T>());
                assert!(cut.kc <= depth, "{k} terms at once are {}, not {depth} at most", cut.kc);
                // Up to twice as many are packed in front of all.
                assert!(2 * cut.mc <= TILES * rows && rows.max(width) <= FILL, "{} rows at once", cut.mc);
            }
            let packed = (columns + TILES * T::tile()[0] + 2 * FILL) * depth * size_of::<T>();
            assert!(packed < 16 << 20, "{packed} bytes are packed at once");
            assert!(columns >= 512, "{columns} columns at once");
        }
        check::<f32>();
        check::<f64>();
    }
}
