//! Tests models: runs with callbacks, evaluation, several steps per call, and resumed runs.

use ms::Code;
use ms::prelude::*;
use ms::train::{
    Accuracy, Callback, EarlyStopping, Goal, History, LambdaCallback, LearningRateScheduler, LossMonitor, MAE,
    ModelCheckpoint, ProgressMonitor, RunContext, SummaryCollector, TimeMonitor,
};
use ms::{context, load_checkpoint, save_checkpoint, with_context};
use ms_conformance::folder::Folder;
use std::cell::RefCell;

/// Returns points, and whether the sum of their numbers is positive.
fn points(rows: usize) -> TensorDataset<(Tensor, Tensor)> {
    random::set_seed(5);
    let x = random::uniform([rows, 3], -1.0, 1.0);
    let class = x.sum(-1).gt(0.0).cast(DType::I64);
    TensorDataset::new((x, class))
}

fn net() -> nn::Sequential {
    random::set_seed(7);
    nn::sequential![nn::Dense::new(3, 8), nn::BatchNorm::new(8), nn::ReLU, nn::Dropout::new(0.2), nn::Dense::new(8, 2)]
}

fn loss(x: &Tensor, y: &Tensor) -> Tensor {
    ops::cross_entropy(x, y)
}

/// Creates a model with a loss that is a function or a closure without captures.
macro_rules! model {
    () => {
        Model::new(net(), |x, y| loss(x, y), Adam::new(0.02))
    };
}

fn parameters(net: &impl Cell) -> Vec<f32> {
    net.parameters()
        .iter()
        .filter(|it| it.load().dtype() == DType::F32)
        .flat_map(|it| it.load().to_vec::<f32>())
        .collect()
}

#[test]
fn a_model_does_what_a_loop_does() {
    with_context(Context { precision: Precision::Strict, ..context() }, || {
        let loader = || DataLoader::new(points(50).shuffle().batch(16)).seed(3);
        let (network, opt, data) = (net(), Adam::new(0.02), loader());
        let mut want = Vec::new();
        for _ in 0..3 {
            let mut losses = Vec::new();
            for batch in &data {
                let batch = batch.expect("in memory");
                let step = |net: &nn::Sequential, (x, y): &(Tensor, Tensor)| loss(&net.call(x), y);
                losses.push(opt.step(&network, &batch, step).item::<f32>() as f64);
            }
            want.push(losses.iter().sum::<f64>() / losses.len() as f64);
        }
        for sink_size in [1, 2, 3, 100] {
            let (mut model, mut history) = (model!().sink_size(sink_size), History::new());
            model.train(3, &loader(), &mut [&mut history]).expect("in memory");
            let got: Vec<f64> = history.epochs().iter().map(|it| it.loss).collect();
            assert_eq!(got, want, "{sink_size} steps per call");
            assert_eq!(parameters(model.network()), parameters(&network), "{sink_size} steps per call");
        }
    });
}

#[test]
fn evaluation_is_that_of_all_samples() {
    let mut model = model!().metric(Accuracy::new()).metric(Accuracy::new());
    let train = DataLoader::new(points(64).shuffle().batch(16)).seed(1);
    model.train(15, &train, &mut []).expect("in memory");
    let data = points(50);
    let (x, y) = DataLoader::new(data.clone().batch(50)).draw().expect("in memory");
    let predictions = model.predict(&x);
    let want: f32 = accuracy(&predictions, &y).item();
    assert!(want > 0.85, "{want}");
    let want_loss = ops::cross_entropy(&predictions, &y).item::<f32>() as f64;
    let before = parameters(model.network());
    for size in [50, 16, 7] {
        let scores = model.eval(&DataLoader::new(data.clone().batch(size))).expect("in memory");
        assert_eq!(scores.keys().collect::<Vec<_>>(), ["accuracy", "loss"]);
        assert!((scores["accuracy"] - want as f64).abs() < 1e-6 && (scores["loss"] - want_loss).abs() < 1e-5);
    }
    assert_eq!(parameters(model.network()), before, "evaluation changes no statistics");
    let empty = DataLoader::new(points(1).take(0).batch(2));
    assert_eq!(model.eval(&empty).expect_err("no samples").code(), Code::Argument);
    assert_eq!(model.train(1, &empty, &mut []).expect_err("no samples").code(), Code::Argument);
    // A metric that does not fit is an error, not a panic.
    let mut wrong = model!().metric(MAE::new());
    assert_eq!(wrong.eval(&DataLoader::new(data.batch(9))).expect_err("other shapes").code(), Code::Shape);
}

/// Records the calls of callbacks in order.
#[derive(Default)]
struct Calls(Vec<String>);

