//! Defines the identity of an op in a call: its stable number and its attributes.

use super::dim::{Dim, Dims};
use super::dtype::DType;
use super::literal::Literal;
use crate::error::{Code, Error, Result};
use smallvec::SmallVec;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// The identity of a primitive. Its definition in `ops` has the behaviour.
#[derive(Debug)]
pub struct OpInfo {
    /// The stable number, part of stored keys; never reused. For custom ops see [`Op::FIRST_CUSTOM`].
    pub number: u16,
    /// The name in text and in messages.
    pub name: &'static str,
    /// The attributes, in the order in which [`Attrs`] holds them.
    pub attrs: &'static [AttrInfo],
}

/// The declaration of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttrInfo {
    /// The name in text and in messages.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: AttrKind,
    /// The range of its integers.
    pub range: AttrRange,
}

impl AttrInfo {
    /// An attribute that may be any value of its kind.
    pub const fn any(name: &'static str, kind: AttrKind) -> Self {
        Self { name, kind, range: AttrRange::ANY }
    }

    /// Checks that a value is of the kind, and that its integers are in the range.
    ///
    /// # Errors
    /// [`Code::Verify`] for another kind, [`Code::Argument`] for an integer outside of the range.
    pub fn check(&self, attr: &Attr) -> Result<()> {
        let Self { name, kind, range } = self;
        if !kind.admits(attr) {
            let message = format!("attribute `{name}` is of another kind than {attr:?}");
            return Err(Error::new(Code::Verify, message));
        }
        match range.first_outside(attr) {
            None => Ok(()),
            Some(it) => {
                let AttrRange { low, high } = range;
                let message = format!("attribute `{name}` is {it}, but its numbers are from {low} to {high}");
                Err(Error::new(Code::Argument, message))
            }
        }
    }
}

/// The range of the integers of an attribute: of the number itself, or of each in a list. Symbolic numbers are checked
/// when they are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttrRange {
    /// The minimum.
    pub low: i64,
    /// The maximum.
    pub high: i64,
}

impl AttrRange {
    /// All integers.
    pub const ANY: Self = Self { low: i64::MIN, high: i64::MAX };

    /// The maximum of an attribute that is used as a factor: a window size, a distance, a count of operands.
    pub const FACTOR: i64 = i32::MAX as i64;

    /// Creates the range from `low` to `high`, both included.
    pub const fn new(low: i64, high: i64) -> Self {
        Self { low, high }
    }

    fn first_outside(&self, attr: &Attr) -> Option<i64> {
        if *self == Self::ANY {
            return None;
        }
        let is_outside = |it: &i64| !(self.low..=self.high).contains(it);
        match attr {
            Attr::Int(it) => Some(*it).filter(is_outside),
            Attr::Ints(all) => all.iter().copied().find(is_outside),
            Attr::Size(it) => it.as_known().filter(is_outside),
            Attr::Sizes(all) => all.iter().filter_map(|it| it.as_known()).find(is_outside),
            _ => None,
        }
    }
}

/// The kind of an attribute's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttrKind {
    /// [`Attr::Bool`].
    Bool,
    /// [`Attr::Int`].
    Int,
    /// [`Attr::Float`].
    Float,
    /// [`Attr::Int`] or [`Attr::Float`].
    Number,
    /// [`Attr::Int`] or [`Attr::Size`], a dimension of the operands or results.
    Size,
    /// [`Attr::Int`] or [`Attr::Size`]: a number on which the op depends, but which is not a dimension of a result.
    Extent,
    /// [`Attr::Ints`].
    Ints,
    /// [`Attr::Ints`] or [`Attr::Sizes`], the dimensions of a result.
    Sizes,
    /// [`Attr::Ints`] or [`Attr::Sizes`], such as the starts of a slice: numbers on which the op depends.
    Extents,
    /// [`Attr::DType`].
    DType,
    /// [`Attr::Str`].
    Str,
    /// [`Attr::Literal`].
    Literal,
}

impl AttrKind {
    /// Returns whether a value is of this kind.
    pub fn admits(self, attr: &Attr) -> bool {
        match attr {
            Attr::Bool(_) => self == Self::Bool,
            Attr::Int(_) => matches!(self, Self::Int | Self::Size | Self::Extent | Self::Number),
            Attr::Size(_) => matches!(self, Self::Size | Self::Extent),
            Attr::Float(_) => matches!(self, Self::Float | Self::Number),
            Attr::Ints(_) => matches!(self, Self::Ints | Self::Sizes | Self::Extents),
            Attr::Sizes(_) => matches!(self, Self::Sizes | Self::Extents),
            Attr::DType(_) => self == Self::DType,
            Attr::Str(_) => self == Self::Str,
            Attr::Literal(_) => self == Self::Literal,
        }
    }
}

/// A handle of an [`OpInfo`], compared and hashed by number.
#[derive(Clone, Copy)]
pub struct Op(pub &'static OpInfo);

impl Op {
    /// The stable number.
    #[inline]
    pub fn number(self) -> u16 {
        self.0.number
    }

    /// The name.
    pub fn name(self) -> &'static str {
        self.0.name
    }
}

