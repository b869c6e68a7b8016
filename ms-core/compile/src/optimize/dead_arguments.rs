//! Removes unused operands and results of nodes with regions.

use super::{Dce, Pass, PassContext};
use ms_ir::MapVec;
use ms_ir::data::{Attrs, Op};
use ms_ir::op::{Control, Loop, dialect};
use ms_ir::{Def, Graph, Node, Rewriter, Type, ValueId, Values};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// The maximal number of bytes of a constant that is copied into regions.
const LARGEST_CONSTANT: usize = 64;

/// Removes unused results of branches, loops and calls, with the nodes that only they depend on, and unused or
/// duplicate operands. Small constants move into branches and loops. A carry of a loop that never changes becomes an
/// invariant, and an operand replaces a result that is equal to it.
pub struct DeadArguments;

impl Pass for DeadArguments {
    fn name(&self) -> &'static str {
        "dead_arguments"
    }

    fn run<'g>(&self, graph: &'g Graph, context: &PassContext) -> Cow<'g, Graph> {
        if graph.nodes().all(|(_, node)| node.regions.is_empty()) {
            return Cow::Borrowed(graph);
        }
        let used = used(graph);
        let calls = results_of_calls(graph, &used);
        let mut shared = Shared::default();
        let mut rewriter = Rewriter::new(graph);
        for (_, node) in graph.nodes() {
            let dead = !node.outputs.is_empty() && !node.outputs.iter().any(|it| used[it.0 as usize]);
            if dead {
                rewriter.replace(&[]);
                continue;
            }
            let operands = rewriter.operands(node);
            let slim = match Control::of(node) {
                Some(Control::Call { .. }) => Some(Slim::of_call(node, &calls[&Arc::as_ptr(&node.regions[0])])),
                Some(Control::Branch) => Some(Slim::of_branch(node, &used)),
                Some(Control::Loop(at)) if at.is_while() => Some(Slim::of_while(node, at, &used)),
                Some(Control::Loop(at)) => Some(Slim::of_scan(node, at, &used)),
                Some(Control::Recompute | Control::CustomVjp(_) | Control::TransformNode(_)) | None => None,
            };
            let slim = slim.map(|mut it| {
                it.choose_operands(rewriter.graph(), node, &operands);
                it
            });
            match slim.filter(|it| it.changes(node)) {
                Some(slim) => {
                    let values = slim.apply(&mut rewriter, graph, node, &operands, context, &mut shared);
                    rewriter.replace(&values);
                }
                None => rewriter.keep(),
            }
        }
        rewriter.finish()
    }
}

/// Returns the values that outputs, or nodes with effects, depend on.
fn used(graph: &Graph) -> Vec<bool> {
    let mut used = vec![false; graph.value_count()];
    graph.outputs().iter().for_each(|it| used[it.0 as usize] = true);
    for (_, node) in graph.nodes().rev() {
        if node.outputs.is_empty() || node.outputs.iter().any(|it| used[it.0 as usize]) {
            node.inputs.iter().for_each(|it| used[it.0 as usize] = true);
        }
    }
    used
}

/// Returns for each called graph the results that some call uses. Calls of one graph remain calls of one graph.
fn results_of_calls(graph: &Graph, used: &[bool]) -> FxHashMap<*const Graph, Vec<bool>> {
    let mut calls: FxHashMap<*const Graph, Vec<bool>> = FxHashMap::default();
    for (_, node) in graph.nodes().filter(|(_, node)| matches!(Control::of(node), Some(Control::Call { .. }))) {
        let results = calls.entry(Arc::as_ptr(&node.regions[0])).or_insert_with(|| vec![false; node.outputs.len()]);
        results.iter_mut().zip(&node.outputs).for_each(|(it, id)| *it |= used[id.0 as usize]);
    }
    calls
}

/// The new graphs, by original graph, remaining outputs and mapping of inputs.
type Shared = FxHashMap<(*const Graph, Vec<usize>, Vec<Input>), Arc<Graph>>;

