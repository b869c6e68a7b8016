//! Datasets of in-memory tensors.

use super::collate::{rebuilt, rows};
use super::dataset::{Dataset, check_index};
use super::epoch::Epoch;
use ms_core::error::OrRaise;
use ms_core::tensor::Array;
use ms_core::trace::{Tree, leaves};
use ms_core::{Code, Error, Result, Tensor};
use std::sync::Arc;

/// A pytree of tensors, with one sample per row. Clones share the tensors.
///
/// ```
/// use ms::prelude::*;
/// let data = TensorDataset::new((Tensor::ones([5, 2]), tensor![0, 1, 0, 1, 1]));
/// let (x, y) = DataLoader::new(data.skip(3).batch(2)).draw()?;
/// assert_eq!((x.shape(), y.to_vec::<i64>()), (&[2, 2][..], vec![1, 1]));
/// # Ok::<(), ms::Error>(())
/// ```
pub struct TensorDataset<T> {
    content: Arc<Content<T>>,
}

struct Content<T> {
    tensors: T,
    /// The tensors in row-major order, on the host.
    arrays: Vec<Array>,
    len: usize,
    source: Option<String>,
}

impl<T> Clone for TensorDataset<T> {
    fn clone(&self) -> Self {
        Self { content: self.content.clone() }
    }
}

impl<T: Tree + Send + Sync + 'static> TensorDataset<T> {
    /// Creates a dataset of the rows of these tensors.
    ///
    /// # Panics
    /// Raises [`Code::Shape`] unless all tensors have the same number of rows, and [`Code::Argument`] if there are no
    /// tensors.
    #[track_caller]
    pub fn new(tensors: T) -> Self {
        Self::try_new(tensors, None).or_raise()
    }

    /// Creates a dataset of tensors from a file, which errors name; see [`TensorDataset::new`].
    ///
    /// # Errors
    /// The errors that [`TensorDataset::new`] raises.
    #[track_caller]
    pub(super) fn try_new(tensors: T, source: Option<String>) -> Result<Self> {
        let found = leaves(&tensors);
        let refuse = |code, message: &str| {
            let operands: Vec<String> = found.iter().map(|it| it.ty().to_string()).collect();
            Error::new(code, message).with_op("TensorDataset").with_operands(operands)
        };
        let Some(first) = found.first() else { return Err(refuse(Code::Argument, "there is no tensor")) };
        let len = first.shape().first().copied().unwrap_or(0);
        if found.iter().any(|it| it.shape().first() != Some(&len)) {
            return Err(refuse(Code::Shape, "all tensors need one row for each sample"));
        }
        let dense = |it: &Tensor| Ok(it.try_array()?.into_host()?.to_contiguous());
        let arrays = found.iter().map(dense).collect::<Result<Vec<Array>>>()?;
        let tensors = rebuilt(&tensors, arrays.iter().cloned().map(Tensor::from_array).collect());
        Ok(Self { content: Arc::new(Content { tensors, arrays, len, source }) })
    }

    /// Returns the whole tensors, on the host.
    pub fn tensors(&self) -> &T {
        &self.content.tensors
    }

    fn rebuilt(&self, tensors: impl Fn(&Array) -> Result<Tensor>) -> Result<T> {
        let Content { tensors: like, arrays, .. } = &*self.content;
        Ok(rebuilt(like, arrays.iter().map(tensors).collect::<Result<_>>()?))
    }
}

impl<T: Tree + Send + Sync + 'static> Dataset for TensorDataset<T> {
    type Sample = T;

    fn len(&self) -> usize {
        self.content.len
    }

    fn get(&self, _: Epoch, index: usize) -> Result<T> {
        check_index(index, self.len())?;
        self.rebuilt(|it| rows(it, &it.shape()[1..], &[index]))
    }

    fn name(&self, _: Epoch, index: usize) -> String {
        match &self.content.source {
            Some(source) => format!("sample {index} of {source}"),
            None => format!("sample {index}"),
        }
    }

    fn gather(&self, _: Epoch, indices: &[usize]) -> Result<T> {
        indices.iter().try_for_each(|&it| check_index(it, self.len()))?;
        self.rebuilt(|it| {
            let shape: Vec<usize> = [indices.len()].into_iter().chain(it.shape()[1..].iter().copied()).collect();
            rows(it, &shape, indices)
        })
    }
}
