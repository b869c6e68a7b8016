//! What tensors and parameters among arguments are called in dumps.

use super::{Name, Sink, Visitor};
use crate::tensor::{Parameter, SlotId, Tensor};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Write;
use std::sync::Arc;

/// The names of the tensors and parameters that a call shows.
///
/// A name is the path of a value from the arguments on: `x`, `batch[0]`, `state.hidden`. What lies
/// in a cell has its path in the cell, `fc1.weight`, as in [`Cell::named_parameters`]; only where
/// two cells have a parameter of one path, that path begins with the argument. What lies in `self`
/// is named without it, and so is what lies in an argument of which the name is not known.
///
/// [`Cell::named_parameters`]: crate::trace::Cell::named_parameters
#[derive(Default)]
pub struct ArgumentNames {
    /// All paths, one behind the other.
    text: String,
    tensors: Vec<(Tensor, Span)>,
    parameters: FxHashMap<SlotId, Span>,
}

/// A path in the text.
#[derive(Clone, Copy)]
struct Span {
    begin: usize,
    /// Where the path in the outermost cell begins.
    inner: usize,
    end: usize,
}

impl ArgumentNames {
    /// The names of what `sign` shows.
    pub fn of(sign: impl Fn(&mut Sink<'_>)) -> Self {
        let mut paths = Paths::default();
        sign(&mut Sink::new(&mut paths));
        let Paths { mut names, cells, .. } = paths;
        if cells > 1 {
            names.tell_apart();
        }
        names
    }

    /// The tensors in the order in which they are shown, each with its name.
    pub fn tensors(&self) -> impl Iterator<Item = (&Tensor, Option<Arc<str>>)> {
        self.tensors.iter().map(|(tensor, span)| (tensor, self.name(*span)))
    }

    /// The name of a parameter.
    pub fn parameter(&self, id: SlotId) -> Option<Arc<str>> {
        self.name(*self.parameters.get(&id)?)
    }

    /// A path without an argument at its beginning may begin with an index, which is no name.
    fn name(&self, span: Span) -> Option<Arc<str>> {
        let begins = [span.inner, span.begin].into_iter();
        let mut paths = begins.map(|begin| &self.text[begin..span.end]);
        paths.find(|it| !it.is_empty() && !it.starts_with('[')).map(Into::into)
    }

    /// Lets paths in cells begin with the argument where parameters of several cells have the same.
    fn tell_apart(&mut self) {
        let mut met: FxHashSet<&str> = FxHashSet::default();
        let mut repeated: FxHashSet<&str> = FxHashSet::default();
        for span in self.parameters.values() {
            let path = &self.text[span.inner..span.end];
            if !met.insert(path) {
                repeated.insert(path);
            }
        }
        for span in self.parameters.values_mut() {
            if repeated.contains(&self.text[span.inner..span.end]) {
                span.inner = span.begin;
            }
        }
    }
}

/// Collects names.
#[derive(Default)]
struct Paths {
    names: ArgumentNames,
    /// The path of what is shown now, and where it ended before each of its parts.
    path: String,
    parts: Vec<usize>,
    /// The outermost cell around it: how many parts the path of the cell has, and its length.
    cell: Option<(usize, usize)>,
    /// How many outermost cells there are.
    cells: usize,
}

impl Paths {
    fn span(&mut self) -> Span {
        let begin = self.names.text.len();
        self.names.text.push_str(&self.path);
        let outside = self.cell.map_or(0, |it| it.1);
        let dot = usize::from(outside > 0 && self.path[outside..].starts_with('.'));
        Span { begin, inner: begin + outside + dot, end: self.names.text.len() }
    }
}

impl Visitor for Paths {
    fn tensor(&mut self, tensor: &Tensor) {
        let span = self.span();
        self.names.tensors.push((tensor.clone(), span));
    }

    fn parameter(&mut self, parameter: &Parameter) {
        if !self.names.parameters.contains_key(&parameter.id()) {
            let span = self.span();
            self.names.parameters.insert(parameter.id(), span);
        }
    }

    fn fixed(&mut self, _: u64) {}

    fn argument(&mut self, name: &'static str) {
        self.path.clear();
        self.parts.clear();
        self.cell = None;
        // Of the arguments of a closure only the positions are known, which are told in words.
        if name != "self" && !name.contains(' ') {
            self.path.push_str(name);
        }
    }

    fn cell(&mut self, _: &'static str, _: usize) {
        if self.cell.is_none() {
            self.cell = Some((self.parts.len(), self.path.len()));
            self.cells += 1;
        }
    }

    fn begin(&mut self, name: Name<'_>) {
        self.parts.push(self.path.len());
        match name {
            Name::Field(name) => {
                if !self.path.is_empty() {
                    self.path.push('.');
                }
                self.path.push_str(name);
            }
            other => write!(self.path, "{other}").expect("a string takes any text"),
        }
    }

