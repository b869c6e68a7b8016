//! Arguments and results: tuples, arrays, options, maps, derived trees; host values in the key.
use ms::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Static)]
enum Reduce {
    Sum,
    Scale(i64),
}

#[derive(Clone, Tree)]
struct State {
    values: BTreeMap<String, Tensor>,
    last: Option<(Tensor, Reduce)>,
}

#[jit]
fn step(state: &mut State, x: [Tensor; 2], how: Reduce) -> Tensor {
    let [a, b] = x;
    let out = match how {
        Reduce::Sum => &a + &b,
        Reduce::Scale(n) if n > 1 => &a * n + &b,
        Reduce::Scale(_) => b.clone(),
    };
    for value in state.values.values_mut() {
        *value = &*value + &out;
    }
    state.last = Some((out.clone(), how));
    out
}

#[test]
fn main() {
    let scalar = |x: f32| Tensor::scalar(x);
    let mut state = State { values: BTreeMap::from([("a".into(), scalar(1.0)), ("b".into(), scalar(2.0))]), last: None };
    for (how, want) in [(Reduce::Sum, 3.0), (Reduce::Scale(3), 5.0), (Reduce::Scale(1), 2.0), (Reduce::Sum, 3.0)] {
        assert_eq!(step(&mut state, [scalar(1.0), scalar(2.0)], how).item::<f32>(), want);
        assert_eq!(state.last.as_ref().map(|it| it.1), Some(how));
    }
    assert_eq!(state.values["a"].item::<f32>(), 14.0);
    assert_eq!(state.values["b"].item::<f32>(), 15.0);
}
