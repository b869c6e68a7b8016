//! Measures compile and run times. The bounds are generous and only catch changes of the order of magnitude.
//! `cargo test --release -p ms-cpu speed -- --nocapture` prints the numbers.

use super::super::compile;
use super::harness::{TARGETS, mapped};
use super::limits::chain;
use crate::kernel::KernelCode;
use ms_ir::data::DType;
use ms_ir::{
    BinaryOp, Kernel, KernelBuilder, LaneAxis, Reducer, ReductionOrder, Role, Scope, StrideClass, UnaryOp, Val,
};
use std::time::Instant;

/// Returns the least time of several rounds, in nanoseconds per call.
fn nanos(calls: usize, mut call: impl FnMut()) -> f64 {
    let round = |_| {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        start.elapsed().as_secs_f64() * 1e9 / calls as f64
    };
    (0..9).map(round).fold(f64::INFINITY, f64::min)
}

/// Builds e to the power of `x`, for moderate `x`.
fn exp(builder: &mut KernelBuilder, x: Val) -> Val {
    let constant = |it: &mut KernelBuilder, value: f64| it.constant(value, DType::F32);
    let scale = constant(builder, std::f64::consts::LOG2_E);
    let scaled = builder.binary(BinaryOp::Mul, x, scale);
    let whole = builder.unary(UnaryOp::RoundEven, scaled);
    let (upper, lower) = (constant(builder, -0.693_359_375), constant(builder, 2.121_944_4e-4));
    let rest = builder.fma(whole, upper, x);
    let rest = builder.fma(whole, lower, rest);
    let mut sum = constant(builder, 1.0 / 720.0);
    for factor in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        let factor = constant(builder, factor);
        sum = builder.fma(sum, rest, factor);
    }
    let exponent = builder.cast(whole, DType::I32);
    let (bias, shift) = (builder.constant(127, DType::I32), builder.constant(23, DType::I32));
    let biased = builder.binary(BinaryOp::Add, exponent, bias);
    let bits = builder.binary(BinaryOp::Shl, biased, shift);
    let power = builder.bitcast(bits);
    builder.binary(BinaryOp::Mul, sum, power)
}

/// Builds `relu(a * s + b) / (1 + exp(-c))`.
fn gated() -> Kernel {
    let mut builder = KernelBuilder::new(0, 0, LaneAxis::Parallel);
    let params = [StrideClass::Unit, StrideClass::Zero, StrideClass::Unit, StrideClass::Unit]
        .map(|it| builder.param(DType::F32, Role::Input, it));
    let out = builder.param(DType::F32, Role::Output, StrideClass::Unit);
    let [a, s, b, c] = params.map(|it| builder.load(it));
    let (zero, one) = (builder.constant_like(0.0, a), builder.constant_like(1.0, a));
    let product = builder.binary(BinaryOp::Mul, a, s);
    let sum = builder.binary(BinaryOp::Add, product, b);
    let relu = builder.binary(BinaryOp::Max, sum, zero);
    let minus = builder.unary(UnaryOp::Neg, c);
    let power = exp(&mut builder, minus);
    let divisor = builder.binary(BinaryOp::Add, one, power);
    let value = builder.binary(BinaryOp::Div, relu, divisor);
    builder.store(out, value);
    builder.end_stage(Scope::Point);
    builder.finish()
}

fn sum(reducer: Reducer, lanes: LaneAxis) -> Kernel {
    let (par, seq) = if lanes == LaneAxis::Parallel { (0, 1) } else { (1, 0) };
    let mut builder = KernelBuilder::new(par, seq, lanes);
    let input = builder.param(DType::F32, Role::Input, StrideClass::Unit);
    let out = builder.param(
        DType::F32,
        Role::Output,
        if lanes == LaneAxis::Parallel { StrideClass::Unit } else { StrideClass::Zero },
    );
    let value = builder.load(input);
    let total = builder.reduce(reducer, value);
    builder.end_stage(Scope::Loop);
    builder.store(out, total);
    builder.end_stage(Scope::Point);
    builder.finish()
}

fn transposed() -> Kernel {
    let mut builder = KernelBuilder::new(1, 0, LaneAxis::Parallel);
    let input = builder.param(DType::F32, Role::Input, StrideClass::Any);
    let out = builder.param(DType::F32, Role::Output, StrideClass::Unit);
    let value = builder.load(input);
    builder.store(out, value);
    builder.end_stage(Scope::Point);
    builder.finish()
}

