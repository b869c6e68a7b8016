//! What compiled functions take and give: values that can be looked into.

use crate::tensor::{Parameter, Tensor};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::BuildHasher;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A value that a compiled function can take: its tensors and parameters become inputs, its
/// other content becomes part of the key.
///
/// Implemented for tensors, parameters, integers, floats, bools, strings and containers of
/// them, by `#[cell]` for networks and by `#[derive(Tree)]` for structures of tensors.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a compiled function or a cell",
    label = "neither tensors nor a host value that can be hashed",
    note = "MS050: derive `Tree` or `Static` for it, wrap it in `Frozen`, or mark the field `#[cell(skip)]`"
)]
pub trait Arg {
    /// Shows everything inside to `sink`, always in the same order.
    fn visit(&self, sink: &mut dyn Sink);

    /// This value with other tensors inside; nothing where the value enters a trace as it is,
    /// because its tensors are found by identity (cells) or there are none.
    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        let _ = next;
        None
    }
}

/// A structure of tensors that can be rebuilt with other tensors in the same places.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a structure of tensors",
    label = "not a tensor, nor a container or structure of tensors",
    note = "MS051: derive `Tree` for it"
)]
pub trait Tree: Arg + Clone {
    /// The same structure; each tensor is replaced by what `next` makes of it, in the order of
    /// [`Arg::visit`].
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self;

    /// Tells what the structure is besides its tensors, as words from which [`Tree::restore`]
    /// makes it again; says whether it can be told.
    fn store(&self, words: &mut Vec<u64>) -> bool {
        let _ = words;
        false
    }

    /// The structure that these words tell, with tensors of `next`; nothing where they tell none,
    /// or where there are too few.
    fn restore(words: &mut dyn Iterator<Item = u64>, next: &mut dyn FnMut() -> Option<Tensor>) -> Option<Self> {
        let _ = (words, next);
        None
    }
}

/// Sees what is inside an [`Arg`].
pub trait Sink {
    /// A tensor.
    fn tensor(&mut self, tensor: &Tensor);

    /// A parameter.
    fn parameter(&mut self, parameter: &Parameter);

    /// A host value, or a part of one: number of elements, discriminant, bits.
    fn fixed(&mut self, bits: u64);

    /// A float, by its bits.
    fn float(&mut self, bits: u64) {
        self.fixed(bits);
    }

    /// Whether a cell trains.
    fn training(&mut self, flag: &Training) {
        self.fixed(flag.get() as u64);
    }

    /// The sizes that are declared for the tensors that follow; nothing for those that are not.
    fn sizes(&mut self, sizes: Option<&'static Sizes>) {
        let _ = sizes;
    }

    /// An argument of a call begins.
    fn argument(&mut self, name: &'static str) {
        let _ = name;
    }

    /// What is shown from here on, up to the end of the part, belongs to a cell of this type at
    /// this address.
    fn cell(&mut self, name: &'static str, address: usize) {
        let _ = (name, address);
    }

    /// A field or an element begins.
    fn begin(&mut self, name: Name<'_>) {
        let _ = name;
    }

    /// It ends.
    fn end(&mut self) {}
}

/// The tensors of a structure, in order.
pub fn leaves(tree: &impl Arg) -> Vec<Tensor> {
    struct Leaves(Vec<Tensor>);
    impl Sink for Leaves {
        fn tensor(&mut self, tensor: &Tensor) {
            self.0.push(tensor.clone());
        }
        fn parameter(&mut self, _: &Parameter) {}
        fn fixed(&mut self, _: u64) {}
    }
    let mut found = Leaves(Vec::new());
    tree.visit(&mut found);
    found.0
}

/// The sizes of an argument, as `#[jit(dims(x = [batch, _]))]` declares them.
#[derive(Debug)]
pub struct Sizes {
    /// The name of the argument.
    pub argument: &'static str,
    /// One for each axis.
    pub axes: &'static [Size],
}

/// The size of one axis of an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// Part of the key: every size compiles a version of its own. Written `_`.
    Fixed,
    /// A symbol, whose size each call fixes. Written as a name.
    Symbol(&'static str),
}

/// The name of a part: `fc1`, or `[3]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// A field.
    Field(&'a str),
    /// An element.
    Index(usize),
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => f.write_str(name),
            Self::Index(i) => write!(f, "[{i}]"),
        }
    }
}

/// Whether a layer trains or evaluates, shared by its clones. Part of the key.
#[derive(Clone, Debug)]
pub struct Training(Arc<AtomicBool>);

impl Training {
    /// Whether it trains.
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets whether it trains.
    pub fn set(&self, yes: bool) {
        self.0.store(yes, Ordering::Relaxed);
    }
}

