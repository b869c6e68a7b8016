//! The stored forms of the types of this crate.

use super::{Description, Reader, Stored};
use crate::data::{Attr, Attrs, DType, Dim, Dims, Layout, Literal, Shape, Strides, Type};
use crate::{
    BinaryOp, Compare, Contraction, ContractionAxis, ContractionTypes, Inst, Kernel, LaneAxis, Math, Param, ParamId,
    Precision, Reducer, ReductionOrder, Role, Scope, Stage, StrideClass, UnaryOp, Val,
};
use smallvec::SmallVec;
use std::sync::Arc;

stored! {
    struct Contraction {
        types: ContractionTypes,
        precision: Precision,
        batch: SmallVec<[ContractionAxis; 2]>,
        m: SmallVec<[ContractionAxis; 2]>,
        n: SmallVec<[ContractionAxis; 2]>,
        k: SmallVec<[ContractionAxis; 2]>,
    }
    struct ContractionTypes { a: DType, b: DType, accumulator: DType, out: DType }
    struct ContractionAxis { size: usize, strides: [isize; 3] }
    struct Param { dtype: DType, role: Role, step: StrideClass }
    struct Stage { scope: Scope, end: u32 }
    struct Kernel {
        par: u8,
        seq: u8,
        lanes: LaneAxis,
        order: ReductionOrder,
        run: u8,
        params: Vec<Param>,
        insts: Vec<Inst>,
        types: Vec<DType>,
        stages: Vec<Stage>,
    }
    struct Type { dtype: DType, dims: Dims }
}

stored! {
    enum Precision { 0 = Strict, 1 = Highest, 2 = High, 3 = Medium }
    enum Role { 0 = Input, 1 = Output, 2 = Iota, 3 = Indexed, 4 = Immediate, 5 = Reloaded, 6 = Scratch }
    enum StrideClass { 0 = Unit, 1 = Zero, 2 = Any }
    enum LaneAxis { 0 = Parallel, 1 = Reduced }
    enum ReductionOrder { 0 = Lanes, 1 = Blocks }
    enum Scope { 0 = Point, 1 = Loop, 2 = Repeat }
    enum UnaryOp {
        0 = Neg, 1 = Abs, 2 = Not, 3 = Sqrt, 4 = Floor, 5 = Ceil, 6 = Trunc, 7 = RoundEven, 8 = Bitcast,
    }
    enum BinaryOp {
        0 = Add, 1 = Sub, 2 = Mul, 3 = Div, 4 = Rem, 5 = Min, 6 = Max, 7 = And, 8 = Or, 9 = Xor, 10 = Shl, 11 = Shr,
        12 = MulWide,
    }
    enum Compare { 0 = Eq, 1 = Ne, 2 = Lt, 3 = Le }
    enum Reducer { 0 = Sum, 1 = Prod, 2 = Max, 3 = Min, 4 = All, 5 = Any }
    enum Inst {
        0 = Load(param: ParamId),
        1 = Store(param: ParamId, value: Val),
        2 = Const(bits: u64),
        3 = Index(axis: u8),
        4 = Unary(op: UnaryOp, value: Val),
        5 = Binary(op: BinaryOp, a: Val, b: Val),
        6 = Fma(a: Val, b: Val, c: Val),
        7 = Compare(op: Compare, a: Val, b: Val),
        8 = Select(condition: Val, then: Val, other: Val),
        9 = Cast { value: Val, to: DType },
        10 = Reduce(reducer: Reducer, value: Val),
        11 = Math(math: Math, a: Val, b: Option<Val>),
        12 = Gather(param: ParamId, position: Val),
        13 = Carry(first: Val),
        14 = While(condition: Val),
        15 = Next(carry: Val, value: Val),
    }
    enum Math {
        0 = Rsqrt, 1 = Exp, 2 = Expm1, 3 = Log, 4 = Log1p, 5 = Sin, 6 = Cos, 7 = Tan, 8 = Asin, 9 = Acos, 10 = Atan,
        11 = Sinh, 12 = Cosh, 13 = Tanh, 14 = Asinh, 15 = Acosh, 16 = Atanh, 17 = Erf, 18 = Erfc, 19 = Pow, 20 = Atan2,
    }
    enum Attr {
        0 = Bool(it: bool),
        1 = Int(it: i64),
        2 = Float(it: f64),
        3 = Ints(it: SmallVec<[i64; 4]>),
        4 = DType(it: DType),
        5 = Str(it: Arc<str>),
        6 = Literal(it: Literal),
        7 = Size(it: Dim),
        8 = Sizes(it: Dims),
    }
}

stored_as! {
    [isize; 3] as (isize, isize, isize): |it| (it[0], it[1], it[2]), |it| Some([it.0, it.1, it.2]);
    ParamId as u32: |it| it.0, |it| Some(Self(it));
    Val as u32: |it| it.0, |it| Some(Self(it));
    f64 as u64: |it| it.to_bits(), |it| Some(Self::from_bits(it));
    DType as u8: |it| *it as u8, |it| Self::ALL.get(usize::from(it)).copied();
    Dim as i64: |it| it.stored(), |it| Self::from_stored(it);
    Arc<str> as String: |it| it.to_string(), |it| Some(it.into());
    Attrs as Vec<Attr>: |it| it.as_slice().to_vec(), |it| Some(Self::new(it));
}

impl Stored for Layout {
    fn write(&self, out: &mut Vec<u8>) {
        (Shape::from(self.shape()), Strides::from(self.strides()), self.offset()).write(out);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (shape, strides, offset) = <(Shape, Strides, usize)>::read(from)?;
        let places = shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size.max(1)))?;
        (shape.len() == strides.len() && places <= isize::MAX as usize).then(|| Self::new(shape, strides, offset))
    }

    fn describe(types: &mut Description) -> String {
        let parts = <(Shape, Strides, usize)>::describe(types);
        types.insert("Layout", parts);
        "Layout".into()
    }
}

impl Stored for Literal {
    fn write(&self, out: &mut Vec<u8>) {
        (self.dtype(), Shape::from(self.shape())).write(out);
        out.extend_from_slice(self.bytes());
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (dtype, shape) = <(DType, Shape)>::read(from)?;
        // Other sizes count even if one is zero: strides must not overflow.
        let places = shape.iter().try_fold(dtype.size(), |all, &size| all.checked_mul(size.max(1)))?;
        let len = if shape.contains(&0) { 0 } else { places };
        Self::from_bytes(&shape, dtype, from.bytes(len)?.to_vec()).ok()
    }

    fn describe(types: &mut Description) -> String {
        let parts = <(DType, Shape)>::describe(types);
        types.insert("Literal", format!("{parts}, elements"));
        "Literal".into()
    }
}
