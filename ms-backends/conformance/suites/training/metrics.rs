//! Compares metrics with scikit-learn and NLTK (`data/metrics.py`), and tests their refusals.

use ms::Code;
use ms::prelude::*;
use ms::train::{
    Accuracy, Auc, Average, BleuScore, ConfusionMatrix, F1, MAE, MSE, Metric, Perplexity, Precision, Recall,
    TopKCategoricalAccuracy,
};
use ms_conformance::serde_json::{self, Value};

fn oracle() -> Value {
    serde_json::from_str(include_str!("data/metrics.json")).expect("JSON")
}

/// Returns the numbers of a nested list.
fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(all) => all.iter().flat_map(flat).collect(),
        number => vec![number.as_f64().expect("a number")],
    }
}

/// Returns a tensor of a list of lists.
fn tensor(value: &Value) -> Tensor {
    let all = flat(value);
    let rows = value.as_array().expect("a list").len();
    match value[0].is_array() {
        true => Tensor::from_slice([rows, all.len() / rows], &all),
        false => Tensor::from_slice([rows], &all),
    }
}

fn integers(value: &Value) -> Tensor {
    tensor(value).cast(DType::I64)
}

#[track_caller]
fn near(name: &str, got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-12 * want.abs().max(1.0), "{name}: {got}, not {want}");
}

/// Checks the metric of all samples at once, in batches of 7, and after it was cleared.
#[track_caller]
fn check(mut metric: impl Metric, predictions: &Tensor, targets: &Tensor, want: f64) {
    let name = metric.name();
    metric.update(predictions, targets).expect("they fit");
    near(&name, metric.eval().expect("there are samples"), want);
    metric.clear();
    assert_eq!(metric.eval().expect_err("there are no samples").code(), Code::Argument, "{name}");
    let rows = targets.shape()[0];
    for from in (0..rows).step_by(7) {
        let to = rows.min(from + 7);
        metric.update(&predictions.i(from..to), &targets.i(from..to)).expect("they fit");
    }
    near(&name, metric.eval().expect("there are samples"), want);
}

#[test]
fn classification_follows_scikit_learn() {
    let oracle = oracle();
    let (scores, targets) = (tensor(&oracle["scores"]), integers(&oracle["targets"]));
    let number = |name: &str| oracle[name].as_f64().expect(name);
    check(Accuracy::new(), &scores, &targets, number("accuracy"));
    for k in [1, 2, 5] {
        check(TopKCategoricalAccuracy::new(k), &scores, &targets, number(&format!("top_{k}_accuracy")));
    }
    check(Perplexity::new(), &scores, &targets, number("perplexity"));
    for (name, average) in [("macro", Average::Macro), ("micro", Average::Micro), ("weighted", Average::Weighted)] {
        check(Precision::new(5).average(average), &scores, &targets, number(&format!("precision {name}")));
        check(Recall::new(5).average(average), &scores, &targets, number(&format!("recall {name}")));
        check(F1::new(5).average(average), &scores, &targets, number(&format!("f1 {name}")));
    }
    let (mut precision, mut recall, mut f1) = (Precision::new(5), Recall::new(5), F1::new(5));
    let all: [&mut dyn Metric; 3] = [&mut precision, &mut recall, &mut f1];
    all.into_iter().for_each(|it| it.update(&scores, &targets).expect("they fit"));
    for (name, got) in [("precision", precision.per_class()), ("recall", recall.per_class()), ("f1", f1.per_class())] {
        let want = flat(&oracle[format!("{name} None")]);
        assert_eq!(got.len(), want.len());
        got.iter().zip(&want).for_each(|(got, want)| near(name, *got, *want));
    }
    // The predictions may be classes instead of scores, of any integer dtype.
    let want: Vec<i64> = flat(&oracle["confusion"]).iter().map(|it| *it as i64).collect();
    for predicted in [scores.clone(), scores.argmax(-1), scores.argmax(-1).cast(DType::U8)] {
        let mut matrix = ConfusionMatrix::new(5);
        matrix.update(&predicted, &targets).expect("they fit");
        assert_eq!((matrix.counts().shape(), matrix.counts().to_vec::<i64>()), (&[5, 5][..], want.clone()));
    }
}

#[test]
fn numbers_follow_scikit_learn() {
    let oracle = oracle();
    let number = |name: &str| oracle[name].as_f64().expect(name);
    check(Auc::new(), &tensor(&oracle["single"]), &integers(&oracle["binary"]), number("auc"));
    let (numbers, wanted) = (tensor(&oracle["numbers"]), tensor(&oracle["wanted"]));
    check(MAE::new(), &numbers, &wanted, number("mae"));
    check(MSE::new(), &numbers, &wanted, number("mse"));
}

