//! Files of TensorBoard: records of protocol buffers with checksums
//! (<https://github.com/tensorflow/tensorboard/blob/master/tensorboard/compat/proto/event.proto>).

use super::{Callback, RunContext};
use crate::io::crc::crc32c;
use ms_core::error::OrRaise;
use ms_core::ops::rules::check_positive;
use ms_core::{Code, Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes numbers into a file that TensorBoard shows.
///
/// ```
/// use ms::train::SummaryWriter;
/// # let folder = std::env::temp_dir().join(format!("ms doc summary {}", std::process::id()));
/// let mut writer = SummaryWriter::create(&folder)?;
/// for step in 0..10 {
///     writer.scalar("loss", step, 1.0 / (step + 1) as f64)?;
/// }
/// writer.flush()?;
/// # std::fs::remove_dir_all(&folder).expect("it was written");
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Debug)]
pub struct SummaryWriter {
    path: PathBuf,
    out: BufWriter<File>,
}

impl SummaryWriter {
    /// A new file in a folder, which is created if it is missing.
    ///
    /// # Errors
    /// [`Code::Io`] when one of them cannot be created.
    pub fn create(folder: impl AsRef<Path>) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let folder = folder.as_ref();
        std::fs::create_dir_all(folder).map_err(|it| refuse("create", folder, it))?;
        let seconds = now() as u64;
        let (path, file) = loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("events.out.tfevents.{seconds}.ms.{}.{number}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => break (path, file),
                // A process in another container has this id.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(refuse("create", &path, error)),
            }
        };
        let mut writer = Self { path, out: BufWriter::new(file) };
        let version = [double(1, now()), bytes(3, b"brain.Event:2")].concat();
        writer.write(&record(&version))?;
        Ok(writer)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a number of a series.
    ///
    /// # Errors
    /// [`Code::Io`] when the file cannot be written.
    pub fn scalar(&mut self, tag: &str, step: u64, value: f64) -> Result<()> {
        self.write(&record(&scalar(now(), tag, step, value)))
    }

    /// Writes what is buffered, so that TensorBoard sees it.
    ///
    /// # Errors
    /// [`Code::Io`] when the file cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(|it| refuse("write", &self.path, it))
    }

    fn write(&mut self, record: &[u8]) -> Result<()> {
        self.out.write_all(record).map_err(|it| refuse("write", &self.path, it))
    }
}

fn refuse(what: &str, path: &Path, error: io::Error) -> Error {
    Error::new(Code::Io, format!("cannot {what} `{}`: {error}", path.display())).with_op("SummaryWriter")
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// A message between its length and its checksum.
fn record(message: &[u8]) -> Vec<u8> {
    // So that the checksum of data with its checksum is not a constant.
    let masked = |it: &[u8]| crc32c(it).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let length = (message.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), message, &masked(message)].concat()
}

/// An event with one number.
fn scalar(time: f64, tag: &str, step: u64, value: f64) -> Vec<u8> {
    let value = [bytes(1, tag.as_bytes()), float(2, value as f32)].concat();
    [double(1, time), number(2, step), bytes(5, &bytes(1, &value))].concat()
}

/// The fields of messages, by number; of integers, zero is left out.
fn double(field: u8, value: f64) -> Vec<u8> {
    [&[field << 3 | 1][..], &value.to_le_bytes()].concat()
}

fn float(field: u8, value: f32) -> Vec<u8> {
    [&[field << 3 | 5][..], &value.to_le_bytes()].concat()
}

fn number(field: u8, value: u64) -> Vec<u8> {
    if value == 0 { Vec::new() } else { [vec![field << 3], varint(value)].concat() }
}

fn bytes(field: u8, value: &[u8]) -> Vec<u8> {
    [&[field << 3 | 2][..], &varint(value.len() as u64), value].concat()
}

/// Seven bits a byte, the lowest first; all bytes but the last have the eighth bit set.
fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// Writes the loss and the learning rates of steps, and the loss and the scores of epochs, for TensorBoard:
/// `loss`, `learning_rate`, `epoch_loss`, `val_accuracy`.
#[derive(Debug)]
pub struct SummaryCollector {
    folder: PathBuf,
    steps: usize,
    at: u64,
    writer: Option<SummaryWriter>,
}

impl SummaryCollector {
    /// Writes every step, into a new file of a folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), steps: 1, at: 0, writer: None }
    }

    /// Sets that the numbers of every so many steps are written.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] for zero.
    #[track_caller]
    pub fn every_steps(self, steps: usize) -> Self {
        check_positive("SummaryCollector", "steps", steps).or_raise();
        Self { steps, ..self }
    }

    /// The file, once a run began.
    pub fn path(&self) -> Option<&Path> {
        self.writer.as_ref().map(SummaryWriter::path)
    }
}

impl Callback for SummaryCollector {
    fn on_train_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.at = run.step();
        self.writer = Some(SummaryWriter::create(&self.folder)?);
        Ok(())
    }

    fn on_step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let (steps, step) = (self.steps as u64, run.step());
        let is_due = step / steps > self.at / steps;
        self.at = step;
        let Some(writer) = self.writer.as_mut().filter(|_| is_due) else { return Ok(()) };
        writer.scalar("loss", step, run.loss()?)?;
        for (at, rate) in run.learning_rates().iter().enumerate() {
            let tag = if at == 0 { "learning_rate".to_owned() } else { format!("learning_rate_{at}") };
            writer.scalar(&tag, step, rate.get())?;
        }
        Ok(())
    }

    fn on_epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.scalar("epoch_loss", run.epoch(), run.mean_loss()?)?;
        for (name, score) in run.scores() {
            writer.scalar(&format!("val_{name}"), run.epoch(), *score)?;
        }
        writer.flush()
    }

    fn on_train_end(&mut self, _: &mut RunContext<'_>) -> Result<()> {
        self.writer.as_mut().map_or(Ok(()), SummaryWriter::flush)
    }
}

#[cfg(test)]
mod tests {
    /// Records that `tensorboard.summary.writer.record_writer` of TensorBoard 2.21.0 writes for
    /// `Event(wall_time=1.5e9, step=step, summary=Summary(value=[Value(tag=tag, simple_value=value)]))`.
    #[test]
    fn records_are_those_of_tensorboard() {
        let cases = [
            ("loss", 0, 0.25, "1800000000000000a37f4b2209000000c00b5ad6412a0d0a0b0a046c6f7373150000803e5fecba6d"),
            (
                "val_accuracy",
                300,
                0.0,
                "2300000000000000b09f774309000000c00b5ad64110ac022a150a130a0c76616c5f61636375726163791500000000279f084c",
            ),
        ];
        for (tag, step, value, want) in cases {
            let record = super::record(&super::scalar(1.5e9, tag, step, value));
            let hex: String = record.iter().map(|it| format!("{it:02x}")).collect();
            assert_eq!(hex, want, "{tag}");
        }
    }
}
