//! Compositions that networks are made of.

mod recurrent;

pub use recurrent::{gru, lstm};
