//! Compares every primitive and composite with its reference evaluation, eagerly and compiled, on the backend of this
//! machine.
//!
//! The operands are the op's own samples, and variants in other dtypes, shapes and layouts.

use ms::internals::session::{Compiled, Precision};
use ms::internals::trace;
use ms::ops::{self, Arrays, OpDef, Sample};
use ms::tensor::{Array, Attrs, apply};
use ms::{Code, DType, Result, Tensor};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A layout of an operand: the stored tensor, and the view of it that is passed to the op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// Row-major.
    Dense,
    /// The axes are stored in the opposite order.
    Transposed,
    /// The view takes every other element of the last axis.
    Spaced,
    /// The elements are stored from the end.
    Reversed,
    /// The first slice is repeated.
    Repeated,
}

const VIEWS: [View; 5] = [View::Dense, View::Transposed, View::Spaced, View::Reversed, View::Repeated];

impl View {
    /// Returns the tensor to store, so that [`View::see`] returns `x`, or slices that all equal its first.
    fn store(self, x: &Tensor) -> Tensor {
        let first = x.shape().first().copied();
        match self {
            Self::Dense => x.clone(),
            Self::Transposed => copied(&ops::permute(x, axes(x.rank()))),
            Self::Spaced => {
                let between = ops::full_of(x.shape(), 77, x.dtype());
                let pairs = ops::stack(&[&between, x], -1);
                let lines = x.shape().split_last().map_or(vec![2], |(last, rest)| [rest, &[last * 2]].concat());
                copied(&ops::reshape(pairs, lines))
            }
            Self::Reversed => copied(&ops::flip(x, (0..x.rank()).collect::<Vec<_>>())),
            Self::Repeated if first.is_some_and(|it| it > 0) => copied(&x.i(0..1)),
            Self::Repeated => x.clone(),
        }
    }

    /// Returns the view of a stored tensor in a shape.
    fn see(self, stored: &Tensor, shape: &[usize]) -> Tensor {
        match self {
            Self::Dense => stored.clone(),
            Self::Transposed => ops::permute(stored, axes(shape.len())),
            Self::Spaced if shape.is_empty() => stored.at(1),
            Self::Spaced => {
                let last = stored.rank() - 1;
                let pairs = ops::reshape(stored, [shape, &[2]].concat());
                ops::permute(pairs, (0..last + 2).collect::<Vec<_>>()).i((ms::tensor::Ellipsis, 1))
            }
            Self::Reversed => ops::flip(stored, (0..shape.len()).collect::<Vec<_>>()),
            Self::Repeated => ops::broadcast_to(stored, shape),
        }
    }
}

/// Returns all axes, the last one first.
fn axes(rank: usize) -> Vec<usize> {
    (0..rank).rev().collect()
}

fn copied(x: &Tensor) -> Tensor {
    Tensor::placed(x.try_array().and_then(ms::tensor::Array::into_host).expect("an array").to_contiguous())
        .expect("there is memory")
}

/// Returns the tolerance relative to the reference, which rounds less often.
fn last_digits(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-9),
        DType::BF16 => 2f64.powi(-6),
        DType::F32 => 2f64.powi(-19),
        DType::F64 => 2f64.powi(-48),
        _ => 0.0,
    }
}

fn compare(what: &str, got: &[Tensor], want: &[Array]) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (got, want) in got.iter().zip(want) {
        assert_eq!(got.ty(), want.ty(), "{what}");
        let (digits, got) = (last_digits(want.dtype()), got.try_array().expect("an array"));
        for (got, want) in got
            .on_host()
            .expect("the elements are readable")
            .scalars()
            .into_iter()
            .zip(want.on_host().expect("the elements are readable").scalars())
        {
            let (got, want) = (got.as_f64(), want.as_f64());
            let same = got == want || (got.is_nan() && want.is_nan());
            assert!(same || (got - want).abs() <= digits * (1.0 + want.abs()), "{what}: {got}, not {want}");
        }
    }
}

/// Compares a result with the reference: both have the same values, or errors with the same code.
fn agree(what: &str, got: Result<Vec<Tensor>>, want: &Result<Arrays>) {
    match (got, want) {
        (Ok(got), Ok(want)) => compare(what, &got, want),
        (Err(got), Err(want)) => assert_eq!(got.code(), want.code(), "{what}: {got} is not {want}"),
        (Err(error), Ok(_)) => panic!("{what}: {error}"),
        // Graphs do not compute results without elements, so no index is out of range.
        (Ok(got), Err(error)) => assert!(got.iter().all(|it| it.numel() == 0), "{what} is not refused: {error}"),
    }
}

