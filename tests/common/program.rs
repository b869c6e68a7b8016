//! Compiles and runs programs.

#[path = "rustc.rs"]
mod rustc;

use rustc::rustc;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A program in a separate folder, which is removed with it.
pub struct Program {
    folder: PathBuf,
}

impl Program {
    /// Compiles the source. `options` are further options of rustc.
    pub fn compile(name: &str, source: &str, options: &[&str]) -> Self {
        let program = Self { folder: std::env::temp_dir().join(format!("ms {name} {}", std::process::id())) };
        std::fs::create_dir_all(&program.folder).expect("a writable directory");
        std::fs::write(program.folder.join("program.rs"), source).expect("a writable directory");
        let mut rustc = rustc(&program.folder);
        rustc.args(["-oprogram", "program.rs"]);
        let output = rustc.args(options).output().expect("rustc runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }

    /// Runs the program and returns its output and errors. It links no backend other than the CPU.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.folder.join("program"));
        command.args(arguments).env_remove("MS_DEVICE_TARGET").output().expect("the program runs")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _removed = std::fs::remove_dir_all(&self.folder);
    }
}
