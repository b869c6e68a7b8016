//! Compares reductions by segment, and scattered reductions, with loops over elements.

use ms::ops::{self, Segment};
use ms::{Code, DType, Tensor, tensor};
use ms_conformance::late_errors::catch;

const ALL: [Segment; 5] = [Segment::Sum, Segment::Mean, Segment::Prod, Segment::Max, Segment::Min];

/// Reduces values as `segment` does, in order.
fn reduced(values: &[f64], by: Segment) -> f64 {
    let values = values.iter().copied();
    match by {
        Segment::Sum => values.sum(),
        Segment::Mean => values.clone().sum::<f64>() / values.len().max(1) as f64,
        Segment::Prod => values.product(),
        Segment::Max => values.fold(f64::NEG_INFINITY, |a, b| if b.is_nan() { b } else { a.max(b) }),
        Segment::Min => values.fold(f64::INFINITY, |a, b| if b.is_nan() { b } else { a.min(b) }),
    }
}

/// Compares `segment`, `scatter_reduce` and `scatter_nd_reduce` of `[rows, 3]` with loops, eagerly and compiled.
#[track_caller]
fn check(rows: usize, count: usize, dtype: DType) {
    let floats: Vec<f64> = (0..rows * 3).map(|it| ((it * 7 + 3) % 5) as f64 + 1.0).collect();
    let ids: Vec<i64> = (0..rows).map(|it| ((it * it + 1) % count) as i64).collect();
    let x = Tensor::from_slice([rows, 3], &floats).cast(dtype);
    let index = Tensor::from_slice([rows], &ids);
    for by in ALL.into_iter().filter(|&it| dtype.is_float() || it != Segment::Mean) {
        let rounded = |it: &Tensor| it.cast(DType::F64).to_vec::<f64>();
        let column = |id: usize, at: usize| -> Vec<f64> {
            (0..rows).filter(|&row| ids[row] == id as i64).map(|row| floats[row * 3 + at]).collect()
        };
        let places = || (0..count).flat_map(|id| (0..3).map(move |at| (id, at)));
        let kept = |all: Vec<f64>| -> Vec<f64> {
            places().zip(all).filter(|&((id, at), _)| !column(id, at).is_empty()).map(|(_, it)| it).collect()
        };
        let want: Vec<f64> = places().map(|(id, at)| reduced(&column(id, at), by)).collect();
        let want = kept(rounded(&Tensor::from_slice([count, 3], &want).cast(dtype)));
        let compiled =
            ms::jit(|x: &Tensor, ids: &Tensor, count: &usize, by: &usize| ops::segment(x, ids, *count, ALL[*by]));
        for got in [ops::segment(&x, &index, count, by), compiled(&x, &index, &count, &(by as usize))] {
            assert_eq!(got.dtype(), dtype);
            let got = kept(rounded(&got));
            assert_eq!(got, want, "{by:?} of {rows} rows in {count}, {dtype}");
        }
        let start = Tensor::ones_of([count, 3], dtype);
        let with_one = |(id, at): (usize, usize)| reduced(&[vec![1.0], column(id, at)].concat(), by);
        let want: Vec<f64> = places().map(with_one).collect();
        let wide = index.reshape([rows, 1]).broadcast_to([rows, 3]);
        let want = rounded(&Tensor::from_slice([count, 3], &want).cast(dtype));
        assert_eq!(rounded(&ops::scatter_reduce(&start, wide, &x, 0, by)), want, "{by:?}, scattered");
        let nd = ops::scatter_nd_reduce(&start, index.reshape([rows, 1]), &x, by);
        assert_eq!(rounded(&nd), want, "{by:?}, by rows");
    }
}

#[test]
fn segments_are_those_of_loops() {
    for (rows, count) in [(0, 2), (1, 1), (5, 3), (9, 4)] {
        [DType::F32, DType::F64, DType::I32, DType::I64, DType::U8].into_iter().for_each(|it| check(rows, count, it));
    }
}

#[test]
fn segments_without_rows() {
    let none = |dtype, by| ops::segment(Tensor::zeros_of([0], dtype), Tensor::zeros_of([0], DType::I64), 1, by);
    let cases: [(f64, f64); 8] = [
        (none(DType::F32, Segment::Max).item::<f32>().into(), f64::NEG_INFINITY),
        (none(DType::F32, Segment::Min).item::<f32>().into(), f64::INFINITY),
        (none(DType::F32, Segment::Mean).item::<f32>().into(), 0.0),
        (none(DType::I8, Segment::Max).item::<i8>().into(), -128.0),
        (none(DType::I8, Segment::Min).item::<i8>().into(), 127.0),
        (none(DType::U16, Segment::Max).item::<u16>().into(), 0.0),
        (none(DType::U16, Segment::Min).item::<u16>().into(), 65_535.0),
        (none(DType::I32, Segment::Prod).item::<i32>().into(), 1.0),
    ];
    for (case, (got, want)) in cases.into_iter().enumerate() {
        assert_eq!(got, want, "case {case}");
    }
    assert_eq!(none(DType::U64, Segment::Min).item::<u64>(), u64::MAX);
    assert_eq!(none(DType::I64, Segment::Max).item::<i64>(), i64::MIN);
}

#[test]
fn nan_is_neither_lost_nor_given_a_gradient() {
    let x = tensor![1.0, f32::NAN, 3.0, 2.0];
    for by in [Segment::Max, Segment::Min] {
        let f = |x: &Tensor| ops::segment(x, tensor![0, 0, 1, 1], 2, by);
        assert!(f(&x).to_vec::<f32>()[0].is_nan());
        let gradient = ms::grad(f)(&x).to_vec::<f32>();
        assert_eq!(gradient[..2], [0.0, 0.0], "{by:?}");
    }
    // Above 2^53, neighbouring integers have the same f64.
    let large = tensor![u64::MAX - 1, u64::MAX];
    assert_eq!(ops::segment(&large, tensor![0, 0], 1, Segment::Max).item::<u64>(), u64::MAX);
}

#[test]
fn equal_extrema_share_the_gradient() {
    let f = |x: &Tensor| ops::segment(x, tensor![0, 0, 1], 2, Segment::Max);
    assert_eq!(ms::grad(f)(&tensor![2.0, 2.0, 1.0]).to_vec::<f32>(), [0.5, 0.5, 1.0]);
}

#[test]
fn refusals_of_segments() {
    let x = tensor![[1.0, 2.0], [3.0, 4.0]];
    let of = |ids: Tensor| catch(|| ops::segment(&x, ids, 2, Segment::Sum)).expect_err("refused").code();
    assert_eq!(of(tensor![0, 2]), Code::OutOfRange);
    assert_eq!(of(tensor![0]), Code::Shape);
    assert_eq!(of(tensor![[0, 1]]), Code::Shape);
    assert_eq!(of(tensor![0.0, 1.0]), Code::DType);
    let mean = catch(|| ops::segment(tensor![1, 2], tensor![0, 0], 1, Segment::Mean)).expect_err("refused");
    assert_eq!(mean.code(), Code::DType);
    let nd = |index: Tensor, source: Tensor| {
        catch(|| ops::scatter_nd_reduce(&x, index, source, Segment::Max)).expect_err("refused").code()
    };
    assert_eq!(nd(tensor![[0, 2]], tensor![1.0]), Code::OutOfRange);
    assert_eq!(nd(tensor![[0]], tensor![1.0, 2.0]), Code::Shape);
    assert_eq!(nd(tensor![[0, 0, 0]], tensor![1.0]), Code::Shape);
}
