//! Saves graphs as files, stage by stage: `save_graphs`.

use super::context;
use ms_ir::error::Result;
use ms_ir::{Graph, to_dot, to_html};
use std::fmt::Display;
use std::fs;
use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The files of one compilation: a separate directory with names that sort in the order of the stages.
///
/// ```text
/// 0003_train_step/00_trace.msir
///                 01_effects.msir
///                 02_expand.msir
///                 03_optimize.msir
///                 04_plan.txt           from level 2 on
///                 05_report.txt
///                 00_trace.dot, .html   and every pass: level 3
/// ```
pub(super) struct Dump {
    folder: PathBuf,
    level: u8,
    /// The passes that are saved; all if empty.
    passes: Vec<String>,
    next: usize,
}

static NEXT: AtomicUsize = AtomicUsize::new(0);

impl Dump {
    /// Begins the files of a compilation, if enabled.
    pub fn begin(name: &str) -> Option<Self> {
        let (level, path, passes) =
            context::read(|it| (it.save_graphs, it.save_graphs_path.clone(), it.save_graphs_passes.clone()));
        if level == 0 {
            return None;
        }
        let plain = |it: char| if it.is_ascii_alphanumeric() { it } else { '_' };
        let name: String = name.chars().map(plain).take(64).collect();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = path.unwrap_or_else(|| PathBuf::from("ms_graphs")).join(format!("{number:04}_{name}"));
        let dump = Self { folder, level, passes, next: 0 };
        match fs::create_dir_all(&dump.folder) {
            Ok(()) => Some(dump),
            Err(error) => {
                dump.warn(&error);
                None
            }
        }
    }

    /// Warns of a file that cannot be written, which is never an error.
    fn warn(&self, error: &dyn Display) {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| eprintln!("warning: graphs are not saved in {}: {error}", self.folder.display()));
    }

    fn write(&self, stem: &str, extension: &str, text: &dyn Display) {
        if let Err(error) = fs::write(self.folder.join(format!("{stem}.{extension}")), text.to_string()) {
            self.warn(&error);
        }
    }

    fn stem(&mut self, name: &str) -> String {
        let stem = format!("{:02}_{name}", self.next);
        self.next += 1;
        stem
    }

    /// Saves the graph of a stage.
    pub fn graph(&mut self, stage: &str, graph: &Graph) {
        let stem = self.stem(stage);
        self.write(&stem, "msir", graph);
        if self.level >= 3 {
            self.write(&stem, "dot", &to_dot(graph));
            self.write(&stem, "html", &to_html(graph));
        }
    }

    /// Saves the graph of a pass.
    pub fn pass(&mut self, pass: &str, graph: &Graph) {
        let wanted = self.passes.is_empty() || self.passes.iter().any(|it| it == pass);
        if self.level >= 3 && wanted {
            let stem = self.stem(&format!("pass_{pass}_{}", graph.name()));
            self.write(&stem, "msir", graph);
        }
    }

    /// Saves the report of the completed compilation.
    pub fn report(&mut self, report: &dyn Display) {
        let stem = self.stem("report");
        self.write(&stem, "txt", report);
    }

    /// Saves the backend's description of the compiled graph.
    pub fn plan(&mut self, describe: impl FnOnce() -> Result<String>) {
        if self.level >= 2 {
            let stem = self.stem("plan");
            match describe() {
                Ok(text) => self.write(&stem, "txt", &text),
                Err(error) => self.warn(&error),
            }
        }
    }
}
