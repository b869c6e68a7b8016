//! Provides the entry point of the fuzz target: arbitrary bytes must be either invalid, or a kernel with the same
//! results on every instruction set.

use super::call::{Call, LANES};
use crate::code::{CodeMemory, Compiled};
use crate::codegen;
use crate::interp::Interpreted;
use crate::isa::Isa;
use ms_ir::data::{DType, Scalar};
use ms_ir::math::expand_all;
use ms_ir::testing::{Random, elementwise, repeated, staged};
use ms_ir::{BinaryOp, Inst, Kernel, Reducer, Scope, UnaryOp, Val};
use std::sync::Arc;

/// Limits of loops, buffers and instructions. Larger kernels take time and find no other errors.
const MOST: (usize, usize, usize) = (5, 40, 2000);

/// Parses bytes as a kernel and runs it on small operands. Returns whether the bytes are valid. They are the text of a
/// kernel up to the first run of a `tests/kernels` file, or else the choices of a random kernel.
///
/// # Panics
/// If the printed kernel parses as a different kernel. If generated code writes outside operands, or differs from the
/// interpreter.
pub fn kernel(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes).ok().filter(|it| it.contains("kernel"));
    let (kernel, random) = match text {
        Some(text) => {
            let Ok(kernel) = Kernel::parse(text.split("\nrun").next().unwrap_or(text)) else { return false };
            (kernel, &mut Random::Seed(bytes.len() as u64))
        }
        None => {
            let mut random = Random::Bytes(bytes);
            let (steps, form) = (random.below(32), random.below(5));
            let kernel = match form {
                0 | 1 => elementwise(&mut random, steps, form == 0),
                2 => staged(&mut random, steps % 12),
                _ => repeated(&mut random, steps, form == 3),
            };
            assert!(kernel.check().is_ok(), "a random kernel is well formed:\n{kernel}");
            (kernel, &mut { random })
        }
    };
    let again = Kernel::parse(&kernel.to_string()).expect("what was printed is read");
    if kernel.check().is_err() {
        return false;
    }
    assert_eq!(again, kernel, "what was printed is read as the same");
    // A loop in a kernel from text may not terminate.
    if text.is_some() && kernel.stages.iter().any(|it| it.scope == Scope::Repeat) {
        return true;
    }
    let kernel = expand_all(kernel);
    if kernel.loops() > MOST.0 || kernel.params.len() > MOST.1 || kernel.insts.len() > MOST.2 {
        return true;
    }
    let mut extents: Vec<usize> = (0..kernel.loops()).map(|_| random.pick(&[2, 1, 3, 2, 3, 2, 1, 0])).collect();
    extents[kernel.par as usize] = random.pick(&LANES);
    if !kernel.takes(&extents) {
        extents[kernel.par as usize] = random.pick(&[16, 48, 144]);
    }
    let mut want = Call::random(&kernel, &extents, random, 0xc3c3_c3c3_c3c3_c3c3);
    let inputs = want.clone();
    // SAFETY: `want` was created for this kernel, so its buffers cover every access.
    unsafe { want.run(&Interpreted::new(kernel.clone())) };
    assert!(want.is_intact(), "the interpreter writes around operands\n{kernel}");
    for isa in [Isa::Avx2, Isa::Avx512].into_iter().filter(|it| it.is_supported()) {
        let Ok(code) = codegen::compile(&kernel, isa) else { continue };
        let Some(memory) = CodeMemory::map(&code.bytes) else { return true };
        // The guards differ, so that code that reads them gives other results.
        let mut got = inputs.with_guard(0x3c3c_3c3c_3c3c_3c3c);
        // SAFETY: the memory contains the kernel's code, and `got` is a call of the kernel.
        unsafe { got.run(&Compiled::new(Arc::new(kernel.clone()), memory, 0..code.bytes.len())) };
        assert!(got.is_intact(), "{isa} writes around operands\n{kernel}");
        if let Some(difference) = got.difference(&want).filter(|_| is_determined(&kernel)) {
            panic!("{isa}: {difference}\n{kernel}");
        }
    }
    true
}

/// Returns whether the kernel's results are bitwise equal on all instruction sets. They are if the kernel does not
/// depend on NaN payloads and stores no float that a narrow buffer cannot represent.
fn is_determined(kernel: &Kernel) -> bool {
    kernel.insts.iter().all(|inst| match *inst {
        Inst::Unary(UnaryOp::Bitcast, value) => !kernel.ty(value).is_float(),
        Inst::Store(param, value) => holds(kernel, kernel.params[param.0 as usize].dtype, value),
        _ => true,
    })
}

/// Returns whether a buffer's `dtype` represents a value exactly, or is not a float.
fn holds(kernel: &Kernel, dtype: DType, value: Val) -> bool {
    if dtype == dtype.compute() || !dtype.is_float() {
        return true;
    }
    let mut held: Vec<bool> = Vec::with_capacity(value.0 as usize + 1);
    for (inst, &ty) in kernel.insts.iter().zip(&kernel.types).take(value.0 as usize + 1) {
        let of = |val: Val| held[val.0 as usize];
        held.push(match *inst {
            Inst::Load(param) | Inst::Gather(param, _) => kernel.params[param.0 as usize].dtype == dtype,
            Inst::Const(bits) => {
                let narrow = Scalar::from_bits(bits, ty).to_bits(dtype);
                Scalar::from_bits(narrow, dtype).to_bits(ty) == bits
            }
            Inst::Unary(
                UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Trunc | UnaryOp::RoundEven,
                a,
            ) => of(a),
            Inst::Binary(BinaryOp::Min | BinaryOp::Max, a, b) | Inst::Select(_, a, b) => of(a) && of(b),
            Inst::Cast { to, .. } => to == dtype,
            Inst::Reduce(Reducer::Min | Reducer::Max, a) => of(a),
            _ => false,
        });
    }
    held[value.0 as usize]
}
