//! Mixed-precision levels: select the layers that compute in f16 or bf16.

use ms_core::trace::{Cell, CellId, ComputeDType, Name, Sink, Visitor, convert};
use ms_core::{Code, DType, Error, Parameter, Tensor, error::raise};

/// The extent of mixed precision in a network.
///
/// ```
/// use ms::amp::{Level, auto_mixed_precision};
/// use ms::prelude::*;
/// let dtype = |level| {
///     let net = nn::Dense::new(3, 2);
///     auto_mixed_precision(&net, level, DType::F16);
///     net.weight.value().dtype()
/// };
/// assert_eq!([Level::O1, Level::O2].map(dtype), [DType::F32, DType::F16]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// No layer computes in the narrow dtype.
    O0,
    /// Matrix-product layers (the default white list) compute in the narrow dtype. Parameters keep their dtype.
    O1,
    /// Everything but normalisations (the default black list, which computes in f32) uses the narrow dtype. Parameters
    /// outside of normalisations are converted to it.
    O2,
    /// Every layer computes in the narrow dtype, and all parameters are converted to it.
    O3,
}

/// The default white list: layers whose work is matrix products.
const WHITE: [&str; 11] = [
    "Dense",
    "BiDense",
    "Conv",
    "ConvTranspose",
    "MultiheadAttention",
    "RNN",
    "LSTM",
    "GRU",
    "RNNCell",
    "LSTMCell",
    "GRUCell",
];

/// The default black list: normalisations, which compute statistics.
const BLACK: [&str; 5] = ["BatchNorm", "LayerNorm", "RMSNorm", "GroupNorm", "InstanceNorm"];

/// A mixed-precision level with white and black lists of cell types. A listed cell decides for the cells inside it,
/// except for inner cells that are listed themselves.
///
/// ```
/// use ms::amp::{Level, MixedPrecision};
/// use ms::prelude::*;
/// let net = nn::sequential![nn::Dense::new(3, 4), nn::LayerNorm::new(4), nn::Dense::new(4, 2)];
/// MixedPrecision::new(Level::O3, DType::BF16).black_list(["LayerNorm"]).apply(&net);
/// let dtypes = net.state_dict().iter().map(|it| it.1.dtype()).collect::<Vec<_>>();
/// assert_eq!(dtypes, [DType::BF16, DType::BF16, DType::F32, DType::F32, DType::BF16, DType::BF16]);
/// ```
#[derive(Clone, Debug)]
pub struct MixedPrecision {
    level: Level,
    dtype: DType,
    white: Vec<String>,
    black: Vec<String>,
}

impl MixedPrecision {
    /// Creates the settings of `level` with its default lists.
    ///
    /// # Panics
    /// Raises [`Code::DType`] for a dtype other than f16 and bf16.
    #[track_caller]
    pub fn new(level: Level, dtype: DType) -> Self {
        if !dtype.is_narrow_float() {
            let message = format!("mixed precision is of f16 or bf16, not of {dtype}");
            raise(Error::new(Code::DType, message).with_op("MixedPrecision"));
        }
        let owned = |names: &[&str]| names.iter().map(|&it| it.to_owned()).collect();
        let (white, black) = match level {
            Level::O1 => (owned(&WHITE), Vec::new()),
            Level::O2 => (Vec::new(), owned(&BLACK)),
            _ => (Vec::new(), Vec::new()),
        };
        Self { level, dtype, white, black }
    }

    /// Adds cells that compute in the narrow dtype, by the names of their types.
    pub fn white_list<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.white.extend(names.into_iter().map(Into::into));
        self
    }

    /// Adds cells that compute in f32, by the names of their types.
    pub fn black_list<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.black.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets the compute dtype of every layer of a network, and converts its parameters as the level demands. A layer
    /// converts its operands, and casts its result back: tensors between layers keep the dtype of the network's input.
    /// In O2 and O3, pass the input in the narrow dtype.
    ///
    /// Ops outside of layers compute in the dtype of their operands. Call this before an optimiser creates its state.
    ///
    /// # Panics
    /// Raises the errors of [`Cell::to_dtype`].
    #[track_caller]
    pub fn apply(&self, net: &impl Cell) {
        let mut walk = Walk { of: self, cells: vec![None], narrow: Vec::new() };
        net.visit(&mut Sink::new(&mut walk));
        convert(&walk.narrow, self.dtype);
    }

    /// Returns whether a layer or parameter uses the narrow dtype, given its enclosing cells from the outermost
    /// inwards. The innermost listed cell decides. `None` leaves it unchanged.
    fn decides(&self, cells: &[Option<&'static str>]) -> Option<bool> {
        let listed = |list: &[String], name: &str| list.iter().any(|it| it == name);
        for name in cells.iter().rev().flatten() {
            if listed(&self.black, name) {
                return Some(false);
            }
            if listed(&self.white, name) {
                return Some(true);
            }
        }
        match self.level {
            Level::O0 | Level::O1 => None,
            Level::O2 | Level::O3 => Some(true),
        }
    }
}

/// Applies a level with its default lists to a network; see [`MixedPrecision`].
///
/// ```
/// use ms::amp::{Level, auto_mixed_precision};
/// use ms::prelude::*;
/// let net = nn::sequential![nn::Dense::new(3, 4), nn::LayerNorm::new(4)];
/// auto_mixed_precision(&net, Level::O2, DType::BF16);
/// let dtypes: Vec<DType> = net.parameters().iter().map(|it| it.value().dtype()).collect();
/// assert_eq!(dtypes, [DType::BF16, DType::BF16, DType::F32, DType::F32]);
/// ```
///
/// # Panics
/// Raises the errors of [`MixedPrecision::new`].
#[track_caller]
pub fn auto_mixed_precision(net: &impl Cell, level: Level, dtype: DType) {
    MixedPrecision::new(level, dtype).apply(net);
}

struct Walk<'a> {
    of: &'a MixedPrecision,
    /// The cells that enclose the visited node, by the depth of its path.
    cells: Vec<Option<&'static str>>,
    /// The parameters to convert.
    narrow: Vec<Parameter>,
}

impl Visitor for Walk<'_> {
    fn tensor(&mut self, _: &Tensor) {}

    fn parameter(&mut self, parameter: &Parameter) {
        let converts = matches!(self.of.level, Level::O2 | Level::O3);
        if converts && self.of.decides(&self.cells) == Some(true) {
            self.narrow.push(parameter.clone());
        }
    }

    fn fixed(&mut self, _: u64) {}

    fn compute_dtype(&mut self, flag: &ComputeDType) {
        flag.set(self.of.decides(&self.cells).map(|narrow| if narrow { self.of.dtype } else { DType::F32 }));
    }

    fn cell(&mut self, cell: CellId) {
        *self.cells.last_mut().expect("the whole value is the first") = Some(cell.name());
    }

    fn begin(&mut self, _: Name<'_>) {
        self.cells.push(None);
    }

    fn end(&mut self) {
        self.cells.pop();
    }
}
