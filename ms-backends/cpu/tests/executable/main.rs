//! Runs hand-written plans on the backend.

mod batch;
mod epilogues;

use ms_compile::exec::{Artifact, Backend, CompileOptions, Executable, PlanProgram, Program, StoredProgram};
use ms_compile::lower::{
    Argument, Buffer, BufferId, BufferLocation, ContractionResult, ContractionStep, IndexedAxis, KernelCall, KernelId,
    Plan, PlanOp, PlanStep, Reuse, Routine, Span, View,
};
use ms_cpu::{CpuBackend, Isa};
use ms_ir::Error;
use ms_ir::data::{Array, Attr, Attrs, DType, Layout, Literal};
use ms_ir::error::Code;
use ms_ir::{
    BinaryOp, Contraction, ContractionTypes, Kernel, KernelBuilder, LaneAxis, Precision, Role, Scope, StrideClass, Type,
};
use ms_ops::ops::{self, parse_graph};
use std::sync::Arc;

/// Builds a kernel that computes `out = a op b` along one axis.
fn binary(op: BinaryOp) -> Kernel {
    let mut builder = KernelBuilder::new(0, 0, LaneAxis::Parallel);
    let a = builder.param(DType::F32, Role::Input, StrideClass::Unit);
    let b = builder.param(DType::F32, Role::Input, StrideClass::Any);
    let out = builder.param(DType::F32, Role::Output, StrideClass::Unit);
    let (a, b) = (builder.load(a), builder.load(b));
    let value = builder.binary(op, a, b);
    builder.store(out, value);
    builder.end_stage(Scope::Point);
    builder.finish()
}

fn argument(buffer: u32, offset: usize, stride: i64) -> Argument {
    Argument { buffer: BufferId(buffer), offset, strides: [stride].into_iter().collect(), axis: None }
}

fn kernel_call(kernel: u32, len: usize, args: [Argument; 3]) -> KernelCall {
    KernelCall { kernel: KernelId(kernel), extents: [len].into_iter().collect(), args: args.into_iter().collect() }
}

fn call(kernel: u32, len: usize, args: [Argument; 3]) -> PlanStep {
    PlanStep::Kernel(kernel_call(kernel, len, args))
}

fn buffer(bytes: usize, place: BufferLocation) -> Buffer {
    Buffer { bytes, place }
}

fn view(buffer: u32, shape: &[usize]) -> View {
    View { buffer: BufferId(buffer), dtype: DType::F32, layout: Layout::contiguous(shape) }
}

/// Builds the product of buffer 5, which has two rows, with its first columns. The result is in buffer 6.
fn product(columns: usize) -> PlanStep {
    let of = |columns| Layout::contiguous(&[2, columns]);
    let types = ContractionTypes::of(DType::F32);
    let contraction = Contraction::of_matrices(types, Precision::Strict, &of(2), &of(columns), &of(columns));
    let [a, b, out] = [5, 5, 6].map(|it| Span { buffer: BufferId(it), offset: 0 });
    let (contraction, result) = (contraction.expect("shapes fit"), ContractionResult::Stored(out));
    PlanStep::Contraction(Box::new(ContractionStep { contraction, a, b, result }))
}

/// Returns the contraction of the plan.
fn contraction(routine: &mut Routine) -> &mut Contraction {
    match &mut routine.steps[3] {
        PlanStep::Contraction(it) => &mut it.contraction,
        other => panic!("{other:?}"),
    }
}

