//! Writes the programs that the tests run.

#[allow(dead_code, reason = "the build script needs a part of it only")]
#[path = "src/generator/mod.rs"]
mod generator;

use std::path::Path;
use std::{env, fs};

/// Reads a number from the environment. The programs are regenerated when it changes.
fn setting(name: &str, default: u64) -> u64 {
    println!("cargo::rerun-if-env-changed={name}");
    env::var(name).map_or(default, |it| it.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{it}`")))
}

fn main() {
    println!("cargo::rerun-if-changed=src/generator");
    let (first, count) = (setting("MS_RANDOM_SEED", 0), setting("MS_RANDOM_COUNT", 500));
    let folder = env::var("OUT_DIR").expect("cargo sets it");
    let text = generator::file(first..first + count);
    fs::write(Path::new(&folder).join("programs.rs"), text).expect("the folder of build outputs can be written");
}
