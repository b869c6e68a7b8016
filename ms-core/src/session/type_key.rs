//! The types of functions and closures, which tell monomorphisations apart.

use std::any::{TypeId, type_name};
use std::hash::{Hash, Hasher};

/// The type of a function or closure: tells monomorphisations apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeKey {
    id: TypeId,
    name: &'static str,
}

impl TypeKey {
    /// The key as a number, equal for equal types within a process.
    pub fn bits(self) -> u64 {
        let mut hasher = rustc_hash::FxHasher::default();
        self.id.hash(&mut hasher);
        hasher.finish()
    }

    /// The name of the type.
    pub(super) fn name(self) -> &'static str {
        self.name
    }

    /// The path of the function; of a closure, that of the function around it.
    pub fn path(self) -> &'static str {
        path(self.name)
    }
}

/// The path of the function with this type name.
pub(super) fn path(name: &'static str) -> &'static str {
    name.strip_suffix("::{{closure}}").unwrap_or(name)
}

/// The key of the type of `value`.
pub fn type_key<T: ?Sized>(_: &T) -> TypeKey {
    TypeKey { id: typeid::of::<T>(), name: type_name::<T>() }
}
