//! Tests functions that are compiled once for every size of an axis.

// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;

#[path = "../common/symbolic.rs"]
mod compare;

mod functions;
mod ops;
mod random;
mod small;
