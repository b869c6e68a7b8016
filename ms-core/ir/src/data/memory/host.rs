//! Allocates host memory and caches freed blocks: small ones per thread, others per process.
//!
//! A block has one of a few sizes, so that freed ones fit later requests. The caches are bounded; beyond that, memory
//! is returned to the system. Large blocks use huge pages, medium ones share them. Cached blocks save page faults,
//! which cost more than most ops on them.
//!
//! `MS_HUGE_PAGES=0` allocates all blocks from the system allocator, which is slower and returns memory to the system
//! in smaller pieces.
//!
//! With `--cfg ms_sanitize`, every block is a separate system allocation of exactly the requested size.
//! AddressSanitizer then knows its bounds and when it is freed.

use super::chunks::Chunks;
use super::huge_page::map;
use crate::environment::Variable;
use crate::error::{Code, Error, Result};
use memmap2::MmapMut;
use rustc_hash::FxHashMap;
use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

crate::environment_variables! {
    /// Whether blocks may be mapped as huge pages.
    static HUGE_PAGES: Variable<bool> = Variable::switch("MS_HUGE_PAGES");
}

/// Every block starts at a multiple of this many bytes: one cache line and one AVX-512 register.
pub const ALIGN: usize = 64;

/// Blocks up to this size are cached by threads.
const LOCAL_BLOCK: usize = 64 << 10;

/// Bytes of each size that a thread caches.
const LOCAL_BYTES: usize = 128 << 10;

/// Bytes of each size up to [`SMALL_BLOCK`] that a thread caches. Lists of tensors have thousands of these.
const LOCAL_SMALL_BYTES: usize = 1 << 20;

/// The largest small block in bytes.
const SMALL_BLOCK: usize = 256;

/// Blocks up to this size are cached at all.
const CACHED_BLOCK: usize = 256 << 20;

/// Bytes that the process caches, excluding the caches of threads.
const CACHED_BYTES: usize = 512 << 20;

/// Blocks from this size on are mapped as huge pages.
const MAPPED_BLOCK: usize = 4 << 20;

/// Bytes of blocks between [`LOCAL_BLOCK`] and [`MAPPED_BLOCK`] that come from the system allocator; further ones come
/// from chunks. The first touch of a huge page may take milliseconds where the system has to find memory for it, for
/// example in a virtual machine. A small model would wait for that in its first call.
const UNCHUNKED_BYTES: usize = 64 << 20;

const LOCAL_CLASSES: usize = class_of(LOCAL_BLOCK) + 1;
const CLASSES: usize = class_of(CACHED_BLOCK) + 1;

/// The largest class: no block is larger.
const ADDRESS_SPACE: usize = class_of(isize::MAX as usize / 2);

/// Returns the number of the smallest block size that holds `bytes`: multiples of 64 up to 1024, then four sizes per
/// power of two.
const fn class_of(bytes: usize) -> usize {
    if bytes <= 1024 {
        return if bytes == 0 { 0 } else { (bytes - 1) / ALIGN };
    }
    let power = (bytes - 1).ilog2() as usize;
    let quarter = ((bytes - 1) >> (power - 2)) - 4;
    16 + (power - 10) * 4 + quarter
}

/// Returns the size in bytes of blocks of a class.
const fn class_bytes(class: usize) -> usize {
    if class < 16 {
        return (class + 1) * ALIGN;
    }
    let (power, quarter) = (10 + (class - 16) / 4, (class - 16) % 4);
    (quarter + 5) << (power - 2)
}

/// Allocates a block of at least `bytes` bytes, aligned to [`ALIGN`].
///
/// # Errors
/// [`Code::Memory`] when the system has none.
#[inline]
pub fn allocate(bytes: usize) -> Result<NonNull<u8>> {
    if cfg!(ms_sanitize) {
        return allocate_exactly(bytes).ok_or_else(|| refusal(bytes));
    }
    let class = class_of(bytes);
    if class < LOCAL_CLASSES
        && let Ok(Some(block)) = LOCAL.try_with(|it| it.pop(class))
    {
        return Ok(block);
    }
    allocate_shared(class).ok_or_else(|| refusal(bytes))
}

