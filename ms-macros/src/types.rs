//! Derives facts about values from type annotations.

use proc_macro2::Ident;
use syn::{GenericArgument, PathArguments, Type};

/// The kind of a value, as far as the syntax shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// A host value.
    Host,
    /// A value of a named type that is not a function.
    Object,
    /// A tensor or a parameter.
    Tensor,
    /// Nothing is known; the type decides.
    Nothing,
}

/// Types with host values only, if their type arguments are such types as well.
const HOST_TYPES: &[&str] = &[
    "bool", "char", "str", "String", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128",
    "usize", "f32", "f64", "Option", "Vec", "Box", "DType", "Duration", "Instant", "Ordering",
];

/// Types about which the last type argument decides.
const CONTAINERS: &[&str] = &["Option", "Vec", "VecDeque", "BTreeMap", "HashMap"];

/// Returns the last name of a type that is a path.
pub fn last_name(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Path(it) => it.path.segments.last().map(|it| &it.ident),
        _ => None,
    }
}

/// Returns the kind of the values of a type annotation.
pub fn known_type(ty: &Type) -> Known {
    match ty {
        _ if is_host_type(ty) => Known::Host,
        Type::Reference(it) => known_type(&it.elem),
        Type::Slice(it) => parts(&it.elem),
        Type::Array(it) => parts(&it.elem),
        _ if last_name(ty).is_some_and(|it| it == "Tensor" || it == "Parameter") => Known::Tensor,
        Type::Path(it) => match it.path.segments.last() {
            Some(last) if CONTAINERS.iter().any(|name| last.ident == name) => match &last.arguments {
                PathArguments::AngleBracketed(it) => match it.args.last() {
                    Some(GenericArgument::Type(ty)) => parts(ty),
                    _ => Known::Nothing,
                },
                _ => Known::Nothing,
            },
            Some(last) if names_object(&last.ident) => Known::Object,
            _ => Known::Nothing,
        },
        _ => Known::Nothing,
    }
}

/// Returns the kind of a container with this element type. A slice of tensors is not a tensor.
fn parts(ty: &Type) -> Known {
    Some(known_type(ty)).filter(|it| *it == Known::Object).unwrap_or(Known::Nothing)
}

/// Whether the name is the name of a type that is not a pointer, a container or a type parameter. Those may be
/// functions, or hold one.
pub fn names_object(name: &Ident) -> bool {
    let name = name.to_string();
    let is_holder = ["Box", "Rc", "Arc"].iter().chain(CONTAINERS).any(|it| *it == name);
    name.len() > 1 && name.starts_with(char::is_uppercase) && !is_holder
}

/// Whether values of the type are certainly host values.
pub fn is_host_type(ty: &Type) -> bool {
    match ty {
        Type::Reference(it) => is_host_type(&it.elem),
        Type::Paren(it) => is_host_type(&it.elem),
        Type::Array(it) => is_host_type(&it.elem),
        Type::Slice(it) => is_host_type(&it.elem),
        Type::Tuple(it) => it.elems.iter().all(is_host_type),
        Type::Path(it) => it.path.segments.last().is_some_and(|last| {
            let arguments = match &last.arguments {
                PathArguments::None => true,
                PathArguments::AngleBracketed(it) => {
                    it.args.iter().all(|it| matches!(it, GenericArgument::Type(ty) if is_host_type(ty)))
                }
                PathArguments::Parenthesized(_) => false,
            };
            arguments && HOST_TYPES.iter().any(|name| last.ident == name)
        }),
        _ => false,
    }
}
