//! Defines the tensor type: an array, a host scalar, or a value of the graph under construction.

use super::escape::escaped;
use super::scope::{scope, scoped};
use super::traced::Traced;
use ms_ir::data::{Array, DType, HostScalar, Scalar, Type};
use ms_ir::error::Result;
use std::sync::{Arc, Weak};

/// An n-dimensional array, a host scalar, or a value of the graph that is being traced.
///
/// Two words wide and cheap to clone: clones share memory. Ops return new tensors and never write to their operands.
///
/// ```
/// use ms_core::{DType, tensor};
/// let x = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
/// assert_eq!((x.shape(), x.dtype()), (&[2, 3][..], DType::F32));
/// let y = (&x * 10.0).sum(0);
/// assert_eq!(y.to_vec::<f32>(), [50.0, 70.0, 90.0]);
/// ```
pub struct Tensor {
    /// The stamp of the region of control flow that this handle belongs to (see
    /// [`scoped`](super::scope::scoped)); 0 means none.
    stamp: u32,
    // Kinds are distinguished behind the pointer, because a handle of two scalars is passed in registers.
    pub(super) content: Arc<Content>,
}

/// A guard: while it exists, no new tensor has the identity of this one.
#[doc(hidden)]
pub struct HeldIdentity {
    _content: Weak<Content>,
}

/// The content of a tensor.
pub(super) enum Content {
    Array(Array),
    Number(HostScalar),
    Traced(Traced),
}

/// The value of a tensor that is not traced.
///
/// ```
/// use ms_core::{tensor, tensor::Value};
/// assert!(matches!(tensor![1.0, 2.0].as_value()?, Value::Array(array) if array.shape() == [2]));
/// # Ok::<(), ms_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// Elements in memory.
    Array(&'a Array),
    /// A host scalar.
    Number(&'a HostScalar),
}

impl<'a> Value<'a> {
    /// Returns the array, which a host scalar creates at the first call.
    ///
    /// # Panics
    /// See [`HostScalar::array`].
    #[inline]
    pub fn to_array(self) -> &'a Array {
        match self {
            Self::Array(array) => array,
            Self::Number(number) => number.array(),
        }
    }
}

/// The clone belongs to the open region of a trace, if there is one.
impl Clone for Tensor {
    #[inline]
    fn clone(&self) -> Self {
        self.stamped(scoped(self.stamp()))
    }
}

impl Tensor {
    #[inline]
    fn new(content: Content) -> Self {
        Self { stamp: 0, content: Arc::new(content) }
    }

    /// Creates a tensor of an array, on the device of the array.
    #[inline]
    pub fn from_array(array: Array) -> Self {
        Self::new(Content::Array(array))
    }

    /// Creates a zero-dimensional tensor of a host scalar, which has no array until one is needed.
    pub fn from_number(value: Scalar, dtype: DType) -> Self {
        Self::new(Content::Number(HostScalar::new(value, dtype)))
    }

    /// Creates a tensor of a traced value.
    pub fn from_traced(traced: Traced) -> Self {
        Self::new(Content::Traced(traced))
    }

    /// Returns the region that this handle belongs to; 0 for none.
    #[inline]
    #[doc(hidden)]
    pub fn stamp(&self) -> u32 {
        self.stamp
    }

    #[inline]
    fn stamped(&self, stamp: u32) -> Self {
        Self { stamp, content: self.content.clone() }
    }

    /// Clones the tensor into the open region, whatever region this handle belongs to. Used for results of a region.
    #[doc(hidden)]
    pub fn adopted(&self) -> Self {
        self.stamped(scope())
    }

    /// Removes the region from this handle, for values that outlive all regions.
    #[inline]
    #[doc(hidden)]
    pub fn unstamped(mut self) -> Self {
        self.stamp = 0;
        self
    }

