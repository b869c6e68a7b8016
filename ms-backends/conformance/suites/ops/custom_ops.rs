//! Tests custom ops: values, derivatives, lanes, shapes, attributes and failures.

use super::{Failure, check_failures};
use ms::Code;
use ms::custom::{AnyView, AnyViewMut, BatchedCall, Outputs, Type, View, ViewMut, Vjp};
use ms::prelude::*;
use ms::tensor::AsTensor;
use ms_conformance::late_errors::catch;

ms::custom_op! {
    /// Sorts rows, from the largest element if `descending`, and returns the original positions of the elements too.
    pub fn sort_rows(x: &Tensor, descending: bool) -> (Tensor, Tensor);

    const VERSION: u32 = 1;

    fn types(x: &Type, _descending: bool) -> [Type; 2] {
        [x.clone(), Type::new(DType::I64, x.dims.clone())]
    }

    fn run(x: View<'_, f32>, descending: bool, mut sorted: ViewMut<'_, f32>, mut positions: ViewMut<'_, i64>) {
        for (row, (sorted, positions)) in x.rows().zip(sorted.rows_mut().zip(positions.rows_mut())) {
            let mut order: Vec<usize> = (0..row.len()).collect();
            order.sort_by(|&a, &b| if descending { row[b].total_cmp(&row[a]) } else { row[a].total_cmp(&row[b]) });
            for (to, &from) in order.iter().enumerate() {
                (sorted[to], positions[to]) = (row[from], from as i64);
            }
        }
    }

    fn derivative(it: &Vjp<'_>, _descending: bool) -> Option<Tensor> {
        let zeros = ops::zeros_like(&it.inputs[0]);
        let gradient = it.cotangents[0].as_ref()?;
        Some(ops::scatter_add(&zeros, &it.outputs[1], gradient, -1))
    }

    fn batching(lanes: &BatchedCall<'_>, _descending: bool) -> ms::Result<Outputs> {
        lanes.apply(lanes.attrs, &lanes.spread_all())
    }
}

ms::custom_op! {
    /// Computes `x³`. Its derivative is a custom op as well.
    fn cube(x: impl AsTensor) -> Tensor;

    fn types(x: &Type) -> Type {
        x.clone()
    }

    fn run(x: &[f32], y: &mut [f32]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = x * x * x);
    }

    fn derivative(it: &Vjp<'_>) -> Tensor {
        it.cotangent() * square_of(&it.inputs[0]) * 3.0
    }
}

ms::custom_op! {
    fn square_of(x: &Tensor) -> Tensor;

    fn types(x: &Type) -> Type {
        x.clone()
    }

    fn run(x: &[f32], y: &mut [f32]) {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = x * x);
    }

    fn derivative(it: &Vjp<'_>) -> Tensor {
        it.cotangent() * &it.inputs[0] * 2.0
    }
}

ms::custom_op! {
    /// Multiplies two tensors of one shape. The arguments decide which elements it refuses.
    fn picky(a: &Tensor, b: &Tensor, limit: f64, how: &str) -> Tensor;

    fn types(a: &Type, b: &Type, _limit: f64, _how: &str) -> ms::Result<Type> {
        if a.dims != b.dims {
            return Err(Error::new(Code::Shape, format!("{a} and {b} are of two shapes")));
        }
        Ok(a.clone())
    }

    fn run(a: &[f32], b: &[f32], limit: f64, how: &str, out: &mut [f32]) -> Result<(), String> {
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            *out = a * b;
            if f64::from(*out) > limit {
                match how {
                    "panic" => panic!("{out} is above {limit}"),
                    "raise" => drop(tensor![1., 2.] + tensor![1., 2., 3.]),
                    _ => return Err(format!("{out} is too much")),
                }
            }
        }
        Ok(())
    }
}

