//! Tests which code ops share, counted by a backend that computes nothing.

use super::{Operands, run};
use crate::session::context::{Context, with_context};
use ms_compile::exec::{Artifact, Backend, CompileOptions, Executable, StepCode};
use ms_compile::lower::eager::{EagerOp, OperandClass, Step};
use ms_compile::target::{Native, Target};
use ms_ir::error::{Code, Error, Result};
use ms_ir::{Graph, Inst, Kernel, Math, Precision, Role};
use ms_ops::ops::{
    self, ADD, CONCAT, CONV, CUMSUM, EXP, GATHER, Lowering, MATMUL, OpDef, SELECT, SUM, Sample, definitions,
};
use ms_ops::tensor::{Array, Attr, AttrKind, Attrs, DType, Layout, OpCall, Scalar, Tensor, Type, Value};
use std::panic::Location;
use std::sync::{Arc, Mutex};

/// The argument blocks of calls, in order.
type Blocks = Arc<Mutex<Vec<Vec<u64>>>>;

/// A backend that records steps and argument blocks of calls. Results are zero.
struct Recording {
    target: Target,
    /// Whether it runs an op as a whole.
    runs: fn(&EagerOp) -> bool,
    ops: Mutex<Vec<EagerOp>>,
    steps: Mutex<Vec<Step>>,
    blocks: Blocks,
}

/// A step, or an op that runs as a whole, that fills row-major results with zeros.
struct Zeros {
    step: Option<Step>,
    blocks: Blocks,
}

/// Fills the result of a kernel's call with zeros.
///
/// # Safety
/// `block` is valid for a call of `kernel`, as [`StepCode::run`] requires.
unsafe fn clear(kernel: &Kernel, block: &[u64]) {
    let out = kernel.params.len() - 1;
    let (address, loops) = (kernel.param_word(out), kernel.loops());
    // The result does not advance along the reduced loops.
    let advances = block[..loops].iter().zip(&block[address + 1..]).filter(|it| *it.1 != 0);
    let numel: u64 = advances.map(|it| it.0).product();
    // SAFETY: the row-major result with `numel` elements starts at this address and is not shared, since `block` is
    // valid.
    unsafe { (block[address] as *mut u8).write_bytes(0, numel as usize * kernel.params[out].dtype.size()) }
}

// SAFETY: results are row-major, and `run` writes all their elements.
unsafe impl StepCode for Zeros {
    unsafe fn run(&self, block: &[u64], _: &[&Array], results: &[Array]) -> Result<()> {
        assert!(self.step.as_ref().is_none_or(|it| block.len() == it.call_words()));
        if let Some(Step::Kernel(kernel)) = &self.step {
            // SAFETY: `block` is valid for a call of this kernel, by the contract of `run`.
            unsafe { clear(kernel, block) };
        }
        for result in results {
            // SAFETY: the row-major array has `numel` elements of this size, which nothing else accesses by the
            // contract of `run`.
            unsafe { result.device_ptr().write_bytes(0, result.numel() * result.dtype().size()) };
        }
        self.blocks.lock().expect("no test panics here").push(block.to_vec());
        Ok(())
    }
}

fn unsupported<T>() -> Result<T> {
    Err(Error::new(Code::Backend, "the backend runs single ops only"))
}

// SAFETY: the backend loads no executables, and its steps write all elements of their results.
unsafe impl Backend for Recording {
    fn name(&self) -> &'static str {
        "recording"
    }

    fn fingerprint(&self) -> String {
        String::new()
    }

    fn sources(&self) -> &'static str {
        ""
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn compile(&self, _: &Graph, _: &CompileOptions<'_>) -> Result<Artifact> {
        unsupported()
    }

    unsafe fn load(&self, _: &Artifact) -> Result<Arc<dyn Executable>> {
        unsupported()
    }

    fn describe(&self, _: &Graph, _: &CompileOptions<'_>) -> Result<String> {
        unsupported()
    }

    fn compile_step(&self, step: &Step) -> Result<Arc<dyn StepCode>> {
        if let Step::Kernel(kernel) | Step::Check { kernel, .. } = step {
            kernel.check()?;
        }
        self.steps.lock().expect("no test panics here").push(step.clone());
        Ok(Arc::new(Zeros { step: Some(step.clone()), blocks: self.blocks.clone() }))
    }

    fn compile_op(&self, op: &EagerOp) -> Result<Option<Arc<dyn StepCode>>> {
        if !(self.runs)(op) {
            return Ok(None);
        }
        self.ops.lock().expect("no test panics here").push(op.clone());
        Ok(Some(Arc::new(Zeros { step: None, blocks: self.blocks.clone() })))
    }
}

