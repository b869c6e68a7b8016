//! The text form of plans and kernels, for people and snapshot tests.

use super::plan::{Argument, Buffer, Place, Plan, PlanStep, View};
use crate::ir::{Inst, Kernel, Lanes, Param, Role, Scope, Step};
use crate::tensor::{DType, Scalar};
use std::fmt::{self, Display, Formatter};

impl Plan {
    /// The plan as text: buffers, kernels with their bodies, steps.
    ///
    /// ```text
    /// plan @main(f32[4]) -> (f32[4]), arena 64 bytes
    /// b0 = input 0, 16 bytes
    /// kernel k0(p0: in f32 unit, p1: out f32 unit) par 0, lanes parallel, seq 0
    ///   point:
    ///     v0 = load p0 : f32
    ///     ...
    /// k0 [4](b0: [4], b1: [4])
    /// ```
    pub fn display(&self) -> impl Display + '_ {
        fmt::from_fn(|f| write_plan(self, f))
    }
}

fn write_plan(plan: &Plan, f: &mut Formatter<'_>) -> fmt::Result {
    let types = |types: &[crate::ir::Type]| join(types.iter().map(|it| it.to_string()));
    let (inputs, outputs) = (types(&plan.inputs), types(&plan.outputs));
    writeln!(f, "plan @{}({inputs}) -> ({outputs}), arena {} bytes", plan.name, plan.arena_bytes)?;
    for (i, Buffer { bytes, place }) in plan.buffers.iter().enumerate() {
        let place = match place {
            Place::Input(at) => format!("input {at}"),
            Place::Output(at) => format!("output {at}"),
            Place::Constant(at) => {
                let literal = &plan.constants[*at as usize];
                format!("constant {at} {}{:?}", literal.dtype(), literal.shape())
            }
            Place::Arena(at) => format!("arena {at}"),
        };
        writeln!(f, "b{i} = {place}, {bytes} bytes")?;
    }
    for (i, kernel) in plan.kernels.iter().enumerate() {
        write_kernel(i, kernel, f)?;
    }
    plan.steps.iter().try_for_each(|step| write_step(plan, step, f))
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

fn write_step(plan: &Plan, step: &PlanStep, f: &mut Formatter<'_>) -> fmt::Result {
    match step {
        PlanStep::Kernel { kernel, extents, args } => {
            let sizes = plan.kernels[kernel.0 as usize].params.iter().map(|it| it.dtype.size());
            let args = args.iter().zip(sizes).map(|(it, size)| argument(it, size));
            writeln!(f, "k{} {:?}({})", kernel.0, extents, join(args))
        }
        PlanStep::Product { a, b, out } => writeln!(f, "{} = product {}, {}", view(out), view(a), view(b)),
        PlanStep::Library { op, attrs, inputs, outputs } => {
            let (inputs, outputs) = (join(inputs.iter().map(view)), join(outputs.iter().map(view)));
            writeln!(f, "{outputs} = {} {inputs} {:?}", op.name(), attrs.as_slice())
        }
    }
}

/// A buffer with its strides, in elements.
fn argument(arg: &Argument, size: usize) -> String {
    let strides: Vec<i64> = arg.strides.iter().map(|it| it / size as i64).collect();
    let offset = if arg.offset == 0 { String::new() } else { format!("+{}", arg.offset) };
    format!("b{}{offset}: {strides:?}", arg.buffer.0)
}

fn view(view: &View) -> String {
    let layout = &view.layout;
    let mut text = format!("b{}: {}{:?}", view.buffer.0, view.dtype, layout.shape());
    if !layout.is_contiguous() {
        text += &format!(" strides {:?}", layout.strides());
    }
    if layout.offset() != 0 {
        text += &format!(" from {}", layout.offset());
    }
    text
}

fn write_kernel(number: usize, kernel: &Kernel, f: &mut Formatter<'_>) -> fmt::Result {
    let param = |(i, it): (usize, &Param)| {
        let role = if it.role == Role::Input { "in" } else { "out" };
        let step = match it.step {
            Step::Unit => "unit",
            Step::Zero => "zero",
            Step::Any => "any",
        };
        format!("p{i}: {role} {} {step}", it.dtype)
    };
    let params = join(kernel.params.iter().enumerate().map(param));
    let lanes = if kernel.lanes == Lanes::Parallel { "parallel" } else { "reduced" };
    writeln!(f, "kernel k{number}({params}) par {}, lanes {lanes}, seq {}", kernel.par, kernel.seq)?;
    for (i, stage) in kernel.stages.iter().enumerate() {
        writeln!(f, "  {}:", if stage.scope == Scope::Point { "point" } else { "loop" })?;
        for at in kernel.stage_range(i) {
            let text = inst(&kernel.insts[at], kernel.types[at]);
            match kernel.insts[at] {
                Inst::Store(..) => writeln!(f, "    {text}")?,
                _ => writeln!(f, "    v{at} = {text} : {}", kernel.types[at])?,
            }
        }
    }
    Ok(())
}

fn inst(inst: &Inst, dtype: DType) -> String {
    let word = |it: &dyn fmt::Debug| format!("{it:?}").to_lowercase();
    match inst {
        Inst::Load(p) => format!("load p{}", p.0),
        Inst::Store(p, v) => format!("store p{}, v{}", p.0, v.0),
        Inst::Const(bits) => format!("const {}", Scalar::from_bits(*bits, dtype)),
        Inst::Index(axis) => format!("index {axis}"),
        Inst::Unary(op, a) => format!("{} v{}", word(op), a.0),
        Inst::Binary(op, a, b) => format!("{} v{}, v{}", word(op), a.0, b.0),
        Inst::Fma(a, b, c) => format!("fma v{}, v{}, v{}", a.0, b.0, c.0),
        Inst::Compare(op, a, b) => format!("{} v{}, v{}", word(op), a.0, b.0),
        Inst::Select(a, b, c) => format!("select v{}, v{}, v{}", a.0, b.0, c.0),
        Inst::Cast { value, to } => format!("cast v{} to {to}", value.0),
        Inst::Reduce(reducer, v) => format!("reduce {} v{}", word(reducer), v.0),
    }
}
