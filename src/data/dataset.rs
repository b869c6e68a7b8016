//! The trait of datasets and its combinators.

use super::batched::Batched;
use super::collate::stack;
use super::epoch::Epoch;
use super::map::{Map, TryMap};
use super::sampler::{RandomSampler, Sampled, Sampler};
use super::slice::{Repeat, Slice, Zip};
use ms_core::error::OrRaise;
use ms_core::ops::rules::check_positive;
use ms_core::trace::Tree;
use ms_core::{Code, Error, Result};

/// A map-style dataset: samples that are accessed by index. Examples are tensors in memory, lines of a file, images of
/// a folder, and values computed from another dataset.
///
/// A dataset holds no position and no random state, so any thread can compute any sample. A
/// [`DataLoader`](super::DataLoader) iterates over it. Samples are on the host, and the loader copies them to the
/// device.
///
/// ```
/// use ms::prelude::*;
/// let rows = Tensor::arange(10).reshape([10, 1]);
/// let data = TensorDataset::new((rows.clone(), rows));
/// let data = data.map(|(x, y)| (x.cast(DType::F32) / 10.0, y)).shuffle().batch(4);
/// assert_eq!(data.len(), 3);
/// for batch in &DataLoader::new(data) {
///     let (x, y) = batch?;
///     assert_eq!(x.shape(), y.shape());
/// }
/// # Ok::<(), ms::Error>(())
/// ```
///
/// A user-defined dataset has a length, and computes one sample at a time:
///
/// ```
/// use ms::data::Epoch;
/// use ms::prelude::*;
/// struct Squares(usize);
/// impl Dataset for Squares {
///     type Sample = Tensor;
///     fn len(&self) -> usize {
///         self.0
///     }
///     fn get(&self, _: Epoch, index: usize) -> Result<Tensor> {
///         Ok(Tensor::from((index * index) as f32))
///     }
/// }
/// let loader = DataLoader::new(Squares(4).batch(4));
/// assert_eq!(loader.draw()?.to_vec::<f32>(), [0.0, 1.0, 4.0, 9.0]);
/// # Ok::<(), ms::Error>(())
/// ```
pub trait Dataset: Send + Sync {
    /// The type of a sample: a tensor, or a pytree of tensors and host values.
    type Sample: Send + 'static;

    /// Returns the number of samples of an epoch.
    fn len(&self) -> usize;

    /// Returns whether there are no samples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Computes a sample; the result depends on the arguments only.
    ///
    /// # Errors
    /// [`Code::OutOfRange`] unless `index` is below [`Dataset::len`]; the errors of reading and computing the sample,
    /// with its [name](Dataset::name).
    fn get(&self, epoch: Epoch, index: usize) -> Result<Self::Sample>;

    /// Returns the name of a sample in errors: its source.
    fn name(&self, epoch: Epoch, index: usize) -> String {
        let _ = epoch;
        format!("sample {index}")
    }

    /// Collates samples into one, by stacking their tensors along a new first axis.
    ///
    /// # Errors
    /// The errors of [`Dataset::get`]; [`Code::Shape`], [`Code::DType`] or [`Code::Argument`] if samples differ in
    /// anything but the values of their tensors.
    fn gather(&self, epoch: Epoch, indices: &[usize]) -> Result<Self::Sample>
    where
        Self::Sample: Tree,
    {
        let samples = indices.iter().map(|&it| self.get(epoch, it)).collect::<Result<Vec<_>>>()?;
        stack(&samples, |at| self.name(epoch, indices[at]))
    }

    /// Applies `f` to each sample. Random numbers that `f` draws from the default generator depend only on the seed,
    /// the epoch and the sample. For example, `random::uniform([], -0.1, 0.1)` differs between samples and between
    /// epochs, but not between runs with one seed.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let data = TensorDataset::new(Tensor::zeros([8])).map(|x| x + random::uniform((), -1.0, 1.0));
    /// let draw = |workers| -> Result<Vec<Tensor>> {
    ///     DataLoader::new(data.clone()).seed(3).workers(workers).iter().collect()
    /// };
    /// let values = |it: Vec<Tensor>| it.iter().map(Tensor::item::<f32>).collect::<Vec<_>>();
    /// assert_eq!(values(draw(0)?), values(draw(3)?));
    /// # Ok::<(), ms::Error>(())
    /// ```
    fn map<T, F>(self, f: F) -> Map<Self, F>
    where
        Self: Sized,
        F: Fn(Self::Sample) -> T + Send + Sync,
    {
        Map::new(self, f)
    }

