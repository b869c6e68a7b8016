//! Tests contractions with epilogues.

use super::{buffer, check_refused, load};
use ms_compile::lower::{
    Argument, BufferId, BufferLocation, ContractionResult, ContractionStep, Epilogue, EpilogueLoops, KernelCall,
    KernelId, Plan, PlanOp, PlanStep, Routine, Span, View,
};
use ms_ir::data::{Array, Attr, Attrs, DType, Layout};
use ms_ir::{Contraction, ContractionRanks, ContractionTypes, Kernel, LaneAxis, ParamId, Precision, StrideClass, Type};
use ms_ops::ops;

/// Builds a batched contraction whose rows and columns are two axes each, in another order in the operands. The
/// epilogue computes `p * c + i`, where `c` has one number per column, and `i` is the position along the first row
/// axis.
fn epilogue() -> Plan {
    let kernel = "kernel par=4 lanes=parallel seq=0 in %c: f32 unit in %p: f32 unit out %y: f32 unit
        point: p = load %p c = load %c i = index 1 f = cast i to f32 s = mul p, c y = add s, f store %y, y";
    let a = Layout::contiguous(&[2, 3, 2, 4]).permute(&[0, 2, 1, 3]);
    let b = Layout::contiguous(&[2, 4, 2, 3]).permute(&[0, 1, 3, 2]);
    let out = Layout::contiguous(&[2, 2, 3, 3, 2]);
    let ranks = ContractionRanks { batch: 1, k: 1 };
    let contraction = Contraction::new(ContractionTypes::of(DType::F32), Precision::Strict, ranks, [&a, &b, &out]);
    let argument = |buffer: u32, strides: [i64; 5]| Argument {
        buffer: BufferId(buffer),
        offset: 0,
        strides: strides.map(|it| it * 4).into_iter().collect(),
        axis: None,
    };
    let args = [argument(2, [0, 0, 0, 2, 1]), argument(3, [36, 18, 6, 2, 1])].into_iter().collect();
    let [a, b] = [0, 1].map(|it| Span { buffer: BufferId(it), offset: 0 });
    let result = ContractionResult::Epilogues(vec![Epilogue {
        kernel: KernelId(0),
        loops: EpilogueLoops::Elements(ParamId(1)),
        args,
    }]);
    let step = ContractionStep { contraction: contraction.expect("shapes fit"), a, b, result };
    let types = [&[2, 3, 2, 4][..], &[2, 4, 2, 3], &[3, 2]].map(|it| Type::of(DType::F32, it));
    let main = Routine {
        inputs: types.to_vec(),
        outputs: vec![Type::of(DType::F32, &[2, 2, 3, 3, 2])],
        buffers: vec![
            buffer(192, BufferLocation::Input(0)),
            buffer(192, BufferLocation::Input(1)),
            buffer(24, BufferLocation::Input(2)),
            buffer(288, BufferLocation::Output(0)),
        ],
        steps: vec![PlanStep::Contraction(Box::new(step))],
        ..Routine::default()
    };
    Plan { kernels: vec![Kernel::parse(kernel).expect(kernel)], routines: vec![main], ..Plan::default() }
}

#[test]
fn epilogues_of_several_axes() {
    let [a, b, c]: [Vec<f32>; 3] = [48, 48, 6].map(|len| (0..len).map(|it| (it * 5 % 7) as f32 - 3.0).collect());
    let inputs =
        [Array::from_slice(&[2, 3, 2, 4], &a), Array::from_slice(&[2, 4, 2, 3], &b), Array::from_slice(&[3, 2], &c)];
    let mut want = Vec::new();
    for at in 0..72 {
        let [n1, n0, m1, m0, batch] = [at % 2, at / 2 % 3, at / 6 % 3, at / 18 % 2, at / 36];
        let term = |k: usize| a[batch * 24 + m1 * 8 + m0 * 4 + k] * b[batch * 24 + k * 6 + n1 * 3 + n0];
        want.push((0..4).map(term).sum::<f32>() * c[n0 * 2 + n1] + m0 as f32);
    }
    let outputs = load(epilogue()).expect("a well-formed plan").run(&inputs.iter().collect::<Vec<_>>());
    let outputs = outputs.expect("the inputs fit");
    assert_eq!(outputs[0].on_host().expect("the elements are readable").as_slice::<f32>().expect("row-major"), want);
}

