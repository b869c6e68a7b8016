//! Bounds the cost of the gradient of a function that reads its argument part by part.
//!
//! The cost is the number of nodes of the graph, and the number of elements that its plan touches.

use super::TARGET;
use ms_core::lower::{
    BufferId, BufferLocation, Carry, ContractionResult, KernelCall, LowerOptions, NextCarry, Plan, PlanStep, Repeat,
    Routine, RoutineId, Span, View, lower,
};
use ms_core::ops::parse_graph;
use ms_core::optimize::{PassContext, optimize};
use ms_core::transform::value_and_grad;
use std::fmt::Write;

/// Returns the number of elements that a routine touches: operands and results, without elements that an op updates in
/// place. `shared` holds the pairs of an output and an input of the call with common memory.
fn work(plan: &Plan, routine: &Routine, shared: &[(u32, u32)]) -> usize {
    let of = |views: &[View]| views.iter().map(|it| it.layout.numel()).sum::<usize>();
    let place = |id: BufferId| routine.buffers[id.0 as usize].place;
    let elements =
        |spans: &[Span]| spans.iter().map(|it| routine.buffers[it.buffer.0 as usize].bytes / 4).sum::<usize>();
    let is_in_place = |from: BufferLocation, to: BufferLocation| match (from, to) {
        (BufferLocation::Input(from), BufferLocation::Output(to)) => shared.contains(&(to, from)),
        (from, to) => from == to,
    };
    let called = |id: &RoutineId, inputs: &[Span], outputs: &[Span]| {
        let pairs = (0..).zip(outputs).flat_map(|to| (0..).zip(inputs).map(move |from| (to, from)));
        let is_shared = |it: &((u32, &Span), (u32, &Span))| {
            it.0.1.offset == it.1.1.offset && is_in_place(place(it.1.1.buffer), place(it.0.1.buffer))
        };
        let shared: Vec<(u32, u32)> = pairs.filter(is_shared).map(|(to, from)| (to.0, from.0)).collect();
        work(plan, &plan.routines[id.0 as usize], &shared)
    };
    let kernel = |KernelCall { kernel, extents, args }: &KernelCall| {
        let is_free = plan.kernels[kernel.0 as usize].is_copy()
            && args.len() == 2
            && is_in_place(place(args[0].buffer), place(args[1].buffer));
        if is_free { 0 } else { extents.iter().product::<usize>() * args.len() }
    };
    let step = |step: &PlanStep| match step {
        PlanStep::Kernel(_) | PlanStep::Kernels(_) => step.kernels().iter().map(kernel).sum(),
        PlanStep::Contraction(it) => {
            let sizes = |operand| it.contraction.axes_of(operand).map(|it| it.size).product::<usize>();
            let result = match &it.result {
                ContractionResult::Stored(_) => sizes(2),
                ContractionResult::Epilogues(all) => sizes(2) * all.iter().map(|it| it.args.len()).sum::<usize>(),
            };
            sizes(0) + sizes(1) + result
        }
        PlanStep::Check { .. } => 1,
        PlanStep::Library { inputs, outputs, .. } => {
            let is_updated = inputs
                .first()
                .zip(outputs.first())
                .is_some_and(|(from, to)| is_in_place(place(from.buffer), place(to.buffer)));
            if is_updated { of(&inputs[1..]) } else { of(inputs) + of(outputs) }
        }
        PlanStep::Call { routine, inputs, outputs } => called(routine, inputs, outputs),
        PlanStep::Branch { routines, inputs, outputs, .. } => {
            routines.iter().map(|it| called(it, inputs, outputs)).max().unwrap_or(0)
        }
        PlanStep::Loop(it) => {
            let Repeat::Fixed { count, .. } = it.repeat else { panic!("the length is known") };
            // The first iteration copies the initial value of such a carry to the memory that the other iterations
            // update.
            let moves = |it: &&Carry| {
                it.next == NextCarry::Updated && !is_in_place(place(it.initial.buffer), place(it.result.buffer))
            };
            let moved: Vec<Span> = it.carries.iter().filter(moves).map(|it| it.initial).collect();
            let heads = (0..).zip(&it.carries).filter(|(_, it)| !matches!(it.next, NextCarry::From(_)));
            let heads = (0..).zip(heads).filter(|(_, (_, it))| it.next == NextCarry::Updated);
            let shared: Vec<(u32, u32)> = heads.map(|(output, (carry, _))| (output, carry)).collect();
            work(plan, &plan.routines[it.body.0 as usize], &shared) * count + elements(&moved)
        }
    };
    routine.steps.iter().map(step).sum()
}

