//! Datasets of batches.

use super::dataset::{Dataset, check_index};
use super::epoch::Epoch;
use ms_core::Result;
use ms_core::trace::Tree;

/// The dataset of [`Dataset::batch`].
///
/// ```
/// use ms::prelude::*;
/// let data = TensorDataset::new(Tensor::arange(5)).batch(2);
/// let batches = DataLoader::new(data).iter().map(|it| Ok(it?.to_vec::<i64>())).collect::<Result<Vec<_>>>()?;
/// assert_eq!(batches, [vec![0, 1], vec![2, 3], vec![4]]);
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone)]
pub struct Batched<D> {
    data: D,
    size: usize,
    drop_last: bool,
}

impl<D> Batched<D> {
    pub(super) fn new(data: D, size: usize) -> Self {
        Self { data, size, drop_last: false }
    }

    /// Sets whether an incomplete last batch is dropped, like MindSpore's `drop_remainder`. Batches of one size need
    /// only one compiled version of a step.
    ///
    /// ```
    /// use ms::prelude::*;
    /// let data = TensorDataset::new(Tensor::zeros([5]));
    /// assert_eq!([false, true].map(|it| data.clone().batch(2).drop_last(it).len()), [3, 2]);
    /// ```
    pub fn drop_last(self, drop_last: bool) -> Self {
        Self { drop_last, ..self }
    }
}

impl<D: Dataset> Dataset for Batched<D>
where
    D::Sample: Tree,
{
    type Sample = D::Sample;

    fn len(&self) -> usize {
        match self.drop_last {
            true => self.data.len() / self.size,
            false => self.data.len().div_ceil(self.size),
        }
    }

    fn get(&self, epoch: Epoch, index: usize) -> Result<D::Sample> {
        check_index(index, self.len())?;
        let first = index * self.size;
        let indices: Vec<usize> = (first..first.saturating_add(self.size).min(self.data.len())).collect();
        self.data.gather(epoch, &indices)
    }

    fn name(&self, epoch: Epoch, index: usize) -> String {
        format!("batch {index}, from {} on", self.data.name(epoch, index * self.size))
    }
}
