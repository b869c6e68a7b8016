// Elements are the types of the framework's own dtypes; backends, kernels and hosts are trusted with memory, and can
// only be implemented by `unsafe impl`.
#![forbid(unsafe_code)]
use ms::Result;
use ms::internals::exec::{Artifact, Backend, CompileOptions, Executable, Host, KernelCode, MatrixProduct, StepCode};
use ms::internals::ir::Graph;
use ms::internals::lower::Target;
use ms::internals::lower::single::Step;
use ms::tensor::{Array, Attrs, DType, Element, Op, Scalar};
use std::sync::Arc;

#[derive(Clone, Copy)]
struct Wide([u64; 8]);

impl Element for Wide {
    const DTYPE: DType = DType::Bool;
    fn to_scalar(self) -> Scalar {
        Scalar::UInt(self.0[7])
    }
    fn from_scalar(_: Scalar) -> Self {
        Self([0; 8])
    }
}

struct Mine;

impl Backend for Mine {
    fn name(&self) -> &'static str {
        "mine"
    }
    fn fingerprint(&self) -> String {
        String::new()
    }
    fn sources(&self) -> &'static str {
        ""
    }
    fn target(&self) -> &Target {
        loop {}
    }
    fn compile(&self, _: &Graph, _: &CompileOptions<'_>) -> Result<Artifact> {
        loop {}
    }
    fn load(&self, _: &Artifact, _: &CompileOptions<'_>) -> Result<Arc<dyn Executable>> {
        loop {}
    }
    fn describe(&self, _: &Graph, _: &CompileOptions<'_>) -> Result<String> {
        loop {}
    }
    fn compile_step(&self, _: &Step) -> Result<Arc<dyn StepCode>> {
        Ok(Arc::new(Mine))
    }
}

impl StepCode for Mine {
    fn run(&self, _: &[u64], _: &[&Array], _: &[Array]) -> Result<()> {
        Ok(())
    }
}

impl KernelCode for Mine {
    fn call(&self, _: &[u64]) {}
}

impl Host for Mine {
    fn product(&self, _: &MatrixProduct, _: *const u8, _: *const u8, _: *mut u8) -> Result<()> {
        Ok(())
    }
    fn library(&self, _: Op, _: &Attrs, _: &[&Array], _: &[Array]) -> Result<()> {
        Ok(())
    }
}

fn main() {}
