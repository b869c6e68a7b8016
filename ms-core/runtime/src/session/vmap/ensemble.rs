//! Maps lists of cells over lanes.

use super::Vmap;
use crate::session::call::JitReturn;
use crate::session::{Function, TracedArguments};
use ms_ir::MapVec;
use ms_ir::error::{Code, Error, OrRaise, Result};
use ms_ops::tensor::{Parameter, Tensor, Type};
use ms_trace::trace::{Callable, Cell, Sink, Visitor};
use std::panic::Location;

/// A cell that represents all cells of a list.
pub struct Member<'c, C>(&'c C);

#[diagnostic::do_not_recommend]
impl<Args, C: Callable<Args>> Callable<Args> for Member<'_, C> {
    type Output = C::Output;

    fn call_with(&self, arguments: Args) -> C::Output {
        self.0.call_with(arguments)
    }
}

/// Calls cells of one kind as one function: lane `i` calls cell `i`, as in a model ensemble.
///
/// Arguments are mapped like those of [`vmap`](fn@super::vmap), with one lane per cell. With `in_axes(None)` all cells
/// get the same arguments. The parameters of the cells are stacked at every call, and a write of a lane writes the
/// parameter of its cell.
///
/// ```
/// use ms_core::{Parameter, Tensor, ops, session::vmap_cells, tensor};
/// use ms_core::trace::{Arg, Callable, Cell, Sink};
/// struct Scale(Parameter);
/// impl Arg for Scale {
///     fn visit(&self, sink: &mut Sink<'_>) {
///         sink.parameter(&self.0);
///     }
/// }
/// impl Cell for Scale {}
/// impl Callable<(&Tensor,)> for Scale {
///     type Output = Tensor;
///     fn call_with(&self, (x,): (&Tensor,)) -> Tensor {
///         ops::mul(x, &self.0)
///     }
/// }
/// let cells = [2.0f32, 3.0].map(|it| Scale(Parameter::new(Tensor::from(it), "factor")));
/// assert_eq!(vmap_cells(&cells)(&tensor![10.0, 10.0]).to_vec::<f32>(), [20.0, 30.0]);
/// ```
///
/// # Errors
/// Raises [`Code::Ensemble`] for an empty list, and for cells that differ in more than the values of their parameters.
#[track_caller]
pub fn vmap_cells<'c, Args, C>(cells: &'c [C]) -> Args::Transformed<'c, Vmap<Member<'c, C>>>
where
    Args: TracedArguments,
    C: Cell,
    Member<'c, C>: Function<Args, Output: JitReturn + 'c>,
{
    let first = cells.first().ok_or_else(|| refusal("a list of no cells has no lanes".into()));
    let (first, stacks) = first.and_then(|it| Ok((it, stacks(cells)?))).or_raise();
    Args::transformed(Vmap::new(Member(first), stacks, Location::caller()))
}

fn refusal(message: String) -> Error {
    let help = "the cells of a list that is mapped differ in the values of their parameters only";
    Error::new(Code::Ensemble, message).with_op("vmap").help(help)
}

/// Returns the parameters of cells of the same structure, by their position in the cell.
fn stacks<C: Cell>(cells: &[C]) -> Result<Vec<Vec<Parameter>>> {
    let forms: Vec<Form> = cells.map_vec(Form::of);
    for (at, form) in forms.iter().enumerate().skip(1) {
        if let Some(difference) = forms[0].difference(form) {
            return Err(refusal(format!("cell {at} differs from cell 0: {difference}")));
        }
    }
    let stack = |place: usize| forms.map_vec(|it| it.parameters[place].clone());
    Ok((0..forms[0].parameters.len()).map(stack).filter(|it| it.iter().any(|own| *own != it[0])).collect())
}

/// The structure of a cell.
#[derive(Default)]
struct Form {
    parameters: Vec<Parameter>,
    types: Vec<Type>,
    tensors: Vec<usize>,
    fixed: Vec<u64>,
}

impl Form {
    fn of(cell: &impl Cell) -> Self {
        let mut form = Self::default();
        cell.visit(&mut Sink::new(&mut form));
        form
    }

    /// Describes the difference from another structure.
    fn difference(&self, other: &Self) -> Option<String> {
        if self.fixed != other.fixed || self.types.len() != other.types.len() {
            return Some("a field has another value".into());
        }
        if self.tensors != other.tensors {
            return Some("it holds other tensors; what differs between lanes is a parameter".into());
        }
        let (mine, theirs) = self.types.iter().zip(&other.types).find(|(mine, theirs)| mine != theirs)?;
        Some(format!("a parameter is {theirs}, not {mine}"))
    }
}

impl Visitor for Form {
    fn tensor(&mut self, tensor: &Tensor) {
        self.tensors.push(tensor.identity());
    }

    fn parameter(&mut self, parameter: &Parameter) {
        // A slot that occurs twice in a cell is one slot.
        let first = self.parameters.iter().position(|it| it == parameter);
        self.fixed.push(first.unwrap_or(self.parameters.len()) as u64);
        if first.is_none() {
            self.parameters.push(parameter.clone());
            self.types.push(parameter.load().ty());
        }
    }

    fn fixed(&mut self, bits: u64) {
        self.fixed.push(bits);
    }
}
