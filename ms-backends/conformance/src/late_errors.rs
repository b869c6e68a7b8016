//! Catches errors that a device reports only when somebody waits.

use ms::error::OrRaise;

/// Runs `f` in [`ms::catch`], and waits for the work that it submits to devices. The CPU reports errors immediately.
pub fn catch<R>(f: impl FnOnce() -> R) -> ms::Result<R> {
    ms::catch(|| {
        let result = f();
        ms::synchronize().or_raise();
        result
    })
}
