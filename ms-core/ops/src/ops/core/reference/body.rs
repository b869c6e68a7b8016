//! Scalar evaluation of the bodies of elementwise ops.

use crate::ops::core::rules::broadcast_shape;
use crate::tensor::{Array, DType, Element, Scalar, collected};
use ms_ir::error::Result;
use ms_ir::math::expand_all;
use ms_ir::{BinaryOp, Compare, Inst, Kernel, KernelBuilder, LaneAxis, Role, Scope, StrideClass, UnaryOp, Val};

/// Runs the body that `build` builds from one value per array, on arrays that broadcast.
///
/// # Errors
/// [`Code::Shape`](crate::Code::Shape) when the shapes do not broadcast.
pub fn evaluate_body(
    build: impl FnOnce(&mut KernelBuilder, &[Val]) -> Val,
    dtype: DType,
    inputs: &[&Array],
) -> Result<Array> {
    let shape = broadcast_shape(inputs.iter().map(|it| it.shape()))?;
    let mut builder = KernelBuilder::new(0, 0, LaneAxis::Parallel);
    let operands: Vec<Val> = inputs
        .iter()
        .map(|it| {
            let param = builder.param(it.dtype(), Role::Input, StrideClass::Unit);
            builder.load(param)
        })
        .collect();
    let result = build(&mut builder, &operands);
    let out = builder.param(dtype, Role::Output, StrideClass::Unit);
    builder.store(out, result);
    builder.end_stage(Scope::Point);
    let kernel = expand_all(builder.finish());

    let columns = inputs
        .iter()
        .map(|it| {
            let values = it.with_layout(it.layout().broadcast_to(&shape)?).on_host()?.scalars();
            Ok(collected(values.into_iter().map(|value| value.to_bits(it.dtype().compute()))))
        })
        .collect::<Result<Vec<Vec<u64>>>>()?;
    let mut values = vec![0; kernel.insts.len()];
    Ok(Array::from_scalars(&shape, dtype, &mut |i| {
        let stored = run(&kernel, &mut values, |param| columns[param][i]);
        Scalar::from_bits(stored, dtype.compute())
    }))
}

/// Runs a body once, and returns the bits that it stores.
fn run(kernel: &Kernel, values: &mut [u64], load: impl Fn(usize) -> u64) -> u64 {
    let mut stored = 0;
    for (i, inst) in kernel.insts.iter().enumerate() {
        let of = |val: Val| values[val.0 as usize];
        let ty = kernel.types[i];
        values[i] = match *inst {
            Inst::Load(param) => load(param.0 as usize),
            Inst::Store(_, val) => {
                stored = of(val);
                stored
            }
            Inst::Const(bits) => bits,
            Inst::Unary(op, a) => unary(op, kernel.ty(a), of(a)),
            Inst::Binary(op, a, b) => binary(op, ty, of(a), of(b)),
            Inst::Fma(a, b, c) if ty == DType::F32 => f32_bits(f32_of(of(a)).mul_add(f32_of(of(b)), f32_of(of(c)))),
            Inst::Fma(a, b, c) => f64::from_bits(of(a)).mul_add(f64::from_bits(of(b)), f64::from_bits(of(c))).to_bits(),
            Inst::Compare(op, a, b) => compare(op, kernel.ty(a), of(a), of(b)) as u64,
            Inst::Select(condition, then, other) => of(if of(condition) != 0 { then } else { other }),
            Inst::Cast { value, to } => {
                let narrow = Scalar::from_bits(of(value), kernel.ty(value)).to_bits(to);
                Scalar::from_bits(narrow, to).to_bits(to.compute())
            }
            Inst::Math(..) => unreachable!("functions were expanded"),
            Inst::Index(_) | Inst::Gather(..) | Inst::Reduce(..) | Inst::Carry(_) | Inst::While(_) | Inst::Next(..) => {
                unreachable!("the body of an elementwise op has neither loops nor positions")
            }
        };
    }
    stored
}

