//! Every layer against PyTorch: results, gradients of operands and parameters, and buffers, eagerly
//! and compiled, from one file that `data/generate.py` writes.

// Linked for `MS_DEVICE_TARGET=sim`.
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
