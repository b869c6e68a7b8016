//! Runs kernel calls on several threads. One loop is [partitioned](crate::threads::partition), or for few results with
//! long rows, each row is [split](crate::threads::split_reduction) into the blocks of its reduction order. The bits of
//! the result do not depend on the partition.

use crate::code::variants::{self, TunedVariants};
use crate::isa::Isa;
use crate::kernel::{KernelCode, Partition};
use crate::threads::partition::{CHUNK_NANOS, MAX_CHUNKS, is_short};
use crate::threads::split_reduction::{self, SplitKernels, SplitReduction};
use ms_ir::data::Array;
use ms_ir::error::Result;
use ms_ir::{Inst, Kernel, KernelView, LaneAxis, LoopArguments, StepCode};
use std::sync::{Arc, OnceLock};

/// The number of lanes in a chunk is a multiple of this, so that chunks begin at cache lines.
const LANE_GRAIN: usize = 64;

/// The code of a kernel, with the data that partitioning its calls needs.
pub struct Parallel {
    code: Arc<dyn KernelCode>,
    words: LoopArguments,
    /// The number of loops over the result, which come first.
    points: usize,
    /// The index of the lane loop.
    lanes: usize,
    insts: usize,
    /// The kernel, if its reductions may be split.
    lazy_split: Option<LazySplit>,
    /// The variants for large calls.
    variants: Option<TunedVariants>,
}

/// A kernel whose reductions may be split.
struct LazySplit {
    kernel: Kernel,
    /// Compiles the two kernels of the split at the first large call.
    compile: fn(Kernel, Isa) -> Arc<dyn KernelCode>,
    isa: Isa,
    split: OnceLock<Option<SplitReduction>>,
}

impl LazySplit {
    /// Returns the split kernels, if a call is long enough and the kernel can be split.
    fn split(&self, extents: &[u64]) -> Option<&SplitReduction> {
        if !split_reduction::is_profitable(&self.kernel, extents) {
            return None;
        }
        self.split.get_or_init(|| SplitReduction::new(&self.kernel, |kernel| (self.compile)(kernel, self.isa))).as_ref()
    }
}

impl Parallel {
    /// Creates the code of `kernel` without splits or variants.
    pub fn new(kernel: &Kernel, code: Arc<dyn KernelCode>) -> Self {
        let lanes = kernel.par as usize;
        Self {
            code,
            words: LoopArguments::of(kernel),
            points: lanes + usize::from(kernel.lanes == LaneAxis::Parallel),
            lanes,
            insts: kernel.insts.iter().map(Inst::cost).sum(),
            lazy_split: None,
            variants: None,
        }
    }

    /// Enables splitting reductions of long rows. `compile` returns the code for `isa`.
    pub fn with_split(self, kernel: &Kernel, isa: Isa, compile: fn(Kernel, Isa) -> Arc<dyn KernelCode>) -> Self {
        let new = || LazySplit { kernel: kernel.clone(), compile, isa, split: OnceLock::new() };
        Self { lazy_split: SplitKernels::splittable_stage(kernel).map(|_| new()), ..self }
    }

    /// Enables variants for large calls, which `compile` returns.
    pub fn with_variants(self, kernel: &Arc<Kernel>, isa: Isa, compile: variants::Compile) -> Self {
        Self { variants: Some(TunedVariants::new(kernel, isa, compile)), ..self }
    }

    /// Returns the loop to partition: the outermost one with enough steps, or else the longest.
    fn axis(&self, extents: &[u64]) -> Option<usize> {
        let enough = (0..self.points).find(|&axis| {
            let grain = if axis == self.lanes { LANE_GRAIN } else { 1 };
            extents[axis] as usize >= 8 * grain
        });
        enough.or_else(|| (0..self.points).max_by_key(|&axis| extents[axis]))
    }
}

impl Parallel {
    /// Estimates the duration of a call in nanoseconds. An instruction on 64 lanes takes about one.
    #[inline]
    fn duration(&self, extents: &[u64]) -> usize {
        let points = extents.iter().fold(1usize, |all, &it| all.saturating_mul(it as usize));
        points.saturating_mul(self.insts) / 64
    }