fn f32_of(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn f32_bits(value: f32) -> u64 {
    value.to_bits() as u64
}

macro_rules! float_unary {
    ($op:expr, $a:expr) => {{
        let a = $a;
        match $op {
            UnaryOp::Neg => -a,
            UnaryOp::Abs => a.abs(),
            UnaryOp::Sqrt => a.sqrt(),
            UnaryOp::Floor => a.floor(),
            UnaryOp::Ceil => a.ceil(),
            UnaryOp::Trunc => a.trunc(),
            UnaryOp::RoundEven => a.round_ties_even(),
            UnaryOp::Not | UnaryOp::Bitcast => unreachable!("no op on a float value"),
        }
    }};
}

fn unary(op: UnaryOp, ty: DType, a: u64) -> u64 {
    match (op, ty) {
        (UnaryOp::Bitcast, _) => a,
        (UnaryOp::Not, DType::Bool) => (a == 0) as u64,
        (_, DType::F32) => f32_bits(float_unary!(op, f32_of(a))),
        (_, DType::F64) => float_unary!(op, f64::from_bits(a)).to_bits(),
        _ => {
            let value = Scalar::from_bits(a, ty).as_i64();
            let value = match op {
                UnaryOp::Neg => value.wrapping_neg(),
                UnaryOp::Abs => value.wrapping_abs(),
                UnaryOp::Not => !value,
                other => unreachable!("{other:?} of an integer"),
            };
            Scalar::Int(value).to_bits(ty)
        }
    }
}

macro_rules! float_binary {
    ($op:expr, $a:expr, $b:expr, $nan:expr) => {{
        let (a, b) = ($a, $b);
        match $op {
            BinaryOp::Add => a + b,
            BinaryOp::Sub => a - b,
            BinaryOp::Mul => a * b,
            BinaryOp::Div => a / b,
            BinaryOp::Min | BinaryOp::Max if a.is_nan() || b.is_nan() => $nan,
            BinaryOp::Min if a == b => {
                if a.is_sign_negative() {
                    a
                } else {
                    b
                }
            }
            BinaryOp::Max if a == b => {
                if a.is_sign_negative() {
                    b
                } else {
                    a
                }
            }
            BinaryOp::Min => a.min(b),
            BinaryOp::Max => a.max(b),
            other => unreachable!("{other:?} of floats"),
        }
    }};
}

macro_rules! int_binary {
    ($int:ty, $op:expr, $a:expr, $b:expr) => {{
        let (a, b) = ($a as $int, $b as $int);
        let amount = u32::try_from(b).ok().filter(|&it| it < <$int>::BITS);
        let out = match $op {
            BinaryOp::Add => a.wrapping_add(b),
            BinaryOp::Sub => a.wrapping_sub(b),
            BinaryOp::Mul => a.wrapping_mul(b),
            BinaryOp::Div | BinaryOp::Rem if b == 0 => 0,
            BinaryOp::Div => a.wrapping_div(b),
            BinaryOp::Rem => a.wrapping_rem(b),
            BinaryOp::Min => a.min(b),
            BinaryOp::Max => a.max(b),
            BinaryOp::And => a & b,
            BinaryOp::Or => a | b,
            BinaryOp::Xor => a ^ b,
            BinaryOp::Shl => amount.map_or(0, |it| a << it),
            BinaryOp::MulWide => (a as u32 as u64).wrapping_mul(b as u32 as u64) as $int,
            BinaryOp::Shr => amount.map_or((a >> (<$int>::BITS / 2)) >> (<$int>::BITS / 2), |it| a >> it),
        };
        Scalar::from(out).to_bits(<$int>::DTYPE)
    }};
}

fn binary(op: BinaryOp, ty: DType, a: u64, b: u64) -> u64 {
    match ty {
        DType::F32 => f32_bits(float_binary!(op, f32_of(a), f32_of(b), f32::NAN)),
        DType::F64 => float_binary!(op, f64::from_bits(a), f64::from_bits(b), f64::NAN).to_bits(),
        DType::I32 => int_binary!(i32, op, a, b),
        DType::I64 => int_binary!(i64, op, a, b),
        DType::U32 => int_binary!(u32, op, a, b),
        DType::U64 => int_binary!(u64, op, a, b),
        DType::Bool => match op {
            BinaryOp::And | BinaryOp::Min => a & b,
            BinaryOp::Or | BinaryOp::Max => a | b,
            BinaryOp::Xor => a ^ b,
            other => unreachable!("{other:?} of bools"),
        },
        other => unreachable!("{other} is no compute dtype"),
    }
}

fn compare(op: Compare, ty: DType, a: u64, b: u64) -> bool {
    let order = match (Scalar::from_bits(a, ty), Scalar::from_bits(b, ty)) {
        (Scalar::Float(a), Scalar::Float(b)) => a.partial_cmp(&b),
        (Scalar::UInt(a), Scalar::UInt(b)) => Some(a.cmp(&b)),
        (a, b) => Some(a.as_i64().cmp(&b.as_i64())),
    };
    match op {
        Compare::Eq => order.is_some_and(|it| it.is_eq()),
        Compare::Ne => !order.is_some_and(|it| it.is_eq()),
        Compare::Lt => order.is_some_and(|it| it.is_lt()),
        Compare::Le => order.is_some_and(|it| it.is_le()),
    }
}
