//! Bad input gives an error with op, shapes, dtypes and the user's line, or NumPy's answer.

use ms::prelude::*;
use ms::{Code, catch};

/// What every refusal must say: its code, and these words.
struct Refusal {
    what: &'static str,
    run: fn() -> Tensor,
    code: Code,
    words: &'static [&'static str],
}

fn check(cases: &[Refusal]) {
    for case in cases {
        let error = match catch(case.run) {
            Ok(result) => panic!("{}: accepted, with {result}", case.what),
            Err(error) => error,
        };
        assert_eq!(error.code(), case.code, "{}: {error}", case.what);
        let text = error.to_string();
        for words in case.words {
            assert!(text.contains(words), "{}: `{words}` is not in\n{text}", case.what);
        }
        assert!(text.contains("tests/bad_input.rs"), "{}: the user's line is not in\n{text}", case.what);
    }
}

#[test]
fn eager_ops_refuse() {
    check(&[
        Refusal {
            what: "shapes that do not broadcast",
            run: || Tensor::ones([2, 3]) + Tensor::ones([4]),
            code: Code::Shape,
            words: &["add", "f32[2, 3]", "f32[4]", "help"],
        },
        Refusal {
            what: "inner dimensions that differ",
            run: || Tensor::ones([2, 3]).matmul(Tensor::ones([4, 5])),
            code: Code::Shape,
            words: &["matmul", "f32[2, 3]", "f32[4, 5]"],
        },
        Refusal {
            what: "an index out of range",
            run: || Tensor::ones([2, 3]).at(5),
            code: Code::OutOfRange,
            words: &["5", "2"],
        },
        Refusal {
            what: "an axis out of range",
            run: || ops::sum(Tensor::ones([2, 3]), 2, false),
            code: Code::OutOfRange,
            words: &["sum", "2", "f32[2, 3]"],
        },
        Refusal {
            what: "a number of elements that does not fit",
            run: || Tensor::ones([2, 3]).reshape([4]),
            code: Code::Shape,
            words: &["reshape", "f32[2, 3]", "4"],
        },
        Refusal {
            what: "a scalar of a higher kind",
            run: || tensor![1, 2] * 0.5,
            code: Code::DType,
            words: &["mul", "0.5", "i64", "cast"],
        },
        Refusal {
            what: "the bits of a float",
            run: || ops::bitwise_and(tensor![1.0], tensor![2.0]),
            code: Code::DType,
            words: &["bitwise_and", "f32"],
        },
        Refusal {
            what: "the largest of nothing",
            run: || ops::max(Tensor::ones([0]), (), false),
            code: Code::Argument,
            words: &["max", "f32[0]"],
        },
        Refusal {
            what: "channels that do not fit the weight",
            run: || nn::Conv2d::new(3, 4, 3).call(&Tensor::ones([1, 2, 8, 8])),
            code: Code::Shape,
            words: &["conv", "f32[1, 2, 8, 8]"],
        },
        Refusal {
            what: "data that does not fill a shape",
            run: || Tensor::from_slice([2, 2], &[1.0f32]),
            code: Code::Shape,
            words: &["1", "[2, 2]"],
        },
        Refusal {
            what: "elements of another dtype",
            run: || Tensor::scalar(tensor![1.0].to_vec::<i64>()[0]),
            code: Code::DType,
            words: &["f32", "i64", "cast"],
        },
        Refusal {
            what: "one element of several",
            run: || Tensor::scalar(tensor![1.0, 2.0].item::<f32>()),
            code: Code::Shape,
            words: &["item", "f32[2]"],
        },
        Refusal {
            what: "a class outside the table",
            run: || ops::gather(Tensor::ones([3, 2]), tensor![7], 0),
            code: Code::OutOfRange,
            words: &["7", "3"],
        },
        Refusal {
            what: "another type in a parameter",
            run: || {
                Parameter::new(Tensor::ones([2]), "p").set(&Tensor::ones([3]));
                Tensor::ones([1])
            },
            code: Code::Shape,
            words: &["f32[2]", "f32[3]"],
        },
    ]);
}

#[jit]
fn adds(x: &Tensor, y: &Tensor) -> Tensor {
    x + y
}

