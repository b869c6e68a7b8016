//! Tests whole products bit by bit against the specified order of sums, in every size, layout and type.

use super::super::kernel::Split;
use super::super::split::MAX_COMPONENTS;
use super::{
    Engine, Implementation, components, doubled, engines, engines_for, floats, multiply, product, split, sum_on,
};
use crate::gemm::tests::{bits, reversed, rounded, spread, transposed, whole};
use half::{bf16, f16};
use ms_ir::Precision;
use ms_ir::data::{Array, DType, Scalar};

/// An engine that supports every split.
const TILES: Engine = Engine::Tiles(Implementation::Emulated);

/// Returns the numbers of split components of operands.
fn components_of([a, b]: [&Array; 2], precision: Precision) -> [usize; 2] {
    [a, b].map(|it| components(it.dtype(), precision))
}

/// Returns the elements of `a b`, each summed [in the engine's order](sum_on).
fn sums_on(engine: Engine, a: &Array, b: &Array, precision: Precision) -> Vec<f32> {
    let [m, k, n] = [a.shape()[0], a.shape()[1], b.shape()[1]];
    let number = components_of([a, b], precision);
    let split_lines = |x: &[f32], lines: usize, at: &dyn Fn(usize, usize) -> usize, components: usize| {
        let element = |line, term| split(x[at(line, term)], components);
        let lines = (0..lines).map(|line| (0..k).map(|term| element(line, term)).collect::<Vec<_>>());
        lines.collect::<Vec<_>>()
    };
    let rows = split_lines(&floats(a), m, &|line, term| line * k + term, number[0]);
    let columns = split_lines(&floats(b), n, &|line, term| term * n + line, number[1]);
    let elements = |row: &Vec<[f32; MAX_COMPONENTS]>| {
        columns.iter().map(|column| sum_on(engine, row, column, number)).collect::<Vec<_>>()
    };
    rows.iter().flat_map(elements).collect()
}

/// Rounds sums to a type.
fn narrowed(sums: Vec<f32>, dtype: DType) -> Vec<f32> {
    let narrow = |it| match dtype {
        DType::BF16 => bf16::from_f32(it).to_f32(),
        DType::F16 => f16::from_f32(it).to_f32(),
        _ => it,
    };
    sums.into_iter().map(narrow).collect()
}

#[track_caller]
fn check(precision: Precision, a: &Array, b: &Array, dtype: DType) {
    for it in engines_for(components_of([a, b], precision)) {
        let want = narrowed(sums_on(it, a, b, precision), dtype);
        let got = floats(&product(it, precision, a, b, dtype));
        let differ = got.iter().zip(&want).filter(|(got, want)| got.to_bits() != want.to_bits()).count();
        assert!(differ == 0, "{differ} of {} x {} {precision} on {it:?}", a.ty(), b.ty());
    }
}

#[test]
fn every_size_and_type() {
    use DType::{BF16, F16, F32};
    use Precision::{High, Highest, Medium};
    let ways = [
        (Highest, [F32, F32, F32]),
        (High, [F32, F32, F32]),
        (Medium, [F32, F32, BF16]),
        (Highest, [BF16, BF16, BF16]),
        (Highest, [F32, BF16, F32]),
        (Highest, [BF16, F32, F16]),
        (High, [F32, BF16, F32]),
        (High, [BF16, F32, BF16]),
    ];
    let sizes =
        [[1, 1, 1], [1, 40, 33], [31, 33, 32], [32, 32, 64], [33, 1, 31], [65, 34, 70], [40, 97, 33], [2, 64, 1]];
    for (at, &[m, k, n]) in sizes.iter().enumerate() {
        // Two sizes run all combinations, the other sizes one or two.
        let some = |it: usize| if at == 2 || at == 6 { true } else { it % 4 == at % 4 };
        for (precision, [a, b, out]) in ways.iter().enumerate().filter(|it| some(it.0)).map(|it| *it.1) {
            check(precision, &rounded(&[m, k], a, at as u64), &rounded(&[k, n], b, 7), out);
        }
    }
}

/// Covers more K blocks than one pass, more rows than one strip, and more columns than the sum buffer.
#[test]
fn sums_go_on_from_pass_to_pass() {
    let deep =
        |dtype, out, precision| check(precision, &rounded(&[33, 1560], dtype, 1), &rounded(&[1560, 33], dtype, 2), out);
    deep(DType::BF16, DType::F32, Precision::Highest);
    deep(DType::BF16, DType::BF16, Precision::Highest);
    check(Precision::Highest, &rounded(&[3, 600], DType::F32, 1), &rounded(&[600, 33], DType::F32, 2), DType::F32);
    check(Precision::High, &rounded(&[33, 800], DType::F32, 1), &rounded(&[800, 5], DType::F32, 2), DType::F16);
    check(Precision::Medium, &rounded(&[300, 40], DType::F32, 1), &rounded(&[40, 70], DType::F32, 2), DType::F32);
    check(Precision::Medium, &rounded(&[3, 1550], DType::F32, 1), &rounded(&[1550, 514], DType::F32, 2), DType::BF16);
}

