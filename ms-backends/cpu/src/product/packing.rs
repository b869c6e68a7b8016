//! Memory for the packed operands of the `gemm` crates, which abort the process if an allocation fails:
//! their allocations are bounded, and tried before.

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

/// Approximate size in bytes of the part of the right operand that one call packs at once: a part of a
/// large cache.
const PACKED: usize = 4 << 20;

/// Maximum number of tiles of rows of the left operand that one call packs at once.
const TILES: usize = 16;

/// Maximum number of rows or columns that are added to fill tiles.
const FILL: usize = 64;

/// Overhead of an allocation in bytes: its alignment, and the allocator's metadata.
const AROUND: usize = 8 << 10;

/// Maximum length of a part of rows of the left operand that is packed at once.
fn depth<T: Gemm>() -> usize {
    static DEPTHS: [OnceLock<usize>; 2] = [const { OnceLock::new() }; 2];
    let size = size_of::<T>();
    *DEPTHS[size / 8].get_or_init(|| {
        let [rows, columns] = T::tile();
        // Sums of any length are cut into equal parts of at most this many terms.
        let longest = (9..29).map(|it| kernel_params(1 << 12, 1 << 12, 1 << it, rows, columns, size).kc);
        longest.max().expect("there are several lengths")
    })
}

/// Maximum number of columns of a product that one call computes, so that what it packs is bounded for
/// all caches.
pub fn columns_at_once<T: Gemm>() -> usize {
    (PACKED / (depth::<T>() * size_of::<T>())).next_multiple_of(FILL)
}

/// Checks that there is memory for the packed operands of products `[m, k, n]`, of which at most `many`
/// run concurrently.
///
/// # Errors
/// [`Code::Memory`] if there is none.
pub fn reserve<T: Gemm>([m, k, n]: [usize; 3], many: usize) -> Result<()> {
    prepare_thread()?;
    // Either operand may be packed by columns.
    let most = columns_at_once::<T>().max(TILES * T::tile()[0]);
    let side = |it: usize| it.min(most) + FILL;
    let bytes = (side(m) + side(n)) * k.min(depth::<T>()) * size_of::<T>() + AROUND;
    let many = many.min(threads::count());
    // Threads without a block allocate theirs before the operands.
    let blocks = many.saturating_sub(PREPARED.load(Ordering::Relaxed)) * block_bytes();
    // Small and large blocks are allocated differently, so each is tried separately.
    let mut rooms: SmallVec<[Vec<u8>; 4]> = SmallVec::new();
    for _ in 0..many {
        rooms.push(try_room(bytes)?);
    }
    if blocks > 0 {
        rooms.push(try_room(blocks)?);
    }
    Ok(())
}

/// Number of threads with the block that the kernels keep per thread.
static PREPARED: AtomicUsize = AtomicUsize::new(0);

/// Size of that block in bytes.
fn block_bytes() -> usize {
    CACHE_INFO[1].cache_bytes
}

/// Allocates this thread's block of the kernels, if it has none.
///
/// # Errors
/// [`Code::Memory`] if memory runs out.
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
    // The block is set, so that the kernels do not allocate it themselves.
    L2_SLAB.set(block.map_err(refuse)?);
    IS_PREPARED.set(true);
    PREPARED.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What one call packs is bounded for products of all sizes, and not so little that repacking the
    /// other operand takes long.
    #[test]
    fn what_is_packed_is_bounded() {
        fn check<T: Gemm>() {
            let (depth, columns) = (depth::<T>(), columns_at_once::<T>());
            for k in [1usize, 500, 513, 1000, 5000, 1 << 20, 1 << 30] {
                let [rows, width] = T::tile();
                let cut = kernel_params(1 << 20, columns, k, rows, width, size_of::<T>());
                assert!(cut.kc <= depth, "{k} terms at once are {}, not {depth} at most", cut.kc);
                // Up to twice as many are packed first.
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
