//! Defines arrays on devices, tensors that are arrays or traced values, parameters, and the [`Dispatcher`] through
//! which every op is applied.

mod array;
mod as_tensor;
mod copy;
mod device;
mod dim;
mod dispatch;
mod dtype;
mod element;
mod escape;
mod hints;
mod host_array;
mod host_memory;
mod host_number;
mod index;
mod layout;
mod literal;
mod memory;
#[cfg(feature = "ndarray")]
mod ndarray;
mod nested;
mod op;
mod owner;
mod parameter;
mod place;
mod print;
mod storage;
#[allow(clippy::module_inception)]
mod tensor;
mod types;

pub use array::Array;
pub use as_tensor::AsTensor;
pub use device::{Device, DeviceKind, IntoDevice, is_host_only};
pub(crate) use device::{WatchedUse, use_device};
pub use dim::{Dim, Dims, Factor, IntoDims};
pub use dispatch::{
    DispatchMode, Dispatcher, EagerDispatcher, Eagerly, OpCall, Outputs, Scan, apply, apply1, current_dispatcher,
    dispatch_mode, dispatcher, eager, first_poisoned, refused, with_dispatcher,
};
pub use dtype::{DType, Kind, promote};
pub(crate) use element::own_scalar;
pub use element::{Element, Number, Scalar};
pub use escape::{LiveTrace, close_scope, escaped, left_behind, open_scope, outside_scopes};
pub use half::{bf16, f16};
pub use hints::{ComparedByMethodsSuchAsLt, InBrackets};
pub use host_array::HostArray;
pub use host_memory::{collected, filled, push, try_filled, try_room};
pub use host_number::HostNumber;
pub use index::{Ellipsis, Index, IntoIndex, IntoIndices, NewAxis, Selection, Stepped, WithStep};
pub use layout::{IntoShape, Layout, Shape, Strides, broadcast_shapes, broadcast_sizes, count};
pub use literal::Literal;
pub use memory::stream::{sync_step, synchronize, with_stream};
pub use memory::{Fence, Memory, MemorySpace, Origin, Restored, Stream, StreamKind, Streams};
pub use nested::{Nested, Suffixes};
pub use op::{Attr, AttrInfo, AttrKind, AttrRange, Attrs, Op, OpInfo};
pub use parameter::{
    Created, Dependent, Gathered, Parameter, Role, SlotId, TakenSlot, WeakParameter, apart, is_apart, with_created,
};
pub use storage::Storage;
pub(crate) use tensor::HeldIdentity;
pub use tensor::{Tensor, Traced, Value};
pub use types::Type;