/// Builds a plan of `(x + 10) * y` for `x` and `y` of four elements, through the arena. The library then reshapes the
/// result to `[2, 2]`, and the last step squares that matrix.
fn plan() -> Plan {
    let vector = Type::of(DType::F32, &[4]);
    let shape: Attr = (&[2usize, 2][..]).into();
    let main = Routine {
        name: "by hand".into(),
        inputs: vec![vector.clone(), vector],
        outputs: vec![Type::of(DType::F32, &[2, 2]), Type::of(DType::F32, &[4])],
        buffers: vec![
            buffer(16, BufferLocation::Input(0)),
            buffer(16, BufferLocation::Input(1)),
            buffer(4, BufferLocation::Constant(0)),
            buffer(16, BufferLocation::Arena(0)),
            buffer(16, BufferLocation::Output(1)),
            buffer(16, BufferLocation::Arena(64)),
            buffer(16, BufferLocation::Output(0)),
        ],
        arena_bytes: 128,
        steps: vec![
            call(0, 4, [argument(0, 0, 4), argument(2, 0, 0), argument(3, 0, 4)]),
            // The second operand has a negative stride.
            call(1, 4, [argument(3, 0, 4), argument(1, 12, -4), argument(4, 0, 4)]),
            PlanStep::Library {
                op: PlanOp(ops::RESHAPE.op()),
                attrs: Attrs::new([shape]),
                precision: Precision::Strict,
                inputs: vec![view(4, &[4])],
                outputs: vec![view(5, &[2, 2])],
                node: None,
                epilogues: Vec::new(),
            },
            product(2),
        ],
        reuse: Reuse { free_from: vec![1, 2], touched_at: vec![3, 1], in_place: Vec::new(), fallible: 4 },
    };
    Plan {
        kernels: vec![binary(BinaryOp::Add), binary(BinaryOp::Mul)],
        constants: vec![Literal::scalar(10.0.into(), DType::F32)],
        routines: vec![main],
    }
}

fn load(plan: Plan) -> Result<Arc<dyn Executable>, Error> {
    let backend = CpuBackend::new();
    let options = CompileOptions::default();
    let artifact = backend.compile_plan(plan, &options)?;
    // SAFETY: `load` verifies every buffer of the plan, and the test's steps only access those.
    unsafe { backend.load(&artifact) }
}

fn vector(data: [f32; 4]) -> Array {
    Array::from_slice(&[4], &data)
}

#[track_caller]
fn check(executable: &dyn Executable, x: [f32; 4], y: [f32; 4]) {
    let outputs = executable.run(&[&vector(x), &vector(y)]).expect("the inputs fit");
    let v: [f32; 4] = std::array::from_fn(|i| (x[i] + 10.0) * y[3 - i]);
    assert_eq!(outputs[1].on_host().expect("the elements are readable").as_slice::<f32>().expect("row-major"), v);
    let square =
        [v[0] * v[0] + v[1] * v[2], v[0] * v[1] + v[1] * v[3], v[2] * v[0] + v[3] * v[2], v[2] * v[1] + v[3] * v[3]];
    assert_eq!(outputs[0].on_host().expect("the elements are readable").as_slice::<f32>().expect("row-major"), square);
    assert_eq!(outputs[0].shape(), [2, 2]);
}

#[test]
fn every_kind_of_step_and_place() {
    let executable = load(plan()).expect("a well-formed plan");
    check(&*executable, [1.0, 2.0, 3.0, 4.0], [1.0, 0.5, 2.0, 4.0]);
    check(&*executable, [0.0, -10.0, 5.0, 1.0], [3.0, 1.0, 2.0, 1.0]);
}

#[test]
fn outputs_take_the_memory_of_inputs_that_are_given_up() {
    let executable = load(plan()).expect("a well-formed plan");
    let (x, y) = (vector([1.0, 2.0, 3.0, 4.0]), vector([1.0, 0.5, 2.0, 4.0]));
    let want = executable.run(&[&x, &y]).expect("the inputs fit");
    let values = |outputs: &[Array]| {
        outputs.iter().map(|it| it.on_host().expect("the elements are readable").to_bytes()).collect::<Vec<_>>()
    };
    let places = [x.device_ptr(), y.device_ptr()];
    // The first output is written after the last reads of both inputs, and the second after the last read of `x`.
    let got = executable.run_donated(&mut [x, y], &[]).expect("the inputs fit");
    assert_eq!((values(&got), got[0].device_ptr()), (values(&want), places[0]));
    let (x, y) = (vector([1.0, 2.0, 3.0, 4.0]), vector([1.0, 0.5, 2.0, 4.0]));
    let (kept, before) = (x.clone(), x.on_host().expect("the elements are readable").to_bytes());
    let got = executable.run_donated(&mut [x, y], &[]).expect("the inputs fit");
    assert_eq!((values(&got), kept.on_host().expect("the elements are readable").to_bytes()), (values(&want), before));
    assert!(got.iter().all(|it| it.device_ptr() != kept.device_ptr()));
}

