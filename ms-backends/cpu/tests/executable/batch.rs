//! Tests steps that launch several kernels together.

use super::{argument, binary, buffer, check_refused, kernel_call, load};
use ms_compile::lower::{BufferLocation, KernelCall, Plan, PlanStep, Reuse, Routine};
use ms_ir::data::{Array, DType};
use ms_ir::{BinaryOp, Type};

/// The number of elements of each value, enough for several chunks of a task.
const LEN: usize = 100_000;

/// Builds a plan whose first step computes `a + c`, possibly in place of `a`, and the first half of `b * c`. Then it
/// computes all of `b * c` and adds `b` to its first half.
fn batch() -> Plan {
    let (bytes, half) = (4 * LEN, LEN / 2);
    let value = Type::of(DType::F32, &[LEN]);
    let main = Routine {
        name: "together".into(),
        inputs: vec![value.clone(), value.clone(), Type::of(DType::F32, &[])],
        outputs: vec![value.clone(), value],
        buffers: vec![
            buffer(bytes, BufferLocation::Input(0)),
            buffer(bytes, BufferLocation::Input(1)),
            buffer(4, BufferLocation::Input(2)),
            buffer(bytes, BufferLocation::Output(0)),
            buffer(bytes, BufferLocation::Arena(0)),
            buffer(bytes, BufferLocation::Output(1)),
        ],
        arena_bytes: bytes,
        steps: vec![
            PlanStep::Kernels(vec![
                kernel_call(0, LEN, [argument(0, 0, 4), argument(2, 0, 0), argument(3, 0, 4)]),
                kernel_call(1, half, [argument(1, 0, 4), argument(2, 0, 0), argument(4, 0, 4)]),
            ]),
            PlanStep::Kernel(kernel_call(0, half, [argument(4, 0, 4), argument(1, 0, 4), argument(5, 0, 4)])),
            PlanStep::Kernel(kernel_call(
                1,
                half,
                [argument(1, 4 * half, 4), argument(2, 0, 0), argument(5, 4 * half, 4)],
            )),
        ],
        reuse: Reuse { free_from: vec![1, 3, 3], touched_at: vec![0, 1], in_place: vec![(0, 0)], fallible: 0 },
    };
    Plan { kernels: vec![binary(BinaryOp::Add), binary(BinaryOp::Mul)], routines: vec![main], ..Plan::default() }
}

#[test]
fn kernels_of_one_step() {
    let executable = load(batch()).expect("a well-formed plan");
    let a: Vec<f32> = (0..LEN).map(|it| (it % 13) as f32).collect();
    let b: Vec<f32> = (0..LEN).map(|it| (it % 11) as f32 - 4.0).collect();
    let inputs =
        || [Array::from_slice(&[LEN], &a), Array::from_slice(&[LEN], &b), Array::full(&[], 3.0.into(), DType::F32)];
    let sums: Vec<f32> = a.iter().map(|it| it + 3.0).collect();
    let rest = |(at, it): (usize, &f32)| if at < LEN / 2 { it * 3.0 + it } else { it * 3.0 };
    let products: Vec<f32> = b.iter().enumerate().map(rest).collect();
    let check = |outputs: &[Array]| {
        for (output, want) in outputs.iter().zip([&sums, &products]) {
            let output = output.on_host().expect("the elements are readable");
            assert_eq!(output.as_slice::<f32>().expect("row-major"), want);
        }
    };
    let kept = inputs();
    check(&executable.run(&kept.each_ref()).expect("the inputs fit"));
    let mut given = inputs();
    let place = given[0].device_ptr();
    let outputs = executable.run_donated(&mut given, &[]).expect("the inputs fit");
    assert_eq!(outputs[0].device_ptr(), place);
    check(&outputs);
}

#[test]
fn kernels_that_are_not_apart_are_refused() {
    fn calls(plan: &mut Plan) -> &mut Vec<KernelCall> {
        let PlanStep::Kernels(calls) = &mut plan.routines[0].steps[0] else { panic!("the first step") };
        calls
    }
    let broken: [fn(&mut Plan); 9] = [
        |it| calls(it).truncate(1),
        |it| calls(it).clear(),
        // Each kernel is checked like a step with one kernel.
        |it| calls(it)[1].extents[0] = LEN + 1,
        |it| calls(it)[1].kernel.0 = 2,
        |it| calls(it)[1].args[0].buffer.0 = 9,
        // One kernel reads what another writes.
        |it| calls(it)[0].args[1].buffer.0 = 4,
        |it| calls(it)[1].args[0].buffer.0 = 3,
        // Both kernels write the same elements.
        |it| calls(it)[1].args[2].buffer.0 = 3,
        |it| {
            let routine = &mut it.routines[0];
            (routine.buffers[3].place, routine.arena_bytes) = (BufferLocation::Arena(2 * LEN), 6 * LEN);
        },
    ];
    check_refused(batch, |it| it, &broken);
}
