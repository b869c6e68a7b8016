//! Iteration over datasets, with a position that checkpoints keep.

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

/// Draws the samples of a [`Dataset`], usually batches, epoch after epoch, and places them on the
/// device of the settings.
///
/// What an epoch has, and in which order, depends on the seed and on the number of the epoch only. A
/// loader that is read from a checkpoint goes on with the sample after the last one that was drawn.
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
    ahead: Mutex<Option<Ahead<D::Sample>>>,
}

/// A sample of an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    epoch: Epoch,
    index: usize,
}

impl Place {
    /// The place after this one, of `len` in every epoch.
    fn next(self, len: usize) -> Self {
        match self.index + 1 < len {
            true => Self { index: self.index + 1, ..self },
            false => Self { epoch: Epoch::new(self.epoch.seed(), self.epoch.number().wrapping_add(1)), index: 0 },
        }
    }
}

/// A result with the payload of a panic.
type Computed<T> = std::thread::Result<Result<T>>;

/// Samples that threads compute ahead.
struct Ahead<T> {
    threads: rayon::ThreadPool,
    /// In order, with the place of the last one.
    samples: VecDeque<(Place, Receiver<Computed<T>>)>,
    /// Set when no sample is wanted any more.
    cancelled: Arc<AtomicBool>,
}

impl<T> Drop for Ahead<T> {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

impl<D: Dataset + 'static> DataLoader<D>
where
    D::Sample: Tree,
{
    /// A loader whose seed is drawn from the default generator.
    #[track_caller]
    pub fn new(data: D) -> Self {
        let [seed, epoch, position] = [random::derive_seed(), 0, 0].map(Counter::new);
        Self { data: Arc::new(data), seed, epoch, position, workers: 0, prefetch: None, ahead: Mutex::default() }
    }

    /// Sets the seed on which the order and all random numbers of the dataset depend.
    pub fn seed(self, seed: u64) -> Self {
        self.seed.set(seed);
        self
    }

    /// Sets how many threads compute samples ahead. Without any, a sample is computed when it is drawn.
    pub fn workers(self, workers: usize) -> Self {
        Self { workers, ahead: Mutex::default(), ..self }
    }

    /// Sets how many samples are computed ahead; without it, two for each worker.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] for zero.
    #[track_caller]
    pub fn prefetch(self, samples: usize) -> Self {
        check_positive("DataLoader", "prefetch", samples).or_raise();
        Self { prefetch: Some(samples), ahead: Mutex::default(), ..self }
    }

    /// The dataset.
    pub fn data(&self) -> &D {
        &self.data
    }

    /// Number of samples of an epoch.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The number of the epoch of the next sample.
    pub fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// How many samples of the epoch have been drawn.
    pub fn position(&self) -> usize {
        self.position.get() as usize
    }

    /// The next sample; after the last one of an epoch, the first one of the next. After an error, the
    /// next sample is the one after that which failed.
    ///
    /// # Errors
    /// Those of the dataset; [`Code::Argument`] for a dataset without samples; those of the device.
    ///
    /// # Panics
    /// With a panic of the dataset, also if it was computed ahead.
    pub fn draw(&self) -> Result<D::Sample> {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let len = self.data.len();
        if len == 0 {
            return Err(Error::new(Code::Argument, "the dataset has no samples").with_op("DataLoader"));
        }
        // A loaded position may be of a larger dataset.
        let index = self.position().min(len - 1);
        let place = Place { epoch: Epoch::new(self.seed.get(), self.epoch.get()), index };
        let computed = match self.workers {
            0 => caught(&*self.data, place, host()),
            _ => self.computed_ahead(&mut ahead, place, len)?,
        };
        let next = place.next(len);
        self.position.set(next.index as u64);
        self.epoch.set(next.epoch.number());
        drop(ahead);
        placed(&computed.unwrap_or_else(|payload| resume_unwind(payload))?)
    }

    /// The samples that are left of the epoch.
    pub fn iter(&self) -> Samples<'_, D> {
        Samples { loader: self, epoch: self.epoch() }
    }

    fn computed_ahead(
        &self,
        ahead: &mut Option<Ahead<D::Sample>>,
        place: Place,
        len: usize,
    ) -> Result<Computed<D::Sample>> {
        // Another place is the next one after a checkpoint was loaded.
        if ahead.as_ref().is_some_and(|it| it.samples.front().is_some_and(|it| it.0 != place)) {
            *ahead = None;
        }
        let ahead = match ahead {
            Some(ahead) => ahead,
            None => ahead.insert(Ahead::new(self.workers)?),
        };
        let prefetch = self.prefetch.unwrap_or(2 * self.workers);
        while ahead.samples.len() < prefetch {
            let next = ahead.samples.back().map_or(place, |it| it.0.next(len));
            ahead.start(self.data.clone(), next);
        }
        let (_, sample) = ahead.samples.pop_front().expect("one at least was started");
        sample.recv().map_err(|_| Error::new(Code::Io, "a worker ended").with_op("DataLoader"))
    }
}

impl<T: Send + 'static> Ahead<T> {
    fn new(workers: usize) -> Result<Self> {
        let named = |at| format!("ms data {at}");
        let threads = rayon::ThreadPoolBuilder::new().num_threads(workers).thread_name(named).build();
        let refuse = |error| Error::new(Code::Io, format!("workers cannot be started: {error}")).with_op("DataLoader");
        Ok(Self { threads: threads.map_err(refuse)?, samples: VecDeque::new(), cancelled: Arc::default() })
    }

    fn start(&mut self, data: Arc<impl Dataset<Sample = T> + 'static>, place: Place) {
        let (send, receive) = sync_channel(1);
        let (cancelled, context) = (self.cancelled.clone(), host());
        // In the order of the calls; by themselves, the tasks of a thread are started in the opposite one.
        self.threads.spawn_fifo(move || {
            if cancelled.load(Ordering::Relaxed) {
                return;
            }
            // The loader may be gone.
            let _ = send.send(caught(&*data, place, context));
        });
        self.samples.push_back((place, receive));
    }
}

/// The settings of the thread, for work on the host.
fn host() -> Context {
    Context { device_target: Device::CPU.kind(), device_id: Device::CPU.id(), ..context() }
}

/// A sample, on the host.
fn compute<D: Dataset + ?Sized>(data: &D, place: Place, context: Context) -> Result<D::Sample> {
    let Place { epoch, index } = place;
    with_context(context, || catch(|| data.get(epoch, index)).flatten())
        .map_err(|it| it.within(data.name(epoch, index)))
}

/// [`compute`], whose panic is a value.
fn caught<D: Dataset + ?Sized>(data: &D, place: Place, context: Context) -> Computed<D::Sample> {
    catch_unwind(AssertUnwindSafe(|| compute(data, place, context)))
}

/// The sample on the device of the settings.
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

/// The samples that are left of an epoch of a [`DataLoader`].
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