/// The mapping of an input of the node's graphs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Input {
    /// Unused by every graph.
    Unused,
    /// A carry, or an element of a sequence, which must stay.
    Fixed,
    /// This operand of the node.
    Operand(usize),
    /// This constant.
    Constant(Op, Attrs),
}

/// A node with fewer operands and results.
struct Slim {
    /// The position among the operands where the inputs of the graphs begin.
    first: usize,
    /// The number of leading inputs that are carries or elements.
    carried: usize,
    /// The remaining inputs that are carries or elements.
    fixed: Vec<usize>,
    /// The outputs of each graph that remain.
    outputs: Vec<Vec<usize>>,
    /// The results that remain, by position.
    results: Vec<usize>,
    /// Results that are operands.
    passed: Vec<(usize, usize)>,
    /// The control structure of the new node.
    control: Control,
    /// The mapping of inputs. Operands are in the order of inputs.
    inputs: Vec<Input>,
    /// Whether the graphs may be specialised to operands that are constants or equal. Graphs of calls are shared by
    /// calls with other operands.
    specialise: bool,
}

impl Slim {
    fn of_call(node: &Node, wanted: &[bool]) -> Self {
        let callee = &node.regions[0];
        let passed: Vec<(usize, usize)> =
            callee.outputs().iter().enumerate().filter_map(|(i, &it)| Some((i, input_of(callee, it)?))).collect();
        let results = kept(wanted.iter().copied(), &passed);
        Self {
            first: 0,
            carried: 0,
            fixed: Vec::new(),
            outputs: vec![results.clone()],
            results,
            passed,
            control: Control::of(node).expect("a call has a region"),
            inputs: Vec::new(),
            specialise: false,
        }
    }

    fn of_branch(node: &Node, used: &[bool]) -> Self {
        let [yes, no] = [&node.regions[0], &node.regions[1]];
        let both = yes.outputs().iter().zip(no.outputs()).enumerate();
        let passed = both.filter_map(|(i, (&a, &b))| {
            let input = input_of(yes, a)?;
            (input_of(no, b) == Some(input)).then_some((i, input + 1))
        });
        let passed: Vec<(usize, usize)> = passed.collect();
        let results = kept(node.outputs.iter().map(|it| used[it.0 as usize]), &passed);
        Self {
            first: 1,
            carried: 0,
            fixed: Vec::new(),
            outputs: vec![results.clone(), results.clone()],
            results,
            passed,
            control: Control::Branch,
            inputs: Vec::new(),
            specialise: true,
        }
    }

    fn of_while(node: &Node, at: Loop, used: &[bool]) -> Self {
        let carries = at.carries;
        let [condition, body] = [&node.regions[0], &node.regions[1]];
        let is_used = |result: usize| used[node.outputs[result].0 as usize];
        let series = body.outputs().len() - carries;
        let mut rows: Vec<usize> = (0..series).filter(|&it| is_used(carries + 1 + it)).collect();
        if rows.is_empty() && series > 0 && is_used(carries) {
            rows.push(0);
        }
        let kept_rows: Vec<usize> = rows.map_vec(|it| carries + it);
        let asked = needed(condition, condition.outputs());
        let (fixed, stay) = live_carries(body, carries, &kept_rows, |it| is_used(it) || asked[it]);
        let mut results = fixed.clone();
        if !rows.is_empty() {
            results.push(carries);
            results.extend(rows.iter().map(|it| carries + 1 + it));
        }
        let outputs = vec![vec![0], [&fixed[..], &kept_rows].concat()];
        let passed = stay.into_iter().map(|it| (it, it)).collect();
        let control = Control::Loop(Loop { carries: fixed.len(), ..at });
        Self {
            first: 0,
            carried: carries,
            fixed,
            outputs,
            results,
            passed,
            control,
            inputs: Vec::new(),
            specialise: true,
        }
    }

