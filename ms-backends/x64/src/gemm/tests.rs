//! Tests products against exact sums, and bit by bit against the specified order of sums.

use super::element::OperandElement;
pub use super::testing::{bits, canonical};
use super::{BatchedGemm, Results};
use crate::isa::Isa;
use crate::threads;
use half::bf16;
use ms_ir::StepOperand;
use ms_ir::data::{Array, DType, Element, Layout, Scalar};
use ms_ir::with_element;
use ms_ir::{Contraction, ContractionRanks, ContractionTypes, Precision};

const PRECISIONS: [Precision; 2] = [Precision::Strict, Precision::Highest];

/// Matrix engines are not profitable for this number of rows.
#[test]
fn high_and_medium_are_highest() {
    for dtype in [DType::F32, DType::BF16, DType::F64] {
        let (a, b) = (rounded(&[60, 300], dtype, 1), rounded(&[300, 90], dtype, 2));
        let of = |precision| bits(&product(Isa::detect(), precision, &a, &b));
        let highest = of(Precision::Highest);
        assert!([Precision::High, Precision::Medium].into_iter().all(|it| of(it) == highest), "{dtype}");
    }
}

#[test]
fn bf16_is_rounded_to_nearest() {
    let special = [0, 1, 0x7f80_0000, 0x7f80_0001, 0x7fff_ffff, 0x7f7f_ffff, 0x7f7f_8000, 0x3f80_8000, 0x3f81_8000];
    for bits in special.into_iter().chain((0..1 << 19).map(|it| it * 0xfff)).flat_map(|it| [it, it | 1 << 31]) {
        let it = f32::from_bits(bits);
        assert_eq!(bf16::narrow(it).to_bits(), bf16::from_f32(it).to_bits(), "{bits:#x}");
    }
}

pub fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *state >> 33
}

/// Returns small integers, whose sums are exact or wrap equally in every dtype.
pub fn whole(shape: &[usize], dtype: DType, mut seed: u64) -> Array {
    let mut out = Array::zeros(shape, dtype);
    let unsigned = dtype.is_int() && !dtype.is_signed_int();
    let low = if unsigned { 0 } else { -7 };
    with_element!(dtype, T => {
        for it in out.as_mut_slice::<T>() {
            *it = T::from_scalar(Scalar::Int((random(&mut seed) >> 27) as i64 + low));
        }
    });
    out
}

/// Returns numbers of different magnitudes, whose sums are rounded.
pub fn rounded(shape: &[usize], dtype: DType, mut seed: u64) -> Array {
    let mut out = Array::zeros(shape, dtype);
    with_element!(dtype, T => {
        for it in out.as_mut_slice::<T>() {
            let size = (2f64).powi((random(&mut seed) % 9) as i32 - 6);
            *it = T::from_scalar(Scalar::Float((random(&mut seed) as f64 / (1u64 << 30) as f64 - 1.0) * size));
        }
    });
    out
}

/// Returns the product of small integers.
pub fn model(a: &Array, b: &Array) -> Vec<Scalar> {
    let (rank, shape) = (a.layout().rank(), a.shape());
    let (m, k, n) = (shape[rank - 2], shape[rank - 1], b.shape()[rank - 1]);
    let (xs, ys) = (
        a.on_host().expect("the elements are readable").scalars(),
        b.on_host().expect("the elements are readable").scalars(),
    );
    let batch: usize = shape[..rank - 2].iter().product();
    let mut out = Vec::new();
    for i in 0..batch * m {
        for j in 0..n {
            let terms = (0..k).map(|p| {
                let (x, y) = (xs[i * k + p], ys[(i / m * k + p) * n + j]);
                (x.as_f64() * y.as_f64(), x.as_bool() && y.as_bool())
            });
            let (sum, any) = terms.fold((0.0, false), |(sum, any), (x, y)| (sum + x, any | y));
            out.push(if a.dtype() == DType::Bool { Scalar::Bool(any) } else { wrap(sum, a.dtype()) });
        }
    }
    out
}