impl Default for Training {
    /// Training.
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl Arg for Training {
    fn visit(&self, sink: &mut dyn Sink) {
        sink.training(self);
    }
}

/// A host value that never changes: hashed once, when it is made.
#[derive(Clone, Debug)]
pub struct Frozen<T> {
    value: T,
    hash: u64,
}

impl<T: std::hash::Hash> Frozen<T> {
    /// Takes the value.
    pub fn new(value: T) -> Self {
        let hash = rustc_hash::FxBuildHasher.hash_one(&value);
        Self { value, hash }
    }
}

impl<T> Deref for Frozen<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Arg for Frozen<T> {
    fn visit(&self, sink: &mut dyn Sink) {
        sink.fixed(self.hash);
    }
}

impl Arg for Tensor {
    fn visit(&self, sink: &mut dyn Sink) {
        sink.tensor(self);
    }

    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        Some(Box::new(next(self)))
    }
}

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

impl Arg for Parameter {
    fn visit(&self, sink: &mut dyn Sink) {
        sink.parameter(self);
    }
}

impl Arg for crate::ops::FloatStatus {
    fn visit(&self, sink: &mut dyn Sink) {
        sink.parameter(self.state());
    }
}

macro_rules! fixed {
    ($show:ident; $($ty:ty => |$it:ident| $bits:expr, |$word:ident| $back:expr;)*) => {$(
        impl Arg for $ty {
            #[inline]
            fn visit(&self, sink: &mut dyn Sink) {
                let $it = *self;
                sink.$show($bits);
            }
        }
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
    crate::tensor::DType => |it| it as u64, |word| Self::ALL.get(word as usize).copied();
    () => |_it| 0, |_word| Some(());
}

/// Elements of a stored list at most.
const MAX_STORED: u64 = 1 << 20;

/// Shows a string: its length and its bytes, eight at a time.
fn visit_str(text: &str, sink: &mut dyn Sink) {
    sink.fixed(text.len() as u64);
    for chunk in text.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sink.fixed(u64::from_le_bytes(word));
    }
}

impl Arg for str {
    fn visit(&self, sink: &mut dyn Sink) {
        visit_str(self, sink);
    }
}

impl<T: Arg + ?Sized> Arg for &T {
    fn visit(&self, sink: &mut dyn Sink) {
        (**self).visit(sink);
    }
}

/// A value in two places: its tensors and parameters are found by identity in both.
impl<T: Arg + ?Sized> Arg for Arc<T> {
    fn visit(&self, sink: &mut dyn Sink) {
        (**self).visit(sink);
    }
}

impl<T: ?Sized> Arg for PhantomData<T> {
    fn visit(&self, _: &mut dyn Sink) {}
}

impl Arg for String {
    fn visit(&self, sink: &mut dyn Sink) {
        visit_str(self, sink);
    }
}

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

fn visit_all<'a, T: Arg + 'a>(items: impl ExactSizeIterator<Item = &'a T>, sink: &mut dyn Sink) {
    sink.fixed(items.len() as u64);
    for (i, item) in items.enumerate() {
        sink.begin(Name::Index(i));
        item.visit(sink);
        sink.end();
    }
}

/// Enters every item; nothing if the items enter as they are.
fn enter_all<T: Arg>(items: &[T], next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Vec<T>> {
    items.iter().map(|it| it.enter(next).map(|it| *it)).collect()
}

impl<T: Arg> Arg for [T] {
    fn visit(&self, sink: &mut dyn Sink) {
        visit_all(self.iter(), sink);
    }

    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        enter_all(self, next).map(Vec::into_boxed_slice)
    }
}

impl<T: Arg> Arg for Vec<T> {
    fn visit(&self, sink: &mut dyn Sink) {
        visit_all(self.iter(), sink);
    }

    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        enter_all(self, next).map(Box::new)
    }
}

impl<T: Tree> Tree for Vec<T> {
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.iter().map(|it| it.rebuild(next)).collect()
    }

    fn store(&self, words: &mut Vec<u64>) -> bool {
        words.push(self.len() as u64);
        self.iter().all(|it| it.store(words))
    }

    fn restore(words: &mut dyn Iterator<Item = u64>, next: &mut dyn FnMut() -> Option<Tensor>) -> Option<Self> {
        // Elements need not have words of their own, so that nothing else bounds their number.
        let len = words.next().filter(|&it| it <= MAX_STORED)?;
        (0..len).map(|_| T::restore(words, next)).collect()
    }
}

