//! Tests donated arguments: results reuse their memory unless it is shared.

use super::memory::{bits, data, eagerly, place, strictly};
use ms::prelude::*;

/// Checks whether the result of a function reuses the memory of its donated argument.
#[track_caller]
fn check(reused: bool, f: fn(Tensor) -> Tensor, shape: &[usize]) {
    let want = bits(&eagerly(|| f(data(shape, 1))));
    // The first call only traces.
    for call in 0..3 {
        let x = data(shape, 1);
        let at = place(&x);
        let y = f(x);
        assert_eq!(place(&y) == at, reused, "call {call}");
        assert_eq!(bits(&y), want, "call {call}");

        let x = data(shape, 1);
        let (kept, before) = (x.clone(), bits(&x));
        let y = f(x);
        assert_ne!(place(&y), place(&kept), "call {call}: shared memory is not taken");
        assert_eq!((bits(&y), bits(&kept)), (want.clone(), before), "call {call}");
    }
}

macro_rules! donating {
    ($($name:ident => |$x:ident| $body:expr;)*) => {$(
        #[jit(donate(x))]
        fn $name(x: Tensor) -> Tensor {
            let $x = x;
            $body
        }
    )*};
}

donating! {
    elementwise => |x| ops::tanh(&x * 2.0 + 1.0);
    same => |x| x;
    other_dtype => |x| ops::floor(&x * 10.0).cast(DType::I32);
    smaller => |x| ops::sum(&x, 0);
    wider => |x| x.cast(DType::F64);
    read_by_a_fold => |x| &x - ops::mean(&x, ());
    transposed => |x| ops::transpose(&x, 0, 1) + 1.0;
    product => |x| ops::matmul(&x, &x);
    after_products => |x| ops::relu(ops::matmul(ops::matmul(&x, &x), &data(&[8, 8], 2)));
    repeated => |x| {
        let mut y = x;
        while ops::sum(&y, ()) < 50.0 {
            y = y * 2.0 + 1.0;
        }
        y
    };
    chosen => |x| if ops::sum(&x, ()) > 0.0 { x * 2.0 } else { 1.0 - x };
    ranged => |x| {
        let mut y = x;
        for _ in ms::range(0, 4) {
            y = ops::tanh(ops::matmul(&y, &y));
        }
        y
    };
}

#[test]
fn results_take_the_memory_of_arguments() {
    strictly(|| {
        check(true, elementwise, &[5, 7]);
        check(true, elementwise, &[]);
        check(true, elementwise, &[300, 1000]);
        check(true, same, &[4, 4]);
        check(true, other_dtype, &[33]);
        // The last product reads another value than the argument.
        check(true, after_products, &[8, 8]);
    });
}

#[test]
fn arguments_that_are_still_read_are_not_reused() {
    strictly(|| {
        check(false, smaller, &[6, 3]);
        check(false, wider, &[6, 3]);
        check(false, read_by_a_fold, &[16, 3]);
        check(false, transposed, &[4, 4]);
        check(false, product, &[8, 8]);
    });
}

#[test]
fn control_flow_gives_the_same() {
    strictly(control_flow);
}

fn control_flow() {
    for f in [repeated, chosen, ranged] {
        for shape in [&[8, 8][..], &[1, 1]] {
            let want = bits(&eagerly(|| f(data(shape, 3))));
            let x = data(shape, 3);
            let kept = x.clone();
            assert_eq!(bits(&f(x)), want);
            assert_eq!(bits(&kept), bits(&data(shape, 3)));
            assert_eq!(bits(&f(kept)), want);
        }
    }
}

#[jit(donate(x, m, v))]
fn adam(x: Tensor, m: Tensor, v: Tensor, g: &Tensor) -> (Tensor, Tensor, Tensor) {
    let m = 0.9 * m + 0.1 * g;
    let v = 0.99 * v + 0.01 * g * g;
    (x - 0.1 * &m / (v.sqrt() + 1e-8), m, v)
}

#[test]
fn each_result_takes_memory_of_its_own() {
    strictly(each_result);
}

