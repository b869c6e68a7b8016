//! Iterates over datasets, with a position that checkpoints store.

use super::dataset::Dataset;
use super::epoch::Epoch;
use crate::train::Counter;
use ms_core::error::{OrRaise, catch};
use ms_core::ops::rules::check_positive;
use ms_core::random;
use ms_core::session::{Context, context, with_context};
use ms_core::tensor::Device;
use ms_core::trace::{Arg, Cell, Name, Sink, Tree};
use ms_core::{Code, Error, Result, Tensor};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Draws the samples of a [`Dataset`], usually batches, epoch after epoch, and copies them to the device of the
/// context.
///
/// The content and order of an epoch depend only on the seed and the epoch number. A loader that is restored from a
/// checkpoint continues after the last sample that was drawn.
///
/// ```
/// use ms::prelude::*;
/// let data = TensorDataset::new(Tensor::arange(5)).shuffle().batch(2);
/// let loader = DataLoader::new(data).workers(2);
/// let sizes = loader.iter().map(|it| Ok(it?.shape()[0])).collect::<Result<Vec<_>>>()?;
/// assert_eq!((sizes, loader.epoch(), loader.position()), (vec![2, 2, 1], 1, 0));
/// assert_eq!((loader.draw()?.shape(), loader.position()), (&[2][..], 1));
/// # Ok::<(), ms::Error>(())
/// ```
pub struct DataLoader<D: Dataset> {
    data: Arc<D>,
    seed: Counter,
    epoch: Counter,
    position: Counter,
    workers: usize,
    prefetch: Option<usize>,
    prefetcher: Mutex<Option<Prefetcher<D::Sample>>>,
}

/// The position of a sample: its epoch and index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Position {
    epoch: Epoch,
    index: usize,
}

impl Position {
    /// Returns the next position, with `len` samples in every epoch.
    fn next(self, len: usize) -> Self {
        match self.index + 1 < len {
            true => Self { index: self.index + 1, ..self },
            false => Self { epoch: Epoch::new(self.epoch.seed(), self.epoch.number().wrapping_add(1)), index: 0 },
        }
    }
}

/// A result, or the payload of a panic.
type Computed<T> = std::thread::Result<Result<T>>;

/// Samples that worker threads prefetch.
struct Prefetcher<T> {
    threads: rayon::ThreadPool,
    /// The prefetched samples in order, with their positions.
    samples: VecDeque<(Position, Receiver<Computed<T>>)>,
    /// Set when no sample is needed any more.
    cancelled: Arc<AtomicBool>,
}

impl<T> Drop for Prefetcher<T> {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

impl<D: Dataset + 'static> DataLoader<D>
where
    D::Sample: Tree,
{
    /// Creates a loader with a seed that is drawn from the default generator.
    #[track_caller]
    pub fn new(data: D) -> Self {
        let [seed, epoch, position] = [random::derive_seed(), 0, 0].map(Counter::new);
        Self { data: Arc::new(data), seed, epoch, position, workers: 0, prefetch: None, prefetcher: Mutex::default() }
    }

    /// Sets the seed that determines the order and all random numbers of the dataset.
    pub fn seed(self, seed: u64) -> Self {
        self.seed.set(seed);
        self
    }

    /// Sets the number of worker threads that prefetch samples. Without workers, a sample is computed when it is drawn.
    pub fn workers(self, workers: usize) -> Self {
        Self { workers, prefetcher: Mutex::default(), ..self }
    }

    /// Sets the number of prefetched samples; two for each worker by default.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] for zero.
    #[track_caller]
    pub fn prefetch(self, samples: usize) -> Self {
        check_positive("DataLoader", "prefetch", samples).or_raise();
        Self { prefetch: Some(samples), prefetcher: Mutex::default(), ..self }
    }

    /// Returns the dataset.
    pub fn data(&self) -> &D {
        &self.data
    }

    /// Returns the number of samples of an epoch.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Returns whether the dataset has no samples.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Returns the number of the epoch of the next sample.
    pub fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// Returns the number of samples of the epoch that have been drawn.
    pub fn position(&self) -> usize {
        self.position.get() as usize
    }

    /// Draws the next sample. After the last sample of an epoch, the next epoch begins. After an error, the next call
    /// draws the sample after the failed one.
    ///
    /// # Errors
    /// The errors of the dataset and of the device; [`Code::Argument`] for a dataset without samples.
    ///
    /// # Panics
    /// Resumes a panic of the dataset, also if the sample was prefetched.
    pub fn draw(&self) -> Result<D::Sample> {
        let mut prefetcher = self.prefetcher.lock().unwrap_or_else(PoisonError::into_inner);
        let len = self.data.len();
        if len == 0 {
            return Err(Error::new(Code::Argument, "the dataset has no samples").with_op("DataLoader"));
        }
        // A restored position may come from a larger dataset.
        let index = self.position().min(len - 1);
        let position = Position { epoch: Epoch::new(self.seed.get(), self.epoch.get()), index };
        let computed = match self.workers {
            0 => caught(&*self.data, position, host()),
            _ => self.computed_ahead(&mut prefetcher, position, len)?,
        };
        let next = position.next(len);
        self.position.set(next.index as u64);
        self.epoch.set(next.epoch.number());
        drop(prefetcher);
        placed(&computed.unwrap_or_else(|payload| resume_unwind(payload))?)
    }

    /// Iterates over the remaining samples of the epoch.
    pub fn iter(&self) -> Samples<'_, D> {
        Samples { loader: self, epoch: self.epoch() }
    }

