//! The verifier of graphs: their structure, and every node against its op's definition.

use crate::ops::{FORMULA, Lowering, OpDef, Regions, Types, by_number, definition};
use crate::tensor::{Attrs, Dim, Op, Type};
use ms_ir::error::{Code, Error, Result};
use ms_ir::{Graph, Node, defects, subgraphs, verify_structure, verify_structure_of_one};
use rustc_hash::FxHashMap;
use std::ops::RangeInclusive;

/// Infers the types of an op's results from its attributes, its regions and the types of its operands. Attributes are
/// checked against their declarations before any rule of the op reads them.
///
/// # Errors
/// The errors of [`AttrInfo::check`](crate::tensor::AttrInfo::check) and of the op's type rule.
pub fn infer(def: &OpDef, attrs: &Attrs, regions: &Regions, inputs: &[&Type]) -> Result<Types> {
    let in_ranges = || def.info.attrs.iter().zip(attrs.as_slice()).try_for_each(|(info, attr)| info.check(attr));
    let results = in_ranges().and_then(|()| match &def.lowering {
        Lowering::Regions(rule) if regions.len() == rule.count => (rule.infer)(attrs, regions, inputs),
        // The type rule of such an op is an error without regions.
        Lowering::Regions(_) => (def.infer)(attrs, inputs),
        _ => inputs.iter().try_for_each(|it| known_size(it)).and_then(|()| (def.infer)(attrs, inputs)),
    });
    let sized = |results: Types| results.iter().try_for_each(Type::check_size).map(|()| results);
    results
        .and_then(sized)
        .map_err(|error| error.with_op(def.name()).with_operands(inputs.iter().map(|it| it.to_string())))
}

fn known_size(ty: &Type) -> Result<()> {
    match ty.dims.contains(&Dim::DYNAMIC) {
        false => Ok(()),
        true => Err(Error::new(Code::Shape, format!("{ty} has a size that only running decides"))),
    }
}

/// Verifies a graph and its subgraphs. Checks the structure (see [`verify_structure`]), and every node against the
/// definition of its op, including the inferred types of its results.
///
/// # Errors
/// [`Code::Verify`] with all defects. Types are checked only if the structure is valid.
pub fn verify(graph: &Graph) -> Result<()> {
    verify_structure(graph)?;
    let mut found = Vec::new();
    let mut operands = FxHashMap::default();
    for region in subgraphs(graph) {
        check(region, &mut operands, &mut found);
    }
    check(graph, &mut operands, &mut found);
    defects(graph, found)
}

/// Applies [`verify`] to a graph without its subgraphs.
///
/// # Errors
/// [`Code::Verify`] with all defects.
pub fn verify_one(graph: &Graph) -> Result<()> {
    verify_structure_of_one(graph)?;
    let mut found = Vec::new();
    check(graph, &mut FxHashMap::default(), &mut found);
    defects(graph, found)
}

/// Returns the numbers of operands that the rules of an op accept, derived from its samples. An op checks the number
/// itself if it has no maximum, or depends on attributes and regions.
pub fn operand_counts(def: &OpDef) -> RangeInclusive<usize> {
    let samples = (def.samples)();
    let counts = || samples.iter().map(|it| it.inputs.len());
    let is_bounded = match &def.lowering {
        Lowering::Map(_) => def.info.number != FORMULA.info.number,
        Lowering::Composite(_)
        | Lowering::Contraction(_)
        | Lowering::Gather(_)
        | Lowering::Generate(_)
        | Lowering::OfImages(_)
        | Lowering::Position(_)
        | Lowering::Reduce(_) => true,
        _ => false,
    };
    let most = counts().max().filter(|_| is_bounded).unwrap_or(usize::MAX);
    counts().min().unwrap_or(0)..=most
}

fn check(graph: &Graph, operands: &mut FxHashMap<u16, RangeInclusive<usize>>, found: &mut Vec<Error>) {
    let sizes = graph.inputs().iter().map(|&it| graph.ty(it).check_size());
    found.extend(sizes.filter_map(Result::err).map(|error| error.within(format!("`@{}`", graph.name()))));
    for (id, node) in graph.nodes() {
        if let Err(error) = check_node(graph, node, operands) {
            let at = format!("`@{}`, node {}", graph.name(), id.0);
            let error = error.with_op(node.op.name()).within(at);
            found.push(match node.location {
                Some(location) => error.at(location),
                None => error,
            });
        }
    }
}