/// Compares an op on operands, each in a given layout, with its evaluation on dense copies.
fn check(what: &str, def: &'static OpDef, attrs: &Attrs, operands: &[Tensor], views: &[View]) {
    let shapes: Vec<Vec<usize>> = operands.iter().map(|it| it.shape().to_vec()).collect();
    let stored: Vec<Tensor> = operands.iter().zip(views).map(|(it, view)| view.store(it)).collect();
    let see = |stored: &[Tensor]| -> Vec<Tensor> {
        stored.iter().zip(views).zip(&shapes).map(|((it, view), shape)| view.see(it, shape)).collect()
    };
    let run = |seen: &[Tensor]| Ok(apply(def.op(), attrs, &seen.iter().collect::<Vec<_>>())?.into_vec());
    // A device reports errors when somebody waits.
    let told = |got: Result<Vec<Tensor>>| got.and_then(|it| ms::synchronize().map(|()| it));
    let seen = see(&stored);
    let dense: Vec<Array> = seen
        .iter()
        .map(|it| it.try_array().and_then(ms::tensor::Array::into_host).expect("an array").to_contiguous())
        .collect();
    let want = (def.eval)(attrs, &dense.iter().collect::<Vec<_>>());
    agree(&format!("{what}, eagerly"), told(run(&seen)), &want);
    let types: Vec<_> = stored.iter().map(Tensor::ty).collect();
    let graph = trace::build(def.name(), &types, |stored| run(&see(stored)));
    let compiled = graph.and_then(|it| Compiled::new(&it, Precision::Strict)?.run(&stored).map(|it| it.into_vec()));
    agree(&format!("{what}, compiled"), told(compiled), &want);
}

fn tensors(sample: &Sample) -> Vec<Tensor> {
    sample.arrays().into_iter().map(|it| Tensor::placed(it).expect("there is memory")).collect()
}

/// Runs [`check`] on a sample, or accepts an error with a known code. Returns whether the sample was checked.
fn check_or_refuse(what: &str, def: &'static OpDef, sample: &Sample) -> bool {
    let operands = tensors(sample);
    let types: Vec<_> = operands.iter().map(Tensor::ty).collect();
    let infer = || (def.infer)(&sample.attrs, &types.iter().collect::<Vec<_>>());
    let verdict = catch_unwind(AssertUnwindSafe(infer)).unwrap_or_else(|_| panic!("{what}: the type rule panics"));
    match verdict {
        Ok(_) => check(what, def, &sample.attrs, &operands, &vec![View::Dense; operands.len()]),
        Err(error) => {
            let known = [Code::DType, Code::Shape, Code::Argument, Code::OutOfRange, Code::Memory];
            assert!(known.contains(&error.code()), "{what}: {error}");
            return false;
        }
    }
    true
}

/// Returns the ops that can be tested alone. A float status is read where it was cleared, and
/// `effects/program_order.rs` has programs for it.
fn primitives() -> impl Iterator<Item = &'static OpDef> {
    ops::definitions().filter(|it| it.name() != "get_float_status")
}

