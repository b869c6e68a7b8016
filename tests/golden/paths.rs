//! The execution paths of a case.

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
    /// By the reference evaluation of each op.
    Reference,
    /// By the bodies of kernels, instruction by instruction; other ops by reference evaluation.
    Bodies,
    /// Eagerly, on the backend.
    Eager,
    /// As a compiled function, on the backend.
    Jitted(Precision),
}

/// The paths without a backend.
pub const WITHOUT_BACKEND: [Path; 2] = [Path::Reference, Path::Bodies];

/// The paths of one instruction set.
pub const OF_BACKEND: [Path; 3] = [Path::Eager, Path::Jitted(Precision::Strict), Path::Jitted(Precision::Highest)];

impl Path {
    /// The name of its column.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Bodies => "bodies",
            Self::Eager => "eager",
            Self::Jitted(Precision::Strict) => "strict",
            Self::Jitted(_) => "jit",
        }
    }

    /// The results of case number `at`.
    ///
    /// # Errors
    /// Those of its ops.
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

/// The results of a case whose ops are applied one after the other.
///
/// # Errors
/// Those of its ops.
pub fn op_by_op(dispatcher: Rc<dyn Dispatcher>, case: &Case) -> Result<Vec<Tensor>> {
    in_context(None, || with_dispatcher(dispatcher, || answers(case, &arguments(case))))
}

/// Runs `f` with compiled functions of a precision, or with none.
fn in_context<R>(precision: Option<Precision>, f: impl FnOnce() -> R) -> R {
    let context = ms::context();
    let precise = Context { precision: precision.unwrap_or(context.precision), jit: precision.is_some(), ..context };
    ms::with_context(precise, f)
}

fn jitted(at: usize, case: &Case) -> Result<Vec<Tensor>> {
    if OPS.contains(&&*case.op) {
        // Their steps are compiled functions, and parameters keep their changes.
        return answers(case, &arguments(case));
    }
    compiled(at, &arguments(case))
}

#[jit]
fn compiled(at: usize, arguments: &Vec<Tensor>) -> Result<Vec<Tensor>> {
    answers(&cases()[at], arguments)
}
