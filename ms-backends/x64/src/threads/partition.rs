//! Partitions kernel calls: each part covers a range of one loop over the result, and is a separate call of the same
//! code. Parts are independent, so the bits of the result do not depend on the partition.

use crate::kernel::{KernelCode, Partition, PartitionedLoop};
use crate::threads;
use ms_ir::{KernelLaunch, LoopArguments};
use smallvec::SmallVec;
use std::sync::Arc;

/// The maximum number of parts of one call. Several per thread balance the load of uneven cores.
pub const MAX_CHUNKS: usize = 64;

/// The minimum estimated duration of a chunk of a task, in nanoseconds.
pub const CHUNK_NANOS: usize = 5_000;

/// Whether work of this estimated duration is too short to be shared.
#[inline]
pub fn is_short(nanos: usize) -> bool {
    nanos < 2 * CHUNK_NANOS
}

impl<'a> Partition<'a> {
    /// Creates the partition with a single part, which `code` runs.
    pub fn whole(code: &'a dyn KernelCode, nanos: usize) -> Self {
        Self { code, along: None, nanos }
    }

    /// Partitions a loop of `steps` steps into parts of a multiple of `grain` steps. `words` locates the loops in the
    /// argument block.
    pub fn along(
        axis: usize,
        steps: usize,
        grain: usize,
        code: &'a dyn KernelCode,
        words: LoopArguments,
        nanos: usize,
    ) -> Self {
        let chunk = steps.div_ceil((nanos / CHUNK_NANOS).clamp(1, MAX_CHUNKS)).next_multiple_of(grain);
        Self { code, along: Some(PartitionedLoop { axis, steps, chunk, words }), nanos }
    }

    /// Returns the number of parts.
    fn parts(&self) -> usize {
        self.along.map_or(1, |it| it.steps.div_ceil(it.chunk))
    }

    /// Runs all parts of a call.
    ///
    /// # Safety
    /// The conditions of [`KernelCode::call`] hold, and the partition was created for this argument block.
    pub unsafe fn run(&self, block: &[u64]) {
        // SAFETY: the conditions of `run_part` follow from this function's contract. Parts have disjoint loop indices,
        // so they write distinct elements. None reads what another part writes, as a kernel reads its results only at
        // the same indices.
        threads::for_each(self.parts(), self.nanos, |part| unsafe { self.run_part(block, part) });
    }

    /// Runs one part of a call.
    ///
    /// # Safety
    /// The conditions of [`KernelCode::call`] hold for the steps of this part. The partition was created for this
    /// argument block.
    unsafe fn run_part(&self, block: &[u64], part: usize) {
        let Some(PartitionedLoop { axis, steps, chunk, words }) = self.along else {
            // SAFETY: the single part is the whole call, for which the conditions of `KernelCode::call` hold.
            return unsafe { self.code.call(block) };
        };
        let start = part * chunk;
        let mut restricted: SmallVec<[u64; 64]> = SmallVec::from_slice(block);
        words.restrict(&mut restricted, axis, start, chunk.min(steps - start));
        // SAFETY: `restricted` covers a subset of the steps of `block`, for which the conditions of `KernelCode::call`
        // hold.
        unsafe { self.code.call(&restricted) };
    }
}

/// Runs independent calls. The parts of all of them form one task of the thread pool.
///
/// # Safety
/// The conditions of [`KernelCode::call`] hold for each call. No call accesses an element that another call writes.
pub unsafe fn call_batch(launches: &[KernelLaunch<'_, Arc<dyn KernelCode>>]) {
    let mut partitions: SmallVec<[(Partition<'_>, &[u64]); 16]> = SmallVec::new();
    let is_shared = threads::is_several();
    for &KernelLaunch { kernel, block } in launches {
        match if is_shared { kernel.partition(block) } else { None } {
            Some(partition) => partitions.push((partition, block)),
            // SAFETY: the conditions of `KernelCode::call` hold for each launch by this function's contract.
            None => unsafe { kernel.call(block) },
        }
    }
    if partitions.is_empty() {
        return;
    }
    let nanos = partitions.iter().map(|it| it.0.nanos).fold(0, usize::saturating_add);
    let starts = gather(&partitions, if is_short(nanos) { usize::MAX } else { CHUNK_NANOS });
    threads::for_each(starts.len(), nanos, |chunk| {
        let (mut call, mut part) = starts[chunk];
        let end = starts.get(chunk + 1).copied().unwrap_or((partitions.len(), 0));
        while (call, part) < end {
            let (partition, block) = &partitions[call];
            // SAFETY: the conditions of `KernelCode::call` hold for each launch. Parts of a call are independent, and
            // so are calls.
            unsafe { partition.run_part(block, part) };
            (call, part) = if part + 1 < partition.parts() { (call, part + 1) } else { (call + 1, 0) };
        }
    });
}

/// Groups the parts of all calls, in order, into chunks of at least `least` nanoseconds each, except the last one.
/// Returns the call and the part with which each chunk starts.
fn gather(partitions: &[(Partition<'_>, &[u64])], least: usize) -> SmallVec<[(usize, usize); 32]> {
    let mut starts = SmallVec::new();
    let (mut before, mut next) = (0usize, 0usize);
    for (call, (partition, _)) in partitions.iter().enumerate() {
        let parts = partition.parts();
        for part in 0..parts {
            if before >= next {
                starts.push((call, part));
                next = before.saturating_add(least);
            }
            before = before.saturating_add(partition.nanos / parts);
        }
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::Interpreted;
    use ms_ir::Kernel;

    /// Short calls share chunks, and large calls have several.
    #[test]
    fn parts_are_gathered() {
        let text = "kernel par=0 lanes=parallel seq=0 out %i: i64 unit point: i = index 0 store %i, i";
        let kernel = Kernel::parse(text).expect(text);
        let code = Interpreted::new(kernel.clone());
        let whole = |nanos| Partition::whole(&code, nanos);
        let along = |nanos| Partition::along(0, 1000, 1, &code, LoopArguments::of(&kernel), nanos);
        let short = || (0..12).map(|_| whole(1_000)).collect::<Vec<_>>();
        let cases = [
            (vec![], CHUNK_NANOS, &[][..]),
            (short(), CHUNK_NANOS, &[(0, 0), (5, 0), (10, 0)]),
            (short(), usize::MAX, &[(0, 0)]),
            (vec![along(20_000), whole(3_000), whole(3_000)], CHUNK_NANOS, &[(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]),
            (vec![whole(3_000), along(20_000), whole(3_000)], CHUNK_NANOS, &[(0, 0), (1, 1), (1, 2), (1, 3), (2, 0)]),
        ];
        for (at, (partitions, least, want)) in cases.into_iter().enumerate() {
            let partitions: Vec<(Partition<'_>, &[u64])> = partitions.into_iter().map(|it| (it, &[][..])).collect();
            assert_eq!(&gather(&partitions, least)[..], want, "case {at}");
        }
    }
}
