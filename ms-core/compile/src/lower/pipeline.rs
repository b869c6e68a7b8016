//! Runs the passes of this module over a graph.

use crate::lower::fusion::emit::emit;
use crate::lower::fusion::epilogue;
use crate::lower::fusion::group::Groups;
use crate::lower::fusion::iteration::{iteration, may_be_kernel};
use crate::lower::fusion::repeat::Repeated;
use crate::lower::fusion::slices;
use crate::lower::fusion::structure::{KnownKernels, Outlines, Structure};
use crate::lower::plan::assemble::assemble;
use crate::lower::plan::conditions::decide_on_device;
use crate::lower::plan::draft::Draft;
use crate::lower::plan::horizontal;
use crate::lower::plan::locations::Numbers;
use crate::lower::plan::routines::{Key, Located, PlanNames, Routines};
use crate::lower::plan::schedule::{delay_overwriting, orders};
use crate::lower::plan::{Plan, PlanStep, RoutineId};
use crate::lower::rewrites::casts::fold_casts;
use crate::lower::rewrites::distribute::distribute;
use crate::lower::rewrites::flat::{Flat, Kind, Region, Repetition, ValueIndex};
use crate::lower::rewrites::flatten::{flatten, live_nodes, located};
use crate::lower::rewrites::sink::{sink, transpose_products};
use crate::target::Target;
use ms_ir::error::Result;
use ms_ir::op::Control;
use ms_ir::{Graph, Node, Precision};
use std::cell::RefCell;

/// Options of lowering.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LowerOptions {
    /// Whether ops share kernels. Fusion changes no bit of the results.
    pub fuse: bool,
    /// The precision. With [`Precision::Strict`], results are bit-identical to op-by-op execution, on every
    /// device. Otherwise `a * b + c` within a kernel is rounded once, and the target's native functions are used.
    /// Reductions and contractions then add their terms in the fastest order, with factors as exact as the precision
    /// requires.
    pub precision: Precision,
}

impl Default for LowerOptions {
    fn default() -> Self {
        Self { fuse: true, precision: Precision::Strict }
    }
}

/// Lowers a graph, and each distinct graph in it once, to a plan for `target`.
///
/// # Errors
/// [`Code::Backend`](ms_ir::Code::Backend) for transforms that are not expanded and for symbolic
/// dimensions.
pub fn lower(graph: &Graph, options: &LowerOptions, target: &Target) -> Result<Plan> {
    Ok(lower_traced(graph, options, target, None)?.0)
}

/// Lowers a graph that was optimised from a traced graph, if that is known. Steps that can fail refer to their nodes in
/// the traced graph. Also returns the names of the inputs.
///
/// # Errors
/// See [`lower`].
pub fn lower_traced(
    graph: &Graph,
    options: &LowerOptions,
    target: &Target,
    traced: Option<&Graph>,
) -> Result<(Plan, PlanNames)> {
    let (mut plan, located, names) = Pipeline::new(options, target).plan(graph)?;
    if let Some(traced) = traced.filter(|_| !located.is_empty()) {
        let numbers = Numbers::of(traced);
        for Located { routine, step, line } in located {
            if let PlanStep::Library { node, .. } | PlanStep::Check { node, .. } =
                &mut plan.routines[routine.0 as usize].steps[step]
            {
                *node = numbers.number(line);
            }
        }
    }
    if target.conditions {
        decide_on_device(&mut plan);
    }
    Ok((plan, names))
}

/// The options of one lowering.
struct Pipeline<'a> {
    options: &'a LowerOptions,
    target: &'a Target,
    known: RefCell<KnownKernels>,
}

impl<'a> Pipeline<'a> {
    fn new(options: &'a LowerOptions, target: &'a Target) -> Self {
        Self { options, target, known: RefCell::default() }
    }

    /// Lowers a graph and its callees. Returns the plan, the source locations of steps that can fail, and the names of
    /// inputs.
    fn plan(&self, graph: &Graph) -> Result<(Plan, Vec<Located>, PlanNames)> {
        let portable;
        let target = match self.options.precision {
            Precision::Strict => {
                portable = self.target.portable();
                &portable
            }
            Precision::Highest | Precision::High | Precision::Medium => self.target,
        };
        let mut routines = Routines::new(self.options.precision, target.kernels);
        Pipeline::new(self.options, target).add_main(graph, &mut routines)?;
        Ok(routines.finish())
    }

    /// Adds the main routine, whose inputs may be slots, after its callees.
    fn add_main(&self, graph: &Graph, routines: &mut Routines) -> Result<RoutineId> {
        self.add_callees(graph, routines)?;
        let (flat, steps) = self.steps(graph, true, routines)?;
        let steps = delay_overwriting(&flat, steps, routines);
        Ok(self.push(graph, &flat, steps, routines))
    }

    /// Adds the routine of a graph after its callees. The depth of recursion is the nesting depth of graphs.
    fn add(&self, graph: &Graph, routines: &mut Routines) -> Result<RoutineId> {
        self.add_callees(graph, routines)?;
        let (flat, steps) = self.steps(graph, false, routines)?;
        Ok(self.push(graph, &flat, steps, routines))
    }

