//! The text form of plans, for debugging and snapshot tests.

use crate::lower::plan::routines::PlanNames;
use crate::lower::plan::{
    Argument, Buffer, BufferLocation, Carry, ContractionResult, ContractionStep, Epilogue, EpilogueLoops, IndexedAxis,
    KernelCall, KernelId, Loop, NextCarry, Plan, PlanStep, Repeat, Routine, Span, View,
};
use ms_ir::MapVec;
use ms_ir::ParamId;
use ms_ir::text::{InputNames, write_attrs};
use std::fmt::{self, Display, Formatter};

impl Plan {
    /// Formats the plan as text: kernels with their bodies, then the routines.
    ///
    /// ```text
    /// k0 = kernel par=0 lanes=parallel seq=0
    ///   in %0: f32 unit
    ///   out %1: f32 unit
    ///   point:
    ///     v0 = load %0
    ///     ...
    /// routine r0 @main(f32[4]) -> (f32[4]), arena 64 bytes
    ///   b0 = input 0, 16 bytes
    ///   k0 [4](b0: [4], b1: [4])
    /// ```
    pub fn display(&self) -> impl Display + '_ {
        fmt::from_fn(|f| write_plan(self, &PlanNames::default(), f))
    }

    /// Formats the plan as text with the names of inputs: `b0 = input 0 %x, 16 bytes`.
    pub fn display_named(&self, names: &PlanNames) -> impl Display {
        fmt::from_fn(|f| write_plan(self, names, f))
    }
}

fn write_plan(plan: &Plan, names: &PlanNames, f: &mut Formatter<'_>) -> fmt::Result {
    for (i, kernel) in plan.kernels.iter().enumerate() {
        write!(f, "k{i} = {kernel}")?;
    }
    plan.routines.iter().enumerate().try_for_each(|(i, routine)| {
        let names = InputNames::of(names.0.get(i).map_or(&[], Vec::as_slice));
        write_routine(plan, i, routine, &names, f)
    })
}

fn write_routine(
    plan: &Plan,
    number: usize,
    routine: &Routine,
    names: &InputNames<'_>,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    let types = |types: &[ms_ir::Type]| join(types.iter().map(|it| it.to_string()));
    let (inputs, outputs) = (types(&routine.inputs), types(&routine.outputs));
    let (name, arena) = (&routine.name, routine.arena_bytes);
    writeln!(f, "routine r{number} @{name}({inputs}) -> ({outputs}), arena {arena} bytes")?;
    for (i, Buffer { bytes, place }) in routine.buffers.iter().enumerate() {
        let place = match place {
            BufferLocation::Input(at) => match names.show(*at as usize) {
                Some(name) => format!("input {at} {name}"),
                None => format!("input {at}"),
            },
            BufferLocation::Output(at) => format!("output {at}"),
            BufferLocation::Constant(at) => {
                let literal = &plan.constants[*at as usize];
                format!("constant {at} {}{:?}", literal.dtype(), literal.shape())
            }
            BufferLocation::Arena(at) => format!("arena {at}"),
            BufferLocation::Position => "positions".into(),
        };
        writeln!(f, "  b{i} = {place}, {bytes} bytes")?;
    }
    routine.steps.iter().try_for_each(|step| {
        f.write_str("  ")?;
        write_step(plan, step, f)
    })
}