#[test]
fn epilogues_that_do_not_fit_are_refused() {
    fn step(plan: &mut Plan) -> &mut ContractionStep {
        let PlanStep::Contraction(step) = &mut plan.routines[0].steps[0] else { panic!("the only step") };
        step
    }
    fn own(plan: &mut Plan) -> &mut Epilogue {
        let ContractionResult::Epilogues(own) = &mut step(plan).result else { panic!("it has an epilogue") };
        &mut own[0]
    }
    let broken: [fn(&mut Plan); 10] = [
        |it| own(it).kernel = KernelId(1),
        |it| own(it).loops = EpilogueLoops::Elements(ParamId(2)),
        |it| own(it).loops = EpilogueLoops::Elements(ParamId(3)),
        |it| it.kernels[0].params[1].step = StrideClass::Any,
        |it| it.kernels[0].params[1].dtype = DType::BF16,
        |it| (it.kernels[0].par, it.kernels[0].seq) = (3, 1),
        |it| it.kernels[0].lanes = LaneAxis::Reduced,
        |it| own(it).args.truncate(1),
        |it| own(it).args[1].offset = 4,
        |it| step(it).contraction.m.truncate(1),
    ];
    check_refused(epilogue, |it| it, &broken);
}

/// Builds an elementwise sum of an input and a convolution with one channel and scalar filters.
fn epilogue_of_op() -> Plan {
    let kernel = "kernel par=2 lanes=parallel seq=0 in %c: f32 unit in %z: f32 unit out %y: f32 unit
        point: c = load %c z = load %z y = add c, z store %y, y";
    let types = [&[2, 1, 2, 2][..], &[3, 1, 1, 1], &[2, 3, 2, 2]].map(|it| Type::of(DType::F32, it));
    let view = |buffer: u32, shape: &[usize]| View {
        buffer: BufferId(buffer),
        dtype: DType::F32,
        layout: Layout::contiguous(shape),
    };
    let argument = |buffer: u32| Argument {
        buffer: BufferId(buffer),
        offset: 0,
        strides: [48, 16, 4].into_iter().collect(),
        axis: None,
    };
    let [ones, none] = [1usize, 0].map(|it| Attr::from(&[it, it][..]));
    let step = PlanStep::Library {
        op: PlanOp(ops::CONV.op()),
        attrs: Attrs::new([ones.clone(), ones, none.clone(), none, 1usize.into()]),
        precision: Precision::Strict,
        inputs: vec![view(0, &[2, 1, 2, 2]), view(1, &[3, 1, 1, 1])],
        outputs: vec![view(3, &[2, 3, 2, 2])],
        node: None,
        epilogues: vec![KernelCall {
            kernel: KernelId(0),
            extents: [2, 3, 4].into_iter().collect(),
            args: [argument(3), argument(2), argument(4)].into_iter().collect(),
        }],
    };
    let main = Routine {
        inputs: types.to_vec(),
        outputs: vec![types[2].clone()],
        buffers: vec![
            buffer(32, BufferLocation::Input(0)),
            buffer(12, BufferLocation::Input(1)),
            buffer(96, BufferLocation::Input(2)),
            buffer(96, BufferLocation::Arena(0)),
            buffer(96, BufferLocation::Output(0)),
        ],
        arena_bytes: 128,
        steps: vec![step],
        ..Routine::default()
    };
    Plan { kernels: vec![Kernel::parse(kernel).expect(kernel)], routines: vec![main], ..Plan::default() }
}

#[test]
fn epilogues_of_ops() {
    let [x, w, z]: [Vec<f32>; 3] = [8, 3, 24].map(|len| (0..len).map(|it| (it * 5 % 7) as f32 - 3.0).collect());
    let shapes = [&[2, 1, 2, 2][..], &[3, 1, 1, 1], &[2, 3, 2, 2]];
    let inputs = [Array::from_slice(shapes[0], &x), Array::from_slice(shapes[1], &w), Array::from_slice(shapes[2], &z)];
    let want: Vec<f32> = (0..24).map(|at| x[at / 12 * 4 + at % 4] * w[at / 4 % 3] + z[at]).collect();
    let outputs = load(epilogue_of_op()).expect("a well-formed plan").run(&inputs.iter().collect::<Vec<_>>());
    let outputs = outputs.expect("the inputs fit");
    assert_eq!(outputs[0].on_host().expect("the elements are readable").as_slice::<f32>().expect("row-major"), want);
}

#[test]
fn epilogues_that_do_not_fit_their_op_are_refused() {
    fn own(plan: &mut Plan) -> &mut KernelCall {
        let PlanStep::Library { epilogues, .. } = &mut plan.routines[0].steps[0] else { panic!("the only step") };
        &mut epilogues[0]
    }
    let broken: [fn(&mut Plan); 8] = [
        |it| own(it).kernel = KernelId(1),
        |it| own(it).extents = [2, 4, 3].into_iter().collect(),
        |it| own(it).extents = [6, 4].into_iter().collect(),
        |it| own(it).args[0].strides[1] = 0,
        |it| own(it).args[0].offset = 16,
        |it| own(it).args.truncate(2),
        // The epilogue writes other elements than the op computes.
        |it| own(it).args[2] = own(it).args[0].clone(),
        |it| (it.kernels[0].par, it.kernels[0].seq) = (1, 1),
    ];
    check_refused(epilogue_of_op, |it| it, &broken);
}