/// Releases a block that [`allocate`] returned for `bytes` bytes.
///
/// # Safety
/// The block is not used any more, and is released once.
#[inline]
pub unsafe fn release(block: NonNull<u8>, bytes: usize) {
    if cfg!(ms_sanitize) {
        // SAFETY: `allocate` made the block with this layout.
        return unsafe { dealloc(block.as_ptr(), layout(bytes.max(1))) };
    }
    let class = class_of(bytes);
    // SAFETY: the block is free by this function's contract, and every class has room for the link of the list.
    if class < LOCAL_CLASSES && LOCAL.try_with(|it| unsafe { it.push(class, block) }) == Ok(true) {
        return;
    }
    // SAFETY: `allocate` returned the block for this class, it is not used any more, and no list contains it.
    unsafe { release_shared(block, class) };
}

thread_local! {
    static LOCAL: Local = const { Local { lists: [const { List::new() }; LOCAL_CLASSES] } };
}

/// Free blocks of one thread.
struct Local {
    lists: [List; LOCAL_CLASSES],
}

/// Free blocks of one size. Each begins with the address of the next.
struct List {
    head: Cell<Option<NonNull<u8>>>,
    len: Cell<usize>,
}

impl List {
    const fn new() -> Self {
        Self { head: Cell::new(None), len: Cell::new(0) }
    }
}

impl Local {
    #[inline]
    fn pop(&self, class: usize) -> Option<NonNull<u8>> {
        let list = &self.lists[class];
        let block = list.head.get()?;
        // SAFETY: blocks of the list are free, and `push` initialised their first word.
        list.head.set(unsafe { block.cast::<Option<NonNull<u8>>>().read() });
        list.len.set(list.len.get() - 1);
        Some(block)
    }

    /// Caches a block, unless enough are cached.
    #[inline]
    unsafe fn push(&self, class: usize, block: NonNull<u8>) -> bool {
        /// The maximum number of cached blocks of each class.
        const MOST: [usize; LOCAL_CLASSES] = {
            let (mut most, mut class) = ([0; LOCAL_CLASSES], 0);
            while class < LOCAL_CLASSES {
                let bytes = class_bytes(class);
                most[class] = if bytes <= SMALL_BLOCK { LOCAL_SMALL_BYTES } else { LOCAL_BYTES } / bytes;
                class += 1;
            }
            most
        };
        let list = &self.lists[class];
        if list.len.get() >= MOST[class] {
            return false;
        }
        // SAFETY: the block is free, aligned to [`ALIGN`], and larger than a pointer, by this method's contract.
        unsafe { block.cast::<Option<NonNull<u8>>>().write(list.head.get()) };
        list.head.set(Some(block));
        list.len.set(list.len.get() + 1);
        true
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        for class in 0..LOCAL_CLASSES {
            while let Some(block) = self.pop(class) {
                // SAFETY: the block is free, of this class, and `pop` removed it from the list.
                unsafe { release_shared(block, class) };
            }
        }
    }
}

/// Free blocks of the process, and the mappings of large ones.
struct Shared {
    /// Addresses of free blocks by class.
    free: Vec<Vec<usize>>,
    /// The total size of free blocks in bytes.
    bytes: usize,
    /// Mappings by the addresses of their blocks, in use or free.
    mapped: FxHashMap<usize, MmapMut>,
    chunks: Chunks,
    /// The total size of medium blocks that came from the system allocator, in bytes.
    unchunked: usize,
}

static SHARED: Mutex<Shared> = Mutex::new(Shared {
    free: Vec::new(),
    bytes: 0,
    mapped: FxHashMap::with_hasher(rustc_hash::FxBuildHasher),
    chunks: Chunks::new(),
    unchunked: 0,
});

fn shared() -> MutexGuard<'static, Shared> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cold]
fn allocate_shared(class: usize) -> Option<NonNull<u8>> {
    if class > ADDRESS_SPACE {
        return None;
    }
    static MAPS: OnceLock<bool> = OnceLock::new();
    let maps = *MAPS.get_or_init(|| HUGE_PAGES.value().unwrap_or(true));
    let bytes = class_bytes(class);
    let mut pool = shared();
    if let Some(block) = pool.free.get_mut(class).and_then(Vec::pop) {
        pool.bytes -= bytes;
        return Some(NonNull::new(block as *mut u8).expect("the pool holds addresses of blocks"));
    }
    if let Some(block) = pool.fresh(bytes, maps) {
        return Some(block);
    }
    // Freeing the cached memory may make the allocation succeed.
    pool.give_back_all();
    pool.fresh(bytes, maps)
}

