//! Describes the ops that submit work to devices, for errors that occur when it runs.

use ms_ir::error::{ActiveCalls, Error, active_function};
use ms_ops::tensor::{OpCall, Origin, Type, is_host_only};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;

/// An applied op.
pub(super) struct Applied {
    op: &'static str,
    location: &'static Location<'static>,
    operands: SmallVec<[Type; 3]>,
    calls: ActiveCalls,
    /// The library function that the user called, if it is active.
    called: Option<&'static str>,
    /// The composite whose body applies it.
    composite: Option<Arc<Applied>>,
}

thread_local! {
    /// The innermost composite whose body is running, if devices are used.
    static COMPOSITE: RefCell<Option<Arc<Applied>>> = const { RefCell::new(None) };
}

impl Applied {
    /// Describes a call of an op.
    pub fn new(call: &OpCall<'_>) -> Arc<Self> {
        let (op, location) = (call.op.name(), call.location);
        let operands = call.inputs.iter().map(|it| it.ty()).collect();
        Arc::new(Self {
            op,
            location,
            operands,
            calls: ActiveCalls::current(),
            called: active_function(),
            composite: COMPOSITE.with_borrow(Clone::clone),
        })
    }
}

impl Origin for Applied {
    fn explain(&self, error: Error) -> Error {
        let error = error.with_op(self.op).at(self.location);
        let error = error.with_operands(self.operands.iter().map(Type::to_string)).in_those_calls(&self.calls);
        match &self.composite {
            Some(composite) => composite.explain(error.of_composite(composite.op)),
            None => error.of_function(self.called),
        }
    }
}

/// Runs the body of a composite, which ops inside then name.
pub(in crate::session) fn in_composite<R>(call: &OpCall<'_>, body: impl FnOnce() -> R) -> R {
    /// Ends the body, also when it unwinds.
    struct Outer(Option<Arc<Applied>>);
    impl Drop for Outer {
        fn drop(&mut self) {
            COMPOSITE.set(self.0.take());
        }
    }
    if is_host_only() {
        return body();
    }
    let _outer = Outer(COMPOSITE.replace(Some(Applied::new(call))));
    body()
}