fn wrap(value: f64, dtype: DType) -> Scalar {
    let scalar = if dtype.is_float() { Scalar::Float(value) } else { Scalar::Int(value as i64) };
    with_element!(dtype, T => T::from_scalar(scalar).to_scalar())
}

/// Returns a product in an array with initial contents.
fn product(isa: Isa, precision: Precision, a: &Array, b: &Array) -> Array {
    let rank = a.layout().rank();
    let mut shape = a.shape_owned();
    shape[rank - 1] = b.shape()[rank - 1];
    let out = Array::full(&shape, Scalar::Int(1), a.dtype());
    contract(isa, precision, ContractionRanks { batch: rank - 2, k: 1 }, [a, b, &out]);
    out
}

/// Runs a contraction into `out`.
fn contract(isa: Isa, precision: Precision, ranks: ContractionRanks, [a, b, out]: [&Array; 3]) {
    let types = ContractionTypes { a: a.dtype(), b: b.dtype(), accumulator: out.dtype().compute(), out: out.dtype() };
    let contraction = Contraction::new(types, precision, ranks, [a.layout(), b.layout(), out.layout()]);
    let contraction = contraction.expect("the shapes fit");
    assert!(contraction.is_sound(), "{contraction}");
    // SAFETY: the layouts lie inside the arrays, and only this call accesses `out`.
    unsafe {
        let operands =
            [a, b].map(|it| StepOperand { address: it.device_ptr() as u64, parameter_storage: Some(it.storage()) });
        let gemm = BatchedGemm::new(isa, &contraction);
        gemm.run_alone(operands, Results::Memory(out.device_ptr())).expect("there is memory");
    }
}

#[track_caller]
fn check(a: &Array, b: &Array) {
    for precision in PRECISIONS {
        let out = product(Isa::detect(), precision, a, b);
        assert_eq!(
            out.on_host().expect("the elements are readable").scalars(),
            model(a, b),
            "{} x {}, {precision:?}",
            a.ty(),
            b.ty()
        );
    }
}

#[test]
fn every_dtype_and_shape() {
    for dtype in DType::ALL {
        for (batch, m, k, n) in [(1, 1, 1, 1), (1, 5, 7, 3), (2, 3, 0, 4), (3, 0, 2, 2), (0, 2, 2, 2), (2, 1, 9, 17)] {
            check(&whole(&[batch, m, k], dtype, 1), &whole(&[batch, k, n], dtype, 2));
        }
    }
    for (m, k, n) in [(64, 64, 128), (130, 300, 257), (1, 300, 200), (200, 300, 1), (3, 5, 3000), (3000, 5, 3)] {
        check(&whole(&[m, k], DType::F32, 3), &whole(&[k, n], DType::F32, 4));
    }
    check(&whole(&[33, 40], DType::I64, 3), &whole(&[40, 1100], DType::I64, 4));
}

/// Covers rows and columns of every layout, with sizes around registers and groups of tiles.
#[test]
fn vectors() {
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        for (k, n) in [(1, 1), (7, 300), (33, 64), (130, 129), (1030, 257), (2500, 2)] {
            let (row, column) = (whole(&[k, 1], dtype, 1), whole(&[1, k], dtype, 2));
            let [row, column] = [row, column].map(|it| it.with_layout(it.layout().permute(&[1, 0])));
            let strided = whole(&[k, 3], dtype, 3);
            let strided = strided.with_layout(strided.layout().slice(1, 1, 1, 1).permute(&[1, 0]));
            let (right, left) = (whole(&[k, n], dtype, 4), whole(&[n, k], dtype, 5));
            let transposed = |it: &Array| it.with_layout(it.layout().permute(&[1, 0]));
            for row in [&row, &strided] {
                check(row, &right);
                check(row, &transposed(&left));
            }
            check(&left, &column);
            check(&transposed(&right), &column);
        }
    }
}

