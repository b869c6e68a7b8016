//! A live page in the browser that shows the progress of a run.

mod chart;
mod curve;
mod html;

use self::curve::Curve;
use super::{Callback, History, RunContext, values};
use crate::io::replace::replace;
use ms_core::{Code, Error, Result};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Writes an HTML page that shows a run live. It has curves of losses, scores, learning rates and steps per second, a
/// table of the latest values, and a table of the epochs. The page is one file without scripts. A browser opens it from
/// disk, and reloads it automatically until the run ends.
///
/// A model needs only the callback:
///
/// ```
/// use ms::prelude::*;
/// use ms::train::TrainingPage;
/// # let path = std::env::temp_dir().join(format!("ms doc page {}.html", std::process::id()));
/// let loader = DataLoader::new(TensorDataset::new((Tensor::ones([4, 3]), Tensor::zeros([4, 1]))).batch(2));
/// let mut model = Model::new(nn::Dense::new(3, 1), |x, y| ops::mse_loss(x, y), Adam::new(0.1));
/// model.train(3, &loader, &mut [&mut TrainingPage::new(&path).title("three epochs")])?;
/// # let text = std::fs::read_to_string(&path).expect("it was written");
/// # assert!(text.contains("<title>three epochs: finished</title>") && text.contains("<svg"));
/// # std::fs::remove_file(&path).expect("it was written");
/// # Ok::<(), ms::Error>(())
/// ```
///
/// A custom training loop adds numbers. The part of a name before `/` names the chart, and the part after it names the
/// curve:
///
/// ```
/// use ms::train::TrainingPage;
/// # let path = std::env::temp_dir().join(format!("ms doc own page {}.html", std::process::id()));
/// let mut page = TrainingPage::new(&path);
/// for step in 1..=100 {
///     page.add("loss/training", step, 1.0 / step as f64)?;
///     page.add("loss/validation", step, 1.1 / step as f64)?;
/// }
/// page.finish()?;
/// # std::fs::remove_file(&path).expect("it was written");
/// # Ok::<(), ms::Error>(())
/// ```
///
/// The file is replaced atomically, so a browser always reads a complete page. Curves of more than 1,000 values are
/// downsampled by averaging neighbours, so page and memory stay bounded. An axis is logarithmic if its values are
/// positive and span more than two decades. If this value is dropped before the end of the run, the page says so.
#[derive(Debug)]
pub struct TrainingPage {
    path: PathBuf,
    title: String,
    period: Duration,
    state: State,
    /// The curves, in the order in which they were first added.
    curves: Vec<(String, Curve)>,
    history: History,
    place: Option<Place>,
    /// The time when the first number was added, or the first run began.
    start: Option<Instant>,
    written: Option<Instant>,
    /// The number of calls in this epoch with losses that the curve already contains.
    seen: usize,
    pace: Pace,
}

/// The charts that every run of a model has.
const RATE: &str = "learning rate";
const PACE: &str = "steps per second";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Running,
    Finished,
    Interrupted,
}

/// The progress of a run.
#[derive(Clone, Debug)]
struct Place {
    epoch: u64,
    epochs: u64,
    step: u64,
    steps: u64,
}

/// The time of steps, without the time between epochs.
#[derive(Clone, Debug, Default)]
struct Pace {
    /// The start of the current measurement, and the number of steps done before it.
    since: Option<(Instant, u64)>,
    /// The number and the total time of all steps of this run.
    total: (u64, Duration),
}

impl Pace {
    /// Ends the measurement and begins the next. Returns the steps per second, if there was a step.
    fn measured(&mut self, step: u64) -> Option<f64> {
        let (since, first) = self.since.replace((Instant::now(), step))?;
        let (steps, time) = (step.saturating_sub(first), since.elapsed());
        self.total = (self.total.0 + steps, self.total.1 + time);
        (steps > 0).then(|| steps as f64 / time.as_secs_f64().max(1e-9))
    }
}

