//! Runs the suites of backends on the device `heap`.

use heap_backend as _;

ms_conformance::suites!("heap": ops, transforms, effects, control, training, strict);
