//! Tests `vmap` in programs: axes, nesting, composition with `grad` and `jit`, cells and state.

use ms::prelude::*;
use ms::{Code, grad, jit, value_and_grad, vmap, vmap_cells};
use ms_conformance::counted::counted;
use ms_conformance::late_errors::catch;

fn f32s(x: &Tensor) -> Vec<f32> {
    x.to_vec::<f32>()
}

/// Runs `f` with compilation and without.
fn both(f: impl Fn()) {
    ms::with_context(Context { jit: false, ..ms::context() }, &f);
    f();
    f();
}

#[jit]
fn manually_batched(xs: &Tensor) -> Tensor {
    let mut out = vec![];
    for i in 0..xs.shape()[0] {
        out.push(ops::hswish(&xs.at(i as isize)));
    }
    ops::stack(&out, 0)
}

#[test]
fn hswish_of_rows_as_one_and_one_by_one() {
    let xs = counted([100, 2]) / 20.0 - 5.0;
    let output_vmap = vmap(|x: &Tensor| ops::hswish(x)).in_axes(0);
    both(|| assert_eq!(f32s(&output_vmap(&xs)), f32s(&manually_batched(&xs))));
}

#[test]
fn axes_of_arguments_and_results() {
    let (x, y) = (counted([2, 3]), counted([3, 2]));
    let outer = |x: &Tensor, y: &Tensor| ops::expand_dims(x, 1) * y;
    both(|| {
        let rows = vmap(outer).in_axes((0, 1))(&x, &y);
        assert_eq!(rows.shape(), [2, 3, 3]);
        let also = vmap(outer).in_axes((-2, -1)).out_axes(-1)(&x, &y);
        assert_eq!(f32s(&also.permute([2, 0, 1])), f32s(&rows));
        for lane in 0..2 {
            assert_eq!(f32s(&rows.at(lane)), f32s(&outer(&x.at(lane), &y.transpose(0, 1).at(lane))));
        }
        let one = vmap(|x: &Tensor, y: &Tensor| x + y).in_axes((Some(1), None))(&x, &tensor![10.0, 20.0]);
        assert_eq!(f32s(&one), [10.0, 23.0, 11.0, 24.0, 12.0, 25.0]);
    });
}

#[test]
fn axes_of_structures() {
    let pair = |p: &(Tensor, Vec<Tensor>), k: &f32| (&p.0 * *k, ops::add(&p.1[0], &p.1[1]));
    let (x, y, z) = (counted([2, 3]), counted([3, 2]), tensor![1.0, 2.0, 3.0]);
    both(|| {
        let (scaled, sums) = vmap(pair).in_axes(((0, vec![Some(1), None]), None)).out_axes((1, 0))(
            &(x.clone(), vec![y.clone(), z.clone()]),
            &2.0,
        );
        assert_eq!(f32s(&scaled), f32s(&(x.transpose(0, 1) * 2.0)));
        assert_eq!(f32s(&sums), f32s(&(y.transpose(0, 1) + &z)));
        // One tensor is two arguments, with another axis for each.
        let twice = vmap(|a: &Tensor, b: &Tensor| a - b).in_axes((0, 1))(&counted([2, 2]), &counted([2, 2]));
        let x = counted([2, 2]);
        let same = vmap(|a: &Tensor, b: &Tensor| a - b).in_axes((0, 1))(&x, &x);
        assert_eq!((f32s(&twice), f32s(&same)), (vec![0.0, -1.0, 1.0, 0.0], vec![0.0, -1.0, 1.0, 0.0]));
    });
}

#[test]
fn nested() {
    let (x, y) = (counted([2]), counted([3]));
    both(|| {
        let table = vmap(vmap(|a: &Tensor, b: &Tensor| a * 10.0 + b).in_axes((None, 0))).in_axes((0, None))(&x, &y);
        assert_eq!(table.shape(), [2, 3]);
        assert_eq!(f32s(&table), [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]);
        let captured = vmap(|a: &Tensor| vmap(|b: &Tensor| a * 10.0 + b)(&y))(&x);
        assert_eq!(f32s(&captured), f32s(&table));
    });
}

