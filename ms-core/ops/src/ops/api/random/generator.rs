//! Generators of random tensors, and the generator of each thread.

use crate::ops::core::philox::philox4x32;
use crate::ops::primitive::distribution::{
    RANDOM_BERNOULLI, RANDOM_BITS, RANDOM_INTEGERS, RANDOM_NORMAL, RANDOM_UNIFORM,
};
use crate::ops::{OpDef, add, argsort};
use crate::tensor::{Attr, Attrs, DType, IntoDims, Parameter, Role, Tensor, apply1};
use ms_ir::error::OrRaise;
use std::cell::RefCell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether a slot holds the state of a generator.
///
/// ```
/// use ms_core::{Parameter, ops::random::{Generator, is_state}, tensor};
/// assert!(is_state(Generator::new(1).state()) && !is_state(&Parameter::new(tensor![1.0], "p")));
/// ```
pub fn is_state(parameter: &Parameter) -> bool {
    parameter.role() == Role::RandomState
}

/// A source of random tensors with separate state, which all threads that draw from it share.
///
/// A checkpoint stores a generator as a field of a cell or on its own.
///
/// ```
/// use ms_core::ops::random::Generator;
/// let draw = |seed| Generator::new(seed).uniform([3], 0.0, 1.0).to_vec::<f32>();
/// assert_eq!(draw(1), draw(1));
/// assert_ne!(draw(1), draw(2));
/// ```
#[derive(Debug)]
pub struct Generator {
    state: Parameter,
}

