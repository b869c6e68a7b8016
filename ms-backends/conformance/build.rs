//! Writes the macro that includes a suite by the path of its sources, which only this crate knows.

use std::fmt::Write;
use std::path::Path;

const SUITES: [&str; 6] = ["control", "effects", "ops", "strict", "training", "transforms"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (crate_root, out) = (std::env::var("CARGO_MANIFEST_DIR")?, std::env::var("OUT_DIR")?);
    let mut arms = String::new();
    for suite in SUITES {
        let path = Path::new(&crate_root).join("suites").join(suite).join("mod.rs");
        writeln!(arms, "({suite}) => {{ #[path = {path:?}] mod {suite}; }};")?;
    }
    let text = format!("#[doc(hidden)]\n#[macro_export]\nmacro_rules! suite {{\n{arms}}}\n");
    std::fs::write(Path::new(&out).join("suite.rs"), text)?;
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}
