//! The compile cache as programs see it: real processes, one after the other or at once.

mod faults;
mod memory;
mod process;
mod program;
mod rebuild;
mod sound;
mod stored;
mod trust;

/// What a process does that [`process::command`] starts; nothing in an ordinary run.
#[test]
fn program_of_a_process() {
    if let Some(arguments) = process::program() {
        program::run(&arguments);
    }
}
