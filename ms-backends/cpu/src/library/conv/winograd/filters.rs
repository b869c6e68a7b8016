//! Transforms filters: for one call, or cached with a parameter.

use super::transforms::{COMPONENTS, LANES, Transforms, rotated};
use super::{TAPS, Winograd};
use crate::library::scratch;
use ms_ir::data::{DType, Storage};
use ms_ir::error::Result;
use ms_x64::gemm::{CacheBytes, Elements, Matrix, PackedKey, Shared, cache};
use ms_x64::threads;
use std::sync::Arc;

/// Transformed filters: for each group, component and output channel, the elements of all input channels.
pub struct Filters {
    room: Room,
    of: Sizes,
}

/// The sizes of filters.
#[derive(Clone, Copy, PartialEq)]
struct Sizes {
    groups: usize,
    /// Output channels of a group of [`Winograd`].
    outputs: usize,
    /// Input channels of a group of [`Winograd`].
    channels: usize,
    is_gradient: bool,
}

impl Sizes {
    /// Returns the distance between output channels: an odd number of cache lines, so that rows fall into different
    /// cache sets.
    fn row(self) -> usize {
        (self.channels.div_ceil(LANES) | 1) * LANES
    }

    /// Returns the distance between components, which puts them into different cache sets too.
    fn component(self) -> usize {
        self.outputs * self.row() + LANES
    }

    /// Returns the number of elements of all filters.
    fn len(self) -> usize {
        self.groups * COMPONENTS * self.component()
    }
}

/// The memory of transformed filters: of one call, or cached.
enum Room {
    Own(Storage),
    Cached(Arc<CachedFilters>),
}

/// Transformed filters that a parameter storage caches.
struct CachedFilters {
    key: PackedKey,
    of: Sizes,
    room: Storage,
    _bytes: CacheBytes,
}

impl Filters {
    /// Transforms filters, or returns their cached transforms.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for them.
    pub fn new(conv: &Winograd, transforms: Transforms, weights: Elements<'_, f32>) -> Result<Self> {
        let &Winograd { groups, outputs, channels, is_gradient, .. } = conv;
        let of = Sizes { groups, outputs, channels, is_gradient };
        let cached = weights.held().and_then(|block| {
            let matrix = Matrix::dense(weights.all.as_ptr(), TAPS).in_bytes();
            let key = PackedKey::new(block, matrix, [weights.all.len() / TAPS, TAPS], DType::F32);
            let is_same = |it: &CachedFilters| it.key == key && it.of == of;
            cache(block, of.len() * size_of::<f32>(), is_same, |bytes| {
                Ok(CachedFilters { key, of, room: transform(transforms, weights.all, of)?, _bytes: bytes })
            })
        });
        let room = match cached {
            Some(cached) => Room::Cached(cached),
            None => Room::Own(transform(transforms, weights.all, of)?),
        };
        Ok(Self { room, of })
    }

    /// Returns a component of the filters of a group from an output channel on, and its strides between output and
    /// input channels.
    pub fn from(&self, group: usize, component: usize, output: usize) -> (*const f32, [usize; 2]) {
        let room = match &self.room {
            Room::Own(room) => room,
            Room::Cached(cached) => &cached.room,
        };
        let component = if self.of.is_gradient { rotated(component) } else { component };
        let at = (group * COMPONENTS + component) * self.of.component() + output * self.of.row();
        (room.device_ptr().cast_const().cast::<f32>().wrapping_add(at), [self.of.row(), 1])
    }
}

/// Transforms the filters of all groups.
fn transform(transforms: Transforms, weights: &[f32], of: Sizes) -> Result<Storage> {
    let Sizes { groups, outputs, channels, is_gradient } = of;
    // The loop below writes all rows before anything reads them.
    let room = scratch::uninit::<f32>(of.len())?;
    let to = Shared::new(room.device_ptr().cast::<f32>());
    let weights = weights.as_chunks::<TAPS>().0;
    // Strides between output channels and between input channels, in filters.
    let steps = if is_gradient { [1, outputs] } else { [channels, 1] };
    threads::for_each(groups * outputs, 2 * weights.len(), |task| {
        let (group, output) = (task / outputs, task % outputs);
        let first = group * outputs * channels + output * steps[0];
        // SAFETY: a row has room for whole vectors, and each task has its own row. The processor has the transforms'
        // instruction set.
        unsafe {
            let to = to.get().add(group * COMPONENTS * of.component() + output * of.row());
            (transforms.filters)(&weights[first..], steps[1], channels, to, of.component());
        }
    });
    Ok(room)
}