/// Runs each sample of each primitive with a name for messages.
fn each_sample(mut run: impl FnMut(&str, &'static OpDef, &Sample)) {
    for def in primitives() {
        for (at, sample) in (def.samples)().iter().enumerate() {
            run(&format!("sample {at} of `{}`, {:?}", def.name(), sample), def, sample);
        }
    }
}

#[test]
fn samples_in_every_layout() {
    each_sample(|what, def, sample| {
        let operands = tensors(sample);
        for shift in 0..if operands.is_empty() { 1 } else { VIEWS.len() } {
            let views: Vec<View> = (0..operands.len()).map(|i| VIEWS[(i * 2 + shift) % VIEWS.len()]).collect();
            // Indices into another operand remain valid when they are repeated.
            check(&format!("{what} as {views:?}"), def, &sample.attrs, &operands, &views);
        }
    });
}

#[test]
fn samples_in_every_dtype() {
    use DType::*;
    for def in primitives() {
        let mut taken = BTreeSet::new();
        for (at, sample) in (def.samples)().iter().enumerate().take(3) {
            for dtype in [Bool, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32, F64] {
                let Some(first) = sample.inputs.first().map(|it| it.dtype) else { continue };
                let mut other = sample.clone();
                other.inputs.iter_mut().filter(|it| it.dtype == first).for_each(|it| it.dtype = dtype);
                let what = format!("sample {at} of `{}` in {dtype}: {other:?}", def.name());
                if check_or_refuse(&what, def, &other) {
                    taken.insert(dtype.name());
                }
            }
        }
        // An op that accepts one float dtype accepts all of them.
        let floats = ["f16", "bf16", "f32", "f64"].iter().filter(|it| taken.contains(**it)).count();
        assert!(floats == 0 || floats == 4, "`{}` takes {taken:?}", def.name());
    }
}

#[test]
fn samples_in_other_shapes() {
    let mut checked = 0;
    each_sample(|what, def, sample| {
        let sizes: BTreeSet<usize> = sample.inputs.iter().flat_map(|it| it.shape.clone()).collect();
        let mut others = vec![("no axes".to_string(), sample.clone())];
        others[0].1.inputs.iter_mut().for_each(|it| it.shape.clear());
        for size in sizes {
            for other in [0, 1, size + 1] {
                let mut changed = sample.clone();
                let shapes = changed.inputs.iter_mut().flat_map(|it| &mut it.shape);
                shapes.filter(|it| **it == size).for_each(|it| *it = other);
                others.push((format!("{other} for {size}"), changed));
            }
        }
        for (change, other) in others {
            checked += usize::from(check_or_refuse(&format!("{what} with {change}"), def, &other));
        }
    });
    assert!(checked > 500, "only {checked} are taken");
}

/// An op that is repeated on operands of the same layouts reuses the code of its first call. It has its own elements,
/// numbers, attributes and precision.
#[test]
fn repeated_ops() {
    let rows = Tensor::from_slice([4, 3], &(0..12).map(|it| it as f32).collect::<Vec<_>>());
    let columns = rows.transpose(0, 1);
    for row in 0..4 {
        let first = 3.0 * row as f32;
        let slice = ops::slice(&columns, &[0, row], &[3, 1]);
        assert_eq!(slice.shape(), [3, 1]);
        assert_eq!((&slice * 2.0).to_vec::<f32>(), [first, first + 1.0, first + 2.0].map(|it| 2.0 * it), "row {row}");
        assert_eq!(slice.sum(0).to_vec::<f32>(), [3.0 * first + 3.0], "row {row}");
    }
    for number in [0.0, -0.0, 1.5, f64::NAN] {
        let bits = |x: &Tensor| x.to_vec::<f32>().into_iter().map(f32::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(&Tensor::full([2], number)), [(number as f32).to_bits(); 2], "{number}");
        let sums = (&columns + &Tensor::full([3, 4], number)).to_vec::<f32>();
        assert_eq!(sums[4].to_bits(), (1.0 + number as f32).to_bits(), "{number}");
    }
    for dtype in [DType::F32, DType::I64, DType::F32, DType::BF16] {
        let sum = columns.cast(dtype).sum(());
        assert_eq!((sum.dtype(), sum.cast(DType::F64).item::<f64>()), (dtype, 66.0));
    }
    for axis in [0, 1, 0] {
        let wanted: &[f32] = if axis == 0 { &[3.0, 12.0, 21.0, 30.0] } else { &[18.0, 22.0, 26.0] };
        assert_eq!(columns.sum(axis).to_vec::<f32>(), wanted);
        let wanted: &[f32] = if axis == 0 { &[12.0, 15.0, 18.0, 21.0] } else { &[6.0, 22.0, 38.0] };
        assert_eq!(rows.reshape([3, 4]).sum(axis).to_vec::<f32>(), wanted);
    }
    let tenths = || Tensor::full([100, 100], 0.1).sum(1).to_vec::<f32>();
    let strict = move || ms::with_context(ms::Context { precision: Precision::Strict, ..ms::context() }, tenths);
    let alone = std::thread::spawn(strict).join().expect("it does not panic");
    for _ in 0..2 {
        tenths();
        assert_eq!(strict(), alone);
    }
}
