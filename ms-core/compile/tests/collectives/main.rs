//! Passes and lowering on ops that communicate, and on ops that start what another node ends.

mod dialect;
mod forks;

use ms_compile::lower::{BufferId, BufferLocation, KernelCall, LowerOptions, Plan, PlanStep, Routine, View, lower};
use ms_compile::optimize::{Branches, ConstantFolding, Cse, Dce, Licm, Pass, PassContext, optimize_with};
use ms_compile::target::Target;
use ms_ir::op::{Effects, by_name, definition, verify};
use ms_ir::{Graph, parse};
use std::ops::Range;
use std::sync::LazyLock;

/// Arrays of two elements are small, so that they are computed as early as possible.
static TARGET: LazyLock<Target> =
    LazyLock::new(|| Target { small_elements: 2, conditions: true, ..Target::unbounded() });

fn parsed(text: &str) -> Graph {
    parse(text, &|name| by_name(name).map(|it| it.op())).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn verified(graph: Graph) -> Graph {
    verify(&graph).unwrap_or_else(|error| panic!("{error}\n{graph}"));
    graph
}

/// Passes act on `local`, and leave `other` in its place.
#[test]
fn passes_leave_what_communicates() {
    /// A graph with `OP` for the op and `LAST` for the op that ends it. `counts` are the nodes of `counted` in the main
    /// graph after the pass, for `other` and for `local`.
    struct Case {
        pass: &'static dyn Pass,
        other: &'static str,
        local: &'static str,
        text: &'static str,
        counted: &'static str,
        counts: [usize; 2],
    }

    #[track_caller]
    fn check(Case { pass, other, local, text, counted, counts }: Case) {
        let after = |op: &str| {
            let last = if op == "start" { "done" } else { "view" };
            let graph = verified(parsed(&text.replace("OP", op).replace("LAST", last)));
            let graph = verified(optimize_with(graph, &[pass], &PassContext::default()).0);
            graph.nodes().filter(|(_, node)| node.op.name() == counted.replace("OP", op)).count()
        };
        assert_eq!([after(other), after(local)], counts, "{}: {other}, {local}\n{text}", pass.name());
    }

    // An arm that communicates is not computed beside the other arm.
    check(Case {
        pass: &Branches,
        other: "all_reduce",
        local: "neg",
        text: "graph @yes(%a: f32[2]) -> (f32[2]) { %b = OP %a : f32[2]\n return %b }
            graph @no(%a: f32[2]) -> (f32[2]) { %b = sub %a, %a : f32[2]\n return %b }
            graph @main(%c: bool[], %x: f32[2]) -> (f32[2]) { %z = if @yes @no %c, %x : f32[2]\n return %z }",
        counted: "if",
        counts: [1, 0],
    });
    // A condition that is gathered is not known, although what it is gathered from is.
    check(Case {
        pass: &Branches,
        other: "all_gather",
        local: "view",
        text: "graph @yes(%a: f32[2]) -> (f32[2]) { %b = broadcast %a : f32[2]\n return %b }
            graph @no(%a: f32[2]) -> (f32[2]) { %b = sub %a, %a : f32[2]\n return %b }
            graph @main(%x: f32[2]) -> (f32[2]) {
                %k = constant {value = bool[](true)} : bool[]
                %c = OP %k : bool[]
                %z = if @yes @no %c, %x : f32[2]
                return %z
            }",
        counted: "if",
        counts: [1, 0],
    });
    // Neither one element nor several are folded.
    check(Case {
        pass: &ConstantFolding,
        other: "all_reduce",
        local: "neg",
        text: "graph @main() -> (f32[]) {
                %k = constant {value = f32[](1.0)} : f32[]\n %z = OP %k : f32[]\n return %z
            }",
        counted: "OP",
        counts: [1, 0],
    });
    check(Case {
        pass: &ConstantFolding,
        other: "all_gather",
        local: "view",
        text: "graph @main() -> (f32[2]) {
                %k = constant {value = f32[2](1.0, 2.0)} : f32[2]\n %z = OP %k : f32[2]\n return %z
            }",
        counted: "OP",
        counts: [1, 0],
    });
    // A loop may have no iterations, on all ranks.
    check(Case {
        pass: &Licm,
        other: "all_reduce",
        local: "neg",
        text: "graph @more(%a: f32[2], %b: f32[2], %c: bool[]) -> (bool[]) { return %c }
            graph @step(%a: f32[2], %b: f32[2], %c: bool[]) -> (f32[2]) {
                %d = OP %b : f32[2]\n %e = sub %a, %d : f32[2]\n return %e
            }
            graph @main(%x: f32[2], %y: f32[2], %c: bool[]) -> (f32[2]) {
                %z = while @more @step %x, %y, %c {carries = 1} : f32[2]\n return %z
            }",
        counted: "OP",
        counts: [0, 1],
    });
    // Whole collectives are merged. A start is not, because each has its end.
    check(Case {
        pass: &Cse,
        other: "start",
        local: "broadcast",
        text: "graph @main(%x: f32[2]) -> (f32[2]) {
                %s = OP %x : f32[2]\n %t = OP %x : f32[2]
                %d = LAST %s : f32[2]\n %e = LAST %t : f32[2]
                %z = sub %d, %e : f32[2]\n return %z
            }",
        counted: "OP",
        counts: [2, 1],
    });
    // What nobody reads is removed, starts together with their ends.
    for op in ["all_reduce", "broadcast"] {
        check(Case {
            pass: &Dce,
            other: op,
            local: "neg",
            text: "graph @main(%x: f32[2]) -> (f32[2]) {
                    %a = OP %x : f32[2]\n %s = start %a : f32[2]\n %d = done %s : f32[2]\n return %x
                }",
            counted: "OP",
            counts: [0, 0],
        });
    }
}

