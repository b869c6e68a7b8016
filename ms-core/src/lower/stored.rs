//! Defines the stored form of plans and validates it.

use super::plan::{
    Argument, Buffer, BufferId, Carry, ContractionResult, ContractionStep, Epilogue, EpilogueLoops, IndexedAxis,
    KernelCall, KernelId, Loop, NextCarry, Place, Plan, PlanStep, Repeat, Reuse, Routine, RoutineId, Span, View,
    is_stack,
};
use crate::ir::{
    BinaryOp, Compare, Contraction, ContractionAxis, ContractionTypes, Inst, Kernel, LaneAxis, Math, Param, ParamId,
    Precision, Reducer, ReductionOrder, Role, Scope, Stage, StrideClass, UnaryOp, Val,
};
use crate::ops::{self, Lowering};
use crate::stored::{Description, Reader, Stored, stored};
use crate::tensor::{Attr, Attrs, DType, Dim, Dims, Layout, Literal, Op, Shape, Strides, Type};
use smallvec::SmallVec;
use std::sync::Arc;

stored! {
    struct Plan { kernels: Vec<Kernel>, constants: Vec<Literal>, routines: Vec<Routine> }
    struct Routine {
        name: String,
        inputs: Vec<Type>,
        outputs: Vec<Type>,
        buffers: Vec<Buffer>,
        arena_bytes: usize,
        steps: Vec<PlanStep>,
        reuse: Reuse,
    }
    struct Reuse { free_from: Vec<u32>, touched_at: Vec<u32>, in_place: Vec<(u32, u32)>, fallible: u32 }
    struct Span { buffer: BufferId, offset: usize }
    struct Loop {
        body: RoutineId,
        repeat: Repeat,
        carries: Vec<Carry>,
        sequences: Vec<Span>,
        invariants: Vec<Span>,
        series: Vec<Span>,
        spares: Vec<Span>,
    }
    struct Carry { initial: Span, result: Span, next: NextCarry }
    struct Buffer { bytes: usize, place: Place }
    struct KernelCall { kernel: KernelId, extents: SmallVec<[usize; 4]>, args: SmallVec<[Argument; 4]> }
    struct ContractionStep { contraction: Contraction, a: Span, b: Span, result: ContractionResult }
    struct Epilogue { kernel: KernelId, loops: EpilogueLoops, args: SmallVec<[Argument; 4]> }
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
    struct View { buffer: BufferId, dtype: DType, layout: Layout }
    struct Argument { buffer: BufferId, offset: usize, strides: SmallVec<[i64; 4]>, axis: Option<IndexedAxis> }
    struct IndexedAxis { stride: i64, extent: usize }
    struct Param { dtype: DType, role: Role, step: StrideClass }
    struct Stage { scope: Scope, end: u32 }
    struct Kernel {
        par: u8,
        seq: u8,
        lanes: LaneAxis,
        order: ReductionOrder,
        run: u8,
        params: SmallVec<[Param; 4]>,
        insts: Vec<Inst>,
        types: Vec<DType>,
        stages: SmallVec<[Stage; 3]>,
    }
    struct Type { dtype: DType, dims: Dims }
}

