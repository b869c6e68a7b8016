// Safe code cannot call functions that trust their caller with memory: uninitialised arrays, bytes read as another
// dtype, borrowed memory, and whatever runs code or an op on raw addresses.
#![forbid(unsafe_code)]
use ms::internals::exec::{
    Artifact, Backend, CompileOptions, Host, PlanExecutable, KernelCode, MatrixProduct, StepCode,
};
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
    backend.load(artifact, &CompileOptions::default());
}

fn any_results(step: &dyn StepCode, x: &Array, small: &Array) {
    step.run(&[], &[x, x], &[small.clone()]);
}

fn any_addresses(kernel: &dyn KernelCode, host: &dyn Host, product: &MatrixProduct, at: *mut u8) {
    kernel.call(&[1, 0]);
    host.product(product, at, at, at);
}

fn any_kernels(plan: &Plan, host: Arc<dyn Host>) {
    PlanExecutable::new(plan, &[], host);
}

fn main() {}
