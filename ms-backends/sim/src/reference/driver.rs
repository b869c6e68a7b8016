//! Implements the driver, and the ops that it runs: an op that is a program of kernels runs by the driver.

use super::conv::convolve;
use super::product::ReferenceContraction;
use ms_compile::exec::{
    ArrayLayout, Check, Driver, EpilogueCode, Executable, KernelView, LibraryCall, PlanExecutable, Prepared, StepCall,
    StepOperand, is_watched, watched,
};
use ms_compile::lower::{LowerOptions, lower};
use ms_compile::target::Target;
use ms_ir::data::{Array, Attrs, MemorySpace, Op, Type};
use ms_ir::error::{Code, Error, Result};
use ms_ir::op::{ConvGeometry, Lowering, SpatialForm, definition};
use ms_ir::{Contraction, Graph, MapVec, Node, Precision};
use ms_x64::KernelCode;
use ms_x64::interp::Interpreted;
use std::sync::{Arc, Mutex, PoisonError};

/// A driver that runs the steps of plans synchronously, in host memory.
#[derive(Clone, Copy)]
pub struct ReferenceDriver;

/// A library step: an op, and the layouts of its operands and results.
pub struct ReferenceStep {
    call: Arc<LibraryCall>,
    op: ReferenceOp,
}

impl ReferenceStep {
    /// Prepares a library step, which has no epilogues.
    ///
    /// # Errors
    /// [`Code::Backend`] for a step with epilogues.
    pub fn prepare<K>(call: &Arc<LibraryCall>, epilogues: &[EpilogueCode<'_, K>]) -> Result<Prepared<Self>> {
        refuse_epilogues(epilogues)?;
        let op = ReferenceOp::new(call.op, call.attrs.clone(), call.precision);
        Ok(Prepared { code: Self { call: call.clone(), op }, workspace: 0 })
    }

    /// Returns whether the op acts on the host.
    pub fn acts_on_host(&self) -> bool {
        self.op.acts_on_host()
    }
}

impl ReferenceContraction {
    /// Prepares a contraction, which has no epilogues.
    ///
    /// # Errors
    /// [`Code::Backend`] for a contraction with epilogues.
    pub fn prepare<K>(contraction: &Contraction, epilogues: &[EpilogueCode<'_, K>]) -> Result<Prepared<Self>> {
        refuse_epilogues(epilogues)?;
        Ok(Prepared { code: Self::new(contraction), workspace: 0 })
    }
}

/// Fails if a step has epilogues.
fn refuse_epilogues<K>(epilogues: &[EpilogueCode<'_, K>]) -> Result<()> {
    match epilogues {
        [] => Ok(()),
        _ => Err(Error::new(Code::Backend, "the device runs no epilogues")),
    }
}

// SAFETY: the interpreter and the products write all elements of their results. So do definitions of ops, which return
// them, and results are written after the operands were read.
unsafe impl Driver for ReferenceDriver {
    type Kernel = Arc<Interpreted>;
    type Contraction = ReferenceContraction;
    type LibraryStep = ReferenceStep;
    type Commands = ();
    const QUEUED: bool = false;

    fn space(&self) -> MemorySpace {
        MemorySpace::Host
    }

    fn view<'k>(&self, kernel: &'k Self::Kernel) -> Option<KernelView<'k>> {
        KernelCode::view(&**kernel)
    }

    unsafe fn launch(&self, (): &mut (), kernel: &Self::Kernel, block: &[u64]) -> Result<()> {
        // SAFETY: `Driver::launch` has the same conditions as `KernelCode::call`.
        unsafe { kernel.call(block) };
        Ok(())
    }