ms::custom_op! {
    /// Reverses the elements, of any dtype.
    fn reversed(x: &Tensor, steps: &[i64]) -> Tensor;

    fn types(x: &Type, _steps: &[i64]) -> Type {
        x.clone()
    }

    fn run(x: AnyView<'_>, steps: &[i64], mut y: AnyViewMut<'_>) -> ms::Result<()> {
        assert_eq!(steps, [1, -1]);
        match x.dtype() {
            DType::F32 => y.typed::<f32>()?.iter_mut().rev().zip(x.typed::<f32>()?.iter()).for_each(|(y, x)| *y = *x),
            _ => y.typed::<i64>()?.iter_mut().rev().zip(x.typed::<i64>()?.iter()).for_each(|(y, x)| *y = *x),
        }
        Ok(())
    }
}

ms::custom_op! {
    /// Returns the integers of its attributes.
    fn given(x: &Tensor, one: i64, several: &[i64]) -> Tensor;

    fn types(x: &Type, _one: i64, several: &[i64]) -> Type {
        Type::of(x.dtype, &[several.len() + 1])
    }

    fn run(_x: &[i64], one: i64, several: &[i64], y: &mut [i64]) {
        y[0] = one;
        y[1..].copy_from_slice(several);
    }
}

#[jit(dims(x = [n]))]
fn sized(x: &Tensor) -> Tensor {
    x.i(1..).sum(0)
}

#[jit]
fn given_compiled(x: &Tensor, one: i64) -> Tensor {
    given(x, one, &[one, 1, i64::MIN])
}

/// No integer is taken for a symbolic size, although handles of expressions were created before.
#[test]
fn integers_of_all_bits_arrive() {
    assert_eq!(sized(&tensor![1, 2]).item::<i64>(), 2);
    let first = (0..8).map(|it| i64::MIN + it);
    for one in first.chain([i64::MIN + (1 << 32), -1, 0, i64::MAX]) {
        for result in [given(&tensor![0], one, &[one, 1, i64::MIN]), given_compiled(&tensor![0], one)] {
            assert_eq!(result.to_vec::<i64>(), [one, one, 1, i64::MIN]);
        }
    }
}

ms::custom_op! {
    /// Has a type rule with another dtype than `run` writes.
    fn inconsistent(x: &Tensor) -> Tensor;

    fn types(x: &Type) -> Type {
        Type::new(DType::I32, x.dims.clone())
    }

    fn run(_x: &[f32], _y: &mut [f32]) {}
}

ms::custom_op! {
    /// Has a gradient of another shape than its operand.
    fn of_wrong_gradient(x: &Tensor) -> Tensor;

    fn types(x: &Type) -> Type {
        x.clone()
    }

    fn run(x: &[f32], y: &mut [f32]) {
        y.copy_from_slice(x);
    }

    fn derivative(it: &Vjp<'_>) -> Tensor {
        it.cotangent().sum(())
    }
}

ms::custom_op! {
    /// Has a derivative that panics.
    fn of_failing_gradient(x: &Tensor) -> Tensor;

    fn types(x: &Type) -> Type {
        x.clone()
    }

    fn run(x: &[f32], y: &mut [f32]) {
        y.copy_from_slice(x);
    }

    fn derivative(it: &Vjp<'_>) -> Tensor {
        assert!(it.inputs.is_empty(), "there is no rule");
        it.inputs[0].clone()
    }
}

/// A slot that the custom op below accesses by name only.
static SLOT: std::sync::OnceLock<Parameter> = std::sync::OnceLock::new();

ms::custom_op! {
    /// Adds the value of the slot to `x`. The slot is read, replaced, read by a compiled function, or written by one.
    fn beside_a_slot(x: &Tensor, how: &str) -> Tensor;

    fn types(x: &Type, _how: &str) -> Type {
        x.clone()
    }

    fn run(x: &[f32], how: &str, y: &mut [f32]) {
        let slot = SLOT.get().expect("the test sets it");
        let value = match how {
            "read" => slot.value(),
            "write" => {
                slot.set(&tensor![5.0]);
                tensor![5.0]
            }
            "compiled read" => ms::jit(|slot: &Parameter| slot.value() * 1.0)(slot),
            _ => counted(slot, &tensor![1.0]),
        };
        y[0] = x[0] + value.to_vec::<f32>()[0];
    }
}

