//! Sequential composition of layers.

use crate::prelude::*;
use ms_core::error::raise;
use ms_core::trace::{Arg, Name, Sink};
use ms_core::{Code, Error};
use std::fmt;

/// Calls layers in order, each on the result of the previous one. Parameter names contain the names of layers, or their
/// numbers if they have none.
///
/// ```
/// use ms::prelude::*;
/// let net = nn::sequential![nn::Dense::new(4, 8), nn::ReLU, nn::Dense::new(8, 2)];
/// assert_eq!(net.call(&Tensor::ones([3, 4])).shape(), [3, 2]);
///
/// let net = nn::sequential! { hidden: nn::Dense::new(4, 8), relu: nn::ReLU, head: nn::Dense::new(8, 2) };
/// assert_eq!(StateDict::named(&net, Convention::PyTorch).names().next(), Some("head.bias"));
/// ```
#[cell]
#[derive(Default, Debug)]
pub struct Sequential {
    layers: Layers,
}

#[cell]
impl Sequential {
    /// Creates an empty sequence.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a layer.
    pub fn push(mut self, layer: impl Layer + 'static) -> Self {
        self.layers.all.push((None, Box::new(layer)));
        self
    }

    /// Appends a layer with a name.
    ///
    /// # Panics
    /// Raises [`Code::DuplicateName`] if another layer has the same name.
    #[track_caller]
    pub fn push_named(mut self, name: impl Into<String>, layer: impl Layer + 'static) -> Self {
        let name = name.into();
        if self.layers.all.iter().any(|it| it.0.as_ref() == Some(&name)) {
            raise(Error::new(Code::DuplicateName, format!("two layers are called `{name}`")).with_op("Sequential"));
        }
        self.layers.all.push((Some(name), Box::new(layer)));
        self
    }

    /// Returns the number of layers.
    pub fn len(&self) -> usize {
        self.layers.all.len()
    }

    /// Returns whether there are no layers.
    pub fn is_empty(&self) -> bool {
        self.layers.all.is_empty()
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        self.layers.all.iter().fold(x.clone(), |x, (_, layer)| layer.forward(&x))
    }
}

/// The layers in order, some of them named.
#[derive(Default)]
struct Layers {
    all: Vec<(Option<String>, Box<dyn Layer>)>,
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.all.iter().all(|it| it.0.is_none()) {
            true => f.debug_list().entries(self.all.iter().map(|it| &it.1)).finish(),
            false => {
                f.debug_map().entries(self.all.iter().map(|(name, it)| (name.as_deref().unwrap_or(""), it))).finish()
            }
        }
    }
}

#[diagnostic::do_not_recommend]
impl Arg for Layers {
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.fixed(self.all.len() as u64);
        for (at, (name, layer)) in self.all.iter().enumerate() {
            sink.begin(match name {
                Some(name) => Name::Key(name),
                None => Name::Index(at),
            });
            layer.visit(sink);
            sink.end();
        }
    }
}

/// Builds a [`Sequential`](crate::nn::Sequential) from layers, all of which may have names:
/// `first: nn::Dense::new(4, 8)`.
///
/// See the example of [`Sequential`](crate::nn::Sequential).
#[macro_export]
macro_rules! sequential {
    ($($name:ident: $layer:expr),+ $(,)?) => {
        $crate::nn::Sequential::new()$(.push_named(stringify!($name), $layer))+
    };
    ($($layer:expr),* $(,)?) => {
        $crate::nn::Sequential::new()$(.push($layer))*
    };
}
