//! Tests branches and loops whose conditions the device decides.

use ms_core::error::Code;
use ms_core::exec::{Artifact, Backend, CompileOptions, Donation, Executable, Waits};
use ms_core::ops::parse_graph;
use ms_core::tensor::{Array, MemorySpace};
use ms_cpu::CpuBackend;
use ms_sim::SimBackend;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Locks the devices, as the work of other tests would be counted.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn compiled(backend: &dyn Backend, text: &str) -> (Arc<dyn Executable>, Artifact) {
    let text = with_shared(text);
    let graph = parse_graph(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let artifact = backend.compile(&graph, &CompileOptions::default()).expect("the graph compiles");
    // SAFETY: the artifact was just compiled by this backend from a valid graph.
    let executable = unsafe { backend.load(&artifact) };
    (executable.expect("it is loaded"), artifact)
}

fn bytes(array: &Array) -> Vec<u8> {
    array.on_host().expect("the elements are readable").to_bytes()
}

/// The inputs of all graphs: a number of iterations, and two values.
fn inputs(count: i64) -> [Array; 3] {
    let floats = |by: f32| Array::from_slice(&[64], &(0..64).map(|it| (it % 7) as f32 * by).collect::<Vec<_>>());
    [Array::from_slice(&[], &[count]), floats(0.25), floats(-0.5)]
}

fn moved(inputs: &[Array], space: MemorySpace) -> Vec<Array> {
    let moved = inputs.iter().map(|it| it.to_space(space).expect("there is memory")).collect();
    ms_core::synchronize().expect("nothing fails");
    moved
}

/// Graphs that those of the cases use, by name.
const SHARED: [(&str, &str); 8] = [
    ("difference", "(%x: f32[64], %y: f32[64]) -> (f32[64]) { %z = sub %x, %y : f32[64] return %z }"),
    ("yes", "(%x: f32[64], %y: f32[64]) -> (f32[64]) { %z = add %x, %y : f32[64] return %z }"),
    (
        "no",
        "(%x: f32[64], %y: f32[64]) -> (f32[64]) {
            %z = cumsum %y {axis = 0, exclusive = false, reverse = false} : f32[64] return %z
        }",
    ),
    (
        "is_even",
        "(%i: i64[]) -> (bool[]) {
            %one = constant {value = i64[](1)} : i64[]
            %r = bitwise_and %i, %one : i64[]
            %z = constant {value = i64[](0)} : i64[]
            %c = equal %r, %z : bool[]
            return %c
        }",
    ),
    (
        "next",
        "(%i: i64[]) -> (i64[]) { %one = constant {value = i64[](1)} : i64[] %j = add %i, %one : i64[] return %j }",
    ),
    (
        "halved",
        "(%x: f32[64]) -> (f32[64]) {
            %k = constant {value = f32[](0.5)} : f32[]
            %y = mul %x, %k : f32[64]
            %z = cumsum %y {axis = 0, exclusive = false, reverse = false} : f32[64]
            return %z
        }",
    ),
    ("at_most", "(%i: i64[], %s: f32[64], %n: i64[]) -> (bool[]) { %c = less %i, %n : bool[] return %c }"),
    (
        "doubled",
        "(%i: i64[], %s: f32[64], %n: i64[]) -> (i64[], f32[64]) {
            %one = constant {value = i64[](1)} : i64[]
            %j = add %i, %one : i64[]
            %t = add %s, %s : f32[64]
            return %j, %t
        }",
    ),
];

/// Puts the shared graphs that a text names before it.
fn with_shared(text: &str) -> String {
    let used = SHARED.iter().filter(|it| text.contains(&format!("@{} ", it.0)));
    used.map(|(name, graph)| format!("graph @{name}{graph}\n")).chain([text.to_owned()]).collect()
}