/// A start has one end, which is the only reader of its results.
#[test]
fn starts_have_one_end() {
    #[track_caller]
    fn check(nodes: &str, results: &str, defects: &[&str]) {
        let types = vec!["f32[2]"; results.split(',').count()].join(", ");
        let graph = parsed(&format!("graph @main(%x: f32[2]) -> ({types}) {{ {nodes}\n return {results} }}"));
        let found = verify(&graph).err().map_or_else(String::new, |it| it.to_string());
        for defect in defects {
            assert!(found.contains(defect), "{found} does not contain `{defect}`\n{graph}");
        }
        assert_eq!(found.is_empty(), defects.is_empty(), "{found}\n{graph}");
    }

    let start = "%s = start %x : f32[2]\n";
    let (unended, no_start) = ("one node has to end this start", "ends 0 starts, not 1");
    check(&format!("{start} %d = done %s : f32[2]"), "%d", &[]);
    check(&format!("{start} %t = start %x : f32[2]\n %d = done %t : f32[2]\n %e = done %s : f32[2]"), "%d, %e", &[]);
    check(start, "%x", &[unended]);
    check(start, "%s", &[unended]);
    check(&format!("{start} %d = neg %s : f32[2]"), "%d", &[unended]);
    check(&format!("{start} %d = done %s : f32[2]"), "%d, %s", &[unended]);
    check(&format!("{start} %d = done %s : f32[2]\n %e = done %s : f32[2]"), "%d, %e", &[unended]);
    check(&format!("{start} %d = done %s : f32[2]\n %e = neg %s : f32[2]"), "%d, %e", &[unended]);
    check("%d = done %x : f32[2]", "%d", &[no_start]);
    check("%a = broadcast %x : f32[2]\n %d = done %a : f32[2]", "%d", &[no_start]);
    check(&format!("{start} %d = done %s : f32[2]\n %e = done %d : f32[2]"), "%e", &[no_start]);
}