impl Shared {
    /// Allocates a block from the system, which may be mapped if `maps` is set.
    fn fresh(&mut self, bytes: usize, maps: bool) -> Option<NonNull<u8>> {
        if !maps {
            return allocate_exactly(bytes);
        }
        if bytes >= MAPPED_BLOCK
            && self.mapped.try_reserve(1).is_ok()
            && let Some((block, mapping)) = map(bytes)
        {
            self.mapped.insert(block.as_ptr() as usize, mapping);
            return Some(block);
        }
        if (LOCAL_BLOCK + 1..MAPPED_BLOCK).contains(&bytes) {
            if self.unchunked >= UNCHUNKED_BYTES
                && let Some(block) = self.chunks.cut(bytes)
            {
                return Some(block);
            }
            self.unchunked += bytes;
        }
        allocate_exactly(bytes)
    }

    /// Caches a free block, if the limit permits.
    fn keep(&mut self, block: NonNull<u8>, class: usize) -> bool {
        let bytes = class_bytes(class);
        if class >= CLASSES || self.bytes + bytes > CACHED_BYTES {
            return false;
        }
        if self.free.is_empty() {
            if self.free.try_reserve_exact(CLASSES).is_err() {
                return false;
            }
            self.free.resize_with(CLASSES, Vec::new);
        }
        let list = &mut self.free[class];
        if list.try_reserve(1).is_err() {
            return false;
        }
        list.push(block.as_ptr() as usize);
        self.bytes += bytes;
        true
    }

    /// Returns all free blocks to the system.
    fn give_back_all(&mut self) {
        for class in 0..self.free.len() {
            while let Some(block) = self.free[class].pop() {
                let block = NonNull::new(block as *mut u8).expect("the pool holds addresses of blocks");
                self.bytes -= class_bytes(class);
                // SAFETY: the block is free, of this class, and `pop` removed it from the list.
                unsafe { self.give_back(block, class) };
            }
        }
    }

    /// Returns a block to the system.
    ///
    /// # Safety
    /// The block is of this class, in no list, and not used any more.
    unsafe fn give_back(&mut self, block: NonNull<u8>, class: usize) {
        let bytes = class_bytes(class);
        // SAFETY: the block has the size of its class and is not used any more, by this method's contract.
        if self.mapped.remove(&(block.as_ptr() as usize)).is_some() || unsafe { self.chunks.give_back(block, bytes) } {
            return;
        }
        // SAFETY: a block that is neither mapped nor from a chunk was allocated with this layout, and no list contains
        // it.
        unsafe { dealloc(block.as_ptr(), layout(bytes)) };
    }
}

/// Allocates a block of at least one byte from the system allocator.
fn allocate_exactly(bytes: usize) -> Option<NonNull<u8>> {
    if bytes > isize::MAX as usize / 2 {
        return None;
    }
    // SAFETY: the layout has a size above zero.
    NonNull::new(unsafe { alloc(layout(bytes.max(1))) })
}

#[cold]
fn refusal(bytes: usize) -> Error {
    Error::new(Code::Memory, format!("the system has no memory for {bytes} bytes"))
}

