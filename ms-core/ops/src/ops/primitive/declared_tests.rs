//! Tests of the properties that ops declare, on operands of extreme values.

use crate::ops::core::testing::run;
use crate::ops::{Derivative, Effects, OpDef, Sample, Vjp, definitions, transform_rules, zeros_like};
use crate::tensor::{Array, Element, Kind, Scalar, Tensor, apply};
use ms_ir::with_element;

const FLOATS: [f64; 10] = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, -1e-30, 1e30, -1e30, 3.0];
const INTS: [i64; 8] = [0, 1, -1, 7, i64::MAX, i64::MIN, 1 << 40, -100];

/// Returns the operands of a sample with extreme values.
fn extreme(sample: &Sample) -> Vec<Array> {
    let mut arrays = sample.arrays();
    for (seed, array) in arrays.iter_mut().enumerate() {
        let kind = array.dtype().kind();
        with_element!(array.dtype(), T => {
            for (i, to) in array.as_mut_slice::<T>().iter_mut().enumerate() {
                *to = <T as Element>::from_scalar(match kind {
                    Kind::Float => Scalar::Float(FLOATS[(i * 3 + seed * 7) % FLOATS.len()]),
                    Kind::Int => Scalar::Int(INTS[(i + seed * 3) % INTS.len()]),
                    Kind::Bool => Scalar::Bool((i + seed) % 2 == 0),
                });
            }
        });
    }
    arrays
}

/// Whether zero gradients of an op's results give gradients without a NaN.
fn keeps_zeros(def: &'static OpDef) -> bool {
    // Integers keep the values of the sample, because they are positions or generator states. So do operands of ops
    // that may fail on other values.
    let refuses = def.effects.any_of(Effects::MAY_FAIL);
    let chosen = |(extreme, sampled): (Array, Array)| match extreme.dtype().kind() {
        Kind::Float | Kind::Bool if !refuses => extreme,
        _ => sampled,
    };
    let keeps = |sample: &Sample| {
        let given: Vec<Array> = extreme(sample).into_iter().zip(sample.arrays()).map(chosen).collect();
        let inputs: Vec<Tensor> = given.into_iter().map(Tensor::from_array).collect();
        let outputs = apply(def.op(), &sample.attrs, &inputs.iter().collect::<Vec<_>>()).expect("samples are valid");
        let zero = |it: &Tensor| it.dtype().is_float().then(|| zeros_like(it));
        let cotangents: Vec<Option<Tensor>> = outputs.iter().map(zero).collect();
        let needs = vec![true; inputs.len()];
        let vjp =
            Vjp { attrs: &sample.attrs, inputs: &inputs, outputs: &outputs, cotangents: &cotangents, needs: &needs };
        let gradients = if cotangents.iter().any(Option::is_some) { transform_rules(def).pull(&vjp) } else { None };
        let is_nan = |it: &Tensor| {
            it.try_array()
                .expect("an array")
                .on_host()
                .expect("readable")
                .scalars()
                .iter()
                .any(|it| it.as_f64().is_nan())
        };
        !gradients.into_iter().flatten().flatten().any(|it| is_nan(&it))
    };
    let wide = |it: &&Sample| it.inputs.iter().all(|it| !it.dtype.is_narrow_float());
    (def.samples)().iter().filter(wide).all(keeps)
}

#[test]
fn finite_derivatives_keep_zeros() {
    run(|| {
        let has_rule =
            |it: &&'static OpDef| matches!(transform_rules(it).derivative, Derivative::Rule(_) | Derivative::Read(_));
        let (finite, others): (Vec<&OpDef>, Vec<&OpDef>) =
            definitions().filter(has_rule).partition(|it| transform_rules(it).finite_derivatives);
        assert!(finite.len() > 40, "{}", finite.len());
        let broken: Vec<&str> = finite.iter().filter(|it| !keeps_zeros(it)).map(|it| it.name()).collect();
        assert!(broken.is_empty(), "{broken:?}");
        let found: Vec<&str> = others.iter().filter(|it| !keeps_zeros(it)).map(|it| it.name()).collect();
        assert!(["div", "log", "sqrt", "pow"].iter().all(|it| found.contains(it)), "{found:?}");
    });
}

#[test]
fn ops_without_effects_take_every_value() {
    let accepts = |def: &OpDef| {
        let takes = |it: &Sample| {
            let arrays = extreme(it);
            (def.eval)(&it.attrs, &arrays.iter().collect::<Vec<_>>()).is_ok()
        };
        (def.samples)().iter().all(takes)
    };
    let effects = Effects::MAY_FAIL.and(Effects::ORDERED).and(Effects::REGIONS);
    let (refusing, others): (Vec<&OpDef>, Vec<&OpDef>) = definitions().partition(|it| it.effects.any_of(effects));
    let broken: Vec<&str> = others.iter().filter(|it| !accepts(it)).map(|it| it.name()).collect();
    assert!(broken.is_empty(), "{broken:?}");
    for def in refusing.iter().filter(|it| it.effects.any_of(Effects::MAY_FAIL)) {
        assert!(!accepts(def), "`{}` refuses nothing", def.name());
    }
}
