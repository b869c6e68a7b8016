//! Records executed steps for profiles.
//!
//! Nothing is recorded or queried unless the calling thread [is profiled](watched). Then runs are issued to
//! [`Watched`], a driver that wraps the device's and times every step.

use super::driver::{Check, Driver, EpilogueCall, LibraryCall, MemoryView};
use super::work::{self, Work};
use ms_ir::data::{MemorySpace, Storage, StreamKind, with_stream};
use ms_ir::error::Result;
use ms_ir::{Contraction, ContractionOperand, Kernel, KernelLaunch, KernelView};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A step of a plan, or an eager op.
///
/// ```
/// use ms_core::{Tensor, ops, session::profile};
/// let x = Tensor::ones([8, 8]);
/// let (_, profile) = profile(|| ops::matmul(&x, &x));
/// let record = profile.steps.iter().find(|it| it.name.starts_with("matmul")).expect("the op is recorded");
/// assert_eq!((record.step.is_none(), record.work.operations), (true, 2 * 8 * 8 * 8));
/// ```
#[derive(Clone, Debug)]
pub struct Record {
    /// The name: an op with the types of its operands, a contraction with its sizes, or a kernel with its extents.
    pub name: String,
    /// The routine of a plan, and the number of the step there; `None` for an eager op.
    pub step: Option<(Arc<str>, u32)>,
    /// The number of the op's node in the traced graph, if it is known.
    pub node: Option<u32>,
    /// The source location of the op, if it is known.
    pub line: Option<String>,
    /// The start time.
    pub start: Instant,
    /// The duration.
    pub time: Duration,
    /// The operations and bytes.
    pub work: Work,
    /// Whether it ran by the reference evaluation of its op.
    pub by_reference: bool,
    /// The index of its kernel in [`Records::kernels`].
    pub kernel: Option<usize>,
}

/// The records of a thread.
#[derive(Debug, Default)]
pub struct Records {
    /// Steps and ops, in order.
    pub list: Vec<Record>,
    /// The kernels of steps.
    pub kernels: Vec<KernelCopy>,
    /// The kernels by their addresses.
    known: FxHashMap<usize, usize>,
}

/// A kernel and its machine code.
///
/// ```
/// use ms_core::{Tensor, ops, session, tensor};
/// let negated = session::jit(|x: &Tensor| ops::exp(ops::neg(x)));
/// let (_, profile) = session::profile(|| negated(&tensor![1.0, 2.0]));
/// for step in &profile.steps {
///     if let Some(kernel) = step.kernel.map(|at| &profile.kernels[at]) {
///         println!("{}: {} bytes of machine code", step.name, kernel.code.len());
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct KernelCopy {
    /// The kernel.
    pub kernel: Kernel,
    /// The position-independent machine code; empty if the kernel is interpreted.
    pub code: Vec<u8>,
}

thread_local! {
    static RECORDS: RefCell<Option<Records>> = const { RefCell::new(None) };
    /// The number of steps of this thread that ran by reference evaluation.
    static BY_REFERENCE: Cell<u64> = const { Cell::new(0) };
}

/// Counts a step of this thread that runs by the reference evaluation of its op because the backend has no code for it.
pub fn count_reference() {
    BY_REFERENCE.set(BY_REFERENCE.get() + 1);
}

/// Returns whether this thread records the steps that it runs.
pub fn is_watched() -> bool {
    RECORDS.with_borrow(Option::is_some)
}

/// Records the steps that `f` runs on this thread. Nested calls have separate records.
pub fn watched<R>(f: impl FnOnce() -> R) -> (R, Records) {
    /// Restores the outer records, also when `f` unwinds.
    struct Outer(Option<Records>);
    impl Drop for Outer {
        fn drop(&mut self) {
            RECORDS.set(self.0.take());
        }
    }
    let _outer = Outer(RECORDS.replace(Some(Records::default())));
    let result = f();
    (result, RECORDS.take().unwrap_or_default())
}

