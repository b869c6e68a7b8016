//! Samplers choose the samples of an epoch and their order.

use super::dataset::{Dataset, check_index};
use super::epoch::Epoch;
use ms_core::error::{OrRaise, raise};
use ms_core::ops::rules::check_positive;
use ms_core::random::Generator;
use ms_core::trace::Tree;
use ms_core::{Code, DType, Error, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// Chooses samples of a dataset for each epoch; see [`Dataset::sample`].
///
/// ```
/// use ms::data::{Epoch, Sampler};
/// use ms::prelude::*;
/// struct Backwards;
/// impl Sampler for Backwards {
///     fn len(&self, samples: usize) -> usize {
///         samples
///     }
///     fn indices(&self, _: Epoch, samples: usize) -> Result<Vec<usize>> {
///         Ok((0..samples).rev().collect())
///     }
/// }
/// let data = TensorDataset::new(tensor![5, 6, 7]).sample(Backwards).batch(3);
/// assert_eq!(DataLoader::new(data).draw()?.to_vec::<i64>(), [7, 6, 5]);
/// # Ok::<(), ms::Error>(())
/// ```
pub trait Sampler: Send + Sync {
    /// Returns how many of `samples` samples the sampler chooses.
    fn len(&self, samples: usize) -> usize;

    /// Returns the indices of the chosen samples in order, each below `samples`.
    ///
    /// # Errors
    /// [`Code::Argument`] if the sampler cannot choose from `samples` samples.
    fn indices(&self, epoch: Epoch, samples: usize) -> Result<Vec<usize>>;
}

/// Returns a random permutation of the numbers below `samples`.
fn permutation(stream: u64, samples: usize) -> Result<Vec<usize>> {
    let order = ms_core::catch(|| Generator::new(stream).permutation(samples))?;
    Ok(order.try_to_vec::<i64>()?.into_iter().map(|it| it as usize).collect())
}

/// Draws uniform numbers in `[0, 1)`.
fn uniform(stream: u64, count: usize) -> Result<Vec<f64>> {
    ms_core::catch(|| Generator::new(stream).uniform_of(count, 0.0, 1.0, DType::F64))?.try_to_vec()
}

/// A sampler of all samples in random order.
///
/// ```
/// use ms::data::{RandomSampler, Sampler};
/// assert_eq!([RandomSampler::new(), RandomSampler::new().replacement(10)].map(|it| it.len(4)), [4, 10]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct RandomSampler {
    replacement: Option<usize>,
}

impl RandomSampler {
    /// Creates a sampler of all samples in random order.
    pub fn new() -> Self {
        Self::default()
    }

    /// Draws `count` samples with replacement instead.
    pub fn replacement(self, count: usize) -> Self {
        Self { replacement: Some(count) }
    }
}

impl Sampler for RandomSampler {
    fn len(&self, samples: usize) -> usize {
        self.replacement.unwrap_or(samples)
    }

    fn indices(&self, epoch: Epoch, samples: usize) -> Result<Vec<usize>> {
        let Some(count) = self.replacement else { return permutation(epoch.stream(), samples) };
        // Rounding up may give `samples` itself, which is clamped.
        let index = |it: f64| ((it * samples as f64) as usize).min(samples.saturating_sub(1));
        Ok(uniform(epoch.stream(), count)?.into_iter().map(index).collect())
    }
}

/// A sampler that draws with probabilities proportional to weights.
///
/// ```
/// use ms::data::WeightedRandomSampler;
/// use ms::prelude::*;
/// let rare = WeightedRandomSampler::new([0.0, 1.0, 9.0], 1000);
/// let data = TensorDataset::new(tensor![0, 1, 2]).sample(rare).batch(1000);
/// let drawn = DataLoader::new(data).seed(1).draw()?.to_vec::<i64>();
/// let count = |class| drawn.iter().filter(|it| **it == class).count();
/// assert!(count(0) == 0 && (800..1000).contains(&count(2)));
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WeightedRandomSampler {
    weights: Arc<[f64]>,
    count: usize,
    replacement: bool,
}

impl WeightedRandomSampler {
    /// Creates a sampler that draws `count` samples with replacement, by one weight for each sample.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] for a weight that is negative or not finite, and if the sum of all weights is zero or
    /// not finite.
    #[track_caller]
    pub fn new(weights: impl Into<Vec<f64>>, count: usize) -> Self {
        let weights: Vec<f64> = weights.into();
        check_weights(&weights).map_err(|it| it.with_op("WeightedRandomSampler")).or_raise();
        Self { weights: weights.into(), count, replacement: true }
    }

