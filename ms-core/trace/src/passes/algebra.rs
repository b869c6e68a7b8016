//! Applies algebraic identities that preserve every bit.

use ms_compile::optimize::{Pass, PassContext, Uniform};
use ms_ir::data::{Attrs, DType, Literal, Op, Scalar};
use ms_ir::{Graph, Node, Rewriter, Type, ValueId, Values, rewrite};
use ms_ops::ops::{
    ABS, ADD, BROADCAST_TO, BroadcastToAttrs, CEIL, CONSTANT, ConstantAttrs, DIV, FLOOR, FULL, FullAttrs, LOGICAL_NOT,
    MAXIMUM, MINIMUM, MUL, NEG, RELU, ROUND, SELECT, SIGN, SUB, TRUNC,
};
use smallvec::smallvec;
use std::borrow::Cow;

/// Replaces arithmetic by its operands, or by cheaper arithmetic, where the result has the same bits.
///
/// For floats, `x + 0` is not `x`, since it maps -0 to +0, while `x + -0` and `x - 0` preserve every value. Likewise `x
/// * 0` is not 0 where `x` is infinite, NaN or negative.
pub struct Algebra;

impl Pass for Algebra {
    fn name(&self) -> &'static str {
        "algebra"
    }

    fn run<'g>(&self, graph: &'g Graph, _: &PassContext) -> Cow<'g, Graph> {
        let mut uniform = Uniform::default();
        rewrite(graph, |rewriter, node, operands| {
            let rule = RULES.iter().find(|(op, _)| *op == node.op)?.1;
            let [result] = node.outputs[..] else { return None };
            rule(&mut Term { rewriter, uniform: &mut uniform, node, operands, ty: graph.ty(result) })
        })
    }
}

type Rule = fn(&mut Term<'_, '_>) -> Option<Values>;

const RULES: &[(Op, Rule)] = &[
    (ADD.op(), add),
    (SUB.op(), sub),
    (MUL.op(), mul),
    (DIV.op(), div),
    (NEG.op(), involution),
    (LOGICAL_NOT.op(), involution),
    (ABS.op(), abs),
    (RELU.op(), projection),
    (SIGN.op(), projection),
    (FLOOR.op(), projection),
    (CEIL.op(), projection),
    (ROUND.op(), projection),
    (TRUNC.op(), projection),
    (MAXIMUM.op(), extremum),
    (MINIMUM.op(), extremum),
    (SELECT.op(), select),
];

fn add(it: &mut Term<'_, '_>) -> Option<Values> {
    let [a, b] = it.two();
    for (x, other) in [(a, b), (b, a)] {
        match it.element(other) {
            Some(Scalar::Float(zero)) if zero == 0.0 && zero.is_sign_negative() => return it.stand_for(x),
            Some(Scalar::Float(_)) | None => {}
            Some(zero) if !zero.as_bool() => return it.stand_for(x),
            Some(_) => {}
        }
    }
    for (x, other) in [(a, b), (b, a)] {
        if let Some(y) = it.operand_of(NEG.op(), other) {
            return it.become_op(SUB.op(), &[x, y]);
        }
    }
    None
}

fn sub(it: &mut Term<'_, '_>) -> Option<Values> {
    let [a, b] = it.two();
    match it.element(b) {
        Some(Scalar::Float(zero)) if zero == 0.0 && zero.is_sign_positive() => return it.stand_for(a),
        Some(Scalar::Int(0) | Scalar::UInt(0)) => return it.stand_for(a),
        _ => {}
    }
    match it.element(a) {
        Some(Scalar::Float(zero)) if zero == 0.0 && zero.is_sign_negative() => return it.negate(b),
        Some(Scalar::Int(0) | Scalar::UInt(0)) => return it.negate(b),
        _ => {}
    }
    if a == b && it.ty.dtype.is_int() {
        return it.zeros();
    }
    let y = it.operand_of(NEG.op(), b)?;
    it.become_op(ADD.op(), &[a, y])
}

fn mul(it: &mut Term<'_, '_>) -> Option<Values> {
    let [a, b] = it.two();
    for (x, other) in [(a, b), (b, a)] {
        match it.element(other) {
            Some(Scalar::Float(1.0) | Scalar::Int(1) | Scalar::UInt(1) | Scalar::Bool(true)) => return it.stand_for(x),
            Some(Scalar::Float(-1.0) | Scalar::Int(-1)) => return it.negate(x),
            Some(Scalar::Int(0) | Scalar::UInt(0) | Scalar::Bool(false)) => return it.zeros(),
            _ => {}
        }
    }
    let (x, y) = (it.operand_of(NEG.op(), a)?, it.operand_of(NEG.op(), b)?);
    it.become_op(MUL.op(), &[x, y])
}