#[test]
fn inputs_may_lie_anywhere_in_larger_arrays() {
    let executable = load(plan()).expect("a well-formed plan");
    let whole = Array::from_slice(&[3, 4], &(0..12).map(|i| i as f32).collect::<Vec<_>>());
    let row = whole.with_layout(Layout::contiguous(&[3, 4]).slice(0, 1, 1, 1).reshape(&[4]).expect("a row is dense"));
    let outputs = executable.run(&[&row, &vector([1.0; 4])]).expect("the inputs fit");
    assert_eq!(
        outputs[1].on_host().expect("the elements are readable").as_slice::<f32>().expect("row-major"),
        [14.0, 15.0, 16.0, 17.0]
    );
    let column = whole.with_layout(Layout::contiguous(&[12]).slice(0, 11, 4, -3));
    let outputs = executable.run(&[&column, &vector([1.0; 4])]).expect("the inputs fit");
    assert_eq!(
        outputs[1].on_host().expect("the elements are readable").as_slice::<f32>().expect("row-major"),
        [21.0, 18.0, 15.0, 12.0]
    );
}

#[test]
fn concurrent_runs_have_an_arena_each() {
    let executable = load(plan()).expect("a well-formed plan");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let executable = &*executable;
            scope.spawn(move || {
                for i in 0..2000 {
                    let at = (i % 7) as f32 + thread as f32;
                    check(executable, [at, 1.0, -at, 2.0], [1.0, at, 2.0, 3.0]);
                }
            });
        }
    });
}

#[test]
fn inputs_are_checked() {
    let executable = load(plan()).expect("a well-formed plan");
    let fine = vector([0.0; 4]);
    for inputs in [vec![&fine], vec![&fine; 3]] {
        let error = executable.run(&inputs).expect_err("the inputs do not fit");
        assert_eq!(error.code(), Code::Argument);
    }
    let (long, ints) = (Array::zeros(&[5], DType::F32), Array::zeros(&[4], DType::I32));
    for other in [&long, &ints] {
        let error = executable.run(&[&fine, other]).expect_err("the inputs do not fit");
        assert!(error.to_string().contains("(f32[4], f32[4])"), "{error}");
    }
}

/// Checks that plans are rejected after each of these changes to a part of them.
#[track_caller]
fn check_refused<T>(plan: fn() -> Plan, part: fn(&mut Plan) -> &mut T, broken: &[fn(&mut T)]) {
    for (i, damage) in broken.iter().enumerate() {
        let mut plan = plan();
        damage(part(&mut plan));
        let error = load(plan).err().unwrap_or_else(|| panic!("case {i} is refused"));
        assert_eq!(error.code(), Code::Verify, "case {i}");
    }
}

#[test]
fn plans_that_reach_outside_are_refused() {
    let broken: [fn(&mut Routine); 12] = [
        |it| it.steps[0] = call(0, 5, [argument(0, 0, 4), argument(2, 0, 0), argument(3, 0, 4)]),
        |it| it.steps[0] = call(0, 4, [argument(0, 0, -4), argument(2, 0, 0), argument(3, 0, 4)]),
        |it| it.steps[0] = call(2, 4, [argument(0, 0, 4), argument(2, 0, 0), argument(3, 0, 4)]),
        |it| it.steps[0] = call(0, 4, [argument(9, 0, 4), argument(2, 0, 0), argument(3, 0, 4)]),
        |it| it.steps[3] = product(3),
        |it| contraction(it).k[0].strides[2] = 1,
        |it| contraction(it).types.b = DType::F64,
        |it| it.buffers[0].bytes = 20,
        |it| it.buffers[5].place = BufferLocation::Arena(128),
        |it| it.buffers[2].place = BufferLocation::Constant(1),
        |it| it.buffers[0].place = BufferLocation::Position,
        |it| it.buffers[5].place = BufferLocation::Position,
    ];
    check_refused(plan, |it| &mut it.routines[0], &broken);
}

/// Steps of plans take buffers as arguments, but no immediates.
#[test]
fn immediates_are_refused() {
    let mut plan = plan();
    let param = &mut plan.kernels[0].params[1];
    (param.role, param.step) = (Role::Immediate, StrideClass::Zero);
    plan.kernels[0].check().expect("the kernel is well formed");
    assert_eq!(load(plan).err().map(|it| it.code()), Some(Code::Verify));
}

