//! Tests values at the ends of domains, where frameworks differ, eagerly and compiled.

use ms::{Code, prelude::*};
use ms_conformance::late_errors::catch;

/// Runs `f` eagerly, and with compiled functions.
fn both_ways(f: impl Fn(&str)) {
    for (way, jit) in [("eagerly", false), ("compiled", true)] {
        ms::with_context(ms::Context { jit, ..ms::context() }, || f(way));
    }
}

/// Whether numbers are equal, or both NaN.
fn same(got: &[f32], want: &[f32]) -> bool {
    got.len() == want.len() && got.iter().zip(want).all(|(a, b)| a == b || a.is_nan() && b.is_nan())
}

const INF: f32 = f32::INFINITY;

#[jit]
fn std_of_rows(x: &Tensor) -> Tensor {
    x.std(1, 1)
}

#[jit]
fn std_gradient(x: &Tensor) -> Tensor {
    ms::grad(|x: &Tensor| x.std(1, 1).sum(()))(x)
}

#[test]
fn the_deviation_of_equal_elements_has_no_gradient() {
    both_ways(|way| {
        let x = tensor![[2., 2., 2.], [1., 2., 3.], [0., 0., 0.]];
        assert!(same(&std_of_rows(&x).to_vec(), &[0., 1., 0.]), "{way}");
        let gradient = std_gradient(&x).to_vec::<f32>();
        assert!(same(&gradient, &[0., 0., 0., -0.5, 0., 0.5, 0., 0., 0.]), "{way}: {gradient:?}");
        // One element has no deviation with one degree of freedom less.
        assert!(std_of_rows(&tensor![[1.]]).item::<f32>().is_nan(), "{way}");
        let twice = ms::grad(|x: &Tensor| std_gradient(x).square().sum(()))(&x).to_vec::<f32>();
        assert!(twice.iter().all(|it| it.is_finite()), "{way}: {twice:?}");
    });
}

#[jit]
fn dropped(x: &Tensor) -> Tensor {
    ops::dropout(x, 0.5)
}

#[jit]
fn dropped_gradient(x: &Tensor, g: &Tensor) -> Tensor {
    ms::grad(|x: &Tensor| (ops::dropout(x, 0.5) * g).sum(()))(x)
}

#[test]
fn what_is_dropped_is_zero() {
    both_ways(|way| {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            for special in [INF, -INF, f32::NAN] {
                let x = Tensor::full([256], special).cast(dtype);
                let y = dropped(&x).cast(DType::F32).to_vec::<f32>();
                let kept = y.iter().filter(|it| **it != 0.0).count();
                assert!((64..192).contains(&kept), "{way}, {dtype}, {special}: {kept} are kept");
                assert!(y.iter().all(|it| *it == 0.0 || same(&[*it], &[special])), "{way}, {dtype}: {y:?}");
                let g = dropped_gradient(&Tensor::ones([256]).cast(dtype), &x).cast(DType::F32).to_vec::<f32>();
                assert!(g.iter().all(|it| *it == 0.0 || same(&[*it], &[special])), "{way}, {dtype}: {g:?}");
            }
        }
    });
}

macro_rules! uniform {
    ($($name:ident: $dtype:ident from $low:expr, $high:expr;)*) => {
        $(
            #[jit]
            fn $name() -> Tensor {
                ms::random::default_generator().uniform_of([20_000], $low, $high, DType::$dtype)
            }
        )*

        const UNIFORM: &[(&str, fn() -> Tensor, DType, f64, f64)] = &[
            $((stringify!($name), $name, DType::$dtype, $low, $high)),*
        ];
    };
}