#[test]
fn captured_values_are_seen_at_every_call() {
    let x = counted([3]);
    let weight = Parameter::new(tensor![2.0], "weight");
    for k in [1.0f32, 2.0] {
        let k = tensor![k];
        weight.set(&(&k * 10.0));
        let sums = vmap(|x: &Tensor| x * &k + weight.value())(&x);
        assert_eq!(f32s(&sums), f32s(&(&x * &k + weight.value()).reshape([3, 1])));
    }
}

#[test]
fn with_grad_in_any_order() {
    let f = |x: &Tensor| ops::sum(ops::sin(x) * x, ());
    let xs = counted([3, 2]);
    let want: Vec<f32> = (0..3).flat_map(|i| f32s(&grad(f)(&xs.at(i)))).collect();
    both(|| {
        let each = vmap(grad(f))(&xs);
        let all = grad(vmap(f))(&xs);
        let compiled = jit(vmap(grad(f)))(&xs);
        let inside = jit(grad(vmap(f)))(&xs);
        let around = vmap(jit(grad(f)))(&xs);
        for got in [each, all, compiled, inside, around] {
            assert!(f32s(&got).iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-6), "{got}");
        }
    });
    // The captured value has a gradient through the lanes that share it.
    let weight = tensor![2.0, 3.0];
    let loss = |w: &Tensor| ops::sum(vmap(|x: &Tensor| x * w)(&xs), ());
    assert_eq!(f32s(&grad(loss)(&weight)), [6.0, 9.0]);
    let (values, gradients) = vmap(value_and_grad(f))(&xs);
    assert_eq!((values.shape(), gradients.shape()), (&[3usize][..], &[3usize, 2][..]));
}

#[test]
fn axes_are_part_of_what_is_compiled() {
    let x = counted([2, 3]);
    let sum = |x: &Tensor| ops::sum(x, ());
    for _ in 0..2 {
        assert_eq!(f32s(&jit(vmap(sum).in_axes(0))(&x)), [3.0, 12.0]);
        assert_eq!(f32s(&jit(vmap(sum).in_axes(1))(&x)), [3.0, 5.0, 7.0]);
        assert_eq!(f32s(&vmap(sum).in_axes(1)(&x)), [3.0, 5.0, 7.0]);
        assert_eq!(f32s(&jit(grad(vmap(|x: &Tensor| x * x).in_axes(1)))(&x)), f32s(&(&x * 2.0)));
    }
}

#[test]
fn cells_share_their_parameters_or_have_their_own() {
    let layer = nn::Dense::new(3, 2);
    let xs = counted([4, 3]);
    let want = layer.call(&xs);
    let near = |a: &Tensor, b: &Tensor| f32s(a).iter().zip(f32s(b)).all(|(a, b)| (a - b).abs() < 1e-5);
    both(|| {
        assert!(near(&vmap(|x: &Tensor| layer.call(x))(&xs), &want));
        assert!(near(&vmap(|net: &nn::Dense, x: &Tensor| net.call(x)).in_axes((None, 0))(&layer, &xs), &want));
    });
    let models: nn::CellList<nn::Dense> = (0..3).map(|_| nn::Dense::new(3, 2)).collect();
    both(|| {
        let all = vmap_cells(&models).in_axes(None)(&xs);
        assert_eq!(all.shape(), [3, 4, 2]);
        let each = vmap_cells(&models)(&xs.i(0..3));
        for (i, model) in models.iter().enumerate() {
            assert!(near(&all.at(i as isize), &model.call(&xs)));
            assert!(near(&each.at(i as isize), &model.call(&xs.at(i as isize))));
        }
    });
    // Each cell has one gradient.
    let parameters = models.parameters();
    let loss = |x: &Tensor| ops::sum(vmap_cells(&models).in_axes(None)(x), ());
    let gradients = grad(loss).wrt(parameters.clone())(&xs);
    let own = grad(|x: &Tensor| ops::sum(models[1].call(x), ())).wrt(parameters.clone())(&xs);
    for parameter in models[1].parameters() {
        assert!(near(gradients.get(&parameter).expect("given"), own.get(&parameter).expect("given")));
    }
}

