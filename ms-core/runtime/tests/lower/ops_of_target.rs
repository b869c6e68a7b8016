//! Tests which ops a target runs.

use super::TARGET;
use ms_core::Code;
use ms_core::ir::Precision;
use ms_core::lower::{LowerOptions, PlanStep, lower};
use ms_core::ops::{CUMSUM, SORT, parse_graph};
use ms_core::target::{Budget, OpSupport, Target};
use ms_core::tensor::{DType, Op};

static SORT_OF_F32: &[OpSupport] = &[OpSupport::new(SORT.op(), DType::F32, true)];
static FAST_SUMS: &[OpSupport] = &[OpSupport::all(CUMSUM.op(), false)];

/// Returns the ops of the library in the plan of a graph on `x`, or the error of lowering.
fn library_ops(dtype: DType, body: &str, target: &Target, precision: Precision) -> ms_core::Result<Vec<Op>> {
    let result = body.rsplit(": ").next().and_then(|it| it.split(", i64").next()).expect("a value has a type").trim();
    let text = format!("graph @f(%x: {dtype}[4, 4]) -> ({result}) {{ {body} return %y }}");
    let graph = parse_graph(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let plan = lower(&graph, &LowerOptions { precision, ..LowerOptions::default() }, target)?;
    let of_step = |it: &PlanStep| match it {
        PlanStep::Library { op, .. } => Some(**op),
        _ => None,
    };
    Ok(plan.main().steps.iter().filter_map(of_step).collect())
}

/// Library ops and products that a target does not run are refused. Slices are copied by kernels.
#[test]
fn ops_are_those_of_the_target() {
    use Precision::{Highest, Strict};
    let target = |library| Target { library, products: Some(&[DType::F32]), ..TARGET.clone() };
    let (all, sort, sums, none) = (target(None), target(Some(SORT_OF_F32)), target(Some(FAST_SUMS)), target(Some(&[])));
    let sorted = "%y, %at = sort %x {axis = 1, descending = false} : f32[4, 4], i64[4, 4]";
    let sum = "%y = cumsum %x {axis = 1, exclusive = false, reverse = false} : f32[4, 4]";
    let product = "%y = matmul %x, %x : f32[4, 4]";
    let cases = [
        (&all, sum, Strict, Some(CUMSUM.op())),
        (&sort, sum, Strict, None),
        (&sort, sorted, Strict, Some(SORT.op())),
        (&sums, sum, Highest, Some(CUMSUM.op())),
        // The sums have other bits.
        (&sums, sum, Strict, None),
        (&none, sum, Highest, None),
    ];
    for (target, body, precision, want) in cases {
        match library_ops(DType::F32, body, target, precision) {
            Ok(ops) => assert_eq!(Some(&ops[..]), want.as_ref().map(std::slice::from_ref), "{body}"),
            Err(error) => {
                assert_eq!((error.code(), want), (Code::Backend, None), "{error}");
                assert!(error.to_string().contains("does not run `cumsum`"), "{error}");
            }
        }
    }
    assert_eq!(library_ops(DType::F32, product, &none, Highest).expect("products of f32 run"), []);
    let wide = product.replace("f32", "f64");
    let error = library_ops(DType::F64, &wide, &none, Highest).expect_err("products of f64 do not run");
    assert_eq!(error.code(), Code::Backend);
    assert_eq!(
        library_ops(DType::F64, &wide, &Target { products: None, ..none.clone() }, Highest).expect("all run"),
        []
    );
    // A result of more slices than kernels copy is a library op, if there is one.
    let few = Budget { copies: 1, ..TARGET.budget.clone() };
    let slices = "%y = concat %x, %x, %x {axis = 0} : f32[12, 4]";
    for (library, want) in [(None, 1), (Some(&[][..]), 0)] {
        let target = Target { library, budget: few.clone(), ..TARGET.clone() };
        assert_eq!(library_ops(DType::F32, slices, &target, Strict).expect("slices are copied").len(), want);
    }
}
