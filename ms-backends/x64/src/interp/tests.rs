//! Tests the order of loops and reductions against scalar code. Tests of instructions are in `tests/kernels`.

use super::Interpreted;
use crate::testing::Call;
use ms_ir::testing::Random;
use ms_ir::{Kernel, ParamId};

/// Returns the result of a kernel with one input and one output of f32.
fn run(text: &str, extents: &[usize], x: &[f32]) -> Vec<f32> {
    let kernel = Kernel::parse(text).expect(text);
    kernel.check().expect(text);
    let mut call = Call::new(&kernel, extents, &[None, None], 0);
    assert_eq!(call.count(ParamId(0)), x.len());
    call.fill(ParamId(0), |at| x[at].to_bits().into());
    // SAFETY: the call was created for this kernel, so its buffers cover every access.
    unsafe { call.run(&Interpreted::new(kernel)) };
    call.elements(ParamId(1)).into_iter().map(|it| f32::from_bits(it as u32)).collect()
}

#[test]
fn positions_begin_at_their_bases() {
    let text = "kernel par=1 lanes=parallel seq=0
        out %sum: i64 unit
        point: i = index 0 j = index 1 k = const i64 1000 row = mul i, k sum = add row, j store %sum, sum";
    let kernel = Kernel::parse(text).expect(text);
    for bases in [[0u64, 0], [7, 0], [0, 9], [5, 600]] {
        let mut call = Call::new(&kernel, &[3, 700], &[None], 0);
        call.begin_at(&bases);
        // SAFETY: the call was created for this kernel, so its buffers cover every access.
        unsafe { call.run(&Interpreted::new(kernel.clone())) };
        let row = |i: u64| (0..700).map(move |j| 1000 * (bases[0] + i) + bases[1] + j);
        assert_eq!(call.elements(ParamId(0)), (0..3).flat_map(row).collect::<Vec<u64>>(), "{bases:?}");
    }
}

/// Reduces a row in the order of `LaneAxis::Reduced`.
fn reduce_row(row: impl Iterator<Item = (usize, f32)>) -> f32 {
    let mut sums = [0.0; 16];
    for (lane, value) in row {
        sums[lane % 16] += value;
    }
    for half in [8, 4, 2, 1] {
        for k in 0..half {
            sums[k] += sums[k + half];
        }
    }
    sums[0]
}

/// Returns random numbers from -1 to 1.
fn noise(len: usize) -> Vec<f32> {
    let mut random = Random::Seed(12345);
    (0..len).map(|_| (random.bits() >> 40) as f32 / 8_388_608.0 - 1.0).collect()
}

#[test]
fn rows_are_reduced_in_turns_of_accumulators() {
    let text = "kernel par=1 lanes=reduced seq=1
        in %x: f32 unit
        out %sum: f32 zero
        loop: x = load %x sum = reduce sum x
        point: store %sum, sum";
    for (outer, lanes) in [(1usize, 1usize), (3, 17), (2, 513), (4, 1300), (0, 5), (2, 0)] {
        let rows = 3;
        let data = noise(rows * outer * lanes);
        let element = |row: usize, i: usize| (i % lanes, data[row * outer * lanes + i]);
        let want = (0..rows).map(|row| reduce_row((0..outer * lanes).map(|i| element(row, i))));
        assert_eq!(run(text, &[rows, lanes, outer], &data), want.collect::<Vec<_>>(), "{outer} x {lanes}");
    }
}

#[test]
fn columns_are_reduced_in_order() {
    let text = "kernel par=0 lanes=parallel seq=1
        in %x: f32 unit
        out %total: f32 unit
        loop: x = load %x sum = reduce sum x max = reduce max x
        point: total = add sum, max store %total, total";
    let (rows, columns) = (37, 530);
    let data = noise(rows * columns);
    let column = |at: usize| (0..rows).map(|row| data[row * columns + at]).collect::<Vec<_>>();
    let total = |at| column(at).iter().fold(0.0, |a, b| a + b) + column(at).iter().copied().fold(f32::MIN, f32::max);
    assert_eq!(run(text, &[columns, rows], &data), (0..columns).map(total).collect::<Vec<_>>());
}
