//! Tests prints, assertions, random numbers and writes of parameters.

// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;

ms_conformance::suites!(effects);
