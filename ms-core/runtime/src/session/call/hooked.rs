//! Calls cells with hooks.

use super::Sign;
use ms_ir::error::{Code, Error, Result, raise};
use ms_ops::ops::{GradientHook, hook_backward};
use ms_ops::tensor::{Parameter, SlotId, Tensor};
use ms_trace::trace::{
    Arg, CellId, Hook, Name, Sink, Tree, Visitor, generation, hooks_of, hooks_refused, leaves, receiver,
};
use std::sync::Arc;

/// The hooks of a cell during an eager call of it.
pub(super) struct Hooked {
    hooks: Vec<Arc<Hook>>,
    /// The tensors of the arguments.
    given: Vec<Tensor>,
    /// The tensors that replace the arguments' tensors in the body.
    inputs: Vec<Tensor>,
    /// Whether each tensor has been substituted.
    entered: Vec<bool>,
}

/// Returns the hooks of the cell whose method is called; `sign` visits the arguments.
fn found(sign: Sign<'_>) -> Vec<Arc<Hook>> {
    if generation() == 0 {
        return Vec::new();
    }
    let parameters = || {
        let mut own = Own { of_self: false, parameters: Vec::new() };
        sign(&mut Sink::new(&mut own));
        own.parameters
    };
    receiver(sign).map_or_else(Vec::new, |cell| hooks_of(cell, parameters))
}

/// The parameters of `self`.
struct Own {
    of_self: bool,
    parameters: Vec<SlotId>,
}

impl Visitor for Own {
    fn tensor(&mut self, _: &Tensor) {}

    fn parameter(&mut self, parameter: &Parameter) {
        if self.of_self {
            self.parameters.push(parameter.id());
        }
    }

    fn fixed(&mut self, _: u64) {}

    fn argument(&mut self, name: &'static str) {
        self.of_self = name == "self";
    }
}

/// Checks that a compiled call is not of a cell with hooks.
///
/// # Errors
/// [`Code::Hook`].
pub(super) fn check_unhooked(name: &str, sign: Sign<'_>) -> Result<()> {
    if found(sign).is_empty() { Ok(()) } else { Err(hooks_refused(name)) }
}

impl Hooked {
    /// Prepares a call: runs the hooks that precede it. Returns `None` if there are no hooks.
    #[track_caller]
    pub fn of(sign: Sign<'_>) -> Option<Self> {
        let hooks = found(sign);
        if hooks.is_empty() {
            return None;
        }
        let mut arguments = Arguments { given: Vec::new(), of_self: false, cell: None, depth: 0 };
        sign(&mut Sink::new(&mut arguments));
        let given = arguments.given;
        let mut inputs = given.clone();
        for hook in &hooks {
            match &**hook {
                Hook::ForwardPre(hook) => inputs = replaced(hook(&inputs), inputs),
                Hook::Backward(hook) => see_gradients(hook, &mut inputs),
                Hook::Forward(_) | Hook::BackwardPre(_) => {}
            }
        }
        let entered = vec![false; given.len()];
        Some(Self { hooks, given, inputs, entered })
    }

    /// Returns an argument for the body; `None` if it is the caller's own.
    pub fn enter<T: Arg + ?Sized>(&mut self, arg: &T) -> Option<Box<T>> {
        arg.enter(&mut |it| {
            let next =
                (0..self.given.len()).find(|&at| !self.entered[at] && self.given[at].identity() == it.identity());
            next.map_or_else(
                || it.clone(),
                |at| {
                    self.entered[at] = true;
                    self.inputs[at].clone()
                },
            )
        })
    }

    /// Raises an error if a hook replaced tensors inside an argument that cannot be substituted.
    #[track_caller]
    pub fn check_entered(&self) {
        let is_missing = |at: usize| !self.entered[at] && self.given[at].identity() != self.inputs[at].identity();
        if (0..self.given.len()).any(is_missing) {
            raise(
                Error::new(Code::Hook, "a hook cannot replace a tensor behind a reference inside of an argument")
                    .help("take `&Option<Tensor>` instead of `Option<&Tensor>`, or only look at the tensors"),
            );
        }
    }

    /// Returns the result of the call after the hooks that follow it.
    #[track_caller]
    pub fn leave<T: Tree>(&self, result: T) -> T {
        let mut results = leaves(&result);
        for hook in &self.hooks {
            match &**hook {
                Hook::Forward(hook) => results = replaced(hook(&self.inputs, &results), results),
                Hook::BackwardPre(hook) => see_gradients(hook, &mut results),
                Hook::ForwardPre(_) | Hook::Backward(_) => {}
            }
        }
        let mut results = results.into_iter();
        result.rebuild(&mut |it| results.next().unwrap_or_else(|| it.clone()))
    }
}

/// Returns the tensors with which a hook replaced others, or the old ones.
#[track_caller]
fn replaced(given: Option<Vec<Tensor>>, old: Vec<Tensor>) -> Vec<Tensor> {
    match given {
        Some(new) if new.len() == old.len() => new,
        Some(new) => raise(
            Error::new(Code::Argument, format!("a hook gives {} tensors in the place of {}", new.len(), old.len()))
                .help("return one for each, or `None` to leave them"),
        ),
        None => old,
    }
}

fn see_gradients(hook: &GradientHook, tensors: &mut [Tensor]) {
    for tensor in tensors.iter_mut().filter(|it| it.dtype().is_float()) {
        *tensor = hook_backward(&*tensor, hook);
    }
}

/// The tensors of arguments, excluding `self` and tensors in cells.
struct Arguments {
    given: Vec<Tensor>,
    of_self: bool,
    /// The nesting depth of the enclosing cell.
    cell: Option<usize>,
    depth: usize,
}

impl Visitor for Arguments {
    fn tensor(&mut self, tensor: &Tensor) {
        if !self.of_self && self.cell.is_none() {
            self.given.push(tensor.clone());
        }
    }

    fn parameter(&mut self, _: &Parameter) {}

    fn fixed(&mut self, _: u64) {}

    fn argument(&mut self, name: &'static str) {
        self.of_self = name == "self";
        self.cell = None;
    }

    fn cell(&mut self, _: CellId) {
        self.cell.get_or_insert(self.depth);
    }

    fn begin(&mut self, _: Name<'_>) {
        self.depth += 1;
    }

    fn end(&mut self) {
        self.depth -= 1;
        if self.cell.is_some_and(|it| it > self.depth) {
            self.cell = None;
        }
    }
}
