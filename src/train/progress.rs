//! A progress bar.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on standard error, if that is a terminal; otherwise it prints nothing.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar of `total` steps.
    pub fn new(title: impl Into<String>, total: usize) -> Self {
        let style =
            ProgressStyle::with_template("{prefix} [{bar:24}] {pos}/{len} {msg}").expect("the template is valid");
        Self(ProgressBar::new(total as u64).with_style(style).with_prefix(title.into()))
    }

    /// Whether there is a terminal.
    pub fn is_shown(&self) -> bool {
        !self.0.is_hidden()
    }

    /// Sets how many steps are complete.
    pub fn advance_to(&mut self, steps: u64) {
        self.0.set_position(steps);
    }

    /// Shows a text after the bar.
    pub fn note(&mut self, note: impl Into<String>) {
        self.0.set_message(note.into());
    }

    /// Completes one step; `note` is shown after the bar.
    pub fn step(&mut self, note: impl Into<String>) {
        self.note(note);
        self.0.inc(1);
    }

    /// Removes the bar, so that a line can be printed in its place.
    pub fn clear(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
