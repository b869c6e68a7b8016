//! Expansion of transcendental functions in kernels to formulas.

use super::{
    acos, acosh, asin, asinh, atan, atan2, atanh, cos, cosh, erf, erfc, exp, exp_nonpositive, expm1, log, log1p, pow,
    rsqrt, sin, sinh, tan, tanh,
};
use crate::body::{Expr, body};
use crate::data::DType;
use crate::{Inst, Kernel, KernelBuilder, LaneAxis, Math, Role, Scope, Sign, StrideClass, Val};
use std::sync::OnceLock;

/// Builds the formula of a function of one or two operands.
pub fn formula<'s>(math: Math, x: Expr<'s>, y: Option<Expr<'s>>) -> Expr<'s> {
    let y = || y.expect("a function of two values has two operands");
    match math {
        Math::Rsqrt => rsqrt(x),
        Math::Exp => exp(x),
        Math::Expm1 => expm1(x),
        Math::Log => log(x),
        Math::Log1p => log1p(x),
        Math::Sin => sin(x),
        Math::Cos => cos(x),
        Math::Tan => tan(x),
        Math::Asin => asin(x),
        Math::Acos => acos(x),
        Math::Atan => atan(x),
        Math::Sinh => sinh(x),
        Math::Cosh => cosh(x),
        Math::Tanh => tanh(x),
        Math::Asinh => asinh(x),
        Math::Acosh => acosh(x),
        Math::Atanh => atanh(x),
        Math::Erf => erf(x),
        Math::Erfc => erfc(x),
        Math::Pow => pow(x, y()),
        Math::Atan2 => atan2(x, y()),
    }
}

/// The formula of a function in one dtype, as instructions.
pub struct Expansion {
    /// The kernel begins with a load for each operand, and has no other loads.
    kernel: Kernel,
    arity: usize,
    result: Val,
}

impl Expansion {
    /// Returns the expansion of a function of f32 or f64.
    pub fn of(math: Math, dtype: DType) -> &'static Self {
        static KNOWN: [[OnceLock<Expansion>; 2]; Math::ALL.len()] =
            [const { [const { OnceLock::new() }; 2] }; Math::ALL.len()];
        KNOWN[math as usize][usize::from(dtype == DType::F64)]
            .get_or_init(|| Self::new(math.arity(), dtype, |x, y| formula(math, x, y)))
    }

    /// Returns the expansion for a first operand of this sign, which has fewer instructions and the same bits.
    fn of_sign(math: Math, dtype: DType, sign: Sign) -> &'static Self {
        static DECAYING: [OnceLock<Expansion>; 2] = [const { OnceLock::new() }; 2];
        match (math, sign) {
            (Math::Exp, Sign::NotPositive) => DECAYING[usize::from(dtype == DType::F64)]
                .get_or_init(|| Self::new(1, dtype, |x, _| exp_nonpositive(x))),
            _ => Self::of(math, dtype),
        }
    }

    fn new(arity: usize, dtype: DType, of: impl for<'s> Fn(Expr<'s>, Option<Expr<'s>>) -> Expr<'s>) -> Self {
        let mut builder = KernelBuilder::new(0, 0, LaneAxis::Parallel);
        let mut operand = || {
            let param = builder.param(dtype, Role::Input, StrideClass::Unit);
            builder.load(param)
        };
        let result = match arity {
            1 => {
                let operands = [operand()];
                body(&mut builder, &operands, |[x]| of(x, None))
            }
            _ => {
                let operands = [operand(), operand()];
                body(&mut builder, &operands, |[x, y]| of(x, Some(y)))
            }
        };
        builder.end_stage(Scope::Point);
        Self { kernel: builder.finish(), arity, result }
    }

    /// Returns the number of instructions.
    pub fn cost(&self) -> usize {
        self.kernel.insts.len() - self.arity
    }

    /// Whether the expansion has 8-byte values.
    pub fn is_wide(&self) -> bool {
        self.kernel.types.iter().any(|it| it.size() == 8)
    }

    /// Appends the instructions to a body, and returns the result.
    fn add_to(&self, insts: &mut Vec<Inst>, types: &mut Vec<DType>, operands: &[Val]) -> Val {
        let first = insts.len();
        let place = |val: Val| match operands.get(val.0 as usize) {
            Some(&operand) => operand,
            None => Val((first + val.0 as usize - self.arity) as u32),
        };
        for (inst, ty) in self.kernel.insts.iter().zip(&self.kernel.types).skip(self.arity) {
            let mut inst = *inst;
            inst.operands_mut().into_iter().flatten().for_each(|it| *it = place(*it));
            insts.push(inst);
            types.push(*ty);
        }
        place(self.result)
    }
}

