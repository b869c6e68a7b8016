//! Tests the language: annotated code, its arguments and results, and its errors.

// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;

mod annotations;
mod diagnostics;
mod donation;
mod functional;
mod hyper_map;
mod in_place;
mod locks;
mod memory;
mod parameters;
mod programs;
