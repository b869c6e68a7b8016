//! Measures the processor time of threads.

/// Returns the processor time of this thread in seconds, which excludes other processes.
pub fn thread_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}
