//! Errors that a device tells when somebody waits.

use ms::error::OrRaise;

/// [`ms::catch`] that waits for what `f` gives to devices. On the CPU errors come at once.
pub fn catch<R>(f: impl FnOnce() -> R) -> ms::Result<R> {
    ms::catch(|| {
        let result = f();
        ms::synchronize().or_raise();
        result
    })
}
