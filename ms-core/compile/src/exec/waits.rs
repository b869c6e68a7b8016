//! Counts the points at which the host waits for a device.

use crate::lower::{Plan, PlanStep, Repeat, is_stack};
use ms_ir::op::definition;
use ms_ir::stored::stored;
use std::fmt;

/// The points in a plan at which the host waits while a compiled function runs on a device with separate memory. A plan
/// without any is submitted as a whole, and the host continues until it reads a result.
///
/// ```
/// use ms_core::exec::Waits;
/// let waits = Waits { conditions: 1, ..Waits::default() };
/// assert!(waits.any() && !Waits::default().any());
/// assert_eq!(waits.to_string(), "1 condition");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waits {
    /// Branches and loops with a condition that the host reads.
    pub conditions: usize,
    /// Loops that stack values over a number of iterations known only at run time.
    pub stacks: usize,
    /// Inputs and results with sizes known only at run time.
    pub sizes: usize,
    /// Steps that act on the host, such as prints.
    pub host_steps: usize,
}

stored! {
    struct Waits { conditions: usize, stacks: usize, sizes: usize, host_steps: usize }
}

impl Waits {
    /// Counts the waits of a plan.
    pub fn of(plan: &Plan) -> Self {
        let mut waits = Self::default();
        for step in plan.routines.iter().flat_map(|it| &it.steps) {
            match step {
                PlanStep::Branch { on_device, .. } => waits.conditions += usize::from(!on_device),
                PlanStep::Loop(it) => match it.repeat {
                    Repeat::While { .. } => {
                        waits.conditions += usize::from(!it.on_device);
                        waits.stacks += usize::from(!it.series.is_empty());
                    }
                    Repeat::Counted { .. } => waits.stacks += 1,
                    Repeat::Fixed { .. } => {}
                },
                PlanStep::Library { op, .. } => waits.host_steps += usize::from(definition(op.0).effects.act_on_host()),
                PlanStep::Kernel(_) | PlanStep::Kernels(_) | PlanStep::Contraction(_) => {}
                PlanStep::Check { .. } | PlanStep::Call { .. } => {}
            }
        }
        let main = plan.routines.last();
        waits.sizes = main.map_or(0, |it| it.inputs.iter().chain(&it.outputs).filter(|it| is_stack(it)).count());
        waits
    }

    /// Returns whether there is any wait.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.conditions, "condition"),
            (self.stacks, "loop with stacks"),
            (self.sizes, "value of unknown size"),
            (self.host_steps, "step of the host"),
        ];
        let mut parts = all.iter().filter(|it| it.0 > 0).peekable();
        if parts.peek().is_none() {
            return f.write_str("none");
        }
        for (at, (count, what)) in parts.enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{count} {what}")?;
        }
        Ok(())
    }
}
