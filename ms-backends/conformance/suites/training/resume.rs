//! Tests that training which is killed continues from its checkpoint to the same bits.
//!
//! The process is killed at any step, or while it writes.

use ms::data::{Batched, RandomSampler, Sampled};
use ms::optim::{Accumulated, Averaged, Clipped, Scheduled};
use ms::prelude::*;
use ms::{load_checkpoint, save_checkpoint};
use ms_conformance::folder::Folder;
use ms_conformance::process_of;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// The environment variable that passes arguments to [`the_program_of_a_process`]: the checkpoint, the number of steps,
/// and the step that aborts.
const PROGRAM: &str = "MS_TEST_TRAINING";

fn net() -> nn::Sequential {
    nn::sequential![
        nn::Dense::new(3, 16),
        nn::BatchNorm::new(16),
        nn::ReLU,
        nn::Dropout::new(0.3),
        nn::Dense::new(16, 2)
    ]
}

type Opt = Averaged<Scheduled<Accumulated<Clipped<ParameterGroups>>, WarmUp<CosineDecay>>>;

type Shuffled = Sampled<TensorDataset<(Tensor, Tensor)>, RandomSampler>;

/// The state that a run continues from.
struct Run {
    net: nn::Sequential,
    opt: Opt,
    loader: DataLoader<Batched<Shuffled>>,
    step: Counter,
}

impl Run {
    fn new() -> Self {
        random::set_seed(11);
        let inputs = random::uniform([50, 3], -1.0, 1.0);
        let targets = inputs.i((.., 0..2)).square();
        let data = TensorDataset::new((inputs, targets));
        let net = net();
        let vectors: Vec<Parameter> = net.parameters().into_iter().filter(|it| it.load().shape().len() == 1).collect();
        let groups = ParameterGroups::new(Adam::new(0.01).amsgrad(true).decoupled_weight_decay(0.1));
        let groups = groups.group(&vectors, SGD::new(0.05).momentum(0.9).dampening(0.5));
        let opt = groups.clip_by_global_norm(0.5).accumulate(2);
        let opt = opt.schedule(WarmUp::new(4).then(CosineDecay::new(30))).average(0.9);
        Self { net, opt, loader: DataLoader::new(data.shuffle().batch(8)).workers(2), step: Counter::new(0) }
    }

    fn save(&self, path: &Path) {
        let Self { net, opt, loader, step, .. } = self;
        let state = (net, opt, loader, step, random::default_generator());
        save_checkpoint(path, state).expect("the folder is writable");
    }

    /// Returns a run that continues from a checkpoint, if there is one.
    fn resumed(path: &Path) -> Self {
        let run = Self::new();
        let Self { net, opt, loader, step, .. } = &run;
        if path.exists() {
            // The process that wrote the checkpoint had drawn other numbers.
            random::set_seed(99);
            let state = (net, opt, loader, step, random::default_generator());
            load_checkpoint(path, state).expect("it is a whole one of the same program");
        }
        run
    }

    /// Trains up to a step, and saves after each step that `saves` selects.
    fn train(&self, steps: u64, path: &Path, saves: impl Fn(u64) -> bool, before: impl Fn(u64)) {
        while self.step.get() < steps {
            before(self.step.get());
            let batch = self.loader.draw().expect("the data is in memory");
            self.opt.step(&self.net, &batch, |net, (x, y)| ops::mse_loss(&net.call(x), y));
            self.step.add(1);
            if saves(self.step.get()) {
                self.save(path);
            }
        }
    }
}

fn bits(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("there is a checkpoint")
}

/// Runs the program that the tests below start and kill. It does nothing in an ordinary test run.
#[test]
fn the_program_of_a_process() {
    let Ok(arguments) = std::env::var(PROGRAM) else { return };
    let parts: Vec<&str> = arguments.split('|').collect();
    let [path, steps, aborts] = parts[..] else { panic!("three arguments, not {arguments}") };
    let number = |it: &str| it.parse::<u64>().expect("a number");
    let (path, steps, aborts) = (Path::new(path), number(steps), number(aborts));
    let abort = |step| {
        if step == aborts {
            std::process::abort();
        }
    };
    Run::resumed(path).train(steps, path, |step| step % 3 == 0 || step == steps, abort);
}

fn program(path: &Path, steps: u64, aborts: u64) -> Command {
    let mut command = process_of(concat!(module_path!(), "::the_program_of_a_process"));
    command.arg("--test-threads=1").env(PROGRAM, format!("{}|{steps}|{aborts}", path.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn run(path: &Path, steps: u64, aborts: u64) -> ExitStatus {
    program(path, steps, aborts).status().expect("the test can be started again")
}

const STEPS: u64 = 20;
const NEVER: u64 = u64::MAX;

#[test]
fn a_run_that_is_killed_at_any_step_ends_with_the_same_bits() {
    let folder = Folder::new("steps");
    let whole = folder.0.join("whole");
    assert!(run(&whole, STEPS, NEVER).success());
    // The process is killed at one step, at several in turn, in the first epoch and in the third. An epoch of 50
    // examples has seven batches.
    for (at, kills) in [vec![1], vec![3, 4, 5], vec![8], vec![7, 14, 19]].into_iter().enumerate() {
        let path = folder.0.join(format!("killed {at}"));
        for kill in &kills {
            assert!(!run(&path, STEPS, *kill).success(), "the process aborts at step {kill}");
        }
        assert!(run(&path, STEPS, NEVER).success());
        assert!(bits(&path) == bits(&whole), "killed at {kills:?}");
    }
}

#[test]
fn a_resumed_run_is_the_same_eagerly() {
    let folder = Folder::new("eagerly");
    let (whole, parts) = (folder.0.join("whole"), folder.0.join("parts"));
    ms::with_context(Context { jit: false, ..ms::context() }, || {
        Run::new().train(9, &whole, |step| step == 9, |_| ());
        Run::new().train(4, &parts, |step| step == 4, |_| ());
        Run::resumed(&parts).train(9, &parts, |step| step == 9, |_| ());
    });
    assert!(bits(&whole) == bits(&parts));
}

/// A process that is killed at any time leaves a whole checkpoint, even while it writes. A run continues from it to the
/// same bits.
#[test]
fn a_crash_while_writing_keeps_a_whole_checkpoint() {
    let folder = Folder::new("writing");
    let (path, whole) = (folder.0.join("killed"), folder.0.join("whole"));
    let mut written = 0;
    for round in 0..12u64 {
        let mut process = program(&path, 100_000, NEVER).spawn().expect("the test can be started again");
        // The process trains and writes for a while. Each round kills it at another point.
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        let before = std::fs::metadata(&path).and_then(|it| it.modified()).ok();
        let is_written = || std::fs::metadata(&path).and_then(|it| it.modified()).ok() != before;
        while !is_written() && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(700 * round));
        process.kill().expect("it runs");
        process.wait().expect("it was started");
        let resumed = Run::resumed(&path);
        assert!(resumed.step.get() > written, "the process went on and saved");
        written = resumed.step.get();
    }
    Run::resumed(&path).train(written + 5, &path, |step| step == written + 5, |_| ());
    Run::new().train(written + 5, &whole, |step| step == written + 5, |_| ());
    assert!(bits(&path) == bits(&whole), "after {written} steps");
}