    /// Sets whether a sample can be drawn more than once in an epoch; true by default.
    pub fn replacement(self, replacement: bool) -> Self {
        Self { replacement, ..self }
    }
}

fn check_weights(weights: &[f64]) -> Result<()> {
    let refuse = |message| Err(Error::new(Code::Argument, message));
    if let Some((at, it)) = weights.iter().enumerate().find(|it| !(it.1.is_finite() && *it.1 >= 0.0)) {
        return refuse(format!("the weight of sample {at} is {it}, but has to be finite and at least 0"));
    }
    let sum: f64 = weights.iter().sum();
    if !(sum.is_finite() && sum > 0.0) {
        return refuse(format!("the sum of all weights is {sum}, but has to be finite and above 0"));
    }
    Ok(())
}

impl Sampler for WeightedRandomSampler {
    fn len(&self, _: usize) -> usize {
        self.count
    }

    fn indices(&self, epoch: Epoch, samples: usize) -> Result<Vec<usize>> {
        let refuse = |message| Err(Error::new(Code::Argument, message).with_op("WeightedRandomSampler"));
        if self.weights.len() != samples {
            return refuse(format!("there are {} weights for {samples} samples", self.weights.len()));
        }
        if self.replacement {
            let mut sum = 0.0;
            let ends: Vec<f64> = self.weights.iter().map(|it| (sum += it, sum).1).collect();
            let last = self.weights.iter().rposition(|it| *it > 0.0).expect("the sum is positive");
            let index = |it: f64| ends.partition_point(|end| *end <= it * sum).min(last);
            return Ok(uniform(epoch.stream(), self.count)?.into_iter().map(index).collect());
        }
        let positive = self.weights.iter().filter(|it| **it > 0.0).count();
        if self.count > positive {
            return refuse(format!("{} samples are drawn once each, but {positive} have a weight", self.count));
        }
        // Weighted sampling without replacement takes the largest keys `u^(1/w)`; these are their logarithms
        // (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006).
        let key = |(u, w): (f64, &f64)| if *w > 0.0 { (1.0 - u).ln() / w } else { f64::NEG_INFINITY };
        let keys: Vec<f64> = uniform(epoch.stream(), samples)?.into_iter().zip(&*self.weights).map(key).collect();
        let mut order: Vec<usize> = (0..samples).filter(|&it| self.weights[it] > 0.0).collect();
        order.sort_by(|&a, &b| keys[b].total_cmp(&keys[a]).then(a.cmp(&b)));
        order.truncate(self.count);
        Ok(order)
    }
}

/// A sampler of a fixed subset.
///
/// ```
/// use ms::data::{Sampler, SubsetSampler};
/// assert_eq!(SubsetSampler::new([3, 1, 3]).len(5), 3);
/// ```
#[derive(Clone, Debug)]
pub struct SubsetSampler {
    indices: Arc<[usize]>,
    shuffled: bool,
}

impl SubsetSampler {
    /// Creates a sampler of these indices in this order. An index may occur several times.
    pub fn new(indices: impl Into<Vec<usize>>) -> Self {
        Self { indices: indices.into().into(), shuffled: false }
    }

    /// Sets whether the order is random, as in MindSpore's `SubsetRandomSampler`.
    pub fn shuffled(self, shuffled: bool) -> Self {
        Self { shuffled, ..self }
    }
}

impl Sampler for SubsetSampler {
    fn len(&self, _: usize) -> usize {
        self.indices.len()
    }

    fn indices(&self, epoch: Epoch, _: usize) -> Result<Vec<usize>> {
        if !self.shuffled {
            return Ok(self.indices.to_vec());
        }
        Ok(permutation(epoch.stream(), self.indices.len())?.into_iter().map(|it| self.indices[it]).collect())
    }
}

/// A sampler for one of several processes that share an epoch. Every process draws the same number of samples; some
/// samples are repeated if the number of processes does not divide the number of samples.
///
/// ```
/// use ms::data::{DistributedSampler, Sampler};
/// assert_eq!([0, 1].map(|shard| DistributedSampler::new(2, shard).len(5)), [3, 3]);
/// ```
#[derive(Clone, Debug)]
pub struct DistributedSampler {
    shards: usize,
    shard: usize,
    shuffled: bool,
}

