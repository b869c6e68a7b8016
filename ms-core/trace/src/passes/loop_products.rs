//! Replaces the products that a loop accumulates by one product after it.

use crate::trace;
use ms_compile::optimize::{Pass, PassContext};
use ms_ir::MapVec;
use ms_ir::{ContractionRanks, Graph, Node, Rewriter, Type, ValueId, Values, rewrite};
use ms_ops::ops::{ADD, Control, Loop, Lowering, PERMUTE, PermuteAttrs, definition, sum_of_products};
use ms_ops::tensor::Dim;
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use std::sync::Arc;

/// Combines the products that a loop adds to a carry, one in each iteration, into one product after the loop. Its
/// reduction dimensions include the iterations. An example is the weight gradient of a recurrent layer. The operands
/// are the sequences that the loop reads and stacks of values that it computes. The order of the sum changes, so the
/// pass runs in relaxed precisions only.
pub struct LoopProducts;

impl Pass for LoopProducts {
    fn name(&self) -> &'static str {
        "loop_products"
    }

    fn run<'g>(&self, graph: &'g Graph, context: &PassContext) -> Cow<'g, Graph> {
        if !context.precision.is_relaxed() {
            return Cow::Borrowed(graph);
        }
        rewrite(graph, |rewriter, node, operands| {
            let at = Control::of(node)?.as_loop()?;
            let length = at.length().filter(|&it| it > 1)?;
            let [body] = &node.regions[..] else { return None };
            let mut stacks = Stacks::new(body, &at);
            let uses = uses(body);
            let sums: Vec<Sum> = (0..at.carries).filter_map(|it| Sum::of(body, it, &uses, &mut stacks)).collect();
            if sums.is_empty() {
                return None;
            }
            let results = loop_with(rewriter, node, operands, &stacks, (length, &sums));
            let mut values = Values::from_slice(&results[..node.outputs.len()]);
            let stacked = &results[at.carries..];
            for sum in &sums {
                let whole = |it: &Factor| match it.source {
                    Source::Sequence(input) => operands[at.first_carry() + input],
                    Source::Stack(stack) => stacked[stack],
                };
                let inputs = [operands[at.first_carry() + sum.carry], whole(&sum.factors[0]), whole(&sum.factors[1])];
                values[sum.carry] = sum.emit_after(rewriter, node, inputs)?;
            }
            Some(values)
        })
    }
}

/// Returns the number of uses of each value of a graph.
fn uses(graph: &Graph) -> Vec<usize> {
    let mut uses = vec![0; graph.value_count()];
    let read = graph.nodes().flat_map(|(_, node)| &node.inputs).chain(graph.outputs());
    read.for_each(|it| uses[it.0 as usize] += 1);
    uses
}

/// The location of a factor's elements outside the loop.
#[derive(Clone, Copy)]
enum Source {
    /// The sequence whose element is this input of the body.
    Sequence(usize),
    /// The stack with this number.
    Stack(usize),
}

/// A factor of the product of an iteration.
struct Factor {
    source: Source,
    /// The axis of an element that corresponds to each axis of the factor.
    axes: SmallVec<[usize; 4]>,
}

/// The values that a loop stacks.
struct Stacks<'g> {
    body: &'g Graph,
    /// The inputs of the body that are elements of sequences.
    elements: std::ops::Range<usize>,
    values: Vec<ValueId>,
    /// The number of values that the loop stacks already.
    own: usize,
    /// The number of bytes per iteration that additional stacks may take. It starts as the size of the elements that
    /// the loop reads and stacks already.
    room: usize,
}

impl<'g> Stacks<'g> {
    fn new(body: &'g Graph, at: &Loop) -> Self {
        let values = body.outputs()[at.carries..].to_vec();
        let known = body.inputs()[at.elements()].iter().chain(&values);
        let room = known.filter_map(|&it| bytes(body.ty(it))).sum();
        Self { body, elements: at.elements(), own: values.len(), values, room }
    }

