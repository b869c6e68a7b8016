//! The language: annotated code, its arguments and results, and its errors.

// Linked for `MS_DEVICE_TARGET=sim`.
use ms_sim as _;

mod annotations;
mod diagnostics;
mod donation;
mod functional;
mod hyper_map;
mod in_place;
mod locks;
mod parameters;
mod programs;
