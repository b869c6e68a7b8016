//! Profiles computations: the time of every step, and its fraction of the roofline.

use super::context::settings;
use ms_compile::exec::{self, Exceeded, KernelCopy, Record, Records, Roof, Work};
use ms_ir::error::{Code, Error, Result};
use ms_ops::tensor::ProfiledUse;
use rustc_hash::FxHashMap;
use std::fmt::{self, Write};
use std::time::{Duration, Instant};

/// Runs `f`, and records the steps that it executes on this thread: every eager op, and every step of compiled
/// functions. A record has the step's time on all threads that work on it, its bytes and operations, and its fraction
/// of the device's [`Roof`].
///
/// Calls outside of profiles have no overhead. Inside, each step costs a few microseconds more, which no step's time
/// includes. On a queued device, the host waits for each step. A function that is compiled inside is compiled as usual.
/// The first run of a step includes one-time work, so you should usually profile the second call. No step includes
/// tracing, compiling and the host's own code.
///
/// ```
/// use ms_core::ops;
/// use ms_core::session::profile;
/// use ms_core::tensor::Tensor;
/// let x = Tensor::ones([64, 64]);
/// let (y, profile) = profile(|| ops::matmul(&x, &x));
/// assert_eq!(y.to_vec::<f32>()[0], 64.0);
/// assert!(profile.steps.iter().any(|it| it.name.starts_with("matmul") && it.work.operations == 2 * 64 * 64 * 64));
/// println!("{profile}");
/// let json = profile.to_chrome_trace();
/// assert!(json.starts_with('{'));
/// ```
pub fn profile<R>(f: impl FnOnce() -> R) -> (R, Profile) {
    // The use of devices is known once the settings are read.
    let device = settings().device;
    let start = Instant::now();
    let (result, records) = {
        let _watched = ProfiledUse::begin();
        exec::watched(f)
    };
    let time = start.elapsed();
    let Records { list, kernels, .. } = records;
    let by_reference = list.iter().filter(|it| it.by_reference).count();
    let backend = exec::backend(device).ok();
    let measured = |exceeded| backend.as_ref()?.roof(exceeded);
    let roof = measured(Exceeded::default()).and_then(|roof| {
        let steps = || list.iter().map(|it| roof.exceeded(it.work, it.time));
        // Other work may have disturbed the measurement of the rates.
        measured(Exceeded { operations: steps().any(|it| it.operations), memory: steps().any(|it| it.memory) })
    });
    (result, Profile { steps: list, kernels, start, time, by_reference, roof })
}

/// Returns the roofline of the device of the settings; `None` if its backend does not measure it. The first call
/// measures all rates, and each later call measures the rate of operations again. Other programs may use the processor
/// meanwhile, so the best rate counts.
///
/// ```
/// use ms_core::session::roof;
/// if let Some(roof) = roof() {
///     assert!(roof.operations > 0.0 && !roof.bytes.is_empty());
/// }
/// ```
pub fn roof() -> Option<Roof> {
    exec::backend(settings().device).ok()?.roof(Exceeded { operations: true, memory: false })
}

/// The records of [`profile`]. Printed, it is a table with one row for equal steps, the longest total first.
///
/// See the example of [`profile`].
#[derive(Clone, Debug)]
pub struct Profile {
    /// The executed steps and ops, in order.
    pub steps: Vec<Record>,
    /// The kernels of the steps.
    pub kernels: Vec<KernelCopy>,
    /// The start time.
    pub start: Instant,
    /// The duration, including work outside of steps.
    pub time: Duration,
    /// The number of steps that ran by the reference evaluation of their ops, which is slow, because the backend has no
    /// code for them.
    pub by_reference: usize,
    /// The rates of the device; `None` if its backend does not measure them.
    pub roof: Option<Roof>,
}

/// A group of equal steps.
struct Line<'a> {
    first: &'a Record,
    times: u32,
    time: Duration,
}

/// The key of equal steps: the name, the routine and the number of the step in it, the source location.
type Same<'a> = (&'a str, Option<(&'a str, u32)>, Option<&'a str>);

impl Profile {
    /// Returns a step's fraction of the roofline: the minimum time for its operations or its bytes, whichever is
    /// longer, over its time. Returns `None` if the rates are not known, or for a step without operations and bytes.
    pub fn fraction(&self, work: Work, time: Duration) -> Option<f64> {
        let least = self.roof.as_ref()?.time(work);
        (!least.is_zero() && !time.is_zero()).then(|| least.as_secs_f64() / time.as_secs_f64())
    }