#[cold]
unsafe fn release_shared(block: NonNull<u8>, class: usize) {
    let mut pool = shared();
    if !pool.keep(block, class) {
        // SAFETY: the block is of this class and not used any more by this function's contract, and `keep` put it in no
        // list.
        unsafe { pool.give_back(block, class) };
    }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, ALIGN).expect("a block is smaller than the address space")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_are_asked_for() {
        let mut last = usize::MAX;
        for bytes in (0..5000).chain([65_535, 65_536, 65_537, 1 << 20, (1 << 20) + 1, CACHED_BLOCK]) {
            let class = class_of(bytes);
            let size = class_bytes(class);
            assert!(size >= bytes && size.is_multiple_of(ALIGN), "{bytes} in {size}");
            assert!(size <= bytes.max(1024) + bytes / 4 || bytes <= 1024, "{bytes} in {size}");
            assert!(class == 0 || class_bytes(class - 1) < bytes, "{bytes} fits a smaller block than {size}");
            assert!(last == usize::MAX || class >= last);
            last = class;
        }
    }

    fn allocate(bytes: usize) -> NonNull<u8> {
        super::allocate(bytes).expect("the system has so much")
    }

    #[test]
    #[cfg_attr(ms_sanitize, ignore = "no block is kept")]
    fn a_freed_block_is_used_again() {
        for bytes in [1, 64, 5000, 300 << 10, 8 << 20] {
            let first = allocate(bytes);
            assert!(first.as_ptr().cast::<u8>().align_offset(ALIGN) == 0);
            // SAFETY: `allocate` returned this block of `bytes` bytes, and only this test uses it.
            unsafe {
                first.as_ptr().write_bytes(7, bytes);
                release(first, bytes);
            }
            // Other tests may take a shared block in between, but never one of this thread.
            let second = allocate(bytes);
            assert!(second == first || bytes > LOCAL_BLOCK);
            // SAFETY: `allocate` returned the block for `bytes` bytes, and it is not used again.
            unsafe { release(second, bytes) };
        }
    }

    #[test]
    fn blocks_in_use_do_not_overlap() {
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                scope.spawn(move || {
                    let mut held: Vec<(NonNull<u8>, usize, u8)> = Vec::new();
                    let mut state = u32::from(thread) + 1;
                    for i in 0..4000u32 {
                        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
                        if held.len() > 40 || (state >> 20).is_multiple_of(3) && !held.is_empty() {
                            let (block, bytes, mark) = held.swap_remove(state as usize % held.len());
                            // SAFETY: only this thread uses the block, and the code below initialised its `bytes`
                            // bytes.
                            let content = unsafe { std::slice::from_raw_parts(block.as_ptr(), bytes) };
                            assert!(content.iter().all(|&it| it == mark));
                            // SAFETY: the block left the list of held blocks, so it is not used again.
                            unsafe { release(block, bytes) };
                        } else {
                            let bytes = (state >> 8) as usize % (200 << (10 * (state as usize >> 30 & 1)));
                            let block = allocate(bytes);
                            let mark = (i % 251) as u8;
                            // SAFETY: only this thread uses the block, which has at least `bytes` bytes.
                            unsafe { block.as_ptr().write_bytes(mark, bytes) };
                            held.push((block, bytes, mark));
                        }
                    }
                    for (block, bytes, _) in held {
                        // SAFETY: only this thread has used the block, and it is not used again.
                        unsafe { release(block, bytes) };
                    }
                });
            }
        });
    }

    #[test]
    fn blocks_move_between_threads() {
        let blocks: Vec<usize> = (0..1000).map(|_| allocate(100).as_ptr() as usize).collect();
        let other = std::thread::spawn(move || {
            for block in blocks {
                let block = NonNull::new(block as *mut u8).expect("an address of a block");
                // SAFETY: the spawning thread passed the block to this one and does not use it again.
                unsafe { release(block, 100) };
            }
        });
        other.join().expect("the other thread frees what it was given");
    }

    #[test]
    fn more_than_is_kept_goes_back() {
        let bytes = CACHED_BLOCK + 1;
        for _ in 0..3 {
            let block = allocate(bytes);
            // SAFETY: `allocate` returned this block of `bytes` bytes to this test, which writes its first and last
            // byte and releases it once.
            unsafe {
                block.as_ptr().write(1);
                block.as_ptr().add(bytes - 1).write(1);
                release(block, bytes);
            }
        }
        assert!(shared().bytes <= CACHED_BYTES);
    }

    /// Reads freed memory in a separate process, which a sanitizer aborts.
    #[cfg(ms_sanitize)]
    #[test]
    fn a_use_after_free_is_found() {
        const CHILD: &str = "MS_TEST_USE_AFTER_FREE";
        if std::env::var_os(CHILD).is_some() {
            let array = crate::data::Array::zeros(&[25], crate::DType::F32);
            let first = array.device_ptr();
            drop(array);
            // SAFETY: not upheld: this read of freed memory is the error that the test plants.
            println!("{}", unsafe { first.read_volatile() });
            return;
        }
        let program = std::env::current_exe().expect("a test has a path");
        let name = "tensor::memory::tests::a_use_after_free_is_found";
        let output =
            std::process::Command::new(program).args(["--exact", name, "--nocapture"]).env(CHILD, "1").output();
        let output = output.expect("a test runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("heap-use-after-free"), "{said}");
    }

    #[test]
    fn what_no_system_has_is_refused() {
        for bytes in [1 << 60, isize::MAX as usize, usize::MAX - 63, usize::MAX] {
            let error = super::allocate(bytes).expect_err("no system has so much");
            assert_eq!(error.code(), Code::Memory, "{bytes} bytes");
        }
    }
}