    fn prepare_contraction(
        &self,
        contraction: &Contraction,
        epilogues: &[EpilogueCode<'_, Self::Kernel>],
    ) -> Result<Prepared<ReferenceContraction>> {
        ReferenceContraction::prepare(contraction, epilogues)
    }

    fn prepare_library(
        &self,
        call: &Arc<LibraryCall>,
        epilogues: &[EpilogueCode<'_, Self::Kernel>],
    ) -> Result<Prepared<ReferenceStep>> {
        ReferenceStep::prepare(call, epilogues)
    }

    unsafe fn contract(&self, (): &mut (), code: &Arc<ReferenceContraction>, call: StepCall<'_>) -> Result<()> {
        let (&[a, b], &[out]) = (call.operands, call.results) else {
            unreachable!("a contraction without epilogues has two operands and one result")
        };
        // SAFETY: by the contract of `contract`, the contraction is sound, and operands and result are live memory.
        unsafe { code.run([a, b].map(|it| it.address as *const u8), out as *mut u8) }
    }

    unsafe fn library(&self, (): &mut (), code: &Arc<ReferenceStep>, call: StepCall<'_>) -> Result<()> {
        let step = &code.call;
        // SAFETY: the addresses are the host's, and the memory is live during the call. Operands were written, and
        // results are written before they are read.
        let borrowed = |(it, &at): (&ArrayLayout, &u64)| unsafe { it.borrowed(StepOperand::at(at)) };
        let addresses = call.operands.iter().map(|it| it.address).collect::<Vec<_>>();
        let operands: Vec<Array> = step.operands.iter().zip(&addresses).map(borrowed).collect();
        let results: Vec<Array> = step.results.iter().zip(call.results).map(borrowed).collect();
        let operands: Vec<&Array> = operands.iter().collect();
        // SAFETY: by the contract of `library`, the results have the op's types. Their memory is separate, or the first
        // operand's.
        step.explained(|| unsafe { code.op.run(&operands, &results) })
    }

    unsafe fn check(&self, (): &mut (), check: &Arc<Check>, record: u64, views: &[u64]) -> Result<()> {
        // SAFETY: by the contract of `check`, the record and the views are host memory that was written, and nobody
        // writes it during the call. The record may be unaligned.
        unsafe { check.result((record as *const i64).read_unaligned(), views) }
    }

    unsafe fn copy(&self, (): &mut (), from: u64, to: u64, bytes: usize) -> Result<()> {
        // SAFETY: by the contract of `copy`, both ranges are live and do not overlap.
        unsafe { (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes) };
        Ok(())
    }

    unsafe fn set_number(&self, (): &mut (), to: u64, number: u64) -> Result<()> {
        // SAFETY: by the contract of `set_number`, `to` is valid for a write of eight bytes. It may be unaligned.
        unsafe { (to as *mut u64).write_unaligned(number) };
        Ok(())
    }

    unsafe fn condition(&self, (): &mut (), at: u64) -> Result<bool> {
        // SAFETY: by the contract of `condition`, the byte at `at` was written, and nobody writes it during the call.
        Ok(unsafe { *(at as *const u8) } != 0)
    }

    unsafe fn numbers(&self, (): &mut (), at: &[u64], to: &mut [u64]) -> Result<()> {
        for (&at, to) in at.iter().zip(to) {
            // SAFETY: by the contract of `numbers`, each address has eight bytes that were written. It may be
            // unaligned.
            *to = unsafe { (at as *const u64).read_unaligned() };
        }
        Ok(())
    }

    fn submit(&self, (): &mut ()) -> Result<()> {
        Ok(())
    }
}

/// The target of the programs of single ops.
static TARGET: Target = Target::unbounded();

/// An op on operands of any types.
pub struct ReferenceOp {
    op: Op,
    attrs: Attrs,
    precision: Precision,
    /// The programs of the op, by the types of its operands.
    programs: Mutex<Vec<Program>>,
}

/// The types of operands, and the program.
type Program = (Vec<Type>, Arc<dyn Executable>);

/// The implementation of an op.
enum Implementation {
    /// The definition.
    Definition,
    /// A convolution of this geometry.
    Convolution(fn(&Attrs, &[&Type]) -> ConvGeometry),
    /// A program of kernels and contractions.
    Program,
}

/// Returns the implementation of an op. A definition may calculate in f64. In strict precision it is the implementation
/// only if it has the bits of `docs/numerics.md`.
fn implementation(op: Op, precision: Precision) -> Implementation {
    match &definition(op).lowering {
        Lowering::Spatial(rule) => match rule.form {
            SpatialForm::Convolution(geometry) => Implementation::Convolution(geometry),
            SpatialForm::Pooling(_) => Implementation::Definition,
        },
        Lowering::Map(_)
        | Lowering::Generate(_)
        | Lowering::Position(_)
        | Lowering::Reduce(_)
        | Lowering::Contraction(_)
            if !precision.is_relaxed() =>
        {
            Implementation::Program
        }
        _ => Implementation::Definition,
    }
}

impl ReferenceOp {
    /// Creates an op with its attributes.
    pub fn new(op: Op, attrs: Attrs, precision: Precision) -> Self {
        Self { op, attrs, precision, programs: Mutex::default() }
    }

    /// Returns whether the op acts on the host.
    pub fn acts_on_host(&self) -> bool {
        definition(self.op).effects.act_on_host()
    }

    /// Runs the op on operands in host memory, and writes its row-major results.
    ///
    /// # Safety
    /// The results have the types that the op's type rule infers. Nothing else accesses their memory, which may only be
    /// shared with the first operand.
    ///
    /// # Errors
    /// The errors of the op; [`Code::Memory`](ms_ir::Code::Memory) if memory runs out.
    pub unsafe fn run(&self, operands: &[&Array], results: &[Array]) -> Result<()> {
        let made = match implementation(self.op, self.precision) {
            Implementation::Definition => (definition(self.op).eval)(&self.attrs, operands)?,
            Implementation::Convolution(geometry) => {
                let types = operands.map_vec(|it| it.ty());
                let geometry = geometry(&self.attrs, &types.iter().collect::<Vec<_>>());
                [convolve(&geometry, [operands[0], operands[1]], results[0].shape())?].into_iter().collect()
            }
            Implementation::Program => {
                let program = self.program(operands, results)?;
                // The steps of the program are not steps of the device, so that profiles have none of them.
                let run = || program.run(operands);
                if is_watched() { watched(run).0 } else { run() }?
            }
        };
        for (from, to) in made.iter().zip(results) {
            assert_eq!(from.ty(), to.ty(), "the results of `{}` have the types of its rule", self.op.name());
            let from = from.on_host()?.to_contiguous().into_host()?;
            let bytes = from.bytes();
            // SAFETY: the result is row-major and has the type of `from`, by this function's contract.
            unsafe { to.device_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        Ok(())
    }

    /// Returns the program of the op on operands of these types.
    fn program(&self, operands: &[&Array], results: &[Array]) -> Result<Arc<dyn Executable>> {
        let types = operands.map_vec(|it| it.ty());
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, program)) = programs.iter().find(|it| it.0 == types) {
            return Ok(program.clone());
        }
        let mut graph = Graph::new(self.op.name());
        let inputs: Vec<_> = types.iter().map(|it| graph.add_input(it.clone())).collect();
        let node = graph.add_node(Node::new(self.op, self.attrs.clone(), inputs), results.iter().map(Array::ty));
        let outputs = graph.node(node).outputs.clone();
        graph.set_outputs(outputs);
        let options = LowerOptions { precision: self.precision, ..LowerOptions::default() };
        let plan = lower(&graph, &options, &TARGET)?;
        let kernels = plan.kernels.map_vec(|it| Arc::new(Interpreted::new(it.clone())));
        // SAFETY: the kernels are those of the plan, which is the result of lowering a valid graph: the op's type rule
        // accepts operands of these types and infers those of the results.
        let program: Arc<dyn Executable> = Arc::new(unsafe { PlanExecutable::new(&plan, &kernels, ReferenceDriver)? });
        programs.push((types, program.clone()));
        Ok(program)
    }
}