/// A loop with a counter and these carries, by the body of an iteration.
fn loop_of(carries: &[&str], body: &str, next: &str) -> String {
    let typed: Vec<String> = carries.iter().map(|it| format!("%{it}: f32[64]")).collect();
    let (typed, types) = (typed.join(", "), vec!["f32[64]"; carries.len()].join(", "));
    let initial = ["%x", "%y", "%x", "%y"][..carries.len()].join(", ");
    let results: Vec<String> = (0..carries.len()).map(|it| format!("%r{it}")).collect();
    let results = results.join(", ");
    format!(
        "graph @more(%i: i64[], {typed}, %n: i64[]) -> (bool[]) {{ %m = less %i, %n : bool[] return %m }}
        graph @step(%i: i64[], {typed}, %n: i64[]) -> (i64[], {types}) {{
          %j = call @next %i : i64[]
          {body}
          return %j, {next}
        }}
        graph @main(%n: i64[], %x: f32[64], %y: f32[64]) -> (i64[], {types}) {{
          %z = constant {{value = i64[](0)}} : i64[]
          %i, {results} = while @more @step %z, {initial}, %n {{carries = {}}} : i64[], {types}
          return %i, {results}
        }}",
        carries.len() + 1
    )
}

/// The cases: the name, the graph, and the conditions that the host reads.
fn cases() -> Vec<(&'static str, String, usize)> {
    let branch = "graph @main(%n: i64[], %x: f32[64], %y: f32[64]) -> (f32[64]) {
          %c = call @is_even %n : bool[]
          %z = if @yes @no %c, %x, %y : f32[64]
          return %z
        }";
    let loop_in_a_branch =
        "graph @more(%i: i64[], %x: f32[64], %n: i64[]) -> (bool[]) { %c = less %i, %n : bool[] return %c }
        graph @step(%i: i64[], %x: f32[64], %n: i64[]) -> (i64[], f32[64]) {
          %j = call @next %i : i64[]
          %z = call @halved %x : f32[64]
          return %j, %z
        }
        graph @repeated(%n: i64[], %x: f32[64]) -> (f32[64]) {
          %z = constant {value = i64[](0)} : i64[]
          %i, %r = while @more @step %z, %x, %n {carries = 2} : i64[], f32[64]
          return %r
        }
        graph @once(%n: i64[], %x: f32[64]) -> (f32[64]) { %z = call @halved %x : f32[64] return %z }
        graph @main(%n: i64[], %x: f32[64], %y: f32[64]) -> (f32[64]) {
          %c = call @is_even %n : bool[]
          %z = if @repeated @once %c, %n, %x : f32[64]
          return %z
        }";
    let saved = "graph @more(%i: i64[], %x: f32[64], %n: i64[]) -> (bool[]) { %c = less %i, %n : bool[] return %c }
        graph @step(%i: i64[], %x: f32[64], %n: i64[]) -> (i64[], f32[64], f32[64]) {
          %one = constant {value = i64[](1)} : i64[]
          %j = add %i, %one : i64[]
          %z = cumsum %x {axis = 0, exclusive = false, reverse = false} : f32[64]
          return %j, %z, %x
        }
        graph @main(%n: i64[], %x: f32[64], %y: f32[64]) -> (f32[64], i64[], f32[?, 64]) {
          %z = constant {value = i64[](0)} : i64[]
          %i, %r, %count, %all = while @more @step %z, %x, %n {carries = 2} : i64[], f32[64], i64[], f32[?, 64]
          return %r, %count, %all
        }";
    let a = ["a"].as_slice();
    let ab = ["a", "b"].as_slice();
    let abc = ["a", "b", "c"].as_slice();
    let abcd = ["a", "b", "c", "d"];
    vec![
        ("a branch", branch.into(), 0),
        ("a loop in a branch", loop_in_a_branch.into(), 0),
        ("one value", loop_of(a, "%d = call @halved %a : f32[64]", "%d"), 0),
        ("in place", loop_of(a, "%d = mul %a, %a : f32[64] %e = sub %d, %a : f32[64]", "%e"), 0),
        ("Fibonacci", loop_of(ab, "%d = add %a, %b : f32[64]", "%b, %d"), 0),
        ("a chain of three", loop_of(abc, "%d = sub %a, %c : f32[64] %e = call @halved %d : f32[64]", "%b, %c, %e"), 0),
        (
            "two chains",
            loop_of(
                &abcd,
                "%e = add %a, %d : f32[64]
                %f = sub %c, %b : f32[64]",
                "%b, %e, %d, %f",
            ),
            0,
        ),
        ("a swap", loop_of(ab, "", "%b, %a"), 0),
        ("a rotation, and a value beside it", loop_of(&abcd, "%e = add %d, %a : f32[64]", "%b, %c, %a, %e"), 0),
        ("a value that stays", loop_of(ab, "%d = add %a, %b : f32[64]", "%a, %d"), 0),
        (
            "a branch in a loop",
            loop_of(ab, "%c = call @is_even %i : bool[] %d = if @yes @no %c, %a, %b : f32[64]", "%b, %d"),
            0,
        ),
        (
            "a loop in a loop",
            format!(
                "graph @inner_more(%i: i64[], %x: f32[64], %n: i64[]) -> (bool[]) {{
                  %c = less %i, %n : bool[] return %c
                }}
                graph @inner(%i: i64[], %x: f32[64], %n: i64[]) -> (i64[], f32[64]) {{
                  %one = constant {{value = i64[](1)}} : i64[]
                  %j = add %i, %one : i64[]
                  %z = cumsum %x {{axis = 0, exclusive = false, reverse = true}} : f32[64]
                  return %j, %z
                }} {}",
                loop_of(
                    ab,
                    "%z = constant {value = i64[](0)} : i64[]
                    %k, %d = while @inner_more @inner %z, %a, %i {carries = 2} : i64[], f32[64]",
                    "%b, %d"
                )
            ),
            0,
        ),
        (
            "a scan in a loop",
            format!(
                "graph @each(%s: f32[], %x: f32[]) -> (f32[], f32[]) {{ %t = add %s, %x : f32[] return %t, %s }} {}",
                loop_of(
                    a,
                    "%z = constant {value = f32[](0.0)} : f32[]
                    %s, %d = scan @each %z, %a {length = 64, carries = 1, sequences = 1, reverse = false}
                      : f32[], f32[64]
                    %e = call @halved %d : f32[64]",
                    "%e"
                )
            ),
            0,
        ),
        ("values of all iterations", saved.into(), 1),
    ]
}

