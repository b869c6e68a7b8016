//! Serialises values that are stored in files.
//!
//! Readers do not trust their input: for any bytes they return a valid value of the type or `None`. Each type describes
//! its representation, so that a test detects when a stored type changes.

use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximal nesting of values of the same type.
const MAX_DEPTH: usize = 64;

/// A value that can be serialised and read back.
///
/// Integers are LEB128, signed ones in zigzag encoding. Sequences are preceded by their length, and enums by their tag.
pub trait Stored: Sized {
    /// Appends the value.
    fn write(&self, out: &mut Vec<u8>);

    /// Reads a value from the front; `None` if the bytes are invalid.
    fn read(from: &mut Reader<'_>) -> Option<Self>;

    /// Returns the name of the type, and adds its representation to `types`.
    fn describe(types: &mut Description) -> String;
}

/// The representations of stored types, by name.
pub type Description = BTreeMap<&'static str, String>;

/// The unread bytes.
pub struct Reader<'a> {
    rest: &'a [u8],
    depth: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader of all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, depth: 0 }
    }

    /// Returns whether all bytes have been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns all unread bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Returns the next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    /// Reads a value one level deeper; `None` if it is nested too deeply.
    pub fn nested<R>(&mut self, read: impl FnOnce(&mut Self) -> Option<R>) -> Option<R> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// Reads the length of a sequence with elements of at least one byte each.
    fn len(&mut self) -> Option<usize> {
        usize::read(self).filter(|&it| it <= self.rest.len())
    }

    #[inline]
    fn number(&mut self) -> Option<u64> {
        let (&first, rest) = self.rest.split_first()?;
        if first < 0x80 {
            self.rest = rest;
            return Some(u64::from(first));
        }
        self.long_number()
    }

    fn long_number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.bytes(1)?[0];
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

/// Reads the value that fills `bytes` to the end.
pub fn read_all<T: Stored>(bytes: &[u8]) -> Option<T> {
    let mut reader = Reader::new(bytes);
    T::read(&mut reader).filter(|_| reader.is_empty())
}

fn write_number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

macro_rules! unsigned {
    ($($ty:ident)*) => {$(
        impl Stored for $ty {
            #[inline]
            fn write(&self, out: &mut Vec<u8>) {
                write_number(*self as u64, out);
            }

            #[inline]
            fn read(from: &mut Reader<'_>) -> Option<Self> {
                from.number()?.try_into().ok()
            }

            fn describe(_: &mut Description) -> String {
                stringify!($ty).into()
            }
        }
    )*};
}

unsigned! { u8 u16 u32 u64 usize }

macro_rules! signed {
    ($($ty:ident)*) => {$(
        impl Stored for $ty {
            #[inline]
            fn write(&self, out: &mut Vec<u8>) {
                let value = *self as i64;
                write_number((value << 1 ^ value >> 63) as u64, out);
            }

            #[inline]
            fn read(from: &mut Reader<'_>) -> Option<Self> {
                let folded = from.number()?;
                ((folded >> 1) as i64 ^ -((folded & 1) as i64)).try_into().ok()
            }

            fn describe(_: &mut Description) -> String {
                stringify!($ty).into()
            }
        }
    )*};
}

signed! { i64 isize }

impl Stored for bool {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        match from.bytes(1)? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn describe(_: &mut Description) -> String {
        "bool".into()
    }
}

impl Stored for String {
    fn write(&self, out: &mut Vec<u8>) {
        write_number(self.len() as u64, out);
        out.extend_from_slice(self.as_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let len = from.len()?;
        std::str::from_utf8(from.bytes(len)?).ok().map(Self::from)
    }

    fn describe(_: &mut Description) -> String {
        "text".into()
    }
}

fn write_sequence<T: Stored>(items: &[T], out: &mut Vec<u8>) {
    write_number(items.len() as u64, out);
    items.iter().for_each(|it| it.write(out));
}

/// The maximal number of elements for which memory is reserved before the first one is read, because a length may be
/// wrong.
const MAX_ROOM: usize = 1 << 12;

macro_rules! sequences {
    ($([$($size:tt)*] $ty:ty),*) => {$(
        impl<T: Stored $($size)*> Stored for $ty {
            fn write(&self, out: &mut Vec<u8>) {
                write_sequence(self, out);
            }

            fn read(from: &mut Reader<'_>) -> Option<Self> {
                from.nested(|from| {
                    let len = from.len()?;
                    let mut all = Self::with_capacity(len.min(MAX_ROOM));
                    for _ in 0..len {
                        all.push(T::read(from)?);
                    }
                    Some(all)
                })
            }

            fn describe(types: &mut Description) -> String {
                format!("[{}]", T::describe(types))
            }
        }
    )*};
}

sequences! { [] Vec<T>, [, const N: usize] SmallVec<[T; N]> }

impl<T: Stored> Stored for Arc<T> {
    fn write(&self, out: &mut Vec<u8>) {
        (**self).write(out);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        T::read(from).map(Self::new)
    }