fn check_node(graph: &Graph, node: &Node, operands: &mut FxHashMap<u16, RangeInclusive<usize>>) -> Result<()> {
    let Some(def) = by_number(node.op.number()) else {
        return refuse(format!("no op has number {}", node.op.number()));
    };
    let counts = operands.entry(node.op.number()).or_insert_with(|| operand_counts(def));
    let inputs: Vec<&Type> = node.inputs.iter().map(|&id| graph.ty(id)).collect();
    let outputs: Vec<Type> = node.outputs.iter().map(|&id| graph.ty(id).clone()).collect();
    fits_def(def, counts, &node.attrs, &node.regions, &inputs, &outputs)
}

/// Checks that attributes and regions have the kinds that an op declares, and that results have the types that it
/// infers for these operands.
///
/// # Errors
/// [`Code::Verify`], or the errors of the op.
pub fn fits(op: Op, attrs: &Attrs, regions: &Regions, inputs: &[&Type], outputs: &[Type]) -> Result<()> {
    let def = definition(op);
    fits_def(def, &operand_counts(def), attrs, regions, inputs, outputs)
}

fn fits_def(
    def: &OpDef,
    operands: &RangeInclusive<usize>,
    attrs: &Attrs,
    regions: &Regions,
    inputs: &[&Type],
    outputs: &[Type],
) -> Result<()> {
    let wanted = match &def.lowering {
        Lowering::Regions(rule) => rule.count,
        _ => 0,
    };
    if regions.len() != wanted {
        return refuse(format!("{} regions, not {wanted}", regions.len()));
    }
    if attrs.as_slice().len() != def.info.attrs.len() {
        let names: Vec<&str> = def.info.attrs.iter().map(|it| it.name).collect();
        return refuse(format!("{} attributes for the names {names:?}", attrs.as_slice().len()));
    }
    if !operands.contains(&inputs.len()) {
        let bound = if inputs.len() < *operands.start() { operands.start() } else { operands.end() };
        return refuse(format!("{} operands, not {bound}", inputs.len()));
    }
    let wanted = infer(def, attrs, regions, inputs)?;
    if !outputs.iter().eq(&wanted) {
        return refuse(format!("results are {outputs:?}, but the op gives {wanted:?}"));
    }
    Ok(())
}

