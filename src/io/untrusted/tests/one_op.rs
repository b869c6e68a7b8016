//! Generates exported functions of one op, with attributes and operands that no program writes.

use super::Random;
use crate::io::exported::{ExportedFunction, decode};
use crate::io::safetensors;
use ms_core::error::in_op;
use ms_core::ir::{Graph, Node, ValueId};
use ms_core::ops::{self, Lowering, OpDef};
use ms_core::tensor::{Attr, AttrKind, Attrs, DType, Dim, Literal, Scalar, Type};
use ms_core::{Code, Error, Result, Tensor};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The maximum number of elements of a value in a function that is called.
const CALLED: usize = 1 << 10;

/// The size of every symbol in calls.
const SIZE: usize = 3;

const INTS: [i64; 24] = [
    i64::MIN,
    i64::MIN + 1,
    i64::MIN + 5,
    i64::MIN + (1 << 32),
    i64::MAX,
    i64::MAX - 1,
    1 << 62,
    -(1 << 62),
    i32::MIN as i64,
    i32::MAX as i64,
    1 << 32,
    1 << 40,
    4_611_686_018,
    -3,
    -2,
    -1,
    0,
    1,
    2,
    3,
    4,
    7,
    9,
    64,
];

const FLOATS: [f64; 10] = [0.0, -0.0, 1.0, -1.0, 0.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308, 5e-324];

const TEXTS: [&str; 5] = ["", "x", "add", "\u{0}\"\\\n", "%0 = (((("];

fn one_of<T: Copy>(all: &[T], random: &mut Random) -> T {
    all[random.below(all.len())]
}

/// Generates a size: mostly small, else an expression or a size that no memory holds.
fn dim(random: &mut Random) -> Dim {
    let n = Dim::symbol("n");
    match random.below(12) {
        0 => n,
        1 => n * 2 - 1,
        2 => (n + 1) / 2,
        3 => n.smaller(Dim::symbol("m")),
        4 => Dim::signed(one_of(&INTS, random)) + n,
        5 => Dim::signed(one_of(&INTS, random).max(0)),
        _ => Dim::new(random.below(5)),
    }
}

fn ty(random: &mut Random) -> Type {
    let rank = random.below(5);
    Type::new(one_of(&DType::ALL, random), (0..rank).map(|_| dim(random)).collect())
}

/// Generates a value of any kind.
fn value(kind: AttrKind, random: &mut Random) -> Attr {
    match kind {
        AttrKind::Bool => Attr::Bool(random.below(2) == 0),
        AttrKind::Int | AttrKind::Number if random.below(2) == 0 => Attr::Int(one_of(&INTS, random)),
        AttrKind::Int => Attr::Int(random.below(6) as i64 - 1),
        AttrKind::Float | AttrKind::Number => Attr::Float(one_of(&FLOATS, random)),
        AttrKind::Size | AttrKind::Extent => dim(random).into(),
        AttrKind::Ints => Attr::Ints((0..random.below(5)).map(|_| one_of(&INTS, random)).collect()),
        AttrKind::Sizes | AttrKind::Extents => {
            Attr::from(&*(0..random.below(5)).map(|_| dim(random)).collect::<Vec<_>>())
        }
        AttrKind::DType => Attr::DType(one_of(&DType::ALL, random)),
        AttrKind::Str => Attr::from(one_of(&TEXTS, random)),
        AttrKind::Literal => {
            let (shape, dtype) = ([random.below(3), random.below(3)], one_of(&DType::ALL, random));
            let bytes = vec![1; shape.iter().product::<usize>() * dtype.size()];
            let shape = &shape[random.below(2)..];
            Literal::from_bytes(shape, dtype, bytes).map_or(Attr::Bool(true), Attr::Literal)
        }
    }
}

const KINDS: [AttrKind; 12] = [
    AttrKind::Bool,
    AttrKind::Int,
    AttrKind::Float,
    AttrKind::Number,
    AttrKind::Size,
    AttrKind::Extent,
    AttrKind::Ints,
    AttrKind::Sizes,
    AttrKind::Extents,
    AttrKind::DType,
    AttrKind::Str,
    AttrKind::Literal,
];

/// Mutates an attribute: a value of its kind, a changed list item, or a value of another kind.
fn changed(attr: &mut Attr, kind: AttrKind, random: &mut Random) {
    match (attr, random.below(12)) {
        (attr, 0) => *attr = value(one_of(&KINDS, random), random),
        (Attr::Ints(all), 1) => drop(all.pop()),
        (Attr::Ints(all), 2) => all.push(one_of(&INTS, random)),
        (Attr::Ints(all), 3..8) if !all.is_empty() => {
            let at = random.below(all.len());
            all[at] = one_of(&INTS, random);
        }
        (attr @ Attr::Ints(_), 8 | 9) if matches!(kind, AttrKind::Sizes | AttrKind::Extents) => {
            let Attr::Ints(all) = &*attr else { return };
            let mut dims: Vec<Dim> = all.iter().map(|&it| Dim::signed(it)).collect();
            let at = random.below(dims.len());
            if let Some(it) = dims.get_mut(at) {
                *it = dim(random);
            }
            *attr = Attr::from(&*dims);
        }
        (attr, _) => *attr = value(kind, random),
    }
}