    /// Groups equal steps, the longest total first.
    fn lines(&self) -> Vec<Line<'_>> {
        let mut lines: Vec<Line<'_>> = Vec::new();
        let mut known: FxHashMap<Same<'_>, usize> = FxHashMap::default();
        for record in &self.steps {
            let step = record.step.as_ref().map(|it| (&*it.0, it.1));
            let at = *known.entry((&record.name, step, record.line.as_deref())).or_insert(lines.len());
            match lines.get_mut(at) {
                Some(line) => {
                    line.times += 1;
                    line.time += record.time;
                }
                None => lines.push(Line { first: record, times: 1, time: record.time }),
            }
        }
        lines.sort_by_key(|it| std::cmp::Reverse(it.time));
        lines
    }

    /// Formats the steps for Chrome's `about:tracing` and Perfetto: JSON, with times in microseconds from the
    /// beginning.
    pub fn to_chrome_trace(&self) -> String {
        let mut out = String::from("{\"traceEvents\":[");
        for (at, record) in self.steps.iter().enumerate() {
            let us = |time: Duration| time.as_secs_f64() * 1e6;
            let category = if record.step.is_some() { "compiled" } else { "eager" };
            let comma = if at == 0 { "" } else { "," };
            let start = us(record.start.saturating_duration_since(self.start));
            let _ = write!(
                out,
                "{comma}\n{{\"name\":{},\"cat\":\"{category}\",\"ph\":\"X\",\"pid\":{},\"tid\":0,\"ts\":{start:.3},\
                 \"dur\":{:.3},\"args\":{{\"bytes\":{},\"operations\":{}",
                quoted(&record.name),
                std::process::id(),
                us(record.time),
                record.work.bytes,
                record.work.operations,
            );
            if let Some(fraction) = self.fraction(record.work, record.time) {
                let _ = write!(out, ",\"of roof\":{fraction:.4}");
            }
            if let Some((routine, step)) = &record.step {
                let _ = write!(out, ",\"step\":{}", quoted(&format!("{routine} {step}")));
            }
            if let Some(line) = &record.line {
                let _ = write!(out, ",\"line\":{}", quoted(line));
            }
            if let Some(implementation) = &record.implementation {
                let _ = write!(out, ",\"implementation\":{}", quoted(implementation));
            }
            if record.by_reference {
                out.push_str(",\"reference\":true");
            }
            out.push_str("}}");
        }
        out.push_str("\n]}\n");
        out
    }

    /// Writes [`Profile::to_chrome_trace`] to a file.
    ///
    /// # Errors
    /// [`Code::Io`](crate::Code::Io).
    pub fn write_chrome_trace(&self, path: impl AsRef<std::path::Path>) -> Result<()> {
        let path = path.as_ref();
        std::fs::write(path, self.to_chrome_trace())
            .map_err(|error| Error::new(Code::Io, format!("cannot write `{}`: {error}", path.display())))
    }
}

/// Formats a text as a JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for it in text.chars() {
        match it {
            '"' | '\\' => out.extend(['\\', it]),
            it if it < ' ' => _ = write!(out, "\\u{:04x}", it as u32),
            it => out.push(it),
        }
    }
    out.push('"');
    out
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        let all: Duration = self.steps.iter().map(|it| it.time).sum();
        let (steps, by_reference) = (self.steps.len(), self.by_reference);
        writeln!(f, "{:.1} us, of which {steps} steps {:.1} us, {by_reference} by reference", us(self.time), us(all))?;
        if let Some(Roof { operations, bytes }) = &self.roof {
            write!(f, "roof: {:.1} G operations/s, bytes", operations / 1e9)?;
            bytes.iter().try_for_each(|it| write!(f, " up to {} KiB {:.1} GB/s", it.0 >> 10, it.1 / 1e9))?;
            writeln!(f)?;
        }
        writeln!(
            f,
            "{:>10} {:>6} {:>5} {:>12} {:>12} {:>6} {:>24}  step",
            "us", "share", "times", "bytes", "operations", "roof", "of"
        )?;
        for Line { first, times, time } in self.lines() {
            let Work { operations, bytes } = first.work;
            let share = 100.0 * time.as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE);
            let roof = self.fraction(first.work, time / times).map_or("".into(), |it| format!("{:.0}%", 100.0 * it));
            let of = match (&first.step, &first.line) {
                (Some((routine, step)), _) => format!("{routine} {step}"),
                (None, _) => "eager".into(),
            };
            let name = &first.name;
            write!(
                f,
                "{:>10.1} {share:>5.1}% {times:>5} {bytes:>12} {operations:>12} {roof:>6} {of:>24}  {name}",
                us(time)
            )?;
            if let Some(implementation) = &first.implementation {
                write!(f, " by {implementation}")?;
            }
            if let Some(line) = &first.line {
                write!(f, " at {line}")?;
            }
            writeln!(f, "{}", if first.by_reference { " (by reference)" } else { "" })?;
        }
        Ok(())
    }
}