    fn computed_ahead(
        &self,
        prefetcher: &mut Option<Prefetcher<D::Sample>>,
        position: Position,
        len: usize,
    ) -> Result<Computed<D::Sample>> {
        // After a checkpoint was loaded, prefetched samples belong to a different position.
        if prefetcher.as_ref().is_some_and(|it| it.samples.front().is_some_and(|it| it.0 != position)) {
            *prefetcher = None;
        }
        let prefetcher = match prefetcher {
            Some(prefetcher) => prefetcher,
            None => prefetcher.insert(Prefetcher::new(self.workers)?),
        };
        let prefetch = self.prefetch.unwrap_or(2 * self.workers);
        while prefetcher.samples.len() < prefetch {
            let next = prefetcher.samples.back().map_or(position, |it| it.0.next(len));
            prefetcher.start(self.data.clone(), next);
        }
        let (_, sample) = prefetcher.samples.pop_front().expect("one at least was started");
        sample.recv().map_err(|_| Error::new(Code::Io, "a worker ended").with_op("DataLoader"))
    }
}

impl<T: Send + 'static> Prefetcher<T> {
    fn new(workers: usize) -> Result<Self> {
        let named = |at| format!("ms data {at}");
        let threads = rayon::ThreadPoolBuilder::new().num_threads(workers).thread_name(named).build();
        let refuse = |error| Error::new(Code::Io, format!("workers cannot be started: {error}")).with_op("DataLoader");
        Ok(Self { threads: threads.map_err(refuse)?, samples: VecDeque::new(), cancelled: Arc::default() })
    }

    fn start(&mut self, data: Arc<impl Dataset<Sample = T> + 'static>, position: Position) {
        let (send, receive) = sync_channel(1);
        let (cancelled, context) = (self.cancelled.clone(), host());
        // FIFO order, since a thread would otherwise start its own tasks in reverse order.
        self.threads.spawn_fifo(move || {
            if cancelled.load(Ordering::Relaxed) {
                return;
            }
            // The loader may have been dropped.
            let _ = send.send(caught(&*data, position, context));
        });
        self.samples.push_back((position, receive));
    }
}

/// Returns the thread's context with the host as the device.
fn host() -> Context {
    Context { device_target: Device::CPU.kind(), device_id: Device::CPU.id(), ..context() }
}

/// Computes a sample on the host.
fn compute<D: Dataset + ?Sized>(data: &D, position: Position, context: Context) -> Result<D::Sample> {
    let Position { epoch, index } = position;
    with_context(context, || catch(|| data.get(epoch, index)).flatten())
        .map_err(|it| it.within(data.name(epoch, index)))
}

/// Computes a sample and catches panics; see [`compute`].
fn caught<D: Dataset + ?Sized>(data: &D, position: Position, context: Context) -> Computed<D::Sample> {
    catch_unwind(AssertUnwindSafe(|| compute(data, position, context)))
}

/// Copies the sample to the device of the context.
fn placed<T: Tree>(sample: &T) -> Result<T> {
    let mut refused = None;
    let placed = sample.rebuild(&mut |it| {
        let moved = it.array().cloned().and_then(Tensor::placed);
        moved.unwrap_or_else(|error| {
            refused = Some(error);
            it.clone()
        })
    });
    refused.map_or(Ok(placed), Err)
}

/// An iterator over the remaining samples of an epoch of a [`DataLoader`].
///
/// ```
/// use ms::prelude::*;
/// let loader = DataLoader::new(TensorDataset::new(Tensor::arange(5)).batch(2));
/// loader.draw()?;
/// let rest = loader.iter();
/// assert_eq!(rest.size_hint(), (2, Some(2)));
/// assert_eq!(rest.map(|it| Ok(it?.shape()[0])).collect::<Result<Vec<_>>>()?, [2, 1]);
/// # Ok::<(), ms::Error>(())
/// ```
pub struct Samples<'a, D: Dataset> {
    loader: &'a DataLoader<D>,
    epoch: u64,
}

impl<D: Dataset + 'static> Iterator for Samples<'_, D>
where
    D::Sample: Tree,
{
    type Item = Result<D::Sample>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.loader.epoch() == self.epoch && !self.loader.is_empty()).then(|| self.loader.draw())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match self.loader.epoch() == self.epoch {
            true => self.loader.len().saturating_sub(self.loader.position()),
            false => 0,
        };
        (left, Some(left))
    }
}

impl<'a, D: Dataset + 'static> IntoIterator for &'a DataLoader<D>
where
    D::Sample: Tree,
{
    type Item = Result<D::Sample>;
    type IntoIter = Samples<'a, D>;

    fn into_iter(self) -> Samples<'a, D> {
        self.iter()
    }
}

#[diagnostic::do_not_recommend]
impl<D: Dataset> Arg for DataLoader<D> {
    fn visit(&self, sink: &mut Sink<'_>) {
        for (name, counter) in [("seed", &self.seed), ("epoch", &self.epoch), ("position", &self.position)] {
            sink.begin(Name::Field(name));
            counter.visit(sink);
            sink.end();
        }
    }
}

#[diagnostic::do_not_recommend]
impl<D: Dataset> Cell for DataLoader<D> {}