#[jit]
fn counted(slot: &Parameter, by: &Tensor) -> Tensor {
    slot.set(&(slot.value() + by));
    slot.value()
}

#[jit]
fn counted_beside(slot: &Parameter, x: &Tensor, how: &str) -> Tensor {
    slot.set(&(slot.value() + 1.0));
    beside_a_slot(x, how)
}

/// A host function that accesses a slot which the running function writes would wait for itself.
#[test]
fn a_slot_that_is_being_written_is_refused() {
    let slot = SLOT.get_or_init(|| Parameter::new(tensor![1.0], "slot"));
    for how in ["read", "write", "compiled read", "compiled write"] {
        slot.set(&tensor![1.0]);
        assert!(catch(|| beside_a_slot(&tensor![2.0], how).to_vec::<f32>()).is_ok(), "{how}: nobody writes it");
        let before = slot.value().to_vec::<f32>();
        let error = catch(|| counted_beside(slot, &tensor![2.0], how).to_vec::<f32>()).expect_err(how);
        let said = error.to_string();
        assert_eq!(error.code(), Code::CustomOp, "{how}: {said}");
        for part in ["beside_a_slot", "the compiled function that calls this writes", "custom_ops.rs"] {
            assert!(said.contains(part), "{how}: {said}\nhas no {part}");
        }
        assert_eq!(slot.value().to_vec::<f32>(), before, "{how}");
    }
}

fn rows() -> Tensor {
    tensor![[3., 1., 2.], [4., 6., 5.]]
}

#[test]
fn values_eagerly_and_compiled() {
    let compiled = ms::jit(|x: &Tensor| sort_rows(&(x * 2.0), true));
    for (sorted, positions) in [sort_rows(&(rows() * 2.0), true), compiled(&rows())] {
        assert_eq!(sorted.to_vec::<f32>(), [6., 4., 2., 12., 10., 8.]);
        assert_eq!((positions.dtype(), positions.to_vec::<i64>()), (DType::I64, vec![0, 2, 1, 1, 2, 0]));
    }
    // Attributes are part of the graph, and views become row-major operands.
    let (sorted, _) = sort_rows(&rows().transpose(0, 1), false);
    assert_eq!(sorted.to_vec::<f32>(), [3., 4., 1., 6., 2., 5.]);
    let (empty, _) = sort_rows(&Tensor::zeros([0, 3]), false);
    assert_eq!(empty.shape(), [0, 3]);
    assert_eq!(reversed(&tensor![1, 2, 3], &[1, -1]).to_vec::<i64>(), [3, 2, 1]);
    assert_eq!(reversed(&tensor![1., 2.], &[1, -1]).to_vec::<f32>(), [2., 1.]);
    assert_eq!(cube(Parameter::new(tensor![2.], "p")).to_vec::<f32>(), [8.]);
}

ms::custom_op! {
    /// Returns numbers of a sequence that starts with a seed.
    fn sequence(seed: u32, count: usize) -> (Tensor, Tensor);

    fn types(_seed: u32, count: usize) -> Result<[Type; 2], String> {
        match count {
            0 => Err("an empty sequence".to_owned()),
            count => Ok([Type::of(DType::F32, &[count]), Type::of(DType::Bool, &[])]),
        }
    }

    fn run(seed: u32, _count: usize, numbers: &mut [f32], even: &mut [bool]) {
        numbers.iter_mut().enumerate().for_each(|(at, to)| *to = (seed as usize + at) as f32);
        even[0] = seed.is_multiple_of(2);
    }
}

#[jit]
fn added(x: &Tensor) -> Tensor {
    let (numbers, even) = sequence(4, 2);
    let mut sum = x * &numbers;
    for _ in 0..3 {
        sum = sum + &sequence(4, 2).0;
    }
    if even { sum } else { -sum }
}

