//! Tests reductions of every dtype inside other loops, and several reductions at once.

use super::harness::{LANES, TARGETS, check};
use ms_ir::data::DType;
use ms_ir::{BinaryOp, Kernel, KernelBuilder, LaneAxis, Reducer, ReductionOrder, Role, Scope, StrideClass};

/// Returns the extents of `par` parallel loops, the lanes and `seq` reduced loops, for each number of lanes.
fn sizes(par: usize, seq: usize) -> Vec<Vec<usize>> {
    let mut sizes = Vec::new();
    for lanes in LANES {
        for other in [1, 3] {
            let mut extents = vec![2; par];
            extents.push(lanes);
            extents.extend(vec![other; seq]);
            sizes.push(extents);
        }
    }
    if seq > 0 {
        let mut empty = sizes[4].clone();
        *empty.last_mut().expect("at least the lanes") = 0;
        sizes.push(empty);
    }
    sizes
}

/// Returns extents that give several blocks.
fn large(par: usize, seq: usize) -> Vec<Vec<usize>> {
    let extents = |lanes, outer, inner| {
        let mut extents = [vec![1; par], vec![lanes], vec![1; seq]].concat();
        if seq > 0 {
            extents[par + 1] = outer;
            *extents.last_mut().expect("at least the lanes") *= inner;
        }
        extents
    };
    vec![extents(2500, 1, 1), extents(100, 5, 9), extents(7, 3, 70)]
}

#[track_caller]
fn all(what: &str, kernel: &Kernel) {
    for isa in TARGETS {
        let (par, seq) = (kernel.par as usize, kernel.seq as usize);
        for order in [ReductionOrder::Lanes, ReductionOrder::Blocks] {
            let kernel = Kernel { order, ..kernel.clone() };
            let mut sizes = sizes(par, seq);
            if order == ReductionOrder::Blocks {
                sizes.truncate(6);
                sizes.extend(large(par, seq));
            }
            if let Err(error) = check(what, &kernel, isa, &sizes) {
                panic!("{what} on {isa}: {error}");
            }
        }
    }
}

fn output_step(lanes: LaneAxis) -> StrideClass {
    if lanes == LaneAxis::Parallel { StrideClass::Unit } else { StrideClass::Zero }
}

/// Builds a reduction of one buffer.
fn reduction(dtype: DType, reducer: Reducer, lanes: LaneAxis, seq: u8, step: StrideClass, wide: bool) -> Kernel {
    let mut builder = KernelBuilder::new(1, seq, lanes);
    let input = builder.param(dtype, Role::Input, step);
    let value = builder.load(input);
    let sum = builder.reduce(reducer, value);
    let count = wide.then(|| {
        let one = builder.index(1);
        builder.reduce(Reducer::Max, one)
    });
    builder.end_stage(Scope::Loop);
    // The store wraps integers, so they are not widened first.
    let stored = if dtype.is_int() { dtype } else { dtype.compute() };
    let result = builder.cast(sum, stored);
    let out = builder.param(stored, Role::Output, output_step(lanes));
    builder.store(out, result);
    if let Some(count) = count {
        let out = builder.param(DType::I64, Role::Output, output_step(lanes));
        builder.store(out, count);
    }
    builder.end_stage(Scope::Point);
    builder.finish()
}

#[test]
fn every_reducer() {
    for dtype in DType::ALL {
        let reducers: &[Reducer] = match dtype {
            DType::Bool => &[Reducer::All, Reducer::Any],
            _ => &[Reducer::Sum, Reducer::Prod, Reducer::Max, Reducer::Min],
        };
        for &reducer in reducers {
            for lanes in [LaneAxis::Parallel, LaneAxis::Reduced] {
                for (seq, step, wide) in [
                    (0, StrideClass::Unit, false),
                    (0, StrideClass::Unit, true),
                    (1, StrideClass::Unit, false),
                    (2, StrideClass::Any, false),
                    (1, StrideClass::Any, true),
                    (1, StrideClass::Zero, false),
                ] {
                    let kernel = reduction(dtype, reducer, lanes, seq, step, wide);
                    all(&format!("{reducer:?} of {dtype}, {lanes:?}, {step:?}"), &kernel);
                }
            }
        }
    }
}

#[test]
fn many_accumulators() {
    // There are more accumulators than registers, and values from outside the loop.
    for lanes in [LaneAxis::Parallel, LaneAxis::Reduced] {
        for dtype in [DType::F32, DType::F64, DType::I32] {
            for count in [1, 5, 6, 12, 13, 40] {
                let mut builder = KernelBuilder::new(1, 1, lanes);
                let row = builder.param(dtype, Role::Input, output_step(lanes));
                let input = builder.param(dtype, Role::Input, StrideClass::Unit);
                let base = builder.load(row);
                let mut outside = vec![base];
                for i in 1..count {
                    let last = outside[i - 1];
                    outside.push(builder.binary(BinaryOp::Add, last, base));
                }
                builder.end_stage(Scope::Point);
                let x = builder.load(input);
                let mut sums = Vec::new();
                for (i, &other) in outside.iter().enumerate() {
                    let y = builder.binary(BinaryOp::Add, x, other);
                    let reducer = [Reducer::Sum, Reducer::Max, Reducer::Min][i % 3];
                    sums.push(builder.reduce(reducer, y));
                }
                builder.end_stage(Scope::Loop);
                for (&sum, &other) in sums.iter().zip(&outside) {
                    let y = builder.binary(BinaryOp::Sub, sum, other);
                    let out = builder.param(dtype, Role::Output, output_step(lanes));
                    builder.store(out, y);
                }
                builder.end_stage(Scope::Point);
                all(&format!("{count} reductions of {dtype}, {lanes:?}"), &builder.finish());
            }
        }
    }
}

/// Covers reductions without a required order next to a blocked one. Lanes past the end must not change any of them,
/// even for values that are uniform across lanes.
#[test]
fn whole_numbers_beside_blocks() {
    for dtype in [DType::I32, DType::I64, DType::U8, DType::Bool] {
        let reducers: &[Reducer] = match dtype {
            DType::Bool => &[Reducer::All, Reducer::Any],
            _ => &[Reducer::Sum, Reducer::Prod, Reducer::Max, Reducer::Min],
        };
        for &reducer in reducers {
            for (step, wide, floats) in [
                (StrideClass::Unit, false, DType::F32),
                (StrideClass::Unit, true, DType::F32),
                (StrideClass::Zero, false, DType::F32),
                (StrideClass::Zero, true, DType::F32),
                (StrideClass::Zero, true, DType::F64),
            ] {
                let mut builder = KernelBuilder::new(1, 0, LaneAxis::Reduced);
                let [numbers, x] = [(dtype, step), (floats, StrideClass::Unit)]
                    .map(|(dtype, step)| builder.param(dtype, Role::Input, step));
                let [numbers, x] = [numbers, x].map(|it| builder.load(it));
                let mut results = vec![builder.reduce(reducer, numbers), builder.reduce(Reducer::Sum, x)];
                if wide {
                    let number = builder.cast(numbers, DType::I64);
                    results.push(builder.reduce(Reducer::Sum, number));
                }
                builder.end_stage(Scope::Loop);
                for result in results {
                    let out = builder.param(builder.ty(result), Role::Output, StrideClass::Zero);
                    builder.store(out, result);
                }
                builder.end_stage(Scope::Point);
                all(&format!("{reducer:?} of {dtype}, {step:?}, beside {floats}"), &builder.finish());
            }
        }
    }
}
