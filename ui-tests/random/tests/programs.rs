//! Every random program gives the same bits natively, eagerly and compiled.

// What the generator writes is as plain as it can be, and not as a person would.
#![allow(warnings, clippy::all)]

use ms::prelude::*;
use ms::{Context, with_context};

/// Both forms of a program.
struct Program {
    seed: u64,
    native: fn(f32, f32, usize, bool) -> f32,
    annotated: fn(&Mix, &Tensor, &Tensor, usize, bool) -> Tensor,
}

/// The cell that programs call.
#[cell]
struct Mix {
    weight: Parameter,
}

#[cell]
impl Mix {
    fn construct(&self, a: &Tensor, b: &Tensor) -> Tensor {
        ops::select(&(a < b), &(a * &self.weight + b), &(a - b))
    }
}

/// The same on numbers.
fn mix(a: f32, b: f32) -> f32 {
    if a < b { a * 0.5 + b } else { a - b }
}

include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// Inputs of a program: few host values, so that few versions are compiled.
fn inputs() -> Vec<(f32, f32, usize, bool)> {
    let host = [(0, false), (1, true), (2, false), (3, true)];
    let numbers = [(0.0, 0.0), (1.0, -0.5), (-2.25, 0.75), (0.5, 0.5), (7.0, 3.5)];
    host.iter().flat_map(|&(k, flag)| numbers.map(|(x, y)| (x, y, k, flag))).collect()
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn random_programs_give_the_same_bits() {
    let cell = Mix { weight: Parameter::new(Tensor::scalar(0.5f32), "") };
    let context = |jit| Context { jit, precision: Precision::Strict, ..ms::context() };
    let mut wrong = Vec::new();
    for program in PROGRAMS {
        for (x, y, k, flag) in inputs() {
            let want = (program.native)(x, y, k, flag);
            for jit in [false, true] {
                let run = || (program.annotated)(&cell, &Tensor::scalar(x), &Tensor::scalar(y), k, flag);
                let got = with_context(context(jit), || ms::catch(|| run().item::<f32>()));
                if !got.as_ref().is_ok_and(|&got| same(got, want)) {
                    wrong.push(format!("{} ({x}, {y}, {k}, {flag}), jit {jit}: {got:?}, not {want}", program.seed));
                }
            }
        }
    }
    let seeds: std::collections::BTreeSet<&str> = wrong.iter().filter_map(|it| it.split(' ').next()).collect();
    assert!(
        wrong.is_empty(),
        "{} programs of {}: {seeds:?}\n{}",
        seeds.len(),
        PROGRAMS.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}
