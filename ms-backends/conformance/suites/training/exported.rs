//! Tests exported functions: a file gives the results of the function, and other files are refused.

use ms::Code;
use ms::custom::Type;
use ms::io::{ExportOptions, ExportedFunction};
use ms::prelude::*;
use ms::tensor::AsTensor;
use ms_conformance::folder::Folder;

fn data(shape: &[usize]) -> Tensor {
    let count = shape.iter().product::<usize>();
    Tensor::from_slice(shape, &(0..count).map(|it| (it * 7 % 11) as f32 / 5.0 - 1.0).collect::<Vec<_>>())
}

/// Saves `exported` to a file, and loads the function from it.
fn read_back(exported: &ExportedFunction) -> ExportedFunction {
    static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = Folder::new(&format!("exported {number}"));
    let path = folder.0.join("function");
    exported.save(&path).unwrap_or_else(|error| panic!("{error}"));
    ExportedFunction::load(&path).unwrap_or_else(|error| panic!("{error}"))
}

/// Checks the signature, and that the results have the same bits before and after the file.
#[track_caller]
fn check(exported: ms::Result<ExportedFunction>, signature: &str, calls: &[(&[&Tensor], Vec<Tensor>)]) {
    let exported = exported.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(exported.to_string(), signature);
    let read = read_back(&exported);
    assert_eq!(read.to_string(), signature);
    for function in [&exported, &read] {
        for (inputs, wanted) in calls {
            let results = function.call(inputs).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(results.len(), wanted.len());
            for (result, wanted) in results.iter().zip(wanted) {
                assert_eq!(result.ty(), wanted.ty());
                let bits =
                    |it: &Tensor| it.cast(DType::F64).to_vec::<f64>().into_iter().map(f64::to_bits).collect::<Vec<_>>();
                assert_eq!(bits(result), bits(wanted), "{signature}");
            }
        }
    }
}

#[cell]
struct Net {
    conv: nn::Conv2d,
    norm: nn::BatchNorm,
    drop: nn::Dropout,
    head: nn::Dense,
}

#[cell]
impl Net {
    fn construct(&self, x: &Tensor) -> Tensor {
        let x = ops::relu(self.norm(&self.conv(x)));
        self.head(&self.drop(&x.mean([2, 3])))
    }
}

fn net() -> Net {
    let net = Net {
        conv: nn::Conv2d::new(2, 4, 3).padding(1),
        norm: nn::BatchNorm::new(4),
        drop: nn::Dropout::new(0.5),
        head: nn::Dense::new(4, 3),
    };
    net.norm.moving_mean.set(&data(&[4]));
    net
}

#[jit]
fn grown(x: &Tensor, limit: &Tensor) -> (Tensor, Tensor) {
    let mut x = x.clone();
    let mut steps = Tensor::scalar(0);
    while x.sum(()) < limit {
        x = if x.at(0) > 1.0 { &x + 1.0 } else { &x * 2.0 };
        steps = steps + 1;
    }
    (x, steps)
}

#[test]
fn files_compute_what_functions_compute() {
    let (x, y) = (data(&[3, 4]), data(&[4, 2]));
    let options = ExportOptions::new;
    let product = |x: &Tensor, y: &Tensor| x.matmul(y);
    let lefts = [1, 3, 8].map(|count| data(&[count, 4]));
    check(
        ms::export(product, (&x, &y), &options()),
        "(0: f32[3, 4], 1: f32[4, 2]) -> (f32[3, 2])",
        &[(&[&x, &y], vec![x.matmul(&y)])],
    );
    check(
        ms::export(product, (&x, &y), &options().input("left", ["rows", "_"])),
        "(left: f32[rows, 4], 1: f32[4, 2]) -> (f32[rows, 2])",
        &lefts
            .each_ref()
            .map(|left| ([left, &y], vec![left.matmul(&y)]))
            .each_ref()
            .map(|it| (&it.0[..], it.1.clone())),
    );
    // A captured tensor that is also an argument is a separate input, and so are two equal arguments.
    check(
        ms::export(|a: &Tensor, b: &Tensor| a * &x + b, (&x, &x), &options()),
        "(0: f32[3, 4], 1: f32[3, 4]) -> (f32[3, 4])",
        &[(&[&(&x + 1.0), &(&x * 2.0)], vec![(&x + 1.0) * &x + &x * 2.0])],
    );
    let net = net();
    net.set_train(false);
    let images = data(&[2, 2, 5, 5]);
    check(
        ms::export(|net: &Net, x: &Tensor| net.call(x), (&net, &images), &options().input("x", ["n", "_", "_", "_"])),
        "(x: f32[n, 2, 5, 5]) -> (f32[n, 3])",
        &[(&[&images], vec![net.call(&images)]), (&[&data(&[1, 2, 5, 5])], vec![net.call(&data(&[1, 2, 5, 5]))])],
    );
    let (start, limit) = (tensor![0.5, 0.25], Tensor::scalar(30.0));
    let (value, steps) = grown(&start, &limit);
    check(
        ms::export(grown, (&start, &limit), &options()),
        "(0: f32[2], 1: f32[]) -> (f32[2], i64[])",
        &[(&[&start, &limit], vec![value, steps])],
    );
    let slope = ms::grad(|x: &Tensor| ops::softmax(x, 0).square().sum(()));
    let line = data(&[5]);
    check(
        ms::export(|x: &Tensor| slope(x), (&line,), &options()),
        "(0: f32[5]) -> (f32[5])",
        &[(&[&line], vec![slope(&line)])],
    );
}

