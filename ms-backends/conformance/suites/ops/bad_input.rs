//! Tests invalid input: it is an error with op, shapes, dtypes and the user's line, or has NumPy's answer.

use ms::{Code, prelude::*};
use ms_conformance::late_errors::catch;

/// A case that is an error: its code, and words of its message.
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
        assert!(text.contains(file!()), "{}: the user's line is not in\n{text}", case.what);
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
            run: || ops::sum(Tensor::ones([2, 3]), 2),
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
            run: || ops::max(Tensor::ones([0]), ()),
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
    Tensor::scalar(x.sum(()).item::<f32>())
}

#[jit]
fn wrong_twice(x: &Tensor) -> Tensor {
    let a = x + Tensor::ones([7]);
    let b = x * Tensor::ones([5]);
    a + b
}

#[jit]
fn wrong_all_over(x: &Tensor, y: &Tensor) -> Tensor {
    let product = x.matmul(y).reshape([2]).transpose(0, 1).at(7);
    let cut = x.reshape([7]).permute([0, 2]).sum(5);
    let joined = ops::concat(&[x, y], 3).argmax(9);
    let turned = x.permute([0, 1, 2]).cumsum(4);
    let total = x.sum(keepdims(2));
    let picked = ops::gather(x, y, 4);
    let loss = nn::CrossEntropyLoss::default().call(x, y);
    product + cut + joined + turned + total * picked - loss
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
            what: "errors of ops that are made of others, and none of what follows from them",
            run: || wrong_all_over(&Tensor::ones([2, 3]), &Tensor::ones([4])),
            code: Code::Trace,
            words: &[
                "7 errors",
                "matmul",
                "reshape",
                "concat",
                "permute",
                "`sum`",
                "gather",
                "`cross_entropy`",
                "bad_input.rs:141",
            ],
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

/// A failed op returns a poisoned result. It may be the result of a function that a transform is applied to, and is
/// then reported once.
#[test]
fn errors_of_transformed_functions_are_reported_once() {
    fn wrong(x: &Tensor) -> Tensor {
        x + Tensor::ones([3])
    }
    macro_rules! of {
        ($transformed:expr) => {{
            #[jit]
            fn run(x: &Tensor) -> Tensor {
                let transformed: fn(&Tensor) -> Tensor = $transformed;
                transformed(x)
            }
            || run(&Tensor::ones([2]))
        }};
    }
    let (code, words): (_, &'static [&'static str]) = (Code::Shape, &["`add`", "shapes [2] and [3]"]);
    let cases = [
        Refusal { what: "grad", run: of!(|x| ms::grad(wrong)(x)), code, words },
        Refusal { what: "vjp", run: of!(|x| ms::vjp(wrong)(x).0), code, words },
        Refusal { what: "jvp", run: of!(|x| ms::jvp(wrong)(x, x).1), code, words },
        Refusal { what: "jacrev", run: of!(|x| ms::jacrev(wrong)(x)), code, words },
        Refusal { what: "recompute", run: of!(|x| ms::recompute(wrong)(x)), code, words },
        Refusal {
            what: "custom_vjp",
            run: of!(|x| ms::custom_vjp(wrong, |_: &Tensor, _: &Tensor, dout: &Tensor| (dout * 1.0,))(x)),
            code,
            words,
        },
        Refusal {
            what: "the backward function of custom_vjp",
            run: of!(|x| {
                let f = ms::custom_vjp(
                    |x: &Tensor| x * 2.0,
                    |_: &Tensor, _: &Tensor, dout: &Tensor| {
                        let count = Parameter::init("count", [2], DType::F32, || Tensor::ones([2]));
                        count.set(&(dout + &count));
                        (wrong(dout),)
                    },
                );
                ms::grad(|x: &Tensor| f(x))(x)
            }),
            code,
            words,
        },
    ];
    for jit in [false, true] {
        ms::with_context(ms::Context { jit, ..ms::context() }, || check(&cases));
    }
}

/// A cell that is written by hand, and gives both parameters the same path.
struct Twice {
    a: Parameter,
    b: Parameter,
}

impl ms::Arg for Twice {
    fn visit(&self, sink: &mut ms::Sink<'_>) {
        sink.begin(ms::Name::Field("w"));
        sink.parameter(&self.a);
        sink.parameter(&self.b);
        sink.end();
    }
}

impl Cell for Twice {}

