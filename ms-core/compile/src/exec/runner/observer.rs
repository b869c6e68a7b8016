//! Records the steps of a run for profiles.

use super::program::{Epilogue, Step};
use crate::exec::watch::{self, Record, Span, Start};
use crate::exec::{ArrayLayout, Driver, Work, op_name, work};
use ms_ir::data::{Type, is_host_only};
use std::sync::Arc;

/// Records the steps of a run of a profiled thread.
#[derive(Default)]
pub(super) struct Observer {
    /// The latest step: its routine, and its number there.
    step: Option<(Arc<str>, u32)>,
}

impl Observer {
    /// Returns an observer if this thread is profiled.
    #[inline]
    pub fn of_thread() -> Option<Self> {
        // While any thread is profiled, the process is not known to use the host only. The other runs of a process that
        // does test nothing more.
        (!is_host_only() && watch::is_watched()).then(Self::default)
    }

    /// Begins a step.
    pub fn begin(&mut self, routine: &Arc<str>, at: usize) -> Start {
        self.step = Some((routine.clone(), at as u32));
        Start::now()
    }

    /// Records a step.
    pub fn record(&self, Span { start, time, by_reference }: Span, what: What) {
        let What { name, work, node, kernel, implementation } = what;
        let step = self.step.clone();
        watch::add(Record { name, step, node, line: None, start, time, work, by_reference, kernel, implementation });
    }
}

/// The description of a step.
pub(super) struct What {
    name: String,
    work: Work,
    node: Option<u32>,
    kernel: Option<usize>,
    implementation: Option<String>,
}

impl What {
    /// Describes a step that [is issued](Step::is_issued).
    pub fn of_step<D: Driver>(driver: &D, step: &Step<D>, words: &[u64]) -> Self {
        let kernel = |code: &D::Kernel, block: &[u64]| Self::kernel(driver, code, block);
        match step {
            Step::Kernel { code, words: block } | Step::Copy { code, words: block, .. } => {
                kernel(code, &words[block.clone()])
            }
            Step::Kernels(calls) => {
                let mut work = Work::default();
                let mut largest: Option<Self> = None;
                for (code, block) in calls {
                    let own = kernel(code, &words[block.clone()]);
                    work.operations = work.operations.saturating_add(own.work.operations);
                    work.bytes = work.bytes.saturating_add(own.work.bytes);
                    if largest.as_ref().is_none_or(|it| it.work.bytes < own.work.bytes) {
                        largest = Some(own);
                    }
                }
                let Self { name, kernel, .. } = largest.unwrap_or_else(|| Self::unknown("none"));
                let name = format!("{} kernels, the largest: {name}", calls.len());
                Self { work, kernel, ..Self::unknown(&name) }
            }
            Step::Contraction { contraction, call, .. } => {
                let mut work = Work::of_contraction(contraction);
                // Without a stored result, the bytes of the result are not written.
                let unstored = if call.results.is_empty() { work::result_bytes(contraction) } else { 0 };
                work.bytes -= unstored;
                let mut all = Self { work, ..Self::unknown(&work::contraction_name(contraction)) };
                for Epilogue { code, block, words: of_tile } in &call.epilogues {
                    let mut own = kernel(code, &words[block.clone()]);
                    let unread = if of_tile.result.is_some() { unstored } else { 0 };
                    own.work.bytes = own.work.bytes.saturating_sub(unread);
                    all = all.then(own);
                }
                all
            }
            Step::Library { step, code, call, .. } => {
                let types = |all: &[ArrayLayout]| all.iter().map(ArrayLayout::ty).collect::<Vec<_>>();
                let (from, to) = (types(&step.operands), types(&step.results));
                let from: Vec<&Type> = from.iter().collect();
                let work = Work::of_op(step.op, &step.attrs, &from, &to);
                let implementation = driver.implementation(code).map(str::to_owned);
                let mut all = Self { work, node: step.node, implementation, ..Self::unknown(&op_name(step.op, &from)) };
                for Epilogue { code, block, .. } in &call.epilogues {
                    all = all.then(kernel(code, &words[block.clone()]));
                }
                all
            }
            Step::Check { check, .. } => {
                let types: Vec<&Type> = check.operands.iter().collect();
                let work = Work { operations: 0, bytes: size_of::<i64>() as u64 };
                let name = format!("check of {}", op_name(check.op, &types));
                Self { work, node: check.node, ..Self::unknown(&name) }
            }
            Step::Call { .. } | Step::Branch { .. } | Step::Loop(_) => {
                unreachable!("the steps of a routine are issued")
            }
        }
    }

    /// Describes a copy of bytes.
    pub fn copy(bytes: usize) -> Self {
        Self { work: Work { operations: 0, bytes: 2 * bytes as u64 }, ..Self::unknown("copy") }
    }

    fn kernel<D: Driver>(driver: &D, code: &D::Kernel, block: &[u64]) -> Self {
        let Some(view) = driver.view(code) else { return Self::unknown("kernel") };
        let name = work::kernel_name(view.kernel, block);
        Self { work: Work::of_kernel(view.kernel, block), kernel: watch::number(view), ..Self::unknown(&name) }
    }

    /// Combines a step with one of its epilogues.
    fn then(self, epilogue: Self) -> Self {
        let Self { name, mut work, node, kernel, implementation } = self;
        work.operations = work.operations.saturating_add(epilogue.work.operations);
        work.bytes = work.bytes.saturating_add(epilogue.work.bytes);
        let (name, kernel) = (format!("{name} then {}", epilogue.name), kernel.or(epilogue.kernel));
        Self { name, work, node, kernel, implementation }
    }

    fn unknown(name: &str) -> Self {
        Self { name: name.to_owned(), work: Work::default(), node: None, kernel: None, implementation: None }
    }
}