    /// Returns the location of a value outside the loop, stacking the value if there is room.
    fn source(&mut self, value: ValueId) -> Option<Source> {
        if let Some(input) = self.body.inputs().iter().position(|&it| it == value) {
            return self.elements.contains(&input).then_some(Source::Sequence(input));
        }
        let stack = self.values.iter().position(|&it| it == value);
        stack.map(Source::Stack).or_else(|| {
            self.room = self.room.checked_sub(bytes(self.body.ty(value))?)?;
            self.values.push(value);
            Some(Source::Stack(self.values.len() - 1))
        })
    }
}

fn bytes(ty: &Type) -> Option<usize> {
    Some(ty.numel()?.saturating_mul(ty.dtype.size()))
}

/// A carry to which each iteration adds a product.
struct Sum {
    carry: usize,
    factors: [Factor; 2],
    ranks: ContractionRanks,
}

impl Sum {
    /// Returns the sum of a carry to which a product is added, if neither has another use.
    fn of(body: &Graph, carry: usize, uses: &[usize], stacks: &mut Stacks<'_>) -> Option<Self> {
        let (before, after) = (body.inputs()[carry], body.outputs()[carry]);
        let is_used_once = |it: ValueId| uses[it.0 as usize] == 1;
        let add = body.producer(after).filter(|it| it.op == ADD.op())?;
        let [a, b] = add.inputs[..] else { return None };
        let product = if a == before { b } else { a };
        let is_sum = [a, b].contains(&before) && a != b && [before, after, product].into_iter().all(is_used_once);
        let ty = body.ty(product);
        if !is_sum || ty != body.ty(before) || !ty.dtype.is_float() {
            return None;
        }
        let node = body.producer(product)?;
        let Lowering::Contraction(ranks) = definition(node.op).lowering else { return None };
        let ranks = ranks(&node.attrs, body.ty(node.inputs[0]).rank());
        let same_batch = |it: &Type| it.dims.get(..ranks.batch) == Some(&body.ty(node.inputs[0]).dims[..ranks.batch]);
        if !same_batch(body.ty(node.inputs[1])) {
            return None;
        }
        let mut factor = |value: ValueId| {
            let (element, axes) = permuted(body, value);
            Some(Factor { source: stacks.source(element)?, axes })
        };
        Some(Self { carry, factors: [factor(node.inputs[0])?, factor(node.inputs[1])?], ranks })
    }

    /// Emits the sum after the loop: the first value of the carry plus the products of all iterations.
    fn emit_after(&self, rewriter: &mut Rewriter<'_>, node: &Node, inputs: [ValueId; 3]) -> Option<ValueId> {
        let types: Vec<Type> = inputs.map_vec(|&it| rewriter.graph().ty(it).clone());
        let axes = [&self.factors[0].axes[..], &self.factors[1].axes];
        let sum = |it: &[_]| Ok(vec![sum_of_products(&it[0], [&it[1], &it[2]], axes, self.ranks)]);
        let traced = trace::build("sum_of_products", &types, sum).ok()?;
        Some(rewriter.splice_at(&traced, &inputs, node.location)[0])
    }
}

/// Strips the permutation from a value and returns the operand and the axes.
fn permuted(graph: &Graph, value: ValueId) -> (ValueId, SmallVec<[usize; 4]>) {
    match graph.producer(value).filter(|it| it.op == PERMUTE.op()) {
        Some(node) => (node.inputs[0], PermuteAttrs::of(&node.attrs).axes().sizes().into_iter().collect()),
        None => (value, (0..graph.ty(value).rank()).collect()),
    }
}