/// A start's operands and results are in use until its end. Starts and whole collectives keep their order.
#[test]
fn plans_of_starts() {
    /// Checks the steps of the plan, by the names of their ops.
    #[track_caller]
    fn check(text: &str, steps: &[&str]) {
        let graph = verified(parsed(text));
        let plan = lower(&graph, &LowerOptions::default(), &TARGET).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let (main, shown) = (plan.main(), plan.display());
        assert_eq!(main.steps.iter().map(name).collect::<Vec<_>>(), steps, "{text}\n{shown}");
        for (at, step) in main.steps.iter().enumerate().filter(|it| has(it.1, Effects::PENDING)) {
            let PlanStep::Library { inputs, outputs, .. } = step else { unreachable!("starts are library steps") };
            let ends = |step: &PlanStep| match step {
                PlanStep::Library { inputs, .. } => inputs.iter().any(|it| it.buffer == outputs[0].buffer),
                _ => false,
            };
            let end = main.steps.iter().position(ends).expect("a start has an end");
            assert!(at < end, "{shown}");
            let buffers = |all: &[View]| -> Vec<BufferId> { all.iter().map(|it| it.buffer).collect() };
            let (read, written) = (buffers(inputs), buffers(outputs));
            assert!(!overlap(main, &read, &written), "a start overwrites its operand\n{shown}");
            for between in &main.steps[at + 1..end] {
                assert!(!overlap(main, &results(&plan, between), &read), "an operand is overwritten\n{shown}");
                assert!(!overlap(main, &results(&plan, between), &written), "a result is overwritten\n{shown}");
            }
            for input in read {
                if let BufferLocation::Input(input) = main.buffers[input.0 as usize].place {
                    assert!(main.reuse.free_from[input as usize] > end as u32, "an input is given away\n{shown}");
                }
            }
        }
    }

    // The memory of the operand would be free for %e.
    let operand = |start: &str| {
        format!(
            "graph @main(%x: f32[4], %y: f32[4]) -> (f32[4]) {{
                %a = neg %x : f32[4]\n %s = {start} %a : f32[4]
                %b = broadcast %y : f32[4]\n %e = broadcast %b : f32[4]
                %d = done %s : f32[4]\n %z = sub %d, %e : f32[4]
                return %z
            }}"
        )
    };
    check(&operand("start"), &["kernel", "start", "broadcast", "broadcast", "done", "kernel"]);
    check(&operand("start_update"), &["kernel", "start_update", "broadcast", "broadcast", "done", "kernel"]);
    // %w is computed from an input of the same size, which nothing else reads.
    check(
        "graph @main(%x: f32[4]) -> (f32[4], f32[4]) {
            %s = start %x : f32[4]\n %w = broadcast %x : f32[4]\n %d = done %s : f32[4]
            return %w, %d
        }",
        &["start", "broadcast", "done"],
    );
    // Steps without operands that other steps compute, with small results, come first. Others keep their order.
    let region = "graph @region(%a: f32[2]) -> (f32[2]) { %b = broadcast %a : f32[2]\n return %b }";
    for (first, second, names) in [
        ("%a = broadcast %x", "%b = all_gather %x", ["broadcast"].as_slice()),
        (
            "%s = start %x : f32[2]\n %t = start_update %y : f32[2]\n %a = done %s",
            "%b = done %t",
            &["start", "start_update", "done", "done"],
        ),
        ("%a = call @region %x", "%b = broadcast %y", &["call", "broadcast"]),
        ("%a = broadcast %x", "%b = call @region %y", &["broadcast", "call"]),
    ] {
        let steps: Vec<&str> = names.iter().copied().chain(["kernel"]).collect();
        let region = if names.contains(&"call") { region } else { "" };
        check(
            &format!(
                "{region}\ngraph @main(%x: f32[2], %y: f32[2]) -> (f32[2]) {{
                    {first} : f32[2]\n {second} : f32[2]\n %z = sub %a, %b : f32[2]\n return %z
                }}"
            ),
            &steps,
        );
    }
    // %b is not computed before the start, although one kernel could compute %a and %b.
    let merged = "graph @main(%x: f32[4]) -> (f32[4]) {
        %a = neg %x : f32[4]\n %s = OP %a : f32[4]
        %b = neg %a : f32[4]\n %e = broadcast %b : f32[4]
        %d = LAST %s : f32[4]\n %z = sub %d, %e : f32[4]
        return %z
    }";
    check(
        &merged.replace("OP", "start").replace("LAST", "done"),
        &["kernel", "start", "kernel", "broadcast", "done", "kernel"],
    );
    check(
        &merged.replace("OP", "broadcast").replace("LAST", "broadcast"),
        &["kernel", "broadcast", "broadcast", "broadcast", "kernel"],
    );
}

/// Returns the name of the op of a step, or of its kind.
fn name(step: &PlanStep) -> &'static str {
    match step {
        PlanStep::Library { op, .. } => op.name(),
        PlanStep::Kernel(_) => "kernel",
        PlanStep::Kernels(_) => "kernels",
        PlanStep::Call { .. } => "call",
        _ => "other",
    }
}

fn has(step: &PlanStep, effects: Effects) -> bool {
    matches!(step, PlanStep::Library { op, .. } if definition(op.0).effects.any_of(effects))
}

/// Returns the buffers that a step writes.
fn results(plan: &Plan, step: &PlanStep) -> Vec<BufferId> {
    if let PlanStep::Library { outputs, .. } = step {
        return outputs.iter().map(|it| it.buffer).collect();
    }
    let of_call = |it: &KernelCall| -> Vec<BufferId> {
        let params = &plan.kernels[it.kernel.0 as usize].params;
        let written = it.args.iter().zip(params).filter(|(_, param)| param.role.is_written());
        written.map(|(arg, _)| arg.buffer).collect()
    };
    step.kernels().iter().flat_map(of_call).collect()
}

/// Returns whether any of these buffers share memory.
fn overlap(routine: &Routine, a: &[BufferId], b: &[BufferId]) -> bool {
    let place = |it: &BufferId| &routine.buffers[it.0 as usize];
    let bytes = |it: &BufferId| -> Option<Range<usize>> {
        match place(it).place {
            BufferLocation::Arena(at) => Some(at..at + place(it).bytes),
            _ => None,
        }
    };
    let same = |a: &BufferId, b: &BufferId| match (bytes(a), bytes(b)) {
        (Some(a), Some(b)) => a.start < b.end && b.start < a.end,
        _ => place(a).place == place(b).place,
    };
    a.iter().any(|a| b.iter().any(|b| same(a, b)))
}
