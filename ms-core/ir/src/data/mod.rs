//! Data on devices and its types: dtypes, dimensions, layouts, storage, arrays, attributes.

mod array;
mod copy;
mod device;
mod dim;
mod dtype;
mod element;
mod elements;
mod file;
mod host_array;
mod host_memory;
mod host_scalar;
mod layout;
mod literal;
mod memory;
mod nested;
mod op;
mod owner;
mod print;
mod storage;
mod types;

pub use array::Array;
pub use device::{Device, DeviceKind, IntoDevice, is_host_only};
#[doc(hidden)]
pub use device::{ProfiledUse, use_device};
pub use dim::{Dim, Dims, Factor, IntoDims, NewShape};
pub use dtype::{DType, Kind, promote};
pub use element::{Element, Number, Scalar};
#[doc(hidden)]
pub use element::{held_by_itself, own_dtype, own_scalar};
pub use elements::{Elements, ElementsMut};
#[doc(hidden)]
pub use file::{MAX_RANK, sized};
pub use half::{bf16, f16};
pub use host_array::HostArray;
pub use host_memory::{collected, filled, push, try_filled, try_room};
pub use host_scalar::HostScalar;
pub use layout::{IntoShape, Layout, Shape, Strides, broadcast_shapes, broadcast_sizes, count};
pub use literal::Literal;
pub use memory::stream::{sync_step, synchronize, with_stream};
pub use memory::{
    Fence, Memory, MemoryCache, MemorySpace, Origin, PeerAddress, Restored, StagingRing, Stream, StreamKind, Streams,
    add_memory_cache,
};
pub use nested::Nested;
pub use op::{Attr, AttrInfo, AttrKind, AttrRange, Attrs, Op, OpInfo};
pub use storage::Storage;
pub use types::Type;