    /// Runs a call, on several threads if it is long.
    ///
    /// # Safety
    /// The conditions of [`KernelCode::call`] hold for `block`.
    #[inline]
    unsafe fn run_block(&self, block: &[u64]) {
        let nanos = self.duration(&block[..self.words.loops()]);
        if is_short(nanos) {
            // SAFETY: `block` satisfies the conditions of `KernelCode::call` by this function's contract.
            unsafe { self.code.call(block) }
        } else {
            // SAFETY: `block` satisfies the conditions of `KernelCode::call` by this function's contract.
            unsafe { self.run_long(block, nanos) }
        }
    }

    /// Runs a call of about `nanos` nanoseconds, split or partitioned if possible.
    ///
    /// # Safety
    /// The conditions of [`KernelCode::call`] hold for `block`.
    unsafe fn run_long(&self, block: &[u64], nanos: usize) {
        if let Some(split) = self.split(block) {
            // SAFETY: `block` satisfies the conditions of `KernelCode::call` for the kernel that was split.
            if unsafe { split.call(block, nanos, (nanos / CHUNK_NANOS).min(MAX_CHUNKS)) } {
                return;
            }
        }
        // SAFETY: `block` satisfies the conditions of `KernelCode::call`, and the partition was created for it.
        unsafe { self.partition_long(block, nanos).run(block) };
    }

    /// Returns the split kernels for a call, if splitting is profitable.
    fn split(&self, block: &[u64]) -> Option<&SplitReduction> {
        self.lazy_split.as_ref()?.split(&block[..self.words.loops()])
    }

    /// Partitions a call of about `nanos` nanoseconds along one of its loops.
    fn partition_long(&self, block: &[u64], nanos: usize) -> Partition<'_> {
        let extents = &block[..self.words.loops()];
        let code = self.variants.as_ref().and_then(|it| it.code(block)).unwrap_or(&*self.code);
        let Some(axis) = self.axis(extents) else { return Partition::whole(code, nanos) };
        let grain = if axis == self.lanes { LANE_GRAIN } else { 1 };
        Partition::along(axis, extents[axis] as usize, grain, code, self.words, nanos)
    }
}

// SAFETY: every point is computed by exactly one call of `code`, which implements the kernel.
unsafe impl KernelCode for Parallel {
    fn specialized(&self, block: &[u64]) -> Option<Arc<dyn KernelCode>> {
        is_short(self.duration(&block[..self.words.loops()])).then(|| self.code.clone())
    }

    fn single_threaded(&self, block: &[u64]) -> Option<&dyn KernelCode> {
        // For shorter calls, the lookup takes as long as the variant saves.
        let is_long = self.duration(&block[..self.words.loops()]) >= CHUNK_NANOS;
        let variant = self.variants.as_ref().filter(|_| is_long).and_then(|it| it.code(block));
        Some(variant.unwrap_or(&*self.code))
    }

    fn nanos(&self, block: &[u64]) -> Option<usize> {
        Some(self.duration(&block[..self.words.loops()]))
    }

    fn partition(&self, block: &[u64]) -> Option<Partition<'_>> {
        let nanos = self.duration(&block[..self.words.loops()]);
        if is_short(nanos) {
            return Some(Partition::whole(&*self.code, nanos));
        }
        // The steps of a split depend on each other.
        if self.split(block).is_some() { None } else { Some(self.partition_long(block, nanos)) }
    }

    fn view(&self) -> Option<KernelView<'_>> {
        self.code.view()
    }

    unsafe fn call(&self, block: &[u64]) {
        // SAFETY: `block` satisfies the conditions of `KernelCode::call` by this function's contract.
        unsafe { self.run_block(block) }
    }
}

// SAFETY: every point is computed by exactly one call of `code`, which implements the kernel.
unsafe impl StepCode for Parallel {
    unsafe fn run(&self, block: &[u64], _: &[&Array], _: &[Array]) -> Result<()> {
        // SAFETY: for a kernel's block, `StepCode::run` has the conditions of `KernelCode::call`.
        unsafe { self.run_block(block) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::compile::compile_variant;
    use crate::codegen::Tuning;
    use crate::interp::Interpreted;
    use crate::testing::Call;
    use ms_ir::ParamId;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Kernel code that counts its calls.
    struct Counted {
        code: Interpreted,
        calls: AtomicUsize,
    }

    // SAFETY: the wrapped code implements a kernel.
    unsafe impl KernelCode for Counted {
        unsafe fn call(&self, block: &[u64]) {
            self.calls.fetch_add(1, Ordering::Relaxed);
            // SAFETY: `block` satisfies the conditions of `KernelCode::call` by this function's contract.
            unsafe { self.code.call(block) }
        }
    }

    /// The code for a single thread.
    struct Alone<'a>(&'a Parallel);

    // SAFETY: the wrapped code implements a kernel.
    unsafe impl KernelCode for Alone<'_> {
        unsafe fn call(&self, block: &[u64]) {
            let code = self.0.single_threaded(block).expect("there is code for one thread");
            // SAFETY: `block` satisfies the conditions of `KernelCode::call` by this function's contract.
            unsafe { code.call(block) }
        }
    }

