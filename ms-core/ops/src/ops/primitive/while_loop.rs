//! `while`: a loop with a computed condition.

use super::scan::stack_rows;
use crate::ops::core::regions::{check_carries, check_condition, check_operands, output_types};
use crate::ops::evaluate_graph;
use crate::ops::{Arrays, Batching, Control, Derivative, Effects, Loop, Lowering, OpDef, RegionRule, TransformRules};
use crate::tensor::{Array, Attrs, DType, Dim, OpInfo, Type};
use ms_ir::error::{Code, Error};

/// Runs a loop while a condition holds. The operands are `carries` carries, then invariants.
///
/// Region 0, the condition, and region 1, the body, take all of them. While the condition's result, a `bool[]`, is
/// true, the body's first results become the carries. Each further result of the body is pushed on a separate stack.
///
/// The results are the last carries. If the body has further results, the number of iterations (`i64[]`) and the stacks
/// follow. A stack has the values of all iterations along a new first axis. The size of that axis is known only after
/// the loop ([`Dim::DYNAMIC`]).
pub static WHILE: OpDef = OpDef {
    info: OpInfo { number: 703, name: "while", attrs: WhileAttrs::DECLARED },
    infer: |_, _| Err(Error::new(Code::Argument, "the types of a `while` are those of its regions")),
    eval: |_, _| Err(Error::new(Code::Argument, "a `while` is evaluated with its regions")),
    effects: Effects::REGIONS,
    lowering: Lowering::Regions(RegionRule {
        count: 2,
        control: |attrs| Control::Loop(Loop::repeat(WhileAttrs::of(attrs).carries())),
        infer: |attrs, regions, inputs| {
            let carries = inputs.get(..WhileAttrs::of(attrs).carries()).ok_or_else(|| missing(inputs.len()))?;
            let [condition, body] = [&regions[0], &regions[1]];
            check_operands(condition, inputs)?;
            check_operands(body, inputs)?;
            check_condition(output_types(condition).next())?;
            check_carries(body, carries)?;
            let mut types: crate::ops::Types = carries.iter().map(|&it| it.clone()).collect();
            if output_types(body).len() > carries.len() {
                types.push(Type::of(DType::I64, &[]));
            }
            types.extend(output_types(body).skip(carries.len()).map(|it| it.stacked(Dim::DYNAMIC)));
            Ok(types)
        },
        eval: |attrs, regions, inputs| {
            let carries = WhileAttrs::of(attrs).carries();
            let saved: Vec<&Type> = output_types(&regions[1]).skip(carries).collect();
            let mut values: Vec<Array> = inputs.iter().map(|&it| it.clone()).collect();
            let mut rows: Vec<Vec<Array>> = vec![Vec::new(); saved.len()];
            let mut count = 0i64;
            loop {
                let operands: Vec<&Array> = values.iter().collect();
                if !evaluate_graph(&regions[0], &operands)?[0].on_host()?.as_slice::<bool>()?[0] {
                    break;
                }
                let mut results = evaluate_graph(&regions[1], &operands)?.into_iter();
                values[..carries].iter_mut().zip(&mut results).for_each(|(carry, next)| *carry = next);
                rows.iter_mut().zip(results).for_each(|(rows, row)| rows.push(row));
                count += 1;
            }
            values.truncate(carries);
            let mut results: Arrays = values.into();
            if !saved.is_empty() {
                results.push(Array::from_slice(&[], &[count]));
                for (rows, ty) in rows.iter().zip(saved) {
                    results.push(stack_rows(rows, ty)?);
                }
            }
            Ok(results)
        },
    }),
    samples: Vec::new,
    transforms: &TransformRules {
        derivative: Derivative::None("transforms differentiate its regions"),
        finite_derivatives: false,
        batching: Batching::Derived,
        body: None,
    },
};

attributes! {
    /// The attributes of [`WHILE`].
    struct WhileAttrs { carries: usize }
}

pub(in crate::ops) fn attrs(at: &Loop) -> Attrs {
    WhileAttrs::attrs(at.carries)
}

fn missing(operands: usize) -> Error {
    Error::new(Code::Argument, format!("more carries than {operands} operands"))
}