#[test]
#[cfg_attr(debug_assertions, ignore = "times optimised code")]
fn compiling() {
    for isa in TARGETS {
        for (name, kernel, limit) in [("gated", gated(), 100e3), ("chain of 600", chain(600), 1e6)] {
            let time = nanos(20, || {
                compile(&kernel, isa).expect("nothing unusual");
            });
            println!("{isa}: {name} compiles in {:.1} us", time / 1e3);
            assert!(time < limit, "{name} on {isa}: {time} ns");
        }
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "times optimised code")]
fn running() {
    let data = vec![0.5f32; 1 << 20];
    let mut result = vec![0f32; 1 << 20];
    let (from, to) = (data.as_ptr() as u64, result.as_mut_ptr() as u64);
    for isa in TARGETS {
        let time = |name: &str, kernel: &Kernel, block: &[u64], elements: usize, limit: f64| {
            let Some(code) = mapped(kernel, isa, &compile(kernel, isa).expect("nothing unusual").bytes) else { return };
            // SAFETY: all addresses of the argument blocks below are in bounds of `data` and `result`.
            let time = nanos((1 << 18) / elements + 1, || unsafe { code.call(block) });
            println!("{isa}: {name} runs in {time:.0} ns, {:.3} per element", time / elements as f64);
            assert!(time < limit * elements as f64, "{name} on {isa}: {time} ns for {elements} elements");
        };
        for n in [4096, 262_144] {
            let block = [n as u64, from, 4, from, 0, from, 4, from, 4, to, 4];
            time(&format!("gated of {n}"), &gated(), &block, n, 3.0);
        }
        time("chain of 600 on one element", &chain(600), &[1, from, 4, from, 4, to, 4], 1, 4000.0);
        time("chain of 1 on one element", &chain(1), &[1, from, 4, from, 4, to, 4], 1, 200.0);
        time("chain of 1 on 4096", &chain(1), &[4096, from, 4, from, 4, to, 4], 4096, 1.0);
        for (name, reducer) in [("sum", Reducer::Sum), ("max", Reducer::Max)] {
            let block = [64, 1024, from, 4096, 4, to, 4, 0];
            time(&format!("{name} of 64 rows of 1024"), &sum(reducer, LaneAxis::Reduced), &block, 64 * 1024, 2.0);
            let block = [1024, 64, from, 4, 4096, to, 4, 0];
            time(&format!("{name} of 1024 columns of 64"), &sum(reducer, LaneAxis::Parallel), &block, 64 * 1024, 2.0);
        }
        let block = [256, 256, from, 4, 1024, to, 1024, 4];
        time("transpose of 256 x 256", &transposed(), &block, 65536, 5.0);
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "times optimised code")]
fn orders_of_reduction() {
    // `n` is the number of elements of a row, or of steps down a column. All cases but the last fit in the L2 cache.
    let data = vec![0.5f32; 1 << 24];
    let mut result = vec![0f32; 1 << 16];
    let (from, to) = (data.as_ptr() as u64, result.as_mut_ptr() as u64);
    for isa in TARGETS {
        for (lanes, squares) in [(LaneAxis::Reduced, false), (LaneAxis::Reduced, true), (LaneAxis::Parallel, false)] {
            let codes = [ReductionOrder::Lanes, ReductionOrder::Blocks].map(|order| {
                let kernel = sums(lanes, squares, order);
                mapped(&kernel, isa, &compile(&kernel, isa).expect("nothing unusual").bytes)
            });
            let [Some(first), Some(second)] = codes else { continue };
            for n in [4, 10, 16, 17, 32, 64, 100, 128, 200, 768, 1000, 4096, 16384, 1 << 24] {
                let (rows, passes) = if n == 1 << 24 { (1, 1) } else { ((1 << 16) / n, 8) };
                let block = match lanes {
                    LaneAxis::Reduced => [rows as u64, n as u64, from, 4 * n as u64, 4, to, 4, 0, to + (1 << 17), 4, 0],
                    LaneAxis::Parallel => {
                        [rows as u64, n as u64, from, 4, 4 * rows as u64, to, 4, 0, to + (1 << 17), 4, 0]
                    }
                };
                let words = if squares { block.len() } else { block.len() - 3 };
                // The rounds are interleaved, so that other load affects both.
                let mut best = [f64::INFINITY; 2];
                for _ in 0..if n == 1 << 24 { 10 } else { 60 } {
                    for (best, code) in best.iter_mut().zip([&first, &second]) {
                        let start = Instant::now();
                        // SAFETY: all addresses of the argument block are in bounds of `data` and `result`.
                        (0..passes).for_each(|_| unsafe { code.call(&block[..words]) });
                        *best = best.min(start.elapsed().as_secs_f64() * 1e9 / (passes * rows) as f64);
                    }
                }
                let ratio = best[1] / best[0];
                println!(
                    "{isa}, {lanes:?}{} of {n}: {:.1} ns in lanes, {:.1} ns in blocks, {ratio:.2}",
                    if squares { " with squares" } else { "" },
                    best[0],
                    best[1]
                );
                assert!(ratio < 6.0, "{isa}, {lanes:?} of {n}");
            }
        }
    }
}

/// Builds the sum of rows or columns, and optionally the sum of their squares.
fn sums(lanes: LaneAxis, squares: bool, order: ReductionOrder) -> Kernel {
    let (par, seq) = if lanes == LaneAxis::Parallel { (0, 1) } else { (1, 0) };
    let mut builder = KernelBuilder::new(par, seq, lanes).with_order(order, 0);
    let step = if lanes == LaneAxis::Parallel { StrideClass::Unit } else { StrideClass::Zero };
    let input = builder.param(DType::F32, Role::Input, StrideClass::Unit);
    let value = builder.load(input);
    let mut sums = vec![builder.reduce(Reducer::Sum, value)];
    if squares {
        let square = builder.binary(BinaryOp::Mul, value, value);
        sums.push(builder.reduce(Reducer::Sum, square));
    }
    builder.end_stage(Scope::Loop);
    for sum in sums {
        let out = builder.param(DType::F32, Role::Output, step);
        builder.store(out, sum);
    }
    builder.end_stage(Scope::Point);
    builder.finish()
}
