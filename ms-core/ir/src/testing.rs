//! Generates random choices and random well-formed kernels, for tests and fuzz targets.

use super::{
    BinaryOp, Compare, Kernel, KernelBuilder, LaneAxis, Reducer, ReductionOrder, Role, Scope, StrideClass, UnaryOp, Val,
};
use crate::data::DType;

/// A source of choices: a generator (SplitMix64), or bytes from the caller.
pub enum Random<'a> {
    /// The state of the generator.
    Seed(u64),
    /// The source bytes, one or more for each choice; zeros after the end.
    Bytes(&'a [u8]),
}

impl Random<'_> {
    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        match self {
            Self::Seed(state) => {
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                z ^ (z >> 31)
            }
            Self::Bytes(_) => (0..8).fold(0, |bits, _| bits << 8 | self.byte()),
        }
    }

    /// Returns a number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        let bits = match self {
            Self::Bytes(_) if end <= 1 << 8 => self.byte(),
            _ => self.bits(),
        };
        (bits % end as u64) as usize
    }

    /// Returns a random item.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Returns the next byte.
    fn byte(&mut self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.split_off_first().copied().unwrap_or(0).into(),
            Self::Seed(_) => self.bits() & 0xff,
        }
    }
}

const DTYPES: [DType; 8] =
    [DType::F32, DType::F32, DType::F64, DType::I32, DType::I64, DType::F16, DType::U8, DType::Bool];

/// A straight-line body over a pool of values.
struct Body<'a> {
    builder: &'a mut KernelBuilder,
    values: Vec<Val>,
}

impl Body<'_> {
    fn of_dtype(&self, dtype: DType, random: &mut Random<'_>) -> Option<Val> {
        let fitting: Vec<Val> = self.values.iter().copied().filter(|&it| self.builder.ty(it) == dtype).collect();
        (!fitting.is_empty()).then(|| random.pick(&fitting))
    }

    fn step(&mut self, random: &mut Random<'_>) {
        let a = random.pick(&self.values);
        let dtype = self.builder.ty(a);
        let b = self.of_dtype(dtype, random).unwrap_or(a);
        let value = match random.below(8) {
            0 => {
                let truth = self.of_dtype(DType::Bool, random);
                match truth {
                    Some(truth) => self.builder.select(truth, a, b),
                    None => self.builder.compare(Compare::Lt, a, b),
                }
            }
            1 => {
                let op = random.pick(&[Compare::Eq, Compare::Ne, Compare::Lt, Compare::Le]);
                self.builder.compare(op, a, b)
            }
            2 => self.builder.cast(a, random.pick(&DTYPES)),
            3 if dtype.is_float() => {
                let c = self.of_dtype(dtype, random).unwrap_or(a);
                self.builder.fma(a, b, c)
            }
            4 if dtype.is_float() => {
                let op = random.pick(&[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Floor, UnaryOp::RoundEven]);
                self.builder.unary(op, a)
            }
            5 => {
                let constant = self.builder.constant_like(random.below(5) as f64 - 1.0, a);
                if dtype == DType::Bool {
                    self.builder.binary(BinaryOp::Xor, constant, a)
                } else {
                    self.builder.binary(BinaryOp::Sub, constant, a)
                }
            }
            _ if dtype == DType::Bool => {
                let op = random.pick(&[BinaryOp::And, BinaryOp::Or, BinaryOp::Xor]);
                self.builder.binary(op, a, b)
            }
            6 if dtype == DType::I64 && random.below(2) == 0 => {
                let [a, b] = [a, b].map(|it| self.builder.cast(it, DType::U64));
                let product = self.builder.binary(BinaryOp::MulWide, a, b);
                self.builder.cast(product, DType::I64)
            }
            6 if dtype.is_int() => self.builder.binary(random.pick(&[BinaryOp::Div, BinaryOp::Rem]), a, b),
            _ => {
                let op = random.pick(&[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Min, BinaryOp::Max]);
                self.builder.binary(op, a, b)
            }
        };
        self.values.push(value);
    }

    /// Combines all values of each dtype, in order of their definition, and stores the results.
    fn store_all(&mut self, step: StrideClass, random: &mut Random<'_>) {
        for dtype in [DType::F32, DType::F64, DType::I32, DType::I64, DType::F16, DType::U8, DType::Bool] {
            let of: Vec<Val> = self.values.iter().copied().filter(|&it| self.builder.ty(it) == dtype).collect();
            let Some((&first, rest)) = of.split_first() else { continue };
            let op = if dtype == DType::Bool { BinaryOp::Xor } else { random.pick(&[BinaryOp::Add, BinaryOp::Max]) };
            let sum = rest.iter().fold(first, |sum, &it| self.builder.binary(op, sum, it));
            let out = self.builder.param(dtype, Role::Output, step);
            self.builder.store(out, sum);
        }
    }
}

fn inputs(builder: &mut KernelBuilder, random: &mut Random<'_>, narrow: bool) -> Vec<Val> {
    let count = 1 + random.below(4);
    (0..count)
        .map(|_| {
            let step = random.pick(&[StrideClass::Unit, StrideClass::Unit, StrideClass::Zero, StrideClass::Any]);
            let dtype = if narrow { random.pick(&[DType::F32, DType::I32]) } else { random.pick(&DTYPES) };
            let role = match (dtype, step) {
                (DType::I64, _) if random.below(4) == 0 => Role::Iota,
                (_, StrideClass::Zero) if random.below(2) == 0 => Role::Immediate,
                _ => Role::Input,
            };
            let param = builder.param(dtype, role, step);
            let value = builder.load(param);
            if random.below(4) == 0 { gathered(builder, random, value) } else { value }
        })
        .collect()
}

