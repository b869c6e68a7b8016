//! Tests exponentials, whose formula ends in one instruction on AVX-512.

use super::super::compile;
use super::harness::{TARGETS, mapped};
use crate::interp::Interpreted;
use crate::testing::Call;
use ms_ir::data::DType;
use ms_ir::math::expand_all;
use ms_ir::{Kernel, KernelBuilder, LaneAxis, Math, ParamId, Role, Scope, StrideClass, UnaryOp};

/// The number of elements of a call.
const COUNT: usize = 1 << 16;

/// Builds a kernel of the exponential of its elements, or of their negated magnitudes.
fn exponential(dtype: DType, is_negative: bool) -> Kernel {
    let mut builder = KernelBuilder::new(0, 0, LaneAxis::Parallel);
    let [x, y] = [Role::Input, Role::Output].map(|it| builder.param(dtype, it, StrideClass::Unit));
    let mut value = builder.load(x);
    if is_negative {
        value = builder.unary(UnaryOp::Abs, value);
        value = builder.unary(UnaryOp::Neg, value);
    }
    let value = builder.math(Math::Exp, value, None);
    builder.store(y, value);
    builder.end_stage(Scope::Point);
    expand_all(builder.finish())
}

/// Compares exponentials with the interpreter's, for elements with the given bits.
fn check(dtype: DType, calls: usize, bits: impl Fn(usize) -> u64) {
    for kernel in [false, true].map(|it| exponential(dtype, it)) {
        let interpreted = Interpreted::new(kernel.clone());
        let codes = TARGETS.map(|isa| {
            let code = compile(&kernel, isa).unwrap_or_else(|error| panic!("{isa}: {error}"));
            mapped(&kernel, isa, &code.bytes)
        });
        for number in 0..calls {
            let mut inputs = Call::new(&kernel, &[COUNT], &[None, None], 0);
            inputs.fill(ParamId(0), |at| bits(number * COUNT + at));
            let mut want = inputs.clone();
            // SAFETY: `want` was created for `kernel`, so its buffers cover every access.
            unsafe { want.run(&interpreted) };
            for (code, isa) in codes.iter().zip(TARGETS) {
                let Some(code) = code else { continue };
                let mut got = inputs.clone();
                // SAFETY: `code` was compiled from `kernel`, and `got` is a copy of a call of `kernel`.
                unsafe { got.run(code) };
                assert_eq!(got.difference(&want), None, "{dtype} on {isa}, call {number}");
            }
        }
    }
}

/// Covers results of all exponents, subnormals, zeros, infinities and NaNs.
#[test]
fn of_numbers_of_all_sizes() {
    let all = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    check(DType::F32, 1, |at| all(at) >> 32);
    check(DType::F64, 1, all);
    let between = |low: f64, high: f64, at: usize| low + (high - low) * (at as f64 / COUNT as f64);
    for (low, high) in [(-104.5, -86.5), (88.5, 89.0), (-178.0, -175.0), (-1.0, 1.0)] {
        check(DType::F32, 1, |at| (between(low, high, at) as f32).to_bits().into());
    }
    for (low, high) in [(-746.0, -707.0), (709.5, 710.0), (-1420.0, -1416.0), (-1.0, 1.0)] {
        check(DType::F64, 1, |at| between(low, high, at).to_bits());
    }
}

#[test]
#[ignore = "runs for minutes, by hand"]
fn of_every_f32() {
    check(DType::F32, 1 << 16, |at| at as u64);
}