/// Branches and loops give the bits of the host without a wait, unless the host has to allocate memory meanwhile.
#[test]
fn the_device_decides_conditions() {
    let _alone = alone();
    let ops_only = ms_core::exec::backend("simops:0".parse().expect("a name")).expect("it exists");
    let backends: [(&dyn Backend, _); 2] = [
        (&SimBackend::new(0).expect("it exists"), SimBackend::simulation(0).expect("it exists")),
        (&**ops_only, SimBackend::simulation_of_ops(0).expect("it exists")),
    ];
    for (name, text, read) in cases() {
        let (on_cpu, _) = compiled(&CpuBackend::new(), &text);
        for (backend, simulation) in backends {
            let name = format!("{name} on {}", backend.name());
            let (executable, artifact) = compiled(backend, &text);
            let waits = artifact.interface.plan.expect("it is a plan").waits;
            assert_eq!((waits.conditions, executable.waits()), (read, waits), "{name}");
            for count in [0, 1, 2, 3, 7] {
                let inputs = inputs(count);
                let want = on_cpu.run(&inputs.each_ref()).expect("the inputs fit");
                let there = moved(&inputs, backend.memory());
                // The executable keeps the arena of its first run.
                drop(executable.run(&there.iter().collect::<Vec<_>>()).expect("the inputs fit"));
                ms_core::synchronize().expect("nothing fails");
                let before = simulation.counts();
                let got = executable.run(&there.iter().collect::<Vec<_>>()).expect("the inputs fit");
                let after = simulation.counts();
                let waited = after.waits - before.waits;
                assert_eq!(waited == 0, !waits.any(), "{name}, {count}: {waited} waits");
                assert!(waits.any() || after.replays == before.replays + 1, "{name}, {count}: it is replayed");
                for (at, (got, want)) in got.iter().zip(&want).enumerate() {
                    assert!(bytes(got) == bytes(want), "{name}, {count} iterations, result {at}");
                }
                drop(got);
                assert_eq!(simulation.counts().live_blocks, before.live_blocks, "{name}, {count}");
            }
        }
    }
    assert_eq!(Waits::default().to_string(), "none");
}