/// Returns the cost of the gradient of a function that reads every row of `x` once. The cost is the number of nodes,
/// and the number of elements that the plan touches.
fn cost_of_gradient(text: &str, in_order: bool) -> (usize, usize) {
    let graph = parse_graph(text).unwrap_or_else(|error| panic!("{error}"));
    let graph = value_and_grad(&graph, &[0], 1, false, in_order).expect("it has a derivative");
    let graph = optimize(graph, &PassContext::default());
    let plan = lower(&graph, &LowerOptions::default(), &TARGET).unwrap_or_else(|error| panic!("{error}"));
    (graph.len(), work(&plan, plan.main(), &[]))
}

/// Builds a function that reads `count` positions one after the other, in mixed order.
fn positions(count: usize) -> String {
    let mut text =
        format!("graph @f(%x: f32[{count}, 4]) -> (f32[]) {{\n  %s0 = constant {{value = f32[](0)}} : f32[]\n");
    for i in 0..count {
        let at = i * 7 % count;
        let rest =
            format!("%b{i} = tanh %a{i} : f32[1, 4] %c{i} = sum %b{i} {{axes = [0, 1], keepdims = false}} : f32[]");
        let slice = format!("slice %x {{starts = [{at}, 0], sizes = [1, 4], steps = [1, 1]}} : f32[1, 4]");
        writeln!(text, "%a{i} = {slice} {rest} %s{} = add %s{i}, %c{i} : f32[]", i + 1).expect("strings take all");
    }
    text + &format!("return %s{count}\n}}")
}

/// Builds a function that reads windows of two rows, so that it reads each row twice.
fn windows(count: usize) -> String {
    let text = positions(count).replace("f32[1, 4]", "f32[2, 4]").replace("sizes = [1, 4]", "sizes = [2, 4]");
    text.replace(&format!("%x: f32[{count}, 4]"), &format!("%x: f32[{}, 4]", count + 1))
}

/// Builds a loop over positions.
fn loop_over_positions(count: usize) -> String {
    format!(
        "graph @body(%s: f32[4], %i: i64[], %x: f32[{count}, 4]) -> (f32[4]) {{
           %a = gather %x, %i {{axis = 0}} : f32[4]
           %b = mul %a, %s : f32[4]
           %c = tanh %b : f32[4]
           return %c
         }}
         graph @f(%x: f32[{count}, 4]) -> (f32[]) {{
           %i = iota {{shape = [{count}], axis = 0, start = 0, step = 1, dtype = i64}} : i64[{count}]
           %s = full {{value = f32[](1), shape = [4]}} : f32[4]
           %y = scan @body %s, %i, %x {{length = {count}, carries = 1, sequences = 1, reverse = false}} : f32[4]
           %z = sum %y {{axes = [0], keepdims = false}} : f32[]
           return %z
         }}"
    )
}

/// Builds a loop over positions inside a loop.
fn nested_loops(count: usize) -> String {
    let text = loop_over_positions(count).replace("@f(%x", "@outer(%u: f32[], %x");
    let text = text.replace(&format!("[{count}], axis"), "[3], axis").replace(&format!("i64[{count}]"), "i64[3]");
    let text = text.replace(&format!("length = {count}"), "length = 3");
    text + &format!(
        "
         graph @f(%x: f32[{count}, 4]) -> (f32[]) {{
           %s = constant {{value = f32[](0)}} : f32[]
           %y = scan @outer %s, %x {{length = {count}, carries = 1, sequences = 0, reverse = false}} : f32[]
           return %y
         }}"
    )
}

