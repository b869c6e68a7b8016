//! Tests random kernels.

use super::super::Tuning;
use super::harness::{TARGETS, check, check_for};
use crate::isa::Isa;
use ms_ir::Kernel;
use ms_ir::testing::{Random, elementwise, repeated, staged};
use std::ops::Range;

/// The number of kernels of each kind.
const COUNT: u64 = 300;

/// The first seed of the ignored test.
const MANY: u64 = 1_000_000;

#[test]
fn elementwise_kernels() {
    one_stage_or_loop(elementwise, 0..COUNT);
}

#[test]
fn repeated_kernels() {
    one_stage_or_loop(repeated, 2000..2000 + COUNT);
}

#[test]
fn staged_kernels() {
    with_stages(1000..1000 + COUNT);
}

/// Tests `MS_KERNELS` random kernels, a third of each kind.
#[test]
#[ignore = "runs for minutes, by hand"]
fn many_random_kernels() {
    let count = std::env::var("MS_KERNELS").map_or(100_000, |it| it.parse::<u64>().expect("a number"));
    let seeds = MANY..MANY + count.div_ceil(3);
    one_stage_or_loop(elementwise, seeds.clone());
    one_stage_or_loop(repeated, seeds.clone());
    with_stages(seeds);
}

/// Tests random kernels without reductions, one for each seed.
fn one_stage_or_loop(generate: fn(&mut Random<'_>, usize, bool) -> Kernel, seeds: Range<u64>) {
    let (mut spills, mut special) = ([0, 0], 0);
    for seed in seeds {
        let mut random = Random::Seed(seed);
        let steps = random.pick(&[3, 10, 40, 150]);
        let narrow = random.below(2) == 0;
        let kernel = generate(&mut random, steps, narrow);
        let sizes: Vec<Vec<usize>> =
            [1, 8, 37].iter().map(|&it| [vec![2; kernel.par as usize], vec![it]].concat()).collect();
        for isa in TARGETS {
            let result = check(&format!("random kernel {seed}"), &kernel, isa, &sizes);
            spills[usize::from(isa == Isa::Avx512)] += result.unwrap_or_else(|error| panic!("{seed}: {error}"));
            // Streaming stores need rows that begin at cache lines.
            let sizes: Vec<Vec<usize>> = [(1, 1), (1, 37), (2, 64), (2, 192)]
                .iter()
                .map(|&(outer, lanes)| [vec![outer; kernel.par as usize], vec![lanes]].concat())
                .collect();
            for tuning in [Tuning::Unrolled, Tuning::Streaming] {
                let what = format!("random kernel {seed} for {tuning:?}");
                special += usize::from(check_for(&what, &kernel, isa, tuning, &sizes).is_ok());
            }
        }
    }
    assert!(special > 0, "no kernel has special code");
    for isa in TARGETS {
        assert!(spills[usize::from(isa == Isa::Avx512)] > 0, "nothing was spilled on {isa}");
    }
}

/// Tests random kernels with reductions, one for each seed.
fn with_stages(seeds: Range<u64>) {
    for seed in seeds {
        let mut random = Random::Seed(seed);
        let steps = random.pick(&[2, 6, 30]);
        let kernel = staged(&mut random, steps);
        // The lanes of rows in several parts must be whole vectors.
        let sizes =
            if kernel.run > 0 { [(16, 3), (48, 3), (144, 5), (192, 2)] } else { [(1, 3), (8, 20), (37, 9), (300, 2)] };
        let sizes: Vec<Vec<usize>> = sizes
            .iter()
            .map(|&(lanes, seq)| [vec![2; kernel.par as usize], vec![lanes], vec![seq; kernel.seq as usize]].concat())
            .collect();
        for isa in TARGETS {
            let result = check(&format!("random kernel {seed}"), &kernel, isa, &sizes);
            result.unwrap_or_else(|error| panic!("{seed}: {error}"));
        }
    }
}
