//! Tests plans on a simulated device step by step, on its memory and with failures at every call.

use ms_core::error::Code;
use ms_core::exec::{Artifact, Backend, CompileOptions, Donation, Executable};
use ms_core::ir::Precision;
use ms_core::ops::parse_graph;
use ms_core::tensor::{Array, MemorySpace};
use ms_cpu::CpuBackend;
use ms_sim::{SimBackend, Simulation};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A routine with a loop that saves values on stacks, a branch that passes them on, and a loop over them. GEMMs,
/// library ops and a check follow, and last an update of an input.
const GRAPH: &str = "
    graph @more(%i: i64[], %x: f32[64], %n: i64[]) -> (bool[]) { %c = less %i, %n : bool[] return %c }
    graph @step(%i: i64[], %x: f32[64], %n: i64[]) -> (i64[], f32[64], f32[64]) {
      %one = constant {value = i64[](1)} : i64[]
      %j = add %i, %one : i64[]
      %k = constant {value = f32[](0.5)} : f32[]
      %y = mul %x, %k : f32[64]
      %z = cumsum %y {axis = 0, exclusive = false, reverse = false} : f32[64]
      return %j, %z, %x
    }
    graph @forward(%n: i64[], %x: f32[64]) -> (f32[64], i64[], f32[?, 64]) {
      %z = constant {value = i64[](0)} : i64[]
      %i, %y, %count, %xs = while @more @step %z, %x, %n {carries = 2} : i64[], f32[64], i64[], f32[?, 64]
      return %y, %count, %xs
    }
    graph @yes(%c: i64[], %xs: f32[?, 64]) -> (i64[], f32[?, 64]) { return %c, %xs }
    graph @no(%c: i64[], %xs: f32[?, 64]) -> (i64[], f32[?, 64]) {
      %z = constant {value = i64[](0)} : i64[]
      return %z, %xs
    }
    graph @back(%s: f32[64], %x: f32[64]) -> (f32[64]) { %t = add %s, %x : f32[64] return %t }
    graph @square(%a: f32[64]) -> (f32[64]) {
      %m = reshape %a {shape = [8, 8]} : f32[8, 8]
      %p = matmul %m, %m : f32[8, 8]
      %q = reshape %p {shape = [64]} : f32[64]
      return %q
    }
    graph @main(%c: bool[], %n: i64[], %x: f32[64], %at: i64[64], %slot: f32[64]) -> (f32[64], f32[64]) {
      %a, %count, %xs = call @forward %n, %x : f32[64], i64[], f32[?, 64]
      %b, %m, %ys = call @forward %n, %a : f32[64], i64[], f32[?, 64]
      %taken, %zs = if @yes @no %c, %count, %xs : i64[], f32[?, 64]
      %g = scan @back %taken, %b, %zs {length = -1, carries = 1, sequences = 1, reverse = true} : f32[64]
      %p = call @square %g : f32[64]
      %q = gather %p, %at {axis = 0} : f32[64]
      %new = add %slot, %q : f32[64]
      return %q, %new
    }";

/// The donations of the inputs. The last input is state, which the second output replaces.
const STATE: [Donation; 5] = [Donation::Given, Donation::Given, Donation::Given, Donation::Given, Donation::State(1)];

fn inputs(taken: bool, count: i64, at: i64) -> Vec<Array> {
    let floats = |by: f32| Array::from_slice(&[64], &(0..64).map(|it| (it % 7) as f32 * by).collect::<Vec<_>>());
    let positions: Vec<i64> = (0..64).map(|it| if it == 40 { at } else { 63 - it }).collect();
    vec![
        Array::from_slice(&[], &[taken]),
        Array::from_slice(&[], &[count]),
        floats(0.01),
        Array::from_slice(&[64], &positions),
        floats(1.0),
    ]
}

fn compiled(backend: &dyn Backend, text: &str) -> (Arc<dyn Executable>, Artifact) {
    let graph = parse_graph(text).expect("the graph is well formed");
    let options = CompileOptions { precision: Precision::Strict, ..CompileOptions::default() };
    let artifact = backend.compile(&graph, &options).expect("the graph compiles");
    // SAFETY: the artifact was just compiled by this backend from a valid graph.
    let executable = unsafe { backend.load(&artifact) };
    (executable.expect("it is loaded"), artifact)
}

