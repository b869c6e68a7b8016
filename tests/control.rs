//! Tests control flow on host values and on tensors, and its errors.

// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;

ms_conformance::suites!(control);
