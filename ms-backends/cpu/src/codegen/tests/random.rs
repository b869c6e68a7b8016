//! Random kernels.

use super::harness::{Random, check, targets};
use crate::isa::Isa;
use ms_core::ir::{
    BinaryOp, Compare, Kernel, KernelBuilder, LaneAxis, Reducer, Role, Scope, StrideClass, UnaryOp, Val,
};
use ms_core::tensor::DType;

const DTYPES: [DType; 8] =
    [DType::F32, DType::F32, DType::F64, DType::I32, DType::I64, DType::F16, DType::U8, DType::Bool];

/// A straight-line body over a pool of values.
struct Body<'a> {
    builder: &'a mut KernelBuilder,
    values: Vec<Val>,
}

impl Body<'_> {
    fn of_dtype(&self, dtype: DType, random: &mut Random) -> Option<Val> {
        let fitting: Vec<Val> = self.values.iter().copied().filter(|&it| self.builder.ty(it) == dtype).collect();
        (!fitting.is_empty()).then(|| random.pick(&fitting))
    }

    fn step(&mut self, random: &mut Random) {
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
            6 if dtype.is_int() => self.builder.binary(random.pick(&[BinaryOp::Div, BinaryOp::Rem]), a, b),
            _ => {
                let op = random.pick(&[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Min, BinaryOp::Max]);
                self.builder.binary(op, a, b)
            }
        };
        self.values.push(value);
    }

    /// Uses every value once more, in the order of their making, and stores the sums by dtype.
    fn store_all(&mut self, step: StrideClass, random: &mut Random) {
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

fn inputs(builder: &mut KernelBuilder, random: &mut Random, narrow: bool) -> Vec<Val> {
    let count = 1 + random.below(4);
    (0..count)
        .map(|_| {
            let step = random.pick(&[StrideClass::Unit, StrideClass::Unit, StrideClass::Zero, StrideClass::Any]);
            let dtype = if narrow { random.pick(&[DType::F32, DType::I32]) } else { random.pick(&DTYPES) };
            let param = builder.param(dtype, Role::Input, step);
            builder.load(param)
        })
        .collect()
}

fn elementwise(random: &mut Random, steps: usize, narrow: bool) -> Kernel {
    let par = random.below(3) as u8;
    let mut builder = KernelBuilder::new(par, 0, LaneAxis::Parallel);
    let values = inputs(&mut builder, random, narrow);
    let mut body = Body { builder: &mut builder, values };
    (0..steps).for_each(|_| body.step(random));
    body.store_all(StrideClass::Unit, random);
    builder.end_stage(Scope::Point);
    builder.finish()
}

fn staged(random: &mut Random, steps: usize) -> Kernel {
    let lanes = random.pick(&[LaneAxis::Parallel, LaneAxis::Reduced]);
    let row = if lanes == LaneAxis::Parallel { StrideClass::Unit } else { StrideClass::Zero };
    let (par, seq) = (random.below(2) as u8, random.below(3) as u8);
    let mut builder = KernelBuilder::new(par, seq, lanes);
    let mut visible = Vec::new();
    for i in 0..2 + random.below(3) {
        let scope = if i % 2 == 0 { Scope::Loop } else { Scope::Point };
        let mut values = visible.clone();
        values.extend(inputs(&mut builder, random, false));
        let mut body = Body { builder: &mut builder, values };
        (0..steps).for_each(|_| body.step(random));
        let values = body.values.clone();
        if scope == Scope::Loop {
            for _ in 0..1 + random.below(3) {
                let value = random.pick(&values);
                let reducer = match builder.ty(value) {
                    DType::Bool => random.pick(&[Reducer::All, Reducer::Any]),
                    // What narrow dtypes do after a fold is the business of who builds kernels.
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

#[test]
fn elementwise_kernels() {
    let mut spills = [0, 0];
    for seed in 0..300 {
        let mut random = Random(seed);
        let steps = random.pick(&[3, 10, 40, 150]);
        let narrow = random.below(2) == 0;
        let kernel = elementwise(&mut random, steps, narrow);
        let sizes: Vec<Vec<usize>> =
            [1, 8, 37].iter().map(|&it| [vec![2; kernel.par as usize], vec![it]].concat()).collect();
        for isa in targets() {
            let result = check(&format!("random kernel {seed}"), &kernel, isa, &sizes);
            spills[usize::from(isa == Isa::Avx512)] += result.unwrap_or_else(|error| panic!("{seed}: {error}"));
        }
    }
    for isa in targets() {
        assert!(spills[usize::from(isa == Isa::Avx512)] > 0, "nothing was spilled on {isa}");
    }
}

#[test]
fn staged_kernels() {
    for seed in 1000..1300 {
        let mut random = Random(seed);
        let steps = random.pick(&[2, 6, 30]);
        let kernel = staged(&mut random, steps);
        let sizes: Vec<Vec<usize>> = [1, 8, 37]
            .iter()
            .map(|&it| [vec![2; kernel.par as usize], vec![it], vec![3; kernel.seq as usize]].concat())
            .collect();
        for isa in targets() {
            let result = check(&format!("random kernel {seed}"), &kernel, isa, &sizes);
            result.unwrap_or_else(|error| panic!("{seed}: {error}"));
        }
    }
}
