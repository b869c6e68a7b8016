//! Tests derivatives of every order, and `vmap`.

// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;

ms_conformance::suites!(transforms);
