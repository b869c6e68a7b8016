//! What tells the versions of a compiled function apart.

use super::context::Precision;
use crate::tensor::{Parameter, Tensor};
use crate::trace::Sink;
use smallvec::SmallVec;
use std::any::TypeId;
use std::hash::{Hash, Hasher};

/// The type of a function or closure: tells monomorphisations apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeKey(TypeId);

impl TypeKey {
    /// The key as a number, equal for equal types within a process.
    pub fn bits(self) -> u64 {
        let mut hasher = rustc_hash::FxHasher::default();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// The key of the type of `value`.
pub fn type_key<T: ?Sized>(_: &T) -> TypeKey {
    TypeKey(typeid::of::<T>())
}

/// The signature of one call: what the compiled code depends on, as words, and the tensors that
/// are inputs. Parameters stand for themselves: a version is bound to its slots.
#[derive(Default)]
pub struct Signature {
    words: SmallVec<[u64; 24]>,
    tensors: SmallVec<[Tensor; 6]>,
}

/// Marks in the words, so that different structures never read the same.
const TENSOR: u64 = 1 << 56;
const PARAMETER: u64 = 2 << 56;
const ALIAS: u64 = 3 << 56;

impl Signature {
    /// The signature of a call without arguments.
    pub fn new(monomorph: TypeKey, precision: Precision) -> Self {
        let mut signature = Self::default();
        signature.words.push(monomorph.bits());
        signature.words.push(precision as u64);
        signature
    }

    /// The words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The tensors among the arguments, in order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// A hash of the words.
    pub fn hash(&self) -> u64 {
        let mut hasher = rustc_hash::FxHasher::default();
        for &word in &self.words {
            hasher.write_u64(word);
        }
        hasher.finish()
    }
}

impl Sink for Signature {
    fn tensor(&mut self, tensor: &Tensor) {
        // Traced, two places with one tensor are one input.
        if let Some(first) = self.tensors.iter().position(|it| it.identity() == tensor.identity()) {
            self.words.push(ALIAS | first as u64);
            self.tensors.push(tensor.clone());
            return;
        }
        match tensor.as_array() {
            Some(array) => {
                let shape = array.shape();
                self.words.push(TENSOR | (array.dtype() as u64) << 32 | shape.len() as u64);
                self.words.extend(shape.iter().map(|&size| size as u64));
            }
            // A call inside a trace runs inline and is not signed; a traced tensor here has
            // escaped, which the tracer reports.
            None => self.words.push(TENSOR | u32::MAX as u64),
        }
        self.tensors.push(tensor.clone());
    }

    fn parameter(&mut self, parameter: &Parameter) {
        self.words.push(PARAMETER | parameter.id());
    }

    fn fixed(&mut self, bits: u64) {
        self.words.push(bits);
    }
}
