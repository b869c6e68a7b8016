//! Datasets that apply a function to each sample.

use super::dataset::Dataset;
use super::epoch::Epoch;
use ms_core::{Result, catch, random};

/// The dataset of [`Dataset::map`].
///
/// ```
/// use ms::prelude::*;
/// let squares = TensorDataset::new(Tensor::arange(4)).map(|x| x.square());
/// assert_eq!(DataLoader::new(squares.batch(4)).draw()?.to_vec::<i64>(), [0, 1, 4, 9]);
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone)]
pub struct Map<D, F> {
    data: D,
    f: F,
}

/// The dataset of [`Dataset::try_map`].
///
/// ```
/// use ms::{data::center_crop, prelude::*};
/// let images = TensorDataset::new(Tensor::zeros([2, 3, 8, 8])).try_map(|image| center_crop(&image, 4, 4));
/// assert_eq!(DataLoader::new(images.batch(2)).draw()?.shape(), [2, 3, 4, 4]);
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone)]
pub struct TryMap<D, F> {
    data: D,
    f: F,
}

impl<D, F> Map<D, F> {
    pub(super) fn new(data: D, f: F) -> Self {
        Self { data, f }
    }
}

impl<D, F> TryMap<D, F> {
    pub(super) fn new(data: D, f: F) -> Self {
        Self { data, f }
    }
}

/// Applies `f` to a sample, with random numbers that depend on the sample and the epoch only.
fn mapped<D: Dataset, T>(data: &D, epoch: Epoch, index: usize, f: impl Fn(D::Sample) -> Result<T>) -> Result<T> {
    let inner = epoch.part(0);
    let sample = data.get(inner, index)?;
    let result = random::with_seed(epoch.part(1).stream_of(index), || catch(|| f(sample)).flatten());
    result.map_err(|it| it.within(data.name(inner, index)))
}

impl<D: Dataset, T: Send + 'static, F: Fn(D::Sample) -> T + Send + Sync> Dataset for Map<D, F> {
    type Sample = T;

    fn len(&self) -> usize {
        self.data.len()
    }

    fn get(&self, epoch: Epoch, index: usize) -> Result<T> {
        mapped(&self.data, epoch, index, |it| Ok((self.f)(it)))
    }

    fn name(&self, epoch: Epoch, index: usize) -> String {
        self.data.name(epoch.part(0), index)
    }
}

impl<D: Dataset, T: Send + 'static, F: Fn(D::Sample) -> Result<T> + Send + Sync> Dataset for TryMap<D, F> {
    type Sample = T;

    fn len(&self) -> usize {
        self.data.len()
    }

    fn get(&self, epoch: Epoch, index: usize) -> Result<T> {
        mapped(&self.data, epoch, index, &self.f)
    }

    fn name(&self, epoch: Epoch, index: usize) -> String {
        self.data.name(epoch.part(0), index)
    }
}
