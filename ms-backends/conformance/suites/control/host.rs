//! Tests control flow on host values, which stays plain Rust in annotated code.
//!
//! A traced condition where no region is possible is an error with a code.

#![allow(clippy::needless_late_init, reason = "deferred `let` is one of the constructs that are compared")]

use ms::Code;
use ms::error::OrRaise;
use ms::prelude::*;
use ms_conformance::paths::eagerly;
use std::num::ParseIntError;

/// Declares a function that uses every host construct; `text` makes it fail in the middle.
macro_rules! every_construct {
    ($(#[$attribute:meta])? $name:ident -> $error:ty) => {
        $(#[$attribute])?
        fn $name(n: usize, flag: bool, text: &str, names: &[String]) -> Result<i64, $error> {
            let mut total = 0i64;
            let mut seen: Vec<&str> = vec![];
            let k;
            if flag {
                k = 2
            } else {
                k = 3
            }
            'outer: for i in 0..n {
                let mut j = 0;
                while j < names.len() && (flag || names[j].parse::<i64>()? > 1) {
                    if i == 3 || j >= 4 && !flag {
                        continue 'outer;
                    }
                    if let Some(name) = names.get(j)
                        && name.len() < 3
                        && i != 1
                    {
                        seen.push(name);
                    }
                    total += match (i, j) {
                        (a, b) if a > b => 10,
                        (0, 0) => 1,
                        _ if total > 50 => break 'outer,
                        _ => 2,
                    };
                    j += 1;
                }
                if total == text.parse::<i64>()? {
                    return Ok(-1);
                }
            }
            let best: Box<dyn Fn(i64) -> i64> = if total > 4 { Box::new(|x| x + 1) } else { Box::new(move |x| x * k) };
            let most = names.iter().map(|it| it.len()).filter(|&it| it > 0).max();
            assert!(most != Some(9), "never nine");
            Ok(best(total) + seen.len() as i64 + if most == Some(2) && total < 100 { 1000 } else { 0 })
        }
    };
}

every_construct!(native -> ParseIntError);
every_construct!(#[jit] annotated -> Refused);

#[derive(Debug, PartialEq)]
enum Refused {
    Number(ParseIntError),
    Library(String),
}

impl From<ParseIntError> for Refused {
    fn from(error: ParseIntError) -> Self {
        Self::Number(error)
    }
}

impl From<ms::Error> for Refused {
    fn from(error: ms::Error) -> Self {
        Self::Library(error.to_string())
    }
}

#[test]
fn host_control_flow_is_rusts_own() {
    let lists: [&[&str]; 5] = [&[], &["5"], &["3", "22", "4"], &["1", "2"], &["7", "x", "9", "9", "9", "9"]];
    for names in lists {
        let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
        for n in 0..6 {
            for (flag, text) in [(false, "0"), (true, "13"), (true, "x"), (false, "11")] {
                let want = native(n, flag, text, &names).map_err(Refused::Number);
                assert_eq!(annotated(n, flag, text, &names), want, "{n} {flag} {text} {names:?}");
                assert_eq!(annotated(n, flag, text, &names), want, "again: {n} {flag} {text} {names:?}");
                assert_eq!(eagerly(|| annotated(n, flag, text, &names)), want, "{n} {flag} {text} {names:?}");
            }
        }
    }
}

#[jit]
fn newton(x: &Tensor, tol: f32) -> Tensor {
    let mut guess = x.clone();
    while (&guess * &guess - x).abs() > tol {
        guess = (&guess + x / &guess) * 0.5;
    }
    if guess < 0.0 || x == 0.0 && tol > 0.5 {
        return -guess;
    }
    guess
}

#[test]
fn concrete_tensors_are_conditions() {
    let x = Tensor::scalar(2.0f32);
    for root in [eagerly(|| newton(&x, 1e-4)), newton(&x, 1e-4)].map(|it| it.item::<f32>()) {
        assert!((root - 2f32.sqrt()).abs() < 1e-4, "{root}");
    }
}

#[test]
fn a_traced_condition_is_refused_with_a_code_and_the_line() {
    #[jit]
    fn guarded(x: &Tensor, n: Option<usize>) -> Tensor {
        match n {
            Some(_) if x > 0.5 => x.clone(),
            _ => -x,
        }
    }
    let x = Tensor::scalar(2.0f32);
    assert_eq!(eagerly(|| guarded(&x, Some(0))).item::<f32>(), 2.0);
    let error = ms::catch(|| guarded(&x, Some(0))).expect_err("traced");
    assert_eq!(error.code(), Code::Condition);
    let location = error.report().location.expect("the user's line");
    assert!(location.file().ends_with("host.rs"), "{location}");
    assert!(error.to_string().contains("bool[]"), "{error}");
}

#[test]
fn a_condition_is_one_bool() {
    let two = Tensor::from_slice([2], &[1.0f32, 2.0]);
    let error = ms::catch(|| eagerly(|| newton(&two, 1e-4))).expect_err("two elements");
    assert_eq!(error.code(), Code::Shape);
    #[jit]
    fn number(x: &Tensor) -> i64 {
        if x { 1 } else { 0 }
    }
    let error = ms::catch(|| eagerly(|| number(&Tensor::scalar(2.0f32)))).expect_err("no bool");
    assert_eq!(error.code(), Code::DType);
    assert_eq!(eagerly(|| number(&Tensor::scalar(true))), 1);
}

#[cell]
struct Gate {
    weight: Parameter,
    limit: f64,
}

#[cell]
impl Gate {
    fn construct(&self, x: &Tensor) -> Tensor {
        let inside = self.below(x);
        ops::select(&inside, x, &(x * 0.0))
    }

    fn below(&self, x: &Tensor) -> Tensor {
        x < self.limit && 0 <= self.weight.value() && true
    }
}

#[jit]
fn masks(x: &Tensor, y: &Tensor, limit: &f32) -> Vec<Tensor> {
    let p = Parameter::new(Tensor::scalar(2.0f32), "p");
    assert_eq!((x < 2.0).dtype(), DType::Bool);
    let (bound, mask) = (0.5, 1 <= x);
    assert_eq!(((x > bound).shape(), mask.shape()), (x.shape(), x.shape()));
    vec![x < y, *y <= x, x == 2.0, 3 != x, x > limit, &2.0f32 >= x, x < p, &p == x]
}

#[test]
fn comparisons_of_every_mix_are_masks() {
    let x = Tensor::from_slice([3], &[1.0f32, 2.0, 3.0]);
    let y = Tensor::from_slice([3], &[3.0f32, 2.0, 1.0]);
    let want = [
        [true, false, false],
        [false, true, true],
        [false, true, false],
        [true, true, false],
        [false, true, true],
        [true, true, false],
        [true, false, false],
        [false, true, false],
    ];
    for _ in 0..2 {
        let got: Vec<Vec<bool>> = masks(&x, &y, &1.5).iter().map(Tensor::to_vec).collect();
        assert_eq!(got, want);
    }
}

#[test]
fn methods_of_cells_are_annotated_code() {
    let gate = Gate { weight: Parameter::new(Tensor::scalar(1i64), ""), limit: 2.0 };
    assert_eq!(gate.call(&Tensor::scalar(1.5f32)).item::<f32>(), 1.5);
    assert_eq!(gate.call(&Tensor::scalar(2.5f32)).item::<f32>(), 0.0);
}

#[test]
fn closures_are_annotated_code_in_jit() {
    let clip = ms::closure::jit!(|x: &Tensor, limit: &f32| {
        let limit = if *limit > 1.0 { 1.0 } else { *limit };
        let inside = limit < x;
        ops::select(ops::logical_not(inside), x, Tensor::scalar(limit))
    });
    let x = Tensor::from_slice([2], &[0.5f32, 3.0]);
    assert_eq!(clip(&x, &2.0).to_vec::<f32>(), [0.5, 1.0]);
    assert_eq!(clip(&x, &0.25).to_vec::<f32>(), [0.25, 0.25]);
}

#[test]
fn assertions_keep_their_text() {
    #[jit]
    fn positive(x: &Tensor, n: usize) -> usize {
        assert!(n > 0, "n is {n}");
        debug_assert!(x.shape() == [n]);
        assert!(x > 0.0,);
        n
    }
    let message = |x: f32, n: usize| {
        let run = || {
            eagerly(|| positive(&Tensor::from_slice([1], &[x]), n));
            // A device reports failed assertions when somebody waits.
            ms::synchronize().or_raise();
        };
        *std::panic::catch_unwind(run).expect_err("refused").downcast::<String>().expect("a message")
    };
    assert_eq!(message(1.0, 0), "n is 0");
    let refused = message(-1.0, 1);
    let line = format!("assertion failed: x > 0.0\n  --> {}:{}", file!(), line!() - 13);
    assert!(refused.contains("MS120") && refused.contains(&line), "{refused}, not {line}");
    assert_eq!(message(1.0, 2), "assertion failed: x.shape() == [n]");
}
