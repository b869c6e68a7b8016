// Safe code cannot call functions that trust their caller with memory: uninitialised arrays, bytes read as another
// dtype, borrowed memory, and whatever runs code or an op on raw addresses.
#![forbid(unsafe_code)]
use ms::internals::exec::{Artifact, Backend, Driver, PlanExecutable, StepCall, StepCode, StepOperand};
use ms::internals::lower::Plan;
use ms::tensor::{Array, DType, Layout, Storage};
use std::ptr::NonNull;
use std::sync::Arc;

fn unwritten() -> f32 {
    let array = Array::uninit(&[1 << 20], DType::F32).expect("memory");
    array.on_host().expect("on the host").as_slice::<f32>().expect("floats")[0]
}

fn bytes_as_bools(bytes: &Array) -> Array {
    Array::new(bytes.storage().clone(), Layout::contiguous(&[1]), DType::Bool)
}

fn anywhere() -> Storage {
    Storage::borrowed(NonNull::dangling(), 1 << 20)
}

fn any_bytes(backend: &dyn Backend, artifact: &Artifact) {
    backend.load(artifact);
}

fn any_results(step: &dyn StepCode, x: &Array, small: &Array) {
    step.run(&[], &[x, x], &[small.clone()]);
}

fn any_addresses<D: Driver>(driver: &D, commands: &mut D::Commands, kernel: &D::Kernel, code: &Arc<D::Contraction>) {
    driver.launch(commands, kernel, &[1, 0]);
    let operands = [8, 16].map(StepOperand::at);
    driver.contract(commands, code, StepCall { operands: &operands, results: &[24], epilogues: &[], workspace: 0 });
}

fn any_kernels<D: Driver + 'static>(plan: &Plan, driver: D) {
    PlanExecutable::new(plan, &[], driver);
}

fn main() {}
