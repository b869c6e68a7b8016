//! Defines the stored form of plans and validates it.

use crate::lower::plan::{
    Argument, Buffer, BufferId, BufferLocation, Carry, ContractionResult, ContractionStep, Epilogue, EpilogueLoops,
    IndexedAxis, KernelCall, KernelId, Loop, NextCarry, Plan, PlanOp, PlanStep, Repeat, Reuse, Routine, RoutineId,
    Span, View, is_stack,
};
use ms_ir::MapVec;
use ms_ir::data::{Attrs, DType, Layout, Literal, Op, Type};
use ms_ir::op;
use ms_ir::stored::{Description, Reader, Stored, stored, stored_as};
use ms_ir::{Contraction, Kernel, ParamId, Precision};
use smallvec::SmallVec;

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
        on_device: bool,
    }
    struct Carry { initial: Span, result: Span, next: NextCarry }
    struct Buffer { bytes: usize, place: BufferLocation }
    struct KernelCall { kernel: KernelId, extents: SmallVec<[usize; 4]>, args: SmallVec<[Argument; 4]> }
    struct ContractionStep { contraction: Contraction, a: Span, b: Span, result: ContractionResult }
    struct Epilogue { kernel: KernelId, loops: EpilogueLoops, args: SmallVec<[Argument; 4]> }
    struct View { buffer: BufferId, dtype: DType, layout: Layout }
    struct Argument { buffer: BufferId, offset: usize, strides: SmallVec<[i64; 4]>, axis: Option<IndexedAxis> }
    struct IndexedAxis { stride: i64, extent: usize }
}

stored! {
    enum BufferLocation {
        0 = Input(at: u32), 1 = Output(at: u32), 2 = Constant(at: u32), 3 = Arena(at: usize), 4 = Position
    }
    enum PlanStep {
        0 = Kernel(call: KernelCall),
        1 = Contraction(it: Box<ContractionStep>),
        2 = Library {
            op: PlanOp,
            attrs: Attrs,
            precision: Precision,
            inputs: Vec<View>,
            outputs: Vec<View>,
            node: Option<u32>,
            epilogues: Vec<KernelCall>
        },
        3 = Call { routine: RoutineId, inputs: Vec<Span>, outputs: Vec<Span> },
        4 = Branch {
            condition: Span,
            routines: [RoutineId; 2],
            inputs: Vec<Span>,
            outputs: Vec<Span>,
            on_device: bool
        },
        5 = Loop(it: Box<Loop>),
        6 = Check {
            op: PlanOp,
            attrs: Attrs,
            operands: Vec<Type>,
            record: Span,
            views: Vec<View>,
            node: Option<u32>
        },
        7 = Kernels(calls: Vec<KernelCall>),
    }
    enum ContractionResult { 0 = Stored(at: Span), 1 = Epilogues(all: Vec<Epilogue>) }
    enum EpilogueLoops { 0 = Elements(result: ParamId), 1 = Rows(along: SmallVec<[usize; 2]>) }
    enum Repeat {
        0 = While { first: Span, next: Span, count: Option<Span> },
        1 = Fixed { count: usize, reverse: bool },
        2 = Counted { count: Span, reverse: bool },
    }
    enum NextCarry { 0 = Computed, 1 = From(carry: u32), 2 = Updated }
}

stored_as! {
    KernelId as u32: |it| it.0, |it| Some(Self(it));
    BufferId as u32: |it| it.0, |it| Some(Self(it));
    RoutineId as u32: |it| it.0, |it| Some(Self(it));
}

/// An op is stored as a number. For a custom op it is the first custom number, followed by the op's name and the hash
/// of its source. An op that this program does not have is invalid.
impl Stored for PlanOp {
    fn write(&self, out: &mut Vec<u8>) {
        match self.0.custom_source() {
            None => self.0.number().write(out),
            Some(source) => (Op::FIRST_CUSTOM, (self.0.name().to_owned(), source)).write(out),
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let def = match u16::read(from)? {
            Op::FIRST_CUSTOM => {
                let (name, source) = <(String, u64)>::read(from)?;
                op::dialect().custom_by_source(&name, source)
            }
            number => op::by_number(number).filter(|_| number < Op::FIRST_CUSTOM),
        };
        def.map(|it| Self(it.op()))
    }

    fn describe(types: &mut Description) -> String {
        let (number, custom) = (u16::describe(types), <(String, u64)>::describe(types));
        types.insert("Op", format!("{number}, {custom} if custom"));
        "Op".into()
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
                let (inputs, outputs): (Vec<_>, Vec<_>) = (inputs.map_vec(view), outputs.map_vec(view));
                op::fits(op.0, attrs, &[], &inputs.iter().collect::<Vec<_>>(), &outputs).is_ok()
            }
            PlanStep::Check { op, attrs, operands, views, .. } => {
                let def = op::definition(op.0);
                let is_constant = |it: &Type| it.shape().is_some();
                let read = def.checked_operand().and_then(|it| operands.get(it..)).unwrap_or_default();
                !read.is_empty()
                    && views.map_vec(view) == read
                    && operands.iter().all(is_constant)
                    && !attrs.is_symbolic()
                    && op::results(op.0, attrs, &operands.iter().collect::<Vec<_>>()).is_ok()
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
