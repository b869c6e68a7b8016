//! The suites of tests that a backend passes, and what they share.
//!
//! A suite is a module of tests. [`suites!`] includes its sources in a test of another crate, where each test runs, is
//! listed and is filtered as any other.
//!
//! | suite | tests |
//! |---|---|
//! | `ops` | values, numerics, layouts and invalid input of ops |
//! | `transforms` | derivatives of every order, `vmap` |
//! | `effects` | prints, assertions, random numbers and writes of parameters |
//! | `control` | control flow on host values and on tensors |
//! | `training` | optimisers, models, datasets, checkpoints |
//! | `strict` | equal bits in strict precision, eagerly and compiled |

pub mod counted;
pub mod folder;
pub mod late_errors;
pub mod paths;
pub mod thread_time;
pub mod ways;

// Only rustfmt reads the suites here: they are modules of the crates that include them.
#[cfg(false)]
#[path = "../suites"]
mod suites {
    mod control;
    mod effects;
    mod ops;
    mod strict;
    mod training;
    mod transforms;
}

#[doc(hidden)]
pub use serde_json;

use std::process::Command;

include!(concat!(env!("OUT_DIR"), "/suite.rs"));

/// Includes suites as modules of a crate that depends on `ms` and on this crate.
///
/// The tests run on the device of `MS_DEVICE_TARGET`. With the name of a kind of device, another test fails unless this
/// is the kind of new tensors. So no suite runs on the host by mistake.
///
/// ```
/// use ms_sim as _;
///
/// ms_conformance::suites!("sim": ops, transforms, effects, control, training, strict);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! suites {
    ($kind:literal: $($suite:tt),+ $(,)?) => {
        $crate::suites!($($suite),+);

        #[test]
        fn suites_run_on_the_device() {
            $crate::check_device($kind);
        }
    };
    ($($suite:tt),+ $(,)?) => {
        $($crate::suite!($suite);)+
    };
}

/// Checks that new tensors are on a device of this kind.
///
/// # Panics
/// If they are on another device.
#[doc(hidden)]
#[track_caller]
pub fn check_device(kind: &str) {
    let device = ms::Tensor::zeros([1]).device();
    assert_eq!(device.kind().name(), kind, "`MS_DEVICE_TARGET` selects the device of the suites");
}

/// Returns the path of a file below the folder of the suites.
pub fn data(path: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("suites").join(path)
}

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
