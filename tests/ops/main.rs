//! Tests ops: values, numerics, layouts, and invalid input.

// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;

mod left_out;

ms_conformance::suites!(ops);