/// Copies the inputs to the device and waits for the copies.
fn moved(inputs: &[Array], space: MemorySpace) -> Vec<Array> {
    let moved = inputs.iter().map(|it| it.to_space(space).expect("there is memory")).collect();
    ms_core::synchronize().expect("nothing fails");
    moved
}

fn bytes(array: &Array) -> Vec<u8> {
    array.on_host().expect("the elements are readable").to_bytes()
}

fn values(arrays: &[Array]) -> Vec<Vec<u8>> {
    arrays.iter().map(bytes).collect()
}

fn run(executable: &dyn Executable, inputs: &[Array]) -> Vec<Array> {
    executable.run(&inputs.iter().collect::<Vec<_>>()).expect("the inputs fit").into_vec()
}

/// Locks the devices, as the work of other tests would be counted.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn device(id: u16) -> (SimBackend, &'static Simulation) {
    (SimBackend::new(id).expect("it exists"), SimBackend::simulation(id).expect("it exists"))
}

/// Results equal the CPU's. While a plan runs, the device holds the stacks of its loops. Afterwards it holds as much
/// memory as before. The executable keeps the arena, with the other intermediate values.
#[test]
fn plans_run_in_the_memory_of_the_device() {
    let _alone = alone();
    let (backend, simulation) = device(0);
    let (on_cpu, _) = compiled(&CpuBackend::new(), GRAPH);
    let before_loading = simulation.counts();
    let (executable, artifact) = compiled(&backend, GRAPH);
    let loaded = simulation.counts();
    assert!(loaded.live_bytes > before_loading.live_bytes, "constants are there");
    drop(run(&*executable, &moved(&inputs(true, 1, 5), backend.memory())));
    let arena_bytes = artifact.interface.plan.expect("it is a plan").arena_bytes as u64;
    assert!(arena_bytes > 0);
    assert_eq!(simulation.counts().live_bytes - loaded.live_bytes, arena_bytes);
    for (taken, count) in [(true, 4), (false, 4), (true, 0), (true, 100), (true, 3000)] {
        let inputs = inputs(taken, count, 5);
        let want = values(&run(&*on_cpu, &inputs));
        let there = moved(&inputs, backend.memory());
        let before = simulation.counts();
        simulation.reset_peak();
        let outputs = run(&*executable, &there);
        let after = simulation.counts();
        assert_eq!(after.live_bytes - before.live_bytes, 2 * 256, "{count} iterations: the results");
        let most = (after.peak_bytes - after.live_bytes) as usize;
        assert!(most >= 2 * 256 * count as usize, "{count} iterations: at most {most} bytes");
        // The waits are for the conditions of two loops with stacks, and for the numbers of the scan.
        assert_eq!(after.waits - before.waits, 2 * (count as u64 + 1) + 1, "{count} iterations");
        assert!(values(&outputs) == want, "{count} iterations, {taken}");
        drop(outputs);
        assert_eq!(simulation.counts().live_blocks, before.live_blocks);
    }
    drop(executable);
    assert_eq!(simulation.counts().live_blocks, before_loading.live_blocks);
}

/// Behind a refusal, only the state is guarded: the seed decides which other steps run. Runs that are queued behind it
/// keep the state, too.
#[test]
fn the_state_is_guarded_behind_a_refusal() {
    let _alone = alone();
    let (backend, _) = device(2);
    let (updates, _) = compiled(&backend, UPDATE);
    let positions = |last: i64| Array::from_slice(&[2], &[0, last]);
    let floats = |first: f32| Array::from_slice(&[2], &[first, 2.0]);
    let donations = [Donation::Given, Donation::Given, Donation::State(1)];
    let mut ran = [0; 2];
    for seed in 0..40 {
        SimBackend::set_schedule(2, seed).expect("it exists");
        let [mut refused, mut behind] =
            [5, 1].map(|last| moved(&[positions(last), floats(1.0), floats(7.0)], backend.memory()));
        let kept = bytes(&refused[2]);
        let outputs = [&mut refused, &mut behind].map(|it| updates.run_donated(it, &donations).expect("it is queued"));
        for (outputs, inputs) in outputs.iter().zip([&refused, &behind]) {
            assert_eq!(outputs[1].device_ptr(), inputs[2].device_ptr(), "in place");
        }
        assert_eq!(ms_core::synchronize().expect_err("there is no position 5").code(), Code::OutOfRange);
        for (ran, (outputs, inputs)) in ran.iter_mut().zip(outputs.iter().zip([&refused, &behind])) {
            assert!(bytes(&inputs[2]) == kept, "schedule {seed}");
            *ran += u32::from(bytes(&outputs[0])[..4] != [0xff; 4]);
        }
    }
    assert!(ran.iter().all(|it| (5..35).contains(it)), "{ran:?} of 40 ran");
}

