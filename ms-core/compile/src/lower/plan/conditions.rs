//! Chooses the branches and loops whose conditions the device decides.

use crate::lower::plan::{Plan, PlanStep, Repeat};
use ms_ir::op::definition;

/// The largest number of steps in the bodies of a branch or loop on the device. All of them are issued, also those that
/// do not run.
const MAX_STEPS: usize = 4096;

/// What the steps of a routine require of whoever issues them.
#[derive(Clone, Copy)]
struct Issued {
    /// The number of steps that are issued, with those of the routines that they run.
    steps: usize,
    /// Whether a step needs the host before later ones are issued, or runs on another stream.
    needs_host: bool,
}

impl Issued {
    fn new(steps: usize, needs_host: bool) -> Self {
        Self { steps, needs_host }
    }

    fn and(self, other: Self) -> Self {
        Self { steps: self.steps.saturating_add(other.steps), needs_host: self.needs_host || other.needs_host }
    }
}

/// Sets [`PlanStep::Branch::on_device`] and [`Loop::on_device`](super::Loop::on_device) of all steps that can be issued
/// once, before the conditions are known.
///
/// A body that acts on the host, grows stacks or communicates needs the host, and so does a body that has such a one.
pub(in crate::lower) fn decide_on_device(plan: &mut Plan) {
    let mut done: Vec<Issued> = Vec::with_capacity(plan.routines.len());
    for routine in &mut plan.routines {
        let issued = routine.steps.iter_mut().map(|it| step(it, &done));
        let all = issued.fold(Issued::new(0, false), Issued::and);
        done.push(all);
    }
}

/// Decides about a step. `done` are the routines before that of the step.
fn step(step: &mut PlanStep, done: &[Issued]) -> Issued {
    let bodies = step.callees().iter().map(|it| done[it.0 as usize]);
    let bodies = bodies.fold(Issued::new(1, false), Issued::and);
    let is_short = !bodies.needs_host && bodies.steps <= MAX_STEPS;
    match step {
        PlanStep::Kernel(_) | PlanStep::Kernels(_) | PlanStep::Contraction(_) => bodies,
        PlanStep::Check { .. } | PlanStep::Call { .. } => bodies,
        PlanStep::Library { op, .. } => {
            let effects = definition(op.0).effects;
            Issued::new(1, effects.act_on_host() || !effects.are_local())
        }
        PlanStep::Branch { on_device, .. } => {
            *on_device = is_short;
            Issued { needs_host: !is_short, ..bodies }
        }
        PlanStep::Loop(it) => {
            let moved = it.carries.len();
            match it.repeat {
                Repeat::While { count, .. } => {
                    it.on_device = is_short && it.series.is_empty() && count.is_none();
                    Issued::new(bodies.steps.saturating_add(2 * moved), !it.on_device)
                }
                Repeat::Fixed { count, .. } => {
                    let steps = bodies.steps.saturating_mul(count).saturating_add(2 * moved);
                    Issued::new(steps, bodies.needs_host || steps > MAX_STEPS)
                }
                Repeat::Counted { .. } => Issued::new(bodies.steps, true),
            }
        }
    }
}
