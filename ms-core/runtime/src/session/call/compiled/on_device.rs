//! Runs compiled graphs on devices with separate memory.

use super::{Compiled, located, tensors};
use crate::session::call::source::Source;
use crate::session::devices::{self, Submission};
use crate::session::eager::contiguous;
use ms_compile::exec::{self, Donation, Executable};
use ms_compile::lower::line_of_node;
use ms_ir::error::{ActiveCalls, Error, Result, in_op};
use ms_ops::tensor::{Array, Device, Origin, Outputs};
use smallvec::SmallVec;
use std::sync::Arc;

impl Compiled {
    /// Submits work to a device.
    fn submit<R>(&self, device: Device, submit: impl FnOnce(&Submission) -> Result<R>) -> Result<R> {
        let called = || Called { source: self.source.clone(), calls: ActiveCalls::current() };
        Submission::make(devices::space(device)?, || Arc::new(called()), submit)
    }

    /// Implements [`Compiled::run_arrays`] on the device of the inputs.
    #[cold]
    pub(super) fn run_on_any(&self, inputs: &[&Array]) -> Result<Outputs> {
        let (device, mut inputs) = devices::gathered(inputs, |_| false)?;
        let other = self.other(&*inputs, Some(device))?;
        let known = other.as_deref().unwrap_or(self);
        let executable = known.executable()?;
        let outputs = self.submit(device, |work| {
            work.reads(&*inputs)?;
            dense(work, device, &mut inputs)?;
            let borrowed: SmallVec<[&Array; 8]> = inputs.iter().collect();
            let outputs = self.located_records(|| executable.run(&borrowed));
            submitted(work, &inputs, outputs, &[])
        });
        Ok(tensors(outputs.map_err(|error| known.located(error))?))
    }

    /// Implements [`Compiled::run_donated`] on a device, with the executable for it.
    pub(super) fn submit_donated(
        &self,
        device: Device,
        executable: &Arc<dyn Executable>,
        inputs: &mut [Array],
        donations: &[Donation],
    ) -> Result<SmallVec<[Array; 1]>> {
        self.submit(device, |work| {
            work.reads(&*inputs)?;
            dense(work, device, inputs)?;
            // The others are shared and are not written.
            work.writes(inputs.iter_mut().filter_map(|it| it.is_sole().then_some(&*it)));
            let outputs = self.located_records(|| executable.run_donated(inputs, donations));
            submitted(work, inputs, outputs, inputs)
        })
    }

    /// Runs the graph. If this thread is profiled, adds the user's source locations to the records of its steps.
    fn located_records<R>(&self, run: impl FnOnce() -> R) -> R {
        if !exec::is_watched() {
            return run();
        }
        let before = exec::records_so_far();
        let result = run();
        if let Some(traced) = self.source.traced() {
            exec::locate(before, |node| line_of_node(traced, node).map(|it| it.to_string()));
        }
        result
    }
}

/// Records the reads and writes of a run. Some steps of a failed run may have been submitted.
fn submitted(
    work: &Submission,
    inputs: &[Array],
    outputs: Result<SmallVec<[Array; 1]>>,
    over: &[Array],
) -> Result<SmallVec<[Array; 1]>> {
    let recorded = work.submitted(inputs, outputs.iter().flatten(), over);
    let outputs = outputs?;
    recorded.map(|()| outputs)
}

/// A call that submitted a run to a device.
struct Called {
    source: Arc<Source>,
    calls: ActiveCalls,
}

impl Origin for Called {
    fn explain(&self, error: Error) -> Error {
        let error = located(&self.source, error).in_those_calls(&self.calls);
        match self.calls.user_line() {
            Some(line) => error.at(line),
            None => error,
        }
    }
}

/// Makes the arrays of a device row-major, as executables require.
fn dense(work: &Submission, device: Device, arrays: &mut [Array]) -> Result<()> {
    let strided = arrays.iter_mut().filter(|it| !device.is_cpu() && !it.layout().is_contiguous());
    for array in strided {
        let copy = in_op(|| contiguous(Some(&**exec::backend(device)?), array))?;
        work.submitted([&*array], [&copy], &[])?;
        *array = copy;
    }
    Ok(())
}