/// Rebuilds the loop with more stacks. Carries that do not change replace the sums.
fn loop_with(
    rewriter: &mut Rewriter<'_>,
    node: &Node,
    operands: &[ValueId],
    stacks: &Stacks<'_>,
    (length, sums): (usize, &[Sum]),
) -> Values {
    let (body, carries) = (stacks.body, stacks.elements.start);
    let mut new = Graph::clone(body);
    let mut outputs = body.outputs().to_vec();
    sums.iter().for_each(|it| outputs[it.carry] = body.inputs()[it.carry]);
    outputs.extend_from_slice(&stacks.values[stacks.own..]);
    new.set_outputs(outputs);
    let stacked = |&it: &ValueId| body.ty(it).stacked(Dim::new(length));
    let types = body.outputs()[..carries].iter().map(|&it| body.ty(it).clone());
    let types: Vec<Type> = types.chain(stacks.values.iter().map(stacked)).collect();
    rewriter.add(Node { inputs: operands.into(), regions: smallvec![Arc::new(new)], ..node.clone() }, types)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::optimize;
    use ms_ir::Precision;
    use ms_ir::with_element;
    use ms_ops::ops::{CONTRACT, evaluate_graph, parse_graph, verify};
    use ms_ops::tensor::{Array, DType, Element, Scalar};

    /// Small integers, with exact sums and products.
    fn numbers(ty: &Type, seed: usize) -> Array {
        let mut out = Array::zeros(&ty.shape().expect("sizes are known"), ty.dtype);
        with_element!(ty.dtype, T => {
            for (at, to) in out.as_mut_slice::<T>().iter_mut().enumerate() {
                *to = T::from_scalar(Scalar::Int(((at * 7 + seed * 5) % 9) as i64 - 4));
            }
        });
        out
    }

    fn run(graph: &Graph) -> Vec<Vec<Scalar>> {
        verify(graph).unwrap_or_else(|error| panic!("{error}\n{graph}"));
        let inputs: Vec<Array> =
            graph.inputs().iter().enumerate().map(|(seed, &it)| numbers(graph.ty(it), seed)).collect();
        let results = evaluate_graph(graph, &inputs.iter().collect::<Vec<_>>()).expect("the graph evaluates");
        results.iter().map(|it| it.on_host().expect("the elements are readable").scalars()).collect()
    }

    /// Checks whether a loop's products are combined, which changes no exact result.
    #[track_caller]
    fn check(body: &str, call: &str, is_one: bool) {
        let text = format!("{body}\n{call}");
        let graph = parse_graph(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let optimized = |precision| optimize(graph.clone(), &PassContext { precision, ..PassContext::default() });
        let found = optimized(Precision::Highest);
        let products = found.nodes().filter(|(_, it)| it.op == CONTRACT.op()).count();
        assert_eq!(products > 0, is_one, "{found}");
        assert_eq!(run(&found), run(&graph), "{found}");
        let strict = optimized(Precision::Strict);
        assert!(!strict.nodes().any(|(_, it)| it.op == CONTRACT.op()), "{strict}");
    }

    const CALL: &str =
        "graph @f(%c: f32[3, 4], %h: f32[2, 3], %x: f32[5, 2, 3], %y: f32[5, 2, 4]) -> (f32[3, 4], f32[2, 3]) {
          %sum, %last = scan @body %c, %h, %x, %y
            {length = 5, carries = 2, sequences = 2, reverse = REVERSE} : f32[3, 4], f32[2, 3]
          return %sum, %last
        }";

    #[test]
    fn products_of_sequences_and_of_what_the_loop_computes() {
        for (factor, is_one) in [
            // An element of a sequence, a value that the loop stacks, and the carry's first value.
            ("%x", true),
            ("%next", true),
            ("%h", false),
        ] {
            for reverse in ["false", "true"] {
                let body = format!(
                    "graph @body(%c: f32[3, 4], %h: f32[2, 3], %x: f32[2, 3], %y: f32[2, 4]) -> (f32[3, 4], f32[2, 3]) {{
                       %next = sub %x, %h : f32[2, 3]
                       %rows = permute {factor} {{axes = [1, 0]}} : f32[3, 2]
                       %product = matmul %rows, %y : f32[3, 4]
                       %sum = add %c, %product : f32[3, 4]
                       return %sum, %next
                     }}"
                );
                check(&body, &CALL.replace("REVERSE", reverse), is_one);
            }
        }
    }

    #[test]
    fn batches_and_several_summed_axes() {
        let call = |of_c: &str, of_x: &str, of_y: &str| {
            format!(
                "graph @f(%c: f32{of_c}, %x: f32[3, {of_x}], %y: f32[3, {of_y}]) -> (f32{of_c}) {{
                   %sum = scan @body %c, %x, %y {{length = 3, carries = 1, sequences = 2, reverse = false}} : f32{of_c}
                   return %sum
                 }}"
            )
        };
        let body = |of_c: &str, of_x: &str, of_y: &str, product: &str| {
            format!(
                "graph @body(%c: f32{of_c}, %x: f32[{of_x}], %y: f32[{of_y}]) -> (f32{of_c}) {{
                   %product = {product} : f32{of_c}
                   %sum = add %product, %c : f32{of_c}
                   return %sum
                 }}"
            )
        };
        for (c, x, y, product) in [
            ("[2, 3, 4]", "2, 3, 5", "2, 5, 4", "matmul %x, %y"),
            ("[2, 3, 2]", "2, 3, 2, 4", "2, 2, 4, 2", "contract %x, %y {batch = 1, summed = 2}"),
            ("[3, 2]", "3", "2", "contract %x, %y {batch = 0, summed = 0}"),
            ("[]", "4", "4", "contract %x, %y {batch = 0, summed = 1}"),
        ] {
            check(&body(c, x, y, product), &call(c, x, y), true);
        }
    }

    #[test]
    fn carries_that_something_else_reads() {
        for lines in [
            // The carry, the product and the sum.
            "%next = add %h, %h : f32[2, 3]
             %square = mul %c, %c : f32[3, 4]
             %sum = add %square, %product : f32[3, 4]",
            "%next = add %h, %h : f32[2, 3]
             %twice = add %product, %product : f32[3, 4]
             %sum = add %c, %twice : f32[3, 4]",
            "%sum = add %c, %product : f32[3, 4]
             %columns = slice %sum {starts = [0, 0], sizes = [2, 3], steps = [1, 1]} : f32[2, 3]
             %next = add %h, %columns : f32[2, 3]",
        ] {
            let body = format!(
                "graph @body(%c: f32[3, 4], %h: f32[2, 3], %x: f32[2, 3], %y: f32[2, 4]) -> (f32[3, 4], f32[2, 3]) {{
                   %rows = permute %x {{axes = [1, 0]}} : f32[3, 2]
                   %product = matmul %rows, %y : f32[3, 4]
                   {lines}
                   return %sum, %next
                 }}"
            );
            check(&body, &CALL.replace("REVERSE", "false"), false);
        }
    }

    /// A stack larger than all values that the loop reads and stacks is not created.
    #[test]
    fn memory_of_stacks() {
        let body = "graph @body(%c: f32[1, 1], %x: f32[1, 2]) -> (f32[1, 1]) {
              %row = broadcast_to %x {shape = [9, 2]} : f32[9, 2]
              %all = reshape %row {shape = [1, 18]} : f32[1, 18]
              %exp = square %all : f32[1, 18]
              %columns = permute %exp {axes = [1, 0]} : f32[18, 1]
              %product = matmul %exp, %columns : f32[1, 1]
              %sum = add %c, %product : f32[1, 1]
              return %sum
            }";
        let call = "graph @f(%c: f32[1, 1], %x: f32[3, 1, 2]) -> (f32[1, 1]) {
              %sum = scan @body %c, %x {length = 3, carries = 1, sequences = 1, reverse = false} : f32[1, 1]
              return %sum
            }";
        check(body, call, false);
        assert_eq!(bytes(&Type::of(DType::F32, &[1, 18])), Some(72));
    }
}