#[test]
fn strided_operands() {
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I8] {
        let (x, y) = (whole(&[2, 40, 30], dtype, 5), whole(&[50, 40], dtype, 6));
        let x = x.with_layout(x.layout().permute(&[0, 2, 1]));
        let y = y.with_layout(y.layout().permute(&[1, 0]).broadcast_to(&[2, 40, 50]).expect("a broadcast"));
        check(&x, &y);
        let reversed = x.layout().slice(2, 39, 40, -1).slice(1, 1, 14, 2);
        check(&x.with_layout(reversed), &y);
    }
}

#[test]
fn results_do_not_depend_on_threads() {
    let a = rounded(&[300, 1500], DType::F32, 7);
    let b = a.with_layout(Layout::contiguous(&[1500, 300]));
    for precision in PRECISIONS {
        let multiply =
            || product(Isa::detect(), precision, &a, &b).on_host().expect("the elements are readable").to_bytes();
        let parallel = multiply();
        assert!(threads::serial(multiply) == parallel, "{precision:?}");
    }
}

/// Returns the bits of the floats of `a b` in the specified order of sums; all NaNs have one value.
fn in_order(a: &Array, b: &Array) -> Vec<u64> {
    let (m, k, n) = (a.shape()[0], a.shape()[1], b.shape()[1]);
    let dtype = a.dtype();
    let (a, b) = (
        a.on_host().expect("the elements are readable").scalars(),
        b.on_host().expect("the elements are readable").scalars(),
    );
    let chain = |i: usize, j: usize, terms: std::ops::Range<usize>| {
        let pairs = terms.map(|p| (a[i * k + p].as_f64(), b[p * n + j].as_f64()));
        match dtype {
            DType::F64 => pairs.fold(0f64, |sum, (x, y)| x.mul_add(y, sum)),
            _ => pairs.fold(0f32, |sum, (x, y)| (x as f32).mul_add(y as f32, sum)).into(),
        }
    };
    let add = |x: f64, y: f64| if dtype == DType::F64 { x + y } else { (x as f32 + y as f32).into() };
    let element = |i: usize, j: usize| {
        let chunks = (0..k).step_by(1024).map(|start| chain(i, j, start..k.min(start + 1024)));
        canonical(Scalar::Float(by_adjacent_pairs(chunks.collect(), add)), dtype)
    };
    (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| element(i, j)).collect()
}

/// Combines sums by adjacent pairs, level by level; an odd last one is carried up.
fn by_adjacent_pairs(mut sums: Vec<f64>, add: impl Fn(f64, f64) -> f64) -> f64 {
    while sums.len() > 1 {
        sums = sums.chunks(2).map(|pair| pair.iter().copied().reduce(&add).expect("one or two")).collect();
    }
    sums.first().copied().unwrap_or(0.0)
}

fn isas() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|it| it.is_supported())
}

/// Compares the product on all instruction sets with the specified order of sums.
#[track_caller]
fn check_order(a: &Array, b: &Array) {
    let want = in_order(a, b);
    for isa in isas() {
        let got = product(isa, Precision::Strict, a, b);
        assert!(bits(&got) == want, "{} {:?} x {} {:?} on {isa}", a.ty(), a.layout(), b.ty(), b.layout());
    }
}

#[test]
fn sums_have_one_order() {
    // Sizes at and around the boundaries of tiles, micro-panels and chunks.
    let sides = [1, 2, 5, 6, 7, 13, 14, 15, 16, 17, 28, 29, 31, 32, 33, 65];
    for (at, &m) in sides.iter().enumerate() {
        for &n in sides.iter().skip(at % 3).step_by(3) {
            let k = [3, 8, 17][(m + n) % 3];
            check_order(&rounded(&[m, k], DType::F32, 1), &rounded(&[k, n], DType::F32, 2));
            check_order(&rounded(&[m, k], DType::F64, 1), &rounded(&[k, n], DType::F64, 2));
        }
    }
    for k in [0, 1, 2, 7, 8, 9, 1023, 1024, 1025, 2047, 2048, 2049, 3100] {
        for (m, n) in [(1, 1), (1, 33), (33, 1), (15, 9), (2, 40)] {
            for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
                check_order(&rounded(&[m, k], dtype, 3), &rounded(&[k, n], dtype, 4));
            }
        }
    }
    // Many chunks, in numbers with several waiting sums.
    for (m, k, n) in
        [(1, 65_536, 40), (7, 15 * 1024, 33), (40, 7 * 1024 + 1, 3), (1, 11 * 1024 + 5, 1), (6, 70_000, 16)]
    {
        for dtype in [DType::F32, DType::BF16] {
            check_order(&rounded(&[m, k], dtype, 5), &rounded(&[k, n], dtype, 6));
        }
    }
}

