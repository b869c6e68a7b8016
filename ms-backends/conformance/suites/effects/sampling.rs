//! Tests random classes by weights and by logits: frequencies, equal draws on every path, and refusals.

use ms::prelude::*;
use ms::{Code, jit, vmap};

const WEIGHTS: [f64; 4] = [1.0, 0.0, 3.0, 4.0];
const DRAWS: usize = 20_000;

fn weights(dtype: DType) -> Tensor {
    Tensor::from_slice([4], &WEIGHTS).cast(dtype)
}

fn share(drawn: &[i64], is: impl Fn(&[i64]) -> bool, of: usize) -> f64 {
    drawn.chunks(of).filter(|it| is(it)).count() as f64 / (drawn.len() / of) as f64
}

fn near(got: f64, want: f64, what: &str) {
    // Four standard deviations of a frequency are at most 0.0142 for this number of draws.
    assert!((got - want).abs() < 0.0142, "{what}: {got}, not {want}");
}

/// Draws with each function from the same distribution.
fn drawn(dtype: DType, samples: usize, rows: usize, replacement: bool) -> [(&'static str, Tensor); 2] {
    let weights = ops::broadcast_to(weights(dtype), [rows, 4]);
    random::set_seed(3);
    let by_weights = random::multinomial(&weights, samples, replacement);
    random::set_seed(4);
    [("weights", by_weights), ("logits", random::categorical(weights.cast(DType::F64).log(), samples, replacement))]
}

#[test]
fn independent_draws_have_the_frequencies_of_the_weights() {
    for dtype in [DType::F16, DType::F32, DType::F64, DType::I32] {
        for (by, drawn) in drawn(dtype, DRAWS, 1, true) {
            assert_eq!((drawn.dtype(), drawn.shape()), (DType::I64, &[1, DRAWS][..]), "{by}");
            for (class, weight) in WEIGHTS.iter().enumerate() {
                let got = share(&drawn.to_vec(), |it| it[0] == class as i64, 1);
                near(got, weight / 8.0, &format!("{by} of {dtype}, class {class}"));
                assert!(*weight > 0.0 || got == 0.0, "class {class} has no weight");
            }
        }
    }
}

#[test]
fn draws_without_replacement_are_among_those_that_are_left() {
    for (by, drawn) in drawn(DType::F32, 2, DRAWS, false) {
        let drawn = drawn.to_vec::<i64>();
        for (first, a) in WEIGHTS.iter().enumerate() {
            for (second, b) in WEIGHTS.iter().enumerate() {
                let want = if first == second { 0.0 } else { a / 8.0 * b / (8.0 - a) };
                let got = share(&drawn, |it| it == [first as i64, second as i64], 2);
                near(got, want, &format!("{by}, {first} before {second}"));
                assert!(want > 0.0 || got == 0.0, "{first} before {second} is not possible");
            }
        }
    }
    // All classes have a weight, however small.
    for weights in [[5e-324, 0.0, 1e308, 1e-300], [1e-320, 0.0, 5e-324, 5e-324]] {
        let mut all = random::multinomial(Tensor::from_slice([4], &weights), 3, false).to_vec::<i64>();
        all.sort();
        assert_eq!(all, [0, 2, 3], "{weights:?}");
    }
}

#[test]
fn extreme_weights_are_drawn_by_their_ratios() {
    for scale in [5e-324, 1e300] {
        let drawn = random::multinomial(Tensor::from_slice([2], &[3.0 * scale, scale]), DRAWS, true).to_vec::<i64>();
        near(share(&drawn, |it| it == [0], 1), 0.75, &format!("scale {scale}"));
    }
    let drawn = random::categorical(tensor![1000.0, 1000.0, -1000.0], DRAWS, true).to_vec::<i64>();
    near(share(&drawn, |it| it == [0], 1), 0.5, "large logits");
    assert!(drawn.iter().all(|&it| it < 2));
}

fn by_weights(x: &Tensor) -> Tensor {
    random::multinomial(x, 5, true)
}

fn all_by_weights(x: &Tensor) -> Tensor {
    random::multinomial(x, 3, false)
}

fn by_logits(x: &Tensor) -> Tensor {
    random::categorical(x, 5, true)
}

fn all_by_logits(x: &Tensor) -> Tensor {
    random::categorical(x, 3, false)
}

#[test]
fn a_seed_decides_the_draws_on_every_path() {
    let x = Tensor::from_slice([2, 4], &[1.0f32, 0.5, 3.0, 4.0, 2.0, 2.0, 0.25, 1.0]);
    let seeded = |f: &dyn Fn(&Tensor) -> Tensor| {
        random::with_seed(11, || {
            let both = [f(&x), f(&x)].map(|it| it.to_vec::<i64>());
            assert_ne!(both[0], both[1], "the second call draws further classes");
            both
        })
    };
    macro_rules! check {
        ($($f:ident)*) => {$(
            let eager = seeded(&|x| $f(x));
            assert_eq!(seeded(&|x| jit($f)(x)), eager, "{}, compiled", stringify!($f));
            // Lanes draw independently.
            let lanes = seeded(&|_| vmap($f)(&Tensor::from_slice([2, 4], &[1.0f32; 8])));
            assert_ne!(lanes[0][..lanes[0].len() / 2], lanes[0][lanes[0].len() / 2..], "{}", stringify!($f));
            let compiled = seeded(&|_| jit(vmap($f))(&Tensor::from_slice([2, 4], &[1.0f32; 8])));
            assert_eq!(compiled, lanes, "{}, lanes compiled", stringify!($f));
        )*};
    }
    check! { by_weights all_by_weights by_logits all_by_logits }
}

#[jit(dims(x = [n, c]))]
fn of_any_size(x: &Tensor) -> Tensor {
    random::multinomial(x, 2, false)
}

#[test]
fn sizes_may_be_symbolic() {
    for (rows, classes) in [(1, 2), (3, 5), (4, 2)] {
        let drawn = of_any_size(&Tensor::ones([rows, classes]));
        assert_eq!(drawn.shape(), [rows, 2]);
        assert!(drawn.to_vec::<i64>().chunks(2).all(|it| it[0] != it[1] && it.iter().all(|&it| it < classes as i64)));
    }
}

#[test]
fn what_has_no_distribution_is_refused() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let check = |f: fn(&Tensor) -> Tensor, compiled: &dyn Fn(&Tensor) -> Tensor, x: [f64; 4], says: &str| {
        let x = Tensor::from_slice([2, 4], &[[1.0, 2.0, 3.0, 4.0], x].concat());
        for run in [&f as &dyn Fn(&Tensor) -> Tensor, compiled] {
            let error = ms::catch(|| run(&x).to_vec::<i64>()).expect_err("refused");
            assert_eq!(error.code(), Code::Argument, "{x:?}");
            assert!(error.to_string().contains(says), "{error}");
        }
    };
    macro_rules! check {
        ($($f:ident $x:expr => $says:literal;)*) => {$(check($f, &|x| jit($f)(x), $x, $says);)*};
    }
    check! {
        by_weights [1.0, -0.5, 0.0, 1.0] => "the weight of class 1 in row 1 is -0.5";
        by_weights [1.0, 0.5, 0.0, nan] => "class 3 in row 1 is NaN";
        by_weights [inf, 0.5, 0.0, 1.0] => "class 0 in row 1 is inf";
        by_weights [0.0; 4] => "0 classes in row 1";
        all_by_weights [1.0, 2.0, 0.0, 0.0] => "2 classes in row 1 have a weight above 0, and 3 are drawn";
        by_logits [1.0, inf, 0.0, 0.0] => "class 1 in row 1 is inf";
        by_logits [1.0, nan, 0.0, 0.0] => "class 1 in row 1 is NaN";
        by_logits [-inf; 4] => "0 classes in row 1";
        all_by_logits [-inf, 0.0, 1.0, -inf] => "2 classes in row 1";
    }
    let code = |f: &dyn Fn() -> Tensor| ms::catch(f).expect_err("refused").code();
    assert_eq!(code(&|| random::multinomial(Tensor::scalar(1.0), 1, true)), Code::Shape);
    assert_eq!(code(&|| random::multinomial(Tensor::ones([2, 0]), 1, true)), Code::Shape);
    assert_eq!(code(&|| random::categorical(Tensor::ones([2]), 3, false)), Code::Argument);
    assert_eq!(random::multinomial(Tensor::ones([0, 3]), 2, false).shape(), [0, 2]);
    assert_eq!(random::multinomial(Tensor::ones([2, 3]), 0, true).shape(), [2, 0]);
    assert_eq!(random::categorical(Tensor::ones([2, 3]), 0, false).shape(), [2, 0]);
}