#[test]
fn gradients_flow_to_the_inputs() {
    let exported =
        ms::export(|x: &Tensor| x.square() * 3.0, (&data(&[4]),), &ExportOptions::new()).expect("it is pure");
    let read = read_back(&exported);
    let loss = |x: &Tensor| read.call(&[x]).expect("it fits")[0].sum(());
    assert_eq!(ms::grad(loss)(&tensor![1.0, 2.0, 3.0, 4.0]).to_vec::<f32>(), [6.0, 12.0, 18.0, 24.0]);
}

#[test]
fn constants_have_distinct_names() {
    let (a, b) = (Parameter::new(data(&[2]), "w"), Parameter::new(data(&[2]), "w"));
    let exported = ms::export(|w: &Tensor| w * &a.value() + &b.value(), (&data(&[2]),), &ExportOptions::new())
        .expect("it is pure");
    let names: Vec<&str> = exported.constants().map(|it| it.0).collect();
    assert_eq!(names, ["w", "w.2"]);
    check(
        Ok(exported),
        "(0: f32[2]) -> (f32[2])",
        &[(&[&tensor![1.0, 2.0]], vec![tensor![1.0, 2.0] * &a.value() + &b.value()])],
    );
}

ms::custom_op! {
    /// Returns the negative.
    fn own_negative(x: impl AsTensor) -> Tensor;

    fn types(x: &Type) -> Type {
        x.clone()
    }

    fn run(x: &[f32], y: &mut [f32]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = -x);
    }
}

#[test]
fn what_no_other_program_can_run_is_refused() {
    #[track_caller]
    fn refused<T>(result: ms::Result<T>, code: Code, words: &[&str]) {
        let error = result.err().expect("it is refused");
        let text = error.to_string();
        assert_eq!(error.code(), code, "{text}");
        words.iter().for_each(|it| assert!(text.contains(it), "`{it}` is not in {text}"));
    }
    let x = data(&[2, 2, 5, 5]);
    let net = net();
    net.set_train(true);
    refused(
        ms::export(|x: &Tensor| net.call(x), (&x,), &ExportOptions::new()),
        Code::Export,
        &["writes", "set_train(false)", file!()],
    );
    refused(
        ms::export(|x: &Tensor| own_negative(x), (&x,), &ExportOptions::new()),
        Code::Export,
        &["own_negative` is an op of this program"],
    );
    let sum = |x: &Tensor, y: &Tensor| x + y;
    let options = ExportOptions::new;
    let (two, three) = (data(&[2]), data(&[3]));
    let one = data(&[1]);
    refused(ms::export(sum, (&two, &three), &options()), Code::Shape, &["[2]", "[3]"]);
    refused(ms::export(sum, (&two, &one), &options().input("x", ["n"]).input("y", ["n"])), Code::Sizes, &["`n` is 2"]);
    refused(ms::export(sum, (&two, &two), &options().input("x", ["n", "m"])), Code::Argument, &["2 axes"]);
    refused(ms::export(sum, (&two, &two), &options().input("x", ["n n"])), Code::Argument, &["`n n`"]);
    refused(ms::export(sum, (&two, &two), &options().input("x", ["n"]).input("x", ["n"])), Code::Argument, &["two"]);
    let third = options().input("x", ["n"]).input("y", ["n"]).input("z", ["n"]);
    refused(ms::export(sum, (&two, &two), &third), Code::Argument, &["3 inputs"]);

    let sum = ms::export(sum, (&two, &two), &options().input("x", ["n"]).input("y", ["n"])).expect("it is pure");
    refused(sum.call(&[&two]), Code::Argument, &["takes 2"]);
    refused(sum.call(&[&two, &three]), Code::Shape, &["exported function", file!()]);
    refused(sum.call(&[&two, &Tensor::zeros([2, 2])]), Code::Shape, &["`y` is f32[n]", "f32[2, 2]"]);
    refused(sum.call(&[&two, &two.cast(DType::F64)]), Code::DType, &["`y` is f32[n]", "f64[2]"]);
}

