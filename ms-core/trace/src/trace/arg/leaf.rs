//! Implements arguments without parts: tensors, parameters, host values.

use super::{Arg, ComputeDType, Sink, Training, Tree};
use ms_cache::Digest;
use ms_ops::tensor::{Parameter, Tensor};
use std::hash::{Hash, Hasher};
use std::ops::Deref;

#[diagnostic::do_not_recommend]
impl Arg for Training {
    #[inline]
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.training(self);
    }
}

#[diagnostic::do_not_recommend]
impl Arg for ComputeDType {
    #[inline]
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.compute_dtype(self);
    }
}

/// A host value that never changes. It is hashed once, when it is created. Compiled functions treat two of them as
/// equal if their [`Hash`] is, of which 256 bits are stored.
///
/// ```
/// use ms_core::{Tensor, ops, session, tensor, trace::Frozen};
/// let scaled = session::jit(|x: &Tensor, factors: &Frozen<Vec<u8>>| ops::mul(x, factors[0] as i64));
/// assert_eq!(scaled(&tensor![3.0], &Frozen::new(vec![2u8])).item::<f32>(), 6.0);
/// ```
#[derive(Clone, Debug)]
pub struct Frozen<T> {
    value: T,
    digest: [u64; 4],
}

impl<T: Hash> Frozen<T> {
    /// Wraps and hashes the value.
    pub fn new(value: T) -> Self {
        let mut shown = Shown(Vec::new());
        value.hash(&mut shown);
        let digest = shown.digest();
        Self { value, digest }
    }
}

/// The bytes that a value hashes.
struct Shown(Vec<u8>);

impl Shown {
    fn digest(&self) -> [u64; 4] {
        let digest = Digest::of(&self.0);
        let (words, _) = digest.as_bytes().as_chunks::<8>();
        std::array::from_fn(|at| u64::from_le_bytes(words[at]))
    }
}

impl Hasher for Shown {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        self.digest()[0]
    }
}

impl<T> Deref for Frozen<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

#[diagnostic::do_not_recommend]
impl<T> Arg for Frozen<T> {
    #[inline]
    fn visit(&self, sink: &mut Sink<'_>) {
        self.digest.iter().for_each(|&word| sink.fixed(word));
    }
}

#[diagnostic::do_not_recommend]
impl Arg for Tensor {
    #[inline]
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.tensor(self);
    }

    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        Some(Box::new(next(self)))
    }
}

#[diagnostic::do_not_recommend]
impl Tree for Tensor {
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        next(self)
    }

    fn store(&self, _: &mut Vec<u64>) -> bool {
        true
    }

    fn restore(_: &mut dyn Iterator<Item = u64>, next: &mut dyn FnMut() -> Option<Tensor>) -> Option<Self> {
        next()
    }
}

#[diagnostic::do_not_recommend]
impl Arg for Parameter {
    #[inline]
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.parameter(self);
    }
}

/// Visits the slot of the generator's state.
#[diagnostic::do_not_recommend]
impl Arg for ms_ops::ops::random::Generator {
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.parameter(self.state());
    }
}

#[diagnostic::do_not_recommend]
impl Arg for ms_ops::ops::FloatStatus {
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.parameter(self.state());
    }
}

#[diagnostic::do_not_recommend]
impl Arg for ms_ops::ops::Reduction {
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.fixed(*self as u64);
    }
}

macro_rules! fixed {
    ($show:ident; $($ty:ty => |$it:ident| $bits:expr, |$word:ident| $back:expr;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl Arg for $ty {
            #[inline]
            fn visit(&self, sink: &mut Sink<'_>) {
                let $it = *self;
                sink.$show($bits);
            }
        }
        #[diagnostic::do_not_recommend]
        impl Tree for $ty {
            fn rebuild(&self, _: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
                *self
            }

            fn store(&self, words: &mut Vec<u64>) -> bool {
                let $it = *self;
                words.push($bits);
                true
            }

            fn restore(
                words: &mut dyn Iterator<Item = u64>,
                _: &mut dyn FnMut() -> Option<Tensor>,
            ) -> Option<Self> {
                let $word = words.next()?;
                $back
            }
        }
    )*};
}

fixed! {
    float;
    f32 => |it| it.to_bits() as u64, |word| Some(Self::from_bits(word as u32));
    f64 => |it| it.to_bits(), |word| Some(Self::from_bits(word));
}

fixed! {
    fixed;
    bool => |it| it as u64, |word| Some(word != 0);
    char => |it| it as u64, |word| Self::from_u32(word as u32);
    i8 => |it| it as u64, |word| Some(word as i8);
    i16 => |it| it as u64, |word| Some(word as i16);
    i32 => |it| it as u64, |word| Some(word as i32);
    i64 => |it| it as u64, |word| Some(word as i64);
    isize => |it| it as u64, |word| Some(word as isize);
    u8 => |it| it as u64, |word| Some(word as u8);
    u16 => |it| it as u64, |word| Some(word as u16);
    u32 => |it| it as u64, |word| Some(word as u32);
    u64 => |it| it, |word| Some(word);
    usize => |it| it as u64, |word| Some(word as usize);
    ms_ops::tensor::DType => |it| it as u64, |word| Self::ALL.get(word as usize).copied();
    () => |_it| 0, |_word| Some(());
}

/// Visits a string: its length and its bytes, eight at a time.
fn visit_str(text: &str, sink: &mut Sink<'_>) {
    sink.fixed(text.len() as u64);
    for chunk in text.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sink.fixed(u64::from_le_bytes(word));
    }
}

#[diagnostic::do_not_recommend]
impl Arg for str {
    fn visit(&self, sink: &mut Sink<'_>) {
        visit_str(self, sink);
    }
}

#[diagnostic::do_not_recommend]
impl Arg for String {
    fn visit(&self, sink: &mut Sink<'_>) {
        visit_str(self, sink);
    }
}

#[diagnostic::do_not_recommend]
impl Tree for String {
    fn rebuild(&self, _: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.clone()
    }

    fn store(&self, words: &mut Vec<u64>) -> bool {
        words.push(self.len() as u64);
        words.extend(self.bytes().map(u64::from));
        true
    }

    fn restore(words: &mut dyn Iterator<Item = u64>, _: &mut dyn FnMut() -> Option<Tensor>) -> Option<Self> {
        let len = words.next()?;
        let bytes = (0..len).map(|_| words.next().map(|it| it as u8)).collect::<Option<Vec<u8>>>()?;
        Self::from_utf8(bytes).ok()
    }
}
