//! A compiler-backed machine-learning framework: one Rust source runs eagerly or compiled.
//!
//! ```
//! use ms::prelude::*;
//!
//! #[cell]
//! struct Net {
//!     hidden: nn::Dense,
//!     head: nn::Dense,
//! }
//!
//! #[cell]
//! impl Net {
//!     fn construct(&self, x: &Tensor) -> Tensor {
//!         self.head(&ops::relu(self.hidden(x)))
//!     }
//! }
//!
//! let (net, opt) = (Net { hidden: nn::Dense::new(3, 8), head: nn::Dense::new(8, 1) }, Adam::new(0.01));
//! let batch = (Tensor::ones([4, 3]), Tensor::zeros([4, 1]));
//! let losses = [0; 20].map(|_| opt.step(&net, &batch, |net, (x, y)| ops::mse_loss(&net.call(x), y)).item::<f32>());
//! assert!(losses[19] < losses[0]);
//! ```

extern crate self as ms;

#[doc(hidden)]
#[path = "rt.rs"]
pub mod __rt;
pub mod amp;
pub mod custom;
pub mod data;
#[cfg(feature = "fft")]
pub mod fft;
pub mod internals;
pub mod io;
pub mod kernel;
#[cfg(feature = "linalg")]
pub mod linalg;
pub mod nn;
pub mod ops;
pub mod optim;
pub mod prelude;
mod print;
#[cfg(any(feature = "fft", feature = "linalg"))]
mod reals;
mod statics;
pub mod train;

