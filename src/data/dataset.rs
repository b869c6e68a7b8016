//! The trait of datasets.

use super::batched::Batched;
use super::epoch::Epoch;
use super::map::{Map, TryMap};
use super::sampler::{RandomSampler, Sampled, Sampler};
use super::slice::{Repeat, Slice, Zip};
use super::stack::stack;
use ms_core::error::OrRaise;
use ms_core::ops::rules::check_positive;
use ms_core::trace::Tree;
use ms_core::{Code, Error, Result};

/// Samples that are found by their index: tensors in memory, lines of a file, images of a folder, or
/// what is computed from the samples of another dataset.
///
/// A dataset holds no position and no random state, so that any thread can compute any sample; a
/// [`DataLoader`](super::DataLoader) iterates over it. The samples of a dataset are on the host,
/// and the loader places them on the device.
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
/// An own dataset has a length, and computes one sample at a time:
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
    /// What an index refers to: a tensor, or any structure of tensors and host values.
    type Sample: Send + 'static;

    /// Number of samples of an epoch.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A sample; the result depends on the arguments only.
    ///
    /// # Errors
    /// [`Code::OutOfRange`] for an index that is not below [`Dataset::len`]; those of reading and of
    /// computing the sample, with its [name](Dataset::name).
    fn get(&self, epoch: Epoch, index: usize) -> Result<Self::Sample>;

    /// What errors call a sample: where it comes from.
    fn name(&self, epoch: Epoch, index: usize) -> String {
        let _ = epoch;
        format!("sample {index}")
    }

    /// Some samples as one, whose tensors have them along a new first axis.
    ///
    /// # Errors
    /// Those of [`Dataset::get`]; [`Code::Shape`], [`Code::DType`] or [`Code::Argument`] when samples
    /// differ in shapes, in dtypes, or in anything else than the values of their tensors.
    fn gather(&self, epoch: Epoch, indices: &[usize]) -> Result<Self::Sample>
    where
        Self::Sample: Tree,
    {
        let samples = indices.iter().map(|&it| self.get(epoch, it)).collect::<Result<Vec<_>>>()?;
        stack(&samples, |at| self.name(epoch, indices[at]))
    }

    /// The samples after `f`. Random numbers that `f` draws from the default generator depend on the
    /// epoch and on the sample only: `random::uniform([], -0.1, 0.1)` differs between samples and
    /// between epochs, and is the same in every run with a seed.
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

    /// [`Dataset::map`] with a function that may fail.
    ///
    /// See the example of [`TryMap`].
    fn try_map<T, F>(self, f: F) -> TryMap<Self, F>
    where
        Self: Sized,
        F: Fn(Self::Sample) -> Result<T> + Send + Sync,
    {
        TryMap::new(self, f)
    }

    /// Batches of `size` samples in order, along a new first axis of each tensor. The last one may
    /// have fewer; see [`Batched::drop_last`].
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

    /// All samples in an order that is drawn for each epoch: [`Dataset::sample`] with a
    /// [`RandomSampler`].
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

    /// The samples that a sampler chooses for each epoch.
    ///
    /// See the example of [`Sampled`].
    fn sample<S: Sampler>(self, sampler: S) -> Sampled<Self, S>
    where
        Self: Sized,
    {
        Sampled::new(self, sampler)
    }

    /// All samples `times` times, each time with an order and random numbers of its own.
    ///
    /// See the example of [`Repeat`].
    ///
    /// # Panics
    /// Raises [`Code::Argument`] for zero times, and when there are more samples than a `usize` counts.
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

    /// Pairs of a sample of this dataset and one of another, as many as the shorter one has.
    ///
    /// See the example of [`Zip`].
    fn zip<D: Dataset>(self, other: D) -> Zip<Self, D>
    where
        Self: Sized,
    {
        Zip::new(self, other)
    }

    /// The first `count` samples, or all if there are fewer.
    ///
    /// See the example of [`Slice`].
    fn take(self, count: usize) -> Slice<Self>
    where
        Self: Sized,
    {
        let len = self.len().min(count);
        Slice::new(self, 0, len)
    }

    /// The samples after the first `count`, or none if there are fewer.
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

/// Refuses an index that is not below the number of samples.
///
/// # Errors
/// [`Code::OutOfRange`].
pub(super) fn check_index(index: usize, len: usize) -> Result<()> {
    if index < len {
        return Ok(());
    }
    Err(Error::new(Code::OutOfRange, format!("there is no sample {index} among {len}")).with_op("Dataset::get"))
}