#[test]
fn a_cell_with_two_parameters_of_one_path_is_refused() {
    let new = || Parameter::new(Tensor::ones([1]), "");
    let twice = Twice { a: new(), b: new() };
    let error = twice.named_parameters().expect_err("two have the path `w`");
    assert_eq!(error.code(), Code::DuplicateName);
    assert!(error.to_string().contains("`w`"));
    assert_eq!(ms::catch(|| twice.state_dict()).expect_err("as well").code(), Code::DuplicateName);
    let shared = new();
    let once = Twice { a: shared.clone(), b: shared }.named_parameters().expect("one slot has one path");
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
    check("the sum of nothing", ops::sum(Tensor::ones([0]), ()), &[], &[0.0]);
    check("the mean of nothing", ops::mean(Tensor::ones([0]), ()), &[], &[nan]);
    check("a product over nothing", Tensor::ones([2, 0]).matmul(Tensor::ones([0, 2])), &[2, 2], &[0.0; 4]);
    check("the largest with nan", ops::max(tensor![1.0, f32::NAN, 3.0], ()), &[], &[nan]);
    check("no rows", Tensor::ones([3, 2]).i(1..1), &[0, 2], &[]);
    check("no channels of no image", ops::relu(Tensor::ones([0, 1, 8, 8])), &[0, 1, 8, 8], &[]);
    check("division by zero", tensor![1.0, -1.0, 0.0] / 0.0, &[3], &[f32::INFINITY, f32::NEG_INFINITY, nan]);
}

/// A function of a table `[3, 2]` and of positions or classes, one of which is out of range.
struct Position {
    name: &'static str,
    run: fn(&Tensor, &Tensor) -> Tensor,
    at: fn() -> Tensor,
    /// The op that fails, and its message.
    op: &'static str,
    says: &'static str,
}

macro_rules! positions {
    ($($name:ident($x:ident, $at:ident = $tensor:expr) $body:block by $op:literal: $says:literal;)*) => {
        $(
            #[jit]
            fn $name($x: &Tensor, $at: &Tensor) -> Tensor $body
        )*

        const POSITIONS: &[Position] = &[$(
            Position { name: stringify!($name), run: $name, at: || $tensor, op: $op, says: $says }
        ),*];
    };
}

#[lazy_inline]
#[cell]
struct Table {
    rows: Parameter,
}

#[cell]
impl Table {
    fn construct(&self, at: &Tensor) -> Tensor {
        ops::embedding(at, &self.rows, None)
    }
}

