//! Tests nested cells: each distinct cell is one graph, with `#[lazy_inline]` and without.
//!
//! This holds from the trace to the plan, forward and backward.

use ms::prelude::*;
use ms::{CompileReport, PlanReport};
use std::cell::Cell as HostCell;

thread_local! {
    /// The number of executions of the body of a leaf.
    static LEAVES: HostCell<usize> = const { HostCell::new(0) };
}

fn count_leaf() {
    LEAVES.set(LEAVES.get() + 1);
}

/// Declares the cells of one level, which each hold three of the level below, and the function of their value and
/// gradient.
macro_rules! level {
    ($(#[$mark:meta])? $name:ident of $inner:ident, $function:ident) => {
        #[cell]
        pub struct $name {
            parts: Vec<$inner>,
            fc: nn::Dense,
        }

        #[cell]
        impl $name {
            $(#[$mark])?
            pub fn new() -> Self {
                Self { parts: (0..3).map(|_| $inner::new()).collect(), fc: nn::Dense::new(4, 4) }
            }

            fn construct(&self, x: &Tensor) -> Tensor {
                let y = self.parts.iter().fold(x.clone(), |x, part| part.call(&x));
                ops::layer_norm(x + self.fc(&y), None, None, -1, 1e-5)
            }
        }

        #[jit]
        pub fn $function(net: &$name, x: &Tensor) -> Vec<Tensor> {
            let loss = |net: &$name, x: &Tensor| net.call(x).square().sum(());
            let (value, gradients) = ms::value_and_grad(loss)(net, x);
            gradients.iter().map(|it| it.1.clone()).chain([value]).collect()
        }
    };
}

macro_rules! towers {
    ($($module:ident: $(#[$mark:meta])?;)*) => {$(
        mod $module {
            use super::*;

            #[cell]
            pub struct Leaf {
                fc: nn::Dense,
            }

            #[cell]
            impl Leaf {
                $(#[$mark])?
                pub fn new() -> Self {
                    Self { fc: nn::Dense::new(4, 4) }
                }

                fn construct(&self, x: &Tensor) -> Tensor {
                    count_leaf();
                    let y = x + self.fc(x).tanh();
                    ops::layer_norm(&y * ops::sigmoid(&y), None, None, -1, 1e-5)
                }
            }

            level! { $(#[$mark])? Second of Leaf, second }
            level! { $(#[$mark])? Third of Second, third }
            level! { $(#[$mark])? Fourth of Third, fourth }
            level! { $(#[$mark])? Fifth of Fourth, fifth }
        }
    )*};
}

towers! {
    lazy: #[lazy_inline];
    plain:;
}

fn eagerly<R>(run: impl FnOnce() -> R) -> R {
    ms::with_context(Context { jit: false, ..ms::context() }, run)
}

/// Returns the report of a compiled call. Its result must agree with eager execution.
fn compiled(name: &str, call: &dyn Fn() -> Vec<Tensor>) -> CompileReport {
    let got = call();
    let report = ms::compile_report().into_iter().rev().find(|it| it.name == name).expect("just compiled");
    for (got, want) in got.iter().zip(eagerly(call)) {
        let distance = ops::max(ops::abs(got - want), ()).item::<f32>();
        assert!(distance < 1e-3, "{name}: {distance}");
    }
    report
}

/// Returns the sizes of each stage of a compilation: nodes, distinct graphs, and nodes without sharing. For the plan,
/// these are steps, routines and calls.
fn sizes(report: &CompileReport) -> Vec<[usize; 3]> {
    let graphs = ["trace", "effects", "expand", "optimize"].map(|stage| {
        let size = report.stage(stage).and_then(|it| it.graph).expect("a graph").size;
        [size.nodes, size.graphs, size.unshared]
    });
    let plan = report.stage("compile").and_then(|it| it.plan).expect("a plan");
    let PlanReport { steps, routines, calls, .. } = plan;
    graphs.into_iter().chain([[steps, routines, calls]]).collect()
}

macro_rules! check {
    ($module:ident, bodies $bodies:expr) => {{
        let x = &random::uniform([2, 4], -1.0, 1.0);
        let (second, third) = ($module::Second::new(), $module::Third::new());
        let (fourth, fifth) = ($module::Fourth::new(), $module::Fifth::new());
        compiled("second", &|| $module::second(&second, x));
        let reports = [
            compiled("third", &|| $module::third(&third, x)),
            compiled("fourth", &|| $module::fourth(&fourth, x)),
            compiled("fifth", &|| $module::fifth(&fifth, x)),
        ];
        let [third, fourth, fifth] = reports.each_ref().map(sizes);
        for (at, stage) in ["trace", "effects", "expand", "optimize", "plan"].into_iter().enumerate() {
            let ([a, b, c], text) = ([third[at], fourth[at], fifth[at]], &reports[2]);
            // Without sharing, each level has three times the nodes of the one below. With sharing, each level adds as
            // many nodes as the one below.
            let more = |later: [usize; 3], earlier: [usize; 3]| later[0] - earlier[0];
            match stage {
                // Graphs that are small, or called once, are inlined.
                "optimize" | "plan" => assert!(more(c, b) < 2 * more(b, a), "{stage}\n{text}"),
                _ => assert_eq!([more(c, b), c[1] - b[1]], [more(b, a), b[1] - a[1]], "{stage}\n{text}"),
            }
            if stage != "plan" {
                assert!(c[2] > 2 * b[2] && c[2] > 8 * c[0], "{stage}: {c:?} after {b:?}\n{text}");
            }
        }
        // The report has the time of every stage and pass.
        assert!(reports[2].passes.to_string().lines().count() > 3 && reports[2].time() > std::time::Duration::ZERO);
        LEAVES.set(0);
        $module::fifth(&$module::Fifth::new(), x);
        assert_eq!(LEAVES.get(), $bodies, "bodies of leaves that are traced");
    }};
}

#[test]
fn cells_are_shared_at_every_depth() {
    // `#[lazy_inline]` guarantees that one body of each cell is traced, however many calls there are. Without it each
    // call is traced, and equal graphs are shared.
    check!(lazy, bodies 1);
    check!(plain, bodies 81);
}