impl Recording {
    fn new() -> Self {
        Self {
            target: Target::unbounded(),
            runs: |_| false,
            ops: Mutex::default(),
            steps: Mutex::default(),
            blocks: Blocks::default(),
        }
    }

    /// Applies an op.
    fn apply(&self, def: &'static OpDef, attrs: &Attrs, inputs: &[&Tensor]) -> Tensor {
        self.try_apply(def, attrs, inputs).expect("the backend runs it")
    }

    fn try_apply(&self, def: &'static OpDef, attrs: &Attrs, inputs: &[&Tensor]) -> Result<Tensor> {
        let call = OpCall { op: def.op(), attrs, inputs, location: Location::caller() };
        let mut operands = Operands::default();
        operands.extend(inputs).expect("nothing is traced");
        Ok(run(Some(self), self.memory(), def, &call, &operands)?.remove(0))
    }

    /// Returns the number of compiled steps, and the last word of the last call.
    fn state(&self) -> (usize, u64) {
        let blocks = self.blocks.lock().expect("no test panics here");
        (self.compiled(), *blocks.last().and_then(|it| it.last()).expect("a kernel was called"))
    }

    /// Returns the number of compiled steps.
    fn compiled(&self) -> usize {
        self.steps.lock().expect("no test panics here").len()
    }

    /// Returns the number of calls.
    fn calls(&self) -> usize {
        self.blocks.lock().expect("no test panics here").len()
    }
}

fn number(value: f64) -> Tensor {
    Tensor::from_number(Scalar::Float(value), DType::F32)
}

fn has_array(number: &Tensor) -> bool {
    match number.as_value() {
        Ok(Value::Number(number)) => !format!("{number:?}").contains("uninit"),
        _ => panic!("a number is not an array"),
    }
}

/// All host scalars of a dtype share one kernel, for dense operands and for others, and none of them becomes an array.
#[test]
fn numbers_share_a_kernel() {
    let x = Tensor::from_slice([2, 3], &[1.0f32; 6]);
    let strided =
        Tensor::from_array(Array::zeros(&[3, 2], DType::F32).with_layout(Layout::contiguous(&[3, 2]).permute(&[1, 0])));
    for x in [&x, &strided] {
        let backend = Recording::new();
        for value in [0.5f32, -0.0, f32::INFINITY] {
            let number = number(value.into());
            let sum = backend.apply(&ADD, &Attrs::none(), &[x, &number]);
            assert_eq!((sum.shape(), sum.dtype()), (&[2, 3][..], DType::F32));
            assert_eq!(backend.state(), (1, value.to_bits().into()));
            assert!(!has_array(&number));
        }
        // A scalar in another operand position needs another kernel.
        backend.apply(&ADD, &Attrs::none(), &[&number(2.0), x]);
        assert_eq!(backend.state(), (2, 2.0f32.to_bits().into()));
        let steps = backend.steps.lock().expect("no test panics here");
        let Step::Kernel(kernel) = &steps[1] else { panic!("{:?} is a kernel", steps[1]) };
        let roles: Vec<Role> = kernel.params.iter().map(|it| it.role).collect();
        assert_eq!(roles, [Role::Immediate, Role::Input, Role::Output]);
    }
}

/// An op may have only host scalars as operands. Its result then has no dimensions.
#[test]
fn numbers_alone() {
    let backend = Recording::new();
    let condition = Tensor::from_number(Scalar::Bool(true), DType::Bool);
    for (then, other) in [(1.0, 2.0), (3.0, 4.0)] {
        let out = backend.apply(&SELECT, &Attrs::none(), &[&condition, &number(then), &number(other)]);
        assert_eq!((out.shape(), out.dtype()), (&[][..], DType::F32));
        assert_eq!(backend.state(), (1, (other as f32).to_bits().into()));
    }
}

/// Returns `[n, m]` zeros, row-major.
fn dense(n: usize, m: usize) -> Tensor {
    Tensor::from_array(Array::zeros(&[n, m], DType::F32))
}