uniform! {
    unit: F32 from 0.0, 1.0;
    coarse: F32 from 16_777_216.0, 16_777_220.0;
    coarse_below_zero: F32 from -16_777_220.0, -16_777_216.0;
    two_numbers: F32 from 1.0, 1.0000001192092896;
    up_to_zero: F32 from -1.0, 0.0;
    around_zero: F32 from -3.0, 5.0;
    one_number: F32 from 7.0, 7.0;
    finer_than_the_dtype: F32 from 0.999_999_999_9, 1.0;
    far: F32 from 1e30, 1.0000001e30;
    wide: F64 from 1e15, 1.000000000000001e15;
    unit_wide: F64 from 0.1, 0.3;
    half: F16 from 0.0, 1.0;
    half_coarse: F16 from 2048.0, 2056.0;
    half_of_all: F16 from -65504.0, 65504.0;
    half_subnormal: F16 from 0.0, 6e-8;
    brain: BF16 from 0.0, 3.0;
    brain_coarse: BF16 from 256.0, 264.0;
    brain_below_zero: BF16 from -264.0, -256.0;
}

#[test]
fn uniform_numbers_are_below_the_upper_end() {
    both_ways(|way| {
        for &(name, draw, dtype, low, high) in UNIFORM {
            let round = |it: f64| Tensor::from_slice([1], &[it]).cast(dtype).cast(DType::F64).item::<f64>();
            let (low, high) = (round(low), round(high));
            for _ in 0..3 {
                let numbers = draw().cast(DType::F64).to_vec::<f64>();
                let is_inside = |it: &f64| low <= *it && (*it < high || low == high && *it == high);
                let outside = numbers.iter().find(|it| !is_inside(it));
                assert_eq!(outside, None, "{way}, {name}: from {low} up to {high}");
            }
        }
    });
    let of = |dtype| ms::random::default_generator().uniform_of([2], 0.0, 1e6, dtype);
    assert_eq!(catch(|| of(DType::F16)).expect_err("f16 has no such numbers").code(), Code::Argument);
    assert_eq!(of(DType::BF16).shape(), [2]);
}

#[jit]
fn compared(a: &Tensor, b: &Tensor) -> Vec<Tensor> {
    vec![a.eq(b), a.ne(b), a.lt(b), a.le(b), a.gt(b), a.ge(b)]
}

#[jit]
fn is_less(a: &Tensor, b: &Tensor) -> Tensor {
    if a < b { a.cast(DType::F32) * 0.0 + 1.0 } else { a.cast(DType::F32) * 0.0 }
}

#[test]
fn signed_and_unsigned_integers_compare_as_integers() {
    let signed = [i64::MIN, -9_007_199_254_740_993, -1, 0, 1, 9_007_199_254_740_993, i64::MAX - 1, i64::MAX];
    let unsigned = [0, 1, 9_007_199_254_740_992, i64::MAX as u64, 1 << 63, (1 << 63) + 1, u64::MAX];
    let (a, b) = (Tensor::from_slice([8, 1], &signed), Tensor::from_slice([1, 7], &unsigned));
    both_ways(|way| {
        let check = |got: Vec<Tensor>, order: &dyn Fn(i64, u64) -> std::cmp::Ordering| {
            let is: [fn(std::cmp::Ordering) -> bool; 6] =
                [|it| it.is_eq(), |it| it.is_ne(), |it| it.is_lt(), |it| it.is_le(), |it| it.is_gt(), |it| it.is_ge()];
            for (got, is) in got.iter().zip(is) {
                let got = got.to_vec::<bool>();
                for (at, (&x, &y)) in signed.iter().flat_map(|x| unsigned.iter().map(move |y| (x, y))).enumerate() {
                    assert_eq!(got[at], is(order(x, y)), "{way}: {x} and {y}");
                }
            }
        };
        check(compared(&a, &b), &|x, y| i128::from(x).cmp(&i128::from(y)));
        check(compared(&b, &a), &|x, y| i128::from(y).cmp(&i128::from(x)));
        let small = compared(&tensor![-1i8, 1], &tensor![u64::MAX, 1]);
        assert_eq!(small[2].to_vec::<bool>(), [true, false], "{way}");
        assert_eq!(small[0].to_vec::<bool>(), [false, true], "{way}");
        let largest = &Tensor::from_slice([1], &[i64::MAX]);
        assert_eq!(is_less(largest, &Tensor::from_slice([1], &[1u64 << 63])).item::<f32>(), 1.0, "{way}");
    });
}

