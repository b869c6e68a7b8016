//! Typed access to the attributes of ops.

use crate::tensor::{Attr, AttrKind, AttrRange, DType, Dim, Dims, Literal, Scalar};
use smallvec::SmallVec;

/// Types of attributes.
pub trait Attribute {
    /// The return type of the accessor.
    type Value<'a>;

    /// The kind of the attribute's values in nodes.
    const KIND: AttrKind;

    /// The range of the attribute's integers, if a declaration names none.
    const RANGE: AttrRange = AttrRange::ANY;

    /// Returns the value of an attribute; `None` if it has another kind.
    fn read(attr: &Attr) -> Option<Self::Value<'_>>;
}

/// A list of integers: axes, sizes, steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ints<'a>(pub &'a [i64]);

impl<'a> Ints<'a> {
    /// Returns the integers.
    pub fn as_slice(self) -> &'a [i64] {
        self.0
    }

    /// Returns the integers as sizes or axes, which are not negative.
    pub fn sizes(self) -> SmallVec<[usize; 4]> {
        self.0.iter().map(|&it| it as usize).collect()
    }

    /// Returns the integers as steps between positions.
    pub fn steps(self) -> crate::tensor::Strides {
        self.0.iter().map(|&it| it as isize).collect()
    }
}

/// A list of sizes, some of which may be symbolic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extents<'a> {
    /// All sizes are numbers, which may be negative.
    Known(&'a [i64]),
    /// At least one size is an expression.
    Symbolic(&'a [Dim]),
}

impl Extents<'_> {
    /// Returns the number of sizes.
    pub fn count(self) -> usize {
        match self {
            Self::Known(all) => all.len(),
            Self::Symbolic(all) => all.len(),
        }
    }

    /// Returns the sizes as dimensions.
    pub fn dims(self) -> Dims {
        match self {
            Self::Known(all) => all.iter().map(|&it| Dim::signed(it)).collect(),
            Self::Symbolic(all) => all.into(),
        }
    }

    /// Returns the sizes as numbers. An expression or a negative number becomes a size that cannot be allocated.
    pub fn sizes(self) -> SmallVec<[usize; 4]> {
        match self {
            Self::Known(all) => all.iter().map(|&it| it as usize).collect(),
            Self::Symbolic(all) => all.iter().map(|it| it.as_const().unwrap_or(usize::MAX)).collect(),
        }
    }
}

impl From<Extents<'_>> for Attr {
    fn from(value: Extents<'_>) -> Self {
        match value {
            Extents::Known(all) => all.into(),
            Extents::Symbolic(all) => all.into(),
        }
    }
}

/// The type of an attribute that is an integer or a symbolic expression. An attribute that is a dimension of a result
/// has the type [`Dim`].
pub enum Extent {}

impl From<Ints<'_>> for Attr {
    fn from(value: Ints<'_>) -> Self {
        value.0.into()
    }
}

macro_rules! attribute {
    ($($ty:ty, $value:ty: $kind:ident $(from $low:literal to $high:expr =>)? of $($attr:ident($it:ident) => $read:expr),+;)*) => {$(
        impl Attribute for $ty {
            type Value<'a> = $value;

            const KIND: AttrKind = AttrKind::$kind;

            $(const RANGE: AttrRange = AttrRange::new($low, $high);)?

            #[inline]
            fn read(attr: &Attr) -> Option<Self::Value<'_>> {
                match attr {
                    $(Attr::$attr($it) => Some($read),)+
                    _ => None,
                }
            }
        }
    )*};
}