    /// Large calls are partitioned, whether or not the kernel reads positions. `tests/kernels` tests their results.
    #[test]
    fn long_calls_are_partitioned() {
        let cases: [(&str, &[usize]); 3] = [
            ("kernel par=0 lanes=parallel seq=0 out %i: i64 unit point: i = index 0 store %i, i", &[1_000_003]),
            (
                "kernel par=1 lanes=parallel seq=0 out %i: i64 unit
                 point: i = index 0 j = index 1 sum = add i, j store %i, sum",
                &[1000, 1000],
            ),
            (
                "kernel par=0 lanes=parallel seq=0 in %x: f32 unit out %y: f32 unit
                 point: x = load %x y = add x, x store %y, y",
                &[1_000_003],
            ),
        ];
        for (text, extents) in cases {
            let kernel = Kernel::parse(text).expect(text);
            let code = Interpreted::new(kernel.clone());
            let counted = Arc::new(Counted { code, calls: AtomicUsize::new(0) });
            let mut call = Call::new(&kernel, extents, &vec![None; kernel.params.len()], 0);
            let mut whole = call.clone();
            // SAFETY: `call` was created for this kernel, so its buffers cover every access.
            unsafe { call.run(&Parallel::new(&kernel, counted.clone())) };
            assert!(counted.calls.load(Ordering::Relaxed) > 1, "{text}");
            // SAFETY: `whole` was created for this kernel, so its buffers cover every access.
            unsafe { whole.run(&counted.code) };
            assert_eq!(call.difference(&whole), None, "{text}");
        }
    }

    /// The variants for large calls, with and without streaming stores, give the bits of the general code.
    #[test]
    fn long_calls_have_the_same_bits() {
        // The cases are a kernel with many products, and one with more than 32 MiB of results.
        let multiplied = |n: usize| (0..n).map(|it| format!("v{} = mul v{it}, v{it}\n", it + 1)).collect::<String>();
        for (products, lanes) in [(50, 100_003), (1, (32 << 20) / 8 + 5)] {
            let text = format!(
                "kernel par=0 lanes=parallel seq=0 in %x: i64 unit out %y: i64 unit
                 point: v0 = load %x {} store %y, v{products}",
                multiplied(products)
            );
            let kernel = Arc::new(Kernel::parse(&text).expect("the kernel is well-formed"));
            for isa in Isa::ALL.into_iter().filter(|it| it.is_supported()) {
                let Some(code) = compile_variant(&kernel, isa, Tuning::General) else { continue };
                let mut untouched = Call::new(&kernel, &[lanes], &[None, None], 0);
                untouched.fill(ParamId(0), |at| at as u64);
                let [mut want, mut got] = [untouched.clone(), untouched.clone()];
                // SAFETY: `want` was created for this kernel, so its buffers cover every access.
                unsafe { want.run(&*code) };
                let parallel = Parallel::new(&kernel, code).with_variants(&kernel, isa, compile_variant);
                // SAFETY: `got` was created for this kernel, so its buffers cover every access.
                unsafe { got.run(&parallel) };
                assert_eq!(got.difference(&want), None, "{isa}, {products} products");
                let mut alone = untouched;
                // SAFETY: `alone` was created for this kernel, so its buffers cover every access.
                unsafe { alone.run(&Alone(&parallel)) };
                assert_eq!(alone.difference(&want), None, "{isa}, {products} products on one thread");
                let special =
                    [Tuning::Unrolled, Tuning::Streaming].map(|it| compile_variant(&kernel, isa, it).is_some());
                assert_eq!(special, [products == 50, true], "{isa}, {products} products");
            }
        }
    }
}