/// Runs an eager op, and records it if this thread is profiled.
pub fn record_op<R>(
    what: impl FnOnce(&R) -> (String, Work, Option<String>),
    run: impl FnOnce() -> Result<R>,
) -> Result<R> {
    if !is_watched() {
        return run();
    }
    let (before, start) = (BY_REFERENCE.get(), Instant::now());
    let result = run()?;
    let time = start.elapsed();
    let (name, work, line) = what(&result);
    add(Record {
        name,
        step: None,
        node: None,
        line,
        start,
        time,
        work,
        by_reference: BY_REFERENCE.get() > before,
        kernel: None,
    });
    Ok(result)
}

/// Completes the records from index `from` on: `line` returns the source locations of nodes.
pub fn locate(from: usize, line: impl Fn(u32) -> Option<String>) {
    RECORDS.with_borrow_mut(|records| {
        for record in records.iter_mut().flat_map(|it| it.list.iter_mut().skip(from)) {
            if let (Some(node), None) = (record.node, &record.line) {
                record.line = line(node);
            }
        }
    });
}

/// Returns the number of records of this thread.
pub fn records_so_far() -> usize {
    RECORDS.with_borrow(|it| it.as_ref().map_or(0, |it| it.list.len()))
}

fn add(record: Record) {
    RECORDS.with_borrow_mut(|it| {
        if let Some(records) = it {
            records.list.push(record);
        }
    });
}

/// Returns the index of a kernel in the records, and adds the kernel if it is new.
fn number(KernelView { kernel, code }: KernelView<'_>) -> Option<usize> {
    RECORDS.with_borrow_mut(|it| {
        let records = it.as_mut()?;
        let next = records.kernels.len();
        let at = *records.known.entry(std::ptr::from_ref(kernel).addr()).or_insert(next);
        if at == next {
            records.kernels.push(KernelCopy { kernel: kernel.clone(), code: code.unwrap_or_default().to_vec() });
        }
        Some(at)
    })
}

/// A driver that runs every step when it is issued, waits for it, and records it.
pub(super) struct Watched<'a, D>(pub &'a D);

/// The commands of a profiled driver, and the step that is issued next.
pub(super) struct WatchedCommands<D: Driver> {
    own: D::Commands,
    step: Option<(Arc<str>, u32)>,
}

impl<D: Driver> Default for WatchedCommands<D> {
    fn default() -> Self {
        Self { own: D::Commands::default(), step: None }
    }
}

impl<D: Driver> Watched<'_, D> {
    /// Issues a step, waits for it, and records it.
    fn timed(
        &self,
        commands: &mut WatchedCommands<D>,
        issue: impl FnOnce(&mut D::Commands) -> Result<()>,
        what: impl FnOnce() -> What,
    ) -> Result<()> {
        let (before, start) = (BY_REFERENCE.get(), Instant::now());
        issue(&mut commands.own)?;
        if D::QUEUED {
            self.0.submit(&mut commands.own)?;
            if let MemorySpace::Device(memory) = self.0.space() {
                with_stream(memory, StreamKind::Compute, |stream| memory.wait(memory.fence(stream)))?;
            }
        }
        let time = start.elapsed();
        let What { name, work, node, kernel } = what();
        let by_reference = BY_REFERENCE.get() > before;
        add(Record { name, step: commands.step.clone(), node, line: None, start, time, work, by_reference, kernel });
        Ok(())
    }
}

/// The description of a step.
struct What {
    name: String,
    work: Work,
    node: Option<u32>,
    kernel: Option<usize>,
}

impl What {
    fn kernel(kernel: Option<KernelView<'_>>, block: &[u64]) -> Self {
        let Some(view) = kernel else { return Self::unknown("kernel") };
        let name = work::kernel_name(view.kernel, block);
        Self { name, work: Work::of_kernel(view.kernel, block), node: None, kernel: number(view) }
    }

    fn op(call: &LibraryCall, operands: &[MemoryView], results: &[MemoryView]) -> Self {
        let types = |views: &[MemoryView]| views.iter().map(MemoryView::ty).collect::<Vec<_>>();
        let (from, to) = (types(operands), types(results));
        let from: Vec<_> = from.iter().collect();
        let work = Work::of_op(call.op, &call.attrs, &from, &to);
        Self { name: work::op_name(call.op, &from), work, node: call.node, kernel: None }
    }