/// Partial products of aligned blocks of chunks, combined by the upper levels of the tree, are the product.
#[test]
fn aligned_blocks_of_chunks_are_subtrees() {
    for (k, chunks) in [(8 * 1024, 1), (8 * 1024, 4), (11 * 1024 + 7, 2), (13 * 1024, 8), (21 * 1024 + 1, 4)] {
        let (a, b) = (rounded(&[5, k], DType::F32, 1), rounded(&[k, 20], DType::F32, 2));
        for isa in isas() {
            let parts = (0..k).step_by(chunks * 1024).map(|start| {
                let of_part = (chunks * 1024).min(k - start);
                let a = a.with_layout(a.layout().slice(1, start, of_part, 1));
                let b = b.with_layout(b.layout().slice(0, start, of_part, 1));
                product(isa, Precision::Strict, &a, &b).on_host().expect("the elements are readable").scalars()
            });
            let parts: Vec<Vec<Scalar>> = parts.collect();
            let combined = (0..5 * 20).map(|at| {
                let sums = parts.iter().map(|it| it[at].as_f64()).collect();
                let sum = by_adjacent_pairs(sums, |x, y| (x as f32 + y as f32).into());
                canonical(Scalar::Float(sum), DType::F32)
            });
            let got = bits(&product(isa, Precision::Strict, &a, &b));
            assert_eq!(combined.collect::<Vec<_>>(), got, "{k} terms in blocks of {chunks} chunks on {isa}");
        }
    }
}

#[test]
fn the_order_of_sums_does_not_depend_on_strides() {
    for (m, k, n) in [(1, 40, 37), (37, 40, 1), (20, 1030, 35), (3, 70, 66), (1, 8192, 1), (1, 17500, 1)] {
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            let (a, b) = (rounded(&[m, k], dtype, 5), rounded(&[k, n], dtype, 6));
            let want = in_order(&a, &b);
            let (columns, rows) = (transposed(&a), transposed(&b));
            let views = [
                (a.clone(), rows.clone()),
                (columns.clone(), b.clone()),
                (columns, rows),
                (spread(&a), spread(&b)),
                (reversed(&a), reversed(&b)),
            ];
            for (a, b) in views {
                assert_eq!((a.shape(), b.shape()), (&[m, k][..], &[k, n][..]));
                for isa in isas() {
                    let got = product(isa, Precision::Strict, &a, &b);
                    assert!(bits(&got) == want, "{m} {k} {n} {:?} x {:?} on {isa}", a.layout(), b.layout());
                }
            }
            // One operand that a whole batch shares.
            let shared = b.with_layout(b.layout().broadcast_to(&[3, k, n]).expect("a broadcast"));
            let many = a
                .with_layout(a.layout().broadcast_to(&[3, m, k]).expect("a broadcast"))
                .on_host()
                .expect("the elements are readable")
                .to_contiguous();
            for isa in isas() {
                let got = bits(&product(isa, Precision::Strict, &many, &shared));
                assert!(got.chunks_exact(m * n).all(|it| it == want), "{m} {k} {n} of {dtype} as a batch on {isa}");
            }
        }
    }
}

/// Returns the matrix in column-major order.
pub fn transposed(x: &Array) -> Array {
    let transposed =
        x.with_layout(x.layout().permute(&[1, 0])).on_host().expect("the elements are readable").to_contiguous();
    transposed.with_layout(transposed.layout().permute(&[1, 0]))
}

