//! Writes TensorBoard event files: protobuf records with checksums
//! (<https://github.com/tensorflow/tensorboard/blob/master/tensorboard/compat/proto/event.proto>).

use super::{Callback, RunContext};
use crate::io::state_dict::row_major;
use crc::{CRC_32_ISCSI, Crc};
use ms_core::error::OrRaise;
use ms_core::ops::rules::check_positive;
use ms_core::{Code, Error, Result, Tensor};
use ms_protobuf::{bytes, double, float, number};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes scalars, histograms and texts to a TensorBoard event file.
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
    /// Creates a new file in a folder. The folder is created if it is missing.
    ///
    /// # Errors
    /// [`Code::Io`] if the file or the folder cannot be created.
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
                // A process in a different container may have the same id.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(refuse("create", &path, error)),
            }
        };
        let mut writer = Self { path, out: BufWriter::new(file) };
        let version = [double(1, now()), bytes(3, b"brain.Event:2")].concat();
        writer.write(&record(&version))?;
        Ok(writer)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a value of a scalar series.
    ///
    /// # Errors
    /// [`Code::Io`] if the file cannot be written.
    pub fn scalar(&mut self, tag: &str, step: u64, value: f64) -> Result<()> {
        self.write(&record(&event(now(), step, tag, &float(2, value as f32))))
    }

    /// Adds a text, which is shown as Markdown.
    ///
    /// # Errors
    /// [`Code::Io`] if the file cannot be written.
    pub fn text(&mut self, tag: &str, step: u64, text: &str) -> Result<()> {
        self.write(&record(&event(now(), step, tag, &text_value(text))))
    }

    /// Adds a histogram of the elements of a numeric tensor, with 30 buckets of equal width.
    ///
    /// ```
    /// use ms::prelude::*;
    /// use ms::train::SummaryWriter;
    /// # let folder = std::env::temp_dir().join(format!("ms doc histogram {}", std::process::id()));
    /// let net = nn::Dense::new(3, 2);
    /// let mut writer = SummaryWriter::create(&folder)?;
    /// writer.histogram("fc.weight", 0, &net.weight.value())?;
    /// writer.text("note", 0, "the weights before the training")?;
    /// # std::fs::remove_dir_all(&folder).expect("it was written");
    /// # Ok::<(), ms::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Code::Argument`] for a tensor without elements, or with elements that are not finite; [`Code::Io`] if the file
    /// cannot be written; the errors of computing the tensor.
    pub fn histogram(&mut self, tag: &str, step: u64, values: &Tensor) -> Result<()> {
        let values: Vec<f64> = row_major(values)?.scalars().iter().map(|it| it.as_f64()).collect();
        if values.is_empty() || values.iter().any(|it| !it.is_finite()) {
            let error = Error::new(Code::Argument, format!("`{tag}` has no elements, or some that are not finite"));
            return Err(error.with_op("SummaryWriter"));
        }
        self.write(&record(&event(now(), step, tag, &bytes(5, &histogram(&values)))))
    }

    /// Flushes buffered records, so that TensorBoard sees them.
    ///
    /// # Errors
    /// [`Code::Io`] if the file cannot be written.
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

/// Returns the seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// The CRC-32C of records.
const CRC32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);

/// Frames a message with its length and checksums.
fn record(message: &[u8]) -> Vec<u8> {
    // Masking is part of the format: the CRC of data that contains its own CRC would be a constant.
    let masked = |it: &[u8]| CRC32C.checksum(it).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let length = (message.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), message, &masked(message)].concat()
}

/// Encodes an event with a value.
fn event(time: f64, step: u64, tag: &str, value: &[u8]) -> Vec<u8> {
    let value = [&bytes(1, tag.as_bytes()), value].concat();
    [double(1, time), number(2, step), bytes(5, &bytes(1, &value))].concat()
}

