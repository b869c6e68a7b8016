//! Records executed steps for profiles.
//!
//! Nothing is recorded unless the calling thread [is profiled](watched). Then the runner records every step, and eager
//! execution records every op.

use super::work::Work;
use ms_ir::error::Result;
use ms_ir::{Kernel, KernelView};
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
    /// The implementation of a library step, and why each earlier implementation of its list declined.
    pub implementation: Option<String>,
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
    let start = Start::now();
    let result = run()?;
    let Span { start, time, by_reference } = start.end();
    let (name, work, line) = what(&result);
    let (kernel, implementation) = (None, None);
    add(Record { name, step: None, node: None, line, start, time, work, by_reference, kernel, implementation });
    Ok(result)
}

/// The start of a step.
pub(super) struct Start {
    at: Instant,
    by_reference: u64,
}

/// The time that a step took.
pub(super) struct Span {
    pub start: Instant,
    pub time: Duration,
    pub by_reference: bool,
}

impl Start {
    pub fn now() -> Self {
        Self { by_reference: BY_REFERENCE.get(), at: Instant::now() }
    }

    /// Ends the step.
    pub fn end(self) -> Span {
        let time = self.at.elapsed();
        Span { start: self.at, time, by_reference: BY_REFERENCE.get() > self.by_reference }
    }
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

pub(super) fn add(record: Record) {
    RECORDS.with_borrow_mut(|it| {
        if let Some(records) = it {
            records.list.push(record);
        }
    });
}

/// Returns the index of a kernel in the records, and adds the kernel if it is new.
pub(super) fn number(KernelView { kernel, code }: KernelView<'_>) -> Option<usize> {
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
