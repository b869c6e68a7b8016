//! Test support for ops: execution by reference evaluation, and checks of ops on their samples.

use super::reference::ReferenceDispatcher;
use crate::ops::{Body, Derivative, Lowering, OpDef, Sample, SampleInput, Vjp, definitions, transform_rules};
use crate::tensor::{Array, Attrs, DType, Device, Dispatcher, OpCall, Outputs, Parameter, Tensor, with_dispatcher};
use ms_ir::error::{Code, Result};
use std::rc::Rc;

/// The eager executor of unit tests below the runtime: reference evaluation in memory of the host.
pub struct TestExecutor;

impl Dispatcher for TestExecutor {
    fn apply(&self, call: OpCall<'_>) -> Result<Outputs> {
        ReferenceDispatcher::Eval.apply(call)
    }

    fn read_parameter(&self, parameter: &Parameter) -> Result<Tensor> {
        ReferenceDispatcher::Eval.read_parameter(parameter)
    }

    fn write_parameter(&self, parameter: &Parameter, value: &Tensor) -> Result<()> {
        ReferenceDispatcher::Eval.write_parameter(parameter, value)
    }

    fn place(&self, array: Array, _device: Option<Device>) -> Result<Array> {
        Ok(array)
    }
}

/// Runs `f` with the reference evaluation as executor.
pub fn run<R>(f: impl FnOnce() -> R) -> R {
    with_dispatcher(Rc::new(ReferenceDispatcher::Eval), f)
}

/// Returns the code of the error that `f` raises.
pub fn refused<R>(f: impl FnOnce() -> R) -> Code {
    match crate::catch(|| run(f)) {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.code(),
    }
}

/// Returns evenly distributed values of a range, different for every `seed`.
pub fn scattered(shape: &[usize], dtype: DType, low: f64, high: f64, seed: usize) -> Array {
    SampleInput::of(dtype, shape, low, high).array(seed)
}

/// Returns the sample's operands, with floats widened to f64.
fn operands(sample: &Sample) -> Vec<Tensor> {
    let operand = |(seed, it): (usize, &SampleInput)| {
        let dtype = if it.dtype.is_float() { DType::F64 } else { it.dtype };
        Tensor::from_array(scattered(&it.shape, dtype, it.low, it.high, seed))
    };
    sample.inputs.iter().enumerate().map(operand).collect()
}

fn eval(def: &OpDef, attrs: &Attrs, inputs: &[Tensor]) -> Vec<Tensor> {
    let arrays: Vec<&Array> = inputs.iter().map(|it| it.as_array().expect("not traced")).collect();
    let outputs = (def.eval)(attrs, &arrays).unwrap_or_else(|it| panic!("{}: {it}", def.name()));
    outputs.into_iter().map(Tensor::from_array).collect()
}

fn dot(a: &Tensor, b: &Tensor) -> f64 {
    a.to_vec::<f64>().iter().zip(b.to_vec::<f64>()).map(|(a, b)| a * b).sum()
}

/// A check of the derivative rule of a composite: of its vector-Jacobian product, and of its body.
pub type CheckByBody<'a> = &'a dyn Fn(&'static OpDef, Body, &Vjp<'_>);

/// Compares the derivative rules of all ops in a range of numbers with central differences, those of composites with
/// the derivatives of their bodies, and views with their evaluation.
pub fn check_ops(numbers: std::ops::Range<u16>, by_body: CheckByBody<'_>) {
    for def in definitions().filter(|it| numbers.contains(&it.info.number)) {
        for sample in (def.samples)() {
            run(|| check_sample(def, &sample, by_body));
        }
    }
}

fn check_sample(def: &'static OpDef, sample: &Sample, by_body: CheckByBody<'_>) {
    let inputs = operands(sample);
    let types: Vec<_> = inputs.iter().map(Tensor::ty).collect();
    let types = (def.infer)(&sample.attrs, &types.iter().collect::<Vec<_>>());
    let types = types.unwrap_or_else(|it| panic!("{}: {it}", def.name()));
    let outputs = eval(def, &sample.attrs, &inputs);
    assert_eq!(outputs.iter().map(Tensor::ty).collect::<Vec<_>>(), types.to_vec(), "{}", def.name());
    let mut arrays = outputs.iter().filter_map(Tensor::as_array);
    assert!(arrays.all(|it| it.layout().is_contiguous()), "{} gives row-major arrays", def.name());
    if let Lowering::View(view) = def.lowering {
        let x = inputs[0].as_array().expect("not traced");
        let layout = view(&sample.attrs, x.layout()).expect("a row-major operand has the view");
        let seen = Tensor::from_array(x.with_layout(layout));
        assert_eq!(seen.to_vec::<f64>(), outputs[0].to_vec::<f64>(), "{}", def.name());
    }
    let mut cotangents: Vec<Option<Tensor>> = outputs
        .iter()
        .map(|it| it.dtype().is_float().then(|| Tensor::from_array(scattered(it.shape(), DType::F64, -1.0, 1.0, 9))))
        .collect();
    if cotangents.iter().all(Option::is_none) {
        return;
    }
    let rules = transform_rules(def);
    if let (Derivative::Rule(_) | Derivative::Read(_), Some(body)) = (&rules.derivative, rules.composite()) {
        let needs: Vec<bool> = inputs.iter().map(|it| it.dtype().is_float()).collect();
        let (attrs, inputs, outputs) = (&sample.attrs, &inputs, &outputs);
        by_body(def, body, &Vjp { attrs, inputs, outputs, cotangents: &cotangents, needs: &needs });
        if matches!(rules.derivative, Derivative::Read(_)) {
            // Differences do not show that the rule excludes some rows on purpose.
            return;
        }
        // The rule need not pass on gradients of results that only the derivative reads.
        cotangents[1..].fill(None);
    }
    let needs: Vec<bool> = inputs.iter().map(|it| it.dtype().is_float()).collect();
    let vjp = Vjp { attrs: &sample.attrs, inputs: &inputs, outputs: &outputs, cotangents: &cotangents, needs: &needs };
    let Some(gradients) = rules.pull(&vjp) else { return };
    for (at, gradient) in gradients.iter().enumerate().filter(|(at, _)| needs[*at]) {
        // A rule omits an operand on which the result does not depend.
        let none = || crate::ops::zeros_like(&inputs[at]);
        let gradient = &gradient.clone().unwrap_or_else(none);
        assert_eq!(gradient.ty(), inputs[at].ty(), "gradient {at} of {}", def.name());
        let direction = Tensor::from_array(scattered(inputs[at].shape(), DType::F64, -1.0, 1.0, 5));
        let step = 1e-5;
        let moved = |sign: f64| {
            let elements = inputs[at].to_vec::<f64>().into_iter().zip(direction.to_vec::<f64>());
            let elements: Vec<f64> = elements.map(|(x, d)| x + sign * step * d).collect();
            let mut inputs = inputs.clone();
            inputs[at] = Tensor::from_slice(inputs[at].shape(), &elements);
            let outputs = eval(def, &sample.attrs, &inputs);
            outputs.iter().zip(&cotangents).filter_map(|(y, g)| Some(dot(y, g.as_ref()?))).sum::<f64>()
        };
        let (want, got) = ((moved(1.0) - moved(-1.0)) / (2.0 * step), dot(gradient, &direction));
        assert!((got - want).abs() <= 1e-6 * (1.0 + want.abs()), "gradient {at} of {}: {got}, not {want}", def.name());
    }
}
