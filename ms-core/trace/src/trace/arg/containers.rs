//! Implements arguments with parts: references, lists, options, maps, tuples.

use super::{Arg, Name, Sink, Tree};
use crate::trace::tuples_of;
use ms_ir::MapVec;
use ms_ops::tensor::Tensor;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::hash::BuildHasher;
use std::marker::PhantomData;
use std::sync::Arc;

#[diagnostic::do_not_recommend]
impl<T: Arg + ?Sized> Arg for &T {
    fn visit(&self, sink: &mut Sink<'_>) {
        (**self).visit(sink);
    }
}

/// A shared value: its tensors and parameters have the same identity in every occurrence.
#[diagnostic::do_not_recommend]
impl<T: Arg + ?Sized> Arg for Arc<T> {
    fn visit(&self, sink: &mut Sink<'_>) {
        (**self).visit(sink);
    }
}

#[diagnostic::do_not_recommend]
impl<T: ?Sized> Arg for PhantomData<T> {
    fn visit(&self, _: &mut Sink<'_>) {}
}

/// The maximal number of elements of a stored list.
const MAX_STORED: u64 = 1 << 20;

fn visit_all<'a, T: Arg + 'a>(items: impl ExactSizeIterator<Item = &'a T>, sink: &mut Sink<'_>) {
    sink.fixed(items.len() as u64);
    for (i, item) in items.enumerate() {
        sink.begin(Name::Index(i));
        item.visit(sink);
        sink.end();
    }
}

/// Enters every item; `None` if the items enter unchanged.
fn enter_all<T: Arg>(items: &[T], next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Vec<T>> {
    items.iter().map(|it| it.enter(next).map(|it| *it)).collect()
}

#[diagnostic::do_not_recommend]
impl<T: Arg> Arg for [T] {
    fn visit(&self, sink: &mut Sink<'_>) {
        visit_all(self.iter(), sink);
    }

    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        enter_all(self, next).map(Vec::into_boxed_slice)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Arg> Arg for Vec<T> {
    fn visit(&self, sink: &mut Sink<'_>) {
        visit_all(self.iter(), sink);
    }

    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        enter_all(self, next).map(Box::new)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Tree> Tree for Vec<T> {
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.map_vec(|it| it.rebuild(next))
    }

    fn as_template(&self) -> Self {
        self.map_vec(T::as_template)
    }

    fn store(&self, words: &mut Vec<u64>) -> bool {
        words.push(self.len() as u64);
        self.iter().all(|it| it.store(words))
    }

    fn restore(words: &mut dyn Iterator<Item = u64>, next: &mut dyn FnMut() -> Option<Tensor>) -> Option<Self> {
        // Elements may have no words, so nothing else limits their number.
        let len = words.next().filter(|&it| it <= MAX_STORED)?;
        (0..len).map(|_| T::restore(words, next)).collect()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Arg, const N: usize> Arg for [T; N] {
    fn visit(&self, sink: &mut Sink<'_>) {
        visit_all(self.iter(), sink);
    }

    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        enter_all(self, next).and_then(|it| it.try_into().ok()).map(Box::new)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Tree, const N: usize> Tree for [T; N] {
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        std::array::from_fn(|i| self[i].rebuild(next))
    }

    fn as_template(&self) -> Self {
        self.each_ref().map(T::as_template)
    }

    fn store(&self, words: &mut Vec<u64>) -> bool {
        self.iter().all(|it| it.store(words))
    }

    fn restore(words: &mut dyn Iterator<Item = u64>, next: &mut dyn FnMut() -> Option<Tensor>) -> Option<Self> {
        let all: Option<Vec<T>> = (0..N).map(|_| T::restore(words, next)).collect();
        all?.try_into().ok()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Arg> Arg for Option<T> {
    fn visit(&self, sink: &mut Sink<'_>) {
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

#[diagnostic::do_not_recommend]
impl<T: Tree> Tree for Option<T> {
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.as_ref().map(|it| it.rebuild(next))
    }

    fn as_template(&self) -> Self {
        self.as_ref().map(T::as_template)
    }

    fn store(&self, words: &mut Vec<u64>) -> bool {
        words.push(self.is_some() as u64);
        self.as_ref().is_none_or(|it| it.store(words))
    }

    fn restore(words: &mut dyn Iterator<Item = u64>, next: &mut dyn FnMut() -> Option<Tensor>) -> Option<Self> {
        if words.next()? == 0 { Some(None) } else { T::restore(words, next).map(Some) }
    }
}

#[diagnostic::do_not_recommend]
impl<T: Arg + ?Sized> Arg for Box<T> {
    fn visit(&self, sink: &mut Sink<'_>) {
        (**self).visit(sink);
    }

    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        (**self).enter(next).map(Box::new)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Tree> Tree for Box<T> {
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        Box::new((**self).rebuild(next))
    }

    fn as_template(&self) -> Self {
        Box::new((**self).as_template())
    }

    fn store(&self, words: &mut Vec<u64>) -> bool {
        (**self).store(words)
    }

    fn restore(words: &mut dyn Iterator<Item = u64>, next: &mut dyn FnMut() -> Option<Tensor>) -> Option<Self> {
        T::restore(words, next).map(Self::new)
    }
}

/// Visits entries in the order of their keys, as in a [`BTreeMap`].
#[diagnostic::do_not_recommend]
impl<T: Arg, S: BuildHasher + Clone + Default> Arg for HashMap<String, T, S> {
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.fixed(self.len() as u64);
        for (key, item) in sorted(self) {
            key.visit(sink);
            sink.begin(Name::Key(key));
            item.visit(sink);
            sink.end();
        }
    }

    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        let entries = sorted(self).into_iter().map(|(key, it)| Some((key.clone(), *it.enter(next)?)));
        entries.collect::<Option<Self>>().map(Box::new)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Tree, S: BuildHasher + Clone + Default> Tree for HashMap<String, T, S> {
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        sorted(self).into_iter().map(|(key, it)| (key.clone(), it.rebuild(next))).collect()
    }

    fn as_template(&self) -> Self {
        self.iter().map(|(key, it)| (key.clone(), it.as_template())).collect()
    }
}

fn sorted<T, S>(map: &HashMap<String, T, S>) -> Vec<(&String, &T)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|it| it.0);
    entries
}

/// Visits the keys as part of the version's key. They also name the values: `map["w"]`.
#[diagnostic::do_not_recommend]
impl<K: Arg + Clone + Ord + Debug, T: Arg> Arg for BTreeMap<K, T> {
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.fixed(self.len() as u64);
        for (key, item) in self {
            key.visit(sink);
            sink.begin(Name::Key(key));
            item.visit(sink);
            sink.end();
        }
    }

    fn enter(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Option<Box<Self>> {
        let entries = self.iter().map(|(key, it)| Some((key.clone(), *it.enter(next)?)));
        entries.collect::<Option<Self>>().map(Box::new)
    }
}

#[diagnostic::do_not_recommend]
impl<K: Arg + Clone + Ord + Debug, T: Tree> Tree for BTreeMap<K, T> {
    fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.iter().map(|(key, it)| (key.clone(), it.rebuild(next))).collect()
    }

    fn as_template(&self) -> Self {
        self.iter().map(|(key, it)| (key.clone(), it.as_template())).collect()
    }
}

macro_rules! tuples {
    ($(($($t:ident $i:tt),+);)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<$($t: Arg + Clone),+> Arg for ($($t,)+) {
            fn visit(&self, sink: &mut Sink<'_>) {
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
        #[diagnostic::do_not_recommend]
        impl<$($t: Tree),+> Tree for ($($t,)+) {
            fn rebuild(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
                ($(self.$i.rebuild(next),)+)
            }

            fn as_template(&self) -> Self {
                ($(self.$i.as_template(),)+)
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

tuples_of!(tuples);