attribute! {
    bool, bool: Bool of Bool(it) => *it;
    i64, i64: Int of Int(it) => *it;
    usize, usize: Int from 0 to AttrRange::FACTOR => of Int(it) => *it as usize;
    Dim, Dim: Size of Int(it) => Dim::signed(*it), Size(it) => *it;
    Extent, Dim: Extent of Int(it) => Dim::signed(*it), Size(it) => *it;
    f64, f64: Float of Float(it) => *it;
    [i64], Ints<'a>: Ints of Ints(it) => Ints(it);
    Dims, Extents<'a>: Sizes of Ints(it) => Extents::Known(it), Sizes(it) => Extents::Symbolic(it);
    [Extent], Extents<'a>: Extents of Ints(it) => Extents::Known(it), Sizes(it) => Extents::Symbolic(it);
    DType, DType: DType of DType(it) => *it;
    str, &'a str: Str of Str(it) => &**it;
    Literal, &'a Literal: Literal of Literal(it) => it;
}

/// A number attribute: an integer or a float.
impl Attribute for Scalar {
    type Value<'a> = Self;

    const KIND: AttrKind = AttrKind::Number;

    fn read(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Int(it) => Some(Self::Int(*it)),
            Attr::Float(it) => Some(Self::Float(*it)),
            _ => None,
        }
    }
}

/// Declares the attributes of an op.
///
/// The macro generates a view of a node's [`Attrs`](crate::tensor::Attrs) with an accessor for each attribute. It also
/// generates the function `attrs` from values to `Attrs`, and `DECLARED` for [`OpInfo`](crate::tensor::OpInfo).
///
/// ```text
/// attributes! {
///     /// The attributes of [`CONCAT`].
///     struct ConcatAttrs { axis: usize }
/// }
/// let axis = ConcatAttrs::of(&node.attrs).axis();
/// let attrs = ConcatAttrs::attrs(axis);
/// ```
///
/// The range after `where` bounds the integers of an attribute, or each item of a list. `infer` refuses others before a
/// rule reads them. Without a range, a `usize` is from 0 to [`AttrRange::FACTOR`].
///
/// Accessors panic for attributes of another kind, which the verifier refuses. An attribute cannot be named `of` or
/// `attrs`.
macro_rules! attributes {
    ($(#[$doc:meta])* $vis:vis struct $name:ident {
        $($(#[$note:meta])* $field:ident: $ty:ty $(where $low:literal..=$high:expr)?),+ $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        $vis struct $name<'a>(&'a $crate::tensor::Attrs);

        const _: () = {
            #[allow(non_camel_case_types, reason = "positions by the names of attributes")]
            enum At { $($field),+ }

            #[allow(dead_code, reason = "ops that share a prefix of attributes read it by one of the types")]
            impl<'a> $name<'a> {
                #[doc = "Their declarations, in the order in which nodes hold them."]
                $vis const DECLARED: &'static [$crate::tensor::AttrInfo] = &[$($crate::tensor::AttrInfo {
                    name: stringify!($field),
                    kind: <$ty as $crate::ops::Attribute>::KIND,
                    range: attributes!(@range $ty $(, $low, $high)?),
                }),+];

                #[doc = "Those of a node."]
                #[inline]
                $vis fn of(attrs: &'a $crate::tensor::Attrs) -> Self {
                    Self(attrs)
                }

                #[doc = "With these values."]
                $vis fn attrs($($field: impl Into<$crate::tensor::Attr>),+) -> $crate::tensor::Attrs {
                    $crate::tensor::Attrs::new([$($field.into()),+])
                }

                $(
                    $(#[$note])*
                    #[doc = concat!("The attribute `", stringify!($field), "`.")]
                    #[inline]
                    $vis fn $field(self) -> <$ty as $crate::ops::Attribute>::Value<'a> {
                        <$ty as $crate::ops::Attribute>::read(&self.0.as_slice()[At::$field as usize])
                            .expect(concat!("the verifier refuses another kind for `", stringify!($field), "`"))
                    }
                )+
            }
        };
    };
    (@range $ty:ty) => { <$ty as $crate::ops::Attribute>::RANGE };
    (@range $ty:ty, $low:literal, $high:expr) => { $crate::tensor::AttrRange::new($low, $high) };
}
