//! Tests the orders of reduction. The interpreter and the code of every instruction set are compared with scalar code
//! that follows the rules of [`ReductionOrder`] directly.

use super::super::compile;
use super::harness::{TARGETS, mapped};
use crate::interp;
use crate::kernel::KernelCode;
use ms_ir::data::{Array, DType, Element, Scalar};
use ms_ir::{Kernel, KernelBuilder, LaneAxis, Reducer, ReductionOrder, Role, Scope, StrideClass};

/// A dtype of accumulators.
trait Float: Element + std::fmt::Debug {
    const ACCUMULATORS: [usize; 2];
    fn from_f64(value: f64) -> Self;
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
}

impl Float for f32 {
    const ACCUMULATORS: [usize; 2] = [16, 128];
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    fn add(self, other: Self) -> Self {
        self + other
    }
    fn mul(self, other: Self) -> Self {
        self * other
    }
}

impl Float for f64 {
    const ACCUMULATORS: [usize; 2] = [8, 64];
    fn from_f64(value: f64) -> Self {
        value
    }
    fn add(self, other: Self) -> Self {
        self + other
    }
    fn mul(self, other: Self) -> Self {
        self * other
    }
}

/// A reduction of floats.
struct Tree<T> {
    start: f64,
    combine: fn(T, T) -> T,
}

impl<T: Float> Tree<T> {
    fn new(reducer: Reducer) -> Self {
        if reducer == Reducer::Sum {
            Self { start: 0.0, combine: T::add }
        } else {
            Self { start: 1.0, combine: T::mul }
        }
    }

    /// Accumulates elements in round-robin order and reduces the accumulators pairwise.
    fn halves(&self, count: usize, elements: impl Iterator<Item = (usize, T)>) -> T {
        let mut accumulators = vec![T::from_f64(self.start); count];
        for (at, element) in elements {
            accumulators[at % count] = (self.combine)(accumulators[at % count], element);
        }
        let mut half = count / 2;
        while half > 0 {
            for k in 0..half {
                accumulators[k] = (self.combine)(accumulators[k], accumulators[k + half]);
            }
            half /= 2;
        }
        accumulators[0]
    }

    /// Reduces block results to groups, and the groups pairwise.
    fn partials(&self, blocks: impl Iterator<Item = T>) -> T {
        let blocks: Vec<T> = blocks.collect();
        let group = |blocks: &[T]| self.halves(32, blocks.iter().copied().enumerate());
        let mut groups: Vec<T> = blocks.chunks(1024).map(group).collect();
        while groups.len() > 1 {
            groups = groups.chunks(2).map(|it| if let &[a, b] = it { (self.combine)(a, b) } else { it[0] }).collect();
        }
        groups.first().copied().unwrap_or(T::from_f64(self.start))
    }

    /// Reduces rows of one length along the lanes.
    fn rows(&self, order: ReductionOrder, rows: &[Vec<T>]) -> T {
        let numbered = |row: &[T]| row.iter().copied().enumerate().collect::<Vec<_>>();
        let all = |rows: &[Vec<T>]| rows.iter().flat_map(|it| numbered(it)).collect::<Vec<_>>();
        let [few, many] = T::ACCUMULATORS;
        let len = rows.first().map_or(0, Vec::len);
        match order {
            ReductionOrder::Lanes => self.halves(few, all(rows).into_iter()),
            ReductionOrder::Blocks if len > 1024 => {
                let blocks = rows.iter().flat_map(|it| it.chunks(2048));
                self.partials(blocks.map(|it| self.halves(many, numbered(it).into_iter())))
            }
            ReductionOrder::Blocks => {
                let mut power = 1;
                while power < len {
                    power *= 2;
                }
                let blocks = rows.chunks(2048 / power);
                self.partials(blocks.map(|it| self.halves(many, all(it).into_iter())))
            }
        }
    }

    /// Reduces the steps of parallel lanes.
    fn steps(&self, order: ReductionOrder, steps: &[T]) -> T {
        let block = |it: &[T]| it.iter().fold(T::from_f64(self.start), |sum, &it| (self.combine)(sum, it));
        match order {
            ReductionOrder::Lanes => block(steps),
            ReductionOrder::Blocks => self.partials(steps.chunks(64).map(block)),
        }
    }
}

/// The number of points of the result.
const POINTS: usize = 3;

