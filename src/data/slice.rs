//! Datasets that slice, repeat or zip other datasets.

use super::collate::stack;
use super::dataset::{Dataset, check_index};
use super::epoch::Epoch;
use ms_core::Result;
use ms_core::trace::Tree;

/// The dataset of [`Dataset::take`] and [`Dataset::skip`].
///
/// ```
/// use ms::prelude::*;
/// let middle = TensorDataset::new(Tensor::arange(10)).skip(2).take(3);
/// assert_eq!(DataLoader::new(middle.batch(8)).draw()?.to_vec::<i64>(), [2, 3, 4]);
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone)]
pub struct Slice<D> {
    data: D,
    first: usize,
    len: usize,
}

impl<D> Slice<D> {
    pub(super) fn new(data: D, first: usize, len: usize) -> Self {
        Self { data, first, len }
    }
}

impl<D: Dataset> Dataset for Slice<D> {
    type Sample = D::Sample;

    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, epoch: Epoch, index: usize) -> Result<D::Sample> {
        check_index(index, self.len)?;
        self.data.get(epoch, self.first + index)
    }

    fn name(&self, epoch: Epoch, index: usize) -> String {
        self.data.name(epoch, self.first + index)
    }

    fn gather(&self, epoch: Epoch, indices: &[usize]) -> Result<D::Sample>
    where
        D::Sample: Tree,
    {
        indices.iter().try_for_each(|&it| check_index(it, self.len))?;
        let inner: Vec<usize> = indices.iter().map(|it| self.first + it).collect();
        self.data.gather(epoch, &inner)
    }
}

/// The dataset of [`Dataset::repeat`].
///
/// ```
/// use ms::prelude::*;
/// let twice = TensorDataset::new(Tensor::arange(2)).repeat(2);
/// assert_eq!(DataLoader::new(twice.batch(4)).draw()?.to_vec::<i64>(), [0, 1, 0, 1]);
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone)]
pub struct Repeat<D> {
    data: D,
    times: usize,
}

impl<D: Dataset> Repeat<D> {
    pub(super) fn new(data: D, times: usize) -> Self {
        Self { data, times }
    }

    /// Returns the epoch of the inner dataset, and the index in it.
    fn inner(&self, epoch: Epoch, index: usize) -> (Epoch, usize) {
        let len = self.data.len();
        (epoch.repetition((index / len) as u64, self.times as u64), index % len)
    }
}

impl<D: Dataset> Dataset for Repeat<D> {
    type Sample = D::Sample;

    fn len(&self) -> usize {
        self.data.len() * self.times
    }

    fn get(&self, epoch: Epoch, index: usize) -> Result<D::Sample> {
        check_index(index, self.len())?;
        let (epoch, index) = self.inner(epoch, index);
        self.data.get(epoch, index)
    }

    fn name(&self, epoch: Epoch, index: usize) -> String {
        let (epoch, index) = self.inner(epoch, index);
        self.data.name(epoch, index)
    }

    fn gather(&self, epoch: Epoch, indices: &[usize]) -> Result<D::Sample>
    where
        D::Sample: Tree,
    {
        indices.iter().try_for_each(|&it| check_index(it, self.len()))?;
        let inner: Vec<(Epoch, usize)> = indices.iter().map(|&it| self.inner(epoch, it)).collect();
        match inner.first() {
            Some(&(one, _)) if inner.iter().all(|it| it.0 == one) => {
                self.data.gather(one, &inner.iter().map(|it| it.1).collect::<Vec<_>>())
            }
            _ => {
                let samples = inner.iter().map(|it| self.data.get(it.0, it.1)).collect::<Result<Vec<_>>>()?;
                stack(&samples, |at| self.name(epoch, indices[at]))
            }
        }
    }
}

/// The dataset of [`Dataset::zip`].
///
/// ```
/// use ms::prelude::*;
/// let (few, many) = (TensorDataset::new(Tensor::arange(2)), TensorDataset::new(Tensor::ones([3])));
/// let pairs = DataLoader::new(few.zip(many).batch(8));
/// let (x, y) = pairs.draw()?;
/// assert_eq!((x.to_vec::<i64>(), y.to_vec::<f32>()), (vec![0, 1], vec![1.0, 1.0]));
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone)]
pub struct Zip<A, B> {
    first: A,
    second: B,
}

impl<A, B> Zip<A, B> {
    pub(super) fn new(first: A, second: B) -> Self {
        Self { first, second }
    }
}

impl<A: Dataset, B: Dataset> Dataset for Zip<A, B> {
    type Sample = (A::Sample, B::Sample);

    fn len(&self) -> usize {
        self.first.len().min(self.second.len())
    }

    fn get(&self, epoch: Epoch, index: usize) -> Result<Self::Sample> {
        check_index(index, self.len())?;
        Ok((self.first.get(epoch.part(0), index)?, self.second.get(epoch.part(1), index)?))
    }

    fn name(&self, epoch: Epoch, index: usize) -> String {
        let (first, second) = (self.first.name(epoch.part(0), index), self.second.name(epoch.part(1), index));
        if first == second { first } else { format!("{first} with {second}") }
    }
}