// The line of each failing case ends with the number of the case.
positions! {
    gathers(x, at = tensor![2, 3]) {
        ops::gather(x * 2.0, at, 0) // 1
    } by "gather": "index 3 is outside axis 0 of shape [3, 2]";
    selects(x, at = tensor![-4]) {
        ops::index_select(x, at, 0) // 2
    } by "gather": "of the index is -4";
    embeds(x, at = tensor![[0, 5]]) {
        ops::embedding(at, x, Some(0)) // 3
    } by "embedding": "`gather`: index 5 is outside axis 0";
    takes(x, at = tensor![[0], [1], [2]]) {
        ops::take_along_axis(x, at, 1) // 4
    } by "take_along_axis": "index 2 is outside axis 1";
    gathers_by_rows(x, at = tensor![[0, 1], [1, 7]]) {
        ops::gather_nd(x, at) // 5
    } by "gather_nd": "index 7 is outside axis 1";
    scatters(x, at = tensor![[9, 0]]) {
        ops::scatter(x, at, x.i(0..1), 0) // 6
    } by "scatter": "index 9 is outside axis 0";
    adds_up(x, at = tensor![[9, 0]]) {
        ops::scatter_add(x, at, x.i(0..1), 0) // 7
    } by "scatter_add": "index 9 is outside axis 0";
    adds_slices(x, at = tensor![0, 4]) {
        ops::index_add(x, at, x.i(0..2), 0) // 8
    } by "index_add": "index 4 is outside axis 0";
    entropy(x, at = tensor![0, 1, 2]) {
        ops::cross_entropy(x, at) // 9
    } by "cross_entropy": "element 2 is of class 2, which does not exist: there are 2";
    likelihood(x, at = ops::cast(tensor![0, 255, 1], DType::U8)) {
        ops::nll_loss(x, at) // 10
    } by "nll_loss": "element 1 is of class 255, which does not exist: there are 2";
    entropy_of_negative(x, at = tensor![0, -1, 1]) {
        let some = ops::CrossEntropy { ignore_index: Some(-100), label_smoothing: 0.1, ..Default::default() };
        some.of(x, at) // 11
    } by "cross_entropy": "element 1 is of class -1, which does not exist: there are 2";
    entropy_of_images(x, at = tensor![[[0, 1, 2]]]) {
        ops::cross_entropy(x.reshape((1, 2, 1, 3)), at) // 12
    } by "cross_entropy": "element 2 is of class 2, which does not exist: there are 2";
    gradient(x, at = tensor![0, 1, 5]) {
        let loss = |x: &Tensor| ops::cross_entropy(x, at); // 13
        ms::grad(loss)(x)
    } by "cross_entropy": "element 2 is of class 5";
    gradient_of_rows(x, at = tensor![3]) {
        let loss = |x: &Tensor| (ops::gather(x, at, 0) * 3.0).sum(()); // 14
        ms::grad(loss)(x)
    } by "": "index 3 is outside axis 0";
    over_lanes(x, at = tensor![0, 1, 9]) {
        let one = |x: &Tensor, at: &Tensor| ops::cross_entropy(x, at); // 15
        ms::vmap(one)(x, at)
    } by "cross_entropy": "is of class 9";
    in_a_branch(x, at = tensor![0, 1, 9]) {
        let mut loss = x.sum(());
        if &loss > 0.0 {
            loss = ops::cross_entropy(x, at); // 16
        }
        loss
    } by "cross_entropy": "element 2 is of class 9";
    in_a_loop(x, at = tensor![1, 1, 1]) {
        let mut loss = x.sum(()) * 0.0;
        let mut at = at.clone();
        while loss < 10.0 {
            loss = loss + ops::cross_entropy(x, &at); // 17
            at = at + 1;
        }
        loss
    } by "cross_entropy": "element 0 is of class 2";
    gathers_before(x, at = tensor![0, -1]) {
        ops::gather(x, at, 0) // 18
    } by "gather": "element 1 of the index is -1, which is negative";
    selects_before(x, at = tensor![0, -1]) {
        ops::index_select(x, at, 0) // 19
    } by "gather": "element 1 of the index is -1";
    takes_before(x, at = tensor![[-2], [0], [1]]) {
        ops::take_along_axis(x, at, 1) // 20
    } by "take_along_axis": "element 0 of the index is -2";
    scatters_before(x, at = tensor![[0, -1]]) {
        ops::scatter(x, at, x.i(0..1), 0) // 21
    } by "scatter": "element 1 of the index is -1";
    adds_before(x, at = tensor![[0, -1]]) {
        ops::scatter_add(x, at, x.i(0..1), 0) // 22
    } by "scatter_add": "element 1 of the index is -1";
    adds_slices_before(x, at = tensor![-3, 0]) {
        ops::index_add(x, at, x.i(0..2), 0) // 23
    } by "index_add": "element 0 of the index is -3";
    points_before(x, at = tensor![[0, -1]]) {
        ops::gather_nd(x, at) // 24
    } by "gather_nd": "element 1 of the index is -1";
    adds_points_before(x, at = tensor![[-1]]) {
        ops::scatter_nd_add(x, at, x.i(0..1)) // 25
    } by "scatter_nd_add": "element 0 of the index is -1";
    embeds_before(x, at = ops::cast(tensor![1, -1], DType::I32)) {
        ops::embedding(at, x, Some(0)) // 26
    } by "embedding": "element 1 of the index is -1";
    hot_before(x, at = tensor![1, -1]) {
        ops::one_hot(at, 2) + x.at(0) // 27
    } by "one_hot": "element 1 is of class -1, which does not exist: there are 2";
    hot_behind(x, at = tensor![1, 2]) {
        ops::one_hot(at, 2) + x.at(0) // 28
    } by "one_hot": "element 1 is of class 2, which does not exist: there are 2";
    gradient_of_rows_before(x, at = tensor![-1]) {
        let loss = |x: &Tensor| (ops::embedding(at, x, None) * 3.0).sum(()); // 29
        ms::grad(loss)(x)
    } by "embedding": "element 0 of the index is -1";
    gradient_of_source_before(x, at = tensor![-1, 0]) {
        let loss = |y: &Tensor| (ops::index_add(x, at, y, 0) * 3.0).sum(()); // 30
        ms::grad(loss)(&x.i(0..2))
    } by "index_add": "element 0 of the index is -1";
    lanes_before(x, at = tensor![[0], [-1], [0]]) {
        ms::vmap(|x: &Tensor, at: &Tensor| ops::gather(x, at, 0))(x, at) // 31
    } by "gather": "of the index is -1";
    largest_before(x, at = tensor![[0, -1]]) {
        ops::scatter_max(x, at, x.i(0..1), 0) // 32
    } by "scatter_max": "element 1 of the index is -1";
    reduced_points_before(x, at = tensor![[-1]]) {
        ops::scatter_nd_reduce(x, at, x.i(0..1), ops::Segment::Min) // 33
    } by "gather_nd": "element 0 of the index is -1";
    in_cells(x, at = tensor![1, 4]) {
        let table = Table { rows: Parameter::init("rows", [3, 2], DType::F32, || Tensor::ones([3, 2])) };
        table.call(at) + x.i(0..2)
    } by "gather": "index 4 is outside axis 0 of shape [3, 2]";
}