fn join(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

fn write_step(plan: &Plan, step: &PlanStep, f: &mut Formatter<'_>) -> fmt::Result {
    match step {
        PlanStep::Kernel(it) => writeln!(f, "{}", call(plan, it)),
        PlanStep::Kernels(all) => {
            writeln!(f, "{} kernels", all.len())?;
            all.iter().try_for_each(|it| writeln!(f, "    {}", call(plan, it)))
        }
        PlanStep::Contraction(it) => {
            let ContractionStep { contraction, a, b, result } = &**it;
            match result {
                ContractionResult::Stored(out) => {
                    writeln!(f, "{} = contract {}, {}: {contraction}", span(out), span(a), span(b))
                }
                ContractionResult::Epilogues(all) => {
                    write!(f, "contract {}, {}: {contraction}", span(a), span(b))?;
                    for Epilogue { kernel, loops, args } in all {
                        let result = match loops {
                            EpilogueLoops::Elements(result) => Some(*result),
                            EpilogueLoops::Rows(_) => None,
                        };
                        let (extents, args) = (loops.extents(contraction), arguments(plan, *kernel, result, args));
                        write!(f, ", then k{} {extents:?}({args})", kernel.0)?;
                    }
                    writeln!(f)
                }
            }
        }
        PlanStep::Library { op, attrs, precision, inputs, outputs, epilogues, .. } => {
            let (inputs, outputs) = (join(inputs.iter().map(view)), join(outputs.iter().map(view)));
            write!(f, "{outputs} = {} {inputs}", op.name())?;
            write_attrs(op.0, attrs, f)?;
            if precision.is_relaxed() {
                write!(f, " {precision}")?;
            }
            epilogues.iter().try_for_each(|it| write!(f, ", then {}", call(plan, it)))?;
            writeln!(f)
        }
        PlanStep::Check { op, attrs, record, views, .. } => {
            write!(f, "check {} of {} {}", span(record), op.name(), join(views.iter().map(view)))?;
            write_attrs(op.0, attrs, f)?;
            writeln!(f)
        }
        PlanStep::Call { routine, inputs, outputs } => {
            writeln!(f, "{} = call r{} {}", spans(outputs), routine.0, spans(inputs))
        }
        PlanStep::Branch { condition, routines: [yes, no], inputs, outputs, on_device } => {
            let (inputs, outputs) = (spans(inputs), spans(outputs));
            let place = place(*on_device);
            writeln!(f, "{outputs} = if {} r{} else r{} {inputs}{place}", span(condition), yes.0, no.0)
        }
        PlanStep::Loop(it) => write_loop(it, f),
    }
}

fn write_loop(it: &Loop, f: &mut Formatter<'_>) -> fmt::Result {
    let direction = |reverse: bool| if reverse { " backwards" } else { "" };
    let repeat = match &it.repeat {
        Repeat::While { first, next, count } => {
            let count = count.iter().map(|it| format!(", counted in {}", span(it))).collect::<String>();
            format!("while {} then {}{count}", span(first), span(next))
        }
        Repeat::Fixed { count, reverse } => format!("{count} times{}", direction(*reverse)),
        Repeat::Counted { count, reverse } => format!("{} times{}", span(count), direction(*reverse)),
    };
    let carry = |it: &Carry| {
        let next = match it.next {
            NextCarry::Computed => String::new(),
            NextCarry::Updated => " in place".into(),
            NextCarry::From(other) => format!(" from {other}"),
        };
        format!("{} -> {}{next}", span(&it.initial), span(&it.result))
    };
    writeln!(f, "repeat r{} {repeat}{}", it.body.0, place(it.on_device))?;
    writeln!(f, "    carries: {}", join(it.carries.iter().map(carry)))?;
    let lists = [("sequences", &it.sequences), ("invariants", &it.invariants), ("series", &it.series)];
    for (name, list) in lists.into_iter().chain([("spares", &it.spares)]).filter(|it| !it.1.is_empty()) {
        writeln!(f, "    {name}: {}", spans(list))?;
    }
    Ok(())
}

fn place(on_device: bool) -> &'static str {
    if on_device { ", decided on the device" } else { "" }
}

fn span(span: &Span) -> String {
    if span.offset == 0 { format!("b{}", span.buffer.0) } else { format!("b{}+{}", span.buffer.0, span.offset) }
}

fn spans(of: &[Span]) -> String {
    join(of.iter().map(span))
}

fn call(plan: &Plan, call: &KernelCall) -> String {
    let KernelCall { kernel, extents, args } = call;
    format!("k{} {extents:?}({})", kernel.0, arguments(plan, *kernel, None, args))
}

/// Formats the arguments of a kernel. `result` is the param of a contraction's result, if there is one.
fn arguments(plan: &Plan, kernel: KernelId, result: Option<ParamId>, args: &[Argument]) -> String {
    let mut args = args.iter();
    join(plan.kernels[kernel.0 as usize].params.iter().enumerate().map(|(at, param)| {
        let is_result = result.is_some_and(|it| it.0 as usize == at);
        let arg = if is_result { None } else { args.next() };
        arg.map_or_else(|| "result".into(), |it| argument(it, param.dtype.size()))
    }))
}

/// Formats a buffer with its strides, in elements.
fn argument(arg: &Argument, size: usize) -> String {
    let strides: Vec<i64> = arg.strides.map_vec(|it| it / size as i64);
    let offset = if arg.offset == 0 { String::new() } else { format!("+{}", arg.offset) };
    let axis = match arg.axis {
        Some(IndexedAxis { stride, extent }) => format!(" axis {extent} by {}", stride / size as i64),
        None => String::new(),
    };
    format!("b{}{offset}: {strides:?}{axis}", arg.buffer.0)
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
