//! Common names for `use ms::prelude::*`.

pub use crate::data::{Batch, CsvOptions, DataLoader, Dataset, TensorDataset, read_csv};
pub use crate::io::{Convention, LoadOptions, StateDict, Stateful};
pub use crate::ops::keepdims;
pub use crate::optim::{
    Adadelta, Adafactor, Adagrad, Adam, AdamWeightDecay, CosineDecay, ExponentialDecay, LBFGS, Lamb, Lion, Momentum,
    MultiStepDecay, OneCycle, Optimizer, ParameterGroups, PolynomialDecay, RMSProp, ReduceOnPlateau, SGD, Schedule,
    StepDecay, WarmUp,
};
pub use crate::tensor::{Ellipsis, NewAxis, WithStep};
pub use crate::train::{Counter, Mean, Model, Progress, accuracy};
pub use crate::{DType, Error, GradOperation, Parameter, Result, Tensor, nn, ops, random, tensor};
pub use ms_core::session::{Context, Mode, Precision};
pub use ms_core::trace::{Cell, Hooks, Layer, NoCall as _, Training, Tree};
pub use ms_macros::{Static, Tree, cell, jit, jit_class, lazy_inline, no_inline};
