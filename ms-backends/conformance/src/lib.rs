//! Runs a test in another process, and the modules that the suites share.

pub mod counted;
pub mod folder;
pub mod late_errors;
pub mod paths;
pub mod thread_time;
pub mod ways;

pub use serde_json;

use std::process::Command;

/// Returns a command that runs one test of this executable in another process.
///
/// The first segment of the test's path, the name of the crate, is not a part of the name of the test.
///
/// ```
/// let child = ms_conformance::process_of(concat!(module_path!(), "::the_program_of_a_process"));
/// assert!(child.get_args().any(|it| it == "--exact"));
/// ```
pub fn process_of(path: &str) -> Command {
    let name = path.split_once("::").map_or(path, |it| it.1);
    let mut command = Command::new(std::env::current_exe().expect("a test runs from a file"));
    command.args([name, "--exact"]);
    command
}
