//! Finds the slots of a value and their paths.

use ms_core::Parameter;
use ms_core::tensor::SlotId;
use ms_core::trace::{Arg, CellId, Name, PerParameter, Sink, Visitor};
use ms_core::{Tensor, trace};
use std::collections::HashMap;
use std::fmt::Write;

/// One step of a path.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Step {
    /// A field, with the type of the cell that has it.
    Field { name: String, cell: Option<&'static str> },
    /// An element of a list.
    Index(usize),
    /// A map value, with the `Debug` form of its key.
    Key(String),
    /// Optimiser state of the parameter in this slot, and the number of that parameter among those with state.
    Of(SlotId, usize),
}

/// A slot inside a value.
pub(super) struct Found {
    pub steps: Vec<Step>,
    pub parameter: Parameter,
}

/// Returns every occurrence of a slot in a value, in the order in which [`Arg::visit`] visits them.
pub(super) fn slots(value: &(impl Arg + ?Sized)) -> Vec<Found> {
    let mut walk = Walk::default();
    value.visit(&mut Sink::new(&mut walk));
    walk.found
}

/// Returns the first path of each slot that is not state of another slot, such as `fc1.weight`.
pub(super) fn owners(found: &[Found]) -> HashMap<SlotId, String> {
    let mut owners = HashMap::new();
    for it in found.iter().filter(|it| !it.steps.iter().any(|step| matches!(step, Step::Of(..)))) {
        owners.entry(it.parameter.id()).or_insert_with(|| path(&it.steps, &HashMap::new()));
    }
    owners
}

/// Formats a path, such as `blocks[0].fc.weight`. State of a parameter has the parameter's path as a key,
/// `momentum["fc.weight"]`, or its number if it has no path.
pub(super) fn path(steps: &[Step], owners: &HashMap<SlotId, String>) -> String {
    let mut out = String::new();
    for step in steps {
        match step {
            Step::Field { name, .. } if out.is_empty() => out.push_str(name),
            Step::Field { name, .. } => write!(out, ".{name}").expect("a string takes any text"),
            Step::Index(at) => write!(out, "[{at}]").expect("a string takes any text"),
            Step::Key(key) => write!(out, "[{key}]").expect("a string takes any text"),
            Step::Of(slot, at) => match owners.get(slot) {
                Some(owner) => out.push_str(&state_key(owner)),
                None => write!(out, "[{at}]").expect("a string takes any text"),
            },
        }
    }
    out
}

/// Formats the last step of a path to the state of the parameter at `owner`.
pub(super) fn state_key(owner: &str) -> String {
    format!("[{owner:?}]")
}

/// Creates state for the parameters for which `has` finds an entry. For example, a checkpoint has moments that a new
/// optimiser has not allocated.
pub(super) fn prepare(value: &(impl Arg + ?Sized), found: &[Found], has: &dyn Fn(&str) -> bool) {
    let owners = owners(found);
    let parameters: Vec<&Parameter> = {
        let mut left = owners.clone();
        found.iter().map(|it| &it.parameter).filter(|it| left.remove(&it.id()).is_some()).collect()
    };
    let create = |steps: &[Step], state: &dyn PerParameter| {
        let prefix = path(steps, &owners);
        let stored = |it: &&&Parameter| has(&format!("{prefix}{}", state_key(&owners[&it.id()])));
        let stored: Vec<Parameter> = parameters.iter().filter(stored).map(|it| (*it).clone()).collect();
        if !stored.is_empty() {
            state.prepare(&stored);
        }
    };
    let mut walk = Walk { create: Some(&create), ..Walk::default() };
    value.visit(&mut Sink::new(&mut walk));
}

/// Creates the state at these path steps for [`prepare`].
type Create<'a> = &'a dyn Fn(&[Step], &dyn PerParameter);

#[derive(Default)]
struct Walk<'a> {
    steps: Vec<Step>,
    /// The type of the cell at each step.
    cells: Vec<Option<&'static str>>,
    root: Option<&'static str>,
    found: Vec<Found>,
    create: Option<Create<'a>>,
}

impl Visitor for Walk<'_> {
    fn tensor(&mut self, _: &Tensor) {}

    fn parameter(&mut self, parameter: &Parameter) {
        self.found.push(Found { steps: self.steps.clone(), parameter: parameter.clone() });
    }

    fn fixed(&mut self, _: u64) {}

    fn ty(&mut self, _: trace::TypeKey) {}

    fn per_parameter(&mut self, state: &dyn PerParameter) -> bool {
        if let Some(create) = self.create {
            create(&self.steps, state);
        }
        true
    }

    fn cell(&mut self, cell: CellId) {
        *self.cells.last_mut().unwrap_or(&mut self.root) = Some(cell.name());
    }

    fn begin(&mut self, name: Name<'_>) {
        let cell = *self.cells.last().unwrap_or(&self.root);
        self.steps.push(match name {
            Name::Field(name) => Step::Field { name: name.to_owned(), cell },
            Name::Index(at) => Step::Index(at),
            Name::Key(key) => Step::Key(format!("{key:?}")),
            Name::Of(parameter, at) => Step::Of(parameter.id(), at),
        });
        self.cells.push(None);
    }

    fn end(&mut self) {
        self.steps.pop();
        self.cells.pop();
    }
}