/// Hashes of the sources of custom ops, in the order of their numbers.
static CUSTOM_SOURCES: OnceLock<Vec<u64>> = OnceLock::new();

impl Op {
    /// The first number of custom ops, which programs define. Their numbers are valid in one process only. The stored
    /// form consists of this number, the name, and [the hash of the source](Self::custom_source).
    pub const FIRST_CUSTOM: u16 = 1 << 15;

    /// Returns a hash of the source of a custom op's declaration.
    pub fn custom_source(self) -> Option<u64> {
        let at = self.number().checked_sub(Self::FIRST_CUSTOM)?;
        CUSTOM_SOURCES.get()?.get(usize::from(at)).copied()
    }

    /// Sets the sources of custom ops, in the order of their numbers, before any of them has a handle.
    #[doc(hidden)]
    pub fn set_custom_sources(sources: Vec<u64>) {
        let _ = CUSTOM_SOURCES.set(sources);
    }
}

impl PartialEq for Op {
    fn eq(&self, other: &Self) -> bool {
        self.0.number == other.0.number
    }
}

impl Eq for Op {}

impl Hash for Op {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.number.hash(state);
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// An attribute of a node: a host value that is part of the program.
#[derive(Clone, Debug)]
pub enum Attr {
    /// A flag.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float, compared by bits.
    Float(f64),
    /// A list of integers: axes, sizes, permutations.
    Ints(SmallVec<[i64; 4]>),
    /// A symbolic size. A known one is an [`Attr::Int`].
    Size(Dim),
    /// Sizes of which some are symbolic. If all are known, they are [`Attr::Ints`].
    Sizes(Dims),
    /// A dtype.
    DType(DType),
    /// A word.
    Str(Arc<str>),
    /// Constant data.
    Literal(Literal),
}

impl PartialEq for Attr {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Ints(a), Self::Ints(b)) => a == b,
            (Self::Size(a), Self::Size(b)) => a == b,
            (Self::Sizes(a), Self::Sizes(b)) => a == b,
            (Self::DType(a), Self::DType(b)) => a == b,
            (Self::Str(a), Self::Str(b)) => a == b,
            (Self::Literal(a), Self::Literal(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Attr {}

impl Hash for Attr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Bool(it) => it.hash(state),
            Self::Int(it) => it.hash(state),
            Self::Float(it) => it.to_bits().hash(state),
            Self::Ints(it) => it.hash(state),
            Self::Size(it) => it.hash(state),
            Self::Sizes(it) => it.hash(state),
            Self::DType(it) => it.hash(state),
            Self::Str(it) => it.hash(state),
            Self::Literal(it) => it.hash(state),
        }
    }
}

/// The attributes of a node, in the order of [`OpInfo::attrs`].
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct Attrs(SmallVec<[Attr; 2]>);

impl Clone for Attrs {
    #[inline]
    fn clone(&self) -> Self {
        // Most ops have no attributes, and cloning a small vector takes a loop.
        if self.0.is_empty() { Self::default() } else { Self(self.0.clone()) }
    }
}

impl Attrs {
    /// No attributes.
    #[inline]
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns whether any attribute is a symbolic size, so that the op has no value yet.
    pub fn is_symbolic(&self) -> bool {
        self.0.iter().any(|attr| match attr {
            Attr::Size(it) => it.is_symbolic(),
            Attr::Sizes(all) => all.iter().any(|it| it.is_symbolic()),
            _ => false,
        })
    }

    /// Creates attributes in this order.
    pub fn new(attrs: impl IntoIterator<Item = Attr>) -> Self {
        Self(attrs.into_iter().collect())
    }

    /// Returns all attributes.
    #[inline]
    pub fn as_slice(&self) -> &[Attr] {
        &self.0
    }
}

/// Converts a size to an attribute. A size above `i64::MAX` remains too large for any memory.
fn size_as_i64(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

macro_rules! attr_from {
    ($($ty:ty => $variant:ident),* $(,)?) => {$(
        impl From<$ty> for Attr {
            fn from(value: $ty) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

attr_from! { bool => Bool, i64 => Int, f64 => Float, DType => DType, &str => Str, Literal => Literal }

impl From<usize> for Attr {
    fn from(value: usize) -> Self {
        Self::Int(size_as_i64(value))
    }
}

impl From<&[usize]> for Attr {
    fn from(value: &[usize]) -> Self {
        Self::Ints(value.iter().map(|&it| size_as_i64(it)).collect())
    }
}

impl From<&[Dim]> for Attr {
    fn from(value: &[Dim]) -> Self {
        match value.iter().map(|it| it.as_known()).collect() {
            Some(known) => Self::Ints(known),
            None => Self::Sizes(value.into()),
        }
    }
}

impl From<Dim> for Attr {
    fn from(value: Dim) -> Self {
        value.as_known().map_or(Self::Size(value), Self::Int)
    }
}

impl From<&[i64]> for Attr {
    fn from(value: &[i64]) -> Self {
        Self::Ints(value.into())
    }
}