/// Builds `count` calls that each read a part of `x`. `graphs` are the callees, and `call` is the text of one call.
fn calls(count: usize, graphs: &str, call: &str) -> String {
    let mut text = format!(
        "{graphs}
         graph @f(%x: f32[N, 4]) -> (f32[]) {{
           %s0 = full {{value = f32[](1), shape = [4]}} : f32[4]
           %zero = constant {{value = f32[](0)}} : f32[]
        "
    );
    for i in 0..count {
        let next = i + 1;
        writeln!(
            text,
            "%i{i} = constant {{value = i64[]({i})}} : i64[]
             %t{i} = sum %s{i} {{axes = [0], keepdims = false}} : f32[]
             %c{i} = less %t{i}, %zero : bool[]
             %s{next} = {} %s{i}, %x, %i{i} : f32[4]",
            call.replace("CONDITION", &format!("%c{i},"))
        )
        .expect("strings take all");
    }
    let text = text + &format!("%y = sum %s{count} {{axes = [0], keepdims = false}} : f32[] return %y\n}}");
    text.replace('N', &count.to_string())
}

/// A callee that reads a row.
const READS: &str = "
    graph @reads(%s: f32[4], %x: f32[N, 4], %i: i64[]) -> (f32[4]) {
      %a = gather %x, %i {axis = 0} : f32[4]
      %b = mul %a, %s : f32[4]
      %c = tanh %b : f32[4]
      return %c
    }";

/// A callee that reads a row and a slice, with gradients that are added one after the other.
const READS_TWICE: &str = "
    graph @twice(%s: f32[4], %x: f32[N, 4], %i: i64[]) -> (f32[4]) {
      %a = gather %x, %i {axis = 0} : f32[4]
      %b = mul %a, %s : f32[4]
      %d = slice %x {starts = [1, 0], sizes = [1, 4], steps = [1, 1]} : f32[1, 4]
      %e = reshape %d {shape = [4]} : f32[4]
      %c = mul %b, %e : f32[4]
      return %c
    }";

/// A callee that reads nothing.
const READS_NOTHING: &str = "
    graph @nothing(%s: f32[4], %x: f32[N, 4], %i: i64[]) -> (f32[4]) {
      %c = sin %s : f32[4]
      return %c
    }";

fn around(name: &str, inside: &str, node: &str) -> String {
    format!(
        "{inside}
         graph @{name}(%s: f32[4], %x: f32[N, 4], %i: i64[]) -> (f32[4]) {{
           %p = constant {{value = f32[](0)}} : f32[]
           %t = sum %s {{axes = [0], keepdims = false}} : f32[]
           %q = less %t, %p : bool[]
           %c = {node} %s, %x, %i : f32[4]
           %d = cos %c : f32[4]
           return %d
         }}"
    )
}

#[test]
fn gradients_of_parts_in_graphs_cost_what_the_parts_cost() {
    let branch = |reads: &str| format!("{reads} {READS_NOTHING}");
    let cases = [
        ("calls", READS.to_owned(), "call @reads"),
        ("kept calls", READS.to_owned(), "call_no_inline @reads"),
        ("recomputed", READS.to_owned(), "recompute @reads"),
        ("branches", branch(READS), "if @reads @nothing CONDITION"),
        ("branches that both read", format!("{READS} {READS_TWICE}"), "if @twice @reads CONDITION"),
        ("two parts in calls", READS_TWICE.to_owned(), "call_no_inline @twice"),
        ("two parts in branches", branch(READS_TWICE), "if @nothing @twice CONDITION"),
        ("calls in calls", around("g", READS, "call_no_inline @reads"), "call_no_inline @g"),
        ("recomputed in calls", around("g", READS, "recompute @reads"), "call_no_inline @g"),
        ("calls in recomputed", around("g", READS_TWICE, "call_no_inline @twice"), "recompute @g"),
        ("branches in calls", around("g", &branch(READS), "if @reads @nothing %q,"), "call_no_inline @g"),
        ("calls in branches", around("g", READS, "call_no_inline @reads") + READS_NOTHING, "if @g @nothing CONDITION"),
    ];
    for ((name, graphs, call), in_order) in cases.iter().flat_map(|it| [(it, false), (it, true)]) {
        let costs = [64, 128, 256].map(|count| cost_of_gradient(&calls(count, graphs, call), in_order));
        for pair in costs.windows(2) {
            let [nodes, more_nodes] = [pair[0].0, pair[1].0];
            assert!(more_nodes <= 2 * nodes + 8, "{name}, in order {in_order}: nodes {costs:?}");
        }
        // Compares differences of elements: few parts may fit into one kernel, which does not materialise their values.
        let [few, some, many] = costs.map(|it| it.1);
        assert!((many - some) * 10 <= (some - few) * 22, "{name}, in order {in_order}: elements {costs:?}");
    }
}

#[test]
fn gradients_of_parts_cost_what_the_parts_cost() {
    type Text = fn(usize) -> String;
    let functions: [(&str, Text); 4] = [
        ("positions", positions),
        ("windows", windows),
        ("a loop", loop_over_positions),
        ("nested loops", nested_loops),
    ];
    for ((name, function), in_order) in functions.into_iter().flat_map(|it| [(it, false), (it, true)]) {
        let costs = [128, 256, 512].map(|count| cost_of_gradient(&function(count), in_order));
        for pair in costs.windows(2) {
            let [(nodes, work), (more_nodes, more_work)] = [pair[0], pair[1]];
            assert!(more_nodes <= 2 * nodes + 8, "{name}: nodes {costs:?}");
            assert!(more_work * 10 <= work * 21, "{name}: elements {costs:?}");
        }
    }
}