impl Callback for Calls {
    fn on_train_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.0.push(format!("begin {} of {}", run.epoch(), run.epochs()));
        Ok(())
    }

    fn on_epoch_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.0.push(format!("epoch {}", run.epoch()));
        assert!(run.loss().is_err() && run.number("loss").is_err());
        Ok(())
    }

    fn on_step_begin(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.0.push(format!("from {}", run.step()));
        Ok(())
    }

    fn on_step_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.0.push(format!("to {}", run.step()));
        assert!(run.loss()?.is_finite() && run.steps_per_epoch() == 3);
        Ok(())
    }

    fn on_epoch_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.0.push(format!("epoch {} ends with {} scores", run.epoch(), run.scores().len()));
        assert!(run.number("val_loss")? == run.scores()["loss"] && run.number("x").is_err());
        Ok(())
    }

    fn on_train_end(&mut self, run: &mut RunContext<'_>) -> Result<()> {
        self.0.push(format!("end at {}", run.step()));
        Ok(())
    }
}

#[test]
fn callbacks_are_called_in_order() {
    let run = |sink_size: usize| {
        let data = DataLoader::new(points(6).batch(2));
        let mut calls = Calls::default();
        let test = DataLoader::new(points(4).batch(4));
        model!().sink_size(sink_size).fit(2, &data, &test, &mut [&mut calls]).expect("in memory");
        calls.0.join(", ")
    };
    assert_eq!(
        run(1),
        "begin 1 of 2, epoch 1, from 0, to 1, from 1, to 2, from 2, to 3, epoch 1 ends with 1 scores, \
         epoch 2, from 3, to 4, from 4, to 5, from 5, to 6, epoch 2 ends with 1 scores, end at 6"
    );
    assert_eq!(
        run(2),
        "begin 1 of 2, epoch 1, from 0, to 2, from 2, to 3, epoch 1 ends with 1 scores, \
         epoch 2, from 3, to 5, from 5, to 6, epoch 2 ends with 1 scores, end at 6"
    );
}

#[test]
fn a_run_stops_and_goes_on() {
    let folder = Folder::new("stops");
    let loader = || DataLoader::new(points(50).shuffle().batch(8)).seed(2);
    let (mut whole, data) = (model!(), loader());
    whole.train(4, &data, &mut []).expect("in memory");
    let whole_path = folder.0.join("whole");
    save_checkpoint(&whole_path, (whole.state(&data), random::default_generator())).expect("writable");
    // The run stops in the middle of the second epoch, and starts again from its state.
    let path = folder.0.join("stopped");
    let (mut first, data) = (model!(), loader());
    let mut stop = LambdaCallback::new().on_step_end(|run| {
        if run.step() == 10 {
            run.stop();
        }
        Ok(())
    });
    first.train(4, &data, &mut [&mut stop]).expect("in memory");
    assert_eq!((data.epoch(), data.position()), (1, 3));
    save_checkpoint(&path, (first.state(&data), random::default_generator())).expect("writable");
    let (mut second, data) = (model!(), DataLoader::new(points(50).shuffle().batch(8)));
    random::set_seed(99);
    load_checkpoint(&path, (second.state(&data), random::default_generator())).expect("the same program");
    let mut calls = Vec::new();
    let mut note = LambdaCallback::new().on_epoch_begin(|run| {
        calls.push((run.epoch(), run.step()));
        Ok(())
    });
    second.train(4, &data, &mut [&mut note]).expect("in memory");
    drop(note);
    assert_eq!(calls, [(2, 10), (3, 14), (4, 21)]);
    save_checkpoint(&path, (second.state(&data), random::default_generator())).expect("writable");
    let bits = |it| std::fs::read(it).expect("it was written");
    assert!(bits(&path) == bits(&whole_path), "a run that was stopped ends with the same bits");
}