    fn describe(types: &mut Description) -> String {
        T::describe(types)
    }
}

impl<T: Stored> Stored for Box<T> {
    fn write(&self, out: &mut Vec<u8>) {
        (**self).write(out);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        from.nested(T::read).map(Self::new)
    }

    fn describe(types: &mut Description) -> String {
        T::describe(types)
    }
}

impl<T: Stored> Stored for Option<T> {
    fn write(&self, out: &mut Vec<u8>) {
        self.is_some().write(out);
        if let Some(it) = self {
            it.write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        if bool::read(from)? { T::read(from).map(Some) } else { Some(None) }
    }

    fn describe(types: &mut Description) -> String {
        format!("{}?", T::describe(types))
    }
}

macro_rules! tuples {
    ($(($($ty:ident $at:tt),*);)*) => {$(
        impl<$($ty: Stored),*> Stored for ($($ty,)*) {
            fn write(&self, out: &mut Vec<u8>) {
                $(self.$at.write(out);)*
            }

            fn read(from: &mut Reader<'_>) -> Option<Self> {
                Some(($($ty::read(from)?,)*))
            }

            fn describe(types: &mut Description) -> String {
                format!("({})", [$($ty::describe(types)),*].join(", "))
            }
        }
    )*};
}

tuples! { (A 0, B 1); (A 0, B 1, C 2); }

/// Implements [`Stored`] for a struct by its fields, or for an enum by its variants with their tags. The declaration
/// must name everything, so that an addition is not forgotten.
#[doc(hidden)]
#[macro_export]
macro_rules! stored {
    ($(struct $ty:ident { $($field:ident: $field_ty:ty),* $(,)? })*) => {$(
        impl $crate::stored::Stored for $ty {
            fn write(&self, out: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($field.write(out);)*
            }

            fn read(from: &mut $crate::stored::Reader<'_>) -> Option<Self> {
                Some(Self { $($field: <$field_ty>::read(from)?),* })
            }

            fn describe(types: &mut $crate::stored::Description) -> String {
                if !types.contains_key(stringify!($ty)) {
                    types.insert(stringify!($ty), String::new());
                    let fields = [$(format!("{}: {}", stringify!($field), <$field_ty>::describe(types))),*];
                    types.insert(stringify!($ty), fields.join(", "));
                }
                stringify!($ty).into()
            }
        }
    )*};
    ($(enum $ty:ident {
        $($tag:literal = $variant:ident $(($($item:ident: $item_ty:ty),*))? $({ $($field:ident: $field_ty:ty),* })?),*
        $(,)?
    })*) => {$(
        impl $crate::stored::Stored for $ty {
            fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $(($($item),*))? $({ $($field),* })? => {
                        out.push($tag);
                        $($($item.write(out);)*)?
                        $($($field.write(out);)*)?
                    })*
                }
            }

            fn read(from: &mut $crate::stored::Reader<'_>) -> Option<Self> {
                Some(match from.bytes(1)?[0] {
                    $($tag => {
                        $($(let $item = <$item_ty>::read(from)?;)*)?
                        $($(let $field = <$field_ty>::read(from)?;)*)?
                        Self::$variant $(($($item),*))? $({ $($field),* })?
                    })*
                    _ => return None,
                })
            }

            fn describe(types: &mut $crate::stored::Description) -> String {
                if !types.contains_key(stringify!($ty)) {
                    types.insert(stringify!($ty), String::new());
                    let variants = [$({
                        let parts: &[String] = &[
                            $($(<$item_ty>::describe(types),)*)?
                            $($(format!("{}: {}", stringify!($field), <$field_ty>::describe(types)),)*)?
                        ];
                        format!("{} = {}({})", $tag, stringify!($variant), parts.join(", "))
                    }),*];
                    types.insert(stringify!($ty), variants.join(" | "));
                }
                stringify!($ty).into()
            }
        }
    )*};
}

