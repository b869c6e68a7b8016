//! Parameter groups.

use super::Optimizer;
use super::hyperparameter::LearningRate;
use ms_core::session::{Gradients, type_key};
use ms_core::tensor::{SlotId, WeakParameter};
use ms_core::trace::{Arg, Name, Sink};
use ms_core::{Parameter, Tensor, ops};
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// An optimiser for each of several groups of parameters, and a default optimiser for all others. Groups may differ in
/// hyperparameters or in the algorithm.
///
/// ```
/// use ms::optim::ParameterGroups;
/// use ms::prelude::*;
/// let net = nn::sequential![nn::Dense::new(3, 8), nn::LayerNorm::new(8), nn::Dense::new(8, 1)];
/// let vectors: Vec<Parameter> = net.parameters().into_iter().filter(|it| it.load().shape().len() < 2).collect();
/// let opt = ParameterGroups::new(Adam::new(1e-3).decoupled_weight_decay(0.1)).group(&vectors, SGD::new(1e-2));
/// assert_eq!(opt.learning_rates().iter().map(|it| it.get()).collect::<Vec<_>>(), [1e-3, 1e-2]);
/// let batch = (Tensor::ones([4, 3]), Tensor::zeros([4, 1]));
/// opt.step(&net, &batch, |net, (x, y)| ops::mse_loss(&net.call(x), y));
/// ```
pub struct ParameterGroups {
    /// The optimisers; the first one trains the parameters outside of all groups.
    optimizers: Vec<Box<dyn Member>>,
    /// The index of the optimiser of each grouped parameter.
    groups: BTreeMap<SlotId, (WeakParameter, usize)>,
}

/// An object-safe form of [`Optimizer`].
trait Member: Send + Sync {
    /// Visits the type as well: optimisers with the same structure may have different code.
    fn visit(&self, sink: &mut Sink<'_>);
    fn prepare(&self, parameters: &[Parameter]);
    fn update(&self, gradients: &Gradients);
    fn updates(&self) -> Option<Tensor>;
    fn learning_rates(&self) -> Vec<&LearningRate>;
}

impl<O: Optimizer + Send + Sync + 'static> Member for O {
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.ty(type_key(&PhantomData::<O>));
        Arg::visit(self, sink);
    }

    fn prepare(&self, parameters: &[Parameter]) {
        Optimizer::prepare(self, parameters);
    }

    fn update(&self, gradients: &Gradients) {
        Optimizer::update(self, gradients);
    }

    fn updates(&self) -> Option<Tensor> {
        Optimizer::updates(self)
    }

    fn learning_rates(&self) -> Vec<&LearningRate> {
        Optimizer::learning_rates(self)
    }
}

impl ParameterGroups {
    /// Creates groups with a default optimiser for ungrouped parameters.
    pub fn new(optimizer: impl Optimizer + Send + Sync + 'static) -> Self {
        Self { optimizers: vec![Box::new(optimizer)], groups: BTreeMap::new() }
    }

    /// Adds a group of parameters with an optimiser. A parameter in several groups belongs to the last one.
    pub fn group(mut self, parameters: &[Parameter], optimizer: impl Optimizer + Send + Sync + 'static) -> Self {
        let place = self.optimizers.len();
        self.optimizers.push(Box::new(optimizer));
        self.groups.extend(parameters.iter().map(|it| (it.id(), (it.downgrade(), place))));
        self
    }

    fn place(&self, parameter: &Parameter) -> usize {
        self.groups.get(&parameter.id()).map_or(0, |it| it.1)
    }
}

#[diagnostic::do_not_recommend]
impl Arg for ParameterGroups {
    fn visit(&self, sink: &mut Sink<'_>) {
        self.optimizers.len().visit(sink);
        for (place, optimizer) in self.optimizers.iter().enumerate() {
            sink.begin(Name::Index(place));
            optimizer.visit(sink);
            sink.end();
        }
        for (at, (&id, (parameter, place))) in self.groups.iter().enumerate() {
            place.visit(sink);
            match parameter.upgrade() {
                Some(parameter) if sink.takes_names() => {
                    sink.begin(Name::Of(&parameter, at));
                    sink.end();
                }
                _ => sink.fixed(id),
            }
        }
    }
}

impl Optimizer for ParameterGroups {
    fn prepare(&self, parameters: &[Parameter]) {
        for (place, optimizer) in self.optimizers.iter().enumerate() {
            let own = parameters.iter().filter(|it| self.place(it) == place).cloned();
            optimizer.prepare(&own.collect::<Vec<_>>());
        }
    }

    fn update(&self, gradients: &Gradients) {
        for (place, optimizer) in self.optimizers.iter().enumerate() {
            let own = gradients.iter().filter(|it| self.place(it.0) == place);
            let (parameters, tensors): (Vec<Parameter>, Vec<Tensor>) = own.map(|(p, g)| (p.clone(), g.clone())).unzip();
            optimizer.update(&Gradients::new(parameters, tensors));
        }
    }

    /// Returns whether the next update of any group changes parameters.
    fn updates(&self) -> Option<Tensor> {
        let each = self.optimizers.iter().map(|it| it.updates()).collect::<Option<Vec<_>>>()?;
        each.into_iter().reduce(ops::logical_or)
    }

    fn learning_rates(&self) -> Vec<&LearningRate> {
        self.optimizers.iter().flat_map(|it| it.learning_rates()).collect()
    }
}