impl Generator {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: Parameter::random_state(start(seed)) }
    }

    /// Restarts the generator from a seed.
    #[track_caller]
    pub fn set_seed(&self, seed: u64) {
        self.state.set(&start(seed));
    }

    /// Returns the slot of the state: u64 `[seed, counter]`.
    pub fn state(&self) -> &Parameter {
        &self.state
    }

    /// Draws f32 numbers uniformly from `low` (inclusive) to `high` (exclusive).
    #[track_caller]
    pub fn uniform(&self, shape: impl IntoDims, low: f64, high: f64) -> Tensor {
        self.uniform_of(shape, low, high, DType::F32)
    }

    /// Draws numbers of a float dtype uniformly from `low` (inclusive) to `high` (exclusive).
    ///
    /// # Panics
    /// Raises [`Code::DType`](crate::Code::DType) unless `dtype` is a float dtype, and
    /// [`Code::Argument`](crate::Code::Argument) when `low` is above `high` or their difference is not finite.
    #[track_caller]
    pub fn uniform_of(&self, shape: impl IntoDims, low: f64, high: f64, dtype: DType) -> Tensor {
        self.draw(&RANDOM_UNIFORM, shape, dtype, [low.into(), high.into()])
    }

    /// Draws f32 numbers from the normal distribution with mean `mean` and standard deviation `std`.
    #[track_caller]
    pub fn normal(&self, shape: impl IntoDims, mean: f64, std: f64) -> Tensor {
        self.normal_of(shape, mean, std, DType::F32)
    }

    /// Draws numbers of a float dtype from the normal distribution with mean `mean` and standard deviation `std`.
    ///
    /// # Panics
    /// Raises [`Code::DType`](crate::Code::DType) unless `dtype` is a float dtype, and
    /// [`Code::Argument`](crate::Code::Argument) for a standard deviation that is negative or not finite.
    #[track_caller]
    pub fn normal_of(&self, shape: impl IntoDims, mean: f64, std: f64, dtype: DType) -> Tensor {
        self.draw(&RANDOM_NORMAL, shape, dtype, [mean.into(), std.into()])
    }

    /// Draws f32 numbers from the standard normal distribution.
    #[track_caller]
    pub fn randn(&self, shape: impl IntoDims) -> Tensor {
        self.normal(shape, 0.0, 1.0)
    }

    /// Draws i64 numbers uniformly from `low` (inclusive) to `high` (exclusive).
    ///
    /// # Panics
    /// Raises [`Code::Argument`](crate::Code::Argument) unless `low` is below `high`.
    #[track_caller]
    pub fn randint(&self, shape: impl IntoDims, low: i64, high: i64) -> Tensor {
        self.draw(&RANDOM_INTEGERS, shape, DType::I64, [low.into(), high.into()])
    }

    /// Draws bools that are true with `probability`.
    ///
    /// # Panics
    /// Raises [`Code::Argument`](crate::Code::Argument) unless `probability` is from 0 to 1.
    #[track_caller]
    pub fn bernoulli(&self, shape: impl IntoDims, probability: f64) -> Tensor {
        self.draw(&RANDOM_BERNOULLI, shape, DType::Bool, [probability.into()])
    }

    /// Draws uniform bits, as u32 or u64.
    ///
    /// # Panics
    /// Raises [`Code::DType`](crate::Code::DType) for another dtype.
    #[track_caller]
    pub fn bits(&self, shape: impl IntoDims, dtype: DType) -> Tensor {
        self.draw(&RANDOM_BITS, shape, dtype, [])
    }

    /// Returns a random permutation of `0..n`, as i64.
    #[track_caller]
    pub fn permutation(&self, n: usize) -> Tensor {
        argsort(self.bits(n, DType::U64), 0, false)
    }

    /// Draws a seed for another generator, which therefore depends on the seed of this one. The draws of the two
    /// generators are independent.
    ///
    /// # Panics
    /// Raises [`Code::TracedValue`](crate::Code::TracedValue) while a function is compiled.
    #[track_caller]
    pub fn derive_seed(&self) -> u64 {
        self.bits((), DType::U64).item()
    }

    /// Applies a distribution to the state, and advances the state by one draw.
    #[track_caller]
    fn draw<const N: usize>(
        &self,
        def: &'static OpDef,
        shape: impl IntoDims,
        dtype: DType,
        parameters: [Attr; N],
    ) -> Tensor {
        let shape = shape.into_dims();
        let attrs = Attrs::new([(&*shape).into(), dtype.into()].into_iter().chain(parameters));
        // The lock keeps two threads that share a generator, and compiled functions, from drawing the same numbers.
        let _alone = self.state.lock();
        let state = self.state.value().here().or_raise();
        let out = apply1(def.op(), &attrs, &[&state]);
        self.state.advance(&add(&state, Tensor::from([0u64, 1]))).or_raise();
        out
    }
}

/// Returns the state of a generator that starts from a seed.
#[track_caller]
fn start(seed: u64) -> Tensor {
    Tensor::from([seed, 0])
}

/// Returns the seed of a thread that sets none. The first thread that draws gets 0, and each later one a seed with a
/// distinct stream.
fn seed_of_thread() -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    match THREADS.fetch_add(1, Ordering::Relaxed) {
        0 => 0,
        number => {
            // This counter is beyond all draws of seed 0.
            let words = philox4x32([number as u32, (number >> 32) as u32, u32::MAX, u32::MAX], [0; 2]);
            words[0] as u64 | (words[1] as u64) << 32
        }
    }
}

thread_local! {
    static STATE: RefCell<Tensor> = RefCell::new(start(seed_of_thread()));
}

/// The generator that the functions of this module draw from: on every thread, the generator of that thread.
///
/// A thread that sets no seed starts from seed 0 if it is the first of the process to draw. Any other thread starts
/// from a seed that no other thread starts from.
///
/// ```
/// use ms_core::ops::random;
/// random::set_seed(1);
/// let first = random::default_generator().randn([2]).to_vec::<f32>();
/// random::set_seed(1);
/// assert_eq!(random::randn([2]).to_vec::<f32>(), first);
/// ```
pub fn default_generator() -> &'static Generator {
    static DEFAULT: LazyLock<Generator> =
        LazyLock::new(|| Generator { state: Parameter::of_thread(&STATE, "", Role::RandomState) });
    &DEFAULT
}

