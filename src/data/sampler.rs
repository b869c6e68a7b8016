//! Batches without end, with a position that checkpoints keep.

use super::batches::{Batch, Dataset};
use crate::train::Counter;
use ms_core::error::OrRaise;
use ms_core::ops::rules::check_positive;
use ms_core::random::{self, Generator};
use ms_core::trace::{Arg, Cell, Name, Sink};
use ms_core::{Tensor, ops};
use std::sync::{Mutex, PoisonError};

/// Draws batches of a [`Dataset`] epoch after epoch, each in a random order of its own. The order
/// depends on a seed and on the number of the epoch only, so that a sampler that is loaded from a
/// checkpoint goes on with the batch after the last one that was drawn.
///
/// ```
/// use ms::prelude::*;
/// let rows = Tensor::arange(5).reshape([5, 1]);
/// let data = Dataset::new(rows.clone(), rows);
/// let sampler = data.sampler(2);
/// let sizes: Vec<usize> = sampler.rest_of_epoch(&data).map(|(x, _)| x.shape()[0]).collect();
/// assert_eq!((sizes, sampler.epoch(), sampler.position()), (vec![2, 2, 1], 1, 0));
/// let batch = sampler.draw(&data);
/// assert_eq!((batch.0.shape()[0], sampler.position()), (2, 2));
/// ```
#[derive(Debug)]
pub struct Sampler {
    size: usize,
    seed: Counter,
    epoch: Counter,
    position: Counter,
    /// The order of an epoch, by what determines it.
    order: Mutex<Option<(Epoch, Tensor)>>,
}

/// The seed, the number of the epoch, and the number of examples.
type Epoch = (u64, u64, usize);

impl Dataset {
    /// A [`Sampler`] of batches of `size` examples, the last one of an epoch with fewer, whose seed
    /// is drawn from the default generator.
    ///
    /// # Panics
    /// Raises [`Code::Argument`](ms_core::Code::Argument) for a size of zero.
    #[track_caller]
    pub fn sampler(&self, size: usize) -> Sampler {
        Sampler::new(size, random::derive_seed())
    }
}

impl Sampler {
    /// A sampler of batches of `size` examples.
    ///
    /// # Panics
    /// Raises [`Code::Argument`](ms_core::Code::Argument) for a size of zero.
    #[track_caller]
    pub fn new(size: usize, seed: u64) -> Self {
        check_positive("Sampler", "size", size).or_raise();
        let [epoch, position] = [0; 2].map(Counter::new);
        Self { size, seed: Counter::new(seed), epoch, position, order: Mutex::new(None) }
    }

    /// The number of the epoch of the next batch.
    pub fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// How many examples of the epoch have been drawn.
    pub fn position(&self) -> u64 {
        self.position.get()
    }

    /// The next batch; after the last one of an epoch, the first one of the next.
    ///
    /// # Panics
    /// Raises [`Code::Argument`](ms_core::Code::Argument) for a data set without examples.
    #[track_caller]
    pub fn draw(&self, data: &Dataset) -> Batch {
        check_positive("Sampler", "examples", data.len()).or_raise();
        let order = self.order(data.len());
        // A loaded position may be of a larger data set.
        let from = (self.position.get() as usize).min(data.len() - 1);
        let to = (from + self.size).min(data.len());
        let rows = order.i(from..to);
        let batch = [data.inputs(), data.targets()].map(|it| ops::index_select(it, &rows, 0));
        match to < data.len() {
            true => self.position.set(to as u64),
            false => {
                self.position.set(0);
                self.epoch.add(1);
            }
        }
        batch.into()
    }

    /// The batches that are left of the epoch.
    pub fn rest_of_epoch<'a>(&'a self, data: &'a Dataset) -> impl Iterator<Item = Batch> + 'a {
        let epoch = self.epoch();
        std::iter::from_fn(move || (self.epoch() == epoch && !data.is_empty()).then(|| self.draw(data)))
    }

    /// The order of the epoch for a number of examples.
    fn order(&self, examples: usize) -> Tensor {
        let epoch = (self.seed.get(), self.epoch.get(), examples);
        let mut known = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((of, order)) if *of == epoch => order.clone(),
            _ => {
                let order = permutation(epoch);
                *known = Some((epoch, order.clone()));
                order
            }
        }
    }
}

/// The numbers of all examples, in the order of an epoch.
fn permutation((seed, epoch, examples): Epoch) -> Tensor {
    // Streams of different seeds are independent; the factor spreads the epochs over all seeds.
    let stream = Generator::new(seed.wrapping_add(epoch.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    stream.permutation(examples)
}

impl Arg for Sampler {
    fn visit(&self, sink: &mut Sink<'_>) {
        for (name, counter) in [("seed", &self.seed), ("epoch", &self.epoch), ("position", &self.position)] {
            sink.begin(Name::Field(name));
            counter.visit(sink);
            sink.end();
        }
    }
}

impl Cell for Sampler {}