/// Builds an epilogue that doubles a product, and one chained after it that subtracts its right columns from its left
/// ones.
fn epilogue_behind() -> Plan {
    let twice = "kernel par=1 lanes=parallel seq=0 in %p: f32 unit out %y: f32 unit
        point: p = load %p y = add p, p store %y, y";
    let difference = "kernel par=1 lanes=parallel seq=0 in %l: f32 unit in %r: f32 unit out %y: f32 unit
        point: l = load %l r = load %r y = sub l, r store %y, y";
    let [a, b, out] = [[5, 4], [4, 6], [5, 6]].map(|it| Layout::contiguous(&it));
    let ranks = ContractionRanks { batch: 0, k: 1 };
    let contraction = Contraction::new(ContractionTypes::of(DType::F32), Precision::Strict, ranks, [&a, &b, &out]);
    let argument = |buffer: u32, offset: usize, row: i64| Argument {
        buffer: BufferId(buffer),
        offset,
        strides: [4 * row, 4].into_iter().collect(),
        axis: None,
    };
    let all = vec![
        Epilogue {
            kernel: KernelId(0),
            loops: EpilogueLoops::Elements(ParamId(0)),
            args: [argument(2, 0, 6)].into_iter().collect(),
        },
        Epilogue {
            kernel: KernelId(1),
            loops: EpilogueLoops::Rows([3].into_iter().collect()),
            args: [argument(2, 0, 6), argument(2, 12, 6), argument(3, 0, 3)].into_iter().collect(),
        },
    ];
    let [a, b] = [0, 1].map(|it| Span { buffer: BufferId(it), offset: 0 });
    let result = ContractionResult::Epilogues(all);
    let step = ContractionStep { contraction: contraction.expect("shapes fit"), a, b, result };
    let types = [&[5, 4][..], &[4, 6]].map(|it| Type::of(DType::F32, it));
    let main = Routine {
        inputs: types.to_vec(),
        outputs: vec![Type::of(DType::F32, &[5, 3])],
        buffers: vec![
            buffer(80, BufferLocation::Input(0)),
            buffer(96, BufferLocation::Input(1)),
            buffer(120, BufferLocation::Arena(0)),
            buffer(60, BufferLocation::Output(0)),
        ],
        arena_bytes: 128,
        steps: vec![PlanStep::Contraction(Box::new(step))],
        ..Routine::default()
    };
    let kernels = [twice, difference].map(|it| Kernel::parse(it).expect(it)).to_vec();
    Plan { kernels, routines: vec![main], ..Plan::default() }
}

#[test]
fn an_epilogue_behind_another_one() {
    let [a, b]: [Vec<f32>; 2] = [20, 24].map(|len| (0..len).map(|it| (it * 5 % 7) as f32 - 3.0).collect());
    let inputs = [Array::from_slice(&[5, 4], &a), Array::from_slice(&[4, 6], &b)];
    let product = |row: usize, column: usize| (0..4).map(|k| a[row * 4 + k] * b[k * 6 + column]).sum::<f32>();
    let want = |at: usize| 2.0 * product(at / 3, at % 3) - 2.0 * product(at / 3, at % 3 + 3);
    let outputs = load(epilogue_behind()).expect("a well-formed plan").run(&inputs.iter().collect::<Vec<_>>());
    let outputs = outputs.expect("the inputs fit");
    let found = outputs[0].on_host().expect("the elements are readable");
    assert_eq!(found.as_slice::<f32>().expect("row-major"), (0..15).map(want).collect::<Vec<_>>());

    fn step(plan: &mut Plan) -> &mut ContractionStep {
        let PlanStep::Contraction(step) = &mut plan.routines[0].steps[0] else { panic!("the only step") };
        step
    }
    fn last(plan: &mut Plan) -> &mut Epilogue {
        let ContractionResult::Epilogues(all) = &mut step(plan).result else { panic!("it has epilogues") };
        &mut all[1]
    }
    let broken: [fn(&mut Plan); 6] = [
        |it| last(it).loops = EpilogueLoops::Rows([3, 1].into_iter().collect()),
        |it| last(it).loops = EpilogueLoops::Rows([4].into_iter().collect()),
        |it| last(it).args.truncate(2),
        |it| last(it).args[1].offset = 16,
        |it| (it.kernels[1].par, it.kernels[1].seq) = (0, 1),
        |it| {
            let n = &mut step(it).contraction.n;
            n.push(n[0]);
        },
    ];
    check_refused(epilogue_behind, |it| it, &broken);
}