    /// Applies a function that may fail to each sample; see [`Dataset::map`].
    ///
    /// See the example of [`TryMap`].
    fn try_map<T, F>(self, f: F) -> TryMap<Self, F>
    where
        Self: Sized,
        F: Fn(Self::Sample) -> Result<T> + Send + Sync,
    {
        TryMap::new(self, f)
    }

    /// Groups consecutive samples into batches of `size`, along a new first axis of each tensor. The last batch may be
    /// smaller; see [`Batched::drop_last`].
    ///
    /// See the example of [`Batched`].
    ///
    /// # Panics
    /// Raises [`Code::Argument`] for a size of zero.
    #[track_caller]
    fn batch(self, size: usize) -> Batched<Self>
    where
        Self: Sized,
        Self::Sample: Tree,
    {
        check_positive("batch", "size", size).or_raise();
        Batched::new(self, size)
    }

    /// Shuffles the samples in every epoch: [`Dataset::sample`] with a [`RandomSampler`].
    ///
    /// ```
    /// use ms::prelude::*;
    /// let loader = DataLoader::new(TensorDataset::new(Tensor::arange(4)).shuffle().batch(4));
    /// let mut samples = loader.draw()?.to_vec::<i64>();
    /// samples.sort();
    /// assert_eq!(samples, [0, 1, 2, 3]);
    /// # Ok::<(), ms::Error>(())
    /// ```
    fn shuffle(self) -> Sampled<Self, RandomSampler>
    where
        Self: Sized,
    {
        self.sample(RandomSampler::new())
    }

    /// Selects the samples that a sampler chooses for each epoch.
    ///
    /// See the example of [`Sampled`].
    fn sample<S: Sampler>(self, sampler: S) -> Sampled<Self, S>
    where
        Self: Sized,
    {
        Sampled::new(self, sampler)
    }

    /// Repeats the dataset `times` times. Each repetition has a different order and different random numbers.
    ///
    /// See the example of [`Repeat`].
    ///
    /// # Panics
    /// Raises [`Code::Argument`] for zero times, and if the number of samples overflows a `usize`.
    #[track_caller]
    fn repeat(self, times: usize) -> Repeat<Self>
    where
        Self: Sized,
    {
        check_positive("repeat", "times", times).or_raise();
        if self.len().checked_mul(times).is_none() {
            let message = format!("`times` is {times}, which is too many for {} samples", self.len());
            ms_core::error::raise(Error::new(Code::Argument, message).with_op("repeat"));
        }
        Repeat::new(self, times)
    }

    /// Pairs the samples of two datasets. The shorter dataset determines the length.
    ///
    /// See the example of [`Zip`].
    fn zip<D: Dataset>(self, other: D) -> Zip<Self, D>
    where
        Self: Sized,
    {
        Zip::new(self, other)
    }

    /// Takes the first `count` samples, or all if there are fewer.
    ///
    /// See the example of [`Slice`].
    fn take(self, count: usize) -> Slice<Self>
    where
        Self: Sized,
    {
        let len = self.len().min(count);
        Slice::new(self, 0, len)
    }

    /// Skips the first `count` samples.
    ///
    /// See the example of [`Slice`].
    fn skip(self, count: usize) -> Slice<Self>
    where
        Self: Sized,
    {
        let first = self.len().min(count);
        let len = self.len() - first;
        Slice::new(self, first, len)
    }
}

macro_rules! pointers {
    ($($pointer:ty),*) => {$(
        impl<D: Dataset + ?Sized> Dataset for $pointer {
            type Sample = D::Sample;

            fn len(&self) -> usize {
                (**self).len()
            }

            fn get(&self, epoch: Epoch, index: usize) -> Result<D::Sample> {
                (**self).get(epoch, index)
            }

            fn name(&self, epoch: Epoch, index: usize) -> String {
                (**self).name(epoch, index)
            }

            fn gather(&self, epoch: Epoch, indices: &[usize]) -> Result<D::Sample>
            where
                D::Sample: Tree,
            {
                (**self).gather(epoch, indices)
            }
        }
    )*};
}

pointers!(&D, Box<D>, std::sync::Arc<D>);

/// Checks that an index is below the number of samples.
///
/// # Errors
/// [`Code::OutOfRange`] otherwise.
pub(super) fn check_index(index: usize, len: usize) -> Result<()> {
    if index < len {
        return Ok(());
    }
    Err(Error::new(Code::OutOfRange, format!("there is no sample {index} among {len}")).with_op("Dataset::get"))
}