/// Returns `[n, m]` zeros, column-major.
fn strided(n: usize, m: usize) -> Tensor {
    let columns = Array::zeros(&[m, n], DType::F32);
    Tensor::from_array(columns.with_layout(columns.layout().permute(&[1, 0])))
}

fn zeros(shape: &[usize], dtype: DType) -> Tensor {
    Tensor::from_array(Array::zeros(shape, dtype))
}

/// A class of operands: the op, its attributes, and the operands for two sizes.
type Class = (&'static OpDef, Attrs, fn(usize, usize) -> Vec<Tensor>);

/// An op is compiled once for all shapes of a class.
#[test]
fn a_thousand_shapes_of_a_class_are_one_compilation() {
    let reduced = |axes: &[usize]| Attrs::new([Attr::from(axes), false.into()]);
    let all = |it: usize| Attr::from(&[it, it][..]);
    let axis = |it: usize| Attrs::new([it.into()]);
    let convolution = Attrs::new([all(1), all(1), all(0), all(0), 1usize.into()]);
    let classes: Vec<Class> = vec![
        (&ADD, Attrs::none(), |n, m| vec![dense(n, m), dense(n, m)]),
        (&ADD, Attrs::none(), |n, m| vec![dense(n, m), number((n * m) as f64)]),
        (&ADD, Attrs::none(), |n, m| vec![dense(n, m), zeros(&[m], DType::F32)]),
        (&ADD, Attrs::none(), |n, m| vec![strided(n, m), dense(n, m)]),
        (&ADD, Attrs::none(), |n, m| vec![strided(n, m), number(0.5)]),
        (&SUM, reduced(&[1]), |n, m| vec![dense(n, m)]),
        (&SUM, reduced(&[0]), |n, m| vec![dense(n, m)]),
        (&SUM, reduced(&[0, 1]), |n, m| vec![dense(n, m)]),
        (&MATMUL, Attrs::none(), |n, m| vec![dense(n, m), strided(m, n)]),
        (&MATMUL, Attrs::none(), |n, m| vec![zeros(&[n, 2, m], DType::F32), zeros(&[n, m, 3], DType::F32)]),
        (&GATHER, axis(0), |n, m| vec![dense(n, m), zeros(&[m], DType::I64)]),
        (&GATHER, axis(1), |n, m| vec![strided(n, m), zeros(&[n], DType::I64)]),
        (&CONCAT, axis(0), |n, m| vec![dense(n, m), dense(m, m)]),
        (&CONV, convolution, |n, m| vec![zeros(&[2, 3, n, m], DType::F32), zeros(&[4, 3, 3, 3], DType::F32)]),
    ];
    for (at, (def, attrs, operands)) in classes.into_iter().enumerate() {
        // Tables of code belong to a thread.
        let counted = std::thread::spawn(move || {
            let backend = Recording::new();
            for shape in 0..1000 {
                let operands = operands(10 + shape % 40, 10 + shape / 40);
                backend.apply(def, &attrs, &operands.iter().collect::<Vec<_>>());
            }
            (backend.compiled(), backend.calls())
        });
        let (compiled, calls) = counted.join().expect("the backend runs it");
        let wanted = 1 + usize::from(def.checked_operand().is_some());
        assert_eq!(compiled, wanted, "class {at}: `{}` and its check", def.name());
        assert!(calls >= 1000, "class {at}: `{}` was called {calls} times", def.name());
    }
}

/// Calls a function in a precision, on a separate thread: tables of code belong to a thread.
fn in_precision<R: Send>(precision: Precision, f: impl FnOnce() -> R + Send) -> R {
    let run = || with_context(Context { precision, ..Context::default() }, f);
    std::thread::scope(|scope| scope.spawn(run).join().expect("the test passes"))
}

/// An op that the device runs as a whole is compiled once for all shapes of a class, and in each precision. It takes
/// arrays, and the bits of host scalars.
#[test]
fn ops_that_run_as_a_whole() {
    use OperandClass::{Dense, Number, Strided};
    const F32: DType = DType::F32;
    let axis = |it: usize| Attrs::new([it.into()]);
    let rows = Attrs::new([Attr::from(&[1usize][..]), false.into()]);
    let cases: Vec<(Class, Vec<OperandClass>)> = vec![
        ((&ADD, Attrs::none(), |n, m| vec![dense(n, m), dense(n, m)]), vec![Dense(F32); 2]),
        ((&ADD, Attrs::none(), |n, m| vec![dense(n, m), zeros(&[], F32)]), vec![Dense(F32); 2]),
        ((&ADD, Attrs::none(), |n, m| vec![number(0.5), dense(n, m)]), vec![Number(F32), Dense(F32)]),
        ((&ADD, Attrs::none(), |n, m| vec![strided(n, m), number(0.5)]), vec![Strided(F32), Number(F32)]),
        ((&SUM, rows, |n, m| vec![dense(n, m)]), vec![Dense(F32)]),
        ((&MATMUL, Attrs::none(), |n, m| vec![dense(n, m), strided(m, n)]), vec![Dense(F32), Strided(F32)]),
        ((&GATHER, axis(0), |n, m| vec![dense(n, m), zeros(&[m], DType::I64)]), vec![Dense(F32), Dense(DType::I64)]),
        (
            (&GATHER, axis(1), |n, m| vec![strided(n, m), zeros(&[n], DType::I64)]),
            vec![Strided(F32), Dense(DType::I64)],
        ),
        ((&CONCAT, axis(0), |n, m| vec![dense(n, m), dense(m, m)]), vec![Dense(F32); 2]),
    ];
    for ((def, attrs, operands), classes) in cases {
        for precision in [Precision::Strict, Precision::Highest] {
            in_precision(precision, || {
                let whole = Recording { runs: |_| true, ..Recording::new() };
                let numbers: Vec<u64> = match classes.contains(&Number(F32)) {
                    true => vec![0.5f32.to_bits().into()],
                    false => Vec::new(),
                };
                for (n, m) in [(3, 4), (5, 4), (6, 7)] {
                    let operands = operands(n, m);
                    let inputs: Vec<&Tensor> = operands.iter().collect();
                    let types: Vec<Type> = operands.iter().map(Tensor::ty).collect();
                    let want = ops::infer(def, &attrs, &[], &types.iter().collect::<Vec<_>>()).expect("the op fits");
                    assert_eq!(whole.apply(def, &attrs, &inputs).ty(), want[0], "`{}`", def.name());
                    assert_eq!(whole.blocks.lock().expect("no test panics here").last(), Some(&numbers));
                }
                let operands = classes.clone();
                let op = EagerOp { op: def.op(), attrs: attrs.clone(), operands, precision };
                assert_eq!(*whole.ops.lock().expect("no test panics here"), [op], "`{}`", def.name());
                assert_eq!((whole.compiled(), whole.calls()), (0, 3), "`{}`", def.name());
            });
        }
    }
}

/// A device may run an op as a whole in one precision only.
#[test]
fn ops_run_as_a_whole_by_precision() {
    let runs = |it: &EagerOp| it.precision.is_relaxed();
    let x = dense(2, 3);
    in_precision(Precision::Highest, || {
        let backend = Recording { runs, ..Recording::new() };
        let apply = || backend.apply(&ADD, &Attrs::none(), &[&x, &x]);
        let strict = || with_context(Context { precision: Precision::Strict, ..Context::default() }, apply);
        for _ in 0..2 {
            apply();
            strict();
        }
        assert_eq!((backend.ops.lock().expect("no test panics here").len(), backend.compiled()), (1, 1));
    });
}

/// Kernels of eager ops use native functions of the device unless the precision is strict.
#[test]
fn native_functions_by_precision() {
    let functions = vec![Native { math: Math::Exp, dtype: DType::F32, cost: 4 }];
    for (precision, want) in [(Precision::Strict, false), (Precision::Highest, true)] {
        in_precision(precision, || {
            let target = Target { functions: functions.clone(), ..Target::unbounded() };
            let backend = Recording { target, ..Recording::new() };
            for x in [dense(2, 3), strided(2, 3)] {
                backend.apply(&EXP, &Attrs::none(), &[&x]);
            }
            for step in &*backend.steps.lock().expect("no test panics here") {
                let Step::Kernel(kernel) = step else { panic!("{step:?} is a kernel") };
                assert_eq!(kernel.insts.iter().any(|it| matches!(it, Inst::Math(..))), want, "{precision}");
            }
        });
    }
}

/// An op that the target does not run is refused, with its operands.
#[test]
fn ops_that_the_target_does_not_run_are_refused() {
    let target = Target { library: Some(&[]), products: Some(&[DType::F32]), ..Target::unbounded() };
    let backend = Recording { target, ..Recording::new() };
    let x = dense(4, 4);
    let wide = zeros(&[4, 4], DType::F64);
    let sums = Attrs::new([0usize.into(), false.into(), false.into()]);
    for (def, attrs, inputs) in [(&CUMSUM, &sums, &[&x][..]), (&MATMUL, &Attrs::none(), &[&wide, &wide])] {
        let error = backend.try_apply(def, attrs, inputs).expect_err("the target does not run it");
        assert_eq!(error.code(), Code::Backend);
        assert!(error.to_string().contains(&format!("does not run `{}`", def.name())), "{error}");
    }
    backend.apply(&MATMUL, &Attrs::none(), &[&x, &x]);
    backend.apply(&ADD, &Attrs::none(), &[&wide, &wide]);
}

/// Ops with several classes of sizes: reductions of long rows have another order of terms, and other loops, than those
/// of short rows. The number of values of `linspace` does not count as a size here: the distance between values, a
/// constant of its code, depends on it.
const OF_SEVERAL_CLASSES: [&str; 6] = ["all", "any", "max", "min", "prod", "sum"];

/// Returns a sample with larger sizes of the same class: equal sizes stay equal, and sizes of one element stay one.
fn larger(def: &OpDef, sample: &Sample, by: usize) -> Sample {
    let size = |it: usize| if it > 1 { it * by } else { it };
    let mut larger = sample.clone();
    larger.inputs.iter_mut().flat_map(|it| &mut it.shape).for_each(|it| *it = size(*it));
    let attrs = def.info.attrs.iter().zip(sample.attrs.as_slice()).map(|(info, attr)| match (info.kind, attr) {
        (AttrKind::Size, Attr::Int(it)) => Attr::Int(size(*it as usize) as i64),
        (AttrKind::Sizes, Attr::Ints(all)) => Attr::Ints(all.iter().map(|it| size(*it as usize) as i64).collect()),
        _ => attr.clone(),
    });
    larger.attrs(Attrs::new(attrs))
}

/// Returns the number of steps that a sample compiles, the number that larger ones compile after it, and how many of
/// those are valid.
fn compiled_for_sizes(def: &'static OpDef, sample: &Sample) -> [usize; 3] {
    let backend = Recording::new();
    let apply = |sample: &Sample| {
        let arrays = sample.arrays();
        let types: Vec<Type> = arrays.iter().map(Array::ty).collect();
        if ops::infer(def, &sample.attrs, &[], &types.iter().collect::<Vec<_>>()).is_err() {
            return false;
        }
        let inputs: Vec<Tensor> = arrays.into_iter().map(Tensor::from_array).collect();
        backend.apply(def, &sample.attrs, &inputs.iter().collect::<Vec<_>>());
        true
    };
    assert!(apply(sample), "a sample of `{}` is valid", def.name());
    let first = backend.compiled();
    let valid = [2, 3, 5].into_iter().filter(|&by| apply(&larger(def, sample, by))).count();
    [first, backend.compiled() - first, valid]
}

/// Code of every op serves all sizes of a class.
#[test]
fn no_op_is_compiled_for_a_size() {
    let is_step = |def: &&OpDef| !matches!(def.lowering, Lowering::Regions(_) | Lowering::Composite(_));
    let (mut of_several, mut checked) = (Vec::new(), 0);
    for def in definitions().filter(is_step) {
        for sample in (def.samples)() {
            // Tables of code belong to a thread.
            let counted = std::thread::spawn(move || compiled_for_sizes(def, &sample));
            let [first, further, valid] = counted.join().expect("the backend runs it");
            checked += usize::from(first > 0 && valid > 0);
            assert!(further <= 1, "`{}` is compiled {further} times more for {valid} sizes", def.name());
            if further > 0 && !of_several.contains(&def.name()) {
                of_several.push(def.name());
            }
        }
    }
    of_several.sort_unstable();
    assert_eq!(of_several, OF_SEVERAL_CLASSES);
    assert!(checked > 100, "{checked} samples have other sizes");
}