/// Restarts the generator of this thread from a seed.
///
/// See the example of [`default_generator`].
#[track_caller]
pub fn set_seed(seed: u64) {
    default_generator().set_seed(seed);
}

/// Runs `f` with the generator of this thread restarted from a seed, and restores its state afterwards. Draws before
/// and after the call are independent of the draws of `f`.
///
/// ```
/// use ms_core::ops::random;
/// let draw = || random::uniform([2], 0.0, 1.0).to_vec::<f32>();
/// assert_eq!(random::with_seed(7, draw), random::with_seed(7, draw));
/// ```
#[track_caller]
pub fn with_seed<R>(seed: u64, f: impl FnOnce() -> R) -> R {
    struct Restore(Tensor);
    impl Drop for Restore {
        fn drop(&mut self) {
            // A trace that ends with an error has no state to restore.
            let _ended = default_generator().state.try_set(&self.0);
        }
    }
    let _restore = Restore(default_generator().state.value());
    set_seed(seed);
    f()
}

/// Draws a seed for a thread or a generator from the generator of this thread; see [`Generator::derive_seed`].
///
/// ```
/// use ms_core::ops::random;
/// let seeds = || [random::derive_seed(), random::derive_seed()];
/// let [first, second] = random::with_seed(1, seeds);
/// assert_ne!(first, second);
/// assert_eq!(random::with_seed(1, seeds), [first, second]);
/// ```
#[track_caller]
pub fn derive_seed() -> u64 {
    default_generator().derive_seed()
}

/// Draws f32 numbers uniformly from `low` (inclusive) to `high` (exclusive); see [`Generator::uniform`].
///
/// ```
/// use ms_core::ops;
/// assert_eq!(ops::random::uniform([3], 2., 2.).to_vec::<f32>(), [2., 2., 2.]);
/// ```
#[track_caller]
pub fn uniform(shape: impl IntoDims, low: f64, high: f64) -> Tensor {
    default_generator().uniform(shape, low, high)
}

/// Draws f32 numbers from a normal distribution; see [`Generator::normal`].
///
/// ```
/// use ms_core::ops;
/// assert_eq!(ops::random::normal([2], 3., 0.).to_vec::<f32>(), [3., 3.]);
/// ```
#[track_caller]
pub fn normal(shape: impl IntoDims, mean: f64, std: f64) -> Tensor {
    default_generator().normal(shape, mean, std)
}

/// Draws f32 numbers from the standard normal distribution; see [`Generator::randn`].
///
/// ```
/// use ms_core::ops;
/// assert_eq!(ops::random::randn([2, 3]).shape(), [2, 3]);
/// ```
#[track_caller]
pub fn randn(shape: impl IntoDims) -> Tensor {
    default_generator().randn(shape)
}

/// Draws i64 numbers uniformly from `low` (inclusive) to `high` (exclusive); see [`Generator::randint`].
///
/// ```
/// use ms_core::ops;
/// assert!(ops::random::randint([9], 3, 5).to_vec::<i64>().iter().all(|it| [3, 4].contains(it)));
/// ```
#[track_caller]
pub fn randint(shape: impl IntoDims, low: i64, high: i64) -> Tensor {
    default_generator().randint(shape, low, high)
}

/// Draws bools that are true with `probability`; the mask of a dropout is `bernoulli(shape, keep)`.
///
/// ```
/// use ms_core::ops;
/// assert_eq!(ops::random::bernoulli([2], 1.).to_vec::<bool>(), [true, true]);
/// ```
#[track_caller]
pub fn bernoulli(shape: impl IntoDims, probability: f64) -> Tensor {
    default_generator().bernoulli(shape, probability)
}

