//! Tests L-BFGS, with and without a line search.
//!
//! `pytorch.py` prints the expected numbers of PyTorch 2.15.0.

use super::steps::{both, update};
use ms::prelude::*;

/// Minimises `(1 - x)² + 10 (y - x²)² + (z - x)²`, from the start of `pytorch.py`.
#[test]
fn lbfgs_is_that_of_pytorch() {
    let run = |history: usize, steps: usize, dtype: DType| {
        let vector = |it: Tensor| Parameter::new(it.cast(dtype), "");
        let parameters = vec![vector(tensor![-1.2f64, 1.0]), vector(tensor![[0.5f64]])];
        let opt = LBFGS::with_history(0.5, history);
        opt.prepare(&parameters);
        for _ in 0..steps {
            let gradients = ms::grad(|p: &Vec<Tensor>| {
                let (x, y, z) = (p[0].at(0), p[0].at(1), p[1].at(0).at(0));
                (1.0 - &x).square() + (y - x.square()).square() * 10.0 + (z - x).square()
            })(&parameters.iter().map(Parameter::value).collect::<Vec<_>>());
            update(&opt, &parameters, &gradients);
        }
        parameters.iter().flat_map(|it| it.value().cast(DType::F64).to_vec::<f64>()).collect::<Vec<_>>()
    };
    let all = [
        (
            3,
            [
                [-0.8483463035019454, 1.1070038910505837, 0.4586575875486381],
                [-0.8784751248424425, 1.0773004369466364, 0.4498171113059943],
                [-0.8915929716844933, 0.8288258853257394, 0.2672416386665371],
                [-0.14914549697535753, -0.019758335577913833, -0.5556356644676287],
                [1.000025129099945, 1.000045005269403, 1.000026977006956],
            ],
        ),
        (
            10,
            [
                [-0.8483463035019454, 1.1070038910505837, 0.4586575875486381],
                [-0.8784751248424425, 1.0773004369466364, 0.4498171113059943],
                [-0.8905416992617411, 0.8270715886378182, 0.2658603187984954],
                [-0.3846136503793944, 0.05232870786755514, -0.49483482828180314],
                [0.9999775408024616, 0.9999387413349643, 0.9999232898567358],
            ],
        ),
    ];
    for (history, want) in all {
        for (steps, want) in [1, 2, 5, 10, 40].into_iter().zip(want) {
            let got = both("LBFGS", || run(history, steps, DType::F64));
            // Each step amplifies the rounding errors of the earlier steps.
            let near = |(got, want): (&f64, f64)| (got - want).abs() < 1e-8;
            assert!(got.iter().zip(want).all(near), "history {history}, {steps} steps: {got:?}, not {want:?}");
        }
    }
    let single = both("LBFGS, f32", || run(10, 60, DType::F32));
    assert!(single.iter().all(|it| (it - 1.0).abs() < 1e-3), "{single:?}");
}

#[test]
fn lbfgs_rests_at_a_minimum() {
    both("a minimum", || {
        let parameters = vec![Parameter::new(tensor![1.0, 2.0], "")];
        let opt = LBFGS::new(1.0);
        (0..3).for_each(|_| update(&opt, &parameters, &vec![tensor![0.0, 0.0]]));
        assert_eq!(parameters[0].value().to_vec::<f32>(), [1.0, 2.0]);
    });
}

/// Computes `Σ (1 - x)² + 100 (y - x²)²` over the columns of a matrix.
#[cell]
struct Valley {
    p: Parameter,
}

#[cell]
impl Valley {
    fn construct(&self) -> Tensor {
        let (x, y) = (self.p.value().at(0), self.p.value().at(1));
        ((1.0 - &x).square() + (y - x.square()).square() * 100.0).sum(())
    }
}

fn valley(dtype: DType) -> Valley {
    Valley { p: Parameter::new(tensor![[-1.2f64, 2.0, 0.0], [1.0, -2.0, 5.0]].cast(dtype), "") }
}

#[test]
fn a_line_search_finds_the_minimum_of_a_narrow_valley() {
    for (dtype, tolerance) in [(DType::F64, 1e-6), (DType::F32, 1e-2)] {
        let (p, loss) = both("a valley", || {
            let (net, opt) = (valley(dtype), LBFGS::new(1.0).tolerances(1e-9, 1e-18));
            let loss = opt.minimize(&net, &(), 100, |net, ()| net.call());
            (net.p.value().cast(DType::F64).to_vec::<f64>(), loss.cast(DType::F64).item::<f64>())
        });
        assert!(p.iter().all(|it| (it - 1.0).abs() < tolerance), "{dtype}: {p:?}, {loss}");
    }
}

/// The loss never rises, and a run continues from its checkpoint.
#[test]
fn a_minimisation_goes_on_from_a_checkpoint() {
    let minimize = |net: &Valley, opt: &LBFGS, iterations: usize| {
        opt.minimize(net, &(), iterations, |net, ()| net.call()).item::<f64>()
    };
    let (net, opt) = (valley(DType::F64), LBFGS::with_history(1.0, 4));
    let mut last = f64::INFINITY;
    for _ in 0..6 {
        let loss = minimize(&net, &opt, 2);
        assert!(loss < last, "{loss} after {last}");
        last = loss;
    }
    let state = (&net, &opt).state_dict();
    let (other, resumed) = (valley(DType::F64), LBFGS::with_history(1.0, 4));
    (&other, &resumed).load_state_dict(&state, &LoadOptions::new()).expect("its state is created");
    assert_eq!(minimize(&other, &resumed, 5), minimize(&net, &opt, 5));
    assert_eq!(other.p.value().to_vec::<f64>(), net.p.value().to_vec::<f64>());
}

#[test]
fn a_minimisation_compiles_its_two_functions_once() {
    let (net, opt) = (valley(DType::F32), LBFGS::new(1.0));
    let before = ms::compile_report().len();
    for _ in 0..3 {
        opt.minimize(&net, &(), 5, |net, ()| net.call());
    }
    let reports = ms::compile_report();
    let names: Vec<&str> = reports[before..].iter().map(|it| &*it.name).filter(|it| it.contains("LBFGS")).collect();
    assert_eq!(names, ["LBFGS::minimize", "LBFGS::propose"]);
}
