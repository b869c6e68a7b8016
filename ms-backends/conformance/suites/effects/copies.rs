//! Tests copies of old values of parameters: the cases of `MS_DEV_SIDE_EFFECT_LOAD_ELIM`.
//!
//! Each case has the number of `tensor_move` nodes at each level. No level changes a result.

use ms::prelude::*;
use ms::{Level, Parameter};

#[jit]
fn reads(w: &Parameter, _v: &Parameter, x: &Tensor) -> Vec<Tensor> {
    vec![w * x + w]
}

#[jit]
fn read_write_read(w: &Parameter, _v: &Parameter, x: &Tensor) -> Vec<Tensor> {
    let a = w.value().sin();
    w.set(x);
    vec![a, w.value().cos()]
}

#[jit]
fn old_and_new(w: &Parameter, _v: &Parameter, x: &Tensor) -> Vec<Tensor> {
    let a = w + 0.0;
    w.set(x);
    vec![a + w]
}

#[jit]
fn write_read(w: &Parameter, _v: &Parameter, x: &Tensor) -> Vec<Tensor> {
    w.set(x);
    vec![w.value()]
}

#[jit]
fn snapshots(w: &Parameter, _v: &Parameter, x: &Tensor) -> Vec<Tensor> {
    let a = w.value();
    w.set(x);
    vec![a, w.value()]
}

#[jit]
fn momentum(w: &Parameter, v: &Parameter, x: &Tensor) -> Vec<Tensor> {
    let g = x * w;
    v.set(&(v * 0.9 + &g));
    w.set(&(w - v * 0.1));
    vec![g]
}

#[jit]
fn branch(w: &Parameter, _v: &Parameter, x: &Tensor) -> Vec<Tensor> {
    let y = x * w;
    if x > 0.0 {
        w.set(x);
    } else {
        w.set(&-x);
    }
    vec![y + w]
}

#[jit]
fn looped(w: &Parameter, _v: &Parameter, x: &Tensor) -> Vec<Tensor> {
    let outputs = |x: &Tensor| {
        let step = |(i, out): &(Tensor, Tensor)| {
            w.set(i);
            (i + 1.0, x * w + out)
        };
        let init = (x * 0.0, x * 0.0);
        ops::while_loop(|it: &(Tensor, Tensor)| it.0.sum(()).lt(3.0), step, init).1
    };
    vec![ms::grad(outputs)(x)]
}

#[jit]
fn exchange(w: &Parameter, v: &Parameter, _x: &Tensor) -> Vec<Tensor> {
    let old = w.value();
    w.set(&v.value());
    v.set(&old);
    vec![]
}

#[jit]
fn hand_on(w: &Parameter, v: &Parameter, x: &Tensor) -> Vec<Tensor> {
    v.set(&w.value());
    w.set(x);
    vec![]
}

type Case = fn(&Parameter, &Parameter, &Tensor) -> Vec<Tensor>;

/// A case with its result and the final values of `w` and `v`, for w = 2, v = 5, x = 3. `moves` is the number of copies
/// at the levels 0 to 3.
struct Row {
    name: &'static str,
    case: Case,
    gives: &'static [f32],
    holds: [f32; 2],
    moves: [usize; 4],
    /// The maximum number of copies at level 2.
    needed: usize,
}

#[test]
fn copies_and_results_at_every_level() {
    let rows = [
        Row { name: "reads", case: reads, gives: &[8.0], holds: [2.0, 5.0], moves: [1, 0, 0, 0], needed: 0 },
        Row {
            name: "read_write_read",
            case: read_write_read,
            gives: &[0.909_297_4, -0.989_992_5],
            holds: [3.0, 5.0],
            moves: [2, 2, 0, 0],
            needed: 0,
        },
        Row {
            name: "old_and_new",
            case: old_and_new,
            gives: &[5.0],
            holds: [3.0, 5.0],
            moves: [2, 2, 0, 0],
            needed: 0,
        },
        Row { name: "write_read", case: write_read, gives: &[3.0], holds: [3.0, 5.0], moves: [0, 0, 0, 0], needed: 0 },
        Row {
            name: "snapshots",
            case: snapshots,
            gives: &[2.0, 3.0],
            holds: [3.0, 5.0],
            moves: [1, 1, 1, 0],
            needed: 1,
        },
        Row { name: "momentum", case: momentum, gives: &[6.0], holds: [0.95, 10.5], moves: [3, 2, 0, 0], needed: 0 },
        Row { name: "branch", case: branch, gives: &[9.0], holds: [3.0, 5.0], moves: [2, 2, 0, 0], needed: 0 },
        Row { name: "looped", case: looped, gives: &[3.0], holds: [2.0, 5.0], moves: [1, 0, 0, 0], needed: 0 },
        Row { name: "exchange", case: exchange, gives: &[], holds: [5.0, 2.0], moves: [2, 0, 1, 0], needed: 1 },
        Row { name: "hand_on", case: hand_on, gives: &[], holds: [3.0, 2.0], moves: [1, 0, 0, 0], needed: 0 },
    ];
    let levels = [Level::Every, Level::Several, Level::Needed, Level::None];
    for Row { name, case, gives, holds, moves, needed } in rows {
        let run = |context: Context| {
            // Each level has another rank, so that it is compiled.
            let one = |x: f32| Tensor::full(vec![1; context.load_elim as usize], x);
            let (w, v) = (Parameter::new(one(2.0), "w"), Parameter::new(one(5.0), "v"));
            let x = one(3.0);
            let given = ms::with_context(context, || case(&w, &v, &x));
            let given: Vec<f32> = given.iter().map(|it| it.item()).collect();
            (given, [w, v].map(|it| it.value().item::<f32>()))
        };
        let near = |a: &[f32], b: &[f32]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
        let check = |how: &str, (given, held): (Vec<f32>, [f32; 2])| {
            assert!(near(&given, gives) && near(&held, &holds), "{name}, {how}: {given:?}, {held:?}");
        };
        check("eagerly", run(Context { jit: false, ..ms::context() }));
        let counted = levels.map(|level| {
            check(&format!("{level:?}"), run(Context { load_elim: level, ..ms::context() }));
            let report = ms::compile_report().pop().expect("just compiled");
            report.stage("effects").and_then(|it| it.graph).expect("a graph").moves
        });
        assert_eq!(counted, moves, "{name}");
        assert!(counted[2] <= needed, "{name}");
    }
}