    /// Returns the array, if this is not a traced value.
    #[inline]
    pub fn as_array(&self) -> Option<&Array> {
        match &*self.content {
            Content::Array(array) => Some(array),
            Content::Number(number) => Some(number.array()),
            Content::Traced(_) => None,
        }
    }

    /// Returns the value of a tensor that is not traced, without creating an array for a host scalar.
    ///
    /// # Errors
    /// See [`Tensor::array`].
    #[inline]
    pub fn as_value(&self) -> Result<Value<'_>> {
        match &*self.content {
            Content::Array(array) => Ok(Value::Array(array)),
            Content::Number(number) => Ok(Value::Number(number)),
            Content::Traced(traced) => Err(escaped(traced)),
        }
    }

    /// Returns the traced value, if this is one.
    #[inline]
    pub fn as_traced(&self) -> Option<&Traced> {
        match &*self.content {
            Content::Array(_) | Content::Number(_) => None,
            Content::Traced(traced) => Some(traced),
        }
    }

    /// Returns whether this is the result of an op that failed while tracing.
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        self.as_traced().is_some_and(|it| it.poisoned)
    }

    /// Returns whether this is a value of a graph under construction.
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.as_traced().is_some()
    }

    /// Returns the address that all clones of this tensor share while one of them lives.
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.content) as usize
    }

    /// Prevents reuse of the identity, without keeping the elements alive.
    #[doc(hidden)]
    pub fn hold_identity(&self) -> HeldIdentity {
        HeldIdentity { _content: Arc::downgrade(&self.content) }
    }

    /// Returns the same elements under a new identity.
    ///
    /// ```
    /// use ms_core::tensor;
    /// let x = tensor![1.0];
    /// assert!(x.clone().identity() == x.identity() && x.fresh().identity() != x.identity());
    /// ```
    pub fn fresh(&self) -> Self {
        match &*self.content {
            Content::Array(array) => Self::from_array(array.clone()),
            Content::Number(number) => Self::new(Content::Number(number.clone())),
            Content::Traced(_) => self.clone(),
        }
    }

    /// Returns the element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        match &*self.content {
            Content::Array(array) => array.dtype(),
            Content::Number(number) => number.dtype(),
            Content::Traced(traced) => traced.ty.dtype,
        }
    }

    /// Returns the type: dtype and dimensions.
    pub fn ty(&self) -> Type {
        match &*self.content {
            Content::Array(array) => array.ty(),
            Content::Number(number) => Type::of(number.dtype(), &[]),
            Content::Traced(traced) => traced.ty.clone(),
        }
    }

    /// Returns the array of a tensor that is not traced.
    ///
    /// # Errors
    /// [`Code::Escaped`](crate::Code::Escaped) or [`Code::Thread`](crate::Code::Thread) for a traced value that has
    /// left its trace.
    #[inline]
    pub fn array(&self) -> Result<&Array> {
        match &*self.content {
            Content::Array(array) => Ok(array),
            Content::Number(number) => Ok(number.array()),
            Content::Traced(traced) => Err(escaped(traced)),
        }
    }

    /// Returns the array of a tensor that is not traced. Does not copy its metadata if this is its only handle.
    ///
    /// # Errors
    /// See [`Tensor::array`].
    pub fn into_array(self) -> Result<Array> {
        match Arc::try_unwrap(self.content) {
            Ok(Content::Array(array)) => Ok(array),
            Ok(Content::Number(number)) => Ok(number.array().clone()),
            Ok(Content::Traced(traced)) => Err(escaped(&traced)),
            Err(content) => Self { stamp: 0, content }.array().cloned(),
        }
    }
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Tensor>();
    assert!(size_of::<Tensor>() == 16);
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Contents are small enough to be copied without a call of `memcpy` on x86-64.
    #[test]
    fn contents_are_small() {
        assert!(size_of::<Content>() + 2 * size_of::<usize>() <= 128, "{}", size_of::<Content>());
    }
}