/// Every truncated or changed file is refused, or is a function with the same inputs that runs.
#[test]
fn damaged_files_are_refused() {
    let folder = Folder::new("damaged functions");
    let (w, x) = (data(&[4, 3]), data(&[2, 4]));
    let body = |x: &Tensor| ops::softmax(x.matmul(&w), -1);
    let exported = ms::export(body, (&x,), &ExportOptions::new().input("x", ["n", "_"])).expect("it is pure");
    let path = folder.0.join("function");
    exported.save(&path).expect("the folder is writable");
    let whole = std::fs::read(&path).expect("it was written");
    let load = |bytes: &[u8]| ExportedFunction::load(folder.file("damaged", bytes));
    let refused = |bytes: &[u8], word: &str| {
        let error = load(bytes).expect_err("it is damaged");
        assert_eq!(error.code(), Code::Io, "{error}");
        assert!(error.to_string().contains(word), "`{word}` is not in {error}");
    };
    for length in 0..whole.len() {
        refused(&whole[..length], "damaged");
    }
    let replaced = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len());
        let at = whole.windows(from.len()).position(|it| it == from.as_bytes()).expect(from);
        let mut bytes = whole.clone();
        bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
        bytes
    };
    refused(&replaced("\"ms.exported\":\"1\"", "\"ms.exported\":\"2\""), "form 2");
    refused(&replaced("\"ms.exported\"", "\"ms.Exported\""), "without a function");
    refused(&replaced("\"ms.inputs\":\"1\"", "\"ms.inputs\":\"2\""), "no input of its graph");
    refused(&replaced("\"ms.inputs\":\"1\"", "\"ms.inputs\":\"9\""), "9 arguments");
    refused(&replaced("\"ms.inputs\":\"1\"", "\"ms.inputs\":\"0\""), "has no value");
    refused(&replaced("graph @", "graph $"), "line 1");
    refused(&replaced("matmul", "matmil"), "matmil");
    refused(&replaced("f32[4, 3]", "f32[3, 4]"), "f32[3, 4]");
    let weights = ms::StateDict::from_iter([("w".to_owned(), w.clone())]);
    weights.write(&path).expect("the folder is writable");
    refused(&std::fs::read(&path).expect("it was written"), "without a function");

    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let mut accepted = 0;
    for _ in 0..2000 {
        let mut bytes = whole.clone();
        let at = random(bytes.len());
        bytes[at] ^= 1 << random(8);
        if let Ok(function) = load(&bytes) {
            accepted += 1;
            let _ = function.call(&[&x]);
        }
    }
    assert!((1..1500).contains(&accepted), "{accepted} changed files are accepted");
}

/// An integer attribute is never taken for a symbolic size, although some of these bit patterns were handles of
/// expressions.
#[test]
fn integers_of_all_bits_are_read_back() {
    let x = tensor![i64::MAX, i64::MAX];
    for start in [0, 1, 2, 3, 7, 1 << 20, 1 << 33].map(|it| i64::MIN + it) {
        let shifted = move |x: &Tensor| x + ops::arange_of(start, start + 4096, 2048, DType::I64);
        let options = ExportOptions::new().input("x", ["_"]);
        let wanted = tensor![start - i64::MIN - 1, start - i64::MIN + 2047];
        let exported = ms::export(shifted, (&x,), &options);
        check(exported, "(x: i64[2]) -> (i64[2])", &[(&[&x], vec![wanted])]);
    }
}