/// A gather that may refuse, followed by a result and an update of a state.
const UPDATE: &str = "
    graph @main(%at: i64[2], %x: f32[2], %slot: f32[2]) -> (f32[2], f32[2]) {
      %q = gather %x, %at {axis = 0} : f32[2]
      %y = mul %x, %x : f32[2]
      %new = add %slot, %q : f32[2]
      return %y, %new
    }";

/// Whichever call fails, the run fails, the state is as before, and no memory is lost. A run that succeeds updates the
/// state in place.
#[test]
fn every_call_may_fail() {
    let _alone = alone();
    let (backend, simulation) = device(1);
    let (executable, artifact) = compiled(&backend, GRAPH);
    let mut there = moved(&inputs(true, 2, 5), backend.memory());
    let want = values(&run(&*executable, &there));
    let kept = bytes(&there[4]);
    let before = simulation.counts();
    let mut failed = 0;
    for nth in 1.. {
        simulation.fail_call(nth);
        let result = executable.run_donated(&mut there, &STATE);
        simulation.fail_call(0);
        ms_core::synchronize().expect("what was submitted does not fail");
        match result {
            Ok(outputs) => {
                assert!(outputs.iter().any(|it| it.device_ptr() == there[4].device_ptr()), "in place");
                assert!(values(&outputs) == want);
                break;
            }
            Err(error) => assert_eq!(error.code(), Code::Backend, "call {nth}"),
        }
        failed += 1;
        assert!(bytes(&there[4]) == kept, "call {nth}");
        assert_eq!(simulation.counts().live_blocks, before.live_blocks, "call {nth}");
    }
    assert!(failed > artifact.interface.plan.expect("it is a plan").steps as u64, "{failed} calls");
}

/// Whichever step fails when it is executed, the state is as before. An op that fails on its operands reports that at
/// the next wait.
#[test]
fn every_part_may_fail_later() {
    let _alone = alone();
    let (backend, simulation) = device(2);
    let (executable, _) = compiled(&backend, GRAPH);
    let mut there = moved(&inputs(true, 2, 5), backend.memory());
    drop(run(&*executable, &there));
    let kept = bytes(&there[4]);
    let before = simulation.counts();
    let mut failed = 0;
    for nth in 1.. {
        simulation.fail_step(nth);
        let result = executable.run_donated(&mut there, &STATE);
        let result = result.and_then(|outputs| ms_core::synchronize().map(|()| outputs));
        simulation.fail_step(0);
        match result {
            Ok(_) => break,
            Err(error) => assert_eq!(error.code(), Code::Backend, "step {nth}"),
        }
        failed += 1;
        assert!(bytes(&there[4]) == kept, "step {nth}");
        assert_eq!(simulation.counts().live_blocks, before.live_blocks, "step {nth}");
    }
    assert!(failed > 10, "{failed} steps");

    let mut there = moved(&inputs(true, 2, 64), backend.memory());
    let outputs = executable.run_donated(&mut there, &STATE).expect("it refuses later");
    let error = ms_core::synchronize().expect_err("a position that does not exist");
    assert_eq!(error.code(), Code::OutOfRange);
    let said = error.to_string();
    assert!(said.contains("`gather`") && said.contains("f32[64]"), "{said}");
    assert!(bytes(&there[4]) == kept);
    drop(outputs);
}

/// Concurrent runs have separate arenas.
#[test]
fn threads_run_one_plan_at_once() {
    let _alone = alone();
    let (backend, _) = device(3);
    let (on_cpu, _) = compiled(&CpuBackend::new(), GRAPH);
    let (executable, _) = compiled(&backend, GRAPH);
    let inputs = [3, 5].map(|count| inputs(true, count, 5));
    let want = inputs.each_ref().map(|it| values(&run(&*on_cpu, it)));
    let there = inputs.each_ref().map(|it| moved(it, backend.memory()));
    for seed in 0..50 {
        SimBackend::set_schedule(3, seed).expect("it exists");
        std::thread::scope(|scope| {
            for (inputs, want) in there.iter().zip(&want) {
                let executable = &*executable;
                scope.spawn(move || {
                    let outputs: Vec<Vec<Array>> = (0..3).map(|_| run(executable, inputs)).collect();
                    assert!(outputs.iter().all(|it| values(it) == *want), "schedule {seed}");
                });
            }
        });
    }
}

