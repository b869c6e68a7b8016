//! The compile cache in real processes, sequentially and concurrently.

// Linked for `MS_DEVICE_TARGET=sim`.
use ms_sim as _;

mod faults;
mod memory;
mod process;
mod program;
mod rebuild;
mod sound;
mod stored;
mod trust;

/// The body of the processes that [`process::command`] starts; does nothing in an ordinary run.
#[test]
fn program_of_a_process() {
    if let Some(arguments) = process::program() {
        program::run(&arguments);
    }
}