    fn of_scan(node: &Node, at: Loop, used: &[bool]) -> Self {
        let (body, carries) = (&node.regions[0], at.carries);
        let is_used = |result: usize| used[node.outputs[result].0 as usize];
        let rows: Vec<usize> = (carries..body.outputs().len()).filter(|&it| is_used(it)).collect();
        let (live, stay) = live_carries(body, carries, &rows, is_used);
        let outputs = [&live[..], &rows].concat();
        let wanted: Vec<ValueId> = outputs.map_vec(|&it| body.outputs()[it]);
        let needs = needed(body, &wanted);
        let elements: Vec<usize> = at.elements().filter(|&it| needs[it]).collect();
        Self {
            first: at.first_carry(),
            carried: at.invariants(),
            control: Control::Loop(Loop { carries: live.len(), sequences: elements.len(), ..at }),
            fixed: [&live[..], &elements].concat(),
            results: outputs.clone(),
            outputs: vec![outputs],
            passed: stay.into_iter().map(|it| (it, at.first_carry() + it)).collect(),
            inputs: Vec::new(),
            specialise: true,
        }
    }

    /// Determines the mapping of inputs.
    fn choose_operands(&mut self, graph: &Graph, node: &Node, operands: &[ValueId]) {
        let count = node.regions[0].inputs().len();
        let mut needs = vec![false; count];
        for (region, outputs) in node.regions.iter().zip(&self.outputs) {
            let outputs: Vec<ValueId> = outputs.map_vec(|&it| region.outputs()[it]);
            needs.iter_mut().zip(needed(region, &outputs)).for_each(|(all, one)| *all |= one);
        }
        let carried = |it: usize| it < self.carried;
        let choose = |input: usize| {
            if self.fixed.contains(&input) {
                return Input::Fixed;
            }
            if !needs[input] {
                return Input::Unused;
            }
            let operand = operands[self.first + input];
            let ty = node.regions[0].ty(node.regions[0].inputs()[input]);
            if self.specialise
                && graph.ty(operand) == ty
                && let Some(constant) = graph.producer(operand).filter(|it| is_small_constant(it))
            {
                return Input::Constant(constant.op, constant.attrs.clone());
            }
            // The first input with this operand replaces the others.
            let candidates = if self.specialise && !carried(input) { 0..input } else { 0..0 };
            let same = candidates.into_iter().find(|&other| {
                let free = !self.fixed.contains(&other) && needs[other] && !carried(other);
                free && operands[self.first + other] == operand
            });
            Input::Operand(self.first + same.unwrap_or(input))
        };
        self.inputs = (0..count).map(choose).collect();
    }

    /// Returns whether the node changes.
    fn changes(&self, node: &Node) -> bool {
        let stays = |(i, input): (usize, &Input)| match input {
            Input::Fixed => true,
            Input::Operand(operand) => *operand == self.first + i,
            Input::Unused | Input::Constant(..) => false,
        };
        self.results.len() != node.outputs.len()
            || self.control.attrs() != node.attrs
            || !self.inputs.iter().enumerate().all(stays)
    }

    /// Builds the new node and returns the values that replace the results of the old one.
    fn apply(
        self,
        rewriter: &mut Rewriter<'_>,
        from: &Graph,
        node: &Node,
        operands: &[ValueId],
        context: &PassContext,
        shared: &mut Shared,
    ) -> Values {
        // An unused result is removed; any value can replace it.
        let mut values: Vec<Option<ValueId>> = vec![None; node.outputs.len()];
        for &(result, operand) in &self.passed {
            values[result] = Some(operands[operand]);
        }
        if !self.results.is_empty() {
            let mut taken: SmallVec<[ValueId; 3]> = operands[..self.first].into();
            taken.extend(self.fixed.iter().map(|it| operands[self.first + it]));
            taken.extend(self.free_inputs().map(|it| operands[self.first + it]));
            let mut new = Node { inputs: taken, attrs: self.control.attrs(), regions: SmallVec::new(), ..node.clone() };
            for (region, outputs) in node.regions.iter().zip(&self.outputs) {
                let key = (Arc::as_ptr(region), outputs.clone(), self.inputs.clone());
                let made = shared.entry(key).or_insert_with(|| Arc::new(self.region(region, outputs, context)));
                new.regions.push(made.clone());
            }
            let types: Vec<Type> = self.results.map_vec(|&it| from.ty(node.outputs[it]).clone());
            let results = rewriter.add(new, types);
            for (&result, value) in self.results.iter().zip(results) {
                values[result].get_or_insert(value);
            }
        }
        values.into_iter().map(|it| it.unwrap_or(ValueId(u32::MAX))).collect()
    }

