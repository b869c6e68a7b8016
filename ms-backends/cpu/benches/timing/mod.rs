//! Measures single ops.

use ms_compile::exec::Backend;
use ms_compile::lower::eager::StepKey;
use ms_cpu::CpuBackend;
use ms_ir::Precision;
use ms_ir::data::{Array, Attrs};
use ms_ops::ops::OpDef;
use std::time::{Duration, Instant};

/// Returns the time of the fastest of `rounds` runs of an op, in microseconds.
pub fn fastest(
    backend: &CpuBackend,
    (rounds, precision): (usize, Precision),
    (def, attrs): (&'static OpDef, &Attrs),
    inputs: &[&Array],
    out: &Array,
) -> f64 {
    let key = StepKey::whole(def, attrs, inputs, precision);
    let code = backend.compile_step(&key.build(backend.target())).expect("the backend runs it");
    let run = || {
        let start = Instant::now();
        // SAFETY: `out` has the type that the op's type rule infers, and it is not shared.
        unsafe { code.run(&[], inputs, std::slice::from_ref(out)) }.expect("there is memory");
        start.elapsed()
    };
    let best: Option<Duration> = (0..rounds).map(|_| run()).min();
    best.expect("there are rounds").as_secs_f64() * 1e6
}
