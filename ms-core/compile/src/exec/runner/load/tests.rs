//! Tests that steps are prepared when a plan is loaded.

use crate::exec::{Check, Driver, EpilogueCode, Executable, LibraryCall, PlanExecutable, Prepared, StepCall};
use crate::lower::{
    Buffer, BufferId, BufferLocation, ContractionResult, ContractionStep, Plan, PlanOp, PlanStep, Reuse, Routine, Span,
    View,
};
use ms_ir::data::{Array, Attrs, DType, Layout, MemorySpace, Type};
use ms_ir::error::Result;
use ms_ir::{Contraction, ContractionTypes, Precision};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A driver on the host that counts what it prepares. A step fills its results with the number under which it was
/// prepared, and its workspace with ones.
#[derive(Default)]
struct Counting {
    prepared: Arc<AtomicUsize>,
}

/// A step: its number, and the sizes of its results and of its workspace in bytes.
struct Code {
    number: usize,
    results: Vec<usize>,
    workspace: usize,
}

impl Counting {
    fn prepare(&self, results: Vec<usize>) -> Result<Prepared<Code>> {
        let number = self.prepared.fetch_add(1, Ordering::Relaxed) + 1;
        // The second step has no workspace, the third one needs more than the first.
        let workspace = number % 2 * 100 * number;
        Ok(Prepared { code: Code { number, results, workspace }, workspace })
    }

    /// # Safety
    /// The memory of the call is live and not accessed otherwise.
    unsafe fn run(&self, code: &Code, call: StepCall<'_>) -> Result<()> {
        assert_eq!(call.workspace == 0, code.workspace == 0);
        assert_eq!(call.workspace % 64, 0);
        // SAFETY: the workspace and the results have the sizes for which the step was prepared, by this function's
        // contract.
        unsafe {
            (call.workspace as *mut u8).write_bytes(1, code.workspace);
            for (&to, &bytes) in call.results.iter().zip(&code.results) {
                (to as *mut u8).write_bytes(code.number as u8, bytes);
            }
        }
        Ok(())
    }
}

// SAFETY: a step writes the bytes of its results and of its workspace only, which are valid for every integer.
unsafe impl Driver for Counting {
    type Kernel = ();
    type Contraction = Code;
    type LibraryStep = Code;
    type Commands = ();
    const QUEUED: bool = false;

    fn space(&self) -> MemorySpace {
        MemorySpace::Host
    }

    unsafe fn launch(&self, (): &mut (), (): &(), _: &[u64]) -> Result<()> {
        unreachable!("the plan has no kernels")
    }

    fn prepare_contraction(&self, it: &Contraction, _: &[EpilogueCode<'_, ()>]) -> Result<Prepared<Code>> {
        let elements: usize = it.axes_of(2).map(|it| it.size).product();
        self.prepare(vec![elements * it.types.out.size()])
    }

    fn prepare_library(&self, call: &Arc<LibraryCall>, _: &[EpilogueCode<'_, ()>]) -> Result<Prepared<Code>> {
        self.prepare(call.results.iter().map(|it| it.layout.numel() * it.dtype.size()).collect())
    }

    unsafe fn contract(&self, (): &mut (), code: &Arc<Code>, call: StepCall<'_>) -> Result<()> {
        // SAFETY: `run` has the conditions of `contract`.
        unsafe { self.run(code, call) }
    }

    unsafe fn library(&self, (): &mut (), code: &Arc<Code>, call: StepCall<'_>) -> Result<()> {
        // SAFETY: `run` has the conditions of `library`.
        unsafe { self.run(code, call) }
    }

    unsafe fn check(&self, (): &mut (), _: &Arc<Check>, _: u64, _: &[u64]) -> Result<()> {
        unreachable!("the plan has no checks")
    }

    unsafe fn copy(&self, (): &mut (), _: u64, _: u64, _: usize) -> Result<()> {
        unreachable!("the plan has no copies")
    }

    unsafe fn set_number(&self, (): &mut (), _: u64, _: u64) -> Result<()> {
        unreachable!("the plan has no stacks")
    }

    unsafe fn condition(&self, (): &mut (), _: u64) -> Result<bool> {
        unreachable!("the plan has no branches")
    }

    unsafe fn numbers(&self, (): &mut (), _: &[u64], _: &mut [u64]) -> Result<()> {
        unreachable!("the plan has no stacks")
    }

    fn submit(&self, (): &mut ()) -> Result<()> {
        Ok(())
    }
}

/// Returns a plan of the product of two matrices, stored in the arena, a library step that reads it, and another
/// product, whose result is stored behind the first one. The library step returns the output of the plan.
fn plan() -> Plan {
    let types = ContractionTypes::of(DType::I32);
    let [x, out] = [[4, 4], [4, 4]].map(|it| Layout::contiguous(&it));
    let product = Contraction::of_matrices(types, Precision::Strict, &x, &x, &out).expect("the shapes fit");
    let span = |buffer| Span { buffer: BufferId(buffer), offset: 0 };
    let contraction = |result| {
        let result = ContractionResult::Stored(span(result));
        PlanStep::Contraction(Box::new(ContractionStep {
            contraction: product.clone(),
            a: span(0),
            b: span(0),
            result,
        }))
    };
    let view = |buffer| View { buffer: BufferId(buffer), dtype: DType::I32, layout: x.clone() };
    let library = PlanStep::Library {
        op: PlanOp(ms_ops::ops::CUMSUM.op()),
        attrs: Attrs::none(),
        precision: Precision::Strict,
        inputs: vec![view(1)],
        outputs: vec![view(3)],
        node: None,
        epilogues: Vec::new(),
    };
    let places =
        [BufferLocation::Input(0), BufferLocation::Arena(0), BufferLocation::Arena(64), BufferLocation::Output(0)];
    let ty = Type::of(DType::I32, &[4, 4]);
    let routine = Routine {
        name: "main".into(),
        inputs: vec![ty.clone()],
        outputs: vec![ty],
        buffers: places.into_iter().map(|place| Buffer { bytes: 64, place }).collect(),
        arena_bytes: 128,
        steps: vec![contraction(1), library, contraction(2)],
        reuse: Reuse { free_from: vec![3], touched_at: vec![1], ..Reuse::default() },
    };
    Plan { routines: vec![routine], ..Plan::default() }
}

#[test]
fn steps_are_prepared_once() {
    let prepared = Arc::new(AtomicUsize::new(0));
    let driver = Counting { prepared: prepared.clone() };
    // SAFETY: the plan has no kernels, its buffers are disjoint, and every buffer is written before it is read.
    let executable = unsafe { PlanExecutable::new(&plan(), &[], driver) }.expect("the plan is well formed");
    assert_eq!(prepared.load(Ordering::Relaxed), 3);
    // The largest workspace follows the arena of the plan.
    assert_eq!(executable.arena_bytes(), 128 + 300);
    let x = Array::from_slice(&[4, 4], &[0i32; 16]);
    for _ in 0..3 {
        let out = executable.run(&[&x]).expect("the steps succeed");
        assert_eq!(out[0].on_host().expect("it is on the host").bytes(), [2; 64]);
    }
    assert_eq!(prepared.load(Ordering::Relaxed), 3, "runs prepare nothing");
}
