// Elements are the types of the framework's own dtypes; backends, steps and drivers are trusted with memory, and can
// only be implemented by `unsafe impl`.
#![forbid(unsafe_code)]
use ms::Result;
use ms::internals::exec::{
    Artifact, Backend, Check, CompileOptions, Driver, EpilogueCode, Executable, LibraryCall, Prepared,
    StepCall, StepCode,
};
use ms::internals::ir::{Contraction, Graph};
use ms::internals::target::Target;
use ms::internals::lower::eager::Step;
use ms::tensor::{Array, DType, Element, MemorySpace, Scalar};
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

impl Driver for Mine {
    type Kernel = ();
    type Contraction = ();
    type LibraryStep = ();
    type Commands = ();
    const QUEUED: bool = false;
    fn space(&self) -> MemorySpace {
        MemorySpace::Host
    }
    fn launch(&self, _: &mut (), _: &(), _: &[u64]) -> Result<()> {
        Ok(())
    }
    fn prepare_contraction(&self, _: &Contraction, _: &[EpilogueCode<'_, ()>]) -> Result<Prepared<()>> {
        Ok(Prepared { code: (), workspace: 0 })
    }
    fn prepare_library(&self, _: &Arc<LibraryCall>, _: &[EpilogueCode<'_, ()>]) -> Result<Prepared<()>> {
        Ok(Prepared { code: (), workspace: 0 })
    }
    fn contract(&self, _: &mut (), _: &Arc<()>, _: StepCall<'_>) -> Result<()> {
        Ok(())
    }
    fn library(&self, _: &mut (), _: &Arc<()>, _: StepCall<'_>) -> Result<()> {
        Ok(())
    }
    fn check(&self, _: &mut (), _: &Arc<Check>, _: u64, _: &[u64]) -> Result<()> {
        Ok(())
    }
    fn copy(&self, _: &mut (), _: u64, _: u64, _: usize) -> Result<()> {
        Ok(())
    }
    fn set_number(&self, _: &mut (), _: u64, _: u64) -> Result<()> {
        Ok(())
    }
    fn condition(&self, _: &mut (), _: u64) -> Result<bool> {
        Ok(true)
    }
    fn numbers(&self, _: &mut (), _: &[u64], _: &mut [u64]) -> Result<()> {
        Ok(())
    }
    fn submit(&self, _: &mut ()) -> Result<()> {
        Ok(())
    }
}

fn main() {}