#[test]
fn checkpoints_of_a_run() {
    let folder = Folder::new("checkpoints");
    let names = || {
        let entries = std::fs::read_dir(&folder.0).expect("a folder");
        let mut names: Vec<_> =
            entries.map(|it| it.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let data = DataLoader::new(points(6).batch(2));
    let mut checkpoint = ModelCheckpoint::new(&folder.0, "a").keep(2);
    model!().train(4, &data, &mut [&mut checkpoint]).expect("writable");
    assert_eq!(names(), ["a-3_9.safetensors", "a-4_12.safetensors"]);
    assert!(checkpoint.last().is_some_and(|it| it.ends_with("a-4_12.safetensors")));
    let data = DataLoader::new(points(6).batch(2));
    let mut checkpoint = ModelCheckpoint::new(&folder.0, "b").every_steps(2);
    model!().train(2, &data, &mut [&mut checkpoint]).expect("writable");
    assert_eq!(names()[2..], ["b-1_2.safetensors", "b-2_4.safetensors", "b-2_6.safetensors"]);
    // A checkpoint that cannot be written ends the run.
    let blocked = folder.0.join("a-3_9.safetensors");
    let data = DataLoader::new(points(6).batch(2));
    let error = model!().train(2, &data, &mut [&mut ModelCheckpoint::new(&blocked, "c")]).expect_err("a file");
    assert_eq!((error.code(), data.epoch()), (Code::Io, 1));
}

#[test]
fn early_stopping_by_a_number() {
    let numbers = RefCell::new(Vec::new());
    /// Sets the network's bias, which determines `val_loss`.
    fn given(run: &mut RunContext<'_>, number: f64) {
        let state = run.network().state_dict();
        let name = state.names().next().expect("a slot").to_owned();
        let like = state.get(&name).expect("it is listed").clone();
        let mut state = state;
        state.insert(name, Tensor::full(like.shape(), number as f32));
        run.network().load_state_dict(&state, &LoadOptions::new()).expect("the same names");
    }
    // For an input of zero, `loss` is the network's bias.
    let run = |goal: Goal, patience: u64, delta: f64, values: &[f64]| {
        let data = DataLoader::new(TensorDataset::new((Tensor::zeros([1, 1]), Tensor::zeros([1, 1]))).batch(1));
        let net = nn::Dense::new(1, 1);
        let mut model = Model::new(net, |x, _| x.sum(()), SGD::new(0.0));
        let mut set = LambdaCallback::new().on_epoch_begin(|run| {
            let at = run.epoch() as usize - 1;
            given(run, values[at]);
            numbers.borrow_mut().push(at);
            Ok(())
        });
        let mut stopping = EarlyStopping::new("loss", goal, patience).min_delta(delta).restore_best(true);
        model.train(values.len() as u64, &data, &mut [&mut set, &mut stopping]).expect("in memory");
        let bias = model.predict(&Tensor::zeros([1, 1])).item::<f32>();
        (data.epoch(), stopping.best().expect("an epoch").0, bias)
    };
    let values = [3.0, 2.0, 2.5, 1.9, 2.0, 2.0, 2.0, 1.0];
    assert_eq!(run(Goal::Min, 0, 0.0, &values), (3, 2, 2.0));
    assert_eq!(run(Goal::Min, 1, 0.0, &values), (6, 4, 1.9));
    assert_eq!(run(Goal::Min, 1, 0.5, &values), (4, 2, 2.0));
    assert_eq!(run(Goal::Min, 3, 0.0, &values), (8, 8, 1.0));
    assert_eq!(run(Goal::Max, 1, 0.0, &values), (3, 1, 3.0));
}

#[test]
fn rates_and_what_is_printed() {
    let folder = Folder::new("summary");
    let data = DataLoader::new(points(6).batch(2));
    let test = DataLoader::new(points(4).batch(4));
    let mut model = model!().metric(Accuracy::new());
    let mut rates = LearningRateScheduler::new(|_, step| 0.5 / (step + 1) as f64);
    let mut summary = SummaryCollector::new(&folder.0).every_steps(2);
    let (mut loss, mut time, mut progress) = (LossMonitor::new(2), TimeMonitor::new(), ProgressMonitor::new());
    let all: &mut [&mut dyn Callback] = &mut [&mut rates, &mut summary, &mut loss, &mut time, &mut progress];
    model.fit(2, &data, &test, all).expect("writable");
    assert_eq!(model.optimizer().learning_rates()[0].get(), 0.5 / 6.0);
    let file = std::fs::read(summary.path().expect("a run began")).expect("it was written");
    let count = |tag: &str| file.windows(tag.len()).filter(|it| *it == tag.as_bytes()).count();
    assert_eq!(["learning_rate", "epoch_loss", "val_accuracy", "val_loss"].map(count), [3, 2, 2, 2]);
    let mut bad = LearningRateScheduler::new(|_, _| f64::NAN);
    let error = model.train(3, &data, &mut [&mut bad]).expect_err("no rate");
    assert_eq!(error.code(), Code::Argument);
}

#[test]
fn an_error_of_the_data_ends_a_run() {
    let fails = points(6).try_map(|(x, y)| match y.item::<i64>() {
        _ if x.to_vec::<f32>()[0] > 2.0 => Ok((x, y)),
        _ => Err(Error::new(Code::Argument, "it cannot be decoded")),
    });
    let error = model!().train(1, &DataLoader::new(fails.batch(2)), &mut []).expect_err("every sample fails");
    assert!(error.to_string().contains("it cannot be decoded") && error.to_string().contains("sample 0"), "{error}");
    let mut shapes = Model::new(nn::Dense::new(4, 1), |x, y| ops::mse_loss(x, y), SGD::new(0.1));
    let data = DataLoader::new(points(6).batch(2));
    assert!(shapes.train(1, &data, &mut []).is_err(), "a step that fails is an error, not a panic");
}