/// A reduction of one buffer of shape `[points, rows, parts, lanes]`, or `[points, rows, lanes]` with parallel lanes.
#[derive(Clone, Copy, Debug)]
struct Case {
    order: ReductionOrder,
    lanes: LaneAxis,
    reducer: Reducer,
    dtype: DType,
    /// The number of logical rows, or of steps of the reduced loops.
    rows: usize,
    /// The number of parts of a row, each a step of a reduced loop. `None` without such a loop.
    parts: Option<usize>,
    /// The extent of the lanes.
    extent: usize,
    /// The step along the lanes.
    step: StrideClass,
}

impl Case {
    fn kernel(&self) -> Kernel {
        let seq = u8::from(self.rows != 1 || self.lanes == LaneAxis::Parallel);
        let run = u8::from(self.parts.is_some());
        let mut builder = KernelBuilder::new(1, seq + run, self.lanes).with_order(self.order, run);
        let input = builder.param(self.dtype, Role::Input, self.step);
        let to = if self.lanes == LaneAxis::Parallel { StrideClass::Unit } else { StrideClass::Zero };
        let outs = [(); 3].map(|()| builder.param(self.dtype.compute(), Role::Output, to));
        let value = builder.load(input);
        let value = builder.cast(value, self.dtype.compute());
        let result = builder.reduce(self.reducer, value);
        let largest = builder.reduce(Reducer::Max, value);
        builder.end_stage(Scope::Loop);
        let value = builder.load(input);
        let value = builder.cast(value, self.dtype.compute());
        let scaled = builder.binary(ms_ir::BinaryOp::Div, value, largest);
        let second = builder.reduce(self.reducer, scaled);
        builder.end_stage(Scope::Loop);
        builder.store(outs[0], result);
        builder.store(outs[1], largest);
        builder.store(outs[2], second);
        builder.end_stage(Scope::Point);
        builder.finish()
    }

    fn check<T: Float + Into<f64>>(&self) {
        let kernel = self.kernel();
        let Self { rows, extent, .. } = *self;
        let parts = self.parts.unwrap_or(1);
        let (per_point, spread) = (rows * parts * extent, if self.step == StrideClass::Any { 2 } else { 1 });
        let data = noise(POINTS * per_point, self.reducer, self.dtype);
        let parallel = self.lanes == LaneAxis::Parallel;
        let input = spread_out(&data, spread);
        let wide: Vec<T> = data
            .on_host()
            .expect("the elements are readable")
            .scalars()
            .into_iter()
            .map(|it| T::from_f64(it.as_f64()))
            .collect();
        // The elements of each result are collected in the order of the reduced loops.
        let rows_of = |at: usize| -> Vec<Vec<T>> {
            if parallel {
                let (point, lane) = (at / extent, at % extent);
                return vec![(0..rows).map(|row| wide[point * per_point + row * extent + lane]).collect()];
            }
            let rows = wide[at * per_point..(at + 1) * per_point].chunks((parts * extent).max(1));
            rows.map(<[T]>::to_vec).collect()
        };
        let tree = Tree::<T>::new(self.reducer);
        let reduce = |rows: &[Vec<T>]| {
            if parallel { tree.steps(self.order, &rows[0]) } else { tree.rows(self.order, rows) }
        };
        let results = if parallel { POINTS * extent } else { POINTS };
        let mut want: [Vec<T>; 3] = Default::default();
        for at in 0..results {
            let rows = rows_of(at);
            let largest = rows.iter().flatten().map(|&it| it.into()).fold(f64::NEG_INFINITY, f64::max);
            want[0].push(reduce(&rows));
            want[1].push(T::from_f64(largest));
            // Both operands are exact in f64, so division there rounds like division in T.
            let scaled =
                rows.iter().map(|row| row.iter().map(|&it| T::from_f64(it.into() / largest)).collect::<Vec<T>>());
            want[2].push(reduce(&scaled.collect::<Vec<_>>()));
        }
        let size = (self.dtype.size() * spread) as i64;
        let mut extents = vec![POINTS as u64, extent as u64];
        let mut from = vec![per_point as i64 * size, size];
        if kernel.seq > kernel.run {
            extents.push(rows as u64);
            from.push((parts * extent) as i64 * size);
        }
        if kernel.loops() > extents.len() {
            extents.push(parts as u64);
            from.push(extent as i64 * size);
        }
        let out = T::DTYPE.size() as i64;
        let mut to = if parallel { vec![extent as i64 * out, out] } else { vec![out, 0] };
        to.resize(kernel.loops(), 0);
        let run = |name: &str, run: &dyn Fn(&[u64])| {
            let outs = [(); 3].map(|()| Array::zeros(&[results], T::DTYPE));
            let mut block = extents.clone();
            for (array, strides) in std::iter::once((&input, &from)).chain(outs.iter().map(|it| (it, &to))) {
                block.push(array.device_ptr() as u64);
                block.extend(strides.iter().map(|&it| it as u64));
            }
            run(&block);
            for (out, want) in outs.iter().zip(&want) {
                let got: Vec<T> = out.on_host().expect("the elements are readable").iter().collect();
                let bits = |it: &T| it.to_scalar().to_bits(T::DTYPE);
                let wrong = got.iter().zip(want).position(|(a, b)| bits(a) != bits(b));
                assert!(wrong.is_none(), "{name}, {self:?}: result {wrong:?} of {got:?} instead of {want:?}");
            }
        };
        // SAFETY: the strides of `block` stay inside the arrays, which outlive the call.
        run("interpreted", &|block| unsafe { interp::run(&kernel, block) });
        for isa in TARGETS {
            let code = compile(&kernel, isa).unwrap_or_else(|error| panic!("{self:?} on {isa}: {error}"));
            let Some(code) = mapped(&kernel, isa, &code.bytes) else { continue };
            // SAFETY: `code` was compiled from `kernel`, and the strides of `block` stay inside the arrays.
            run(isa.name(), &|block| unsafe { code.call(block) });
        }
    }