    fn end(&mut self) {
        if let Some(len) = self.parts.pop() {
            self.path.truncate(len);
        }
        if self.cell.is_some_and(|it| it.0 > self.parts.len()) {
            self.cell = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Arg;

    /// [`Arg`] as an object.
    trait Show {
        fn show(&self, sink: &mut Sink<'_>);
    }

    impl<T: Arg> Show for T {
        fn show(&self, sink: &mut Sink<'_>) {
            self.visit(sink);
        }
    }

    /// A cell with these parts.
    struct Net<'a>(&'a [(&'a str, &'a dyn Show)]);

    impl Arg for Net<'_> {
        fn visit(&self, sink: &mut Sink<'_>) {
            sink.cell("Net", std::ptr::from_ref(self).addr());
            Parts(self.0).visit(sink);
        }
    }

    /// The same, that is none.
    struct Parts<'a>(&'a [(&'a str, &'a dyn Show)]);

    impl Arg for Parts<'_> {
        fn visit(&self, sink: &mut Sink<'_>) {
            for (name, part) in self.0 {
                sink.begin(Name::Field(name));
                part.show(sink);
                sink.end();
            }
        }
    }

    #[test]
    fn names_are_paths() {
        let (t, u) = (Tensor::scalar(1.0), Tensor::scalar(2.0));
        let [v, w, b] = ["", "", "given"].map(|it| Parameter::new(Tensor::scalar(1.0), it));
        let pair = (t.clone(), vec![u.clone(), t.clone()]);
        let map = std::collections::BTreeMap::from([("w".to_owned(), t.clone())]);
        let dense = Net(&[("weight", &v), ("table", &u)]);
        let other = Net(&[("weight", &w), ("bias", &b)]);
        let net = Net(&[("fc1", &dense), ("fc2", &other)]);
        let state = Parts(&[("h", &t), ("inner", &pair)]);
        let (first, second): ([(&str, &dyn Show); 1], [(&str, &dyn Show); 1]) = ([("net", &dense)], [("net", &other)]);
        let nets = vec![Parts(&first), Parts(&second)];
        type Shown<'a> = &'a [(&'static str, &'a dyn Show)];
        let cases: [(Shown<'_>, &[Option<&str>], [Option<&str>; 3]); 11] = [
            (&[("x", &t), ("y", &u)], &[Some("x"), Some("y")], [None; 3]),
            (&[("batch", &pair)], &[Some("batch[0]"), Some("batch[1][0]"), Some("batch[1][1]")], [None; 3]),
            (
                &[("s", &state)],
                &[Some("s.h"), Some("s.inner[0]"), Some("s.inner[1][0]"), Some("s.inner[1][1]")],
                [None; 3],
            ),
            (&[("m", &map)], &[Some("m[\"w\"]")], [None; 3]),
            (&[("w", &v), ("again", &v)], &[], [Some("w"), None, None]),
            (
                &[("self", &net), ("x", &t)],
                &[Some("fc1.table"), Some("x")],
                [Some("fc1.weight"), Some("fc2.weight"), Some("fc2.bias")],
            ),
            (
                &[("net", &net), ("x", &t)],
                &[Some("fc1.table"), Some("x")],
                [Some("fc1.weight"), Some("fc2.weight"), Some("fc2.bias")],
            ),
            // Two models: one name belongs to both.
            (&[("a", &dense), ("b", &other)], &[Some("table")], [Some("a.weight"), Some("b.weight"), Some("bias")]),
            (&[("self", &dense), ("b", &other)], &[Some("table")], [Some("weight"), Some("b.weight"), Some("bias")]),
            (
                &[("nets", &nets)],
                &[Some("table")],
                [Some("nets[0].net.weight"), Some("nets[1].net.weight"), Some("bias")],
            ),
            // Closures.
            (
                &[("argument a", &t), ("argument b", &pair), ("argument c", &state), ("argument d", &dense)],
                &[
                    None,
                    None,
                    None,
                    None,
                    Some("h"),
                    Some("inner[0]"),
                    Some("inner[1][0]"),
                    Some("inner[1][1]"),
                    Some("table"),
                ],
                [Some("weight"), None, None],
            ),
        ];
        for (shown, tensors, parameters) in cases {
            let names = ArgumentNames::of(|sink| {
                for (name, it) in shown {
                    sink.argument(name);
                    it.show(sink);
                }
            });
            let found: Vec<Option<Arc<str>>> = names.tensors().map(|it| it.1).collect();
            assert_eq!(found.iter().map(Option::as_deref).collect::<Vec<_>>(), tensors);
            assert_eq!([&v, &w, &b].map(|it| names.parameter(it.id())).each_ref().map(Option::as_deref), parameters);
        }
    }
}