/// Builds two steps: a kernel that reads its result `y` and its scratch memory `z` again, and a copy of an input.
fn reloading() -> Plan {
    let reload = "kernel par=1 lanes=reduced seq=0 in %x: f32 unit reloaded %y: f32 unit scratch %z: f32 unit
        loop: x = load %x y = add x, x store %y, y z = neg x store %z, z max = reduce max x
        loop: again = load %y minus = load %z product = mul again, minus rest = sub product, max store %y, rest";
    let copy = "kernel par=0 lanes=parallel seq=0 in %x: f32 unit out %y: f32 unit point: x = load %x store %y, x";
    let call = |kernel: u32, extents: &[usize], strides: &[i64], buffers: &[u32]| {
        let args = buffers.iter().map(|&it| Argument {
            buffer: BufferId(it),
            offset: 0,
            strides: strides.iter().copied().collect(),
            axis: None,
        });
        let extents = extents.iter().copied().collect();
        PlanStep::Kernel(KernelCall { kernel: KernelId(kernel), extents, args: args.collect() })
    };
    let main = Routine {
        inputs: vec![Type::of(DType::F32, &[2, 2])],
        outputs: vec![Type::of(DType::F32, &[2, 2]); 2],
        buffers: vec![
            buffer(16, BufferLocation::Input(0)),
            buffer(16, BufferLocation::Output(0)),
            buffer(16, BufferLocation::Arena(0)),
            buffer(16, BufferLocation::Output(1)),
        ],
        arena_bytes: 16,
        steps: vec![call(0, &[2, 2], &[8, 4], &[0, 1, 2]), call(1, &[4], &[4], &[0, 3])],
        ..Routine::default()
    };
    let kernels = [reload, copy].map(|it| Kernel::parse(it).expect(it)).into();
    Plan { kernels, routines: vec![main], ..Plan::default() }
}

#[test]
fn a_kernel_reads_its_results_again() {
    let executable = load(reloading()).expect("a well-formed plan");
    let outputs = executable.run(&[&Array::from_slice(&[2, 2], &[1.0f32, 2.0, 3.0, -4.0])]).expect("the input fits");
    let result = outputs[0].on_host().expect("the elements are readable");
    assert_eq!(result.as_slice::<f32>().expect("row-major"), [-4.0, -10.0, -21.0, -35.0]);
}

/// What a kernel reads again has an element for each iteration, and no other step accesses scratch memory.
#[test]
fn reloads_are_checked() {
    fn step(routine: &mut Routine, at: usize) -> &mut KernelCall {
        let PlanStep::Kernel(call) = &mut routine.steps[at] else { panic!("the step is a kernel") };
        call
    }
    let broken: [fn(&mut Routine); 4] = [
        |it| step(it, 0).args[1].strides[0] = 0,
        |it| step(it, 0).args[2].strides[0] = 4,
        |it| step(it, 1).args[0].buffer = BufferId(2),
        |it| step(it, 1).args[1].buffer = BufferId(2),
    ];
    check_refused(reloading, |it| &mut it.routines[0], &broken);
}

/// Builds a gather of rows of `[3, 2]` at two positions, after a check of the positions.
fn rows() -> Plan {
    let kernel = "kernel par=1 lanes=parallel seq=0 indexed %x: f32 unit in %at: i64 zero out %y: f32 unit
        point: at = load %at y = gather %x, at store %y, y";
    let check = "kernel par=0 lanes=reduced seq=0 pos %p: i64 unit in %at: i64 unit out %first: i64 zero
        loop: at = load %at p = load %p low = const i64 -3 high = const i64 2 none = const i64 9223372036854775807
        above = le low, at below = le at, high exists = and above, below term = select exists, none, p
        first = reduce min term
        point: store %first, first";
    let [x, at, y] = [(DType::F32, [3, 2].as_slice()), (DType::I64, &[2]), (DType::F32, &[2, 2])]
        .map(|(dtype, shape)| Type::of(dtype, shape));
    let argument = |buffer: u32, strides: &[i64], axis| Argument {
        buffer: BufferId(buffer),
        offset: 0,
        strides: strides.iter().copied().collect(),
        axis,
    };
    let axis = Some(IndexedAxis { stride: 8, extent: 3 });
    let positions = View { dtype: DType::I64, ..view(1, &[2]) };
    let main = Routine {
        inputs: vec![x.clone(), at.clone()],
        outputs: vec![y],
        buffers: vec![
            buffer(24, BufferLocation::Input(0)),
            buffer(16, BufferLocation::Input(1)),
            buffer(16, BufferLocation::Output(0)),
            buffer(8, BufferLocation::Arena(0)),
            buffer(16, BufferLocation::Position),
        ],
        arena_bytes: 8,
        steps: vec![
            PlanStep::Kernel(KernelCall {
                kernel: KernelId(1),
                extents: [2].into_iter().collect(),
                args: [argument(4, &[8], None), argument(1, &[8], None), argument(3, &[0], None)].into_iter().collect(),
            }),
            PlanStep::Check {
                op: PlanOp(ops::GATHER.op()),
                attrs: Attrs::new([0usize.into()]),
                operands: vec![x, at.clone()],
                record: Span { buffer: BufferId(3), offset: 0 },
                views: vec![positions],
                node: None,
            },
            PlanStep::Kernel(KernelCall {
                kernel: KernelId(0),
                extents: [2, 2].into_iter().collect(),
                args: [argument(0, &[0, 4], axis), argument(1, &[8, 0], None), argument(2, &[8, 4], None)]
                    .into_iter()
                    .collect(),
            }),
        ],
        ..Routine::default()
    };
    let kernels = [kernel, check].map(|it| Kernel::parse(it).expect(it)).into();
    Plan { kernels, routines: vec![main], ..Plan::default() }
}

