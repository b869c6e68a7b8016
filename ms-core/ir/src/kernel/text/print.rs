//! Prints kernels as text.

use super::super::names::Head;
use super::super::{Inst, Kernel, Param, ParamId, ReductionOrder, Role, Stage, Val};
use crate::text::write_element;
use std::fmt::{Display, Formatter, Result};

/// Writes the text that [`Kernel::parse`] reads. The text of a kernel that [`Kernel::check`] rejects is only for
/// diagnostics: reading it may yield different dtypes.
impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { par, seq, lanes, order, run, params, insts, types, stages } = self;
        write!(f, "kernel par={par} lanes={} seq={seq}", lanes.name())?;
        if (*order, *run) != (ReductionOrder::Lanes, 0) {
            write!(f, " order={}", order.name())?;
        }
        if *run != 0 {
            write!(f, " run={run}")?;
        }
        f.write_str("\n")?;
        for (i, Param { dtype, role, step }) in params.iter().enumerate() {
            write!(f, "  {} {}: {dtype}", role.name(), ParamId(i as u32))?;
            match role {
                Role::Immediate => f.write_str("\n"),
                _ => writeln!(f, " {}", step.name()),
            }?;
        }
        let mut start = 0;
        for &Stage { scope, end } in stages {
            writeln!(f, "  {}:", scope.name())?;
            for at in start..end.min(insts.len() as u32) {
                f.write_str("    ")?;
                let inst = &insts[at as usize];
                if !inst.is_statement() {
                    write!(f, "{} = ", Val(at))?;
                }
                f.write_str(Head::of(inst).name())?;
                match *inst {
                    Inst::Load(param) => write!(f, " {param}"),
                    Inst::Gather(param, value) | Inst::Store(param, value) => write!(f, " {param}, {value}"),
                    Inst::Const(bits) => match types.get(at as usize) {
                        Some(&dtype) => write!(f, " {dtype} ").and_then(|()| write_element(bits, dtype, f)),
                        None => write!(f, " ? {bits:#x}"),
                    },
                    Inst::Index(axis) => write!(f, " {axis}"),
                    Inst::Unary(_, a) | Inst::Math(_, a, None) => write!(f, " {a}"),
                    Inst::Math(_, a, Some(b)) | Inst::Binary(_, a, b) | Inst::Compare(_, a, b) => {
                        write!(f, " {a}, {b}")
                    }
                    Inst::Fma(a, b, c) | Inst::Select(a, b, c) => write!(f, " {a}, {b}, {c}"),
                    Inst::Cast { value, to } => write!(f, " {value} to {to}"),
                    Inst::Reduce(reducer, value) => write!(f, " {} {value}", reducer.name()),
                    Inst::Carry(value) | Inst::While(value) => write!(f, " {value}"),
                    Inst::Next(carry, value) => write!(f, " {carry}, {value}"),
                }?;
                f.write_str("\n")?;
            }
            start = end;
        }
        Ok(())
    }
}

impl Display for ParamId {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "%{}", self.0)
    }
}

impl Display for Val {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "v{}", self.0)
    }
}