/// Updates a state in a loop or a branch, behind a gather that may refuse.
fn guarded(body: &str) -> String {
    format!(
        "graph @main(%n: i64[], %x: f32[64], %at: i64[64], %slot: f32[64]) -> (f32[64], f32[64]) {{
          %q = gather %x, %at {{axis = 0}} : f32[64]
          {body}
          return %q, %new
        }}"
    )
}

/// Behind a refusal, the steps of bodies that write a state in place do not run, and loops end.
#[test]
fn bodies_keep_states_behind_a_refusal() {
    let _alone = alone();
    let backend = SimBackend::new(2).expect("it exists");
    let donations = [Donation::Given, Donation::Given, Donation::Given, Donation::State(1)];
    let bodies = [
        "%z = constant {value = i64[](0)} : i64[]
        %i, %new = while @at_most @doubled %z, %slot, %n {carries = 2} : i64[], f32[64]",
        "%c = call @is_even %n : bool[]
        %new = if @yes @difference %c, %slot, %q : f32[64]",
    ];
    for body in bodies {
        let text = guarded(body);
        let (on_cpu, _) = compiled(&CpuBackend::new(), &text);
        let (executable, _) = compiled(&backend, &text);
        for seed in 0..40 {
            SimBackend::set_schedule(2, seed).expect("it exists");
            let all = |last: i64| {
                let [n, x, slot] = inputs(4);
                let at: Vec<i64> = (0..64).map(|it| if it == 9 { last } else { it }).collect();
                [n, x, Array::from_slice(&[64], &at), slot]
            };
            let [mut refused, mut fine] = [64, 5].map(|it| moved(&all(it), backend.memory()));
            let kept = bytes(&refused[3]);
            let outputs = executable.run_donated(&mut refused, &donations).expect("it is queued");
            assert_eq!(outputs[1].device_ptr(), refused[3].device_ptr(), "in place");
            assert_eq!(ms_core::synchronize().expect_err("no such position").code(), Code::OutOfRange);
            assert!(bytes(&refused[3]) == kept, "schedule {seed}");
            let outputs = executable.run_donated(&mut fine, &donations).expect("it is queued");
            let want = on_cpu.run(&all(5).each_ref()).expect("the inputs fit");
            assert!(outputs.iter().zip(&want).all(|(got, want)| bytes(got) == bytes(want)), "schedule {seed}");
        }
    }
}

/// Whichever call of a run fails, it fails as a whole, and no memory is lost.
#[test]
fn every_call_of_a_body_may_fail() {
    let _alone = alone();
    let backend = SimBackend::new(1).expect("it exists");
    let simulation = SimBackend::simulation(1).expect("it exists");
    for (name, text, _) in cases() {
        let (executable, _) = compiled(&backend, &text);
        let there = moved(&inputs(3), backend.memory());
        let run = || executable.run(&there.iter().collect::<Vec<_>>());
        let want: Vec<Vec<u8>> = run().expect("the inputs fit").iter().map(bytes).collect();
        let before = simulation.counts();
        for nth in 1.. {
            simulation.fail_call(nth);
            let result = run();
            simulation.fail_call(0);
            ms_core::synchronize().expect("what was submitted does not fail");
            let Ok(outputs) = result else {
                assert_eq!(simulation.counts().live_blocks, before.live_blocks, "{name}, call {nth}");
                continue;
            };
            assert!(nth > 4, "{name}: several calls can fail");
            assert!(outputs.iter().map(bytes).eq(want.iter().cloned()), "{name}, call {nth}");
            break;
        }
    }
}