    /// Combines a step with one of its epilogues.
    fn then(self, epilogue: Self) -> Self {
        let Self { name, mut work, node, kernel } = self;
        work.operations = work.operations.saturating_add(epilogue.work.operations);
        work.bytes = work.bytes.saturating_add(epilogue.work.bytes);
        Self { name: format!("{name} then {}", epilogue.name), work, node, kernel: kernel.or(epilogue.kernel) }
    }

    fn unknown(name: &str) -> Self {
        Self { name: name.to_owned(), work: Work::default(), node: None, kernel: None }
    }
}

// SAFETY: every method passes its arguments unchanged to the same method of the inner driver, which upholds the
// contract of `Driver`.
unsafe impl<D: Driver> Driver for Watched<'_, D> {
    type Kernel = D::Kernel;
    type Commands = WatchedCommands<D>;
    const QUEUED: bool = D::QUEUED;
    const WATCHED: bool = true;

    fn space(&self) -> MemorySpace {
        self.0.space()
    }

    fn at_step(&self, commands: &mut Self::Commands, routine: &Arc<str>, step: usize) {
        commands.step = Some((routine.clone(), step as u32));
    }

    fn view<'k>(&self, kernel: &'k Self::Kernel) -> Option<KernelView<'k>> {
        self.0.view(kernel)
    }

    unsafe fn launch(&self, commands: &mut Self::Commands, kernel: &Self::Kernel, block: &[u64]) -> Result<()> {
        // SAFETY: the arguments are passed on unchanged, so the conditions of `launch` hold.
        let issue = |commands: &mut D::Commands| unsafe { self.0.launch(commands, kernel, block) };
        self.timed(commands, issue, || What::kernel(self.0.view(kernel), block))
    }

    unsafe fn launch_together(
        &self,
        commands: &mut Self::Commands,
        launches: &[KernelLaunch<'_, Self::Kernel>],
    ) -> Result<()> {
        // SAFETY: the arguments are passed on unchanged, so the conditions of `launch_together` hold.
        let issue = |commands: &mut D::Commands| unsafe { self.0.launch_together(commands, launches) };
        let what = || {
            let mut work = Work::default();
            let mut largest: Option<What> = None;
            for it in launches {
                let own = What::kernel(self.0.view(it.kernel), it.block);
                work.operations = work.operations.saturating_add(own.work.operations);
                work.bytes = work.bytes.saturating_add(own.work.bytes);
                if largest.as_ref().is_none_or(|it| it.work.bytes < own.work.bytes) {
                    largest = Some(own);
                }
            }
            let What { name, kernel, .. } = largest.unwrap_or_else(|| What::unknown("none"));
            What { name: format!("{} kernels, the largest: {name}", launches.len()), work, node: None, kernel }
        };
        self.timed(commands, issue, what)
    }

    unsafe fn contract(
        &self,
        commands: &mut Self::Commands,
        contraction: &Arc<Contraction>,
        operands: [ContractionOperand<'_>; 2],
        result: u64,
    ) -> Result<()> {
        // SAFETY: the arguments are passed on unchanged, so the conditions of `contract` hold.
        let issue = |commands: &mut D::Commands| unsafe { self.0.contract(commands, contraction, operands, result) };
        let what = || What {
            name: work::contraction_name(contraction),
            work: Work::of_contraction(contraction),
            node: None,
            kernel: None,
        };
        self.timed(commands, issue, what)
    }

    unsafe fn contract_with(
        &self,
        commands: &mut Self::Commands,
        contraction: &Arc<Contraction>,
        operands: [ContractionOperand<'_>; 2],
        epilogues: &[EpilogueCall<'_, Self::Kernel>],
    ) -> Result<()> {
        // SAFETY: the arguments are passed on unchanged, so the conditions of `contract_with` hold.
        let issue =
            |commands: &mut D::Commands| unsafe { self.0.contract_with(commands, contraction, operands, epilogues) };
        let what = || {
            // The result of the contraction is not materialised.
            let mut work = Work::of_contraction(contraction);
            let unstored = work::result_bytes(contraction);
            work.bytes -= unstored;
            let calls = epilogues.iter().map(|epilogue| {
                let mut own = What::kernel(self.0.view(epilogue.kernel), epilogue.block);
                let unread = if epilogue.words.result.is_some() { unstored } else { 0 };
                own.work.bytes = own.work.bytes.saturating_sub(unread);
                own
            });
            let contraction = What { name: work::contraction_name(contraction), work, node: None, kernel: None };
            calls.fold(contraction, What::then)
        };
        self.timed(commands, issue, what)
    }

    unsafe fn library(
        &self,
        commands: &mut Self::Commands,
        call: &Arc<LibraryCall>,
        operands: &[MemoryView],
        results: &[MemoryView],
    ) -> Result<()> {
        // SAFETY: `library` has the conditions of `library_with` without epilogues.
        unsafe { self.library_with(commands, call, operands, results, &[]) }
    }

    unsafe fn library_with(
        &self,
        commands: &mut Self::Commands,
        call: &Arc<LibraryCall>,
        operands: &[MemoryView],
        results: &[MemoryView],
        epilogues: &[EpilogueCall<'_, Self::Kernel>],
    ) -> Result<()> {
        // SAFETY: the arguments are passed on unchanged, so the conditions of `library_with` hold.
        let issue =
            |commands: &mut D::Commands| unsafe { self.0.library_with(commands, call, operands, results, epilogues) };
        let what = || {
            let calls = epilogues.iter().map(|it| What::kernel(self.0.view(it.kernel), it.block));
            calls.fold(What::op(call, operands, results), What::then)
        };
        self.timed(commands, issue, what)
    }

    unsafe fn check(&self, commands: &mut Self::Commands, check: &Arc<Check>, operand: &MemoryView) -> Result<()> {
        // SAFETY: the operand is passed on unchanged: initialised, and written by nothing else.
        let issue = |commands: &mut D::Commands| unsafe { self.0.check(commands, check, operand) };
        let what = || {
            let ty = operand.ty();
            let bytes = (ty.numel().unwrap_or(0) * ty.dtype.size()) as u64;
            let work = Work { operations: 0, bytes };
            What { name: format!("check of {}", work::op_name(check.op, &[&ty])), work, node: check.node, kernel: None }
        };
        self.timed(commands, issue, what)
    }

    unsafe fn copy(&self, commands: &mut Self::Commands, from: u64, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: the ranges are passed on unchanged: live and disjoint, with no other accesses that conflict.
        let issue = |commands: &mut D::Commands| unsafe { self.0.copy(commands, from, to, bytes) };
        let work = Work { operations: 0, bytes: 2 * bytes as u64 };
        self.timed(commands, issue, || What { work, ..What::unknown("copy") })
    }

    unsafe fn set_number(&self, commands: &mut Self::Commands, to: u64, number: u64) -> Result<()> {
        // SAFETY: `to` is the address of this call: eight live bytes that nothing else accesses.
        unsafe { self.0.set_number(&mut commands.own, to, number) }
    }

    unsafe fn condition(&self, commands: &mut Self::Commands, at: u64) -> Result<bool> {
        // SAFETY: `at` is the address of this call: an initialised bool that nothing writes.
        unsafe { self.0.condition(&mut commands.own, at) }
    }

    unsafe fn numbers(&self, commands: &mut Self::Commands, at: &[u64], to: &mut [u64]) -> Result<()> {
        // SAFETY: the addresses are passed on unchanged: initialised numbers that nothing writes.
        unsafe { self.0.numbers(&mut commands.own, at, to) }
    }

    fn free(&self, commands: &mut Self::Commands, block: Storage) {
        self.0.free(&mut commands.own, block);
    }

    fn iterated(&self, commands: &mut Self::Commands) -> Result<()> {
        self.0.iterated(&mut commands.own)
    }

    fn submit(&self, commands: &mut Self::Commands) -> Result<()> {
        self.0.submit(&mut commands.own)
    }
}
