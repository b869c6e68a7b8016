//! Selects `vscalef` for exponentials on AVX-512: their formula ends in a product with a power of two.

use ms_ir::data::DType;
use ms_ir::math::expand_all;
use ms_ir::{BinaryOp, Inst, Kernel, KernelBuilder, LaneAxis, Math, Role, Scope, Sign, StrideClass, UnaryOp, Val};
use smallvec::SmallVec;
use std::sync::OnceLock;

/// A value that is the product of a factor and a power of two.
#[derive(Clone, Copy)]
pub struct Scaled {
    /// The factor, which is near one.
    pub factor: Val,
    /// The exponent of two, a whole number as a float.
    pub power: Val,
    /// The clamped operand and its number of uses in the formula. At the lower limit the exponential is zero.
    limited: (Val, usize),
}

/// The exponentials of a kernel.
#[derive(Default)]
pub struct Exponentials {
    /// For each instruction, the scaled product that it computes. Empty if the kernel has none.
    scaled: Vec<Option<Scaled>>,
    /// Whether each instruction only computes powers of two for these products. Empty if the kernel has none.
    unused: Vec<bool>,
    /// For each clamp that only these products need, its unclamped operand. Empty if the kernel has none.
    unlimited: Vec<Option<Val>>,
}

impl Exponentials {
    /// Finds the exponentials of a kernel.
    pub fn new(kernel: &Kernel) -> Self {
        let inst = |it: Val| kernel.insts[it.0 as usize];
        let found = |at: usize| match kernel.insts[at] {
            // A formula ends in two products. Most kernels have none, which skips the comparison.
            Inst::Binary(BinaryOp::Mul, product, _) if matches!(inst(product), Inst::Binary(BinaryOp::Mul, ..)) => {
                Formula::all().iter().find_map(|it| it.found(kernel, Val(at as u32)))
            }
            _ => None,
        };
        let scaled: Vec<Option<Scaled>> = (0..kernel.insts.len()).map(found).collect();
        if scaled.iter().all(Option::is_none) {
            return Self::default();
        }
        let operands = |at: usize| -> SmallVec<[Val; 3]> {
            match scaled[at] {
                Some(Scaled { factor, power, .. }) => SmallVec::from_slice(&[factor, power]),
                None => kernel.insts[at].operands().collect(),
            }
        };
        let mut uses = vec![0; scaled.len()];
        (0..scaled.len()).for_each(|at| operands(at).into_iter().for_each(|it| uses[it.0 as usize] += 1));
        let mut unused = vec![false; scaled.len()];
        for at in (0..scaled.len()).rev() {
            let is_op = matches!(kernel.insts[at], Inst::Unary(..) | Inst::Binary(..));
            if is_op && uses[at] == 0 {
                unused[at] = true;
                operands(at).into_iter().for_each(|it| uses[it.0 as usize] -= 1);
            }
        }
        // Lanes whose result is zero are masked off in the product. So their power may be arbitrarily low.
        let mut unlimited = vec![None; scaled.len()];
        for &Scaled { limited: (limited, of_formula), .. } in scaled.iter().flatten() {
            let at = limited.0 as usize;
            // Another use may need the limit.
            if uses[at] == of_formula {
                unlimited[at] = without_limit(kernel.insts[at]);
            }
        }
        Self { scaled, unused, unlimited }
    }

    /// Returns the unclamped operand that may replace clamp instruction `at`.
    pub fn unlimited(&self, at: usize) -> Option<Val> {
        *self.unlimited.get(at)?
    }

    /// Returns the scaled product that instruction `at` computes, if a formula ends there.
    pub fn scaled(&self, at: usize) -> Option<Scaled> {
        *self.scaled.get(at)?
    }

    /// Returns whether the result of an instruction is unused.
    pub fn is_unused(&self, at: usize) -> bool {
        self.unused.get(at).is_some_and(|it| *it)
    }
}

/// Returns the operand that an instruction clamps from below.
fn without_limit(inst: Inst) -> Option<Val> {
    if let Inst::Binary(BinaryOp::Max, number, _) = inst { Some(number) } else { None }
}

/// The expanded formula of an exponential. It ends in products with powers of two that are normal numbers. One product
/// with the whole power gives the same bits: the factor is near one and the exponent is limited. So no product before
/// the last one rounds, unless the result is zero.
struct Formula {
    kernel: Kernel,
    /// The operand of the exponential.
    operand: Val,
    /// The sign of the operand for which lowering uses this formula.
    sign: Sign,
    /// The result.
    result: Val,
    scaled: Scaled,
}

