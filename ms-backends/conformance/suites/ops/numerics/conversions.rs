//! Tests conversions between dtypes.

use super::compiled;
use ms::ops;
use ms::ops::reference::ReferenceDispatcher;
use ms::tensor::{Element, Literal, Scalar, bf16, f16, with_dispatcher};
use ms::{DType, Tensor};
use std::rc::Rc;

/// Converts a tensor to another dtype on every path.
fn casts(x: &Tensor, to: DType) -> [(&'static str, Tensor); 5] {
    let literal = Literal::from_array(x.array().expect("an array")).expect("the elements are readable");
    let by = |way| with_dispatcher(Rc::new(way), || x.cast(to));
    [
        ("eagerly", x.cast(to)),
        ("compiled", compiled(|x| x.cast(to), x)),
        ("as a constant", compiled(|_| ops::constant(&literal).cast(to), x)),
        ("by the op's meaning", by(ReferenceDispatcher::Eval)),
        ("by the kernel's body", by(ReferenceDispatcher::Lowered)),
    ]
}

/// Returns numbers of a 16-bit float, and numbers at and beside the midpoint between each and the next. Each has the
/// bits that it rounds to.
fn near_ties(infinity: u16, of: impl Fn(u16) -> f64) -> Vec<(f64, u16)> {
    let mut cases = Vec::new();
    for bits in 0..infinity {
        let low = of(bits);
        let step = if bits + 1 == infinity { low - of(bits - 1) } else { of(bits + 1) - low };
        let tie = low + step / 2.0;
        let near = tie as f32;
        assert_eq!(f64::from(near), tie, "f32 holds the middle");
        let positive = [
            (low, bits),
            (tie, bits + (bits & 1)),
            (tie.next_down(), bits),
            (tie.next_up(), bits + 1),
            (near.next_down().into(), bits),
            (near.next_up().into(), bits + 1),
        ];
        cases.extend(positive.into_iter().flat_map(|(x, bits)| [(x, bits), (-x, bits | 0x8000)]));
    }
    cases
}

/// Compares every path of conversion to a 16-bit float with `of`, on the hard cases of every other dtype.
fn check_rounding<T: Element>(infinity: u16, of: impl Fn(u16) -> f64) {
    let to = T::DTYPE;
    let hold = |x: Tensor, want: Vec<u16>| {
        let bits = |it: Scalar| it.to_bits(to) as u16;
        for (way, got) in casts(&x, to) {
            let got = got.try_array().and_then(ms::tensor::Array::into_host).expect("an array").scalars();
            assert_eq!(got.len(), want.len());
            let wrong = got.iter().zip(&want).position(|(&got, &want)| bits(got) != want);
            if let Some(at) = wrong {
                let from = x.try_array().and_then(ms::tensor::Array::into_host).expect("an array").scalars()[at];
                panic!("{from} of {} to {to}, {way}: {}, not the bits {:#x}", x.dtype(), got[at], want[at]);
            }
        }
    };
    let cases = near_ties(infinity, of);
    for &(x, want) in &cases {
        assert_eq!(Scalar::Float(x).to_bits(to) as u16, want, "the scalar {x:e}");
    }
    hold(Tensor::from(cases.iter().map(|it| it.0).collect::<Vec<_>>()), cases.iter().map(|it| it.1).collect());
    let (x, want): (Vec<f32>, _) =
        cases.iter().filter(|it| f64::from(it.0 as f32) == it.0).map(|it| (it.0 as f32, it.1)).unzip();
    hold(Tensor::from(x), want);
    // These are integers at midpoints and beside them. Some have no exact f64.
    let ties = cases.iter().step_by(12).zip(cases.iter().skip(2).step_by(12)).map(|(low, tie)| (low.1, tie.1, tie.0));
    let mut integers = Vec::new();
    for (bits, even, tie) in ties.filter(|it| it.2 >= 4096.0 && it.2 < 2e19) {
        let tie = tie as i128;
        let positive = [(tie - 1, bits), (tie, even), (tie + 1, bits + 1)];
        integers.extend(positive.into_iter().flat_map(|(x, bits)| [(x, bits), (-x, bits | 0x8000)]));
    }
    macro_rules! hold_integers {
        ($($ty:ty)*) => {$(
            let held = integers.iter().filter_map(|it| <$ty>::try_from(it.0).ok().map(|x| (x, it.1)));
            let (x, want): (Vec<$ty>, Vec<u16>) = held.unzip();
            hold(Tensor::from(x), want);
        )*};
    }
    hold_integers! { i32 i64 u32 u64 }
}

#[test]
fn conversions_to_16_bits_round_once() {
    check_rounding::<f16>(0x7c00, |bits| f16::from_bits(bits).into());
    // A bf16 is the upper half of an f32.
    check_rounding::<bf16>(0x7f80, |bits| f32::from_bits(u32::from(bits) << 16).into());
}

/// Conversions between dtypes that Rust has agree with Rust's, which round once, saturate and wrap.
#[test]
fn conversions_are_those_of_rust() {
    macro_rules! to {
        ($x:expr, $from:ty: $($to:ty)*) => {{
            let x: &[$from] = $x;
            $(for (way, got) in casts(&Tensor::from(x), <$to>::DTYPE) {
                let (got, want) = (got.to_vec::<$to>(), x.iter().map(|&it| it as $to).collect::<Vec<_>>());
                let (got, want) = (format!("{got:?}"), format!("{want:?}"));
                assert_eq!(got, want, "{x:?} of {} to {}, {way}", <$from>::DTYPE, <$to>::DTYPE);
            })*
            for (way, got) in casts(&Tensor::from(x), DType::Bool) {
                let want: Vec<bool> = x.iter().map(|&it| it != (0 as $from)).collect();
                assert_eq!(got.to_vec::<bool>(), want, "{x:?} to bool, {way}");
            }
        }};
    }
    macro_rules! integers {
        ($($from:ty)*) => {$({
            // These are numbers beside powers of two, and beside the midpoints of the floats between them.
            let mut all = vec![0, 1, <$from>::MIN, <$from>::MAX];
            for power in 0..<$from>::BITS - 1 {
                let one = 1 as $from;
                for bit in [0, 7, 8, 9, 23, 24, 25, 52, 53, 54].into_iter().filter(|&it| it <= power) {
                    let x = (one << power) | (one << (power - bit));
                    all.extend([x - 1, x, x | 1, (0 as $from).wrapping_sub(x)]);
                }
            }
            to!(&all, $from: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);
        })*};
    }
    macro_rules! floats {
        ($($from:ident)*) => {$({
            let mut all = vec![$from::NAN, $from::INFINITY, $from::MAX, $from::MIN_POSITIVE, 1e-42, 0.0, 0.5, 1.0 + $from::EPSILON];
            for power in [7, 8, 15, 16, 23, 24, 31, 32, 52, 53, 63, 64, 65, 100] {
                let x = (2.0 as $from).powi(power);
                all.extend([x, x.next_down(), x.next_up(), x - 1.0, x - 0.5, x + 0.5, x + 44.0]);
            }
            all.extend(all.clone().into_iter().map(|it: $from| -it));
            to!(&all, $from: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);
        })*};
    }
    integers! { i8 i16 i32 i64 u8 u16 u32 u64 }
    floats! { f32 f64 }
}