fn change_types(types: &mut Vec<Type>, random: &mut Random) {
    let at = random.below(types.len());
    match (types.get_mut(at), random.below(8)) {
        (Some(it), 0) => it.dtype = one_of(&DType::ALL, random),
        (Some(it), 1) => it.dims.push(dim(random)),
        (Some(it), 2) => drop(it.dims.pop()),
        (Some(it), 3..6) if it.rank() > 0 => {
            let axis = random.below(it.rank());
            it.dims[axis] = dim(random);
        }
        (Some(_), 6) => drop(types.remove(at)),
        (Some(it), _) => *it = ty(random),
        (None, _) => types.push(ty(random)),
    }
}

/// Generates a graph for an op with regions: its results are its inputs, or have any type.
fn region(types: &[Type], random: &mut Random) -> Graph {
    let mut graph = Graph::new("f");
    let skipped = random.below(2).min(types.len());
    let inputs: Vec<ValueId> = types[skipped..].iter().map(|it| graph.add_input(it.clone())).collect();
    let count = random.below(inputs.len() + 1);
    graph.set_outputs(inputs.into_iter().take(count));
    graph
}

/// Generates the function of a case.
pub(super) fn function(random: &mut Random) -> Graph {
    let all: Vec<&'static OpDef> = ops::definitions().collect();
    let def = one_of(&all, random);
    let samples = (def.samples)();
    let (mut attrs, mut types) = match samples.get(random.below(samples.len())) {
        Some(it) => {
            let types = it.inputs.iter().map(|it| Type::of(it.dtype, &it.shape)).collect();
            (it.attrs.as_slice().to_vec(), types)
        }
        None => {
            let attrs = def.info.attrs.iter().map(|it| value(it.kind, random)).collect();
            (attrs, (0..random.below(4)).map(|_| ty(random)).collect::<Vec<_>>())
        }
    };
    for _ in 0..1 + random.below(3) {
        let at = random.below(attrs.len());
        match attrs.get_mut(at) {
            Some(attr) if random.below(4) > 0 => changed(attr, def.info.attrs[at].kind, random),
            _ => change_types(&mut types, random),
        }
    }
    let regions: Vec<Arc<Graph>> = match &def.lowering {
        Lowering::Regions(rule) => (0..rule.count).map(|_| Arc::new(region(&types, random))).collect(),
        _ => Vec::new(),
    };
    let (mut graph, folded) = (Graph::new("main"), random.below(3) == 0);
    let mut operand = |ty: &Type| match ty.shape().zip(ty.numel()).filter(|&(_, count)| folded && count < 100) {
        None => graph.add_input(ty.clone()),
        Some((shape, count)) => {
            let bytes = vec![1; count * ty.dtype.size()];
            let literal = Literal::from_bytes(&shape, ty.dtype, bytes);
            let literal = literal.unwrap_or_else(|_| Literal::scalar(Scalar::Int(1), ty.dtype));
            let ty = Type::of(literal.dtype(), literal.shape());
            let attrs = Attrs::new([Attr::Literal(literal)]);
            let node = Node::new(ops::CONSTANT.op(), attrs, []);
            let id = graph.add_node(node, [ty]);
            graph.node(id).outputs[0]
        }
    };
    let operands: Vec<ValueId> = types.iter().map(&mut operand).collect();
    let attrs = Attrs::new(attrs);
    let given: Vec<&Type> = operands.iter().map(|&it| graph.ty(it)).collect();
    // The verifier also infers types only after these two checks.
    let is_counted = ops::operand_counts(def).contains(&given.len());
    let results = if is_counted { in_op(|| ops::infer(def, &attrs, &regions, &given)).ok() } else { None };
    let results = results.unwrap_or_else(|| types.iter().take(1).cloned().collect());
    let mut node = Node::new(def.op(), attrs, operands);
    node.regions = regions.into_iter().collect();
    let id = graph.add_node(node, results);
    let outputs = graph.node(id).outputs.clone();
    graph.set_outputs(outputs);
    for at in 0..graph.inputs().len() {
        graph.name_input(at, Some(format!("x{at}").into()));
    }
    graph
}

/// Encodes the file of a function.
pub(super) fn file(graph: &Graph) -> Vec<u8> {
    let metadata = [
        ("ms.exported", "1".to_owned()),
        ("ms.graph", graph.to_string()),
        ("ms.inputs", graph.inputs().len().to_string()),
    ];
    let metadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let mut bytes = Vec::new();
    safetensors::write_with(&BTreeMap::new(), &metadata, &mut bytes).expect("memory can be written");
    bytes
}

/// Reads a file, and calls its function if that needs little memory.
pub(super) fn read(file: &[u8]) -> Result<()> {
    let function = in_op(|| decode(file).map_err(|why| Error::new(Code::Parse, why)))?;
    let function = ExportedFunction(function);
    let size = |ty: &Type| {
        let sizes = ty.dims.iter().map(|it| it.evaluate(&|_| Some(SIZE))).collect::<Result<Vec<_>>>();
        let sizes = sizes.ok().filter(|it| it.iter().all(|&size| size <= CALLED));
        sizes.filter(|it| it.iter().try_fold(1usize, |all, &it| all.checked_mul(it)).is_some_and(|it| it <= CALLED))
    };
    let inputs: Option<Vec<Tensor>> =
        function.inputs().map(|(_, ty)| size(ty).map(|it| ops::cast(Tensor::ones(it), ty.dtype))).collect();
    if let (Some(inputs), true) = (inputs, function.outputs().all(|it| size(it).is_some())) {
        // The call may fail; the file counts as read.
        let _ = function.call(&inputs.iter().collect::<Vec<_>>());
    }
    Ok(())
}