/// Encodes the fields of a text value: a tensor of one string, and the plugin that shows it.
fn text_value(text: &str) -> Vec<u8> {
    const STRING: u64 = 7;
    let shape = bytes(2, &bytes(2, &number(1, 1)));
    let tensor = [number(1, STRING), shape, bytes(8, text.as_bytes())].concat();
    [bytes(8, &tensor), bytes(9, &bytes(1, &bytes(1, b"text")))].concat()
}

/// Encodes a histogram of finite values: bounds, number, sum, sum of squares, and the upper limits and counts of the
/// buckets.
fn histogram(values: &[f64]) -> Vec<u8> {
    const INTERVALS: usize = 30;
    let (min, max) =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), it| (min.min(*it), max.max(*it)));
    // Equal values fall into the first bucket for any width.
    let width = if max > min { (max - min) / INTERVALS as f64 } else { 1.0 };
    let mut counts = [0.0; INTERVALS];
    for it in values {
        counts[(((it - min) / width) as usize).min(INTERVALS - 1)] += 1.0;
    }
    let limits = (1..=INTERVALS).map(|it| if it == INTERVALS && max > min { max } else { min + it as f64 * width });
    let packed = |field, numbers: &mut dyn Iterator<Item = f64>| {
        bytes(field, &numbers.flat_map(f64::to_le_bytes).collect::<Vec<_>>())
    };
    let sums = [min, max, values.len() as f64, values.iter().sum(), values.iter().map(|it| it * it).sum()];
    let sums = (1..).zip(sums).flat_map(|(field, it)| double(field, it));
    sums.chain(packed(6, &mut limits.into_iter())).chain(packed(7, &mut counts.into_iter())).collect()
}

/// Writes the loss and learning rates of steps, and the loss and scores of epochs, for TensorBoard: `loss`,
/// `learning_rate`, `epoch_loss`, `val_accuracy`.
///
/// ```
/// use ms::prelude::*;
/// use ms::train::SummaryCollector;
/// let loader = DataLoader::new(TensorDataset::new((Tensor::ones([4, 3]), Tensor::zeros([4, 1]))).batch(2));
/// let mut model = Model::new(nn::Dense::new(3, 1), |x, y| ops::mse_loss(x, y), SGD::new(0.1));
/// # let folder = std::env::temp_dir().join(format!("ms-summary-doc-{}", std::process::id()));
/// let mut summary = SummaryCollector::new(&folder).every_steps(2);
/// model.train(3, &loader, &mut [&mut summary])?;
/// assert!(summary.path().is_some_and(|it| it.exists()));
/// # let _ = std::fs::remove_dir_all(&folder);
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Debug)]
pub struct SummaryCollector {
    folder: PathBuf,
    steps: usize,
    at: u64,
    writer: Option<SummaryWriter>,
}

impl SummaryCollector {
    /// Creates a callback that writes every step to a new file in a folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), steps: 1, at: 0, writer: None }
    }

    /// Sets how often values are written: every `steps` steps.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] for zero.
    #[track_caller]
    pub fn every_steps(self, steps: usize) -> Self {
        check_positive("SummaryCollector", "steps", steps).or_raise();
        Self { steps, ..self }
    }

    /// Returns the path of the file, once a run has begun.
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
            let record = super::record(&super::event(1.5e9, step, tag, &super::float(2, value as f32)));
            let hex: String = record.iter().map(|it| format!("{it:02x}")).collect();
            assert_eq!(hex, want, "{tag}");
        }
    }

    /// Messages as TensorBoard 2.21.0 encodes them; for histograms, their CRC-32C.
    #[test]
    fn values_are_those_of_tensorboard() {
        let text: String = super::text_value("a *b*").iter().map(|it| format!("{it:02x}")).collect();
        assert_eq!(text, "420f0807120412020801420561202a622a4a080a060a0474657874");
        let cases: [(&[f64], u32); 3] =
            [(&[1.0, 2.0, 4.0], 0xf3b6_9cdf), (&[2.0, 2.0], 0x9572_c3a4), (&[-1.5], 0x2ea4_f796)];
        for (values, want) in cases {
            assert_eq!(super::CRC32C.checksum(&super::histogram(values)), want, "{values:?}");
        }
    }
}
