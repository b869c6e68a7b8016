//! Trains, evaluates and applies a network.

use super::callback::{Callback, RunContext, Scores, Slots};
use super::metrics::{Mean, Metric};
use crate::data::{DataLoader, Dataset};
use crate::optim::Optimizer;
use ms_core::error::OrRaise;
use ms_core::ops::rules::check_positive;
use ms_core::trace::{Apply, Cell, Tree, leaves};
use ms_core::{Code, DType, Error, Result, Tensor, ops};
use ms_macros::jit;

/// A network with a loss, an optimiser and metrics, which trains on a [`DataLoader`]. Its samples are pairs of a
/// network input and a target.
///
/// ```
/// use ms::prelude::*;
/// use ms::train::{Accuracy, History};
/// random::set_seed(1);
/// let x = random::uniform([64, 2], -1.0, 1.0);
/// let class = x.sum(-1).gt(0.0).cast(DType::I64);
/// let data = TensorDataset::new((x, class));
/// let (train, test) = (data.clone().take(48), data.skip(48));
/// let (train, test) = (DataLoader::new(train.shuffle().batch(16)), DataLoader::new(test.batch(16)));
///
/// let net = nn::sequential![nn::Dense::new(2, 16), nn::ReLU, nn::Dense::new(16, 2)];
/// let mut model = Model::new(net, |x, y| ops::cross_entropy(x, y), Adam::new(0.03)).metric(Accuracy::new());
/// let mut history = History::new();
/// model.fit(20, &train, &test, &mut [&mut history])?;
/// assert!(history.epochs()[19].scores["accuracy"] > 0.8);
/// assert_eq!(model.eval(&test)?["loss"], history.epochs()[19].scores["loss"]);
/// assert_eq!(model.predict(&tensor![[0.5, 0.5], [-0.5, -0.25]]).argmax(-1).to_vec::<i64>(), [1, 0]);
/// # Ok::<(), ms::Error>(())
/// ```
pub struct Model<N, O, L> {
    network: N,
    loss: L,
    optimizer: O,
    metrics: Vec<Box<dyn Metric>>,
    sink_size: usize,
}