/// An op without operands runs eagerly, compiled, and as a constant of derivatives and lanes.
#[test]
fn without_operands() {
    let (numbers, even) = sequence(3, 3);
    assert_eq!((numbers.to_vec::<f32>(), even.item::<bool>()), (vec![3., 4., 5.], false));
    let x = tensor![[1., 2.], [3., 4.]];
    let want = [16., 25., 24., 35.];
    for _ in 0..2 {
        assert_eq!(added(&x).to_vec::<f32>(), want);
    }
    assert_eq!(ms::vmap(added)(&x).to_vec::<f32>(), want);
    assert_eq!(ms::vmap(|x: &Tensor| x * sequence(4, 2).0)(&x).to_vec::<f32>(), [4., 10., 12., 20.]);
    assert_eq!(ms::grad(|x: &Tensor| added(x))(&x).to_vec::<f32>(), [4., 5., 4., 5.]);
    assert_eq!(ms::jvp(|x: &Tensor| added(x))(&x, &x).1.to_vec::<f32>(), [4., 10., 12., 20.]);
    let error = catch(|| sequence(1, 0)).expect_err("it is empty");
    assert!(error.to_string().contains("sequence`: an empty sequence"), "{error}");
}

/// Compares a function of one tensor at `[2, -1]`, eagerly and compiled.
macro_rules! both {
    ($name:literal, $f:expr, $want:expr) => {{
        let (x, f): (_, fn(&Tensor) -> Tensor) = (tensor![2., -1.], $f);
        let compiled = ms::jit(|x: &Tensor| {
            let f: fn(&Tensor) -> Tensor = $f;
            f(x)
        });
        assert_eq!(f(&x).to_vec::<f32>(), $want, "{}, eagerly", $name);
        assert_eq!(compiled(&x).to_vec::<f32>(), $want, "{}, compiled", $name);
    }};
}

/// Derivatives exist for every order in both modes. Their rules apply custom ops.
#[test]
fn derivatives_of_every_order() {
    both!("gradient", |x| ms::grad(|x: &Tensor| cube(x))(x), [12., 3.]);
    both!("second", |x| ms::grad(ms::grad(|x: &Tensor| cube(x)))(x), [12., -6.]);
    both!("third", |x| ms::grad(ms::grad(ms::grad(|x: &Tensor| cube(x))))(x), [6., 6.]);
    both!("tangent", |x| ms::jvp(|x: &Tensor| cube(x))(x, x).1, [24., -3.]);
    both!("tangent of a gradient", |x| ms::jvp(ms::grad(|x: &Tensor| cube(x)))(x, x).1, [24., 6.]);
    both!("vmap of a gradient", |x| ms::vmap(ms::grad(|x: &Tensor| cube(x)))(x), [12., 3.]);
    let weighted = |x: &Tensor| (sort_rows(x, false).0 * tensor![1., 10., 100.]).sum(());
    for got in [
        ms::grad(weighted)(&rows()),
        ms::jit(|x: &Tensor| ms::grad(|x: &Tensor| (sort_rows(x, false).0 * tensor![1., 10., 100.]).sum(()))(x))(
            &rows(),
        ),
    ] {
        assert_eq!(got.to_vec::<f32>(), [100., 1., 10., 1., 100., 10.]);
    }
}

/// Lanes use the batching rule, or run one by one without a rule.
#[test]
fn lanes() {
    let batch = ops::stack(&[rows(), rows() * -1.0], 0);
    let by_rule = |x: &Tensor| ms::vmap(|x: &Tensor| sort_rows(x, false).0)(x);
    let one_by_one = |x: &Tensor| ms::vmap(|x: &Tensor| cube(x))(x);
    for x in [by_rule(&batch), ms::jit(|x: &Tensor| ms::vmap(|x: &Tensor| sort_rows(x, false).0)(x))(&batch)] {
        assert_eq!(x.to_vec::<f32>(), [1., 2., 3., 4., 5., 6., -3., -2., -1., -6., -5., -4.]);
    }
    assert_eq!(one_by_one(&tensor![1., 2., 3.]).to_vec::<f32>(), [1., 8., 27.]);
}

