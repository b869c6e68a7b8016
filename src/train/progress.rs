//! A progress bar.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// The cells of the bar.
const WIDTH: usize = 24;

/// How often the bar is drawn again.
const REDRAW: Duration = Duration::from_millis(50);

/// A bar on the standard error stream, where that is a terminal; otherwise nothing.
pub struct Progress {
    title: String,
    total: usize,
    done: usize,
    drawn: Option<Instant>,
    shown: bool,
}

impl Progress {
    /// A bar of `total` steps.
    pub fn new(title: impl Into<String>, total: usize) -> Self {
        Self { title: title.into(), total, done: 0, drawn: None, shown: stderr().is_terminal() }
    }

    /// One step is done; `note` stands behind the bar.
    pub fn step(&mut self, note: &str) {
        self.done += 1;
        let due = self.drawn.is_none_or(|it| it.elapsed() >= REDRAW) || self.done == self.total;
        if !self.shown || !due {
            return;
        }
        self.drawn = Some(Instant::now());
        let full = (WIDTH * self.done).checked_div(self.total).unwrap_or(WIDTH).min(WIDTH);
        let bar = format!("{}{}", "=".repeat(full), " ".repeat(WIDTH - full));
        // A terminal that went away is no reason to stop training.
        let _ = write!(stderr(), "\r{} [{bar}] {}/{} {note}\x1b[K", self.title, self.done, self.total);
        let _ = stderr().flush();
    }

    /// Removes the bar, so that a line can take its place.
    pub fn clear(&mut self) {
        if self.shown && self.drawn.take().is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
            let _ = stderr().flush();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
