//! Composites: ops that are defined by the ops that a body applies.

use super::reference::ReferenceDispatcher;
use super::{Arrays, OpDef, Types, definition, flops, has_product, infer};
use crate::tensor::{
    Array, Attrs, Dispatcher, OpCall, Outputs, Parameter, Tensor, Traced, Type, apply, with_dispatcher,
};
use ms_ir::error::{Code, Error, OrRaise, Result, abandon, collecting};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;

/// The body of a composite. It applies ops to the operands, which the type rule has accepted, and returns the results
/// of the composite.
pub type Body = fn(&Attrs, &[&Tensor]) -> Outputs;

/// Applies the ops of the body of a composite through the current dispatcher.
///
/// # Errors
/// The errors of the ops, in the name of the composite.
pub fn apply_body(call: &OpCall<'_>, body: Body) -> Result<Outputs> {
    run(body, call.attrs, call.inputs).map_err(|error| error.of_composite(call.op.name()).at(call.location))
}

/// Evaluates the body of a composite on arrays by the reference executor.
///
/// # Errors
/// The errors of the body's ops.
pub(crate) fn evaluate_body_of(
    by: ReferenceDispatcher,
    body: Body,
    attrs: &Attrs,
    inputs: &[&Array],
) -> Result<Arrays> {
    let inputs: Vec<Tensor> = inputs.iter().map(|&it| Tensor::from_array(it.clone())).collect();
    let outputs = with_dispatcher(Rc::new(by), || run(body, attrs, &inputs.iter().collect::<Vec<_>>()))?;
    outputs.iter().map(|it| Ok(it.elements()?.on_host()?.to_contiguous())).collect()
}

/// Evaluates a composite by the reference.
///
/// # Errors
/// The errors of the body's ops.
pub(in crate::ops) fn evaluate_composite(body: Body, attrs: &Attrs, inputs: &[&Array]) -> Result<Arrays> {
    evaluate_body_of(ReferenceDispatcher::Eval, body, attrs, inputs)
}

/// Infers the types of a composite's results by its body.
///
/// # Errors
/// The errors of the type rules of the body's ops, in the name of the composite.
pub(in crate::ops) fn infer_by_body(name: &str, body: Body, attrs: &Attrs, inputs: &[&Type]) -> Result<Types> {
    let outputs = run_on_types(TypesOnly::default(), body, attrs, inputs);
    Ok(outputs.map_err(|error| error.of_composite(name))?.iter().map(Tensor::ty).collect())
}

/// Counts the [floating-point operations](flops) of a body on operands of these types, which its ops accept.
pub(in crate::ops) fn flops_of_body(body: Body, attrs: &Attrs, inputs: &[&Type]) -> u64 {
    let count = Rc::new(Cell::new(0));
    let counted = run_on_types(TypesOnly { flops: Some(count.clone()), ..TypesOnly::default() }, body, attrs, inputs);
    counted.map_or(0, |_| count.get())
}

/// Whether a body applies a [product](has_product) to operands of these types.
pub(in crate::ops) fn body_has_product(body: Body, attrs: &Attrs, inputs: &[&Type]) -> bool {
    let found = Rc::new(Cell::new(false));
    let types = TypesOnly { product: Some(found.clone()), ..TypesOnly::default() };
    run_on_types(types, body, attrs, inputs).is_ok() && found.get()
}

fn run_on_types(by: TypesOnly, body: Body, attrs: &Attrs, inputs: &[&Type]) -> Result<Outputs> {
    let inputs: Vec<Tensor> = inputs.iter().map(|&it| of_type(it.clone())).collect();
    with_dispatcher(Rc::new(by), || run(body, attrs, &inputs.iter().collect::<Vec<_>>()))
}

/// A dispatcher that applies ops to types.
#[derive(Default)]
struct TypesOnly {
    /// The counter to which the floating-point operations are added.
    flops: Option<Rc<Cell<u64>>>,
    /// Set when the body applies a product.
    product: Option<Rc<Cell<bool>>>,
}

/// Creates a tensor without elements.
fn of_type(ty: Type) -> Tensor {
    let shape = ty.shape().unwrap_or_default();
    Tensor::from_traced(Traced { trace: 0, frame: 0, value: 0, ty, shape, poisoned: false })
}