fn div(it: &mut Term<'_, '_>) -> Option<Values> {
    let [a, b] = it.two();
    match it.element(b)? {
        Scalar::Float(1.0) => it.stand_for(a),
        Scalar::Float(-1.0) => it.negate(a),
        Scalar::Float(divisor) => {
            // The quotient by a power of two and the product with its reciprocal are equal, rounded once.
            let factor = divisor.recip();
            let power = |it: f64| it.is_normal() && it.to_bits() << 12 == 0;
            if !power(divisor) || !power(factor) || !is_normal(factor, it.ty.dtype) {
                return None;
            }
            let literal = Literal::scalar(Scalar::Float(factor), it.ty.dtype);
            let factor = it.add(CONSTANT.op(), ConstantAttrs::attrs(literal), &[], Type::of(it.ty.dtype, &[]));
            // A scalar may lack the result's shape.
            let factor = if it.rewriter.graph().ty(a) == it.ty { factor[0] } else { it.broadcast(factor[0])?[0] };
            it.become_op(MUL.op(), &[a, factor])
        }
        _ => None,
    }
}

/// Returns whether a power of two is a normal number of `dtype`.
fn is_normal(power: f64, dtype: DType) -> bool {
    let least = match dtype {
        DType::F16 => 2f64.powi(-14),
        DType::F64 => f64::MIN_POSITIVE,
        _ => f64::from(f32::MIN_POSITIVE),
    };
    let held = Scalar::from_bits(Scalar::Float(power).to_bits(dtype), dtype);
    power.abs() >= least && held == Scalar::Float(power)
}

/// Rewrites `f(f(x))` to `x`.
fn involution(it: &mut Term<'_, '_>) -> Option<Values> {
    let x = it.operand_of(it.node.op, it.operands[0])?;
    it.stand_for(x)
}

/// Rewrites `f(f(x))` to `f(x)`.
fn projection(it: &mut Term<'_, '_>) -> Option<Values> {
    it.operand_of(it.node.op, it.operands[0])?;
    it.stand_for(it.operands[0])
}

fn abs(it: &mut Term<'_, '_>) -> Option<Values> {
    // Negation changes the magnitude of an unsigned integer.
    let signed = it.ty.dtype.is_float() || it.ty.dtype.is_signed_int();
    if let Some(x) = it.operand_of(NEG.op(), it.operands[0]).filter(|_| signed) {
        return it.become_op(ABS.op(), &[x]);
    }
    projection(it)
}

fn extremum(it: &mut Term<'_, '_>) -> Option<Values> {
    let [a, b] = it.two();
    if a == b { it.stand_for(a) } else { None }
}

fn select(it: &mut Term<'_, '_>) -> Option<Values> {
    let (condition, then, other) = (it.operands[0], it.operands[1], it.operands[2]);
    match it.element(condition) {
        Some(choice) => it.stand_for(if choice.as_bool() { then } else { other }),
        None if then == other => it.stand_for(then),
        None => None,
    }
}

/// A node with one result, and the known facts about its operands.
struct Term<'t, 'g> {
    rewriter: &'t mut Rewriter<'g>,
    uniform: &'t mut Uniform,
    node: &'t Node,
    operands: &'t [ValueId],
    ty: &'t Type,
}

impl Term<'_, '_> {
    fn two(&self) -> [ValueId; 2] {
        [self.operands[0], self.operands[1]]
    }

    /// Returns the element of a uniform value.
    fn element(&mut self, id: ValueId) -> Option<Scalar> {
        self.uniform.element(self.rewriter.graph(), id)
    }

    /// Returns `x` if a value is `op x`.
    fn operand_of(&self, op: Op, id: ValueId) -> Option<ValueId> {
        self.rewriter.graph().producer(id).filter(|it| it.op == op).map(|it| it.inputs[0])
    }

    fn add(&mut self, op: Op, attrs: Attrs, operands: &[ValueId], ty: Type) -> Values {
        let node = Node::new(op, attrs, operands.iter().copied());
        self.rewriter.add(Node { location: self.node.location, ..node }, [ty])
    }

    /// Replaces the node by another op without attributes, on operands that broadcast to its type.
    fn become_op(&mut self, op: Op, operands: &[ValueId]) -> Option<Values> {
        Some(self.add(op, Attrs::none(), operands, self.ty.clone()))
    }

    /// Replaces the result by a value, broadcast to the node's type if needed.
    fn stand_for(&mut self, value: ValueId) -> Option<Values> {
        if self.rewriter.graph().ty(value) == self.ty { Some(smallvec![value]) } else { self.broadcast(value) }
    }

    fn broadcast(&mut self, value: ValueId) -> Option<Values> {
        let attrs = BroadcastToAttrs::attrs(&self.ty.shape()?[..]);
        Some(self.add(BROADCAST_TO.op(), attrs, &[value], self.ty.clone()))
    }

    fn negate(&mut self, x: ValueId) -> Option<Values> {
        let ty = self.rewriter.graph().ty(x).clone();
        let negated = self.add(NEG.op(), Attrs::none(), &[x], ty)[0];
        self.stand_for(negated)
    }

    fn zeros(&mut self) -> Option<Values> {
        let zero = Literal::scalar(Scalar::Int(0), self.ty.dtype);
        let attrs = FullAttrs::attrs(zero, &self.ty.shape()?[..]);
        Some(self.add(FULL.op(), attrs, &[], self.ty.clone()))
    }
}
