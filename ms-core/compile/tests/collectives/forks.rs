//! The order in which the runner forks and joins steps that communicate, by a driver that records them.

use super::{TARGET, parsed, verified};
use ms_compile::exec::{Check, Driver, EpilogueCode, Executable, LibraryCall, PlanExecutable, Prepared, StepCall};
use ms_compile::lower::{LowerOptions, lower};
use ms_ir::Contraction;
use ms_ir::data::{Array, DType, MemorySpace, StreamKind};
use ms_ir::error::Result;
use std::sync::{Arc, Mutex, PoisonError};

/// A driver that records steps, and runs none.
#[derive(Clone, Default)]
struct Recorder {
    submitted: Arc<Mutex<Vec<String>>>,
}

// SAFETY: no step runs, so none accesses memory. The results are not read.
unsafe impl Driver for Recorder {
    type Kernel = ();
    type Contraction = ();
    type LibraryStep = &'static str;
    type Commands = Vec<String>;
    const QUEUED: bool = false;
    const FORKS: bool = true;

    fn space(&self) -> MemorySpace {
        MemorySpace::Host
    }

    unsafe fn launch(&self, commands: &mut Vec<String>, (): &(), _: &[u64]) -> Result<()> {
        commands.push("kernel".into());
        Ok(())
    }

    fn prepare_contraction(&self, _: &Contraction, _: &[EpilogueCode<'_, ()>]) -> Result<Prepared<()>> {
        Ok(Prepared { code: (), workspace: 0 })
    }

    fn prepare_library(&self, call: &Arc<LibraryCall>, _: &[EpilogueCode<'_, ()>]) -> Result<Prepared<&'static str>> {
        Ok(Prepared { code: call.op.name(), workspace: 100 })
    }

    unsafe fn contract(&self, commands: &mut Vec<String>, _: &Arc<()>, _: StepCall<'_>) -> Result<()> {
        commands.push("contraction".into());
        Ok(())
    }

    unsafe fn library(&self, commands: &mut Vec<String>, code: &Arc<&'static str>, call: StepCall<'_>) -> Result<()> {
        commands.push(format!("{} with {:#x}", code, call.workspace));
        Ok(())
    }

    unsafe fn check(&self, commands: &mut Vec<String>, _: &Arc<Check>, _: u64, _: &[u64]) -> Result<()> {
        commands.push("check".into());
        Ok(())
    }

    unsafe fn copy(&self, commands: &mut Vec<String>, _: u64, _: u64, _: usize) -> Result<()> {
        commands.push("copy".into());
        Ok(())
    }

    unsafe fn set_number(&self, commands: &mut Vec<String>, _: u64, _: u64) -> Result<()> {
        commands.push("number".into());
        Ok(())
    }

    unsafe fn fork(&self, commands: &mut Vec<String>, fork: u32, kind: StreamKind, body: Vec<String>) -> Result<()> {
        commands.push(format!("fork {fork} to {kind:?}: {}", body.join(", ")));
        Ok(())
    }

    fn join(&self, commands: &mut Vec<String>, fork: u32) -> Result<()> {
        commands.push(format!("join {fork}"));
        Ok(())
    }

    unsafe fn condition(&self, _: &mut Vec<String>, _: u64) -> Result<bool> {
        Ok(false)
    }

    unsafe fn numbers(&self, _: &mut Vec<String>, _: &[u64], _: &mut [u64]) -> Result<()> {
        Ok(())
    }

    fn submit(&self, commands: &mut Vec<String>) -> Result<()> {
        self.submitted.lock().unwrap_or_else(PoisonError::into_inner).append(commands);
        Ok(())
    }
}

/// A collective is joined at once, and a start by the step that ends it. Forked steps have a separate workspace.
#[test]
fn collectives_are_forked_and_joined() {
    #[track_caller]
    fn check(text: &str, steps: &[&str]) {
        let plan = lower(&verified(parsed(text)), &LowerOptions::default(), &TARGET).expect("it lowers");
        let driver = Recorder::default();
        let kernels = vec![(); plan.kernels.len()];
        // SAFETY: the plan is the result of lowering a valid graph, and no kernel runs.
        let executable = unsafe { PlanExecutable::new(&plan, &kernels, driver.clone()) }.expect("it is loaded");
        let inputs: Vec<Array> = plan.main().inputs.iter().map(|_| Array::zeros(&[4], DType::F32)).collect();
        executable.run(&inputs.iter().collect::<Vec<_>>()).expect("it is recorded");
        let said = driver.submitted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let parts = |it: &String| it.split_once(" with ").map(|(name, at)| (name.to_owned(), at.to_owned()));
        let named: Vec<&str> = said.iter().map(|it| it.split_once(" with ").map_or(&**it, |it| it.0)).collect();
        assert_eq!(named, steps, "{text}\n{}", plan.display());
        let workspaces: Vec<(String, String)> = said.iter().filter_map(parts).collect();
        let (forked, others): (Vec<_>, Vec<_>) = workspaces.iter().partition(|it| it.0.starts_with("fork"));
        assert!(!forked.is_empty() && !others.is_empty(), "{said:?}");
        assert!(forked.iter().all(|it| others.iter().all(|other| other.1 != it.1)), "{said:?}");
    }

    check(
        "graph @main(%x: f32[4], %y: f32[4]) -> (f32[4], f32[4]) {
            %s = start %x : f32[4]\n %t = start %y : f32[4]
            %a = broadcast %y : f32[4]
            %d = done %s : f32[4]\n %e = done %t : f32[4]
            %z = sub %d, %a : f32[4]
            return %z, %e
        }",
        &[
            "fork 0 to Communicate: start",
            "fork 1 to Communicate: start",
            "fork 2 to Communicate: broadcast",
            "join 2",
            "join 0",
            "done",
            "join 1",
            "done",
            "kernel",
        ],
    );
}