impl<N, O, L> Model<N, O, L>
where
    N: Cell + 'static,
    O: Optimizer,
    L: Fn(&Tensor, &Tensor) -> Tensor + Copy,
{
    /// Creates a model from a network, a loss as a function of predictions and targets, and an optimiser. The loss
    /// captures nothing (checked at compile time).
    pub fn new(network: N, loss: L, optimizer: O) -> Self {
        const { assert!(size_of::<L>() == 0, "the loss captures a value") }
        Self { network, loss, optimizer, metrics: Vec::new(), sink_size: 1 }
    }

    /// Adds an evaluation metric. It replaces one of the same name.
    pub fn metric(mut self, metric: impl Metric + 'static) -> Self {
        self.metrics.retain(|it| it.name() != metric.name());
        self.metrics.push(Box::new(metric));
        self
    }

    /// Sets how many steps a call of the compiled training step runs, like MindSpore's `dataset_sink_mode` with a
    /// `sink_size`. The batches of these steps are inputs of one loop. A batch with a new shape, such as a smaller last
    /// batch, begins a new call.
    ///
    /// # Panics
    /// Raises [`Code::Argument`] for zero.
    #[track_caller]
    pub fn sink_size(self, steps: usize) -> Self {
        check_positive("Model", "sink_size", steps).or_raise();
        Self { sink_size: steps, ..self }
    }

    /// Returns the network.
    pub fn network(&self) -> &N {
        &self.network
    }

    /// Returns the optimiser.
    pub fn optimizer(&self) -> &O {
        &self.optimizer
    }

    /// Returns everything that a run continues from, for [`save_checkpoint`](crate::save_checkpoint) and
    /// [`load_checkpoint`](crate::load_checkpoint).
    pub fn state<'a, D: Dataset>(&'a self, loader: &'a DataLoader<D>) -> (&'a N, &'a O, &'a DataLoader<D>) {
        (&self.network, &self.optimizer, loader)
    }

    /// Trains until the loader has drawn this many epochs. A new loader begins with the first epoch. A loader that was
    /// restored from a checkpoint continues where it was saved.
    ///
    /// See the example of [`Model`].
    ///
    /// # Errors
    /// The errors of the data, of the step and of callbacks, which end the run.
    pub fn train<D, X>(&mut self, epochs: u64, data: &DataLoader<D>, callbacks: &mut [&mut dyn Callback]) -> Result<()>
    where
        D: Dataset<Sample = (X, Tensor)> + 'static,
        N: for<'a> Apply<'a, Argument = &'a X, Output = Tensor>,
        X: Tree + 'static,
    {
        let Self { network, loss, optimizer, sink_size, .. } = self;
        let run = Run { network: &*network, loss: *loss, optimizer: &*optimizer, sink_size: *sink_size };
        run.train(epochs, data, callbacks, &mut || Ok(Scores::new()))
    }

    /// Trains like [`Model::train`], and evaluates after every epoch.
    ///
    /// See the example of [`Model`].
    ///
    /// # Errors
    /// The errors of [`Model::train`] and [`Model::eval`].
    pub fn fit<D, V, X>(
        &mut self,
        epochs: u64,
        data: &DataLoader<D>,
        validation: &DataLoader<V>,
        callbacks: &mut [&mut dyn Callback],
    ) -> Result<()>
    where
        D: Dataset<Sample = (X, Tensor)> + 'static,
        V: Dataset<Sample = (X, Tensor)> + 'static,
        N: for<'a> Apply<'a, Argument = &'a X, Output = Tensor>,
        X: Tree + 'static,
    {
        let Self { network, loss, optimizer, metrics, sink_size } = self;
        let run = Run { network: &*network, loss: *loss, optimizer: &*optimizer, sink_size: *sink_size };
        run.train(epochs, data, callbacks, &mut || run.evaluate(validation, metrics))
    }

    /// Returns the mean loss and the metrics for the rest of the loader's epoch, which is the whole epoch unless
    /// samples were drawn. The layers are set to evaluation mode, and remain in it until the next training.
    ///
    /// See the example of [`Model`].
    ///
    /// # Errors
    /// The errors of the data, of the network, and of metrics; [`Code::Argument`] if there are no samples.
    pub fn eval<D, X>(&mut self, data: &DataLoader<D>) -> Result<Scores>
    where
        D: Dataset<Sample = (X, Tensor)> + 'static,
        N: for<'a> Apply<'a, Argument = &'a X, Output = Tensor>,
        X: Tree + 'static,
    {
        let Self { network, loss, optimizer, metrics, sink_size } = self;
        let run = Run { network: &*network, loss: *loss, optimizer: &*optimizer, sink_size: *sink_size };
        run.evaluate(data, metrics)
    }

    /// Applies the network in evaluation mode, compiled.
    ///
    /// See the example of [`Model`].
    #[track_caller]
    pub fn predict<X>(&self, x: &X) -> Tensor
    where
        N: for<'a> Apply<'a, Argument = &'a X, Output = Tensor>,
        X: Tree + 'static,
    {
        self.network.set_train(false);
        forward(&self.network, x)
    }
}

/// Calls the compiled network.
#[jit]
fn forward<N, X>(network: &N, x: &X) -> Tensor
where
    N: Cell + 'static + for<'a> Apply<'a, Argument = &'a X, Output = Tensor>,
    X: Tree + 'static,
{
    network.apply(x)
}

/// References to the parts of a model. Training changes only their slots.
struct Run<'a, N, O, L> {
    network: &'a N,
    loss: L,
    optimizer: &'a O,
    sink_size: usize,
}

