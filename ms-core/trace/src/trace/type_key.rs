//! Identifies the types of functions, closures and layers, which distinguish monomorphisations.

use rustc_hash::{FxBuildHasher, FxHashMap};
use std::any::{TypeId, type_name};
use std::hash::BuildHasher;
use std::sync::{PoisonError, RwLock};

/// The type of a function or closure, which identifies a monomorphisation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TypeKey {
    id: TypeId,
    name: &'static str,
}

impl TypeKey {
    /// Returns the key of a type.
    #[inline]
    pub fn of<T: ?Sized>() -> Self {
        Self { id: typeid::of::<T>(), name: type_name::<T>() }
    }

    /// Returns the type id, ignoring lifetimes.
    #[inline]
    pub fn id(self) -> TypeId {
        self.id
    }

    /// Returns a hash, equal for equal types. Lookups still compare ids.
    #[inline]
    pub fn hash(self) -> u64 {
        FxBuildHasher.hash_one(self.id)
    }

    /// Returns a number that is unique in this process.
    pub fn number(self) -> u64 {
        static NUMBERS: RwLock<FxHashMap<TypeId, u64>> = RwLock::new(FxHashMap::with_hasher(FxBuildHasher));
        let known = NUMBERS.read().unwrap_or_else(PoisonError::into_inner).get(&self.id).copied();
        known.unwrap_or_else(|| {
            let mut numbers = NUMBERS.write().unwrap_or_else(PoisonError::into_inner);
            let next = numbers.len() as u64;
            *numbers.entry(self.id).or_insert(next)
        })
    }

    /// Formats the type as text that is equal in every process of one build, and different for every other type.
    pub fn text(self) -> String {
        format!("{} {:?}", self.name, self.id)
    }

    /// Returns the name of the type.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns the path of the function; for a closure, the path of the enclosing function.
    pub fn path(self) -> &'static str {
        self.name.strip_suffix("::{{closure}}").unwrap_or(self.name)
    }
}

/// Returns the key of the type of `value`.
#[inline]
pub fn type_key<T: ?Sized>(_: &T) -> TypeKey {
    TypeKey::of::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts of types are different, even if their names are equal.
    #[test]
    fn types_are_told_apart() {
        let closures = [type_key(&|| 1), type_key(&|| 2)];
        assert_eq!(closures[0].name(), closures[1].name());
        assert_eq!(closures[0].path(), closures[1].path());
        let all = [closures[0], closures[1], TypeKey::of::<u8>(), TypeKey::of::<str>()];
        for (at, one) in all.iter().enumerate() {
            for other in &all[..at] {
                assert!(one.number() != other.number() && one.text() != other.text() && one != other);
            }
            assert_eq!(one.number(), one.number());
        }
        // The text has 128 bits, the hash 64.
        let digits = all[3].text().split("0x").nth(1).map(|it| it.trim_end_matches(')').len());
        assert_eq!(digits, Some(32), "{}", all[3].text());
    }
}
