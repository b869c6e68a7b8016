//! Represents structures as dynamic values, by which overloads of [`MultitypeFuncGraph`](super::MultitypeFuncGraph) are
//! selected.

use crate::trace::tuples_of;
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, Result};
use ms_ops::tensor::{Parameter, Tensor};
use std::collections::BTreeMap;
use std::fmt;

/// A structure of tensors, parameters and host values.
///
/// See the example of [`MultitypeFuncGraph`](super::MultitypeFuncGraph).
#[derive(Clone, Debug)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// A parameter.
    Parameter(Parameter),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A string.
    Str(String),
    /// A tuple.
    Tuple(Vec<Value>),
    /// A vector or an array.
    List(Vec<Value>),
    /// A map, in the order of its keys.
    Dict(Vec<(String, Value)>),
}

/// A number among host values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
}

impl Number {
    /// Returns the number as a float.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(it) => it as f64,
            Self::Float(it) => it,
        }
    }
}

impl Value {
    /// Returns the kind, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Tensor(_) => "Tensor",
            Self::Parameter(_) => "Parameter",
            Self::Int(_) => "Int",
            Self::Float(_) => "Float",
            Self::Bool(_) => "Bool",
            Self::Str(_) => "String",
            Self::Tuple(_) => "Tuple",
            Self::List(_) => "List",
            Self::Dict(_) => "Dict",
        }
    }

    /// Returns the parts of a tuple, a list or a dictionary.
    pub(super) fn parts(&self) -> Option<Vec<&Value>> {
        match self {
            Self::Tuple(parts) | Self::List(parts) => Some(parts.iter().collect()),
            Self::Dict(parts) => Some(parts.map_vec(|it| &it.1)),
            _ => None,
        }
    }

    /// Returns this structure with other parts.
    pub(super) fn with_parts(&self, parts: Vec<Value>) -> Value {
        match self {
            Self::Dict(keys) => Self::Dict(keys.iter().map(|it| it.0.clone()).zip(parts).collect()),
            Self::List(_) => Self::List(parts),
            _ => Self::Tuple(parts),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(it) => write!(f, "Tensor {}", it.ty()),
            other => f.write_str(other.kind()),
        }
    }
}

/// A structure that [`HyperMap`](super::HyperMap) can traverse: tensors, parameters, numbers,
/// bools, strings, and tuples, vectors, arrays and maps of them.
#[diagnostic::on_unimplemented(
    message = "`HyperMap` cannot run over `{Self}`",
    note = "it runs over tensors, parameters, numbers, bools, strings, and tuples, vectors, arrays and maps of them"
)]
pub trait Structure {
    /// Converts the structure to a dynamic value.
    fn value(&self) -> Value;
}

/// A [`Structure`] that can be built from a dynamic value.
pub trait FromValue: Sized {
    /// Returns the structure; `None` if the value is of another kind.
    fn from_value(value: Value) -> Option<Self>;
}

/// Converts the result of a function to the requested type.
///
/// # Errors
/// [`Code::Argument`] if it is of another type.
pub(super) fn convert<T: FromValue>(value: Value) -> Result<T> {
    let kind = value.to_string();
    T::from_value(value).ok_or_else(|| {
        let message = format!("the result is {kind}, not `{}`", std::any::type_name::<T>());
        Error::new(Code::Argument, message).with_op("HyperMap").help("name the type of the result: `call_as::<R>(..)`")
    })
}

macro_rules! leaves {
    ($($ty:ty: $variant:ident, |$it:ident| $into:expr, |$from:ident| $back:expr;)*) => {$(
        impl Structure for $ty {
            fn value(&self) -> Value {
                let $it = self;
                Value::$variant($into)
            }
        }
        impl FromValue for $ty {
            fn from_value(value: Value) -> Option<Self> {
                match value {
                    Value::$variant($from) => $back,
                    _ => None,
                }
            }
        }
    )*};
}

leaves! {
    Tensor: Tensor, |it| it.clone(), |it| Some(it);
    Parameter: Parameter, |it| it.clone(), |it| Some(it);
    bool: Bool, |it| *it, |it| Some(it);
    i32: Int, |it| *it as i64, |it| it.try_into().ok();
    i64: Int, |it| *it, |it| Some(it);
    usize: Int, |it| *it as i64, |it| it.try_into().ok();
    f32: Float, |it| *it as f64, |it| Some(it as f32);
    f64: Float, |it| *it, |it| Some(it);
    String: Str, |it| it.clone(), |it| Some(it);
}

impl Structure for Value {
    fn value(&self) -> Value {
        self.clone()
    }
}

impl FromValue for Value {
    fn from_value(value: Value) -> Option<Self> {
        Some(value)
    }
}

impl Structure for str {
    fn value(&self) -> Value {
        Value::Str(self.to_owned())
    }
}

impl<T: Structure + ?Sized> Structure for &T {
    fn value(&self) -> Value {
        (**self).value()
    }
}

impl<T: Structure> Structure for [T] {
    fn value(&self) -> Value {
        Value::List(self.map_vec(T::value))
    }
}

impl<T: Structure> Structure for Vec<T> {
    fn value(&self) -> Value {
        self[..].value()
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::List(parts) => parts.into_iter().map(T::from_value).collect(),
            _ => None,
        }
    }
}

impl<T: Structure, const N: usize> Structure for [T; N] {
    fn value(&self) -> Value {
        self[..].value()
    }
}

impl<T: FromValue, const N: usize> FromValue for [T; N] {
    fn from_value(value: Value) -> Option<Self> {
        Vec::from_value(value)?.try_into().ok()
    }
}

impl<T: Structure> Structure for BTreeMap<String, T> {
    fn value(&self) -> Value {
        Value::Dict(self.iter().map(|(key, it)| (key.clone(), it.value())).collect())
    }
}

impl<T: FromValue> FromValue for BTreeMap<String, T> {
    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Dict(parts) => parts.into_iter().map(|(key, it)| Some((key, T::from_value(it)?))).collect(),
            _ => None,
        }
    }
}

macro_rules! tuples {
    ($(($($t:ident $i:tt),*);)*) => {$(
        impl<$($t: Structure),*> Structure for ($($t,)*) {
            fn value(&self) -> Value {
                Value::Tuple(vec![$(self.$i.value()),*])
            }
        }
        impl<$($t: FromValue),*> FromValue for ($($t,)*) {
            fn from_value(value: Value) -> Option<Self> {
                let Value::Tuple(parts) = value else { return None };
                let mut parts = parts.into_iter();
                let tuple = ($($t::from_value(parts.next()?)?,)*);
                parts.next().is_none().then_some(tuple)
            }
        }
    )*};
}

tuples! { (); }
tuples_of!(tuples);
