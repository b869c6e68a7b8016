//! A backend whose device is a second heap. It interprets kernels, and evaluates other ops by their definitions.

mod driver;
mod memory;

use driver::{CheckStep, ContractionStep, HeapDriver, KernelStep, OpStep};
use memory::{Heap, KIND};
use ms_compile::exec::{
    Artifact, Backend, BackendEntry, CompileOptions, Executable, MachineCode, PlanExecutable, PlanProgram, StepCode,
    unavailable,
};
use ms_compile::lower::eager::Step;
use ms_compile::target::Target;
use ms_ir::Graph;
use ms_ir::data::{Device, MemorySpace};
use ms_ir::error::Result;
use ms_x64::interp::Interpreted;
use std::sync::Arc;

/// The device has no native functions, no composites and no epilogues, and kernels of any size.
static TARGET: Target = Target::unbounded();

/// The backend of the device `heap`.
pub struct HeapBackend;

// SAFETY: the steps of the driver write all elements of their results, and access no other memory.
unsafe impl Backend for HeapBackend {
    fn name(&self) -> &'static str {
        KIND.name()
    }

    fn memory(&self) -> MemorySpace {
        MemorySpace::Device(&Heap)
    }

    fn fingerprint(&self) -> String {
        "heap".to_owned()
    }

    fn sources(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    fn target(&self) -> &Target {
        &TARGET
    }

    fn compile(&self, graph: &Graph, options: &CompileOptions<'_>) -> Result<Artifact> {
        let (plan, _) = options.lower(graph, &TARGET)?;
        Ok(PlanProgram { plan, table: Vec::new() }.artifact(MachineCode::Bytes(Vec::new())))
    }

    unsafe fn load(&self, artifact: &Artifact) -> Result<Arc<dyn Executable>> {
        let program = PlanProgram::of(artifact)?;
        let kernels = program.plan.kernels.iter().map(|it| Arc::new(Interpreted::new(it.clone())));
        let kernels: Vec<Arc<Interpreted>> = kernels.collect();
        // SAFETY: the plan is the result of lowering a valid graph, by this method's contract, and each kernel is that of
        // the plan.
        Ok(Arc::new(unsafe { PlanExecutable::new(&program.plan, &kernels, HeapDriver)? }))
    }

    fn describe(&self, graph: &Graph, options: &CompileOptions<'_>) -> Result<String> {
        options.describe(graph, &TARGET)
    }

    fn compile_step(&self, step: &Step) -> Result<Arc<dyn StepCode>> {
        Ok(match step {
            Step::Kernel(kernel) => Arc::new(KernelStep(Interpreted::new(kernel.clone()))),
            &Step::Contraction { precision, types, ranks } => Arc::new(ContractionStep { precision, types, ranks }),
            Step::Library { op, attrs, .. } => Arc::new(OpStep { op: *op, attrs: attrs.clone() }),
            Step::Check { kernel, op, attrs } => {
                let record = kernel.param_word(kernel.params.len() - 1);
                let kernel = Interpreted::new(kernel.clone());
                Arc::new(CheckStep { kernel, record, op: *op, attrs: attrs.clone() })
            }
        })
    }
}

inventory::submit! {
    BackendEntry {
        kind: KIND,
        probe: |id| match id {
            0 => Ok(Arc::new(HeapBackend)),
            _ => Err(unavailable(Device::new(KIND, id), "there is one heap, `heap:0`")),
        },
    }
}