/// The error occurs eagerly and compiled, with the line inside the function.
#[test]
fn positions_and_classes_that_do_not_exist_are_refused_where_they_are_used() {
    let source: Vec<&str> = include_str!("bad_input.rs").lines().collect();
    let x = &tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
    for (i, Position { name, run, at, op, says }) in POSITIONS.iter().enumerate() {
        for (way, jit) in [("eagerly", false), ("compiled", true), ("compiled again", true)] {
            let context = ms::Context { jit, ..ms::context() };
            let error = match ms::with_context(context, || catch(|| run(x, &at()))) {
                Ok(result) => panic!("{name}, {way}: accepted, with {result}"),
                Err(error) => error,
            };
            assert_eq!(error.code(), Code::OutOfRange, "{name}, {way}: {error}");
            let text = error.to_string();
            // The graph of the gradient alone does not contain the gather.
            let op = if op.is_empty() && jit {
                "index_add"
            } else if *name == "embeds" && jit {
                // The check of the positions is separate from the composite, so the later step does not have its name.
                "gather"
            } else if op.is_empty() {
                "gather"
            } else {
                op
            };
            assert!(text.contains(&format!("`{op}`: ")) && text.contains(says), "{name}, {way}: {text}");
            let line = text.split(concat!(file!(), ":")).nth(1).and_then(|it| it.split(':').next()).expect("a line");
            let line = source[line.parse::<usize>().expect("a number") - 1];
            let mark = if *name == "in_cells" { "ops::embedding(at".to_owned() } else { format!("// {}", i + 1) };
            assert!(line.contains(&mark), "{name}, {way}: {line}\n{text}");
        }
    }
}

#[test]
fn what_may_be_left_out_and_what_names_no_place() {
    #[jit]
    fn ignoring(x: &Tensor, at: &Tensor) -> Tensor {
        ops::CrossEntropy { ignore_index: Some(-100), ..Default::default() }.of(x, at)
    }
    #[jit]
    fn from_the_end(x: &Tensor, at: &Tensor) -> Tensor {
        ops::wrapping::gather(x, at, 0) + x.at(at)
    }
    let x = &tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
    for jit in [false, true] {
        ms::with_context(ms::Context { jit, ..ms::context() }, || {
            let some = ignoring(x, &tensor![1, -100, 1]).item::<f32>();
            assert!((some - ops::cross_entropy(x, tensor![1, 1, 1]).item::<f32>()).abs() < 1e-6, "{some}");
            // As in PyTorch, the mean of no examples is NaN.
            assert!(ignoring(x, &tensor![-100, -100, -100]).item::<f32>().is_nan());
            assert_eq!(from_the_end(x, &tensor![-1]).to_vec::<f32>(), [10.0, 12.0]);
        });
    }
    // There are more classes than the dtype can represent.
    let wide = Tensor::arange(600.0).reshape([2, 300]);
    let of = |dtype: DType| ops::cross_entropy(&wide, ops::cast(tensor![0, 44], dtype)).item::<f32>();
    assert_eq!(of(DType::U8), of(DType::I64));
}

/// Functions with the same graph are compiled once unless an op in them can fail. Each reports its own lines.
#[test]
fn equal_functions_have_lines_of_their_own() {
    #[jit]
    fn first(x: &Tensor, at: &Tensor) -> Tensor {
        ops::gather(x * 5.0, at, 0) // first
    }
    #[jit]
    fn second(x: &Tensor, at: &Tensor) -> Tensor {
        ops::gather(x * 5.0, at, 0) // second
    }
    let source: Vec<&str> = include_str!("bad_input.rs").lines().collect();
    for (name, run) in [("first", first as fn(&Tensor, &Tensor) -> Tensor), ("second", second)] {
        for _ in 0..2 {
            let error = catch(|| run(&Tensor::ones([2]), &tensor![7])).expect_err("it does not exist");
            let line = error.report().location.expect("a line").line() as usize;
            assert!(source[line - 1].ends_with(name), "{error}");
        }
    }
}
