//! Compares every layer with PyTorch: results, gradients of operands and parameters, and buffers, eagerly and compiled.
//!
//! The expected values are in one file that `data/generate.py` writes.

// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;

mod attention;
mod containers;
mod convolutions;
mod hooks;
mod initializers;
mod losses;
mod mistakes;
mod mixed_precision;
mod norms;
mod oracle;
mod pools;
mod recurrent;
mod summary;
