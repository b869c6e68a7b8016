//! Maps parameter names to the conventions of other frameworks.

use super::paths::{Step, path};
use ms_core::tensor::SlotId;
use std::collections::HashMap;

/// The naming convention of parameters and buffers in a state dict.
///
/// ```
/// use ms::prelude::*;
/// use ms::io::{Convention, StateDict};
/// let net = nn::sequential![nn::Dense::new(4, 2), nn::BatchNorm::new(2)];
/// let names = |it| StateDict::named(&net, it).names().map(str::to_owned).collect::<Vec<_>>();
/// assert_eq!(names(Convention::Ms)[0], "layers[0].bias");
/// assert_eq!(names(Convention::PyTorch)[..4], ["0.bias", "0.weight", "1.bias", "1.running_mean"]);
/// assert_eq!(names(Convention::MindSpore)[..4], ["0.bias", "0.weight", "1.beta", "1.gamma"]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Convention {
    /// Field paths: `blocks[0].norm.gamma`.
    #[default]
    Ms,
    /// Names of `torch.nn`: `blocks.0.norm.weight`. A `Sequential` numbers its layers, or has names for them.
    PyTorch,
    /// Names of `mindspore.nn`: `blocks.0.norm.gamma`. A `SequentialCell` numbers its cells.
    MindSpore,
}

/// Fields with different names: the layer, its field, and the names in PyTorch and in MindSpore. An empty name removes
/// the step from the path.
const FIELDS: [(&str, &str, &str, &str); 18] = [
    ("BatchNorm", "gamma", "weight", "gamma"),
    ("BatchNorm", "beta", "bias", "beta"),
    ("BatchNorm", "moving_mean", "running_mean", "moving_mean"),
    ("BatchNorm", "moving_variance", "running_var", "moving_variance"),
    ("LayerNorm", "gamma", "weight", "gamma"),
    ("LayerNorm", "beta", "bias", "beta"),
    ("RMSNorm", "gamma", "weight", "gamma"),
    ("GroupNorm", "gamma", "weight", "gamma"),
    ("GroupNorm", "beta", "bias", "beta"),
    ("InstanceNorm", "gamma", "weight", "gamma"),
    ("InstanceNorm", "beta", "bias", "beta"),
    ("PReLU", "weight", "weight", "w"),
    ("Embedding", "table", "weight", "embedding_table"),
    ("RNN", "stack", "", ""),
    ("LSTM", "stack", "", ""),
    ("GRU", "stack", "", ""),
    ("Residual", "body", "", ""),
    ("Sequential", "layers", "", ""),
];

impl Convention {
    /// Returns the name of the slot at these path steps.
    pub(super) fn name(self, steps: &[Step], owners: &HashMap<SlotId, String>) -> String {
        if self == Self::Ms {
            return path(steps, owners);
        }
        let parts = steps.iter().map(|step| match step {
            Step::Field { name, cell } => self.field(*cell, name),
            Step::Index(at) => at.to_string(),
            Step::Key(key) => key.trim_matches('"').to_owned(),
            Step::Of(slot, at) => owners.get(slot).cloned().unwrap_or_else(|| at.to_string()),
        });
        parts.filter(|it| !it.is_empty()).collect::<Vec<_>>().join(".")
    }

    fn field(self, cell: Option<&str>, field: &str) -> String {
        let known = FIELDS.iter().find(|it| Some(it.0) == cell && it.1 == field);
        let name = match (self, known) {
            (Self::PyTorch, Some(it)) => it.2,
            (Self::MindSpore, Some(it)) => it.3,
            _ => field,
        };
        name.to_owned()
    }

    /// Returns whether an entry has no counterpart here. PyTorch stores `num_batches_tracked` for normalisations, which
    /// matters only for a momentum of `None`.
    pub(super) fn is_without_meaning(self, name: &str) -> bool {
        self == Self::PyTorch && (name == "num_batches_tracked" || name.ends_with(".num_batches_tracked"))
    }
}