#[jit]
fn entropy(x: &Tensor, target: &Tensor) -> Tensor {
    ops::binary_cross_entropy(x * 1.0, target, None, ops::Reduction::Mean)
}

#[jit]
fn entropy_gradient(x: &Tensor, target: &Tensor) -> Tensor {
    ms::grad(|x: &Tensor| ops::binary_cross_entropy(x * 1.0, target, None, ops::Reduction::Mean))(x)
}

#[test]
fn entropies_take_probabilities() {
    both_ways(|way| {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            let of = |bad: f32| tensor![0.5, bad].cast(dtype);
            let target = &tensor![1., 0.].cast(dtype);
            for bad in [1.5, -0.25, INF, -INF, 1.0078125] {
                let losses: [fn(&Tensor, &Tensor) -> Tensor; 2] = [entropy, entropy_gradient];
                for run in losses {
                    let error = catch(|| run(&of(bad), target)).expect_err("it is no probability");
                    let text = error.to_string();
                    assert_eq!(error.code(), Code::Argument, "{way}, {bad}: {text}");
                    assert!(
                        text.contains("`binary_cross_entropy`: element 1 of the probabilities is"),
                        "{way}: {text}"
                    );
                    assert!(text.contains(file!()), "{way}: {text}");
                }
            }
            for fine in [0.0, 1.0, 0.25] {
                assert!(entropy(&of(fine), target).cast(DType::F32).item::<f32>().is_finite(), "{way}, {fine}");
            }
            // NaN is not refused as a wrong probability. The loss is NaN.
            assert!(entropy(&of(f32::NAN), target).cast(DType::F32).item::<f32>().is_nan(), "{way}");
        }
    });
}

macro_rules! additions {
    ($($name:ident(|$x:ident, $at:ident, $source:ident| $body:expr), |$bad:ident| $index:expr, $sources:expr;)*) => {
        $(
            mod $name {
                use super::*;

                #[jit]
                pub fn of_x($x: &Tensor, $at: &Tensor, $source: &Tensor) -> Tensor {
                    ms::grad(|$x: &Tensor| ($body * 3.0).sum(()))($x)
                }

                #[jit]
                pub fn of_source($x: &Tensor, $at: &Tensor, $source: &Tensor) -> Tensor {
                    ms::grad(|$source: &Tensor| ($body * 3.0).sum(()))($source)
                }
            }
        )*

        const ADDITIONS: &[Addition] = &[$(Addition {
            name: stringify!($name),
            of_x: $name::of_x,
            of_source: $name::of_source,
            index: |$bad| $index,
            source: || $sources,
        }),*];
    };
}

/// The gradients of a function that adds at positions of a tensor `[3, 2]`.
struct Addition {
    name: &'static str,
    of_x: fn(&Tensor, &Tensor, &Tensor) -> Tensor,
    of_source: fn(&Tensor, &Tensor, &Tensor) -> Tensor,
    /// Returns positions that include the given one.
    index: fn(i64) -> Tensor,
    source: fn() -> Tensor,
}

additions! {
    scatter_add(|x, at, source| ops::scatter_add(x, at, source, 0)), |bad| tensor![[bad, 0]], Tensor::ones([1, 2]);
    scatter(|x, at, source| ops::scatter(x, at, source, 0)), |bad| tensor![[bad, 0]], Tensor::ones([1, 2]);
    scatter_max(|x, at, source| ops::scatter_max(x, at, source, 0)), |bad| tensor![[bad, 0]], Tensor::ones([1, 2]);
    scatter_min(|x, at, source| ops::scatter_min(x, at, source, 0)), |bad| tensor![[bad, 0]], Tensor::ones([1, 2]);
    scatter_mul(|x, at, source| ops::scatter_mul(x, at, source, 0)), |bad| tensor![[bad, 0]], Tensor::ones([1, 2]);
    index_add(|x, at, source| ops::index_add(x, at, source, 0)), |bad| tensor![bad, 0], Tensor::ones([2, 2]);
    rows(|x, at, source| ops::scatter_nd_add(x, at, source)), |bad| tensor![[bad], [0]], Tensor::ones([2, 2]);
    points(|x, at, source| ops::scatter_nd_add(x, at, source)), |bad| tensor![[bad, 0]], Tensor::ones([1]);
    reduced(|x, at, source| ops::scatter_nd_reduce(x, at, source, ops::Segment::Mean)), |bad| tensor![[bad]],
        Tensor::ones([1, 2]);
    segments(|x, at, source| ops::segment(source, at, 3, ops::Segment::Mean) * x), |bad| tensor![bad, 0],
        Tensor::ones([2, 2]);
    sums(|x, at, source| ops::segment(source, at, 3, ops::Segment::Sum) * x), |bad| tensor![bad, 0],
        Tensor::ones([2, 2]);
    at_end(|x, at, source| ops::wrapping::scatter_add(x, at, source, 0)), |bad| tensor![[bad, -3]], Tensor::ones([1, 2]);
    rows_at_end(|x, at, source| ops::wrapping::index_add(x, at, source, 0)), |bad| tensor![bad, -3],
        Tensor::ones([2, 2]);
}