impl TrainingPage {
    /// Creates a page at a path. It is written when a run begins or a number is added, and then every two seconds.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            title: "Training".to_owned(),
            period: Duration::from_secs(2),
            state: State::Running,
            curves: Vec::new(),
            history: History::new(),
            place: None,
            start: None,
            written: None,
            seen: 0,
            pace: Pace::default(),
        }
    }

    /// Sets the title.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Sets the period at which the page is written. The browser reloads it at this period, but at most once a second.
    /// Losses are read when the page is written, and at the end of epochs, since reading waits for the steps.
    pub fn period(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a number of a step, and writes the page if the period has passed.
    ///
    /// # Errors
    /// [`Code::Io`] if the page cannot be written.
    pub fn add(&mut self, name: &str, step: u64, value: f64) -> Result<()> {
        self.begin();
        self.push(name, step, value);
        self.write_if_due()
    }

    /// Writes the page for the last time; the browser then stops reloading it.
    ///
    /// # Errors
    /// [`Code::Io`] if the page cannot be written.
    pub fn finish(&mut self) -> Result<()> {
        self.begin();
        self.state = State::Finished;
        self.write()
    }

    fn begin(&mut self) {
        self.start.get_or_insert_with(Instant::now);
        self.state = State::Running;
    }

    fn push(&mut self, name: &str, step: u64, value: f64) {
        let known = self.curves.iter().position(|it| it.0 == name);
        let at = known.unwrap_or_else(|| {
            self.curves.push((name.to_owned(), Curve::new()));
            self.curves.len() - 1
        });
        self.curves[at].1.add(step, value);
    }

    fn is_due(&self) -> bool {
        self.written.is_none_or(|it| it.elapsed() >= self.period)
    }

    fn write_if_due(&mut self) -> Result<()> {
        if self.is_due() { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let page = html::page(self);
        replace(&self.path, |out| out.write_all(page.as_bytes())).map_err(|error| {
            let message = format!("cannot write `{}`: {error}", self.path.display());
            Error::new(Code::Io, message).with_op("TrainingPage")
        })?;
        self.written = Some(Instant::now());
        Ok(())
    }

    /// Groups the curves by chart, in the order in which they were first added. The charts of every run come last.
    fn charts(&self) -> Vec<(&str, Vec<(String, Curve)>)> {
        let mut charts: Vec<(&str, Vec<(String, Curve)>)> = Vec::new();
        for (name, curve) in &self.curves {
            let (chart, curve_name) = name.split_once('/').unwrap_or((name, ""));
            let curve = (curve_name.to_owned(), curve.clone());
            match charts.iter_mut().find(|it| it.0 == chart) {
                Some((_, curves)) => curves.push(curve),
                None => charts.push((chart, vec![curve])),
            }
        }
        charts.sort_by_key(|it| [RATE, PACE].contains(&it.0));
        charts
    }

    fn elapsed(&self) -> Duration {
        self.start.map_or(Duration::ZERO, |it| it.elapsed())
    }

    /// Estimates the remaining time of the run from the pace so far.
    fn left(&self) -> Option<Duration> {
        let (place, (steps, time)) = (self.place.as_ref()?, self.pace.total);
        let rest = place.steps.saturating_sub(place.step) as f64;
        let seconds = (steps > 0).then(|| time.as_secs_f64() / steps as f64 * rest)?;
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// Reads new results of a run.
    fn read(&mut self, run: &RunContext<'_>) -> Result<()> {
        let steps = run.epochs() * run.steps_per_epoch() as u64;
        self.place = Some(Place { epoch: run.epoch(), epochs: run.epochs(), step: run.step(), steps });
        let losses = run.losses[self.seen..].iter().map(values).collect::<Result<Vec<_>>>()?.concat();
        self.seen = run.losses.len();
        for (before, loss) in (0..losses.len() as u64).rev().zip(losses) {
            self.push("loss/training", run.step() - before, loss);
        }
        for (at, rate) in run.learning_rates().iter().enumerate() {
            let name = if at == 0 { RATE.to_owned() } else { format!("{RATE}/{at}") };
            self.push(&name, run.step(), rate.get());
        }
        if let Some(pace) = self.pace.measured(run.step()) {
            self.push(PACE, run.step(), pace);
        }
        Ok(())
    }
}

impl Callback for TrainingPage {
    fn on_train_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.begin();
        self.seen = 0;
        self.history.on_train_begin(run)
    }

    fn on_epoch_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.seen = 0;
        self.pace.since = Some((Instant::now(), run.step()));
        self.history.on_epoch_begin(run)
    }

    fn on_step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        let ends = run.step() == run.epoch() * run.steps_per_epoch() as u64;
        if ends || self.is_due() {
            self.read(run)?;
        }
        self.write_if_due()
    }

    fn on_epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.history.on_epoch_end(run)?;
        for (name, score) in run.scores() {
            self.push(&format!("{name}/validation"), run.step(), *score);
        }
        self.write_if_due()
    }

    fn on_train_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        // A run that stops within an epoch may have unread losses.
        if run.losses.len() > self.seen {
            self.read(run)?;
        }
        self.finish()
    }
}

impl Drop for TrainingPage {
    fn drop(&mut self) {
        if self.start.is_some() && self.state == State::Running {
            self.state = State::Interrupted;
            // A destructor cannot report the error.
            let _ = self.write();
        }
    }
}
