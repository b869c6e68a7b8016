//! Compiles programs against the library of the running test.

use std::path::PathBuf;
use std::process::{Command, Output};

/// A program in a separate folder, which is removed with it.
pub struct Program {
    folder: PathBuf,
}

impl Program {
    /// Compiles the source. `options` are further options of rustc.
    pub fn compile(name: &str, source: &str, options: &[&str]) -> Self {
        let deps = std::env::current_exe().expect("the test runs").parent().expect("a folder").to_owned();
        let files = std::fs::read_dir(&deps).expect("the folder of the test").flatten().map(|it| it.path());
        let is_library = |it: &PathBuf| {
            let name = it.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libms-") && name.ends_with(".rlib")
        };
        let built = |it: &PathBuf| std::fs::metadata(it).and_then(|it| it.modified()).ok();
        let library = files.filter(is_library).max_by_key(built).expect("the library was built before its tests");
        let program = Self { folder: std::env::temp_dir().join(format!("ms {name} {}", std::process::id())) };
        std::fs::create_dir_all(&program.folder).expect("a writable directory");
        std::fs::write(program.folder.join("program.rs"), source).expect("a writable directory");
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
        rustc.current_dir(&program.folder).args(["--edition=2024", "-Cdebuginfo=0", "-oprogram", "program.rs"]);
        rustc.arg(format!("-Ldependency={}", deps.display())).arg(format!("--extern=ms={}", library.display()));
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