/// A gradient for one operand may read neither the result nor the positions, and checks the positions nevertheless.
#[test]
fn gradients_of_additions_check_positions() {
    let x = &tensor![[1., 2.], [3., 4.], [5., 6.]];
    both_ways(|way| {
        for Addition { name, of_x, of_source, index, source } in ADDITIONS {
            for (of, run) in [("x", of_x), ("the source", of_source)] {
                for bad in [3, -4, i64::MAX, i64::MIN] {
                    let error = match catch(|| run(x, &index(bad), &source())) {
                        Ok(gradient) => panic!("{way}, {name}, gradient of {of}: {bad} gives {gradient}"),
                        Err(error) => error,
                    };
                    assert_eq!(error.code(), Code::OutOfRange, "{way}, {name}: {error}");
                    assert!(error.to_string().contains(file!()), "{way}, {name}: {error}");
                }
                let gradient = run(x, &index(2), &source());
                assert!(gradient.to_vec::<f32>().iter().all(|it| it.is_finite()), "{way}, {name}: {gradient}");
            }
        }
    });
}

#[jit]
fn recurrent(layer: &nn::LSTM, x: &Tensor, lengths: &Tensor) -> Tensor {
    layer.call(x, None, Some(lengths.clone())).0
}

#[jit]
fn recurrent_gradient(layer: &nn::LSTM, x: &Tensor, lengths: &Tensor) -> Tensor {
    ms::grad(|x: &Tensor| layer.call(x, None, Some(lengths.clone())).0.sum(()))(x)
}

#[test]
fn lengths_are_inside_of_the_sequence() {
    let layer = nn::LSTM::new(2, 3);
    let x = Tensor::ones([4, 2, 2]);
    both_ways(|way| {
        for dtype in [DType::I64, DType::I32, DType::U8] {
            let runs: [fn(&nn::LSTM, &Tensor, &Tensor) -> Tensor; 2] = [recurrent, recurrent_gradient];
            for run in runs {
                for bad in [5, 200, -1] {
                    if bad < 0 && dtype == DType::U8 {
                        continue;
                    }
                    let error = catch(|| run(&layer, &x, &tensor![4, bad].cast(dtype))).expect_err("there is no step");
                    let text = error.to_string();
                    assert_eq!(error.code(), Code::OutOfRange, "{way}: {text}");
                    assert!(text.contains("LSTM`: element 1 of the lengths is"), "{way}: {text}");
                }
                let _ = run(&layer, &x, &tensor![4, 0].cast(dtype));
            }
        }
    });
}

#[jit]
fn transposed(x: &Tensor, weight: &Tensor, stride: usize, dilation: usize, padding: usize, extra: usize) -> Tensor {
    let options = ops::ConvOptions::new(1).stride(stride).dilation(dilation).padding(padding);
    ops::conv_transpose(x, weight, None, &options, extra)
}