/// Gathers an element at an index computed from a value, mostly inside the axis.
fn gathered(builder: &mut KernelBuilder, random: &mut Random<'_>, value: Val) -> Val {
    let step = random.pick(&[StrideClass::Unit, StrideClass::Zero, StrideClass::Any]);
    let param = builder.param(random.pick(&DTYPES), Role::Indexed, step);
    let position = builder.cast(value, DType::I64);
    let bound = builder.constant(random.pick(&[7i64, 5, 1 << 40]), DType::I64);
    let position = builder.binary(BinaryOp::Rem, position, bound);
    builder.gather(param, position)
}

/// Generates a kernel with the lanes along an axis of the result, of some `steps` instructions. A `narrow` one has no
/// eight-byte values initially.
pub fn elementwise(random: &mut Random<'_>, steps: usize, narrow: bool) -> Kernel {
    let par = random.below(3) as u8;
    let mut builder = KernelBuilder::new(par, 0, LaneAxis::Parallel);
    let values = inputs(&mut builder, random, narrow);
    let mut body = Body { builder: &mut builder, values };
    (0..steps).for_each(|_| body.step(random));
    body.store_all(StrideClass::Unit, random);
    builder.end_stage(Scope::Point);
    builder.finish()
}

/// Generates a kernel like [`elementwise`], with a loop of up to five iterations around its instructions. Some of its
/// values are carries.
pub fn repeated(random: &mut Random<'_>, steps: usize, narrow: bool) -> Kernel {
    let par = random.below(2) as u8;
    let mut builder = KernelBuilder::new(par, 0, LaneAxis::Parallel);
    let mut values = inputs(&mut builder, random, narrow);
    let mut body = Body { builder: &mut builder, values: values.clone() };
    (0..random.below(4)).for_each(|_| body.step(random));
    values.append(&mut body.values);
    let counter = random.pick(&[DType::I32, DType::F32]);
    let [first, count] = [0, random.below(6)].map(|it| builder.constant(it as i64, counter));
    builder.end_stage(Scope::Point);
    let at = builder.carry(first);
    let firsts: Vec<Val> = (0..random.below(8)).map(|_| random.pick(&values)).collect();
    let carries: Vec<Val> = firsts.into_iter().map(|it| builder.carry(it)).collect();
    values.extend(&carries);
    let mut body = Body { builder: &mut builder, values };
    // Values that the condition does not need may also come before it.
    (0..random.below(3)).for_each(|_| body.step(random));
    let goes_on = body.builder.compare(Compare::Lt, at, count);
    body.builder.end_unless(goes_on);
    (0..steps).for_each(|_| body.step(random));
    let next: Vec<Val> = (carries.iter())
        .map(|&it| body.of_dtype(body.builder.ty(it), random).expect("the carry itself has its dtype"))
        .collect();
    let one = builder.constant(1i64, counter);
    let following = builder.binary(BinaryOp::Add, at, one);
    builder.next(at, following);
    for (&carry, &value) in carries.iter().zip(&next) {
        builder.next(carry, value);
    }
    builder.end_stage(Scope::Repeat);
    let mut body = Body { builder: &mut builder, values: [vec![at], carries].concat() };
    (0..random.below(4)).for_each(|_| body.step(random));
    body.store_all(StrideClass::Unit, random);
    builder.end_stage(Scope::Point);
    builder.finish()
}

/// Generates a kernel of two to four stages of about `steps` instructions each, and one that stores.
pub fn staged(random: &mut Random<'_>, steps: usize) -> Kernel {
    let lanes = random.pick(&[LaneAxis::Parallel, LaneAxis::Reduced]);
    let row = if lanes == LaneAxis::Parallel { StrideClass::Unit } else { StrideClass::Zero };
    let (par, seq) = (random.below(2) as u8, random.below(3) as u8);
    let order = random.pick(ReductionOrder::ALL);
    let mut builder = KernelBuilder::new(par, seq, lanes).with_order(order, random.below(1 + seq as usize) as u8);
    let (mut visible, mut stored) = (Vec::new(), Vec::new());
    for i in 0..2 + random.below(3) {
        let scope = if i % 2 == 0 { Scope::Loop } else { Scope::Point };
        let mut values = visible.clone();
        values.extend(inputs(&mut builder, random, false));
        if scope == Scope::Loop {
            values.extend(stored.iter().map(|&it| builder.load(it)));
        }
        let mut body = Body { builder: &mut builder, values };
        (0..steps).for_each(|_| body.step(random));
        let values = body.values.clone();
        if scope == Scope::Loop {
            if random.below(2) == 0 {
                let value = random.pick(&values);
                let role = random.pick(&[Role::Reloaded, Role::Scratch]);
                let out = builder.param(builder.ty(value), role, StrideClass::Unit);
                builder.store(out, value);
                stored.push(out);
            }
            for _ in 0..1 + random.below(3) {
                let value = random.pick(&values);
                let reducer = match builder.ty(value) {
                    DType::Bool => random.pick(&[Reducer::All, Reducer::Any]),
                    // Rounding narrow dtypes after a reduction is up to the builder of the kernel.
                    dtype if dtype != dtype.compute() => continue,
                    _ => random.pick(&[Reducer::Sum, Reducer::Prod, Reducer::Max, Reducer::Min]),
                };
                visible.push(builder.reduce(reducer, value));
            }
        } else {
            visible = values;
        }
        builder.end_stage(scope);
    }
    let mut body = Body { builder: &mut builder, values: visible };
    body.store_all(row, random);
    builder.end_stage(Scope::Point);
    builder.finish()
}
