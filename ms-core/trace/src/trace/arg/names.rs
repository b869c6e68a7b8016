//! Names the tensors and parameters of arguments for dumps.

use super::{CellId, Name, Sink, Visitor};
use ms_ops::tensor::{Parameter, SlotId, Tensor};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::OnceCell;
use std::fmt::Write;
use std::sync::Arc;

/// The names of the tensors and parameters among the arguments of a call.
///
/// A name is the path of a value from the arguments on: `x`, `batch[0]`, `state.hidden`. A value in a cell has its path
/// in the cell, `fc1.weight`, as in [`Cell::named_parameters`]. If two cells have a parameter with the same path, the
/// path begins with the argument. Values in `self`, and in arguments without a known name, have no such prefix.
///
/// [`Cell::named_parameters`]: crate::trace::Cell::named_parameters
#[derive(Default)]
pub struct ArgumentNames {
    /// All paths, concatenated.
    text: String,
    tensors: Vec<(Tensor, Span)>,
    /// The parameters in the order of visits, including repeated ones.
    parameters: Vec<(SlotId, Span)>,
    /// The index of each parameter's first visit. Built on the first lookup if there are more than [`FEW`].
    places: OnceCell<FxHashMap<SlotId, usize>>,
}

/// The maximum number of parameters that are searched linearly.
const FEW: usize = 16;

/// A path in the text.
#[derive(Clone, Copy)]
struct Span {
    begin: usize,
    /// The start of the path inside the outermost cell.
    inner: usize,
    end: usize,
}

impl ArgumentNames {
    /// Collects the names of the values that `sign` visits.
    pub fn of(sign: impl Fn(&mut Sink<'_>)) -> Self {
        let mut paths = Paths::default();
        sign(&mut Sink::new(&mut paths));
        let Paths { mut names, cells, .. } = paths;
        if cells > 1 {
            names.disambiguate();
        }
        names
    }

    /// Returns the tensors in the order of visits.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &Tensor> {
        self.tensors.iter().map(|it| &it.0)
    }

    /// Returns the name of the tensor at a position.
    pub fn tensor(&self, at: usize) -> Option<Arc<str>> {
        self.name(self.tensors[at].1)
    }

    /// Returns the name of a parameter.
    pub fn parameter(&self, id: SlotId) -> Option<Arc<str>> {
        let place = if self.parameters.len() <= FEW {
            self.parameters.iter().position(|it| it.0 == id)?
        } else {
            *self.places.get_or_init(|| self.places()).get(&id)?
        };
        self.name(self.parameters[place].1)
    }

    /// Returns the index of each parameter's first visit.
    fn places(&self) -> FxHashMap<SlotId, usize> {
        let mut places = FxHashMap::with_capacity_and_hasher(self.parameters.len(), Default::default());
        self.parameters.iter().enumerate().for_each(|(at, it)| {
            places.entry(it.0).or_insert(at);
        });
        places
    }

    /// Returns the name of a span. A path without an argument may begin with an index, which is not a name.
    fn name(&self, span: Span) -> Option<Arc<str>> {
        let begins = [span.inner, span.begin].into_iter();
        let mut paths = begins.map(|begin| &self.text[begin..span.end]);
        paths.find(|it| !it.is_empty() && !it.starts_with('[')).map(Into::into)
    }

    /// Prefixes paths in cells with the argument if parameters of several cells share them.
    fn disambiguate(&mut self) {
        let mut met: FxHashSet<&str> = FxHashSet::default();
        let mut repeated: FxHashSet<&str> = FxHashSet::default();
        for at in self.places().into_values() {
            let span = self.parameters[at].1;
            let path = &self.text[span.inner..span.end];
            if !met.insert(path) {
                repeated.insert(path);
            }
        }
        for (_, span) in &mut self.parameters {
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
    /// The path of the current value, and its length before each of its parts.
    path: String,
    parts: Vec<usize>,
    /// The outermost enclosing cell: the number of parts of its path, and the length of its path.
    cell: Option<(usize, usize)>,
    /// The number of outermost cells.
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
        let span = self.span();
        self.names.parameters.push((parameter.id(), span));
    }

    fn fixed(&mut self, _: u64) {}

    fn argument(&mut self, name: &'static str) {
        self.path.clear();
        self.parts.clear();
        self.cell = None;
        // Arguments of a closure have no names, and are described by their positions.
        if name != "self" && !name.contains(' ') {
            self.path.push_str(name);
        }
    }

    fn cell(&mut self, _: CellId) {
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

    /// [`Arg`] as a trait object.
    trait Show {
        fn show(&self, sink: &mut Sink<'_>);
    }

    impl<T: Arg> Show for T {
        fn show(&self, sink: &mut Sink<'_>) {
            self.visit(sink);
        }
    }

    type Shown<'a> = &'a [(&'static str, &'a dyn Show)];

    /// A cell with these parts.
    struct Net<'a>(Shown<'a>);

    impl Arg for Net<'_> {
        fn visit(&self, sink: &mut Sink<'_>) {
            sink.cell("Net", self);
            Parts(self.0).visit(sink);
        }
    }

    /// These parts outside of a cell.
    struct Parts<'a>(Shown<'a>);

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
        let (first, second): (Shown<'_>, Shown<'_>) = (&[("net", &dense)], &[("net", &other)]);
        let nets = vec![Parts(first), Parts(second)];
        // The expected names of the tensors and of the three parameters.
        let cases: [(Shown<'_>, &str, &str); 11] = [
            (&[("x", &t), ("y", &u)], "x y", "- - -"),
            (&[("batch", &pair)], "batch[0] batch[1][0] batch[1][1]", "- - -"),
            (&[("s", &state)], "s.h s.inner[0] s.inner[1][0] s.inner[1][1]", "- - -"),
            (&[("m", &map)], "m[\"w\"]", "- - -"),
            (&[("w", &v), ("again", &v)], "", "w - -"),
            (&[("self", &net), ("x", &t)], "fc1.table x", "fc1.weight fc2.weight fc2.bias"),
            (&[("net", &net), ("x", &t)], "fc1.table x", "fc1.weight fc2.weight fc2.bias"),
            // Two models: the shared name is qualified in both.
            (&[("a", &dense), ("b", &other)], "table", "a.weight b.weight bias"),
            (&[("self", &dense), ("b", &other)], "table", "weight b.weight bias"),
            (&[("nets", &nets)], "table", "nets[0].net.weight nets[1].net.weight bias"),
            // Closures.
            (
                &[("argument a", &t), ("argument b", &pair), ("argument c", &state), ("argument d", &dense)],
                "- - - - h inner[0] inner[1][0] inner[1][1] table",
                "weight - -",
            ),
        ];
        for (shown, tensors, parameters) in cases {
            let names = ArgumentNames::of(|sink| {
                for (name, it) in shown {
                    sink.argument(name);
                    it.show(sink);
                }
            });
            let join = |names: Vec<Option<Arc<str>>>| {
                let names: Vec<String> = names.into_iter().map(|it| it.as_deref().unwrap_or("-").to_owned()).collect();
                names.join(" ")
            };
            assert_eq!(join((0..names.tensors().len()).map(|at| names.tensor(at)).collect()), tensors);
            assert_eq!(join([&v, &w, &b].map(|it| names.parameter(it.id())).into()), parameters);
        }
    }
}
