//! Compiles graphs with symbolic sizes. They are traced and optimised once, and compiled once for each set of sizes,
//! with kernels that all of them share.

use crate::session::cache::lru::{Cached, Lru};
use ms_ir::Graph;
use ms_ir::error::{Code, Error, Result};
use ms_ops::tensor::{Array, Dim};
use smallvec::SmallVec;

/// The maximal size in bytes of the programs that are cached for one function.
const READY_BYTES: usize = 64 << 20;

type Sizes = SmallVec<[usize; 2]>;

/// The symbols of a graph, and its instances `T` at constant sizes so far.
pub struct Sized<T> {
    symbols: Vec<Symbol>,
    /// The other dimensions of inputs that contain symbols: input, axis, and dimension.
    others: Vec<(usize, usize, Dim)>,
    ready: Lru<Sizes, T, READY_BYTES>,
}

/// A symbol, and the dimension of an input that determines it.
struct Symbol {
    name: String,
    input: usize,
    axis: usize,
    dim: Dim,
}

impl<T: Cached> Sized<T> {
    /// Returns the symbols of a graph; `None` if all sizes are constant.
    ///
    /// # Errors
    /// [`Code::Shape`] if no dimension of an input determines a symbol.
    pub fn of(graph: &Graph) -> Result<Option<Self>> {
        let names = graph.symbols();
        if names.is_empty() {
            return Ok(None);
        }
        let dims = || {
            let inputs = graph.inputs().iter().enumerate();
            inputs.flat_map(|(input, &id)| {
                graph.ty(id).dims.iter().enumerate().map(move |(axis, &dim)| (input, axis, dim))
            })
        };
        let fixing = |name: &str| {
            let plain = dims().find(|it| it.2.as_symbol().is_some_and(|it| *it == *name));
            plain.or_else(|| dims().find(|it| it.2.is_linear_in(name)))
        };
        let symbol = |name: String| {
            let (input, axis, dim) = fixing(&name).ok_or_else(|| {
                let message = format!("no input of `@{}` fixes the size `{name}`", graph.name());
                Error::new(Code::Shape, message).help("let one argument have it as a dimension of its own")
            })?;
            Ok(Symbol { name, input, axis, dim })
        };
        let symbols: Vec<Symbol> = names.into_iter().map(symbol).collect::<Result<_>>()?;
        let fixes = |input, axis| symbols.iter().any(|it| (it.input, it.axis) == (input, axis));
        let others = dims().filter(|it| it.2.is_symbolic() && !fixes(it.0, it.1)).collect();
        Ok(Some(Self { symbols, others, ready: Lru::new() }))
    }

    /// Returns the graph for the sizes of these inputs. `make` creates it for new sizes.
    ///
    /// # Errors
    /// [`Code::Shape`] if inputs disagree; the errors of `make`.
    pub fn at(&self, inputs: &[&Array], make: impl FnOnce(&[(&str, usize)]) -> Result<T>) -> Result<T> {
        let sizes: Sizes = self.symbols.iter().map(|it| it.value(inputs)).collect::<Result<_>>()?;
        for &(input, axis, dim) in &self.others {
            self.check(inputs, input, axis, dim, &sizes)?;
        }
        if let Some(known) = self.ready.get(&sizes) {
            return Ok(known);
        }
        let named: Vec<(&str, usize)> = self.symbols.iter().map(|it| &*it.name).zip(sizes.iter().copied()).collect();
        let made = make(&named)?;
        Ok(self.ready.insert(sizes, made))
    }

    fn check(&self, inputs: &[&Array], input: usize, axis: usize, dim: Dim, sizes: &Sizes) -> Result<()> {
        let value = |name: &str| self.symbols.iter().position(|it| it.name == name).map(|at| sizes[at]);
        let wanted = dim.evaluate(&value)?;
        let given = inputs[input].shape()[axis];
        if wanted == given {
            return Ok(());
        }
        let fixed = self.symbols.iter().zip(sizes).map(|(it, size)| format!("{} = {size}", it.name));
        let fixed = fixed.collect::<Vec<_>>().join(", ");
        let message = format!("axis {axis} of input {input} has size {given}, but `{dim}` is {wanted} where {fixed}");
        Err(Error::new(Code::Shape, message).with_operands(inputs.iter().map(|it| it.ty().to_string())))
    }
}

impl Symbol {
    fn value(&self, inputs: &[&Array]) -> Result<usize> {
        let size = inputs[self.input].shape()[self.axis];
        match self.dim.solve(size) {
            Some((_, value)) => Ok(value),
            None => {
                let (dim, name) = (self.dim, &self.name);
                let message = format!("no `{name}` makes `{dim}`, axis {} of input {}, {size}", self.axis, self.input);
                Err(Error::new(Code::Shape, message).with_operands(inputs.iter().map(|it| it.ty().to_string())))
            }
        }
    }
}