#[test]
fn layouts_change_no_bit() {
    for (dtype, precision) in [(DType::F32, Precision::Highest), (DType::BF16, Precision::Highest)] {
        let (a, b) = (rounded(&[35, 66], dtype, 5), rounded(&[66, 40], dtype, 6));
        let (columns, rows) = (transposed(&a), transposed(&b));
        for (a, b) in
            [(&a, &rows), (&columns, &b), (&columns, &rows), (&spread(&a), &spread(&b)), (&reversed(&a), &reversed(&b))]
        {
            check(precision, a, b, DType::F32);
        }
        // A result with gaps, and a transposed result.
        for it in engines_for(components_of([&a, &b], precision)) {
            let want = bits(&product(it, precision, &a, &b, dtype));
            for out in [spread(&Array::zeros(&[35, 40], dtype)), transposed(&Array::zeros(&[35, 40], dtype))] {
                multiply(Some(it), precision, [&a, &b, &out]);
                assert!(bits(&out) == want, "{dtype} {:?} on {it:?}", out.layout());
            }
        }
    }
}

#[test]
fn batches() {
    let (a, b) = (rounded(&[3, 33, 35], DType::F32, 1), rounded(&[3, 35, 36], DType::F32, 2));
    let part = |it: &Array, at: usize| {
        let numbers = floats(it);
        let size = numbers.len() / 3;
        Array::from_slice(&it.shape()[1..], &numbers[at * size..(at + 1) * size])
    };
    let shared = b.with_layout(b.layout().slice(0, 1, 1, 1).broadcast_to(b.shape()).expect("a one repeats"));
    for (b, precision) in [&b, &shared].into_iter().flat_map(|b| [(b, Precision::High), (b, Precision::Medium)]) {
        for it in engines_for(components_of([&a, b], precision)) {
            let want: Vec<f32> = (0..3).flat_map(|at| sums_on(it, &part(&a, at), &part(b, at), precision)).collect();
            assert!(floats(&product(it, precision, &a, b, DType::F32)) == want, "{:?} on {it:?}", b.layout());
        }
    }
}

/// Packing a parameter's operand after several reads changes no bit; a left one becomes the right one of the transposed
/// product.
#[test]
fn cached_operands_change_no_bit() {
    for (dtype, precision) in
        [(DType::F32, Precision::Highest), (DType::BF16, Precision::Medium), (DType::F32, Precision::Medium)]
    {
        for is_left in [false, true] {
            let (a, b) = (rounded(&[33, 70], dtype, 3), rounded(&[70, 40], dtype, 4));
            let transposed = |it: &Array| it.with_layout(it.layout().permute(&[1, 0]));
            let want = |engine: Engine| match is_left {
                false => sums_on(engine, &a, &b, precision),
                true => {
                    let transposed = sums_on(engine, &transposed(&b), &transposed(&a), precision);
                    (0..33 * 40).map(|it| transposed[it % 40 * 33 + it / 40]).collect()
                }
            };
            let engines: Vec<_> = engines_for(components_of([&a, &b], precision)).collect();
            let want: Vec<_> = engines.iter().map(|&it| narrowed(want(it), dtype)).collect();
            let held = if is_left { &a } else { &b };
            held.storage().hold();
            for call in 0..5 {
                for (&it, want) in engines.iter().zip(&want) {
                    let got = floats(&product(it, precision, &a, &b, dtype));
                    assert!(got == *want, "{dtype} {precision}, left: {is_left}, call {call} on {it:?}");
                }
            }
            assert_eq!(held.storage().forms(), 1, "{dtype} {precision}");
            held.storage().release();
        }
    }
}

