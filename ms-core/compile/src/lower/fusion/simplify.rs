//! Simplifies a kernel's body by common subexpression and dead code elimination. If rounding may differ from op-by-op
//! execution, it also contracts products and sums to fused multiply-adds.

use ms_ir::data::DType;
use ms_ir::{BinaryOp, Inst, Kernel, Scope, UnaryOp, Val};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// Returns the simplified kernel; `contract` permits `a * b + c` to be rounded once.
pub(in crate::lower) fn simplify(mut kernel: Kernel, contract: bool) -> Kernel {
    share(&mut kernel);
    if contract {
        fuse_products(&mut kernel);
    }
    prune(kernel)
}

/// Common subexpression elimination: replaces values that were computed before by the earlier ones.
fn share(kernel: &mut Kernel) {
    let mut same: Vec<Val> = (0..kernel.insts.len() as u32).map(Val).collect();
    // The last value of an instruction, and whether it is visible in later stages. Values of points are; values of
    // loops are visible only in the same loop.
    let mut known: FxHashMap<(Inst, DType), (Val, bool)> = FxHashMap::default();
    known.reserve(kernel.insts.len());
    for stage in 0..kernel.stages.len() {
        let is_point = kernel.stages[stage].scope == Scope::Point;
        let range = kernel.stage_range(stage);
        for i in range.clone() {
            let inst = &mut kernel.insts[i];
            inst.operands_mut().into_iter().flatten().for_each(|it| *it = same[it.0 as usize]);
            // Memory may change between two loads. Carries with equal first values may differ later.
            if matches!(inst, Inst::Load(_) | Inst::Carry(_)) || inst.is_statement() {
                continue;
            }
            // Constants are free in every stage.
            let own = (Val(i as u32), is_point && !matches!(inst, Inst::Const(_)));
            match known.entry((*inst, kernel.types[i])) {
                Entry::Occupied(earlier) if earlier.get().1 || range.contains(&(earlier.get().0.0 as usize)) => {
                    same[i] = earlier.get().0;
                }
                Entry::Occupied(mut earlier) => drop(earlier.insert(own)),
                Entry::Vacant(place) => drop(place.insert(own)),
            }
        }
    }
}

/// Replaces the sum of a single-use product and another value by [`Inst::Fma`].
///
/// Sums of two products are not contracted. If only one of them were rounded, products that cancel would leave a
/// rounding error as large as the first one's. The sum would also depend on the order of its operands.
fn fuse_products(kernel: &mut Kernel) {
    let uses = uses(kernel);
    for stage in 0..kernel.stages.len() {
        let range = kernel.stage_range(stage);
        for i in range.clone() {
            let Inst::Binary(BinaryOp::Add, a, b) = kernel.insts[i] else { continue };
            if !kernel.types[i].is_float() || (is_product(kernel, a) && is_product(kernel, b)) {
                continue;
            }
            for (product, addend) in [(a, b), (b, a)] {
                let at = product.0 as usize;
                if let Inst::Binary(BinaryOp::Mul, x, y) = kernel.insts[at]
                    && uses[at] == 1
                    && range.contains(&at)
                {
                    kernel.insts[i] = Inst::Fma(x, y, addend);
                    break;
                }
            }
        }
    }
}

/// Returns whether a value is a product, possibly negated.
fn is_product(kernel: &Kernel, value: Val) -> bool {
    match kernel.insts[value.0 as usize] {
        Inst::Binary(BinaryOp::Mul, ..) => true,
        Inst::Unary(UnaryOp::Neg, of) => is_product(kernel, of),
        _ => false,
    }
}

fn uses(kernel: &Kernel) -> Vec<u32> {
    let mut uses = vec![0; kernel.insts.len()];
    for inst in &kernel.insts {
        inst.operands().for_each(|it| uses[it.0 as usize] += 1);
    }
    uses
}

/// Removes instructions on which no store depends.
fn prune(mut kernel: Kernel) -> Kernel {
    let live = live(&kernel);
    let kept = live.iter().filter(|it| **it).count();
    if kept == live.len() {
        return kernel;
    }
    let mut number = vec![Val(u32::MAX); live.len()];
    let (mut insts, mut types) = (Vec::with_capacity(kept), Vec::with_capacity(kept));
    let mut stages = std::mem::take(&mut kernel.stages);
    let mut start = 0;
    for stage in &mut stages {
        for i in start..stage.end as usize {
            if live[i] {
                let mut inst = kernel.insts[i];
                inst.operands_mut().into_iter().flatten().for_each(|it| *it = number[it.0 as usize]);
                number[i] = Val(insts.len() as u32);
                insts.push(inst);
                types.push(kernel.types[i]);
            }
        }
        start = std::mem::replace(&mut stage.end, insts.len() as u32) as usize;
    }
    let mut end = 0;
    stages.retain(|stage| std::mem::replace(&mut end, stage.end) < stage.end);
    Kernel { insts, types, stages, ..kernel }
}