impl Dispatcher for TypesOnly {
    fn apply(&self, call: OpCall<'_>) -> Result<Outputs> {
        let mut types: SmallVec<[Cow<'_, Type>; 3]> = SmallVec::new();
        for input in call.inputs {
            types.push(input.as_traced().map_or_else(|| Cow::Owned(input.ty()), |it| Cow::Borrowed(&it.ty)));
        }
        let types: SmallVec<[&Type; 3]> = types.iter().map(|it| &**it).collect();
        let results = infer(definition(call.op), call.attrs, &[], &types).map_err(|error| error.at(call.location))?;
        if let Some(count) = &self.flops {
            count.set(count.get().saturating_add(flops(call.op, call.attrs, &types, &results)));
        }
        if let Some(found) = &self.product {
            found.set(found.get() || has_product(call.op, call.attrs, &types));
        }
        Ok(results.into_iter().map(of_type).collect())
    }

    fn read_parameter(&self, parameter: &Parameter) -> Result<Tensor> {
        Ok(of_type(parameter.load().ty()))
    }

    fn write_parameter(&self, parameter: &Parameter, _: &Tensor) -> Result<()> {
        Err(Error::new(Code::Argument, format!("the body of a composite writes {parameter:?}")))
    }
}

/// Applies a composite, and returns its first result.
#[track_caller]
pub(in crate::ops) fn first_result(def: &'static OpDef, attrs: &Attrs, inputs: &[&Tensor]) -> Tensor {
    apply(def.op(), attrs, inputs).or_raise().swap_remove(0)
}

/// Declares the definition of a composite. The body gives its type rule and its evaluation. `finite` is
/// [`TransformRules::finite_derivatives`](super::TransformRules::finite_derivatives). `inner` defaults to
/// [`Inner::DEFAULT`](super::wide::Inner::DEFAULT).
macro_rules! composite {
    (
        $(#[$doc:meta])*
        $def:ident = $number:literal: $name:literal, $attrs:expr;
        body $body:expr;
        derivative $derivative:expr, finite: $finite:expr;
        $(effects $effects:expr;)?
        $(inner $inner:expr;)?
        batching $batching:expr;
        samples $samples:expr;
    ) => {
        $(#[$doc])*
        pub static $def: $crate::ops::OpDef = {
            use $crate::ops::core::{composite, wide};
            const INNER: wide::Inner = wide::Inner::DEFAULT$(.or($inner))?;
            const BODY: $crate::ops::Body = |attrs, inputs| {
                const OWN: $crate::ops::Body = $body;
                wide::run_body(OWN, INNER, attrs, inputs)
            };
            const DERIVATIVE: $crate::ops::Derivative = $derivative;
            $crate::ops::OpDef {
                info: $crate::tensor::OpInfo { number: $number, name: $name, attrs: $attrs },
                infer: |attrs, inputs| composite::infer_by_body($name, BODY, attrs, inputs),
                eval: |attrs, inputs| composite::evaluate_composite(BODY, attrs, inputs),
                effects: $crate::ops::Effects::NONE$(.and($effects))?,
                lowering: $crate::ops::Lowering::Composite($crate::ops::CompositeRule {
                    flops: |attrs, inputs| composite::flops_of_body(BODY, attrs, inputs),
                    has_product: |attrs, inputs| composite::body_has_product(BODY, attrs, inputs),
                }),
                samples: $samples,
                transforms: &$crate::ops::TransformRules {
                    derivative: match DERIVATIVE {
                        $crate::ops::Derivative::Rule(_) => $crate::ops::Derivative::Rule(|it| match DERIVATIVE {
                            $crate::ops::Derivative::Rule(rule) => wide::run_rule(rule, INNER, it),
                            _ => unreachable!("a constant does not change"),
                        }),
                        other => other,
                    },
                    finite_derivatives: $finite,
                    batching: $batching,
                    body: Some($crate::ops::OpBody::Composite(BODY)),
                },
            }
        };
    };
}

fn run(body: Body, attrs: &Attrs, inputs: &[&Tensor]) -> Result<Outputs> {
    let (outputs, errors): (_, Vec<Error>) = collecting(|| body(attrs, inputs));
    match (outputs, errors.into_iter().next()) {
        (_, Some(error)) => Err(error),
        (Some(outputs), None) => Ok(outputs),
        // The tracer has already recorded the error.
        (None, None) => abandon(),
    }
}