/// Expands the functions of a kernel that the target does not have (`keeps`).
pub fn expand(mut kernel: Kernel, keeps: impl Fn(Math, DType) -> bool) -> Kernel {
    let added = |(inst, ty): (&Inst, &DType)| match *inst {
        Inst::Math(math, ..) if !keeps(math, *ty) => Expansion::of(math, *ty).kernel.insts.len(),
        _ => 0,
    };
    let added: usize = kernel.insts.iter().zip(&kernel.types).map(added).sum();
    if added == 0 {
        return kernel;
    }
    let mut number: Vec<Val> = Vec::with_capacity(kernel.insts.len());
    let count = kernel.insts.len() + added;
    let (mut insts, mut types) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut start = 0;
    let mut stages = std::mem::take(&mut kernel.stages);
    for stage in &mut stages {
        for at in start..stage.end as usize {
            let (mut inst, ty) = (kernel.insts[at], kernel.types[at]);
            let sign = match inst {
                Inst::Math(Math::Exp, x, _) => kernel.sign(x),
                _ => Sign::Unknown,
            };
            inst.operands_mut().into_iter().flatten().for_each(|it| *it = number[it.0 as usize]);
            number.push(match inst {
                Inst::Math(math, x, y) if !keeps(math, ty) => {
                    let operands = [x, y.unwrap_or(x)];
                    Expansion::of_sign(math, ty, sign).add_to(&mut insts, &mut types, &operands[..math.arity()])
                }
                _ => {
                    insts.push(inst);
                    types.push(ty);
                    Val(insts.len() as u32 - 1)
                }
            });
        }
        start = std::mem::replace(&mut stage.end, insts.len() as u32) as usize;
    }
    Kernel { insts, types, stages, ..kernel }
}

/// Expands all functions of a kernel, for a target without native ones.
pub fn expand_all(kernel: Kernel) -> Kernel {
    expand(kernel, |_, _| false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that stages keep their instructions, and that functions of the target are not expanded.
    #[test]
    fn stages_grow() {
        let mut builder = KernelBuilder::new(0, 0, LaneAxis::Parallel);
        let [x, out] = [Role::Input, Role::Output].map(|it| builder.param(DType::F32, it, StrideClass::Unit));
        let x = builder.load(x);
        let first = builder.math(Math::Exp, x, None);
        builder.end_stage(Scope::Point);
        let second = builder.math(Math::Log, first, None);
        builder.store(out, second);
        builder.end_stage(Scope::Point);
        let kernel = builder.finish();
        assert_eq!(expand(kernel.clone(), |_, _| true), kernel);
        let [exp, log] = [Math::Exp, Math::Log].map(|it| Expansion::of(it, DType::F32).cost());
        let expanded = expand_all(kernel.clone());
        assert!(expanded.check().is_ok());
        assert_eq!(expanded.stages.iter().map(|it| it.end as usize).collect::<Vec<_>>(), [1 + exp, 2 + exp + log]);
        let mixed = expand(kernel, |math, _| math == Math::Exp);
        assert!(mixed.check().is_ok());
        assert_eq!(mixed.insts.iter().filter(|it| matches!(it, Inst::Math(..))).count(), 1);
        assert_eq!(mixed.insts.len(), 3 + log);
    }
}