impl<T: Stored> Stored for [T; 2] {
    fn write(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|it| it.write(out));
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some([T::read(from)?, T::read(from)?])
    }

    fn describe(types: &mut Description) -> String {
        format!("[{}; 2]", T::describe(types))
    }
}

/// Implements [`Stored`] through a value that represents the type, and its inverse, which returns `None` for
/// invalid values.
#[doc(hidden)]
#[macro_export]
macro_rules! stored_as {
    ($($ty:ty as $inner:ty: |$value:ident| $of:expr, |$stored:ident| $back:expr;)*) => {$(
        impl $crate::stored::Stored for $ty {
            fn write(&self, out: &mut Vec<u8>) {
                let $value = self;
                $crate::stored::Stored::write(&$of, out);
            }

            fn read(from: &mut $crate::stored::Reader<'_>) -> Option<Self> {
                let $stored = <$inner as $crate::stored::Stored>::read(from)?;
                $back
            }

            fn describe(types: &mut $crate::stored::Description) -> String {
                let inner = <$inner as $crate::stored::Stored>::describe(types);
                types.insert(stringify!($ty), inner);
                stringify!($ty).into()
            }
        }
    )*};
}

#[doc(hidden)]
pub use {stored, stored_as};

mod types;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, Debug)]
    struct Leaf {
        a: u16,
        b: Option<i64>,
    }

    #[derive(Clone, PartialEq, Debug)]
    enum Node {
        None,
        One(Leaf, String),
        Many { all: Vec<Node>, last: bool },
    }

    stored! { struct Leaf { a: u16, b: Option<i64> } }
    stored! { enum Node { 0 = None, 1 = One(leaf: Leaf, name: String), 7 = Many { all: Vec<Node>, last: bool } } }

    fn sample() -> Node {
        let leaf = |a, b| Leaf { a, b };
        let one = |leaf| Node::One(leaf, "né".into());
        let all = vec![one(leaf(0, None)), Node::None, one(leaf(u16::MAX, Some(i64::MIN)))];
        Node::Many { all: vec![Node::Many { all, last: true }], last: false }
    }

    fn bytes(value: &impl Stored) -> Vec<u8> {
        let mut out = Vec::new();
        value.write(&mut out);
        out
    }

    #[test]
    fn what_is_written_is_read() {
        let all = bytes(&sample());
        assert_eq!(read_all::<Node>(&all), Some(sample()));
        for number in [0, 1, -1, 63, 64, -64, -65, i64::MAX, i64::MIN] {
            assert_eq!(read_all::<i64>(&bytes(&number)), Some(number));
            assert_eq!(read_all::<u64>(&bytes(&(number as u64))), Some(number as u64));
        }
        for len in 0..all.len() {
            assert_eq!(read_all::<Node>(&all[..len]), None, "{len} bytes");
        }
    }

    #[test]
    fn other_bytes_are_no_value() {
        assert_eq!(read_all::<u8>(&bytes(&256u64)), None);
        assert_eq!(read_all::<u64>(&[0xff; 10]), None, "more than 64 bits");
        assert_eq!(read_all::<u64>(&[0x80; 11]), None);
        assert_eq!(read_all::<bool>(&[2]), None);
        assert_eq!(read_all::<String>(&[1, 0xff]), None);
        assert_eq!(read_all::<Node>(&[3]), None, "no variant has this tag");
        assert_eq!(read_all::<Vec<u8>>(&bytes(&u64::MAX)), None, "longer than what is left");
        let deep = [[7, 1]; MAX_DEPTH + 1].concat();
        assert_eq!(read_all::<Node>(&deep), None, "too deep");
    }

    #[test]
    fn types_describe_themselves() {
        let mut types = Description::new();
        assert_eq!(Vec::<Node>::describe(&mut types), "[Node]");
        let all: Vec<_> = types.iter().map(|(name, parts)| format!("{name} {parts}")).collect();
        let want = "0 = None() | 1 = One(Leaf, text) | 7 = Many(all: [Node], last: bool)";
        assert_eq!(all, ["Leaf a: u16, b: i64?".to_owned(), format!("Node {want}")]);
    }
}