/// Returns for each instruction whether a store or the end of a loop depends on it.
fn live(kernel: &Kernel) -> Vec<bool> {
    let mut live = vec![false; kernel.insts.len()];
    loop {
        for i in (0..kernel.insts.len()).rev() {
            let inst = kernel.insts[i];
            live[i] |= match inst {
                Inst::Store(..) | Inst::While(_) => true,
                Inst::Next(carry, _) => live[carry.0 as usize],
                _ => false,
            };
            if live[i] {
                inst.operands().for_each(|it| live[it.0 as usize] = true);
            }
        }
        // The next value of a carry comes after the instructions that read the carry.
        let is_known = |(inst, live_inst): (&Inst, &bool)| match *inst {
            Inst::Next(carry, _) => live[carry.0 as usize] == *live_inst,
            _ => true,
        };
        if kernel.insts.iter().zip(&live).all(is_known) {
            return live;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_ir::{KernelBuilder, LaneAxis, Role, StrideClass};

    fn kernel() -> Kernel {
        let mut body = KernelBuilder::new(0, 0, LaneAxis::Parallel);
        let x = body.param(DType::F32, Role::Input, StrideClass::Unit);
        let out = body.param(DType::F32, Role::Output, StrideClass::Unit);
        let x = body.load(x);
        let unused = body.index(0);
        body.cast(unused, DType::F32);
        let (one, again) = (body.constant(1.0, DType::F32), body.constant(1.0, DType::F32));
        let product = body.binary(BinaryOp::Mul, x, one);
        let twice = body.binary(BinaryOp::Mul, x, again);
        let sum = body.binary(BinaryOp::Add, product, x);
        let sum = body.binary(BinaryOp::Add, sum, twice);
        body.store(out, sum);
        body.end_stage(Scope::Point);
        body.finish()
    }

    #[test]
    fn shares_and_prunes() {
        let exact = simplify(kernel(), false);
        // load, constant, product, two sums, store: the product is shared.
        assert_eq!(exact.insts.len(), 6);
        assert_eq!(exact.stages.last().map(|it| it.end), Some(6));
        assert!(!exact.insts.iter().any(|it| matches!(it, Inst::Fma(..) | Inst::Index(_))));
    }

    /// Carries that only depend on themselves are removed, and equal first values do not make carries equal.
    #[test]
    fn carries_that_are_needed_stay() {
        let text = "kernel par=0 lanes=parallel seq=0 in %x: f32 unit in %n: i32 zero out %y: f32 unit
             point: x = load %x n = load %n z = const i32 0
             repeat:
               i = carry z unread = carry x a = carry x b = carry x
               c = lt i, n
               while c
               one = const i32 1 j = add i, one
               two = const i32 1 k = add i, two
               more = add unread, a twice = add a, b
               next i, k next unread, more next a, b next b, twice
             point: store %y, a";
        let want = "kernel par=0 lanes=parallel seq=0 in %x: f32 unit in %n: i32 zero out %y: f32 unit
             point: x = load %x n = load %n z = const i32 0
             repeat:
               i = carry z a = carry x b = carry x
               c = lt i, n
               while c
               one = const i32 1 j = add i, one
               twice = add a, b
               next i, j next a, b next b, twice
             point: store %y, a";
        let [kernel, want] = [text, want].map(|it| Kernel::parse(it).expect("the text is a kernel"));
        assert!(kernel.check().is_ok());
        assert_eq!(simplify(kernel, false), want);
    }

    #[test]
    fn contracts_only_when_allowed() {
        let mut body = KernelBuilder::new(0, 0, LaneAxis::Parallel);
        let params: Vec<_> = (0..2).map(|_| body.param(DType::F32, Role::Input, StrideClass::Unit)).collect();
        let out = body.param(DType::F32, Role::Output, StrideClass::Unit);
        let (x, y) = (body.load(params[0]), body.load(params[1]));
        let product = body.binary(BinaryOp::Mul, x, y);
        let sum = body.binary(BinaryOp::Add, y, product);
        body.store(out, sum);
        body.end_stage(Scope::Point);
        let kernel = body.finish();
        assert_eq!(simplify(kernel.clone(), false), kernel);
        let contracted = simplify(kernel, true);
        assert_eq!(contracted.insts[2], Inst::Fma(x, y, y));
        assert_eq!(contracted.insts.len(), 4);
    }

    #[test]
    fn sums_of_two_products_are_not_contracted() {
        let kernel = |body: &str| {
            let text = format!(
                "kernel par=0 lanes=parallel seq=0 in %a: f32 unit in %b: f32 unit in %c: f32 unit out %y: f32 unit
                 point: a = load %a b = load %b c = load %c {body} store %y, y"
            );
            Kernel::parse(&text).expect("the text is a kernel")
        };
        for body in [
            "p = mul a, c q = mul b, c y = add p, q",
            "p = mul a, a q = mul b, c y = add q, p",
            "p = mul a, c q = mul b, c n = neg q y = add p, n",
            "p = mul a, c q = mul b, c n = neg p y = add n, q",
            "p = mul a, c q = mul b, c y = sub p, q",
            // The other product has further uses.
            "p = mul a, c q = mul b, p s = add p, q y = max s, p",
        ] {
            let kernel = kernel(body);
            assert_eq!(simplify(kernel.clone(), true), kernel, "{body}");
        }
        for body in ["p = mul a, b y = add p, c", "p = mul a, b q = div a, c y = add q, p"] {
            assert_ne!(simplify(kernel(body), true), kernel(body), "{body}");
        }
    }
}