/// An epilogue reads the same bits as a program would read from memory.
#[test]
fn epilogues_change_no_bit() {
    let sizes = [([70, 40, 34], DType::F32), ([33, 500, 40], DType::BF16), ([260, 33, 40], DType::F32)];
    let ways = sizes.iter().flat_map(|size| [(size, Precision::High), (size, Precision::Medium)]);
    for ((&([m, k, n], dtype), precision), &it) in ways.flat_map(|way| engines().iter().map(move |it| (way, it))) {
        let (a, b) = (rounded(&[m, k], dtype, 1), rounded(&[k, n], dtype, 2));
        let want: Vec<f32> = floats(&product(it, precision, &a, &b, dtype)).iter().map(|it| it + it).collect();
        for by_rows in [false, true] {
            let got = doubled(it, precision, &a, &b, dtype, by_rows);
            assert!(floats(&got) == want, "{m} {k} {n} {dtype}, by rows: {by_rows}");
            // The transposed product has transposed output tiles.
            a.storage().hold();
            let want: Vec<f32> = floats(&product(it, precision, &a, &b, dtype)).iter().map(|it| it + it).collect();
            let got = doubled(it, precision, &a, &b, dtype, by_rows);
            assert!(floats(&got) == want, "{m} {k} {n} {dtype} turned, by rows: {by_rows}");
            a.storage().release();
        }
    }
}

/// Operands outside the engine's range take the vector path.
#[test]
fn operands_that_components_do_not_represent() {
    let power = |it: i32| 2f64.powi(it);
    // One element of one operand, and whether the engine must refuse it.
    let one: [(f64, bool); 10] = [
        (f64::INFINITY, true),
        (f64::NEG_INFINITY, true),
        (f64::NAN, true),
        // The first numbers that round to infinity in bf16, and the last ones that do not.
        (f32::from_bits(0x7f7f_8000).into(), true),
        (f32::from_bits(0xff7f_8000).into(), true),
        (f32::from_bits(0x7f7f_7fff).into(), false),
        (power(-115), true),
        (-power(-140), true),
        (power(-102), false),
        (0.0, false),
    ];
    let plain = [rounded(&[33, 40], DType::F32, 1), rounded(&[40, 35], DType::F32, 2)];
    let changed = |operand: usize, change: &dyn Fn(&mut [f32])| {
        let mut numbers = floats(&plain[operand]);
        change(&mut numbers);
        Array::from_slice(plain[operand].shape(), &numbers)
    };
    // Whether a product on an engine has the bits of the vector path.
    let is_without = |engine: Engine, precision: Precision, [a, b]: [&Array; 2]| {
        let [with, without] = [engine, Engine::None].map(|it| bits(&product(it, precision, a, b, DType::F32)));
        with == without
    };
    let precision = Precision::Highest;
    for ((special, is_refused), operand) in one.iter().flat_map(|it| [(*it, 0), (*it, 1)]) {
        let other = changed(operand, &|it| it[700] = special as f32);
        let operands = if operand == 0 { [&other, &plain[1]] } else { [&plain[0], &other] };
        for it in engines_for([3; 2]) {
            assert_eq!(is_without(it, precision, operands), is_refused, "{special:e} in operand {operand} on {it:?}");
        }
        // The cached range of an operand decides as well.
        operands[1].storage().hold();
        for _ in 0..3 {
            let found = is_without(TILES, precision, operands);
            assert_eq!(found, is_refused, "{special:e} in operand {operand}, kept");
        }
        operands[1].storage().release();
    }
    // Small operands are legal with large ones, but not with other small ones; zeros are legal with any.
    for (by, is_refused) in [([-70, 20], false), ([-47, -47], false), ([-52, -52], true)] {
        let [a, b] = [0, 1].map(|at| changed(at, &|it| it.iter_mut().for_each(|it| *it *= power(by[at]) as f32)));
        let found = is_without(TILES, precision, [&a, &b]);
        assert_eq!(found, is_refused, "2^{} and 2^{}", by[0], by[1]);
    }
    // Fewer components keep fewer bits of small numbers, so that smaller numbers are legal.
    for (precision, least) in [(Precision::High, -110), (Precision::Medium, -126)] {
        for (magnitude, is_refused) in [(power(least), false), (power(least - 1), true)] {
            let a = changed(0, &|it| it[3] = magnitude as f32);
            for it in engines_for(components_of([&a, &plain[1]], precision)) {
                let found = is_without(it, precision, [&a, &plain[1]]);
                assert_eq!(found, is_refused, "{precision} {magnitude:e} on {it:?}");
            }
        }
    }
}

