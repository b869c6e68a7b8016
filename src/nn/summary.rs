//! Summaries of networks: cells, parameters, output types and FLOPs.

use crate::prelude::*;
use ms_core::error::raise;
use ms_core::session::{CallObserver, observe_calls, with_context};
use ms_core::tensor::{
    DispatchMode, Dispatcher, Eagerly, OpCall, Outputs, Scalar, SlotId, Type, dispatch_mode, with_dispatcher,
};
use ms_core::trace::{CellId, Name, Sink, Visitor};
use ms_core::{Code, Error};
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::panic::Location;
use std::rc::Rc;

/// One cell of a [`Summary`].
///
/// See the example of [`summary`].
#[derive(Clone, Debug)]
pub struct SummaryRow {
    /// The path from the network, such as `layers[0]`; empty for the network itself.
    pub path: String,
    /// The type of the cell.
    pub cell: &'static str,
    /// The cell's own parameters and buffers, by name.
    pub parameters: Vec<(String, Type)>,
    /// The number of elements of all parameters and buffers in the cell and the cells inside.
    pub elements: usize,
    /// The number of calls.
    pub calls: usize,
    /// The types that the last call returned.
    pub outputs: Vec<Type>,
    /// The floating-point operations of all calls ([`ops::flops`]), including the cells inside.
    pub flops: u64,
    depth: usize,
}

/// The cells of a network with their parameters, output types and FLOPs; the result of [`summary`]. `Display` prints a
/// table.
///
/// See the example of [`summary`].
#[derive(Clone, Debug)]
pub struct Summary {
    /// The cells in field order; the first row is the network.
    pub rows: Vec<SummaryRow>,
    /// The number of elements of trainable parameters.
    pub trained: usize,
    /// The size of all parameters and buffers in bytes.
    pub bytes: usize,
}

/// Runs a network once, op by op in evaluation mode, and lists its cells. Cells of one type without fields, such as
/// activations, are indistinguishable: their calls count for the first of them.
///
/// ```
/// use ms::prelude::*;
/// let net = nn::sequential![nn::Conv2d::new(1, 4, 3), nn::ReLU, nn::Flatten::new(), nn::Dense::new(144, 2)];
/// let summary = nn::summary(&net, |net| net.call(&Tensor::ones([1, 1, 8, 8])));
/// let dense = &summary.rows[4];
/// assert_eq!((dense.path.as_str(), dense.cell, dense.elements), ("layers[3]", "Dense", 144 * 2 + 2));
/// assert_eq!((dense.outputs[0].to_string(), dense.flops), ("f32[1, 2]".into(), 2 * 144 * 2 + 2));
/// println!("{summary}");
/// ```
///
/// # Panics
/// Raises [`Code::Argument`] inside a function that is being compiled or differentiated.
#[track_caller]
pub fn summary<C: Cell, R>(net: &C, run: impl FnOnce(&C) -> R) -> Summary {
    if dispatch_mode() != DispatchMode::Eager {
        let message = "a network is summarised outside of functions that are compiled or differentiated";
        raise(Error::new(Code::Argument, message).with_op("summary"));
    }
    let mut walk = Walk::default();
    net.visit(&mut Sink::new(&mut walk));
    let _modes = Modes(walk.flags.into_iter().map(|it| (it.get(), it)).collect());
    let rows = walk.rows.into_iter().map(|it| it.row).collect();
    let observer =
        Rc::new(Observer { rows: RefCell::new(rows), open: RefCell::default(), applied: std::cell::Cell::default() });
    net.set_train(false);
    let context = Context { jit: false, ..ms_core::session::context() };
    let observed = || observe_calls(observer.clone(), || drop(run(net)));
    with_context(context, || with_dispatcher(observer.clone(), observed));
    let parameters = net.parameters();
    let types: Vec<(Type, bool)> = parameters.iter().map(|it| (it.load().ty(), it.requires_grad())).collect();
    Summary {
        rows: observer.rows.take(),
        trained: types.iter().filter(|it| it.1).map(|it| elements(&it.0)).sum(),
        bytes: types.iter().map(|it| elements(&it.0) * it.0.dtype.size()).sum(),
    }
}

/// The training modes of layers, restored on drop.
struct Modes(Vec<(bool, Training)>);

impl Drop for Modes {
    fn drop(&mut self) {
        self.0.iter().for_each(|(before, flag)| flag.set(*before));
    }
}

fn elements(ty: &Type) -> usize {
    ty.dims.iter().filter_map(|it| it.as_const()).product()
}

/// A row, and the slots in its cell.
struct Found {
    row: SummaryRow,
    slots: HashSet<SlotId>,
}

/// A visitor that lists the cells of a network.
#[derive(Default)]
struct Walk {
    rows: Vec<Found>,
    path: Vec<String>,
    /// The rows of the open cells, with the depths of their paths.
    open: Vec<(usize, usize)>,
    flags: Vec<Training>,
}

/// Joins the steps `a`, `b`, `[0]` to the path `a.b[0]`.
fn joined(path: &[String]) -> String {
    path.iter().fold(String::new(), |all, it| match all.is_empty() || it.starts_with('[') {
        true => all + it,
        false => all + "." + it,
    })
}

