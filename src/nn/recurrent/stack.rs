//! Stacks of recurrent layers and directions.

use super::cell::{Step, Weights};
use crate::nn::Dropout;
use crate::nn::compute::result;
use crate::prelude::*;
use ms_core::error::{OrRaise, raise};
use ms_core::ops::rules::{check_positive, may_equal};
use ms_core::tensor::Dim;
use ms_core::trace::{Arg, ComputeDType, Name, Sink};
use ms_core::{Code, Error};

/// A stack of layers with the step `S`, scanned over time.
#[derive(Clone, Debug)]
pub(super) struct Stack<S> {
    name: &'static str,
    inputs: usize,
    hidden: usize,
    has_bias: bool,
    directions: usize,
    batch_first: bool,
    dropout: Dropout,
    step: S,
    pub compute: ComputeDType,
    /// The weights by layer and direction.
    weights: Vec<Weights>,
}

impl<S: Step + Arg> Stack<S> {
    #[track_caller]
    pub fn new(name: &'static str, inputs: usize, hidden: usize, step: S) -> Self {
        check_positive(name, "hidden", hidden).or_raise();
        let compute = ComputeDType::default();
        let weights = vec![Weights::new(S::GATES, inputs, hidden, true, &compute)];
        let dropout = Dropout::new(0.0);
        let (has_bias, directions, batch_first) = (true, 1, false);
        Self { name, inputs, hidden, has_bias, directions, batch_first, dropout, step, compute, weights }
    }

    fn layers(&self) -> usize {
        self.weights.len() / self.directions
    }

    /// Returns the stack with new weights.
    #[track_caller]
    fn with(self, layers: usize, directions: usize, has_bias: bool) -> Self {
        let inputs = |layer: usize| if layer == 0 { self.inputs } else { directions * self.hidden };
        let make = |at: usize| Weights::new(S::GATES, inputs(at / directions), self.hidden, has_bias, &self.compute);
        let weights = (0..layers * directions).map(make).collect();
        Self { weights, directions, has_bias, ..self }
    }

    #[track_caller]
    pub fn num_layers(self, layers: usize) -> Self {
        check_positive(self.name, "num_layers", layers).or_raise();
        let (directions, has_bias) = (self.directions, self.has_bias);
        self.with(layers, directions, has_bias)
    }

    #[track_caller]
    pub fn bidirectional(self, yes: bool) -> Self {
        let (layers, has_bias) = (self.layers(), self.has_bias);
        self.with(layers, 1 + usize::from(yes), has_bias)
    }

    #[track_caller]
    pub fn bias(self, has_bias: bool) -> Self {
        let (layers, directions) = (self.layers(), self.directions);
        self.with(layers, directions, has_bias)
    }

    pub fn batch_first(self, batch_first: bool) -> Self {
        Self { batch_first, ..self }
    }

    #[track_caller]
    pub fn dropout(self, p: f64) -> Self {
        Self { dropout: Dropout::new(p), ..self }
    }

    pub fn with_step(self, step: S) -> Self {
        Self { step, ..self }
    }

    #[track_caller]
    fn refuse(&self, message: String) -> ! {
        raise(Error::new(Code::Shape, message).with_op(self.name));
    }

    /// Runs the stack. Returns the results of all steps and the last states, each `[layers directions, batch, hidden]`.
    #[track_caller]
    pub fn run(&self, x: &Tensor, states: Option<Vec<Tensor>>, lengths: Option<Tensor>) -> (Tensor, Vec<Tensor>) {
        if x.rank() != 3 {
            self.refuse(format!("{} does not have axes of time, batch and features", x.ty()));
        }
        if !x.dims()[2].may_equal(Dim::new(self.inputs)) {
            self.refuse(format!(
                "the last axis of {} has the features, of which the layer takes {}",
                x.ty(),
                self.inputs
            ));
        }
        let mut x = if self.batch_first { x.permute([1, 0, 2]) } else { x.clone() };
        let (time, batch) = (x.dim(0), x.dim(1));
        let first = self.first_states(&x, batch, states);
        let mask = lengths.map(|it| self.mask(&it, time, batch));
        let mut last: Vec<Vec<Tensor>> = Vec::with_capacity(self.weights.len());
        for layer in 0..self.layers() {
            let mut results = Vec::with_capacity(self.directions);
            for direction in 0..self.directions {
                let at = layer * self.directions + direction;
                let own: Vec<Tensor> = first.iter().map(|it| it.at(at as isize)).collect();
                let (y, states) = self.scan(&self.weights[at], &x, own, mask.as_ref(), direction == 1);
                results.push(y);
                last.push(states);
            }
            x = if results.len() == 1 { results.swap_remove(0) } else { ops::concat(&results, -1) };
            if layer + 1 < self.layers() {
                x = self.dropout.call(&x);
            }
        }
        let y = if self.batch_first { x.permute([1, 0, 2]) } else { x };
        let of = |state: usize| ops::stack(&last.iter().map(|it| &it[state]).collect::<Vec<_>>(), 0);
        (y, (0..S::STATES).map(of).collect())
    }