/// Integer sums are exact, so every engine has the bits of the vector path.
#[test]
fn bytes_are_exact() {
    let random = |shape: &[usize], dtype: DType, mut seed: u64| {
        let count: usize = shape.iter().product();
        let bytes: Vec<u8> = (0..count).map(|_| crate::gemm::tests::random(&mut seed) as u8).collect();
        match dtype {
            DType::I8 => Array::from_slice(shape, &bytes.iter().map(|it| *it as i8).collect::<Vec<_>>()),
            _ => Array::from_slice(shape, &bytes),
        }
    };
    let outs = [DType::I32, DType::I16, DType::U8, DType::I32];
    let signs = [[DType::I8, DType::I8], [DType::I8, DType::U8], [DType::U8, DType::I8], [DType::U8, DType::U8]];
    for (&[a, b], out) in signs.iter().zip(outs) {
        for [m, k, n] in [[1, 1, 1], [33, 65, 40], [2, 3200, 3]] {
            let (x, y) = (random(&[m, k], a, 1), random(&[k, n], b, 2));
            let without = bits(&product(Engine::None, Precision::Strict, &x, &y, out));
            let ways = [
                (Precision::Strict, x.clone(), y.clone()),
                (Precision::Highest, transposed(&x), transposed(&y)),
                (Precision::Medium, spread(&x), reversed(&y)),
            ];
            for ((precision, x, y), &it) in ways.iter().flat_map(|way| engines().iter().map(move |it| (way, it))) {
                let got = bits(&product(it, *precision, x, y, out));
                assert!(got == without, "{} x {} to {out} on {it:?}", x.ty(), y.ty());
            }
        }
    }
}

/// AVX512-BF16 supports one component of each operand only; other precisions take the vector path.
#[test]
fn dot_products_have_one_component() {
    let (a, b) = (rounded(&[40, 70], DType::F32, 1), rounded(&[70, 40], DType::F32, 2));
    for (precision, is_without) in [(Precision::Highest, true), (Precision::High, true), (Precision::Medium, false)] {
        let [with, without] = [Engine::Dots(Implementation::Emulated), Engine::None]
            .map(|it| bits(&product(it, precision, &a, &b, DType::F32)));
        assert_eq!(with == without, is_without, "{precision}");
    }
}

/// Strict sums and other types take the vector path.
#[test]
fn products_that_engines_do_not_support() {
    let cases = [(Precision::Strict, DType::F32), (Precision::Strict, DType::BF16), (Precision::Medium, DType::F16)];
    for (precision, dtype) in
        cases.into_iter().chain([(Precision::Medium, DType::F64), (Precision::Medium, DType::I16)])
    {
        let (a, b) = (rounded(&[40, 70], dtype, 1), rounded(&[70, 40], dtype, 2));
        let [with, without] = [TILES, Engine::None].map(|it| bits(&product(it, precision, &a, &b, dtype)));
        assert!(with == without, "{precision} {dtype}");
    }
    // Sums over an empty reduction dimension are zero.
    let (a, b) = (whole(&[3, 0], DType::F32, 1), whole(&[0, 4], DType::F32, 1));
    assert!(floats(&product(TILES, Precision::High, &a, &b, DType::F32)) == [0.0; 12]);
    let scalar = Scalar::Int(0);
    let empty = product(
        TILES,
        Precision::High,
        &Array::full(&[0, 3], scalar, DType::F32),
        &Array::full(&[3, 4], scalar, DType::F32),
        DType::F32,
    );
    assert_eq!(empty.shape(), [0, 4]);
}

/// Sizes alone decide which products of a program run on an engine.
#[test]
fn large_products_run_on_engines() {
    let [full, half, one] = [3, 2, 1].map(|it| Split::Floats([it; 2]));
    let (whole, dots) = (Split::Bytes([true; 2]), Engine::Dots(Implementation::Emulated));
    let cases = [
        (full, [127, 128, 128], false, false),
        (full, [128, 128, 128], false, true),
        (full, [64, 512, 512], false, true),
        (full, [64, 512, 511], false, false),
        (full, [512, 63, 1000], false, false),
        (full, [63, 1000, 1000], true, false),
        (full, [64, 64, 32], true, true),
        (full, [64, 63, 32], true, false),
        (half, [32, 64, 32], true, true),
        (half, [31, 64, 32], true, false),
        (half, [32, 64, 32], false, false),
        (whole, [32, 64, 32], false, true),
        (whole, [32, 64, 31], true, false),
    ];
    let by_dots = [
        (one, [64, 64, 64], false, true),
        (one, [64, 63, 64], false, false),
        (one, [32, 64, 32], true, true),
        (one, [31, 64, 32], true, false),
    ];
    let all = cases.map(|it| (TILES, it)).into_iter().chain(by_dots.map(|it| (dots, it)));
    for (engine, (split, sizes, is_cached, want)) in all {
        let found = engine.is_profitable(split, sizes, is_cached);
        assert_eq!(found, want, "{split:?} {sizes:?} on {engine:?}, kept: {is_cached}");
    }
}