    /// Adds the routine of these steps, in this order.
    fn push(&self, graph: &Graph, flat: &Flat, steps: Vec<Draft>, routines: &mut Routines) -> RoutineId {
        let steps = if self.options.fuse { horizontal::fuse(flat, steps, routines) } else { steps };
        let routine = assemble(graph, flat, steps, routines);
        routines.push(graph, routine)
    }

    /// Adds the routines that the nodes of a graph run.
    fn add_callees(&self, graph: &Graph, routines: &mut Routines) -> Result<()> {
        for node in live_nodes(graph).filter(|it| !it.regions.is_empty()) {
            self.add_regions(node, routines).map_err(|error| located(error, node))?;
        }
        Ok(())
    }

    fn add_regions(&self, node: &Node, routines: &mut Routines) -> Result<()> {
        match Control::of(node) {
            Some(Control::Call { .. } | Control::Branch) => {
                for region in &node.regions {
                    routines.once(Key::graph(region), |it| self.add(region, it))?;
                }
            }
            Some(Control::Loop(at)) => {
                let (body, condition) = (&node.regions[at.body()], at.is_while().then(|| &node.regions[0]));
                let key = Key::iteration(body, condition, at.carries);
                if self.options.fuse && may_be_kernel(&at) {
                    if routines.repetition(&key).is_some() {
                        return Ok(());
                    }
                    let condition = condition.map(|it| &**it);
                    if let Some(found) = Repetition::of(condition, body, at.carries, routines, self.target)? {
                        routines.add_repetition(key, found);
                        return Ok(());
                    }
                }
                let lower = |it: &mut Routines| self.add(&iteration(body, condition, at.carries), it);
                routines.once(key, lower)?;
                // The condition of the first iteration is computed by the routine of the loop.
                condition.map_or(Ok(()), |it| self.add_callees(it, routines))?;
            }
            Some(Control::Recompute | Control::CustomVjp(_) | Control::TransformNode(_)) | None => {}
        }
        Ok(())
    }

    /// Returns the steps of a graph's routine. The routines of its callees are already in `routines`.
    fn steps(&self, graph: &Graph, is_main: bool, routines: &mut Routines) -> Result<(Flat, Vec<Draft>)> {
        let &Self { options, target, ref known } = self;
        let mut flat = flatten(graph, routines, target)?;
        if options.fuse {
            distribute(&mut flat);
            sink(&mut flat, target);
        }
        transpose_products(&mut flat);
        if options.fuse {
            fold_casts(&mut flat);
        }
        let orders = if is_main { orders(&flat, routines) } else { Vec::new() };
        let mut groups = Groups::new(&flat, options.fuse, &orders, routines, target);
        if options.fuse {
            epilogue::attach(&flat, &mut groups, target, options.precision);
        }
        let stores = slices::place(&mut flat, &mut groups, target);
        let outlines = Outlines::of(&flat, &groups);
        let mut steps = Vec::with_capacity(groups.list.len());
        // The number of uses of each value, computed when first needed.
        let mut uses: Option<Vec<u32>> = None;
        for group in &groups.list {
            let whole = group.nodes[0];
            if let (None, Kind::Region(number)) = (group.domain.as_ref(), flat.nodes[whole].kind)
                && let Region::Repeat(repetition, count) = &flat.regions[number]
            {
                let uses = uses.get_or_insert_with(|| flat.uses());
                let used = |it: ValueIndex| uses[it] > 0;
                let of = Repeated { outer: &flat, node: &flat.nodes[whole], count: *count };
                let kernels = repetition.emit(of, used, target, routines)?;
                steps.extend(kernels.into_iter().map(|it| Draft::Kernel(Box::new(it))));
                continue;
            }
            let step = match group.domain {
                Some(_) => {
                    let mut known = known.borrow_mut();
                    let may_recur = !known.is_empty() || outlines.recurs(&flat, group);
                    let structure = may_recur.then(|| Structure::of(&flat, &groups, group, &stores)).flatten();
                    let build = || emit(&mut flat, &groups, group, &stores, target, routines);
                    let emitted = known.get_or_build(structure, build)?;
                    match (group.op, steps.last_mut()) {
                        // Epilogues of one op are adjacent. If a copy of a slice comes between them, the first ones
                        // compute operands of the later ones.
                        (Some(op), Some(Draft::Contraction(last, epilogues) | Draft::Library(last, epilogues)))
                            if *last == op =>
                        {
                            epilogues.push(emitted);
                            continue;
                        }
                        (Some(op), _) if matches!(flat.nodes[op].kind, Kind::Library(_)) => {
                            Draft::Library(op, vec![emitted])
                        }
                        (Some(op), _) if group.rows.is_none() => Draft::Contraction(op, vec![emitted]),
                        _ => Draft::Kernel(Box::new(emitted)),
                    }
                }
                None => Draft::Whole(whole),
            };
            steps.push(step);
        }
        Ok((flat, steps))
    }
}