pub use io::{LoadOptions, LoadReport, StateDict, Stateful, export, load_checkpoint, save_checkpoint};
pub use ms_core::effects::Level;
pub use ms_core::exec::Waits;
pub use ms_core::random;
pub use ms_core::session::At;
/// Returns reports of the compilations so far: the stages, their times, and the sizes of graphs and plans.
///
/// ```
/// use ms::prelude::*;
/// #[jit]
/// fn added(x: &Tensor, total: &Parameter) -> Tensor {
///     total.set(&(total + x));
///     (-x).exp()
/// }
/// added(&tensor![1.0, 2.0], &Parameter::new(tensor![0.0, 0.0], "total"));
/// let report = ms::compile_report().pop().expect("a function was compiled");
/// let graph = report.stage("trace").and_then(|it| it.graph).expect("a trace gives a graph");
/// let plan = report.stages.iter().find_map(|it| it.plan).expect("a compilation gives a plan");
/// assert!(graph.size.nodes >= 3 && plan.kernels >= 1);
/// assert_eq!(report.slots.map(|it| it.written), Some(1));
/// println!("{report}");
/// ```
pub use ms_core::session::compile_report;
pub use ms_core::session::{
    All, CacheUse, CompileReport, Context, GradOperation, Gradients, GraphReport, KernelCopy, Mode, PlanReport,
    Precision, Profile, Record, Roof, SlotReport, StageReport, Work, cache_options, cache_path, cache_use, context,
    custom_jvp, custom_vjp, custom_vjp_with_residuals, flush_cache, grad, hessian, jacfwd, jacrev, jit, jvp, linearize,
    profile, recompute, retrace, roof, set_context, value_and_grad, vjp, vmap, vmap_cells, with_context,
};
/// A layer that can be called; `#[cell]` implements this trait. Use it as a bound for generic layers.
///
/// ```
/// use ms::{Apply, prelude::*};
/// fn twice<L: Cell + for<'a> Apply<'a, Argument = &'a Tensor, Output = Tensor>>(layer: &L, x: &Tensor) -> Tensor {
///     layer.apply(&layer.apply(x))
/// }
/// assert_eq!(twice(&nn::Dense::new(3, 3), &Tensor::ones([2, 3])).shape(), [2, 3]);
/// ```
pub use ms_core::trace::Apply;
/// A network, layer or optimiser: named parameters, training mode, dtype conversion.
///
/// ```
/// use ms::prelude::*;
/// let net = nn::sequential![nn::Dense::new(3, 2), nn::Dropout::new(0.5)];
/// net.set_train(false);
/// net.to_dtype(DType::F64);
/// let parameters = net.named_parameters()?;
/// assert_eq!((parameters[1].0.as_str(), parameters[1].1.value().dtype()), ("layers[0].bias", DType::F64));
/// # Ok::<(), ms::Error>(())
/// ```
pub use ms_core::trace::Cell;
/// Registers forward and backward hooks of a cell, in eager code.
///
/// ```
/// use ms::prelude::*;
/// let net = nn::Dense::new(2, 3);
/// let doubled = net.register_forward_hook(|_, results| Some(vec![&results[0] * 2.0]));
/// let x = Tensor::ones([4, 2]);
/// let with_hook = net.call(&x);
/// doubled.remove();
/// assert_eq!(with_hook.to_vec::<f32>(), (net.call(&x) * 2.0).to_vec::<f32>());
/// ```
pub use ms_core::trace::Hooks;
/// A layer from a tensor to a tensor, implemented by every such cell. `Box<dyn Layer>` is the element of lists with
/// several kinds of layers.
///
/// ```
/// use ms::prelude::*;
/// let layers: Vec<Box<dyn Layer>> = vec![Box::new(nn::Dense::new(3, 2)), Box::new(nn::ReLU)];
/// let y = layers.iter().fold(Tensor::ones([4, 3]), |x, layer| layer.forward(&x));
/// assert_eq!(y.shape(), [4, 2]);
/// ```
pub use ms_core::trace::Layer;
pub use ms_core::trace::{Arg, Frozen, HookHandle, Marked, Name, Sink, Training, Tree, Value};
pub use ms_core::trace::{HyperMap, Map, MultitypeFuncGraph, Range, range};
pub use ms_core::{Code, DType, Error, Parameter, Result, Tensor, catch, error, synchronize, tensor};
/// `#[derive(Static)]`: makes a host type a static argument. Compiled code is specialised to its value.
///
/// ```
/// use ms::prelude::*;
/// #[derive(Clone, Copy, PartialEq, Static)]
/// enum Norm {
///     One,
///     Two,
/// }
/// #[jit]
/// fn size(x: &Tensor, norm: Norm) -> Tensor {
///     match norm {
///         Norm::One => x.abs().sum(()),
///         Norm::Two => x.square().sum(()).sqrt(),
///     }
/// }
/// let x = tensor![3.0, -4.0];
/// assert_eq!([Norm::One, Norm::Two].map(|it| size(&x, it).item::<f32>()), [7.0, 5.0]);
/// ```
pub use ms_macros::Static;
/// `#[derive(Tree)]`: makes a struct of tensors a pytree, which functions take and return.
///
/// ```
/// use ms::prelude::*;
/// #[derive(Clone, Tree)]
/// struct Motion {
///     place: Tensor,
///     speed: Tensor,
/// }
/// #[jit]
/// fn advance(it: &Motion, time: &Tensor) -> Motion {
///     Motion { place: &it.place + &it.speed * time, speed: it.speed.clone() }
/// }
/// let next = advance(&Motion { place: tensor![1.0], speed: tensor![2.0] }, &tensor![0.5]);
/// assert_eq!((next.place.item::<f32>(), next.speed.item::<f32>()), (2.0, 2.0));
/// ```
pub use ms_macros::Tree;
/// `#[cell]`: defines a network as a struct and its method `construct`.
///
/// ```
/// use ms::prelude::*;
/// #[cell]
/// struct Gated {
///     value: nn::Dense,
///     gate: nn::Dense,
/// }
/// #[cell]
/// impl Gated {
///     fn construct(&self, x: &Tensor) -> Tensor {
///         self.value(x) * ops::sigmoid(self.gate(x))
///     }
/// }
/// let net = Gated { value: nn::Dense::new(3, 2), gate: nn::Dense::new(3, 2) };
/// assert_eq!((net.call(&Tensor::ones([4, 3])).shape(), net.parameters().len()), (&[4, 2][..], 4));
/// ```
pub use ms_macros::cell;
/// `custom_op!`: defines an op by a function that runs on the host.
///
/// ```
/// use ms::{custom::Type, prelude::*};
/// ms::custom_op! {
///     /// The sum of the elements that are above a limit.
///     pub fn sum_above(x: &Tensor, limit: f64) -> Tensor;
///
///     fn types(x: &Type, _limit: f64) -> Type {
///         Type::of(x.dtype, &[])
///     }
///
///     fn run(x: &[f32], limit: f64, sum: &mut [f32]) {
///         sum[0] = x.iter().filter(|it| f64::from(**it) > limit).sum();
///     }
/// }
/// assert_eq!(sum_above(&tensor![1.0, 2.0, 3.0], 1.5).item::<f32>(), 5.0);
/// ```
pub use ms_macros::custom_op;
/// `#[jit]`: compiles a function, once for each combination of argument types.
///
/// ```
/// use ms::prelude::*;
/// #[jit]
/// fn halved_below(x: &Tensor, limit: &Tensor) -> Tensor {
///     let mut x = x.clone();
///     while x > limit {
///         x = x / 2.0;
///     }
///     x
/// }
/// assert_eq!(halved_below(&Tensor::scalar(20.0), &Tensor::scalar(3.0)).item::<f32>(), 2.5);
/// ```
pub use ms_macros::jit;
/// `#[jit_class]`: makes a user-defined type and its methods usable in compiled code.
///
/// ```
/// use ms::prelude::*;
/// #[jit_class]
/// struct Scale {
///     factor: i64,
/// }
/// #[jit_class]
/// impl Scale {
///     fn call(&self, x: &Tensor) -> Tensor {
///         x * self.factor
///     }
/// }
/// #[jit]
/// fn scaled(scale: &Scale, x: &Tensor) -> Tensor {
///     scale(x)
/// }
/// assert_eq!(scaled(&Scale { factor: 3 }, &tensor![2.0]).item::<f32>(), 6.0);
/// ```
pub use ms_macros::jit_class;
/// `kernel!`: defines an elementwise op by a function of scalars.
///
/// ```
/// use ms::prelude::*;
/// ms::kernel! {
///     /// `x` where it is positive, otherwise `slope x`.
///     pub fn leaky(x: Float, slope: f64) -> Float {
///         if x > 0.0 { x } else { x * slope }
///     }
/// }
/// assert_eq!(leaky(tensor![2.0, -4.0], 0.25).to_vec::<f32>(), [2.0, -1.0]);
/// assert_eq!(ms::grad(|x: &Tensor| leaky(x, 0.25))(&tensor![2.0, -4.0]).to_vec::<f32>(), [1.0, 0.25]);
/// ```
pub use ms_macros::kernel;
/// `#[lazy_inline]`: traces and compiles equal cells once, as one shared graph.
///
/// ```
/// use ms::prelude::*;
/// #[lazy_inline]
/// #[cell]
/// struct Block {
///     fc: nn::Dense,
/// }
/// #[cell]
/// impl Block {
///     fn construct(&self, x: &Tensor) -> Tensor {
///         x + ops::relu(self.fc(x))
///     }
/// }
/// #[jit]
/// fn run(blocks: &nn::CellList<Block>, x: &Tensor) -> Tensor {
///     blocks.iter().fold(x.clone(), |x, block| block.call(&x))
/// }
/// let blocks: nn::CellList<Block> = (0..8).map(|_| Block { fc: nn::Dense::new(4, 4) }).collect();
/// assert_eq!(run(&blocks, &Tensor::ones([2, 4])).shape(), [2, 4]);
/// ```
pub use ms_macros::lazy_inline;
/// `#[no_inline]`: keeps calls of a function or a cell as calls in the compiled graph.
///
/// ```
/// use ms::prelude::*;
/// #[no_inline]
/// fn square(x: &Tensor) -> Tensor {
///     x * x
/// }
/// #[jit]
/// fn sum(x: &Tensor) -> Tensor {
///     square(x) + square(&(x + 1.0))
/// }
/// assert_eq!(sum(&tensor![2.0]).item::<f32>(), 13.0);
/// let report = ms::compile_report().pop().expect("a function was compiled");
/// assert_eq!(report.stages.iter().find_map(|it| it.plan).map(|it| it.calls), Some(2));
/// ```
pub use ms_macros::no_inline;
/// `jit!(|x: &Tensor| ..)`: applies [`jit`](fn@jit) to a closure with annotated code as its body.
///
/// ```
/// use ms::{closure::jit, prelude::*};
/// let clip = jit!(|x: &Tensor| if x > 1.0 { Tensor::scalar(1.0) } else { x.clone() });
/// assert_eq!([0.5, 3.0].map(|it| clip(&Tensor::scalar(it)).item::<f32>()), [0.5, 1.0]);
/// ```
pub mod closure {
    pub use ms_macros::jit_closure as jit;
}

