//! Compiles the softmax kernels, which run over rows of scores.

use ms_ir::data::DType;
use ms_ir::math::expand_all;
use ms_ir::{BinaryOp, Compare, Kernel, KernelBuilder, LaneAxis, Math, Reducer, Role, Scope, StrideClass};
use ms_x64::Isa;
use ms_x64::KernelCode;
use ms_x64::code::compile::compile_or_interpret;
use std::sync::{Arc, OnceLock};

/// The kernels of an instruction set.
pub struct Rows {
    weights: Arc<dyn KernelCode>,
    slopes: Arc<dyn KernelCode>,
}

/// The running softmax state of each query of a block.
pub struct State<const N: usize> {
    /// The largest score so far.
    pub most: [f32; N],
    /// The sum of the weights so far.
    pub sum: [f32; N],
    /// The factor that rescales sums from before the last keys.
    pub factor: [f32; N],
}

impl<const N: usize> State<N> {
    /// Returns the state before all keys.
    pub fn new() -> Self {
        Self { most: [f32::NEG_INFINITY; N], sum: [0.0; N], factor: [0.0; N] }
    }

    /// Returns the factor that makes the sum of weights one: zero for a query that uses no key.
    pub fn inverses(&self) -> [f32; N] {
        self.sum.map(|it| if it == 0.0 { 0.0 } else { 1.0 / it })
    }
}

/// The size of an element in bytes.
const SIZE: usize = size_of::<f32>();

impl Rows {
    /// Returns the kernels of an instruction set, which a process compiles once.
    pub fn for_isa(isa: Isa) -> &'static Self {
        static ALL: [OnceLock<Rows>; Isa::ALL.len()] = [const { OnceLock::new() }; Isa::ALL.len()];
        let code = |kernel: Kernel| compile_or_interpret(expand_all(kernel), isa);
        ALL[isa as usize].get_or_init(|| Self { weights: code(weights()), slopes: code(slopes()) })
    }

    /// Replaces the scores of some queries for `keys` keys by weights `e^(s - most)`, and updates the state. Rows are
    /// `width` elements apart.
    ///
    /// # Safety
    /// The scores are valid for reads and writes, and there are at most `N` rows.
    pub unsafe fn weigh<const N: usize>(
        &self,
        [rows, keys]: [usize; 2],
        (scores, width): (*mut f32, usize),
        state: &mut State<N>,
    ) {
        let [most, sum, factor] = [&mut state.most, &mut state.sum, &mut state.factor].map(|it| it.as_mut_ptr());
        let scores = [scores as u64, (width * SIZE) as u64, SIZE as u64];
        let of_row = |it: *mut f32| [it as u64, SIZE as u64, 0];
        let block = [scores, of_row(most), of_row(sum), scores, of_row(most), of_row(sum), of_row(factor)];
        let block = words::<23>([rows, keys], block.as_flattened());
        // SAFETY: the scores are readable and writable, and the state has `N >= rows` elements. Each row reads its own
        // numbers before it writes them.
        unsafe { self.weights.call(&block) };
    }

    /// Replaces the weights `w` by `p = w inverse`, and their gradients `g` by the gradients of scores, `p (g - mean)`.
    /// Each row has its own `inverse` and `mean`; rows are `width` elements apart.
    ///
    /// # Safety
    /// The elements are valid for reads and writes, and do not overlap. `inverse` and `mean` have an element for each
    /// row.
    pub unsafe fn slope(
        &self,
        [rows, keys]: [usize; 2],
        [weights, gradients]: [*mut f32; 2],
        width: usize,
        [inverse, mean]: [&[f32]; 2],
    ) {
        let matrix = |it: *mut f32| [it as u64, (width * SIZE) as u64, SIZE as u64];
        let of_row = |it: &[f32]| [it.as_ptr() as u64, SIZE as u64, 0];
        let (weights, gradients) = (matrix(weights), matrix(gradients));
        let block = [weights, gradients, of_row(inverse), of_row(mean), weights, gradients];
        let block = words::<20>([rows, keys], block.as_flattened());
        // SAFETY: both matrices are readable and writable and do not overlap, by this function's contract. An element
        // is read before it is written.
        unsafe { self.slopes.call(&block) };
    }
}

/// Returns the argument block of these extents and parameters.
fn words<const N: usize>(extents: [usize; 2], params: &[u64]) -> [u64; N] {
    let mut block = [0; N];
    block[..2].copy_from_slice(&extents.map(|it| it as u64));
    block[2..].copy_from_slice(params);
    block
}

/// Builds the kernel of the running softmax: the largest score including the earlier one, the weights, and the sum
/// including the earlier one. If all scores are minus infinity, nothing is subtracted, so that the weights are zero.
fn weights() -> Kernel {
    let mut it = KernelBuilder::new(1, 0, LaneAxis::Reduced);
    let scores = it.param(DType::F32, Role::Input, StrideClass::Unit);
    let [most_before, sum_before] = [(); 2].map(|()| it.param(DType::F32, Role::Input, StrideClass::Zero));
    let weights = it.param(DType::F32, Role::Output, StrideClass::Unit);
    let [most_now, sum_now, factor_now] = [(); 3].map(|()| it.param(DType::F32, Role::Output, StrideClass::Zero));
    let score = it.load(scores);
    let most = it.reduce(Reducer::Max, score);
    it.end_stage(Scope::Loop);
    let before = it.load(most_before);
    let most = it.binary(BinaryOp::Max, before, most);
    let [lowest, zero] = [f64::NEG_INFINITY, 0.0].map(|value| it.constant(value, DType::F32));
    let is_score = it.compare(Compare::Lt, lowest, most);
    let shift = it.select(is_score, most, zero);
    let change = it.binary(BinaryOp::Sub, before, shift);
    let factor = it.math(Math::Exp, change, None);
    it.end_stage(Scope::Point);
    let score = it.load(scores);
    let below = it.binary(BinaryOp::Sub, score, shift);
    let weight = it.math(Math::Exp, below, None);
    it.store(weights, weight);
    let sum = it.reduce(Reducer::Sum, weight);
    it.end_stage(Scope::Loop);
    let before = it.load(sum_before);
    let sum = it.fma(before, factor, sum);
    it.store(most_now, most);
    it.store(sum_now, sum);
    it.store(factor_now, factor);
    it.end_stage(Scope::Point);
    it.finish()
}

/// Builds the elementwise kernel that normalises weights and computes the gradients of scores.
fn slopes() -> Kernel {
    let mut it = KernelBuilder::new(1, 0, LaneAxis::Parallel);
    let [weights, gradients] = [(); 2].map(|()| it.param(DType::F32, Role::Input, StrideClass::Unit));
    let [inverse, mean] = [(); 2].map(|()| it.param(DType::F32, Role::Input, StrideClass::Zero));
    let [normalized, slopes] = [(); 2].map(|()| it.param(DType::F32, Role::Output, StrideClass::Unit));
    let (weight, inverse) = (it.load(weights), it.load(inverse));
    let weight = it.binary(BinaryOp::Mul, weight, inverse);
    let (gradient, mean) = (it.load(gradients), it.load(mean));
    let rest = it.binary(BinaryOp::Sub, gradient, mean);
    let slope = it.binary(BinaryOp::Mul, weight, rest);
    it.store(normalized, weight);
    it.store(slopes, slope);
    it.end_stage(Scope::Point);
    it.finish()
}