impl<N, O, L> Run<'_, N, O, L>
where
    N: Cell + 'static,
    O: Optimizer,
    L: Fn(&Tensor, &Tensor) -> Tensor + Copy,
{
    fn train<D, X>(
        &self,
        epochs: u64,
        data: &DataLoader<D>,
        callbacks: &mut [&mut dyn Callback],
        evaluate: &mut dyn FnMut() -> Result<Scores>,
    ) -> Result<()>
    where
        D: Dataset<Sample = (X, Tensor)> + 'static,
        N: for<'a> Apply<'a, Argument = &'a X, Output = Tensor>,
        X: Tree + 'static,
    {
        if data.is_empty() {
            return Err(Error::new(Code::Argument, "the dataset has no samples").with_op("Model::train"));
        }
        let state = (self.network, self.optimizer, data);
        let mut run = RunContext {
            epoch: data.epoch() + 1,
            epochs,
            step: data.epoch() * data.len() as u64 + data.position() as u64,
            steps_per_epoch: data.len(),
            losses: Vec::new(),
            scores: Scores::new(),
            network: Slots::of(self.network),
            learning_rates: self.optimizer.learning_rates(),
            state: Slots::of(&state),
            stopped: false,
        };
        callbacks.iter_mut().try_for_each(|it| it.on_train_begin(&mut run))?;
        while data.epoch() < epochs && !run.stopped {
            run.epoch = data.epoch() + 1;
            run.losses.clear();
            self.network.set_train(true);
            callbacks.iter_mut().try_for_each(|it| it.on_epoch_begin(&mut run))?;
            self.train_epoch(data, callbacks, &mut run)?;
            // A run that is stopped within an epoch skips the evaluation.
            if data.epoch() == run.epoch {
                run.scores = evaluate()?;
                callbacks.iter_mut().try_for_each(|it| it.on_epoch_end(&mut run))?;
            }
        }
        callbacks.iter_mut().try_for_each(|it| it.on_train_end(&mut run))
    }

    fn train_epoch<D, X>(
        &self,
        data: &DataLoader<D>,
        callbacks: &mut [&mut dyn Callback],
        run: &mut RunContext<'_>,
    ) -> Result<()>
    where
        D: Dataset<Sample = (X, Tensor)> + 'static,
        N: for<'a> Apply<'a, Argument = &'a X, Output = Tensor>,
        X: Tree + 'static,
    {
        let loss = self.loss;
        let loss = move |network: &N, (x, y): &(X, Tensor)| loss(&network.apply(x), y);
        let mut samples = data.iter();
        while !run.stopped && samples.size_hint().0 > 0 {
            callbacks.iter_mut().try_for_each(|it| it.on_step_begin(run))?;
            let mut group: Vec<(X, Tensor)> = Vec::new();
            while group.len() < self.sink_size {
                let Some(sample) = samples.next() else { break };
                group.push(sample?);
            }
            for equal in group.chunk_by(|a, b| leaves(a).iter().map(Tensor::ty).eq(leaves(b).iter().map(Tensor::ty))) {
                let losses = ms_core::catch(|| match equal {
                    [one] => self.optimizer.step(self.network, one, loss),
                    several => self.optimizer.steps(self.network, &stacked(several), loss),
                })?;
                run.losses.push(losses);
            }
            run.step += group.len() as u64;
            callbacks.iter_mut().try_for_each(|it| it.on_step_end(run))?;
        }
        Ok(())
    }

    fn evaluate<D, X>(&self, data: &DataLoader<D>, metrics: &mut [Box<dyn Metric>]) -> Result<Scores>
    where
        D: Dataset<Sample = (X, Tensor)> + 'static,
        N: for<'a> Apply<'a, Argument = &'a X, Output = Tensor>,
        X: Tree + 'static,
    {
        if data.is_empty() {
            return Err(Error::new(Code::Argument, "the dataset has no samples").with_op("Model::eval"));
        }
        self.network.set_train(false);
        metrics.iter_mut().for_each(|it| it.clear());
        let mut mean = Mean::default();
        for sample in data {
            let (x, y) = sample?;
            let (predictions, loss) = ms_core::catch(|| {
                let predictions = forward(self.network, &x);
                let loss = (self.loss)(&predictions, &y);
                (predictions, loss.cast(DType::F32))
            })?;
            mean.add(loss.try_item()?, y.shape().first().copied().unwrap_or(1));
            metrics.iter_mut().try_for_each(|it| it.update(&predictions, &y))?;
        }
        let mut scores = Scores::from([("loss".to_owned(), mean.get())]);
        for it in metrics {
            scores.insert(it.name(), it.eval()?);
        }
        Ok(scores)
    }
}

/// Stacks samples along a new first axis of each tensor, on their device.
fn stacked<T: Tree>(samples: &[T]) -> T {
    let columns: Vec<Vec<Tensor>> = samples.iter().map(leaves).collect();
    let mut at = 0;
    samples[0].rebuild(&mut |_| {
        at += 1;
        ops::stack(&columns.iter().map(|it| &it[at - 1]).collect::<Vec<_>>(), 0)
    })
}
