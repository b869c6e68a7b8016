//! Tests equal bits in strict precision.

// `MS_DEVICE_TARGET=sim` needs this backend.
use ms_sim as _;

ms_conformance::suites!(strict);

#[test]
fn simulated_devices_have_the_bits_of_the_host() {
    strict::compare(&[["sim", "interp", "1"], ["simops", "interp", "1"]]);
}
