//! What tells the versions of a compiled function apart.

use super::context::Context;
use crate::error::{Code, Error};
use crate::tensor::{Dim, Parameter, Tensor, Type};
use crate::trace::{Sink, Size, Sizes};
use smallvec::SmallVec;
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

/// The signature of one call: what the compiled code depends on, as words, and the tensors that
/// are inputs. Parameters stand for themselves: a version is bound to its slots.
#[derive(Default)]
pub struct Signature {
    words: SmallVec<[u64; 24]>,
    tensors: SmallVec<[Tensor; 6]>,
    /// What is declared for the tensors that are being shown.
    declared: Option<&'static Sizes>,
    /// The tensors for which sizes are declared.
    sized: SmallVec<[(usize, &'static Sizes); 2]>,
    symbols: SmallVec<[Symbol; 2]>,
    refused: Option<Error>,
}

/// A symbol with the size that this call gives it, and the argument that does.
struct Symbol {
    name: &'static str,
    size: usize,
    argument: &'static str,
}

/// Marks in the words, so that different structures never read the same.
const TENSOR: u64 = 1 << 56;
const PARAMETER: u64 = 2 << 56;
const ALIAS: u64 = 3 << 56;
const SYMBOL: u64 = 4 << 56;

impl Signature {
    /// The signature of a call without arguments.
    pub fn new(monomorph: TypeKey, context: &Context) -> Self {
        let mut signature = Self::default();
        signature.words.push(monomorph.bits());
        let settings = context.precision as u64 | (context.load_elim as u64) << 8 | (context.share_graphs as u64) << 16;
        signature.words.push(settings);
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

    /// The tensors among the arguments, which it has no more.
    pub fn take_tensors(&mut self) -> SmallVec<[Tensor; 6]> {
        std::mem::take(&mut self.tensors)
    }

    /// The types of the tensors, with symbols where sizes are declared to be some.
    pub fn types(&self) -> Vec<Type> {
        let mut types: Vec<Type> = self.tensors.iter().map(Tensor::ty).collect();
        for &(at, sizes) in &self.sized {
            for (dim, size) in types[at].dims.iter_mut().zip(sizes.axes) {
                if let Size::Symbol(name) = size {
                    *dim = Dim::symbol(name);
                }
            }
        }
        types
    }

    /// Why the arguments do not fit what is declared of them, if they do not.
    pub fn refused(&mut self) -> Option<Error> {
        self.refused.take()
    }

    /// Adds the sizes of a tensor for which some are declared.
    fn symbolic(&mut self, shape: &[usize], declared: &'static Sizes) {
        let argument = declared.argument;
        if shape.len() != declared.axes.len() {
            let (has, names) = (shape.len(), declared.axes.len());
            let message = format!("`{argument}` has {has} axes, shape {shape:?}, but `dims` names {names}");
            self.refused.get_or_insert_with(|| Error::new(Code::Sizes, message));
            return;
        }
        self.sized.push((self.tensors.len(), declared));
        for (axis, (&size, declared)) in shape.iter().zip(declared.axes).enumerate() {
            let Size::Symbol(name) = *declared else {
                self.words.push(size as u64);
                continue;
            };
            let at = self.symbols.iter().position(|it| it.name == name).unwrap_or_else(|| {
                self.symbols.push(Symbol { name, size, argument });
                self.symbols.len() - 1
            });
            let known = &self.symbols[at];
            if known.size != size {
                let message = format!(
                    "`{name}` is {} in `{}`, but axis {axis} of `{argument}` has size {size}",
                    known.size, known.argument
                );
                self.refused.get_or_insert_with(|| Error::new(Code::Sizes, message));
            }
            self.words.push(SYMBOL | at as u64);
        }
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
                match self.declared {
                    None => self.words.extend(shape.iter().map(|&size| size as u64)),
                    Some(declared) => self.symbolic(shape, declared),
                }
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

    fn sizes(&mut self, sizes: Option<&'static Sizes>) {
        self.declared = sizes;
    }
}
