//! Tests generated from the definitions of ops.

use super::reference::evaluate_body;
use crate::ops::{Lowering, PRIMITIVES, definitions};
use crate::tensor::{Array, DType};
use std::collections::HashSet;

#[test]
fn every_op_is_well_declared() {
    let (mut numbers, mut names) = (HashSet::new(), HashSet::new());
    for def in definitions() {
        let name = def.name();
        assert!(numbers.insert(def.info.number), "the number of `{name}` is used twice");
        assert!(names.insert(name), "the name `{name}` is used twice");
        let samples = (def.samples)();
        // Ops with regions have no samples.
        assert!(!samples.is_empty() || matches!(def.lowering, Lowering::Regions(_)), "`{name}` has no samples");
        for sample in samples {
            assert_eq!(sample.attrs.as_slice().len(), def.info.attrs.len(), "attributes of `{name}`");
        }
    }
}

/// Returns the tolerance between a body and `eval`, which rounds less often: a few units in the last place.
fn last_digits(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        DType::F32 => 2f64.powi(-21),
        DType::F64 => 2f64.powi(-49),
        _ => 0.0,
    }
}

#[test]
fn bodies_agree_with_eval() {
    for def in PRIMITIVES {
        let Lowering::Map(rule) = def.lowering else { continue };
        for sample in (def.samples)() {
            let arrays = sample.arrays();
            let arrays: Vec<&Array> = arrays.iter().collect();
            let want = &(def.eval)(&sample.attrs, &arrays).expect("a sample evaluates")[0];
            let body = |builder: &mut _, operands: &[_]| rule(&sample.attrs, builder, operands);
            let got = evaluate_body(body, want.dtype(), &arrays).expect("a sample evaluates");
            let digits = last_digits(want.dtype());
            for (got, want) in got
                .on_host()
                .expect("the elements are readable")
                .scalars()
                .into_iter()
                .zip(want.on_host().expect("the elements are readable").scalars())
            {
                let (got, want) = (got.as_f64(), want.as_f64());
                let same = got == want || (got.is_nan() && want.is_nan());
                let near = (got - want).abs() <= digits * (want.abs() + digits);
                assert!(same || near, "`{}`: {got}, not {want}, in {sample:?}", def.name());
            }
        }
    }
}
