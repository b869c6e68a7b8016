//! Functions that are compiled once for every size of an axis.

#[path = "../common/symbolic.rs"]
mod compare;

mod functions;
mod ops;