#[test]
fn random_numbers_of_every_lane_are_its_own() {
    random::set_seed(3);
    let noisy = vmap(|x: &Tensor| (x + random::uniform([50], 0.0, 1.0), random::randn([50])));
    both(|| {
        let (a, b) = noisy(&Tensor::zeros([3]));
        for pair in [(0, 1), (1, 2), (0, 2)] {
            assert_ne!(f32s(&a.at(pair.0)), f32s(&a.at(pair.1)));
            assert_ne!(f32s(&b.at(pair.0)), f32s(&b.at(pair.1)));
        }
        assert_ne!(f32s(&a), f32s(&noisy(&Tensor::zeros([3])).0));
    });
    let dropout = nn::Dropout::new(0.5);
    let masks = vmap(|x: &Tensor| dropout.call(x))(&Tensor::ones([2, 200]));
    assert_ne!(f32s(&masks.at(0)), f32s(&masks.at(1)));
}

#[test]
fn what_lanes_print_comes_in_their_order() {
    let show = vmap(|x: &Tensor, k: &Tensor| {
        ops::print("{} {}", &[x, k]);
        ops::print("shared {}", &[k]);
        x * k
    })
    .in_axes((0, None));
    both(|| {
        let (_, lines) = ops::capture_prints(|| show(&tensor![1.0, 2.0], &tensor![7.0]));
        assert_eq!(lines, ["1.0 [7.]", "2.0 [7.]", "shared [7.]"]);
    });
    let positive = vmap(|x: &Tensor| {
        ops::assert_that(x.gt(0.0), "negative: {}", &[x]);
        x.clone()
    });
    assert_eq!(f32s(&positive(&tensor![1.0, 2.0])), [1.0, 2.0]);
    let error = catch(|| positive(&tensor![1.0, -2.0])).expect_err("a lane refuses");
    assert_eq!(error.code(), Code::Assertion);
    assert!(error.to_string().contains("negative: -2.0"), "{error}");
}

