//! Tests the errors of f32 products in every precision against those of fused multiply-adds; the table is in
//! `docs/numerics.md`.

use super::{Engine, UNIFORM, components, engines_for, errors_of, floats, product};
use crate::gemm::tests::random;
use ms_ir::Precision;
use ms_ir::data::{Array, DType};

/// `[m, k, n]`
const SIZES: [usize; 3] = [32, 1024, 32];

/// Distributions of elements.
#[derive(Clone, Copy, Debug)]
enum Elements {
    /// Uniform in `[-1, 1]`.
    Uniform,
    /// Uniform in `[0, 1]`.
    Positive,
    /// About normal: sums of uniform numbers.
    Normal,
    /// Random sign, and a uniform base-2 logarithm up to this magnitude.
    Logarithmic(f64),
    /// Uniform in `[-2^-115, 2^-115]`, for products with uniform elements.
    Tiny,
}

fn elements(shape: &[usize], of: Elements, seed: &mut u64) -> Array {
    let mut uniform = || random(seed) as f64 / (1u64 << 30) as f64 - 1.0;
    let mut element = || match of {
        Elements::Uniform => uniform(),
        Elements::Positive => uniform().abs(),
        Elements::Normal => (0..6).map(|_| uniform()).sum::<f64>(),
        Elements::Logarithmic(most) => (uniform() * most).exp2().copysign(uniform()),
        Elements::Tiny => uniform() * 2f64.powi(-115),
    };
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| element() as f32).collect();
    Array::from_slice(shape, &values)
}

/// Returns the [`errors_of`] a product of these sizes.
fn errors([m, k, n]: [usize; 3], a: &Array, b: &Array, product: &Array) -> [f64; 2] {
    let (a, b, product) = (floats(a), floats(b), floats(product));
    let sum = |at: usize| {
        let terms = (0..k).map(|it| f64::from(a[at / n * k + it]) * f64::from(b[it * n + at % n]));
        terms.fold([0.0, 0.0], |[sum, all], it| [sum + it, all + it.abs()])
    };
    errors_of(&product, &(0..m * n).map(sum).collect::<Vec<_>>())
}

#[test]
fn errors_are_within_bounds() {
    use Elements::{Logarithmic, Normal, Positive, Tiny, Uniform};
    // Maximum and root mean square errors of `strict`, `highest`, `high` and `medium`.
    let table: [(Elements, [[f64; 2]; 4]); 6] = [
        (Uniform, UNIFORM),
        (Positive, [[2e-6, 5e-7], [8e-7, 2e-7], [1e-6, 3e-7], [4e-4, 1.2e-4]]),
        (Normal, [[2e-7, 4e-8], [8e-8, 1.5e-8], [9e-7, 3e-7], [5e-4, 1.5e-4]]),
        (Logarithmic(20.0), [[9e-7, 1.5e-7], [6e-7, 1e-7], [1e-5, 2e-6], [4e-3, 1.2e-3]]),
        (Logarithmic(60.0), [[5e-7, 1e-7], [7e-7, 1.2e-7], [2e-5, 4e-6], [8e-3, 2e-3]]),
        // The range forbids the split, so the vector path multiplies these.
        (Tiny, [[2e-7, 3e-8]; 4]),
    ];
    let [m, k, n] = SIZES;
    let mut seed = 1;
    for (of, bounds) in table {
        let a = elements(&[m, k], if matches!(of, Tiny) { Uniform } else { of }, &mut seed);
        let b = elements(&[k, n], of, &mut seed);
        let precisions = [Precision::Highest, Precision::High, Precision::Medium];
        let of_engines = precisions
            .into_iter()
            .flat_map(|precision| engines_for([components(DType::F32, precision); 2]).map(move |it| (it, precision)));
        for (engine, precision) in [(Engine::None, Precision::Strict)].into_iter().chain(of_engines) {
            let found = errors(SIZES, &a, &b, &product(engine, precision, &a, &b, DType::F32));
            let bounds = bounds[Precision::ALL.iter().position(|it| *it == precision).expect("it is one of all")];
            println!("{of:?} {precision} on {engine:?}: {:.1e} {:.1e}", found[0], found[1]);
            assert!(
                found[0] <= bounds[0] && found[1] <= bounds[1],
                "{of:?} {precision} on {engine:?}: {found:?}, not {bounds:?}"
            );
        }
    }
}

/// Chunks are combined by adjacent pairs, so the error of a long sum is no larger than the error of one chunk.
#[test]
fn errors_of_long_sums_are_within_bounds() {
    use Elements::{Positive, Uniform};
    let mut seed = 1;
    // Maximum and root mean square errors.
    for (of, k, bounds) in [
        (Uniform, 16 << 10, [4e-8, 1e-8]),
        (Uniform, 256 << 10, [8e-9, 3e-9]),
        (Positive, 16 << 10, [5e-7, 2e-7]),
        (Positive, 256 << 10, [2e-7, 7e-8]),
    ] {
        let [a, b] = [[8, k], [k, 8]].map(|it| elements(&it, of, &mut seed));
        for precision in [Precision::Strict, Precision::Highest] {
            let found = errors([8, k, 8], &a, &b, &product(Engine::None, precision, &a, &b, DType::F32));
            println!("{of:?} {k} {precision}: {:.1e} {:.1e}", found[0], found[1]);
            let fits = found.iter().zip(bounds).all(|(found, bound)| *found <= bound);
            assert!(fits, "{of:?} {k} {precision}: {found:?}, not {bounds:?}");
        }
    }
}