fn refuse(message: String) -> Result<()> {
    Err(Error::new(Code::Verify, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::parse_graph;

    #[test]
    fn nodes_fit_their_ops() {
        let main = |body: &str| format!("graph @main(%0: f32[2], %1: f32[3], %2: i32[2]) -> () {{ {body} return }}");
        let callee = "graph @f(%0: f32[2]) -> (f32[2]) { return %0 }";
        let cases = [
            (main("%3 = add %0, %0 : f32[2]"), ""),
            (main("%3 = add %0, %1 : f32[2]"), "[MS100]: `add`: shapes [2] and [3] do not broadcast"),
            (main("%3 = add %0, %2 : f32[2]"), "[MS101]: `add`: dtypes f32 and i32 differ"),
            (main("%3 = add %0, %0 : f32[3]"), "`add`: results are [f32[3]], but the op gives [f32[2]]"),
            (main("%3 = add %0 : f32[2]"), "`add`: 1 operands, not 2"),
            (main("%3 = add %0, %0, %0 : f32[2]"), "`add`: 3 operands, not 2"),
            (main("%3 = cast %0 {to = 1} : f32[2]"), "`cast`: attribute `to` is of another kind than Int(1)"),
            (
                callee.to_string() + &main("%3 = while @f @f %0 {carries = 1.0} : f32[2]"),
                "`while`: attribute `carries` is of another kind than Float(1.0)",
            ),
            (main("%3 = reshape %0 {shape = [3]} : f32[3]"), "`reshape`: f32[2] cannot take the shape [3]"),
            (callee.to_string() + &main("%3 = call @f %0 : f32[2]"), ""),
            (callee.to_string() + &main("%3 = call @f %1 : f32[2]"), "`call`: `@f` takes [f32[2]], not [f32[3]]"),
            (callee.to_string() + &main("%3 = call @f @f %0 : f32[2]"), "`call`: 2 regions, not 1"),
            (callee.to_string() + &main("%3 = add @f %0, %0 : f32[2]"), "`add`: 1 regions, not 0"),
        ];
        for (text, want) in cases {
            let verdict = verify(&parse_graph(&text).expect(&text));
            match verdict {
                Ok(()) => assert_eq!(want, "", "{text}"),
                Err(error) => assert!(!want.is_empty() && error.to_string().contains(want), "{error}\n{want}"),
            }
        }
    }

    #[test]
    fn attributes_are_in_their_ranges() {
        let pooled = |op: &str, attrs: &str| {
            format!("graph @f(%0: f32[1, 1, 6, 4]) -> () {{ %1 = {op} %0 {{{attrs}}} : f32[1, 1, 3, 2] return }}")
        };
        let mean = |stride: &str, count: &str| {
            let padding = "before = [0, 0], after = [0, 0]";
            let attrs = format!("kernel = [2, 2], stride = {stride}, {padding}, count = {count}, count_pad = true");
            pooled("avg_pool", &attrs)
        };
        let largest = |stride: &str, dilation: &str| {
            let padding = "before = [0, 0], after = [0, 0]";
            pooled("max_pool", &format!("kernel = [2, 2], stride = {stride}, dilation = {dilation}, {padding}"))
        };
        let loss = |reduction: &str| {
            let attrs = format!("reduction = {reduction}, ignored = false, ignore_index = 0, label_smoothing = 0.0");
            format!(
                "graph @f(%0: f32[2, 3], %1: i64[2]) -> () {{ %2, %3 = nll_loss %0, %1 {{{attrs}}} : f32[], f32[] return }}"
            )
        };
        let even = |count: &str, sizes: &str| {
            let attrs = format!("count = {count}, sizes = {sizes}");
            let result = format!("f32[1, 2, {}", &sizes[1..]);
            format!(
                "graph @f(%0: f32[1, 2, 3]) -> () {{ %1 = adaptive_avg_pool_grad %0 {{{attrs}}} : {result} return }}"
            )
        };
        let attention = |q: &str, result: &str| {
            let attrs = "causal = false, scaled = false, scale = 1.0, queries = 2";
            let inputs = format!("%0: {q}, %1: f32[3, 2], %2: f32[3, 2]");
            format!("graph @f({inputs}) -> () {{ %3 = blocked_attention %0, %1, %2 {{{attrs}}} : {result} return }}")
        };
        let sorted = |axis: &str| {
            let attrs = format!("axis = {axis}, descending = false");
            format!("graph @f(%0: f32[2]) -> () {{ %1, %2 = sort %0 {{{attrs}}} : f32[2], i64[2] return }}")
        };
        let cases = [
            (mean("[2, 2]", "[3, 2]"), ""),
            (mean("[2, 2]", "[4611686018, 4]"), "has no element"),
            (mean("[2, 2]", "[3, -2]"), "`count` is -2, but its numbers are from 0 to"),
            (mean("[2, -2]", "[3, 2]"), "`stride` is -2, but its numbers are from 0 to"),
            (mean("[2]", "[3, 2]"), "one entry for each of 2 spatial axes is needed"),
            (largest("[2, 2]", "[1, 1]"), ""),
            (largest("[-2, 2]", "[1, 1]"), "`stride` is -2, but its numbers are from 0 to"),
            (largest("[2, 2]", "[1, 9223372036854775807]"), "`dilation` is 9223372036854775807, but"),
            (loss("9"), "`reduction` is 9, but its numbers are from 0 to 3"),
            (loss("-1"), "`reduction` is -1, but its numbers are from 0 to 3"),
            (even("[3]", "[7]"), ""),
            (even("[3]", "[7, 5]"), "holds no gradients of [3] windows of [7, 5]"),
            (even("[2, 3]", "[7]"), "holds no gradients of [2, 3] windows of [7]"),
            (attention("f32[4, 2]", "f32[4, 2]"), ""),
            (attention("f32[2]", "f32[2]"), "attention of f32[2] has no axis of positions"),
            (sorted("0"), ""),
            (sorted("-1"), "`axis` is -1, but its numbers are from 0 to"),
            (sorted("-9223372036854775808"), "`axis` is -9223372036854775808, but"),
        ];
        for (text, want) in cases {
            match verify(&parse_graph(&text).unwrap_or_else(|error| panic!("{text}: {error}"))) {
                Ok(()) => assert_eq!(want, "", "{text}"),
                Err(error) => assert!(!want.is_empty() && error.to_string().contains(want), "{error}\n{want}"),
            }
        }
    }

    #[test]
    fn all_defects_are_listed_with_their_places() {
        let text = "
            graph @f(%0: f32[2]) -> (f32[3]) { %1 = add %0, %0 : f32[3] return %1 }
            graph @g(%0: f32[2]) -> (f32[3]) {
              %1 = call @f %0 : f32[3]
              %2 = add %1, %0 : f32[3]
              return %2
            }";
        let error = verify(&parse_graph(text).expect(text)).expect_err("two nodes are wrong").to_string();
        for want in
            ["graph `@g` is broken in 2 places", "in: `@f`, node 0", "in: `@g`, node 1", "operands: f32[3], f32[2]"]
        {
            assert!(error.contains(want), "{error}\n{want}");
        }
    }
}