fn each_result() {
    let g = data(&[40], 9);
    let new = || [1, 2, 3].map(|seed| ops::abs(data(&[40], seed)));
    let [x, m, v] = new();
    let want = eagerly(|| adam(x, m, v, &g));
    let want = [bits(&want.0), bits(&want.1), bits(&want.2)];
    for _ in 0..2 {
        let [x, m, v] = new();
        let mut before = [place(&x), place(&m), place(&v)];
        let (x, m, v) = adam(x, m, v, &g);
        let mut after = [place(&x), place(&m), place(&v)];
        assert_eq!([bits(&x), bits(&m), bits(&v)], want);
        before.sort_unstable();
        after.sort_unstable();
        assert_eq!(before, after);
        assert_eq!(bits(&g), bits(&data(&[40], 9)));
    }
}

#[jit(donate(x, y))]
fn crossed(x: Tensor, y: Tensor, z: &Tensor) -> (Tensor, Tensor) {
    (&x + &y * z, x - y)
}

#[test]
fn arguments_with_the_same_memory() {
    strictly(same_memory);
}

fn same_memory() {
    let new = || data(&[24], 4);
    let (x, y) = (new(), data(&[24], 5));
    let view = |x: &Tensor| x.reshape([24]);
    let want = eagerly(|| crossed(x.clone(), x.clone(), &x));
    let want = (bits(&want.0), bits(&want.1));
    let cases: [fn(Tensor) -> (Tensor, Tensor); 4] = [
        |x| crossed(x.clone(), x.clone(), &x),
        |x| {
            let z = x.clone();
            crossed(x, z.clone(), &z)
        },
        |x| {
            let (y, z) = (x.reshape([24]), x.reshape([4, 6]).reshape([24]));
            crossed(x, y, &z)
        },
        |x| {
            let parameter = Parameter::new(x.clone(), "p");
            let out = crossed(x.clone(), x, &parameter.value());
            assert_eq!(bits(&parameter.value()), bits(&data(&[24], 4)));
            out
        },
    ];
    for case in cases {
        for _ in 0..2 {
            let out = case(new());
            assert_eq!((bits(&out.0), bits(&out.1)), want);
        }
    }
    // Both arguments are donated and not shared, so one result reuses the memory.
    let both = new();
    let (at, z) = (place(&both), y.clone());
    let out = crossed(view(&both), both, &z);
    assert!(place(&out.0) != place(&out.1) && ![place(&out.0), place(&out.1)].contains(&place(&y)));
    let want = eagerly(|| crossed(new(), new(), &y));
    assert_eq!((bits(&out.0), bits(&out.1), at != 0), (bits(&want.0), bits(&want.1), true));
}

#[test]
fn strided_and_partial_arguments() {
    let whole = data(&[6, 4], 6);
    let before = bits(&whole);
    let views: [fn(&Tensor) -> Tensor; 3] =
        [|x| ops::transpose(x, 0, 1), |x| x.i((1..3, ..)), |x| x.i((.., (..).step(2)))];
    for view in views {
        let want = bits(&eagerly(|| elementwise(view(&whole))));
        for _ in 0..2 {
            assert_eq!(bits(&elementwise(view(&whole))), want);
            assert_eq!(bits(&whole), before);
        }
    }
}

#[derive(Clone, Tree)]
struct State {
    mean: Tensor,
    parts: Vec<Tensor>,
}

impl State {
    #[jit(donate(self))]
    fn moved(self, by: &Tensor) -> State {
        State { mean: self.mean + by, parts: self.parts.iter().map(|it| it * 2.0).collect() }
    }
}

#[jit(donate(state), dims(x = [n]))]
fn summed(state: State, x: &Tensor) -> Result<State, ms::Error> {
    Ok(State { mean: state.mean + ops::mean(x, keepdims(0)), parts: state.parts })
}