impl DistributedSampler {
    /// Creates a sampler of every `shards`-th sample from number `shard` on, in random order. The loaders of all
    /// processes must have the same [seed](super::DataLoader::seed).
    ///
    /// # Panics
    /// Raises [`Code::Argument`] for zero shards, and unless `shard` is below `shards`.
    #[track_caller]
    pub fn new(shards: usize, shard: usize) -> Self {
        check_positive("DistributedSampler", "shards", shards).or_raise();
        if shard >= shards {
            let message = format!("`shard` is {shard}, but has to be below {shards}");
            raise(Error::new(Code::Argument, message).with_op("DistributedSampler"));
        }
        Self { shards, shard, shuffled: true }
    }

    /// Sets whether the order is random; true by default.
    pub fn shuffled(self, shuffled: bool) -> Self {
        Self { shuffled, ..self }
    }
}

impl Sampler for DistributedSampler {
    fn len(&self, samples: usize) -> usize {
        samples.div_ceil(self.shards)
    }

    fn indices(&self, epoch: Epoch, samples: usize) -> Result<Vec<usize>> {
        let order = match self.shuffled {
            true => permutation(epoch.stream(), samples)?,
            false => (0..samples).collect(),
        };
        let places = (0..self.len(samples)).map(|it| it * self.shards + self.shard);
        Ok(places.map(|it| order[it % samples]).collect())
    }
}

/// The dataset of [`Dataset::sample`].
///
/// ```
/// use ms::{data::SubsetSampler, prelude::*};
/// let some = TensorDataset::new(Tensor::arange(5)).sample(SubsetSampler::new([4, 0]));
/// assert_eq!(some.len(), 2);
/// ```
pub struct Sampled<D, S> {
    data: D,
    sampler: S,
    /// The cached orders of recent epochs. Prefetched batches may belong to two epochs.
    orders: Mutex<Vec<(Epoch, Arc<[usize]>)>>,
}

/// The number of cached orders.
const ORDERS: usize = 2;

impl<D: Clone, S: Clone> Clone for Sampled<D, S> {
    fn clone(&self) -> Self {
        Self { data: self.data.clone(), sampler: self.sampler.clone(), orders: Mutex::default() }
    }
}

impl<D: Dataset, S: Sampler> Sampled<D, S> {
    pub(super) fn new(data: D, sampler: S) -> Self {
        Self { data, sampler, orders: Mutex::default() }
    }

    /// Returns the indices of an epoch, all checked to be in range.
    fn order(&self, epoch: Epoch) -> Result<Arc<[usize]>> {
        let mut known = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.iter().find(|it| it.0 == epoch) {
            return Ok(found.1.clone());
        }
        let samples = self.data.len();
        let order: Arc<[usize]> = self.sampler.indices(epoch.part(1), samples)?.into();
        order.iter().try_for_each(|&it| check_index(it, samples))?;
        let want = self.len();
        if order.len() != want {
            let message = format!("a sampler gave {} indices instead of {want}", order.len());
            return Err(Error::new(Code::Argument, message).with_op("Dataset::sample"));
        }
        if known.len() == ORDERS {
            known.remove(0);
        }
        known.push((epoch, order.clone()));
        Ok(order)
    }
}

impl<D: Dataset, S: Sampler> Dataset for Sampled<D, S> {
    type Sample = D::Sample;

    fn len(&self) -> usize {
        self.sampler.len(self.data.len())
    }

    fn get(&self, epoch: Epoch, index: usize) -> Result<D::Sample> {
        check_index(index, self.len())?;
        self.data.get(epoch.part(0), self.order(epoch)?[index])
    }

    fn name(&self, epoch: Epoch, index: usize) -> String {
        match self.order(epoch) {
            Ok(order) if index < order.len() => self.data.name(epoch.part(0), order[index]),
            _ => format!("sample {index}"),
        }
    }

    fn gather(&self, epoch: Epoch, indices: &[usize]) -> Result<D::Sample>
    where
        D::Sample: Tree,
    {
        indices.iter().try_for_each(|&it| check_index(it, self.len()))?;
        let order = self.order(epoch)?;
        self.data.gather(epoch.part(0), &indices.iter().map(|&it| order[it]).collect::<Vec<_>>())
    }
}
