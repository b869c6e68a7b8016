//! Lists the pages of errors, for `ms explain`.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=errors");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("errors");
    let mut pages: Vec<_> = fs::read_dir(&folder)
        .expect("the package has its pages")
        .map(|it| it.expect("the folder is readable").path())
        .filter(|it| it.file_name().is_some_and(|name| name.to_string_lossy().starts_with("MS")))
        .collect();
    pages.sort();
    let mut list = String::from("&[\n");
    for page in &pages {
        let code = page.file_stem().expect("a page has a name").to_string_lossy();
        writeln!(list, "    ({code:?}, include_str!({page:?})),").expect("a string takes text");
    }
    list.push(']');
    let out = env::var_os("OUT_DIR").expect("cargo sets it for build scripts");
    fs::write(Path::new(&out).join("pages.rs"), list).expect("the output folder is writable");
}