    fn check_dtype(self) {
        if self.dtype == DType::F64 { self.check::<f64>() } else { self.check::<f32>() }
    }
}

/// Returns random elements of a dtype, near one if the reducer multiplies them.
fn noise(len: usize, reducer: Reducer, dtype: DType) -> Array {
    let mut state = 0x2545_f491_4f6c_dd1d_u64 ^ len as u64;
    let (middle, width) = if reducer == Reducer::Sum { (0.0, 1.0) } else { (1.0, 0.02) };
    let mut array = Array::zeros(&[len], dtype);
    ms_ir::with_element!(dtype, T => {
        for to in array.as_mut_slice::<T>() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *to = T::from_scalar(Scalar::Float(middle + width * ((state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0)));
        }
    });
    array
}

/// Spreads the elements out, with a distance of `by` elements.
fn spread_out(data: &Array, by: usize) -> Array {
    let mut array = Array::zeros(&[data.numel() * by], data.dtype());
    ms_ir::with_element!(data.dtype(), T => {
        for (to, from) in array.as_mut_slice::<T>().iter_mut().step_by(by).zip(data.on_host().expect("the elements are readable").iter::<T>()) {
            *to = from;
        }
    });
    array
}

/// The tested dtypes, reducers and steps along the lanes.
const REDUCTIONS: [(DType, Reducer, StrideClass); 7] = [
    (DType::F32, Reducer::Sum, StrideClass::Unit),
    (DType::F64, Reducer::Sum, StrideClass::Unit),
    (DType::F32, Reducer::Prod, StrideClass::Unit),
    (DType::F32, Reducer::Sum, StrideClass::Any),
    (DType::F64, Reducer::Prod, StrideClass::Any),
    (DType::BF16, Reducer::Sum, StrideClass::Unit),
    (DType::F16, Reducer::Sum, StrideClass::Any),
];

/// Checks every reduction in both orders.
fn check(lanes: LaneAxis, rows: usize, parts: Option<usize>, extent: usize) {
    for (dtype, reducer, step) in REDUCTIONS {
        Case { order: ReductionOrder::Blocks, lanes, reducer, dtype, rows, parts, extent, step }.check_dtype();
    }
    // With the order `Lanes`, rows in parts use different accumulators than the reference.
    for (dtype, reducer, step) in REDUCTIONS.into_iter().take(if parts.is_some() { 0 } else { 2 }) {
        Case { order: ReductionOrder::Lanes, lanes, reducer, dtype, rows, parts, extent, step }.check_dtype();
    }
}

