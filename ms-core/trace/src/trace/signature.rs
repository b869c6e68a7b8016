//! Computes signatures, which distinguish the versions of a compiled function.

use super::arg::{Size, Sizes};
use super::type_key::TypeKey;
use ms_ir::MapVec;
use ms_ir::error::{Code, Error};
use ms_ops::tensor::{Dim, Parameter, Tensor, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::any::TypeId;
use std::cell::RefCell;
use std::hash::Hasher;
use std::ops::{Deref, DerefMut};

/// The signature of one call: everything on which the compiled code depends, as words, and the tensors that are inputs.
/// Parameters are identified by their slots, to which a version is bound.
#[derive(Default)]
pub struct Signature {
    words: Vec<u64>,
    /// The types whose hashes are among the words.
    type_ids: SmallVec<[TypeId; 2]>,
    tensors: Vec<Tensor>,
    /// The index of each tensor, by identity. Built only for more than [`FEW`] tensors.
    places: FxHashMap<usize, usize>,
    /// The declaration of the tensors that are being visited.
    declared: Option<&'static Sizes>,
    /// The tensors with declared sizes.
    sized: SmallVec<[(usize, &'static Sizes); 2]>,
    symbols: SmallVec<[Symbol; 2]>,
    refused: Option<Error>,
}

/// A symbol, its size in this call, and the argument that determines it.
struct Symbol {
    name: &'static str,
    size: usize,
    argument: &'static str,
    axis: usize,
}

/// Tags in the words. They ensure that different structures never have equal words.
const TENSOR: u64 = 1 << 56;
const PARAMETER: u64 = 2 << 56;
const TRAINED: u64 = 1 << 55;
const ALIAS: u64 = 3 << 56;
const SYMBOL: u64 = 4 << 56;

/// The maximum number of tensors that are compared one by one to find aliases.
const FEW: usize = 16;

impl Signature {
    /// Returns the words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the types that the words contain only as hashes. Two signatures are equal if both their words and their
    /// types are.
    #[inline]
    pub fn type_ids(&self) -> &[TypeId] {
        &self.type_ids
    }

    /// Returns the tensors among the arguments, in order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Takes the tensors among the arguments.
    pub fn take_tensors(&mut self) -> Vec<Tensor> {
        std::mem::take(&mut self.tensors)
    }

    /// Returns the types of the tensors, with symbols for declared sizes.
    pub fn types(&self) -> Vec<Type> {
        let mut types: Vec<Type> = self.tensors.map_vec(Tensor::ty);
        for &(at, sizes) in &self.sized {
            for (dim, size) in types[at].dims.iter_mut().zip(sizes.axes) {
                if let Size::Symbol(name) = size {
                    *dim = Dim::symbol(name);
                }
            }
        }
        types
    }

    /// Returns the symbols, with the dimension of an argument to which each of them refers.
    pub fn symbols(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        self.symbols.iter().map(|it| (it.name, format!("axis {} of `{}`", it.axis, it.argument)))
    }

    /// Returns the error if the arguments do not match their declaration.
    pub fn refused(&mut self) -> Option<Error> {
        self.refused.take()
    }

    /// Checks the number of axes and the sizes that are declared as numbers. Returns whether they match.
    fn check_declared(&mut self, shape: &[usize], declared: &Sizes) -> bool {
        let argument = declared.argument;
        let message = if shape.len() != declared.axes.len() {
            let (has, names) = (shape.len(), declared.axes.len());
            format!("`{argument}` has {has} axes, shape {shape:?}, but `dims` names {names}")
        } else {
            let mut axes = shape.iter().zip(declared.axes).enumerate();
            let other = axes.find_map(|(axis, (&size, it))| match *it {
                Size::Exact(number) if number != size => Some((axis, size, number)),
                _ => None,
            });
            let Some((axis, size, number)) = other else { return true };
            format!("axis {axis} of `{argument}` has size {size}, but `dims` declares {number}")
        };
        self.refused.get_or_insert_with(|| Error::new(Code::Sizes, message));
        false
    }

    /// Adds the sizes of a tensor with declared sizes.
    fn symbolic(&mut self, shape: &[usize], declared: &'static Sizes) {
        if !self.check_declared(shape, declared) {
            return;
        }
        let argument = declared.argument;
        self.sized.push((self.tensors.len(), declared));
        for (axis, (&size, declared)) in shape.iter().zip(declared.axes).enumerate() {
            let Size::Symbol(name) = *declared else {
                self.words.push(size as u64);
                continue;
            };
            let at = self.symbols.iter().position(|it| it.name == name).unwrap_or_else(|| {
                self.symbols.push(Symbol { name, size, argument, axis });
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

    /// Returns a hash of the words.
    pub fn hash(&self) -> u64 {
        let mut hasher = rustc_hash::FxHasher::default();
        for &word in &self.words {
            hasher.write_u64(word);
        }
        hasher.finish()
    }

    /// Adds a tensor.
    pub fn tensor(&mut self, tensor: &Tensor) {
        // While tracing, two arguments that are one tensor are one input.
        if let Some(first) = self.first(tensor.identity()) {
            self.words.push(ALIAS | first as u64);
            self.tensors.push(tensor.clone());
            if let (Some(declared), Some(array)) = (self.declared, tensor.as_array()) {
                self.check_declared(array.shape(), declared);
            }
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
            // A call inside a trace runs inline without a signature; a traced tensor here has
            // escaped, which the tracer reports.
            None => self.words.push(TENSOR | u32::MAX as u64),
        }
        self.tensors.push(tensor.clone());
    }

    /// Returns the index of the first tensor with that identity, and adds the tensor if there is none.
    #[inline]
    fn first(&mut self, identity: usize) -> Option<usize> {
        if self.tensors.len() < FEW {
            return self.tensors.iter().position(|it| it.identity() == identity);
        }
        if self.places.is_empty() {
            for (at, tensor) in self.tensors.iter().enumerate() {
                self.places.entry(tensor.identity()).or_insert(at);
            }
        }
        let next = self.tensors.len();
        let place = *self.places.entry(identity).or_insert(next);
        (place < next).then_some(place)
    }

    /// Adds a parameter: its slot, and whether it is trainable.
    #[inline]
    pub fn parameter(&mut self, parameter: &Parameter) {
        let trained = if parameter.requires_grad() { TRAINED } else { 0 };
        self.words.push(PARAMETER | trained | parameter.id());
    }

    /// Adds a host value, or a part of one.
    #[inline]
    pub fn fixed(&mut self, bits: u64) {
        self.words.push(bits);
    }

    /// Adds a type.
    #[inline]
    pub fn ty(&mut self, ty: TypeKey) {
        self.words.push(ty.hash());
        self.type_ids.push(ty.id());
    }

    /// Sets the declared sizes of the following tensors.
    pub fn sizes(&mut self, sizes: Option<&'static Sizes>) {
        self.declared = sizes;
    }

    fn clear(&mut self) {
        self.words.clear();
        self.type_ids.clear();
        self.tensors.clear();
        self.places.clear();
        self.declared = None;
        self.sized.clear();
        self.symbols.clear();
        self.refused = None;
    }
}

/// A signature with memory that the thread reuses.
pub struct Pooled(Option<Box<Signature>>);

/// The number of signatures in a thread's pool: nested calls have one each.
const KEPT: usize = 8;

/// The maximal number of words of a pooled signature.
const CACHED_WORDS: usize = 1 << 16;

thread_local! {
    // Boxed, as calls store them, so that moving a call moves one word.
    #[allow(clippy::vec_box)]
    static IDLE: RefCell<Vec<Box<Signature>>> = const { RefCell::new(Vec::new()) };
}

impl Pooled {
    /// Returns an empty signature.
    #[inline]
    pub fn empty() -> Self {
        let idle = IDLE.try_with(|it| it.borrow_mut().pop()).ok().flatten();
        Self(Some(idle.unwrap_or_default()))
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let Some(mut signature) = self.0.take() else { return };
        signature.clear();
        if signature.words.capacity() <= CACHED_WORDS {
            // The pool may already be dropped while the thread ends.
            let _ended = IDLE.try_with(|it| {
                let mut idle = it.borrow_mut();
                if idle.len() < KEPT {
                    idle.push(signature);
                }
            });
        }
    }
}

impl Deref for Pooled {
    type Target = Signature;

    #[inline]
    fn deref(&self) -> &Signature {
        self.0.as_deref().expect("there until it is dropped")
    }
}

impl DerefMut for Pooled {
    #[inline]
    fn deref_mut(&mut self) -> &mut Signature {
        self.0.as_deref_mut().expect("there until it is dropped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signs tensors, of which equal numbers are the same tensor.
    fn sign(numbers: &[usize]) -> Vec<u64> {
        let tensors: Vec<Tensor> = numbers.iter().map(|_| Tensor::scalar(1.0)).collect();
        let mut signature = Pooled::empty();
        for &number in numbers {
            signature.tensor(&tensors[number]);
        }
        assert_eq!(signature.tensors().len(), numbers.len());
        signature.words().to_vec()
    }

    #[test]
    fn the_first_place_of_a_tensor_is_found_among_few_and_many() {
        for count in [2, FEW - 1, FEW, FEW + 1, 5 * FEW] {
            let apart: Vec<usize> = (0..count).collect();
            assert_eq!(sign(&apart), vec![TENSOR | (ms_ops::tensor::DType::F32 as u64) << 32; count]);
            for (from, to) in [(0, count - 1), (count / 2, count - 1), (0, 1)] {
                let mut numbers = apart.clone();
                numbers[to] = from;
                let mut want = sign(&apart);
                want[to] = ALIAS | from as u64;
                if from != to {
                    assert_eq!(sign(&numbers), want, "{to} of {count} is {from}");
                }
            }
        }
    }

    #[test]
    fn a_signature_that_is_used_again_is_empty() {
        let mut first = Pooled::empty();
        (0..3 * FEW).for_each(|_| first.tensor(&Tensor::scalar(1.0)));
        first.fixed(7);
        drop(first);
        let second = Pooled::empty();
        assert!(second.words().is_empty() && second.tensors().is_empty() && second.places.is_empty());
    }
}