/// Calls a custom op in branches and loops on tensors. An op that fails for some values runs only where its result is
/// used.
#[jit]
fn guarded(x: &Tensor, limit: f64) -> Tensor {
    let mut sum = x.clone();
    for _ in ms::range(0, 3) {
        if sum.sum(()) < 10.0 {
            sum = picky(&sum, &sum, limit, "error");
        }
    }
    sum
}

#[test]
fn control_flow() {
    assert_eq!(guarded(&tensor![2., 1.], 20.0).to_vec::<f32>(), [4., 1.].map(|it: f32| it * it));
}

#[jit(dims(x = [rows, _]))]
fn symbolic(x: &Tensor) -> Tensor {
    sort_rows(x, false).0.sum(0)
}

#[test]
fn symbolic_sizes() {
    assert_eq!(symbolic(&rows()).to_vec::<f32>(), [5., 7., 9.]);
    assert_eq!(symbolic(&tensor![[2., 1.]]).to_vec::<f32>(), [1., 2.]);
}

#[jit]
fn compiled_picky(a: &Tensor, b: &Tensor, how: &str) -> Tensor {
    picky(a, b, 10.0, how) + 1.0
}

#[test]
fn failures_are_errors_of_the_op() {
    let (a, b, c) = (tensor![2., 3.], tensor![4., 5.], tensor![1., 2., 3.]);
    let picky = |how: &'static str| {
        let (a, b) = (a.clone(), b.clone());
        move || drop(picky(&a, &b, 10.0, how).to_vec::<f32>())
    };
    let compiled = |how: &'static str| {
        let (a, b) = (a.clone(), b.clone());
        move || drop(compiled_picky(&a, &b, how).to_vec::<f32>())
    };
    let cases: Vec<Failure<'_>> = vec![
        (Code::CustomOp, &["ops.custom_ops.picky`: 15 is too much", "custom_ops.rs"], Box::new(picky("error"))),
        (Code::CustomOp, &["`run` panicked: 15 is above 10"], Box::new(picky("panic"))),
        (Code::Shape, &["picky`: `add`: shapes [2] and [3]"], Box::new(picky("raise"))),
        (Code::CustomOp, &["picky`: 15 is too much", "custom_ops.rs"], Box::new(compiled("error"))),
        (Code::CustomOp, &["`run` panicked: 15 is above 10"], Box::new(compiled("panic"))),
        (Code::Shape, &["f32[2] and f32[3] are of two shapes"], Box::new(|| drop(self::picky(&a, &c, 1.0, "error")))),
        (
            Code::DType,
            &["`x` is i64[1], but `run` reads f32", ".cast(DType::F32)"],
            Box::new(|| drop(cube(tensor![1]))),
        ),
        (Code::CustomOp, &["result 0 is i32[2], but `run` writes f32"], Box::new(|| drop(inconsistent(&a)))),
        (
            Code::CustomOp,
            &["of_wrong_gradient`: the derivative gives the gradient f32[] for operand 0, which is f32[2]"],
            Box::new(|| drop(ms::grad(of_wrong_gradient)(&a))),
        ),
        (
            Code::CustomOp,
            &["of_failing_gradient`: the derivative panicked: there is no rule", "custom_ops.rs"],
            Box::new(|| drop(ms::grad(of_failing_gradient)(&a))),
        ),
        (
            Code::CustomOp,
            &["of_failing_gradient`: the derivative panicked: there is no rule", "custom_ops.rs"],
            Box::new(|| drop(ms::jit(|x: &Tensor| ms::grad(of_failing_gradient)(x))(&a))),
        ),
        (
            Code::NoGradient,
            &["picky`", "has no `fn derivative`"],
            Box::new(|| drop(ms::grad(|x: &Tensor| self::picky(x, x, 100.0, "error"))(&a))),
        ),
    ];
    check_failures(&cases);
}
