//! Tests which epilogues a target takes.

use super::TARGET;
use ms_core::ir::Precision;
use ms_core::lower::{ContractionResult, LowerOptions, PlanStep, lower};
use ms_core::ops::{ADD, CAST, MAXIMUM, parse_graph};
use ms_core::target::{EpilogueKind, EpilogueOperands, EpilogueSupport, Producers, Target};
use ms_core::tensor::DType;

/// A bias and an activation, as libraries of products have them.
static BIAS_AND_RELU: &[EpilogueSupport] = &[EpilogueSupport {
    producers: Producers::Contractions(Some(&[DType::F32])),
    strict: false,
    ops: Some(&[ADD.op(), CAST.op(), MAXIMUM.op()]),
    operands: EpilogueOperands { columns: 1, rows: 0, elements: 0 },
    results: 1,
    kernels: 1,
    ..EpilogueSupport::ELEMENTWISE
}];

/// Any elementwise kernels.
static ELEMENTS: &[EpilogueSupport] = &[EpilogueSupport::ELEMENTWISE];

/// Kernels that also reduce rows.
static REDUCTIONS: &[EpilogueSupport] = &[EpilogueSupport {
    kinds: &[EpilogueKind::Elements, EpilogueKind::Reduction],
    longest_row: 32,
    ..EpilogueSupport::ELEMENTWISE
}];

/// Returns the number of epilogues, and the plan, of a graph that computes `%y` from the product `%p`.
fn epilogues(dtype: DType, body: &str, epilogues: &'static [EpilogueSupport], precision: Precision) -> (usize, String) {
    let result = body.rsplit(": ").next().expect("a value has a type").trim();
    let text = format!(
        "graph @f(%x: {dtype}[20, 24], %w: {dtype}[24, 32], %b: {dtype}[32], %c: {dtype}[20, 1], %r: {dtype}[20, 32])
            -> ({result}) {{
            %zero = constant {{value = {dtype}[](0.0)}} : {dtype}[]
            %p = matmul %x, %w : {dtype}[20, 32]
            {body}
            return %y
        }}"
    );
    let graph = parse_graph(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let target = Target { epilogues, ..TARGET.clone() };
    let plan = lower(&graph, &LowerOptions { precision, ..LowerOptions::default() }, &target);
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let of_step = |step: &PlanStep| match step {
        PlanStep::Contraction(it) => match &it.result {
            ContractionResult::Epilogues(all) => all.len(),
            ContractionResult::Stored(_) => 0,
        },
        _ => 0,
    };
    (plan.main().steps.iter().map(of_step).sum(), plan.display().to_string())
}

/// A kernel that the target does not take stays a kernel.
#[test]
fn epilogues_are_those_of_the_target() {
    use Precision::{Highest, Strict};
    let relu = "%y = maximum %p, %zero : f32[20, 32]";
    let bias_relu = "%t = add %p, %b : f32[20, 32] %y = maximum %t, %zero : f32[20, 32]";
    let row_sums = "%t = exp %p : f32[20, 32] %y = sum %t {axes = [1], keepdims = false} : f32[20]";
    // A result in the memory of an input would have to wait for steps that may fail.
    let residual = "%t = add %p, %r : f32[20, 32] %y = cast %t {to = f16} : f16[20, 32]";
    let none: &[EpilogueSupport] = &[];
    let cases = [
        (none, relu, Highest, 0),
        (BIAS_AND_RELU, relu, Highest, 1),
        (BIAS_AND_RELU, bias_relu, Highest, 1),
        // Results have other bits than those of separate kernels.
        (BIAS_AND_RELU, bias_relu, Strict, 0),
        (REDUCTIONS, bias_relu, Strict, 1),
        // Another op; two biases; a value for each row; a value for each element.
        (BIAS_AND_RELU, "%y = tanh %p : f32[20, 32]", Highest, 0),
        (
            BIAS_AND_RELU,
            "%a = abs %b : f32[32] %t = add %p, %b : f32[20, 32] %y = add %t, %a : f32[20, 32]",
            Highest,
            0,
        ),
        (BIAS_AND_RELU, "%y = add %p, %c : f32[20, 32]", Highest, 0),
        (BIAS_AND_RELU, residual, Highest, 0),
        (ELEMENTS, residual, Highest, 1),
        // Rows are reduced.
        (REDUCTIONS, row_sums, Highest, 1),
        (ELEMENTS, row_sums, Highest, 0),
        (BIAS_AND_RELU, row_sums, Highest, 0),
    ];
    for (table, body, precision, want) in cases {
        let (found, plan) = epilogues(DType::F32, body, table, precision);
        assert_eq!(found, want, "{body} in {precision} with {table:?}\n{plan}");
    }
    let wide = "%y = maximum %p, %zero : f64[20, 32]";
    assert_eq!(epilogues(DType::F64, wide, BIAS_AND_RELU, Highest).0, 0);
    assert_eq!(epilogues(DType::F64, wide, REDUCTIONS, Highest).0, 1);
}
