//! Random kernels.

use super::harness::{check, targets};
use crate::isa::Isa;
use ms_core::ir::Kernel;
use ms_core::ir::testing::{Random, elementwise, repeated, staged};

#[test]
fn elementwise_kernels() {
    one_stage_or_loop(elementwise, 0);
}

#[test]
fn repeated_kernels() {
    one_stage_or_loop(repeated, 2000);
}

/// Random kernels without reductions, from this seed.
fn one_stage_or_loop(generate: fn(&mut Random<'_>, usize, bool) -> Kernel, seed: u64) {
    let mut spills = [0, 0];
    for seed in seed..seed + 300 {
        let mut random = Random::Seed(seed);
        let steps = random.pick(&[3, 10, 40, 150]);
        let narrow = random.below(2) == 0;
        let kernel = generate(&mut random, steps, narrow);
        let sizes: Vec<Vec<usize>> =
            [1, 8, 37].iter().map(|&it| [vec![2; kernel.par as usize], vec![it]].concat()).collect();
        for isa in targets() {
            let result = check(&format!("random kernel {seed}"), &kernel, isa, &sizes);
            spills[usize::from(isa == Isa::Avx512)] += result.unwrap_or_else(|error| panic!("{seed}: {error}"));
        }
    }
    for isa in targets() {
        assert!(spills[usize::from(isa == Isa::Avx512)] > 0, "nothing was spilled on {isa}");
    }
}

#[test]
fn staged_kernels() {
    for seed in 1000..1300 {
        let mut random = Random::Seed(seed);
        let steps = random.pick(&[2, 6, 30]);
        let kernel = staged(&mut random, steps);
        // Lanes of rows in several parts are whole vectors.
        let sizes = if kernel.run > 0 { [(16, 3), (48, 3), (144, 5)] } else { [(1, 3), (8, 20), (37, 9)] };
        let sizes: Vec<Vec<usize>> = sizes
            .iter()
            .map(|&(lanes, seq)| [vec![2; kernel.par as usize], vec![lanes], vec![seq; kernel.seq as usize]].concat())
            .collect();
        for isa in targets() {
            let result = check(&format!("random kernel {seed}"), &kernel, isa, &sizes);
            result.unwrap_or_else(|error| panic!("{seed}: {error}"));
        }
    }
}
