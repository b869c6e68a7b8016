//! Runs a golden case on its execution paths.

use crate::case::{Case, cases};
use crate::optimisers::OPS;
use crate::{answers, arguments};
use ms::ops::reference::ReferenceDispatcher;
use ms::prelude::jit;
use ms::tensor::{Dispatcher, with_dispatcher};
use ms::{Context, Precision, Result, Tensor};
use std::rc::Rc;

/// An execution path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// The reference evaluation of each op.
    Reference,
    /// The bodies of kernels, instruction by instruction, and the reference evaluation of other ops.
    Bodies,
    /// Eager execution on the backend.
    Eager,
    /// A compiled function on the backend.
    Jitted(Precision),
}

/// The paths without a backend.
pub const WITHOUT_BACKEND: [Path; 2] = [Path::Reference, Path::Bodies];

/// The paths of one instruction set.
pub const OF_BACKEND: [Path; 3] = [Path::Eager, Path::Jitted(Precision::Strict), Path::Jitted(Precision::Highest)];

impl Path {
    /// Returns the name of the path's column.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Bodies => "bodies",
            Self::Eager => "eager",
            Self::Jitted(Precision::Strict) => "strict",
            Self::Jitted(_) => "jit",
        }
    }

    /// Returns the results of case number `at`.
    ///
    /// # Errors
    /// Returns the errors of the case's ops.
    pub fn answers(self, at: usize) -> Result<Vec<Tensor>> {
        let case = &cases()[at];
        match self {
            Self::Reference => op_by_op(Rc::new(ReferenceDispatcher::Eval), case),
            Self::Bodies => op_by_op(Rc::new(ReferenceDispatcher::Lowered), case),
            Self::Eager => in_context(None, || answers(case, &arguments(case))),
            Self::Jitted(precision) => in_context(Some(precision), || jitted(at, case)),
        }
    }
}

/// Returns the results of a case, applying its ops one after the other.
///
/// # Errors
/// Returns the errors of the case's ops.
pub fn op_by_op(dispatcher: Rc<dyn Dispatcher>, case: &Case) -> Result<Vec<Tensor>> {
    in_context(None, || with_dispatcher(dispatcher, || answers(case, &arguments(case))))
}

/// Runs `f` with compiled functions of a precision, or without compiling.
fn in_context<R>(precision: Option<Precision>, f: impl FnOnce() -> R) -> R {
    let context = ms::context();
    let precise = Context { precision: precision.unwrap_or(context.precision), jit: precision.is_some(), ..context };
    ms::with_context(precise, f)
}

fn jitted(at: usize, case: &Case) -> Result<Vec<Tensor>> {
    if OPS.contains(&&*case.op) {
        // The steps of optimisers are compiled functions, and their parameters keep the changes.
        return answers(case, &arguments(case));
    }
    compiled(at, &arguments(case))
}

#[jit]
fn compiled(at: usize, arguments: &Vec<Tensor>) -> Result<Vec<Tensor>> {
    answers(&cases()[at], arguments)
}