stored! {
    enum Place { 0 = Input(at: u32), 1 = Output(at: u32), 2 = Constant(at: u32), 3 = Arena(at: usize), 4 = Position }
    enum PlanStep {
        0 = Kernel(call: KernelCall),
        1 = Contraction(it: Box<ContractionStep>),
        2 = Library {
            op: Op,
            attrs: Attrs,
            precision: Precision,
            inputs: Vec<View>,
            outputs: Vec<View>,
            node: Option<u32>,
            epilogues: Vec<KernelCall>
        },
        3 = Call { routine: RoutineId, inputs: Vec<Span>, outputs: Vec<Span> },
        4 = Branch { condition: Span, routines: [RoutineId; 2], inputs: Vec<Span>, outputs: Vec<Span> },
        5 = Loop(it: Box<Loop>),
        6 = Check { op: Op, of: Type, axis: usize, positions: View, node: Option<u32> },
        7 = Kernels(calls: Vec<KernelCall>),
    }
    enum ContractionResult { 0 = Stored(at: Span), 1 = Epilogues(all: Vec<Epilogue>) }
    enum EpilogueLoops { 0 = Elements(result: ParamId), 1 = Rows(along: SmallVec<[usize; 2]>) }
    enum Repeat {
        0 = While { first: Span, next: Span, count: Option<Span> },
        1 = Times { count: usize, reverse: bool },
        2 = Counted { count: Span, reverse: bool },
    }
    enum NextCarry { 0 = Computed, 1 = From(carry: u32), 2 = Updated }
    enum Precision { 0 = Strict, 1 = Highest, 2 = High, 3 = Medium }
    enum Role { 0 = Input, 1 = Output, 2 = Position, 3 = Indexed, 4 = Immediate }
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

/// Implements [`Stored`] through a value that represents the type, and the inverse conversion, which returns `None` for
/// invalid values.
macro_rules! by {
    ($($ty:ty as $inner:ty: |$value:ident| $of:expr, |$stored:ident| $back:expr;)*) => {$(
        impl Stored for $ty {
            fn write(&self, out: &mut Vec<u8>) {
                let $value = self;
                $of.write(out);
            }

            fn read(from: &mut Reader<'_>) -> Option<Self> {
                let $stored = <$inner>::read(from)?;
                $back
            }

            fn describe(types: &mut Description) -> String {
                let inner = <$inner>::describe(types);
                types.insert(stringify!($ty), inner);
                stringify!($ty).into()
            }
        }
    )*};
}

by! {
    KernelId as u32: |it| it.0, |it| Some(Self(it));
    BufferId as u32: |it| it.0, |it| Some(Self(it));
    RoutineId as u32: |it| it.0, |it| Some(Self(it));
    [RoutineId; 2] as (RoutineId, RoutineId): |it| (it[0], it[1]), |it| Some([it.0, it.1]);
    [isize; 3] as (isize, isize, isize): |it| (it[0], it[1], it[2]), |it| Some([it.0, it.1, it.2]);
    ParamId as u32: |it| it.0, |it| Some(Self(it));
    Val as u32: |it| it.0, |it| Some(Self(it));
    f64 as u64: |it| it.to_bits(), |it| Some(Self::from_bits(it));
    DType as u8: |it| *it as u8, |it| Self::ALL.get(usize::from(it)).copied();
    Dim as i64: |it| it.stored(), |it| Self::from_stored(it);
    Arc<str> as String: |it| it.to_string(), |it| Some(it.into());
    Attrs as Vec<Attr>: |it| it.as_slice().to_vec(), |it| Some(Self::new(it));
}

/// An op is stored as a number. For a custom op it is the first custom number, followed by the op's name and the hash
/// of its source. An op that this program does not have is invalid.
impl Stored for Op {
    fn write(&self, out: &mut Vec<u8>) {
        match self.custom_source() {
            None => self.number().write(out),
            Some(source) => (Self::FIRST_CUSTOM, (self.name().to_owned(), source)).write(out),
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let def = match u16::read(from)? {
            Self::FIRST_CUSTOM => {
                let (name, source) = <(String, u64)>::read(from)?;
                ops::custom::by_source(&name, source)
            }
            number => ops::by_number(number).filter(|_| number < Self::FIRST_CUSTOM),
        };
        def.map(|it| it.op())
    }

    fn describe(types: &mut Description) -> String {
        let (number, custom) = (u16::describe(types), <(String, u64)>::describe(types));
        types.insert("Op", format!("{number}, {custom} if custom"));
        "Op".into()
    }
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
        // The other sizes count even if one is zero, because strides must not overflow.
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

impl Plan {
    /// Returns whether a stored plan is valid. Kernels must be well formed, and sizes of types must not overflow.
    /// Contractions must have the axes that they declare, and ops valid attributes, operands and results. Memory
    /// accesses of steps are validated when the plan is loaded.
    pub fn is_sound(&self) -> bool {
        let view = |view: &View| Type::of(view.dtype, view.layout.shape());
        let step = |step: &PlanStep| match step {
            PlanStep::Library { op, attrs, inputs, outputs, .. } => {
                let (inputs, outputs): (Vec<_>, Vec<_>) =
                    (inputs.iter().map(view).collect(), outputs.iter().map(view).collect());
                ops::fits(*op, attrs, &[], &inputs.iter().collect::<Vec<_>>(), &outputs).is_ok()
            }
            PlanStep::Check { op, of, axis, positions, .. } => {
                let gathers = matches!(ops::definition(*op).lowering, Lowering::Gather(_));
                gathers && of.shape().is_some_and(|it| *axis < it.len()) && positions.dtype.is_int()
            }
            PlanStep::Contraction(it) => it.contraction.is_sound(),
            _ => true,
        };
        let value = |ty: &Type| {
            let element = if is_stack(ty) { &ty.dims[1..] } else { &ty.dims[..] };
            element.iter().all(|it| it.as_const().is_some()) && ty.check_size().is_ok()
        };
        let routine = |it: &Routine| {
            it.inputs.iter().chain(&it.outputs).all(value)
                && it.arena_bytes <= isize::MAX as usize / 2
                && it.steps.iter().all(step)
        };
        self.kernels.iter().all(|it| it.check().is_ok())
            && !self.routines.is_empty()
            && self.routines.iter().all(routine)
    }
}
