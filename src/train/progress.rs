//! A progress bar.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// The width of a bar in characters.
const WIDTH: u64 = 24;

/// The minimum time between two drawings.
const PAUSE: Duration = Duration::from_millis(50);

/// A progress bar on standard error. It prints nothing unless that is a terminal.
///
/// ```
/// use ms::prelude::*;
/// let mut progress = Progress::new("epoch 1", 100);
/// for step in 0..100 {
///     progress.step(format!("loss {:.3}", 1.0 / (step + 1) as f64));
/// }
/// ```
pub struct Progress {
    title: String,
    total: u64,
    done: u64,
    note: String,
    is_shown: bool,
    /// The time of the last drawing, if the bar is visible.
    drawn: Option<Instant>,
}

impl Progress {
    /// Creates a bar of `total` steps.
    pub fn new(title: impl Into<String>, total: usize) -> Self {
        let (title, total, is_shown) = (title.into(), total as u64, stderr().is_terminal());
        Self { title, total, done: 0, note: String::new(), is_shown, drawn: None }
    }

    /// Returns whether standard error is a terminal.
    pub fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Sets the number of completed steps.
    pub fn advance_to(&mut self, steps: u64) {
        self.done = steps;
        self.draw();
    }

    /// Shows a text after the bar.
    pub fn note(&mut self, note: impl Into<String>) {
        self.note = note.into();
        self.draw();
    }

    /// Completes one step; `note` is shown after the bar.
    pub fn step(&mut self, note: impl Into<String>) {
        self.note = note.into();
        self.advance_to(self.done + 1);
    }

    /// Removes the bar, so that a line can be printed in its place.
    pub fn clear(&mut self) {
        if self.drawn.take().is_some() {
            write("\r\x1b[2K");
        }
    }

    /// Formats the line: `epoch 1 [##########              ] 40/100 loss 0.512`.
    fn line(&self) -> String {
        let filled = (self.done.min(self.total) * WIDTH).checked_div(self.total).unwrap_or(WIDTH) as usize;
        let (full, width) = ("#".repeat(filled), WIDTH as usize);
        format!("{} [{full:width$}] {}/{} {}", self.title, self.done, self.total, self.note)
    }

    fn draw(&mut self) {
        let is_due = self.drawn.is_none_or(|it| it.elapsed() >= PAUSE) || self.done >= self.total;
        if self.is_shown && is_due {
            self.drawn = Some(Instant::now());
            // Line wrapping is disabled so that a long line is truncated to one line.
            write(&format!("\r\x1b[2K\x1b[?7l{}\x1b[?7h", self.line()));
        }
    }
}

/// Writes to the terminal; failure to show a bar is ignored.
fn write(text: &str) {
    let mut to = stderr().lock();
    let _ = to.write_all(text.as_bytes()).and_then(|()| to.flush());
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_full_as_its_steps() {
        let line = |done: u64, total: usize| {
            let mut bar = Progress::new("epoch 1", total);
            (bar.done, bar.note) = (done, "loss 0.5".to_owned());
            bar.line()
        };
        assert_eq!(line(0, 100), "epoch 1 [                        ] 0/100 loss 0.5");
        assert_eq!(line(50, 100), "epoch 1 [############            ] 50/100 loss 0.5");
        assert_eq!(line(100, 100), "epoch 1 [########################] 100/100 loss 0.5");
        assert_eq!(line(7, 5), "epoch 1 [########################] 7/5 loss 0.5");
        assert_eq!(line(0, 0), "epoch 1 [########################] 0/0 loss 0.5");
    }
}