/// Returns the matrix with gaps in both directions.
pub fn spread(x: &Array) -> Array {
    let [rows, columns] = [x.shape()[0], x.shape()[1]];
    let mut out = Array::zeros(&[2 * rows, 3 * columns], x.dtype());
    let layout = out.layout().slice(0, 0, rows, 2).slice(1, 0, columns, 3);
    with_element!(x.dtype(), T => {
        let places: Vec<usize> = layout.offsets().collect();
        let to = out.as_mut_slice::<T>();
        places.into_iter().zip(x.on_host().expect("the elements are readable").iter::<T>()).for_each(|(at, it)| to[at] = it);
    });
    out.with_layout(layout)
}

/// Returns the matrix with negative strides.
pub fn reversed(x: &Array) -> Array {
    let back = |it: &Array| {
        let [rows, columns] = [it.shape()[0], it.shape()[1]];
        it.with_layout(it.layout().slice(0, rows - 1, rows, -1).slice(1, columns - 1, columns, -1))
    };
    back(&back(x).on_host().expect("the elements are readable").to_contiguous())
}

#[test]
fn infinities_and_nans_stay_in_their_sums() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        let (mut a, mut b) = (rounded(&[17, 1100], dtype, 8), rounded(&[1100, 35], dtype, 9));
        with_element!(dtype, T => {
            let of = |it: f64| T::from_scalar(Scalar::Float(it));
            let specials = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 6e-8, 1e30];
            for (i, &it) in specials.iter().enumerate() {
                a.as_mut_slice::<T>()[i * 2 * 1100 + 1050 - i] = of(it);
                b.as_mut_slice::<T>()[1030 * 35 + i * 5] = of(it);
            }
        });
        check_order(&a, &b);
    }
    // An underflow to zero keeps the sign of the product.
    let [low, high] = [-1e-30, 1e-30].map(|it| Array::full(&[3, 3], Scalar::Float(it), DType::F32));
    check_order(&low, &high);
}

/// Converts the elements of an array to another dtype, which represents them exactly.
fn converted(x: &Array, dtype: DType) -> Array {
    let mut out = Array::zeros(x.shape(), dtype);
    let elements = x.on_host().expect("the elements are readable").scalars();
    with_element!(dtype, T => {
        let to = out.as_mut_slice::<T>();
        to.iter_mut().zip(elements).for_each(|(to, it)| *to = T::from_scalar(it));
    });
    out
}

/// A product of mixed types has the bits of the product of converted operands, with its result converted.
#[test]
fn mixed_dtypes() {
    let floats = [DType::F32, DType::F16, DType::BF16];
    let whole_numbers = [[DType::I8, DType::I8, DType::I32], [DType::U8, DType::I8, DType::I16]];
    let ranks = ContractionRanks { batch: 1, k: 1 };
    let floats = floats.iter().flat_map(|&a| floats.map(|b| [a, b])).flat_map(|[a, b]| floats.map(|out| [a, b, out]));
    for types in floats.chain(whole_numbers) {
        let [a, b, out] = types;
        let values = if a.is_float() { rounded } else { whole };
        for (m, k, n) in [(1, 9, 40), (7, 1030, 5), (40, 70, 36)] {
            let (x, y) = (values(&[2, m, k], a, 1), values(&[2, k, n], b, 2));
            let wide = a.compute();
            let (wide_x, wide_y) = (converted(&x, wide), converted(&y, wide));
            let ways = isas().map(|it| (it, Precision::Strict)).chain([(Isa::detect(), Precision::Highest)]);
            for (isa, precision) in ways {
                let want = converted(&product(isa, precision, &wide_x, &wide_y), out);
                let got = Array::full(&[2, m, n], Scalar::Int(1), out);
                contract(isa, precision, ranks, [&x, &y, &got]);
                assert!(bits(&got) == bits(&want), "{types:?} {m} {k} {n} {precision:?} on {isa}");
            }
        }
    }
}

