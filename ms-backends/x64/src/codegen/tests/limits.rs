//! Tests large kernels and limits of compile time.

use super::super::{Tuning, compile};
use super::harness::{TARGETS, check, check_for};
use crate::isa::Isa;
use ms_ir::data::DType;
use ms_ir::{BinaryOp, Kernel, KernelBuilder, LaneAxis, Role, Scope, StrideClass, Val};

/// Builds a kernel with `count` values that are computed from one input and all live until the end.
fn live(count: usize, dtype: DType) -> Kernel {
    let mut builder = KernelBuilder::new(0, 0, LaneAxis::Parallel);
    let input = builder.param(dtype, Role::Input, StrideClass::Unit);
    let out = builder.param(dtype, Role::Output, StrideClass::Unit);
    let x = builder.load(input);
    let mut values: Vec<Val> = vec![x];
    for i in 1..count {
        values.push(builder.binary(BinaryOp::Add, values[i - 1], x));
    }
    // Uses follow the order of definition, so that the furthest next use changes at every step.
    let product = values.iter().copied().reduce(|a, b| builder.binary(BinaryOp::Max, a, b)).expect("some values");
    builder.store(out, product);
    builder.end_stage(Scope::Point);
    builder.finish()
}

/// Builds a kernel with a dependency chain of `count` sums.
pub fn chain(count: usize) -> Kernel {
    let mut builder = KernelBuilder::new(0, 0, LaneAxis::Parallel);
    let inputs = [0, 1].map(|_| builder.param(DType::F32, Role::Input, StrideClass::Unit));
    let out = builder.param(DType::F32, Role::Output, StrideClass::Unit);
    let [mut sum, x] = inputs.map(|it| builder.load(it));
    for _ in 0..count {
        sum = builder.binary(BinaryOp::Add, sum, x);
    }
    builder.store(out, sum);
    builder.end_stage(Scope::Point);
    builder.finish()
}

/// Covers bodies with and without copies for adjacent vectors, on whole strips and their remainders.
#[test]
fn bodies_of_every_length() {
    let sizes: Vec<Vec<usize>> = [1, 7, 8, 15, 16, 17, 31, 32, 33, 47, 64, 65, 127, 200].map(|it| vec![it]).into();
    let both = |what: &str, kernel: &Kernel, isa: Isa| {
        check(what, kernel, isa, &sizes).expect("nothing unusual");
        let long = check_for(what, kernel, isa, Tuning::Unrolled, &sizes);
        assert_eq!(
            long.is_ok(),
            (40..=1024).contains(&kernel.insts.len()),
            "{what}: {} instructions",
            kernel.insts.len()
        );
    };
    for isa in TARGETS {
        for count in [1, 36, 37, 38, 60, 300, 1020, 1021, 1022] {
            both(&format!("a chain of {count}"), &chain(count), isa);
        }
        for count in [6, 20, 60] {
            for dtype in [DType::F32, DType::F64, DType::I64, DType::F16] {
                both(&format!("{count} live values"), &live(count, dtype), isa);
            }
        }
    }
}

#[test]
fn many_live_values_spill() {
    for isa in TARGETS {
        for dtype in [DType::F32, DType::F64, DType::I32, DType::F16] {
            for count in [20, 41, 60, 700] {
                let spills = check(&format!("{count} values"), &live(count, dtype), isa, &[vec![1], vec![37]])
                    .unwrap_or_else(|error| panic!("{count} values of {dtype} on {isa}: {error}"));
                let registers = if isa == Isa::Avx2 { 16 } else { 32 };
                assert_eq!(spills > 0, count > registers, "{count} values of {dtype} on {isa}: {spills} spills");
            }
        }
    }
}