impl<T: Arg, const N: usize> Arg for [T; N] {
    fn visit(&self, sink: &mut dyn Sink) {
        visit_all(self.iter(), sink);
    }

    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        enter_all(self, next).and_then(|it| it.try_into().ok()).map(Box::new)
    }
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        std::array::from_fn(|i| self[i].rebuild(next))
    }

    fn store(&self, words: &mut Vec<u64>) -> bool {
        self.iter().all(|it| it.store(words))
    }

    fn restore(words: &mut dyn Iterator<Item = u64>, next: &mut dyn FnMut() -> Option<Tensor>) -> Option<Self> {
        let all: Option<Vec<T>> = (0..N).map(|_| T::restore(words, next)).collect();
        all?.try_into().ok()
    }
}

impl<T: Arg> Arg for Option<T> {
    fn visit(&self, sink: &mut dyn Sink) {
        sink.fixed(self.is_some() as u64);
        if let Some(it) = self {
            it.visit(sink);
        }
    }

    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        match self {
            Some(it) => it.enter(next).map(|it| Box::new(Some(*it))),
            None => Some(Box::new(None)),
        }
    }
}

impl<T: Tree> Tree for Option<T> {
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.as_ref().map(|it| it.rebuild(next))
    }

    fn store(&self, words: &mut Vec<u64>) -> bool {
        words.push(self.is_some() as u64);
        self.as_ref().is_none_or(|it| it.store(words))
    }

    fn restore(words: &mut dyn Iterator<Item = u64>, next: &mut dyn FnMut() -> Option<Tensor>) -> Option<Self> {
        if words.next()? == 0 { Some(None) } else { T::restore(words, next).map(Some) }
    }
}

impl<T: Arg + ?Sized> Arg for Box<T> {
    fn visit(&self, sink: &mut dyn Sink) {
        (**self).visit(sink);
    }

    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        (**self).enter(next).map(Box::new)
    }
}

impl<T: Tree> Tree for Box<T> {
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        Box::new((**self).rebuild(next))
    }

    fn store(&self, words: &mut Vec<u64>) -> bool {
        (**self).store(words)
    }

    fn restore(words: &mut dyn Iterator<Item = u64>, next: &mut dyn FnMut() -> Option<Tensor>) -> Option<Self> {
        T::restore(words, next).map(Self::new)
    }
}

/// Entries are seen in the order of their keys, as in a [`BTreeMap`].
impl<T: Arg, S: BuildHasher + Clone + Default> Arg for HashMap<String, T, S> {
    fn visit(&self, sink: &mut dyn Sink) {
        sink.fixed(self.len() as u64);
        for (key, item) in sorted(self) {
            key.visit(sink);
            sink.begin(Name::Field(key));
            item.visit(sink);
            sink.end();
        }
    }

    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        let entries = sorted(self).into_iter().map(|(key, it)| Some((key.clone(), *it.enter(next)?)));
        entries.collect::<Option<Self>>().map(Box::new)
    }
}

impl<T: Tree, S: BuildHasher + Clone + Default> Tree for HashMap<String, T, S> {
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        sorted(self).into_iter().map(|(key, it)| (key.clone(), it.rebuild(next))).collect()
    }
}

fn sorted<T, S>(map: &HashMap<String, T, S>) -> Vec<(&String, &T)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|it| it.0);
    entries
}

impl<K: Arg + Clone + Ord, T: Arg> Arg for BTreeMap<K, T> {
    fn visit(&self, sink: &mut dyn Sink) {
        sink.fixed(self.len() as u64);
        for (i, (key, item)) in self.iter().enumerate() {
            key.visit(sink);
            sink.begin(Name::Index(i));
            item.visit(sink);
            sink.end();
        }
    }

    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        let entries = self.iter().map(|(key, it)| Some((key.clone(), *it.enter(next)?)));
        entries.collect::<Option<Self>>().map(Box::new)
    }
}

impl<K: Arg + Clone + Ord, T: Tree> Tree for BTreeMap<K, T> {
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.iter().map(|(key, it)| (key.clone(), it.rebuild(next))).collect()
    }
}

macro_rules! tuples {
    ($(($($t:ident $i:tt),+);)*) => {$(
        impl<$($t: Arg + Clone),+> Arg for ($($t,)+) {
            fn visit(&self, sink: &mut dyn Sink) {
                $(
                    sink.begin(Name::Index($i));
                    self.$i.visit(sink);
                    sink.end();
                )+
            }

            fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
                Some(Box::new(($(self.$i.enter(next).map_or_else(|| self.$i.clone(), |it| *it),)+)))
            }
        }
        impl<$($t: Tree),+> Tree for ($($t,)+) {
            fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
                ($(self.$i.rebuild(next),)+)
            }

            fn store(&self, words: &mut Vec<u64>) -> bool {
                $(self.$i.store(words))&&+
            }

            fn restore(
                words: &mut dyn Iterator<Item = u64>,
                next: &mut dyn FnMut() -> Option<Tensor>,
            ) -> Option<Self> {
                Some(($($t::restore(words, next)?,)+))
            }
        }
    )*};
}

tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
}
