//! Names the paths of cells in their model, such as `Gpt.blocks[3].attn`, for messages.
//!
//! A cell is identified by its type and address. The first cell that is called while tracing is a root, and the cells
//! inside it are named relative to it.

use super::arg::{CellId, Name, Sink, Visitor};
use super::cell::join;
use ms_ops::tensor::{Parameter, Tensor};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::rc::Rc;

/// The cells that occur in a trace.
#[derive(Default)]
struct Known {
    trace: u64,
    paths: FxHashMap<CellId, Rc<str>>,
}

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

/// Returns the path of the cell whose method is called, in the trace with this number. `sign` visits the arguments.
/// Returns `None` if the call is not of a method of a cell.
pub fn cell_path(trace: u64, sign: impl Fn(&mut Sink<'_>)) -> Option<Rc<str>> {
    let root = receiver(&sign)?;
    // Taken out, because visiting an argument may run code that is itself traced.
    let mut known = KNOWN.take();
    if known.trace != trace {
        known = Known { trace, paths: FxHashMap::default() };
    }
    if !known.paths.contains_key(&root) {
        let mut namer = Namer { root, inside: false, path: Vec::new(), paths: &mut known.paths };
        sign(&mut Sink::new(&mut namer));
    }
    let path = known.paths.get(&root).cloned();
    KNOWN.set(known);
    path
}

/// Returns the cell that is `self` in a call. `sign` visits the arguments.
pub fn receiver(sign: impl Fn(&mut Sink<'_>)) -> Option<CellId> {
    let mut receiver = Receiver { here: false, found: None };
    sign(&mut Sink::new(&mut receiver));
    receiver.found
}

/// Finds the cell that is `self`.
struct Receiver {
    here: bool,
    found: Option<CellId>,
}

impl Visitor for Receiver {
    fn tensor(&mut self, _: &Tensor) {}

    fn parameter(&mut self, _: &Parameter) {}

    fn fixed(&mut self, _: u64) {}

    fn argument(&mut self, name: &'static str) {
        self.here = name == "self";
    }

    fn cell(&mut self, cell: CellId) {
        if self.here {
            self.found = Some(cell);
            self.here = false;
        }
    }

    fn begin(&mut self, _: Name<'_>) {
        // Parts of `self` are not `self`.
        self.here = false;
    }
}

/// Names everything inside a root.
struct Namer<'a> {
    root: CellId,
    inside: bool,
    path: Vec<String>,
    paths: &'a mut FxHashMap<CellId, Rc<str>>,
}

impl Visitor for Namer<'_> {
    fn tensor(&mut self, _: &Tensor) {}

    fn parameter(&mut self, _: &Parameter) {}

    fn fixed(&mut self, _: u64) {}

    fn argument(&mut self, _: &'static str) {
        self.inside = false;
    }

    fn cell(&mut self, cell: CellId) {
        if cell == self.root && self.path.is_empty() {
            self.inside = true;
            self.path.push(cell.name().to_owned());
        }
        if self.inside {
            self.paths.entry(cell).or_insert_with(|| join(&self.path).into());
        }
    }

    fn begin(&mut self, name: Name<'_>) {
        if self.inside {
            self.path.push(name.to_string());
        }
    }

    fn end(&mut self) {
        if self.inside {
            self.path.pop();
        }
    }
}