impl Visitor for Walk {
    fn tensor(&mut self, _: &Tensor) {}

    fn parameter(&mut self, parameter: &Parameter) {
        let ty = parameter.load().ty();
        for &(row, _) in &self.open {
            let found = &mut self.rows[row];
            if found.slots.insert(parameter.id()) {
                found.row.elements += elements(&ty);
            }
        }
        if let Some(&(row, depth)) = self.open.last() {
            self.rows[row].row.parameters.push((joined(&self.path[depth..]), ty));
        }
    }

    fn fixed(&mut self, _: u64) {}

    fn training(&mut self, flag: &Training) {
        self.flags.push(flag.clone());
    }

    fn cell(&mut self, cell: CellId) {
        let row = SummaryRow {
            path: joined(&self.path),
            cell: cell.name(),
            parameters: Vec::new(),
            elements: 0,
            calls: 0,
            outputs: Vec::new(),
            flops: 0,
            depth: self.open.len(),
        };
        self.open.push((self.rows.len(), self.path.len()));
        self.rows.push(Found { row, slots: HashSet::new() });
    }

    fn begin(&mut self, name: Name<'_>) {
        self.path.push(name.to_string());
    }

    fn end(&mut self) {
        self.open.retain(|it| it.1 < self.path.len());
        self.path.pop();
    }
}

/// A dispatcher that observes the ops and cell calls of a run.
struct Observer {
    rows: RefCell<Vec<SummaryRow>>,
    /// The rows of the running calls; `None` for a cell without a row.
    open: RefCell<Vec<Option<usize>>>,
    /// The number of applied ops.
    applied: std::cell::Cell<usize>,
}

impl Observer {
    /// Finds the row of a path that begins with the type of the network.
    fn row(&self, path: &str) -> Option<usize> {
        let rows = self.rows.borrow();
        let inside = path.strip_prefix(rows.first()?.cell)?;
        let inside = inside.strip_prefix('.').unwrap_or(inside);
        rows.iter().position(|it| it.path == inside)
    }
}

impl CallObserver for Observer {
    fn begins(&self, path: &str) {
        let row = self.row(path);
        self.open.borrow_mut().push(row);
    }

    fn ends(&self, _: &str, results: &[Tensor]) {
        if let Some(Some(row)) = self.open.borrow_mut().pop() {
            let row = &mut self.rows.borrow_mut()[row];
            row.calls += 1;
            row.outputs = results.iter().map(Tensor::ty).collect();
        }
    }
}

impl Dispatcher for Observer {
    fn apply(&self, call: OpCall<'_>) -> Result<Outputs> {
        let before = self.applied.get();
        let outputs = Eagerly.apply(call)?;
        // The FLOPs of a composite are counted at its inner ops, unless the device runs the composite natively.
        if self.applied.replace(before + 1) != before {
            return Ok(outputs);
        }
        let inputs: Vec<Type> = call.inputs.iter().map(|it| it.ty()).collect();
        let types: Vec<Type> = outputs.iter().map(Tensor::ty).collect();
        let flops = ops::flops(call.op, call.attrs, &inputs.iter().collect::<Vec<_>>(), &types);
        let mut rows = self.rows.borrow_mut();
        // A recursive cell counts once.
        let open: HashSet<usize> = self.open.borrow().iter().flatten().copied().collect();
        open.into_iter().for_each(|row| rows[row].flops += flops);
        Ok(outputs)
    }

    fn number(&self, value: Scalar, dtype: DType, location: &'static Location<'static>) -> Result<Tensor> {
        Eagerly.number(value, dtype, location)
    }

    #[track_caller]
    fn read_parameter(&self, parameter: &Parameter) -> Result<Tensor> {
        Eagerly.read_parameter(parameter)
    }

    #[track_caller]
    fn write_parameter(&self, parameter: &Parameter, value: &Tensor) -> Result<()> {
        Eagerly.write_parameter(parameter, value)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |all: &mut dyn Iterator<Item = String>| all.collect::<Vec<_>>().join(", ");
        let head = ["cell", "result", "parameters", "elements", "FLOPs"].map(str::to_owned);
        let mut table = vec![head];
        for row in &self.rows {
            let name = if row.path.is_empty() { row.cell.to_owned() } else { format!("{}: {}", row.path, row.cell) };
            table.push([
                format!("{:width$}{name}", "", width = 2 * row.depth),
                list(&mut row.outputs.iter().map(Type::to_string)),
                list(&mut row.parameters.iter().map(|(name, ty)| format!("{name} {:?}", ty.dims))),
                row.elements.to_string(),
                row.flops.to_string(),
            ]);
        }
        let widths: [usize; 5] =
            std::array::from_fn(|at| table.iter().map(|it| it[at].chars().count()).max().unwrap_or(0));
        for [name, result, parameters, elements, flops] in &table {
            let [a, b, c, d, e] = widths;
            writeln!(f, "{name:a$}  {result:b$}  {parameters:c$}  {elements:>d$}  {flops:>e$}")?;
        }
        let all = self.rows.first().map_or(0, |it| it.elements);
        write!(f, "{all} elements, {} of them trained, in {} bytes", self.trained, self.bytes)
    }
}