/// Returns a random permutation of `0..n`, as i64; see [`Generator::permutation`].
///
/// ```
/// use ms_core::ops;
/// let mut all = ops::random::permutation(4).to_vec::<i64>();
/// all.sort();
/// assert_eq!(all, [0, 1, 2, 3]);
/// ```
#[track_caller]
pub fn permutation(n: usize) -> Tensor {
    default_generator().permutation(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;
    use crate::ops::core::testing::{refused, run};

    /// Returns mean and variance.
    fn moments(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (mean, values.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / values.len() as f64)
    }

    #[test]
    fn an_element_depends_on_seed_counter_and_place() {
        run(|| {
            let (a, b) = (Generator::new(7), Generator::new(7));
            let first = a.normal_of([3, 100], 0.0, 1.0, DType::F64).to_vec::<f64>();
            assert_eq!(b.normal_of(10, 0.0, 1.0, DType::F64).to_vec::<f64>(), first[..10]);
            assert_ne!(a.randn(10).to_vec::<f32>(), a.randn(10).to_vec::<f32>());
            assert_eq!(a.state().value().to_vec::<u64>(), [7, 3]);
            assert_eq!(b.state().value().to_vec::<u64>(), [7, 1]);
            a.set_seed(8);
            assert_ne!(a.normal_of(10, 0.0, 1.0, DType::F64).to_vec::<f64>(), first[..10]);
            assert_eq!(
                Generator::new(0).bits(4, DType::U32).to_vec::<u32>(),
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
            );
        });
    }

    #[test]
    fn moments_of_the_distributions() {
        run(|| {
            let it = Generator::new(1);
            let n = 20_000;
            let near = |got: f64, want: f64| assert!((got - want).abs() < 0.03, "{got}, not {want}");
            for dtype in [DType::F32, DType::F64] {
                let wide = |x: Tensor| crate::ops::cast(x, DType::F64).to_vec::<f64>();
                let uniform = wide(it.uniform_of(n, -1.0, 3.0, dtype));
                assert!(uniform.iter().all(|it| (-1.0..3.0).contains(it)));
                near(moments(&uniform).0, 1.0);
                near(moments(&uniform).1, 16.0 / 12.0);
                let (mean, variance) = moments(&wide(it.normal_of(n, 0.5, 1.0, dtype)));
                near(mean, 0.5);
                near(variance, 1.0);
            }
            let dice = it.randint(n, 1, 7).to_vec::<i64>();
            for side in 1..7 {
                near(dice.iter().filter(|&&it| it == side).count() as f64 / n as f64, 1.0 / 6.0);
            }
            assert!(dice.iter().all(|it| (1..7).contains(it)));
            near(it.bernoulli(n, 0.3).to_vec::<bool>().iter().filter(|it| **it).count() as f64 / n as f64, 0.3);
            let mut order = it.permutation(50).to_vec::<i64>();
            assert_ne!(order, (0..50).collect::<Vec<_>>());
            order.sort();
            assert_eq!(order, (0..50).collect::<Vec<_>>());
            assert_eq!(it.randn([0, 3]).shape(), [0, 3]);
        });
    }

    #[test]
    fn parameters_outside_their_domain() {
        let it = Generator::new(1);
        assert_eq!(refused(|| it.randint(3, 2, 2)), Code::Argument);
        assert_eq!(refused(|| it.bernoulli(3, 1.5)), Code::Argument);
        assert_eq!(refused(|| it.normal(3, 0.0, -1.0)), Code::Argument);
        assert_eq!(refused(|| it.normal(3, 0.0, f64::NAN)), Code::Argument);
        assert_eq!(refused(|| it.uniform(3, 1.0, 0.0)), Code::Argument);
        assert_eq!(refused(|| it.uniform(3, 0.0, f64::INFINITY)), Code::Argument);
        assert_eq!(refused(|| it.bits(3, DType::F32)), Code::DType);
        assert_eq!(refused(|| it.uniform_of(3, 0.0, 1.0, DType::I32)), Code::DType);
    }
}
