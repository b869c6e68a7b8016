//! Writes the map with which `perf` names generated code.

use crate::kernel;
use ms_ir::Kernel;
use ms_ir::environment::Variable;
use ms_ir::environment_variables;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

environment_variables! {
    static PERF_MAP: Variable<bool> = Variable::switch("MS_DEV_PERF_MAP");
}

/// Adds the code of a kernel to `perf-PID.map` in the folder for temporary files, where `perf` looks for it. Does
/// nothing unless `MS_DEV_PERF_MAP` is set. Errors of writing the map are ignored.
pub fn mapped(code: &[u8], kernel: &Kernel) {
    static MAP: OnceLock<Option<Mutex<File>>> = OnceLock::new();
    let open = || {
        if !PERF_MAP.value().unwrap_or(false) {
            return None;
        }
        let path = std::env::temp_dir().join(format!("perf-{}.map", std::process::id()));
        // A stale map of an earlier process with this id is removed. `create_new` does not follow a link that someone
        // else made.
        let _none = std::fs::remove_file(&path);
        File::create_new(path).ok().map(Mutex::new)
    };
    let Some(map) = MAP.get_or_init(open) else { return };
    let (at, hash) = (code.as_ptr().addr(), kernel::hash(kernel));
    let line = format!("{at:x} {:x} ms kernel {hash:016x}\n", code.len());
    let _unnamed = map.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
}