impl Formula {
    /// Returns the formulas of all dtypes and signs.
    fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<Formula>> = OnceLock::new();
        ALL.get_or_init(|| {
            let of = |dtype| [Sign::Unknown, Sign::NotPositive].map(|it| Self::new(dtype, it));
            [DType::F32, DType::F64].into_iter().flat_map(of).flatten().collect()
        })
    }

    /// Expands an exponential as lowering does. Returns `None` if the formula does not end in two products with powers.
    fn new(dtype: DType, sign: Sign) -> Option<Self> {
        let mut builder = KernelBuilder::new(0, 0, LaneAxis::Parallel);
        let [x, y] = [Role::Input, Role::Output].map(|it| builder.param(dtype, it, StrideClass::Unit));
        let mut operand = builder.load(x);
        if sign == Sign::NotPositive {
            let magnitude = builder.unary(UnaryOp::Abs, operand);
            operand = builder.unary(UnaryOp::Neg, magnitude);
        }
        let result = builder.math(Math::Exp, operand, None);
        builder.store(y, result);
        builder.end_stage(Scope::Point);
        let kernel = expand_all(builder.finish());
        let inst = |it: Val| kernel.insts[it.0 as usize];
        let result = kernel.insts.iter().find_map(|it| if let Inst::Store(_, it) = *it { Some(it) } else { None })?;
        let Inst::Binary(BinaryOp::Mul, product, _) = inst(result) else { return None };
        let Inst::Binary(BinaryOp::Mul, factor, _) = inst(product) else { return None };
        let is_power = |it: &usize| {
            kernel.types[*it] == dtype
                && matches!(kernel.insts[*it], Inst::Binary(BinaryOp::Sub, _, b) if matches!(inst(b), Inst::Const(_)))
        };
        let power = Val((0..kernel.insts.len()).find(is_power)? as u32);
        let limited = Val((0..kernel.insts.len()).find(|&it| without_limit(kernel.insts[it]).is_some())? as u32);
        let uses = kernel.insts.iter().copied().flat_map(Inst::operands).filter(|it| *it == limited).count();
        Some(Self { operand, sign, result, scaled: Scaled { factor, power, limited: (limited, uses) }, kernel })
    }

    /// Matches value `at` of a kernel against the formula.
    fn found(&self, kernel: &Kernel, at: Val) -> Option<Scaled> {
        let mut found = vec![None; self.kernel.insts.len()];
        if !self.is_at(self.result, kernel, at, &mut found) {
            return None;
        }
        let of = |it: Val| found[it.0 as usize];
        let fits = self.sign == Sign::Unknown || kernel.sign(of(self.operand)?) == self.sign;
        let Scaled { factor, power, limited: (limited, uses) } = self.scaled;
        fits.then_some(Scaled { factor: of(factor)?, power: of(power)?, limited: (of(limited)?, uses) })
    }

    /// Returns whether value `at` of a kernel matches the formula's value `own`, and records the matches in `found`.
    /// The depth of the recursion is the depth of the formula.
    fn is_at(&self, own: Val, kernel: &Kernel, at: Val, found: &mut [Option<Val>]) -> bool {
        if kernel.ty(at) != self.kernel.ty(own) {
            return false;
        }
        let [mut inst, mut like] = [kernel.insts[at.0 as usize], self.kernel.insts[own.0 as usize]];
        if matches!(like, Inst::Const(_)) {
            return inst == like;
        }
        if let Some(known) = found[own.0 as usize] {
            return known == at;
        }
        found[own.0 as usize] = Some(at);
        if own == self.operand {
            return true;
        }
        let operands: SmallVec<[(Val, Val); 3]> = like.operands().zip(inst.operands()).collect();
        [&mut inst, &mut like].into_iter().flat_map(Inst::operands_mut).flatten().for_each(|it| *it = Val(0));
        inst == like && operands.into_iter().all(|(own, at)| self.is_at(own, kernel, at, found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The formula is found in a kernel, and instructions that only its powers need are unused.
    #[test]
    fn formulas_are_found() {
        assert_eq!(Formula::all().len(), 4, "each is what lowering expands an exponential to");
        for formula in Formula::all() {
            let kernel = &formula.kernel;
            let found = Exponentials::new(kernel);
            let at: Vec<usize> = (0..kernel.insts.len()).filter(|&it| found.scaled(it).is_some()).collect();
            assert_eq!(at, [formula.result.0 as usize], "{kernel}");
            assert!((0..kernel.insts.len()).filter(|&it| found.is_unused(it)).count() >= 3, "{kernel}");
        }
    }

    /// The lower limit is omitted unless another instruction uses it.
    #[test]
    fn limits_are_left_out() {
        for formula in Formula::all() {
            let limit = formula.scaled.limited.0;
            let is_left_out = |kernel: &Kernel| Exponentials::new(kernel).unlimited(limit.0 as usize).is_some();
            assert!(is_left_out(&formula.kernel), "{}", formula.kernel);
            let mut other = formula.kernel.clone();
            let sum = Inst::Binary(BinaryOp::Add, formula.result, limit);
            let number = Val(other.insts.len() as u32);
            let store = other.insts.iter().position(|it| matches!(it, Inst::Store(..))).expect("it has a result");
            other.insts[store].operands_mut().into_iter().flatten().for_each(|it| *it = number);
            other.types.push(other.types[limit.0 as usize]);
            other.insts.push(sum);
            assert!(!is_left_out(&other), "{other}");
        }
    }

    /// Any other constant may change the rounding, so the pattern must not match.
    #[test]
    fn other_constants_are_not_the_formula() {
        for formula in Formula::all() {
            let kernel = &formula.kernel;
            for at in (0..kernel.insts.len()).filter(|&it| kernel.types[it].is_float()) {
                let mut other = kernel.clone();
                let Inst::Const(bits) = &mut other.insts[at] else { continue };
                *bits += 1;
                let found = Exponentials::new(&other);
                assert!((0..other.insts.len()).all(|it| found.scaled(it).is_none()), "{other}");
            }
        }
    }
}
