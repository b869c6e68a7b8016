//! Tests every op on every dtype, with elements and constants as operands, and with every lane step.

use super::super::Unsupported;
use super::harness::{LANES, TARGETS, check};
use crate::isa::Isa;
use ms_ir::data::DType;
use ms_ir::{
    BinaryOp, Compare, Inst, Kernel, KernelBuilder, LaneAxis, ParamId, Role, Scope, StrideClass, UnaryOp, Val,
};

/// Builds a kernel with one parallel loop that stores the result of `body` on elements of `inputs`. With `wide` it also
/// has an 8-byte value, so that fewer lanes fit in a vector.
fn map(inputs: &[DType], step: StrideClass, wide: bool, body: impl Fn(&mut KernelBuilder, &[Val]) -> Val) -> Kernel {
    let mut builder = KernelBuilder::new(1, 0, LaneAxis::Parallel);
    let params: Vec<ParamId> = inputs.iter().map(|&it| builder.param(it, Role::Input, step)).collect();
    let values: Vec<Val> = params.iter().map(|&it| builder.load(it)).collect();
    let value = body(&mut builder, &values);
    let out = builder.param(builder.ty(value), Role::Output, StrideClass::Unit);
    builder.store(out, value);
    if wide {
        let position = builder.index(1);
        let positions = builder.param(DType::I64, Role::Output, StrideClass::Unit);
        builder.store(positions, position);
    }
    builder.end_stage(Scope::Point);
    builder.finish()
}

/// Whether the kernel does something that the documentation of [`Unsupported`] names.
fn excused(kernel: &Kernel, isa: Isa) -> bool {
    (kernel.insts.iter().zip(&kernel.types)).any(|(inst, &ty)| match *inst {
        Inst::Cast { value, .. } => {
            let from = kernel.ty(value);
            isa == Isa::Avx2
                && ((from == DType::U64 && ty.is_float()) || (from.is_float() && matches!(ty, DType::U64 | DType::U32)))
        }
        _ => false,
    })
}

#[track_caller]
fn all(what: &str, inputs: &[DType], body: impl Fn(&mut KernelBuilder, &[Val]) -> Val) {
    let sizes: Vec<Vec<usize>> = LANES.iter().map(|&it| vec![2, it]).collect();
    for isa in TARGETS {
        for step in [StrideClass::Unit, StrideClass::Zero, StrideClass::Any] {
            for wide in [false, true] {
                let kernel = map(inputs, step, wide, &body);
                let what = format!("{what} of {inputs:?}, {step:?}");
                let result: Result<usize, Unsupported> = check(&what, &kernel, isa, &sizes);
                match result {
                    Ok(_) => assert!(!excused(&kernel, isa), "{what} works on {isa}: shorten the list"),
                    Err(error) => assert!(excused(&kernel, isa), "{what} on {isa}: {error}"),
                }
            }
        }
    }
}

#[test]
fn unary_ops() {
    use UnaryOp::*;
    for dtype in DType::ALL {
        let ops: &[UnaryOp] = match () {
            () if dtype.is_float() => &[Neg, Abs, Sqrt, Floor, Ceil, Trunc, RoundEven],
            () if dtype.is_int() => &[Neg, Abs, Not],
            () => &[Not],
        };
        for &op in ops {
            all(&format!("{op:?}"), &[dtype], |it, v| it.unary(op, v[0]));
        }
    }
    for dtype in [DType::F32, DType::F64, DType::I32, DType::I64] {
        all("bitcast", &[dtype], |it, v| it.bitcast(v[0]));
    }
}

#[test]
fn binary_ops() {
    use BinaryOp::*;
    for dtype in DType::ALL {
        let ops: &[BinaryOp] = match () {
            () if dtype.is_float() => &[Add, Sub, Mul, Div, Min, Max],
            () if dtype.is_int() => &[Add, Sub, Mul, Div, Rem, Min, Max, And, Or, Xor, Shl, Shr],
            () => &[And, Or, Xor],
        };
        for &op in ops {
            all(&format!("{op:?}"), &[dtype, dtype], |it, v| it.binary(op, v[0], v[1]));
            all(&format!("{op:?} by a constant"), &[dtype], |it, v| {
                let three = it.constant_like(3.0, v[0]);
                it.binary(op, v[0], three)
            });
            all(&format!("{op:?} of a constant"), &[dtype], |it, v| {
                let three = it.constant_like(3.0, v[0]);
                it.binary(op, three, v[0])
            });
        }
    }
}

#[test]
fn extrema_of_constants() {
    for dtype in [DType::F32, DType::F64, DType::F16] {
        for limit in [0.0, -0.0, 1.5, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            for op in [BinaryOp::Min, BinaryOp::Max] {
                for first in [false, true] {
                    all(&format!("{op:?} of {limit}"), &[dtype], |it, v| {
                        let limit = it.constant_like(limit, v[0]);
                        if first { it.binary(op, limit, v[0]) } else { it.binary(op, v[0], limit) }
                    });
                }
            }
        }
    }
}

#[test]
fn wide_products() {
    use BinaryOp::MulWide;
    all("mul_wide", &[DType::U64; 2], |it, v| it.binary(MulWide, v[0], v[1]));
    all("mul_wide by a constant", &[DType::U64], |it, v| {
        let factor = it.constant(-3i64, DType::U64);
        it.binary(MulWide, factor, v[0])
    });
}

#[test]
fn multiply_add() {
    for dtype in [DType::F32, DType::F64, DType::F16] {
        all("fma", &[dtype; 3], |it, v| it.fma(v[0], v[1], v[2]));
        // Each operand is tested as a constant and as a value that is live afterwards.
        for place in 0..3 {
            all("fma with a constant", &[dtype; 3], |it, v| {
                let mut v = [v[0], v[1], v[2]];
                v[place] = it.constant_like(0.75, v[0]);
                it.fma(v[0], v[1], v[2])
            });
            all("fma of a live operand", &[dtype; 3], |it, v| {
                let sum = it.fma(v[0], v[1], v[2]);
                it.binary(BinaryOp::Sub, sum, v[place])
            });
        }
        all("fma of live operands", &[dtype; 3], |it, v| {
            let sum = it.fma(v[0], v[1], v[2]);
            v.iter().fold(sum, |sum, &v| it.binary(BinaryOp::Sub, sum, v))
        });
    }
}

#[test]
fn comparisons_and_selection() {
    for dtype in DType::ALL {
        for op in [Compare::Eq, Compare::Ne, Compare::Lt, Compare::Le] {
            all(&format!("{op:?}"), &[dtype, dtype], |it, v| it.compare(op, v[0], v[1]));
            all(&format!("{op:?} with a constant"), &[dtype], |it, v| {
                let one = it.constant_like(1.0, v[0]);
                it.compare(op, v[0], one)
            });
        }
        all("select", &[DType::Bool, dtype, dtype], |it, v| it.select(v[0], v[1], v[2]));
        all("select of a constant", &[dtype, dtype], |it, v| {
            let less = it.compare(Compare::Lt, v[0], v[1]);
            let zero = it.constant_like(0.0, v[0]);
            it.select(less, zero, v[1])
        });
    }
}

#[test]
fn casts() {
    for from in DType::ALL {
        for to in DType::ALL {
            all(&format!("cast to {to}"), &[from], |it, v| it.cast(v[0], to));
        }
    }
}