#[test]
fn one_row() {
    for extent in [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 63, 64, 65, 100, 127, 128, 129, 255, 768, 1000, 1023, 1024, 1025] {
        check(LaneAxis::Reduced, 1, None, extent);
    }
    for extent in [2047, 2048, 2049, 2063, 2064, 2176, 4095, 4096, 4097, 6000, 31 * 2048 + 5, 65 * 2048 + 77] {
        check(LaneAxis::Reduced, 1, None, extent);
    }
}

#[test]
fn several_rows() {
    for (rows, extent) in [
        (0, 5),
        (2, 1),
        (7, 8),
        (129, 16),
        (128, 16),
        (200, 10),
        (3000, 3),
        (33, 49),
        (32, 49),
        (31, 64),
        (65, 100),
        (17, 128),
        (9, 200),
        (40, 784),
        (5, 1000),
        (2, 1024),
        (3, 1025),
        (2, 2047),
        (3, 2048),
        (3, 2049),
        (20, 5000),
    ] {
        check(LaneAxis::Reduced, rows, None, extent);
    }
}

#[test]
fn rows_in_parts() {
    for (rows, parts, extent) in [
        (1, 3, 16),
        (1, 8, 16),
        (1, 9, 16),
        (1, 200, 16),
        (1, 5, 48),
        (1, 40, 48),
        (1, 3, 768),
        (1, 100, 768),
        (1, 3, 2048),
        (1, 3, 2064),
        (1, 2, 5008),
        (3, 3, 16),
        (50, 3, 16),
        (50, 3, 112),
        (5, 3, 400),
        (3, 3, 768),
        (1, 0, 16),
    ] {
        check(LaneAxis::Reduced, rows, Some(parts), extent);
    }
}

#[test]
fn columns() {
    for rows in [0, 1, 2, 63, 64, 65, 127, 128, 129, 1000, 31 * 64 + 1, 32 * 64, 33 * 64 + 5, 65 * 64 + 63] {
        for extent in [1, 19] {
            check(LaneAxis::Parallel, rows, None, extent);
        }
    }
    for extent in [8, 16, 17, 64, 100, 515] {
        check(LaneAxis::Parallel, 70, None, extent);
    }
}

/// Covers 1 to 9 groups of blocks, with and without a partial group.
#[test]
fn groups_of_blocks() {
    let blocks =
        [1023, 1024, 1025, 2048, 2049, 3 * 1024, 3 * 1024 + 40, 5 * 1024, 6 * 1024 + 1, 7 * 1024, 8 * 1024 + 33];
    for (number, blocks) in blocks.into_iter().enumerate() {
        let (dtype, reducer, step) = REDUCTIONS[number % REDUCTIONS.len()];
        let case = |lanes, rows, extent| {
            Case { order: ReductionOrder::Blocks, lanes, reducer, dtype, rows, parts: None, extent, step }
                .check_dtype();
        };
        case(LaneAxis::Parallel, blocks * 64 - number, 3);
        if number < 5 {
            case(LaneAxis::Reduced, blocks, 1030);
        }
    }
}

#[test]
fn the_orders_differ() {
    let values: Vec<f32> =
        noise(100, Reducer::Sum, DType::F32).on_host().expect("the elements are readable").iter().collect();
    let tree = Tree::<f32>::new(Reducer::Sum);
    let bits = |order| {
        let rows = tree.rows(order, std::slice::from_ref(&values));
        [rows, tree.steps(order, &values)].map(f32::to_bits)
    };
    let [few, many] = [ReductionOrder::Lanes, ReductionOrder::Blocks].map(bits);
    assert!(few[0] != many[0] && few[1] != many[1]);
}

#[test]
fn reductions_that_have_no_order_share_their_kernels() {
    let kernel = |reducer, dtype| {
        let mut builder = KernelBuilder::new(1, 1, LaneAxis::Reduced).with_order(ReductionOrder::Blocks, 1);
        let input = builder.param(dtype, Role::Input, StrideClass::Unit);
        let value = builder.load(input);
        builder.reduce(reducer, value);
        builder.end_stage(Scope::Loop);
        let kernel = builder.finish();
        (kernel.order, kernel.run)
    };
    assert_eq!(kernel(Reducer::Max, DType::F32), (ReductionOrder::Lanes, 0));
    assert_eq!(kernel(Reducer::Sum, DType::I32), (ReductionOrder::Lanes, 0));
    assert_eq!(kernel(Reducer::Prod, DType::F64), (ReductionOrder::Blocks, 1));
}