inventory::submit! { ms_core::error::LibrarySource::Facade(file!()) }

// Linked for its side effect: the CPU backend registers itself.
use ms_cpu as _;

/// The pages of the book, whose examples compile and run as doctests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[doc = include_str!("../docs/by_task.md")]
    mod by_task {}
    #[doc = include_str!("../docs/custom_ops.md")]
    mod custom_ops {}
    #[doc = include_str!("../docs/data.md")]
    mod data {}
    #[doc = include_str!("../docs/debugging.md")]
    mod debugging {}
    #[doc = include_str!("../docs/deployment.md")]
    mod deployment {}
    #[doc = include_str!("../docs/effects.md")]
    mod effects {}
    #[doc = include_str!("../docs/errors_and_panics.md")]
    mod errors_and_panics {}
    #[doc = include_str!("../docs/from_mindspore.md")]
    mod from_mindspore {}
    #[doc = include_str!("../docs/from_pytorch.md")]
    mod from_pytorch {}
    #[doc = include_str!("../docs/getting_started.md")]
    mod getting_started {}
    #[doc = include_str!("../docs/how_it_works.md")]
    mod how_it_works {}
    #[doc = include_str!("../docs/importing_weights.md")]
    mod importing_weights {}
    #[doc = include_str!("../docs/layers.md")]
    mod layers {}
    #[doc = include_str!("../docs/mixed_precision.md")]
    mod mixed_precision {}
    #[doc = include_str!("../docs/performance.md")]
    mod performance {}
    #[doc = include_str!("../docs/platforms.md")]
    mod platforms {}
    #[doc = include_str!("../docs/recurrences.md")]
    mod recurrences {}
    #[doc = include_str!("../docs/tensors.md")]
    mod tensors {}
    #[doc = include_str!("../docs/training.md")]
    mod training {}
}