    /// Returns the states before the first step.
    #[track_caller]
    fn first_states(&self, x: &Tensor, batch: Dim, states: Option<Vec<Tensor>>) -> Vec<Tensor> {
        let dims = [Dim::new(self.weights.len()), batch, Dim::new(self.hidden)];
        let Some(states) = states else { return vec![Tensor::zeros_of(dims, x.dtype()); S::STATES] };
        for state in &states {
            if !may_equal(&state.dims(), &dims) {
                self.refuse(format!("a state is {}, but has to have the shape {dims:?}", state.ty()));
            }
        }
        states
    }

    /// Returns which steps lie inside of each sequence: bools `[time, batch, 1]`.
    #[track_caller]
    fn mask(&self, lengths: &Tensor, time: Dim, batch: Dim) -> Tensor {
        if !may_equal(&lengths.dims(), &[batch]) {
            self.refuse(format!("`lengths` are {}, but have to have the shape [{batch}]", lengths.ty()));
        }
        let lengths = ops::bounded(lengths, time, "lengths", self.name);
        ops::less(ops::arange(time).expand_dims(-1), lengths).expand_dims(-1)
    }

    /// Runs one direction of one layer. Returns the results and the last states.
    #[track_caller]
    fn scan(
        &self,
        weights: &Weights,
        x: &Tensor,
        given: Vec<Tensor>,
        mask: Option<&Tensor>,
        backwards: bool,
    ) -> (Tensor, Vec<Tensor>) {
        let turned = |it: &Tensor| if backwards { it.flip([0]) } else { it.clone() };
        // One matrix product covers the inputs of all steps.
        let inputs = turned(&weights.project_input(x));
        let first: Vec<Tensor> = given.iter().map(|it| it.cast(inputs.dtype())).collect();
        let step = |states: &Vec<Tensor>, (input, inside): &(Tensor, Option<Tensor>)| {
            let next = self.step.step(weights, input, states);
            let Some(inside) = inside else {
                let y = next[0].clone();
                return (next, y);
            };
            let y = ops::select(inside, &next[0], 0.0);
            (next.iter().zip(states).map(|(next, state)| ops::select(inside, next, state)).collect(), y)
        };
        let (last, y) = ops::scan(step, first, &(inputs, mask.map(turned)));
        let last = last.into_iter().zip(&given).map(|(last, given)| result(&self.compute, last, given)).collect();
        (result(&self.compute, turned(&y), x), last)
    }
}

/// Names parameters as PyTorch and MindSpore do: `weight_ih_l0`, `bias_hh_l1_reverse`.
#[diagnostic::do_not_recommend]
impl<S: Arg> Arg for Stack<S> {
    fn visit(&self, sink: &mut Sink<'_>) {
        self.directions.visit(sink);
        self.has_bias.visit(sink);
        self.batch_first.visit(sink);
        self.step.visit(sink);
        self.compute.visit(sink);
        self.dropout.visit(sink);
        sink.fixed(self.weights.len() as u64);
        for (at, weights) in self.weights.iter().enumerate() {
            let reverse = if at % self.directions == 1 { "_reverse" } else { "" };
            let mut visit = |kind: &str, parameter: &Parameter| {
                // Names cost an allocation, and signatures, which need none, are computed at every call.
                let name = match sink.takes_names() {
                    true => format!("{kind}_l{}{reverse}", at / self.directions),
                    false => String::new(),
                };
                sink.begin(Name::Field(&name));
                parameter.visit(sink);
                sink.end();
            };
            visit("weight_ih", &weights.weight_ih);
            visit("weight_hh", &weights.weight_hh);
            if let Some([input, state]) = &weights.biases {
                visit("bias_ih", input);
                visit("bias_hh", state);
            }
        }
    }
}