/// A product, a library op and kernels on a state, which the second output replaces.
const STEP: &str = "
    graph @main(%x: f32[8, 8], %w: f32[8, 8]) -> (f32[8, 8], f32[8, 8]) {
      %p = matmul %x, %w : f32[8, 8]
      %c = cumsum %p {axis = 1, exclusive = false, reverse = true} : f32[8, 8]
      %k = constant {value = f32[](0.05)} : f32[]
      %s = mul %c, %k : f32[8, 8]
      %new = sub %w, %s : f32[8, 8]
      return %s, %new
    }";

/// Runs replay what an earlier run submitted, while their addresses are the same. That changes no bit: of a state that is
/// updated in place, of a snapshot that another value replaces, of results that are kept. What was captured outlives the
/// executable.
#[test]
fn runs_replay_what_was_captured() {
    const STEPS: usize = 20;
    let _alone = alone();
    let (backend, simulation) = device(1);
    let floats = |by: usize| {
        let values: Vec<f32> = (0..64).map(|it| (it * by % 17) as f32 / 16.0 - 0.5).collect();
        Array::from_slice(&[8, 8], &values)
    };
    let (on_cpu, _) = compiled(&CpuBackend::new(), STEP);
    let (x, mut state) = (floats(5), floats(7));
    let wanted: Vec<Vec<Vec<u8>>> = (0..STEPS)
        .map(|_| {
            let outputs = run(&*on_cpu, &[x.clone(), state.clone()]);
            state = outputs[1].clone();
            values(&outputs)
        })
        .collect();
    for seed in 0..10 {
        SimBackend::set_schedule(1, seed).expect("it exists");
        let (executable, _) = compiled(&backend, STEP);
        let [x, state] = <[Array; 2]>::try_from(moved(&[x.clone(), floats(7)], backend.memory())).expect("two");
        let mut inputs = [x.clone(), state];
        let (mut results, mut snapshots) = (Vec::new(), Vec::new());
        let before = simulation.counts();
        for step in 0..STEPS {
            let mut outputs = executable.run_donated(&mut inputs, &[Donation::Lent, Donation::State(1)]).expect("runs");
            let new = outputs.pop().expect("the state");
            let is_shared = step > 0 && (step - 1) % 6 == 5;
            assert_eq!(new.device_ptr() == inputs[1].device_ptr(), !is_shared, "in place, step {step}");
            inputs = [x.clone(), new];
            if step % 6 == 5 {
                snapshots.push((step, inputs[1].clone()));
            }
            if step % 7 == 3 {
                results.push((step, outputs.pop().expect("the result")));
            }
        }
        let counts = simulation.counts();
        assert_eq!(counts.steps, before.steps, "nothing has run");
        let replays = counts.replays - before.replays;
        assert!((STEPS as u64 / 2..STEPS as u64).contains(&replays), "{replays} replays");
        drop(executable);
        for (step, result) in &results {
            assert!(bytes(result) == wanted[*step][0], "result of step {step}, schedule {seed}");
        }
        for (step, snapshot) in &snapshots {
            assert!(bytes(snapshot) == wanted[*step][1], "snapshot of step {step}, schedule {seed}");
        }
        assert!(bytes(&inputs[1]) == wanted[STEPS - 1][1], "the state, schedule {seed}");
    }
}

/// A run on other addresses replays nothing.
#[test]
fn runs_on_other_addresses_replay_nothing() {
    let _alone = alone();
    let (backend, simulation) = device(2);
    let (executable, _) = compiled(&backend, STEP);
    let inputs: Vec<Array> = (0..3).map(|it| Array::from_slice(&[8, 8], &[it as f32 / 4.0; 64])).collect();
    let inputs = moved(&inputs, backend.memory());
    let before = simulation.counts().replays;
    let pairs = [[0, 1], [1, 2], [2, 0]].map(|pair| pair.map(|it| inputs[it].clone()));
    let kept: Vec<Vec<Array>> = pairs.iter().map(|pair| run(&*executable, pair)).collect();
    assert_eq!(simulation.counts().replays, before);
    let (on_cpu, _) = compiled(&CpuBackend::new(), STEP);
    for (pair, got) in pairs.iter().zip(&kept) {
        let there = pair.each_ref().map(|it| it.on_host().expect("it is readable").to_contiguous());
        assert!(values(got) == values(&run(&*on_cpu, &there)));
    }
}
