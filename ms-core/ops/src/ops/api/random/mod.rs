//! Random tensors. A seed gives the same numbers eagerly, compiled, and for every number of threads.
//!
//! A [`Generator`] holds its state, a seed and a counter, in a slot like a parameter. Each draw reads the state and
//! writes it back with the counter advanced. Inside a compiled function the state is an input and an output of the
//! graph, so each call draws new numbers.
//!
//! The functions of this module draw from the generator of the calling thread, which no other thread changes. The seed
//! of [`set_seed`] therefore determines all later draws of its thread. A compiled function draws from the generator of
//! the thread that calls it, whichever thread traced it. Threads inherit nothing: pass a seed of [`derive_seed`] to a
//! thread that continues the work of another.
//!
//! ```
//! use ms_core::ops::random;
//! random::set_seed(7);
//! let seeds = [(); 2].map(|()| random::derive_seed());
//! let workers = seeds.map(|seed| std::thread::spawn(move || {
//!     random::set_seed(seed);
//!     random::uniform([2], 0.0, 1.0).to_vec::<f32>()
//! }));
//! let [a, b] = workers.map(|it| it.join().expect("nothing is refused"));
//! // Other numbers on every thread, and the same ones in every run of the program.
//! assert_ne!(a, b);
//! ```

mod categorical;
mod generator;

pub use categorical::{categorical, multinomial};
pub use generator::*;