/// Axes of each kind may be several, in any order in memory.
#[test]
fn several_axes_of_each_kind() {
    for dtype in [DType::F32, DType::BF16, DType::I16] {
        // `bzmwxy, byxnvz`-like orders of axes in memory, seen as [batch 2, m 2, k 2] and [batch 2, k 2, n 2].
        let values = if dtype.is_float() { rounded } else { whole };
        let (a, b) = (values(&[5, 2, 3, 4, 3, 6], dtype, 1), values(&[4, 2, 3, 5, 2, 7], dtype, 2));
        let a = a.with_layout(a.layout().permute(&[1, 2, 5, 4, 3, 0]));
        let b = b.with_layout(b.layout().permute(&[1, 2, 0, 3, 4, 5]));
        assert_eq!((a.shape(), b.shape()), (&[2, 3, 6, 3, 4, 5][..], &[2, 3, 4, 5, 2, 7][..]));
        let dense = |it: &Array, shape: &[usize]| {
            let it = it.on_host().expect("the elements are readable").to_contiguous();
            it.with_layout(Layout::contiguous(shape))
        };
        // One reduction axis, and a batch axis with stride 0.
        let repeated = b.layout().slice(0, 1, 1, 1).slice(2, 2, 1, 1);
        let repeated = b.with_layout(repeated.broadcast_to(b.shape()).expect("ones repeat"));
        let (flat_a, flat_b) = (dense(&a, &[6, 18, 20]), dense(&repeated, &[6, 20, 14]));
        for isa in isas() {
            let want = product(isa, Precision::Strict, &flat_a, &flat_b);
            let out = Array::zeros(&[2, 3, 6, 3, 2, 7], dtype);
            contract(isa, Precision::Strict, ContractionRanks { batch: 2, k: 2 }, [&a, &repeated, &out]);
            assert!(bits(&out) == bits(&want), "{dtype} on {isa}, repeated");
        }
        let flat_b = dense(&b, &[6, 20, 14]);
        for isa in isas() {
            let want = product(isa, Precision::Strict, &flat_a, &flat_b);
            for transposed in [false, true] {
                let out = match transposed {
                    false => Array::zeros(&[2, 3, 6, 3, 2, 7], dtype),
                    true => {
                        let out = Array::zeros(&[7, 3, 2, 6, 2, 3], dtype);
                        out.with_layout(out.layout().permute(&[2, 5, 3, 1, 4, 0]))
                    }
                };
                contract(isa, Precision::Strict, ContractionRanks { batch: 2, k: 2 }, [&a, &b, &out]);
                assert!(bits(&out) == bits(&want), "{dtype} on {isa}, {transposed}");
            }
        }
    }
}

/// Packing a parameter's operand after several reads changes no bit.
#[test]
fn cached_panels_change_no_bit() {
    let sizes = [[1, 300, 70], [5, 2100, 33], [40, 64, 64], [300, 130, 3], [29, 1025, 32]];
    for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
        for ([m, k, n], isa) in sizes.into_iter().flat_map(|it| Isa::ALL.map(|isa| (it, isa))) {
            let [a, b, transposed] = [[m, k], [k, n], [n, k]].map(|it| rounded(&it, dtype, it[0] as u64));
            let transposed = transposed.with_layout(transposed.layout().permute(&[1, 0]));
            let spread = rounded(&[k, 2 * n], dtype, 5);
            let spread = spread.with_layout(Layout::new([k, n][..].into(), [2 * n as isize, 2][..].into(), 1));
            for b in [b, transposed, spread] {
                if !isa.is_supported() {
                    continue;
                }
                let want = bits(&product(isa, Precision::Strict, &a, &b));
                [&a, &b].into_iter().for_each(|it| it.storage().hold());
                for call in 0..6 {
                    let got = bits(&product(isa, Precision::Strict, &a, &b));
                    assert!(got == want, "{dtype} {m} x {k} x {n} on {isa}, call {call}");
                }
                let forms = [&a, &b].map(|it| it.storage().forms()).iter().sum::<usize>();
                assert_eq!(forms, 1, "{dtype} {m} x {k} x {n} on {isa}");
                [&a, &b].into_iter().for_each(|it| it.storage().release());
            }
        }
    }
}
