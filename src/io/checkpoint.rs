//! Saves and loads checkpoints: state dicts in safetensors files.

use super::load::{LoadOptions, LoadReport};
use super::state_dict::StateDict;
use super::stateful::Stateful;
use ms_core::trace::Arg;
use ms_core::{Code, Result};
use std::path::Path;

/// Writes the [state dict](Stateful::state_dict) of a value to a safetensors file. The value is a network, or
/// everything that a training run continues from. An existing file is replaced atomically; see [`StateDict::write`].
///
/// ```
/// use ms::prelude::*;
/// use ms::{load_checkpoint, save_checkpoint};
/// # let path = std::env::temp_dir().join(format!("ms doc checkpoint {}", std::process::id()));
/// let (net, opt, epoch) = (nn::Dense::new(3, 1), Adam::new(1e-3), Counter::new(0));
/// let batch = (Tensor::ones([4, 3]), Tensor::zeros([4, 1]));
/// opt.step(&net, &batch, |net, (x, y)| ops::mse_loss(&net.call(x), y));
/// save_checkpoint(&path, (&net, &opt, &epoch, random::default_generator()))?;
/// // In a later process, of the same program:
/// let (net, opt, epoch) = (nn::Dense::new(3, 1), Adam::new(1e-3), Counter::new(0));
/// load_checkpoint(&path, (&net, &opt, &epoch, random::default_generator()))?;
/// # std::fs::remove_file(&path).expect("it was written");
/// # Ok::<(), ms::Error>(())
/// ```
///
/// # Errors
/// [`Code::Io`] if the file cannot be written, or if `path` is not a regular file or a link to one.
pub fn save_checkpoint(path: impl AsRef<Path>, state: impl Arg) -> Result<()> {
    state.state_dict().write(path)
}

/// Loads every slot of a value from a safetensors file. Nothing is changed unless all entries fit. [`StateDict::read`]
/// and [`Stateful::load_state_dict`] permit differences.
///
/// See the example of [`save_checkpoint`].
///
/// # Errors
/// [`Code::Io`] if the file cannot be read or has a different format, [`Code::Memory`] if the system has no memory for
/// it. [`Code::Argument`] with all names if entries are missing, unexpected or misshaped.
pub fn load_checkpoint(path: impl AsRef<Path>, state: impl Arg) -> Result<LoadReport> {
    let path = path.as_ref();
    let loaded = state.load_state_dict(&StateDict::read(path)?, &LoadOptions::new());
    loaded.map_err(|error| match error.code() {
        Code::Argument => error.help(format!("the file is `{}`", path.display())),
        _ => error,
    })
}