#[test]
fn texts_follow_nltk() {
    let oracle = oracle();
    let words = |text: &Value| -> Vec<String> {
        let words = text.as_array().expect("words").iter();
        words.map(|it| it.as_str().expect("a word").to_owned()).collect()
    };
    for longest in [1, 2, 4] {
        for (smooth, name) in [(false, ""), (true, " smooth")] {
            let mut bleu = BleuScore::new(longest).smooth(smooth);
            for text in oracle["texts"].as_array().expect("texts") {
                let references: Vec<_> = text[1].as_array().expect("texts").iter().map(words).collect();
                bleu.update(&words(&text[0]), &references).expect("there are references");
            }
            let name = format!("bleu {longest}{name}");
            near(&name, bleu.eval().expect("there are texts"), oracle[&name].as_f64().expect("a number"));
            bleu.clear();
            assert_eq!(bleu.eval().expect_err("there are none").code(), Code::Argument);
        }
    }
    let mut bleu = BleuScore::new(4);
    assert_eq!(bleu.update(&[1, 2], &[]).expect_err("there is no reference").code(), Code::Argument);
    bleu.update(&[1, 2], &[vec![1, 2]]).expect("tokens are of any type");
    assert_eq!(bleu.eval().expect("there are tokens"), 0.0, "there are no sequences of four");
}

#[test]
fn special_cases() {
    // Among equal scores, the lowest class comes first.
    let (scores, targets) = (Tensor::zeros([3, 3]), tensor![0, 1, 2]);
    check(Accuracy::new(), &scores, &targets, 1.0 / 3.0);
    check(TopKCategoricalAccuracy::new(2), &scores, &targets, 2.0 / 3.0);
    // NaN is not the right answer, and takes no place from the other classes.
    let scores = tensor![[f32::NAN, 0.0], [0.0, f32::NAN], [1.0, 0.0]];
    check(Accuracy::new(), &scores, &tensor![1, 0, 0], 1.0 / 3.0);
    check(TopKCategoricalAccuracy::new(1), &scores, &tensor![1, 0, 0], 1.0 / 3.0);
    // The cases are sequences, padding, and scores without bounds.
    let logits = Tensor::zeros([2, 3, 4]);
    check(Perplexity::new(), &logits, &tensor![[0, 1, 2], [3, 0, 1]], 4.0);
    check(Perplexity::new().ignore(-1), &logits, &tensor![[0, 1, -1], [-1, -1, 1]], 4.0);
    check(Perplexity::new(), &(logits + 1e30), &tensor![[0, 1, 2], [3, 0, 1]], 4.0);
    // The areas belong to equal scores, to a perfect order, and to the opposite order.
    for (scores, want) in [([0.5, 0.5, 0.5, 0.5], 0.5), ([1.0, 2.0, 3.0, 4.0], 1.0), ([4.0, 3.0, 2.0, 1.0], 0.0)] {
        check(Auc::new(), &Tensor::from(scores), &tensor![0, 0, 1, 1], want);
    }
    assert_eq!(Precision::new(2).per_class(), [0.0, 0.0]);
}

/// A metric with predictions and targets that it refuses, and the code.
type Refused = (&'static str, Box<dyn Metric>, Tensor, Tensor, Code);

#[test]
fn what_does_not_fit_is_refused() {
    let scores = || Tensor::zeros([2, 3]);
    let cases: Vec<Refused> = vec![
        ("other rows", Box::new(Accuracy::new()), scores(), tensor![0, 1, 2], Code::Shape),
        ("no classes", Box::new(Accuracy::new()), Tensor::zeros([2, 0]), tensor![0, 0], Code::Shape),
        ("a scalar", Box::new(Accuracy::new()), Tensor::scalar(1.0), Tensor::scalar(1), Code::Shape),
        ("targets of floats", Box::new(Accuracy::new()), scores(), tensor![0.0, 1.0], Code::DType),
        ("predictions of integers", Box::new(Accuracy::new()), scores().cast(DType::I32), tensor![0, 1], Code::DType),
        ("a class too many", Box::new(Accuracy::new()), scores(), tensor![0, 3], Code::OutOfRange),
        ("a negative class", Box::new(Perplexity::new()), scores(), tensor![0, -1], Code::OutOfRange),
        ("another number of classes", Box::new(F1::new(2)), scores(), tensor![0, 1], Code::Shape),
        ("a class predicted too many", Box::new(Recall::new(2)), tensor![0, 2], tensor![0, 1], Code::OutOfRange),
        ("classes of other rows", Box::new(Precision::new(2)), tensor![0, 1, 1], tensor![0, 1], Code::Shape),
        ("a third class", Box::new(Auc::new()), tensor![0.0, 1.0], tensor![0, 2], Code::OutOfRange),
        ("a score without a place", Box::new(Auc::new()), tensor![0.0, f32::NAN], tensor![0, 1], Code::Argument),
        ("other numbers", Box::new(MAE::new()), scores(), tensor![0.0, 1.0], Code::Shape),
        ("other shapes", Box::new(MSE::new()), Tensor::zeros([2, 1]), Tensor::zeros([2]), Code::Shape),
    ];
    for (name, mut metric, predictions, targets, code) in cases {
        let error = metric.update(&predictions, &targets).expect_err(name);
        assert_eq!(error.code(), code, "{name}: {error}");
        assert_eq!(metric.eval().expect_err("nothing was added").code(), Code::Argument, "{name}");
    }
    let mut auc = Auc::new();
    auc.update(&tensor![0.5, 0.7], &tensor![1, 1]).expect("they fit");
    assert_eq!(auc.eval().expect_err("there is one class").code(), Code::Argument);
    let zero: [fn() -> String; 3] =
        [|| TopKCategoricalAccuracy::new(0).name(), || F1::new(0).name(), || format!("{:?}", BleuScore::new(0))];
    assert!(zero.into_iter().all(|it| ms::catch(it).is_err_and(|it| it.code() == Code::Argument)));
}