#[test]
fn positions_are_checked() {
    let executable = load(rows()).expect("a well-formed plan");
    let x = Array::from_slice(&[3, 2], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let run = |at: [i64; 2]| executable.run(&[&x, &Array::from_slice(&[2], &at)]);
    let outputs = run([2, -3]).expect("the rows exist");
    assert_eq!(
        outputs[0].on_host().expect("the elements are readable").as_slice::<f32>().expect("row-major"),
        [5.0, 6.0, 1.0, 2.0]
    );
    for (at, wrong) in [([0, 3], 3), ([-4, 0], -4), ([i64::MAX, 7], i64::MAX), ([0, i64::MIN], i64::MIN)] {
        let error = run(at).expect_err("a row does not exist");
        assert_eq!(error.code(), Code::OutOfRange);
        let text = error.to_string();
        assert!(text.contains(&format!("index {wrong} is outside axis 0 of shape [3, 2]")), "{text}");
        assert!(text.contains("gather") && text.contains("f32[3, 2]") && text.contains("i64[2]"), "{text}");
    }
}

#[test]
fn axes_that_reach_outside_are_refused() {
    type Axis = Option<IndexedAxis>;
    let axes: [(usize, Axis); 5] = [
        (0, None),
        (0, Some(IndexedAxis { stride: 8, extent: 4 })),
        (0, Some(IndexedAxis { stride: -8, extent: 2 })),
        (0, Some(IndexedAxis { stride: i64::MAX, extent: usize::MAX })),
        (1, Some(IndexedAxis { stride: 8, extent: 1 })),
    ];
    for (arg, axis) in axes {
        let mut plan = rows();
        let PlanStep::Kernel(KernelCall { args, .. }) = &mut plan.routines[0].steps[2] else {
            panic!("the third step")
        };
        args[arg].axis = axis;
        let error = load(plan).err().unwrap_or_else(|| panic!("{axis:?} is refused"));
        assert_eq!(error.code(), Code::Verify, "{axis:?}");
    }
}

/// A check has the operands of its op, and its record is in its buffer.
#[test]
fn checks_that_do_not_fit_are_refused() {
    type Parts<'a> = (&'a mut Attrs, &'a mut Vec<Type>, &'a mut Span, &'a mut Vec<View>);
    let unsound: [fn(Parts<'_>); 6] = [
        |it| *it.0 = Attrs::new([2usize.into()]),
        |it| *it.0 = Attrs::none(),
        |it| it.1[1].dtype = DType::F64,
        |it| it.1.truncate(1),
        |it| it.3.clear(),
        |it| it.3[0].dtype = DType::I32,
    ];
    let outside: [fn(Parts<'_>); 3] =
        [|it| it.2.offset = 8, |it| it.2.buffer = BufferId(4), |it| it.3[0].buffer = BufferId(3)];
    let broken = |change: fn(Parts<'_>)| {
        let mut plan = rows();
        let PlanStep::Check { attrs, operands, record, views, .. } = &mut plan.routines[0].steps[1] else {
            panic!("the second step")
        };
        change((attrs, operands, record, views));
        plan
    };
    assert!(rows().is_sound());
    for (at, change) in unsound.into_iter().enumerate() {
        assert!(!broken(change).is_sound(), "change {at}");
    }
    for (at, change) in outside.into_iter().enumerate() {
        assert_eq!(load(broken(change)).err().map(|it| it.code()), Some(Code::Verify), "change {at}");
    }
}

/// A record without an element of the operand is an error.
#[test]
fn records_of_missing_elements_are_errors() {
    for position in ["7", "-1"] {
        let mut plan = rows();
        let text = format!("{}", plan.kernels[1]).replace("9223372036854775807", position);
        plan.kernels[1] = Kernel::parse(&text).expect("only a number changed");
        let x = Array::zeros(&[3, 2], DType::F32);
        let error = load(plan).expect("a well-formed plan").run(&[&x, &Array::from_slice(&[2], &[0i64, 1])]);
        assert_eq!(error.expect_err("the record is wrong").code(), Code::Verify, "{position}");
    }
}

#[test]
fn empty_results() {
    let empty = Type::of(DType::F32, &[0]);
    let main = Routine {
        inputs: vec![empty.clone(), empty.clone()],
        outputs: vec![empty],
        buffers: vec![
            buffer(0, BufferLocation::Input(0)),
            buffer(0, BufferLocation::Input(1)),
            buffer(0, BufferLocation::Output(0)),
        ],
        steps: vec![call(0, 0, [argument(0, 0, 4), argument(1, 0, 4), argument(2, 0, 4)])],
        ..Routine::default()
    };
    let plan = Plan { kernels: vec![binary(BinaryOp::Add)], routines: vec![main], ..Plan::default() };
    let none = Array::zeros(&[0], DType::F32);
    let outputs = load(plan).expect("a well-formed plan").run(&[&none, &none]).expect("the inputs fit");
    assert_eq!(outputs[0].shape(), [0]);
}

#[test]
fn artifacts_are_for_their_instruction_set_and_plan() {
    let interp = CpuBackend::with_isa(Isa::Interp).expect("the interpreter runs everywhere");
    let options = CompileOptions::default();
    let artifact = interp.compile_plan(plan(), &options).expect("every kernel compiles");
    // SAFETY: the artifact is of a plan with valid buffers, or `load` rejects it.
    let load = |artifact: &Artifact| unsafe { interp.load(artifact) };
    let code = |artifact: &Artifact| load(artifact).err().map(|it| it.code());
    assert!(load(&artifact).is_ok());
    let bytes: Arc<[u8]> = artifact.program.to_bytes().into();
    let stored = |bytes: &[u8]| Artifact { program: Program::Bytes(bytes.into()), ..artifact.clone() };
    assert!(load(&stored(&bytes)).is_ok());
    assert_eq!(code(&stored(&bytes[..bytes.len() - 1])), Some(Code::Backend));
    let mut program = (*PlanProgram::of(&artifact).expect("the backend made it")).clone();
    program.plan.kernels.swap(0, 1);
    assert_eq!(code(&program.clone().artifact(artifact.code.clone())), Some(Code::Backend));
    // The interface must match the plan.
    program.plan.kernels.swap(0, 1);
    program.plan.routines[0].outputs.swap(0, 1);
    assert_eq!(code(&stored(&program.artifact(artifact.code.clone()).program.to_bytes())), Some(Code::Backend));
    // The program is from another backend.
    struct Other;
    impl StoredProgram for Other {
        fn write(&self, _: &mut Vec<u8>) {}
    }
    let other = Artifact { program: Program::InMemory(Arc::new(Other)), ..artifact.clone() };
    assert_eq!(code(&other), Some(Code::Backend));
    assert_ne!(interp.fingerprint(), CpuBackend::with_isa(Isa::detect()).expect("detected").fingerprint());
}

/// The text of a plan names the implementation of each library step that has a list.
#[test]
fn plans_name_implementations() {
    let graph = parse_graph(
        "graph @main(%x: f32[2, 3, 9, 9], %w: f32[4, 3, 3, 3]) -> (f32[2, 4, 7, 7]) {
          %y = conv %x, %w {stride = [1, 1], dilation = [1, 1], before = [0, 0], after = [0, 0], groups = 1}
            : f32[2, 4, 7, 7]
          return %y
        }",
    );
    let graph = graph.unwrap_or_else(|error| panic!("{error}"));
    let text = CpuBackend::new().describe(&graph, &CompileOptions::default());
    let text = text.unwrap_or_else(|error| panic!("{error}"));
    let line = text.lines().last().expect("it has lines");
    assert!(line.starts_with("implementation of r0 step 0, conv: "), "{text}");
    assert!(line.contains("zeros: there are summands; direct with one output channel: a group has 4"), "{line}");
}
