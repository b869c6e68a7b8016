//! Compiles single kernels to code in memory.

use crate::code::{CodeMemory, Compiled};
use crate::codegen::{self, Tuning};
use crate::interp::Interpreted;
use crate::isa::Isa;
use crate::kernel::KernelCode;
use ms_ir::Kernel;
use std::sync::Arc;

/// Compiles a kernel that runs on the calling thread. Interprets it if there is no machine code.
pub fn compile_or_interpret(kernel: Kernel, isa: Isa) -> Arc<dyn KernelCode> {
    let kernel = Arc::new(kernel);
    compile_variant(&kernel, isa, Tuning::General).unwrap_or_else(|| Arc::new(Interpreted::new(kernel)))
}

/// Compiles a kernel with a `tuning`. Returns `None` if there is no such variant, or no executable memory for it.
pub fn compile_variant(kernel: &Arc<Kernel>, isa: Isa, tuning: Tuning) -> Option<Arc<dyn KernelCode>> {
    let code = codegen::compile_for(kernel, isa, tuning).ok()?;
    let memory = CodeMemory::map(&code.bytes)?;
    // SAFETY: the memory was just mapped from this kernel's code for an instruction set of this machine.
    Some(Arc::new(unsafe { Compiled::new(kernel.clone(), memory, 0..code.bytes.len()) }))
}