#[test]
fn structures_receivers_and_symbolic_sizes() {
    let new = || State { mean: data(&[6], 1), parts: vec![data(&[5], 2), data(&[7], 3)] };
    let places = |it: &State| [place(&it.mean), place(&it.parts[0]), place(&it.parts[1])];
    let values = |it: &State| [bits(&it.mean), bits(&it.parts[0]), bits(&it.parts[1])];
    for n in [3, 9, 3] {
        let x = data(&[n], 8);
        let (state, want) = (new(), eagerly(|| summed(new(), &x)).expect("no refusal"));
        let at = places(&state);
        let got = summed(state, &x).expect("no refusal");
        assert_eq!((places(&got), values(&got)), (at, values(&want)));
        let (want, x) = (eagerly(|| want.moved(&data(&[6], 4))), data(&[6], 4));
        let moved = got.moved(&x);
        assert_eq!((places(&moved), values(&moved)), (at, values(&want)));
    }
}

#[jit(donate(x), pure)]
fn counted(x: Tensor, calls: &mut Tensor) -> Result<Tensor, ms::Error> {
    *calls = &*calls + 1.0;
    Ok(x * 3.0)
}

#[test]
fn beside_arguments_that_are_written() {
    let mut calls = Tensor::scalar(0.0);
    for call in 1..4 {
        let x = data(&[9], 7);
        let (at, want) = (place(&x), bits(&(&x * 3.0)));
        let y = counted(x, &mut calls).expect("no refusal");
        assert_eq!((bits(&y), calls.item::<f32>()), (want, call as f32));
        assert_eq!(place(&y), at);
    }
}

#[test]
fn derivatives_lanes_and_traces_around() {
    let x = data(&[3, 5], 2);
    let before = bits(&x);
    let plain = |x: &Tensor| ops::tanh(x * 2.0 + 1.0);
    let loss = |x: &Tensor| ops::sum(elementwise(x.clone()) * x, ());
    let plain_loss = |x: &Tensor| ops::sum(plain(x) * x, ());
    let near = |a: &Tensor, b: &Tensor| {
        assert!(ops::max(ops::abs(a - b), ()).item::<f32>() < 1e-5);
    };
    for _ in 0..2 {
        near(&ms::grad(loss)(&x), &ms::grad(plain_loss)(&x));
        near(
            &ms::grad(|x: &Tensor| ops::sum(ms::grad(|x: &Tensor| ops::sum(elementwise(x.clone()), ()))(x), ()))(&x),
            &ms::grad(|x: &Tensor| ops::sum(ms::grad(|x: &Tensor| ops::sum(ops::tanh(x * 2.0 + 1.0), ()))(x), ()))(&x),
        );
        near(&ms::vmap(|x: &Tensor| elementwise(x.clone()))(&x), &plain(&x));
        near(&ms::jvp(|x: &Tensor| elementwise(x.clone()))(&x, &x).1, &ms::jvp(plain)(&x, &x).1);
        near(&ms::jit(|x: &Tensor| elementwise(x.clone()) + elementwise(x * 1.0))(&x), &(plain(&x) + plain(&x)));
        // Values saved by a tape are not overwritten.
        let (value, gradient) = ms::value_and_grad(|x: &Tensor| {
            let h = x * x;
            ops::sum(elementwise(h), ())
        })(&x);
        let want = ms::value_and_grad(|x: &Tensor| ops::sum(ops::tanh(x * x * 2.0 + 1.0), ()))(&x);
        near(&value, &want.0);
        near(&gradient, &want.1);
        assert_eq!(bits(&x), before);
    }
}

#[jit(donate(x))]
fn refused(x: Tensor, y: &Tensor) -> Result<Tensor, ms::Error> {
    Ok(x + y)
}

#[test]
fn refusals_leave_the_others() {
    let (x, y) = (data(&[3], 1), data(&[4], 2));
    let kept = x.clone();
    for _ in 0..2 {
        refused(x.clone(), &y).expect_err("the sizes do not fit");
        assert!(refused(x.clone(), &kept).is_ok());
        assert_eq!((bits(&x), bits(&y)), (bits(&data(&[3], 1)), bits(&data(&[4], 2))));
    }
}

#[test]
fn threads_donate_their_own_arguments() {
    let want = bits(&eagerly(|| elementwise(data(&[1000], 1))));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let x = data(&[1000], 1);
                    let (at, kept) = (place(&x), data(&[1000], 1));
                    let y = elementwise(x);
                    assert!(place(&y) == at && bits(&y) == want);
                    assert_eq!(bits(&kept), bits(&data(&[1000], 1)));
                }
            });
        }
    });
}
