//! Tests the compile cache in real processes, sequentially and concurrently.

// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;

mod faults;
mod memory;
mod process;
mod program;
mod rebuild;
mod sound;
mod stored;
mod trust;

/// Runs the program of a process that [`process::command`] starts; does nothing in an ordinary test run.
#[test]
fn program_of_a_process() {
    if let Some(arguments) = process::program() {
        program::run(&arguments);
    }
}