#[jit]
fn reads(x: &Tensor) -> Tensor {
    Tensor::scalar(x.sum((), false).item::<f32>())
}

#[jit]
fn wrong_twice(x: &Tensor) -> Tensor {
    let a = x + Tensor::ones([7]);
    let b = x * Tensor::ones([5]);
    a + b
}

#[jit]
fn returns(x: &Tensor) -> ms::Result<Tensor> {
    Ok(x.reshape([7]))
}

#[test]
fn compiled_functions_refuse() {
    check(&[
        Refusal {
            what: "shapes that do not broadcast",
            run: || adds(&Tensor::ones([2, 3]), &Tensor::ones([4])),
            code: Code::Shape,
            words: &["add", "f32[2, 3]", "f32[4]"],
        },
        Refusal {
            what: "the value of a traced tensor",
            run: || reads(&Tensor::ones([2])),
            code: Code::TracedValue,
            words: &["not known", "help"],
        },
        Refusal {
            what: "two errors at once",
            run: || wrong_twice(&Tensor::ones([2, 3])),
            code: Code::Trace,
            words: &["2 errors", "add", "mul"],
        },
    ]);
    let error = returns(&Tensor::ones([2])).expect_err("the shape does not fit");
    assert_eq!(error.code(), Code::Shape);
}

#[test]
fn gradients_refuse() {
    check(&[Refusal {
        what: "a gradient of integers",
        run: || ms::grad(|x: &Tensor| x * x)(&tensor![1, 2]),
        code: Code::NoGradient,
        words: &["i64", "grad"],
    }]);
}

#[cell]
struct Twice {
    a: Parameter,
    b: Parameter,
}

#[test]
fn a_cell_with_two_parameters_of_one_name_is_refused() {
    let named = |name| Parameter::new(Tensor::ones([1]), name);
    let error = Twice { a: named("w"), b: named("w") }.named_parameters().expect_err("two are named `w`");
    assert_eq!(error.code(), Code::DuplicateName);
    assert!(error.to_string().contains("`w`"));
    let shared = named("w");
    let once = Twice { a: shared.clone(), b: shared }.named_parameters().expect("one slot has one name");
    assert_eq!(once.len(), 1);
}

#[test]
fn empty_zero_dimensional_and_nan_operands_give_the_numpy_answer() {
    fn check(what: &str, got: Tensor, shape: &[usize], want: &[f32]) {
        assert_eq!(got.shape(), shape, "{what}");
        let got = got.to_vec::<f32>();
        let same = |(a, b): (&f32, &f32)| a == b || (a.is_nan() && b.is_nan());
        assert!(got.len() == want.len() && got.iter().zip(want).all(same), "{what}: {got:?}, not {want:?}");
    }
    let nan = f32::NAN;
    for run in [|x: &Tensor, y: &Tensor| x + y, |x: &Tensor, y: &Tensor| adds(x, y)] {
        check("empty and a row", run(&Tensor::ones([0, 3]), &Tensor::ones([3])), &[0, 3], &[]);
        check("zero dimensions", run(&Tensor::scalar(1.0), &Tensor::scalar(2.0)), &[], &[3.0]);
        check("nan", run(&tensor![1.0, f32::NAN], &tensor![1.0, 1.0]), &[2], &[2.0, nan]);
    }
    check("the sum of nothing", ops::sum(Tensor::ones([0]), (), false), &[], &[0.0]);
    check("the mean of nothing", ops::mean(Tensor::ones([0]), (), false), &[], &[nan]);
    check("a product over nothing", Tensor::ones([2, 0]).matmul(Tensor::ones([0, 2])), &[2, 2], &[0.0; 4]);
    check("the largest with nan", ops::max(tensor![1.0, f32::NAN, 3.0], (), false), &[], &[nan]);
    check("no rows", Tensor::ones([3, 2]).i(1..1), &[0, 2], &[]);
    check("no channels of no image", ops::relu(Tensor::ones([0, 1, 8, 8])), &[0, 1, 8, 8], &[]);
    check("a class that does not exist", ops::cross_entropy(Tensor::zeros([1, 2]), tensor![2]), &[], &[nan]);
    check("division by zero", tensor![1.0, -1.0, 0.0] / 0.0, &[3], &[f32::INFINITY, f32::NEG_INFINITY, nan]);
}
