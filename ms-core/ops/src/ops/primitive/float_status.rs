//! Float status: whether any op had an infinite or NaN result.

use crate::ops::core::host::dense;
use crate::ops::{Batching, Derivative, Effects, Lowering, OpDef, Sample, SampleInput, TransformRules};
use crate::tensor::{Array, Attrs, DType, DispatchMode, OpInfo, Parameter, SlotId, Tensor, apply1, dispatch_mode};
use ms_ir::error::Result;
use ms_ir::with_element;
use smallvec::smallvec;
use std::cell::{Cell, RefCell};

/// The number of elements of a status.
pub const STATUS_SIZE: usize = 8;

macro_rules! status_op {
    ($(#[$doc:meta])* $name:ident = $number:literal, $text:literal) => {
        $(#[$doc])*
        pub static $name: OpDef = OpDef {
            info: OpInfo { number: $number, name: $text, attrs: &[] },
            infer: |_, inputs| Ok(smallvec![inputs[0].clone()]),
            eval: |_, inputs| Ok(smallvec![inputs[0].on_host()?.to_contiguous()]),
            effects: Effects::MONITORS,
            lowering: Lowering::View(|_, layout| Some(layout.clone())),
            samples: || vec![Sample::new([SampleInput::f32(&[STATUS_SIZE], 0.0, 0.0)])],
            transforms: &TransformRules {
                derivative: Derivative::Zero,
                finite_derivatives: true,
                batching: Batching::Rule(|it| it.apply(it.attrs, it.inputs)),
                body: None,
            },
        };
    };
}

status_op! {
    /// Starts to monitor the results of ops. Occurs in traced graphs; `effects` replaces it.
    CLEAR_FLOAT_STATUS = 735, "clear_float_status"
}

status_op! {
    /// Returns the status since it was cleared. Occurs in traced graphs; `effects` replaces it.
    GET_FLOAT_STATUS = 736, "get_float_status"
}

/// Detects infinities and NaN. The status is set by any op result between [`FloatStatus::clear`] and
/// [`FloatStatus::get`], in program order and on this thread, that is not finite in its dtype. This includes forward
/// and gradient, branches and loops, eagerly and in compiled code.
///
/// A compiled function clears and reads a status in one graph: a status cleared in a branch or a loop is read there. A
/// compiled function that is called between an eager `clear` and an eager `get` runs op by op.
///
/// ```
/// use ms_core::{DType, Tensor, ops};
/// let status = ops::FloatStatus::alloc();
/// status.clear();
/// let x = ops::cast(Tensor::full([2], 60000.0), DType::F16);
/// let sum = ops::add(&x, &x);
/// assert!(status.get().to_vec::<f32>()[0] > 0.0);
/// ```
#[derive(Clone, Debug)]
pub struct FloatStatus {
    state: Parameter,
}

thread_local! {
    static MONITORED: Cell<bool> = const { Cell::new(false) };
    /// Statuses that are cleared and not yet read, with whether a result was not finite.
    static ACTIVE: RefCell<Vec<(SlotId, bool)>> = const { RefCell::new(Vec::new()) };
}

/// Whether eager results are monitored on this thread.
#[inline]
pub fn is_float_status_monitored() -> bool {
    MONITORED.get()
}

/// Runs `f` without monitoring its results.
#[doc(hidden)]
pub fn unmonitored<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            MONITORED.set(self.0);
        }
    }
    let _restore = Restore(MONITORED.replace(false));
    f()
}

/// Checks eager results.
///
/// # Errors
/// The errors of [`Array::on_host`].
#[doc(hidden)]
pub fn monitor_results<'a>(results: impl IntoIterator<Item = &'a Array>) -> Result<()> {
    for result in results {
        if !is_finite(result)? {
            ACTIVE.with(|it| it.borrow_mut().iter_mut().for_each(|it| it.1 = true));
        }
    }
    Ok(())
}

fn is_finite(array: &Array) -> Result<bool> {
    if !array.dtype().is_float() {
        return Ok(true);
    }
    let dense = dense(array)?;
    with_element!(dense.dtype(), T => {
        let all = dense.as_slice::<T>()?;
        Ok(all.iter().all(|it| crate::tensor::Element::to_scalar(*it).as_f64().is_finite()))
    })
}

fn status(met: bool) -> Tensor {
    Tensor::from_slice([STATUS_SIZE], &[f32::from(u8::from(met)); STATUS_SIZE])
}

impl FloatStatus {
    /// Creates a cleared status.
    #[track_caller]
    pub fn alloc() -> Self {
        let state = Parameter::init("float_status", [STATUS_SIZE], DType::F32, || status(false));
        state.set_requires_grad(false);
        Self { state }
    }

    /// Returns the slot of the status.
    pub fn state(&self) -> &Parameter {
        &self.state
    }

    /// Clears the status, and starts monitoring.
    #[track_caller]
    pub fn clear(&self) {
        if dispatch_mode() == DispatchMode::Trace {
            return self.state.set(&apply1(CLEAR_FLOAT_STATUS.op(), &Attrs::none(), &[&self.state.value()]));
        }
        self.state.set(&status(false));
        ACTIVE.with(|it| {
            let mut active = it.borrow_mut();
            active.retain(|it| it.0 != self.state.id());
            active.push((self.state.id(), false));
        });
        MONITORED.set(true);
    }

    /// Ends monitoring. Returns f32 `[8]`: zeros if every result was finite, and ones otherwise. Further calls return
    /// the same.
    #[track_caller]
    pub fn get(&self) -> Tensor {
        if dispatch_mode() == DispatchMode::Trace {
            let got = apply1(GET_FLOAT_STATUS.op(), &Attrs::none(), &[&self.state.value()]);
            self.state.set(&got);
            return got;
        }
        let met = ACTIVE.with(|it| {
            let mut active = it.borrow_mut();
            let at = active.iter().position(|it| it.0 == self.state.id());
            let met = at.map(|at| active.remove(at).1);
            MONITORED.set(!active.is_empty());
            met
        });
        if let Some(met) = met {
            self.state.set(&status(met));
        }
        self.state.value()
    }
}