#[test]
fn parameters_are_written_lane_by_lane_where_they_are_mapped() {
    let slots = Parameter::new(counted([2, 3]), "slots");
    let total = Parameter::new(tensor![1.0], "total");
    let step = vmap(|slot: &Parameter, x: &Tensor| {
        slot.set(&(slot.value() + x));
        total.set(&(total.value() * 2.0));
        slot.value() * total.value()
    })
    .in_axes((1, 0));
    let given = tensor![10.0, 20.0, 30.0];
    let out = step(&slots, &given);
    assert_eq!(f32s(&slots.value()), [10.0, 21.0, 32.0, 13.0, 24.0, 35.0]);
    assert_eq!(f32s(&total.value()), [2.0]);
    assert_eq!(f32s(&out), [20.0, 26.0, 42.0, 48.0, 64.0, 70.0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let add = |x: &Tensor, y: &Tensor| x + y;
    let (x, y) = (counted([2, 3]), counted([3, 2]));
    let shared = Parameter::new(Tensor::zeros(()), "shared");
    let models = [nn::Dense::new(2, 2), nn::Dense::new(2, 3)];
    let cases: [(&str, Code, &dyn Fn()); 11] = [
        ("sizes 2 and 3", Code::LaneCount, &|| drop(vmap(add)(&x, &y))),
        ("nothing is mapped", Code::LaneCount, &|| drop(vmap(add).in_axes((None, None))(&x, &y))),
        ("axis 2 in `in_axes` of a tensor of 2 axes", Code::Axes, &|| drop(vmap(add).in_axes((2, 0))(&x, &x))),
        ("3 entries for 2 arguments", Code::Axes, &|| drop(vmap(add).in_axes((0, 0, 0))(&x, &x))),
        ("2 entries for a tensor", Code::Axes, &|| drop(vmap(add).in_axes(((0, 1), 0))(&x, &x))),
        ("`out_axes` of a tensor of 2 axes", Code::Axes, &|| drop(vmap(add).out_axes(5)(&x, &x))),
        ("differs between lanes", Code::Mapped, &|| drop(vmap(add).out_axes(None)(&x, &x))),
        ("differs between lanes", Code::Mapped, &|| {
            drop(vmap(|x: &Tensor| {
                shared.set(x);
                x.clone()
            })(&tensor![1.0, 2.0]));
        }),
        ("is not known yet", Code::TracedValue, &|| drop(vmap(|x: &Tensor| x * x.item::<f32>())(&tensor![1.0, 2.0]))),
        ("a parameter is", Code::Ensemble, &|| drop(vmap_cells(&models).in_axes(None)(&x))),
        ("axis 0 in `in_axes` of a tensor of 0 axes", Code::Axes, &|| drop(vmap(add)(&x, &Tensor::scalar(1.0)))),
    ];
    for (want, code, case) in cases {
        let error = catch(case).expect_err(want);
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(want), "{error}\n{want}");
    }
}

#[test]
fn random_numbers_behind_a_decision_of_each_lane() {
    random::set_seed(5);
    let sometimes = |x: &Tensor| {
        ops::cond(x.gt(0.0), |x: &Tensor| x + random::uniform([20], 0.0, 1.0), |x| x * Tensor::ones([20]), x)
    };
    let xs = tensor![1.0, -1.0, 1.0];
    both(|| {
        let twice = vmap(|x: &Tensor| (sometimes(x), sometimes(x), random::uniform([20], 0.0, 1.0)))(&xs);
        assert_eq!(f32s(&twice.0.at(1)), [-1.0; 20]);
        let drawn = [twice.0.at(0), twice.0.at(2), twice.1.at(0), twice.1.at(2), &twice.2.at(0) + 1.0];
        for (i, one) in drawn.iter().enumerate() {
            assert!(f32s(one).iter().all(|it| (1.0..2.0).contains(it)));
            assert!(drawn[..i].iter().all(|other| f32s(other) != f32s(one)));
        }
    });
}

/// Finds a root by Newton's iteration, with an `if` and a `while` of annotated code.
#[jit]
fn solved(a: &Tensor) -> Tensor {
    let mut x = a.clone();
    if a > 1.0 {
        x = ops::while_loop(|x: &Tensor| ops::abs(x * x - a).gt(1e-4), |x| (x + a / x) * 0.5, x);
    } else {
        x = x * a;
    }
    x
}

#[test]
fn decisions_of_annotated_code_are_those_of_each_lane() {
    let xs = tensor![4.0, 0.5, 2.0, -1.0];
    let each = |f: &dyn Fn(&Tensor) -> Tensor| (0..4).map(|i| f(&xs.at(i)).item::<f32>()).collect::<Vec<_>>();
    let near = |got: &Tensor, want: &[f32]| {
        assert!(f32s(got).iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-4), "{got}, not {want:?}");
    };
    both(|| {
        near(&vmap(solved)(&xs), &each(&solved));
        near(&vmap(grad(solved))(&xs), &each(&|x| grad(solved)(x)));
        near(&grad(vmap(solved))(&xs), &each(&|x| grad(solved)(x)));
    });
}

#[test]
fn rules_of_users_recomputed_parts_and_tangents() {
    let clipped = || {
        ms::custom_vjp(
            |x: &Tensor, k: &Tensor| x * x * k,
            |x: &Tensor, k: &Tensor, _: &Tensor, g: &Tensor| (ops::minimum(g * x, 2.0), g * k),
        )
    };
    let block = || ms::recompute(|x: &Tensor| ops::sin(x * x));
    let (xs, k) = (tensor![1.0, 5.0, -3.0], Tensor::scalar(10.0));
    let near = |got: &Tensor, want: &[f32]| {
        assert!(f32s(got).iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-4), "{got}, not {want:?}");
    };
    both(|| {
        near(&vmap(clipped()).in_axes((0, None))(&xs, &k), &[10.0, 250.0, 90.0]);
        near(&vmap(grad(clipped())).in_axes((0, None))(&xs, &k), &[1.0, 2.0, -3.0]);
        // A shared argument gets the gradients of all lanes.
        let by_shared = |k: &Tensor| vmap(clipped()).in_axes((0, None))(&xs, k);
        near(&grad(by_shared)(&k), &[30.0]);
        let want: Vec<f32> = f32s(&xs).iter().map(|x| 2.0 * x * (x * x).cos()).collect();
        near(&vmap(grad(block()))(&xs), &want);
        near(&grad(vmap(block()))(&xs), &want);
        let ones = Tensor::ones([3]);
        near(&vmap(ms::jvp(|x: &Tensor| ops::sin(x * x)))(&xs, &ones).1, &want);
        near(&ms::jvp(vmap(|x: &Tensor| ops::sin(x * x)))(&xs, &ones).1, &want);
    });
}