#[test]
fn many_live_masks_spill() {
    use ms_ir::Compare;
    let mut builder = KernelBuilder::new(0, 0, LaneAxis::Parallel);
    let input = builder.param(DType::F32, Role::Input, StrideClass::Unit);
    let out = builder.param(DType::Bool, Role::Output, StrideClass::Unit);
    let x = builder.load(input);
    let masks: Vec<Val> = (0..40)
        .map(|i| {
            let limit = builder.constant_like(f64::from(i) * 0.25 - 3.0, x);
            builder.compare(Compare::Lt, x, limit)
        })
        .collect();
    let parity = masks.into_iter().reduce(|a, b| builder.binary(BinaryOp::Xor, a, b)).expect("some masks");
    builder.store(out, parity);
    builder.end_stage(Scope::Point);
    let kernel = builder.finish();
    for isa in TARGETS {
        let spills = check("masks", &kernel, isa, &[vec![1], vec![37]]).expect("nothing unusual");
        assert!(spills > 0, "{isa}");
    }
}

#[test]
fn many_buffers() {
    // There are more buffers than registers for pointers.
    for count in [9, 10, 11, 30] {
        let mut builder = KernelBuilder::new(1, 1, LaneAxis::Parallel);
        let params: Vec<_> = (0..count)
            .map(|i| {
                builder.param(DType::F32, Role::Input, [StrideClass::Unit, StrideClass::Zero, StrideClass::Any][i % 3])
            })
            .collect();
        let out = builder.param(DType::F32, Role::Output, StrideClass::Unit);
        let values: Vec<Val> = params.iter().map(|&it| builder.load(it)).collect();
        let sum = values.into_iter().reduce(|a, b| builder.binary(BinaryOp::Sub, a, b)).expect("some buffers");
        builder.store(out, sum);
        builder.end_stage(Scope::Loop);
        let kernel = builder.finish();
        for isa in TARGETS {
            check(&format!("{count} buffers"), &kernel, isa, &[vec![2, 37, 2]]).expect("nothing unusual");
        }
    }
}

#[test]
fn more_values_than_the_stack_holds_are_refused() {
    for isa in TARGETS {
        let error = compile(&live(20_000, DType::F32), isa).map(|it| it.spills).expect_err("too many values");
        assert!(error.to_string().contains("stack"), "{error}");
    }
}

#[test]
fn the_interpreter_has_no_code() {
    assert!(compile(&chain(1), Isa::Interp).is_err());
}

#[test]
fn code_runs_behind_other_code() {
    use crate::code::{CodeMemory, Compiled};
    use crate::kernel::KernelCode;
    use std::sync::Arc;
    let constant = |value: f64| {
        let mut builder = KernelBuilder::new(0, 0, LaneAxis::Parallel);
        let out = builder.param(DType::F32, Role::Output, StrideClass::Unit);
        let value = builder.constant(value, DType::F32);
        builder.store(out, value);
        builder.end_stage(Scope::Point);
        builder.finish()
    };
    for isa in TARGETS.into_iter().filter(|it| it.is_supported()) {
        let mut all = Vec::new();
        let mut starts = Vec::new();
        let kernels = [1.0, 2.0, 3.0].map(constant);
        for kernel in &kernels {
            all.resize(usize::next_multiple_of(all.len(), 64), 0xcc);
            starts.push(all.len());
            all.extend(compile(kernel, isa).expect("nothing unusual").bytes);
        }
        let Some(memory) = CodeMemory::map(&all) else { return };
        for (i, (start, kernel)) in starts.into_iter().zip(kernels).enumerate() {
            let mut out = [0f32; 21];
            let block = [20, out.as_mut_ptr() as u64, 4];
            // SAFETY: the kernel's code begins at `start`, and the buffer has an element for each lane.
            unsafe { Compiled::new(Arc::new(kernel), memory.clone(), start..all.len()).call(&block) };
            assert_eq!(out[..20], [i as f32 + 1.0; 20], "{isa}");
            assert_eq!(out[20], 0.0, "{isa}");
        }
    }
}

#[test]
fn long_chains() {
    for isa in TARGETS {
        check("a chain", &chain(600), isa, &[vec![0], vec![1], vec![100]]).expect("nothing unusual");
    }
}