    /// Returns inputs with a separate operand, after the fixed ones.
    fn free_inputs(&self) -> impl Iterator<Item = usize> + '_ {
        let own = |(i, it): (usize, &Input)| (*it == Input::Operand(self.first + i)).then_some(i);
        self.inputs.iter().enumerate().filter_map(own)
    }

    /// Rebuilds a graph of the node with other inputs and fewer outputs.
    fn region(&self, region: &Graph, outputs: &[usize], context: &PassContext) -> Graph {
        let mut cut = region.clone();
        cut.set_outputs(outputs.iter().map(|&it| region.outputs()[it]));
        let cut = Dce.run(&cut, context).into_owned();
        let mut out = Graph::new(region.name());
        let mut map = vec![ValueId(u32::MAX); cut.inputs().len()];
        for input in self.fixed.iter().copied().chain(self.free_inputs()) {
            map[input] = out.add_input_like(&cut, cut.inputs()[input]);
        }
        for (i, input) in self.inputs.iter().enumerate() {
            match input {
                Input::Constant(op, attrs) => {
                    let id = out.add_node(Node::new(*op, attrs.clone(), []), [cut.ty(cut.inputs()[i]).clone()]);
                    map[i] = out.node(id).outputs[0];
                }
                Input::Operand(operand) => map[i] = map[operand - self.first],
                Input::Unused | Input::Fixed => {}
            }
        }
        let results = out.inline(&cut, &map);
        out.set_outputs(results);
        out
    }
}

/// Returns the results that are used and not passed through.
fn kept(wanted: impl Iterator<Item = bool>, passed: &[(usize, usize)]) -> Vec<usize> {
    let kept = |&(i, wanted): &(usize, bool)| wanted && !passed.iter().any(|it| it.0 == i);
    wanted.enumerate().filter(kept).map(|it| it.0).collect()
}

/// Returns the position of an input if the value is one.
fn input_of(graph: &Graph, value: ValueId) -> Option<usize> {
    match graph.value(value).def {
        Def::Input(at) => Some(at as usize),
        Def::Result(..) => None,
    }
}

/// Returns the carries that change and are live, and those that never change.
fn live_carries(
    body: &Graph,
    carries: usize,
    rows: &[usize],
    wanted: impl Fn(usize) -> bool,
) -> (Vec<usize>, Vec<usize>) {
    let stays = |it: usize| input_of(body, body.outputs()[it]) == Some(it);
    let rows: Vec<ValueId> = rows.map_vec(|&it| body.outputs()[it]);
    let asked = needed(body, &rows);
    let mut live: Vec<bool> = (0..carries).map(|it| !stays(it) && (wanted(it) || asked[it])).collect();
    loop {
        let outputs: Vec<ValueId> = (0..carries).filter(|&it| live[it]).map(|it| body.outputs()[it]).collect();
        let needs = needed(body, &outputs);
        let before = live.clone();
        (0..carries).for_each(|it| live[it] |= !stays(it) && needs[it]);
        if live == before {
            return ((0..carries).filter(|&it| live[it]).collect(), (0..carries).filter(|&it| stays(it)).collect());
        }
    }
}

/// Returns the inputs on which outputs, and nodes with effects, depend.
fn needed(graph: &Graph, outputs: &[ValueId]) -> Vec<bool> {
    let mut used = vec![false; graph.value_count()];
    outputs.iter().for_each(|it| used[it.0 as usize] = true);
    for (_, node) in graph.nodes().rev() {
        if node.outputs.is_empty() || node.outputs.iter().any(|it| used[it.0 as usize]) {
            node.inputs.iter().for_each(|it| used[it.0 as usize] = true);
        }
    }
    graph.inputs().map_vec(|it| used[it.0 as usize])
}

fn is_small_constant(node: &Node) -> bool {
    dialect().literal_of(node).is_some_and(|it| it.bytes().len() <= LARGEST_CONSTANT)
}
