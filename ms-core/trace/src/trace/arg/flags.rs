//! Defines the settings of layers that are part of a key.

use ms_ir::error::{Code, Error, raise};
use ms_ops::tensor::DType;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Whether a layer trains or evaluates, shared by its clones. It is part of the version's key.
///
/// ```
/// use ms_core::trace::Training;
/// let training = Training::default();
/// training.clone().set(false);
/// assert!(!training.get());
/// ```
#[derive(Clone, Debug)]
pub struct Training(Arc<AtomicBool>);

impl Training {
    /// Returns whether the layer trains.
    #[inline]
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets whether the layer trains.
    pub fn set(&self, yes: bool) {
        self.0.store(yes, Ordering::Relaxed);
    }
}

impl Default for Training {
    /// Starts in training mode.
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

/// The dtype in which a layer computes, shared by its clones; none for the dtype of its operands. It is part of the
/// version's key.
///
/// ```
/// use ms_core::{DType, trace::ComputeDType};
/// let compute = ComputeDType::default();
/// compute.set(Some(DType::BF16));
/// assert_eq!(compute.get(), Some(DType::BF16));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ComputeDType(Arc<AtomicU8>);

impl ComputeDType {
    /// The dtype.
    #[inline]
    pub fn get(&self) -> Option<DType> {
        // Zero means none.
        DType::ALL.get(usize::from(self.0.load(Ordering::Relaxed)).wrapping_sub(1)).copied()
    }

    /// Sets the dtype.
    ///
    /// # Panics
    /// Raises [`Code::DType`] for a dtype that is not a float.
    #[track_caller]
    pub fn set(&self, dtype: Option<DType>) {
        if let Some(dtype) = dtype.filter(|it| !it.is_float()) {
            raise(Error::new(Code::DType, format!("layers compute in floats, not in {dtype}")));
        }
        self.0.store(dtype.map_or(0, |it| it as u8 + 1), Ordering::Relaxed);
    }
}
