//! Tests channel-blocked convolution: on emulated engines everywhere, and natively where the processor has one.

use super::engines::{on, operands};
use super::{Case, PLAIN, Terms, check_with, numbers, result, wide};
use half::bf16;
use ms_ir::Precision::{self, High, Highest, Medium};
use ms_ir::data::{Array, DType};
use ms_ops::ops;
use ms_x64::Isa;
use ms_x64::gemm::testing::{components, engines_for, floats, split, sum_on};
use ms_x64::gemm::{Arithmetic, BLOCK, Engine};

/// Reorders the products of a sum from channel by channel to channel blocks, each of which runs tap by tap. Zeros pad
/// the last block.
fn in_blocks(terms: &Terms, taps: usize) -> Terms {
    let of_block = |block: &[(f64, f64)]| {
        let term = |tap: usize, channel: usize| block.get(channel * taps + tap).copied().unwrap_or_default();
        (0..taps * BLOCK).map(|at| term(at / BLOCK, at % BLOCK)).collect::<Vec<_>>()
    };
    terms.chunks(taps * BLOCK).flat_map(of_block).collect()
}

/// Compares the bits of results with the specified order of sums, on one thread and on several.
#[track_caller]
fn check(case: &Case, (dtype, precision): (DType, Precision)) {
    let [x, w, _] = operands(case, dtype);
    let [wide_x, wide_w] = [&x, &w].map(wide);
    let components = components(dtype, precision);
    let taps = case.w[2] * case.w[3];
    for engine in engines_for([components; 2]) {
        let sum = |terms: &Terms| {
            let terms = in_blocks(terms, taps);
            let [left, right] = [|it: &(f64, f64)| it.1, |it: &(f64, f64)| it.0]
                .map(|of| terms.iter().map(|it| split(of(it) as f32, components)).collect::<Vec<_>>());
            let sum = sum_on(engine, &left, &right, [components; 2]);
            f64::from(if dtype == DType::BF16 { bf16::from_f32(sum).to_f32() } else { sum })
        };
        let want = case.forward(&wide_x, &wide_w, &sum);
        check_with(on(engine, precision), &ops::CONV, &case.attrs(&[]), [&x, &w], &want);
    }
}

#[test]
fn sums_are_in_blocks_of_channels() {
    let [all, one]: [&[(DType, Precision)]; 2] = [
        &[(DType::F32, Highest), (DType::F32, High), (DType::F32, Medium), (DType::BF16, Highest)],
        &[(DType::F32, Medium)],
    ];
    let cases = [
        // One block; a full and a partial micro-panel; padding on all sides, and sums between rows of output positions.
        (Case { x: [2, 32, 6, 7], w: [33, 32, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN }, all),
        // Partial blocks, an odd number of channels, and groups.
        (Case { x: [1, 60, 6, 8], w: [34, 60, 2, 3], before: [1, 0], ..PLAIN }, all),
        (Case { x: [2, 58, 4, 9], w: [66, 29, 2, 2], after: [1, 0], groups: 2, ..PLAIN }, one),
        (Case { x: [1, 186, 6, 7], w: [9, 62, 1, 2], groups: 3, ..PLAIN }, one),
        // Phases of a stride, dilation, and both.
        (Case { x: [1, 32, 13, 15], w: [5, 32, 3, 3], stride: [2; 2], before: [1; 2], after: [1; 2], ..PLAIN }, all),
        (Case { x: [2, 64, 9, 8], w: [33, 64, 3, 2], dilation: [2, 3], before: [2, 1], after: [1, 2], ..PLAIN }, one),
        (Case { x: [2, 32, 9, 17], w: [7, 32, 3, 3], stride: [1, 3], dilation: [2; 2], after: [1, 4], ..PLAIN }, one),
        // No positions between rows: 1x1 kernels, and one row with whole and partial tiles.
        (Case { x: [3, 64, 13, 9], w: [64, 64, 1, 1], stride: [2; 2], ..PLAIN }, one),
        (Case { x: [2, 32, 1, 68], w: [70, 32, 1, 5], ..PLAIN }, one),
        (Case { x: [1, 32, 1, 150], w: [32, 32, 1, 5], stride: [1, 2], before: [0, 3], after: [0, 1], ..PLAIN }, one),
        // Tasks with tiles of several images, and with some tiles of an image.
        (Case { x: [23, 30, 6, 5], w: [4, 30, 2, 2], before: [1, 0], ..PLAIN }, one),
        (Case { x: [1, 28, 33, 37], w: [3, 28, 2, 3], before: [1, 0], ..PLAIN }, one),
    ];
    for (case, types) in &cases {
        types.iter().for_each(|&of| check(case, of));
    }
}

/// Images that are split in different passes have the same bits as alone.
#[test]
fn images_are_stored_in_rounds() {
    let one = Case { x: [1, 32, 1, 256], w: [2, 32, 1, 2], stride: [1, 2], dilation: [1, 193], ..PLAIN };
    let all = Case { x: [900, 32, 1, 256], ..one };
    let [x, w] = [(all.x, 1), (all.w, 2)].map(|(shape, seed)| numbers(&shape, DType::F32, seed));
    let elements = x.on_host().expect("the elements are readable");
    let elements = elements.as_slice::<f32>().expect("they are f32, without gaps");
    let len = elements.len() / all.x[0];
    let engine = engines_for([2; 2]).next().expect("there are tiles");
    let of = |x: &Array| floats(&result(on(engine, High), &ops::CONV, &one.attrs(&[]), [x, &w]));
    let results = of(&x);
    let of_each = results.len() / all.x[0];
    for image in [0, 1, 861, 862, 863, 899] {
        let alone = of(&Array::from_slice(&one.x, &elements[image * len..][..len]));
        assert!(results[image * of_each..][..of_each] == alone, "image {image}");
    }
}

/// A program's convolutions use channel blocks if these are full and there are many output positions. Otherwise they
/// avoid the engine if it needs many component products.
#[test]
fn blocks_run_where_they_are_faster() {
    let large = Engine::of(Isa::detect());
    let cases = [
        (Case { x: [4, 128, 12, 12], w: [128, 128, 3, 3], before: [1; 2], after: [1; 2], ..PLAIN }, Medium, large),
        (Case { x: [2, 8, 20, 20], w: [128, 8, 5, 5], ..PLAIN }, Highest, Engine::None),
    ];
    let has_blocks = matches!(large, Engine::Tiles(_));
    for (case, precision, want) in cases.into_iter().filter(|it| has_blocks || it.1 == Highest) {
        let [x, w, _] = operands(&case, DType::F32);
        let of = |it: Arithmetic| floats(&result(it, &ops::CONV, &case.attrs(&[]), [&x, &w]));
        let (own, given) = (of(Arithmetic::new(Isa::detect(), precision)), of(on(want, precision)));
        assert!(own == given, "{:?} and {:?} in {precision} on {want:?}", case.x, case.w);
    }
}