/// Computes [`transposed`] over one axis by its definition.
fn transposed_by_loops(x: &[f32], weight: &[f32], [stride, dilation, padding, extra]: [usize; 4]) -> Vec<f32> {
    let full = (x.len() - 1) * stride + dilation * (weight.len() - 1) + 1;
    let mut sums = vec![0.0; full + extra];
    for (at, x) in x.iter().enumerate() {
        for (tap, weight) in weight.iter().enumerate() {
            sums[at * stride + tap * dilation] += x * weight;
        }
    }
    sums[padding..full - padding + extra].to_vec()
}

#[test]
fn output_padding_of_transposed_convolutions_reaches_the_dilation() {
    let (x, weight) = ([1., 2., 3.], [1., 10.]);
    let (of_x, of_weight) = (tensor![[[1., 2., 3.]]], tensor![[[1., 10.]]]);
    both_ways(|way| {
        let mut count = 0;
        for stride in 1..4 {
            for dilation in 1..5 {
                for padding in 0..3 {
                    for extra in 0..5 {
                        let full = 2 * stride + dilation + 1;
                        let case = [stride, dilation, padding, extra];
                        let run = |x: &Tensor| transposed(x, &of_weight, stride, dilation, padding, extra);
                        if extra >= stride.max(dilation) || full + extra <= 2 * padding {
                            let error = catch(|| run(&of_x)).expect_err("it has no result");
                            assert_eq!(error.code(), Code::Argument, "{way} {case:?}");
                            continue;
                        }
                        let want = transposed_by_loops(&x, &weight, case);
                        assert_eq!(run(&of_x).to_vec::<f32>(), want, "{way} {case:?}");
                        // The result is linear in x, so the gradient of its sum at an element is the sum for that
                        // element alone.
                        let sums = |at: usize| {
                            let unit: Vec<f32> = (0..3).map(|it| f32::from(u8::from(it == at))).collect();
                            transposed_by_loops(&unit, &weight, case).iter().sum::<f32>()
                        };
                        let gradient = ms::grad(|x: &Tensor| run(x).sum(()))(&of_x);
                        assert_eq!(gradient.to_vec::<f32>(), [sums(0), sums(1), sums(2)], "{way} {case:?}");
                        count += 1;
                    }
                }
            }
        }
        assert!(count > 80, "{count}");
    });
}

#[jit]
fn softmax_of(x: &Tensor, axis: isize) -> [Tensor; 3] {
    let scores = ms::ops::AttentionOptions { mask: Some(x.clone()), ..Default::default() };
    let one = Tensor::zeros([1, 1]).cast(x.dtype());
    let keys = Tensor::zeros([x.shape()[1], 1]).cast(x.dtype());
    let queries = one.broadcast_to([x.shape()[0], 1]);
    [ops::softmax(x, axis), ops::log_softmax(x, axis), ops::attention_weights(&queries, &keys, &scores)]
}

/// An infinite element makes its whole row NaN, for every length and dtype, along rows and columns.
#[test]
fn the_softmax_of_infinity_is_nan() {
    both_ways(|way| {
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            for length in [2, 5, 33, 1100, 5000] {
                for [special, rest] in [[INF, 1.], [INF, INF], [f32::NAN, 1.], [INF, -INF], [-INF, -INF], [-INF, 1.]] {
                    let mut row = vec![rest; length];
                    row[length / 2] = special;
                    let x = Tensor::from_slice([1, length], &row).cast(dtype);
                    let rows = softmax_of(&x, 1);
                    let columns = softmax_of(&x.reshape((length, 1)), 0);
                    let is_nan = |it: &Tensor| it.cast(DType::F32).to_vec::<f32>().iter().all(|it| it.is_nan());
                    let wanted = special != -INF || rest == -INF;
                    let what = format!("{way}, {dtype:?}, {length} of {rest} and {special}");
                    for got in rows[..2].iter().chain(&columns[..2]) {
                        assert_eq!(is_nan(got), wanted, "{what}: {got:?}");
                    }
                    // Scores that are all minus infinity exclude all keys.
                    assert_eq!(is_nan(&rows[2]), wanted && special != -INF, "{what}: weights {:?}", rows[2]);
                }
            }
        }
    });
}
