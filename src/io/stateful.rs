//! Values with state that can be saved and loaded.

use super::convention::Convention;
use super::load::{LoadOptions, LoadReport, load};
use super::state_dict::StateDict;
use ms_core::Result;
use ms_core::trace::Arg;

/// A value with state that can be saved and loaded. Examples are cells, optimisers, generators, counters, data loaders,
/// and tuples of them.
///
/// ```
/// use ms::prelude::*;
/// let (net, epoch) = (nn::Dense::new(3, 2), Counter::new(7));
/// let state = (&net, &epoch).state_dict();
/// epoch.set(0);
/// (&net, &epoch).load_state_dict(&state, &LoadOptions::new())?;
/// assert_eq!(epoch.get(), 7);
/// # Ok::<(), ms::Error>(())
/// ```
pub trait Stateful: Arg {
    /// Returns the value of every slot by its path: `fc1.weight`, `norm.moving_mean`. In a tuple, paths begin with the
    /// position: `[0].fc1.weight`. A slot with several paths appears under the first.
    ///
    /// # Panics
    /// Raises the errors of [`StateDict::named`].
    #[track_caller]
    fn state_dict(&self) -> StateDict {
        StateDict::named(self, Convention::Ms)
    }

    /// Loads the values of a dict into the slots. Creates optimiser state that does not exist yet and is in the dict.
    ///
    /// # Errors
    /// [`Code::Argument`](crate::Code::Argument) with all names of entries that are missing, unexpected or misshaped,
    /// unless the options permit them. No slot changes then.
    fn load_state_dict(&self, state: &StateDict, options: &LoadOptions) -> Result<LoadReport> {
        load(self, state, options)
    }
}

impl<T: Arg + ?Sized> Stateful for T {}
