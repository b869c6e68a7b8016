//! A dialect of ops that only these tests have: control flow, some arithmetic, and ops that communicate. An op that
//! communicates returns its operand, as on the only rank of a group.

use ms_ir::data::{Attr, AttrInfo, AttrKind, Attrs, DType, Dim, Literal, Op, OpInfo, Type};
use ms_ir::error::{Code, Error, Result};
use ms_ir::op::{
    Control, Dialect, Effects, Loop, Lowering, OpDef, RegionRule, RegisteredDialect, Sample, SampleInput, Types,
};
use ms_ir::{Graph, KernelBuilder, Node, Val, ValueId, body};
use smallvec::smallvec;

struct TestOps;

inventory::submit! { RegisteredDialect(&TestOps) }

static OPS: [&OpDef; 15] = [
    &CONSTANT,
    &FULL,
    &SELECT,
    &IF,
    &WHILE,
    &CALL,
    &NEG,
    &VIEW,
    &SUB,
    &ALL_REDUCE,
    &ALL_GATHER,
    &BROADCAST,
    &START,
    &START_UPDATE,
    &DONE,
];

static CONSTANT: OpDef = OpDef {
    info: OpInfo { number: 1, name: "constant", attrs: &[AttrInfo::any("value", AttrKind::Literal)] },
    infer: |attrs, _| Ok(smallvec![Type::of(literal(attrs).dtype(), literal(attrs).shape())]),
    eval: |attrs, _| Ok(smallvec![literal(attrs).to_array()]),
    effects: Effects::NONE,
    lowering: Lowering::Constant(literal),
    samples: || vec![Sample::new([])],
    transforms: &(),
};

static FULL: OpDef = OpDef {
    info: OpInfo {
        number: 2,
        name: "full",
        attrs: &[AttrInfo::any("value", AttrKind::Literal), AttrInfo::any("shape", AttrKind::Sizes)],
    },
    infer: |attrs, _| match &attrs.as_slice()[1] {
        Attr::Ints(sizes) => {
            let sizes: Vec<usize> = sizes.iter().map(|it| *it as usize).collect();
            Ok(smallvec![Type::of(literal(attrs).dtype(), &sizes)])
        }
        other => Err(Error::new(Code::Argument, format!("{other:?} are not sizes"))),
    },
    eval: |_, _| refused(),
    effects: Effects::NONE,
    lowering: Lowering::Generate(|attrs, body, _, dtype| {
        body.constant(literal(attrs).splat().expect("one element"), dtype)
    }),
    samples: || vec![Sample::new([])],
    transforms: &(),
};

static SELECT: OpDef = OpDef {
    info: OpInfo { number: 3, name: "select", attrs: &[] },
    infer: |_, inputs| Ok(smallvec![inputs[1].clone()]),
    eval: |_, _| refused(),
    effects: Effects::NONE,
    lowering: Lowering::Map(|_, body, v| body.select(v[0], v[1], v[2])),
    samples: || samples(3),
    transforms: &(),
};

static IF: OpDef = regions(
    4,
    "if",
    &[],
    RegionRule {
        count: 2,
        control: |_| Control::Branch,
        infer: |_, regions, _| Ok(results(&regions[0])),
        eval: |_, _, _| refused(),
    },
);

static WHILE: OpDef = regions(
    5,
    "while",
    &[AttrInfo::any("carries", AttrKind::Int)],
    RegionRule {
        count: 2,
        control: |attrs| Control::Loop(Loop::repeat(carries(attrs))),
        infer: |attrs, _, inputs| Ok(inputs[..carries(attrs)].iter().map(|it| (*it).clone()).collect()),
        eval: |_, _, _| refused(),
    },
);

static CALL: OpDef = regions(
    6,
    "call",
    &[],
    RegionRule {
        count: 1,
        control: |_| Control::Call { inline: false },
        infer: |_, regions, _| Ok(results(&regions[0])),
        eval: |_, _, _| refused(),
    },
);

static NEG: OpDef = unary(7, "neg", Effects::NONE, Lowering::Map(|_, b, v| body::body(b, v, |[x]| -x)));

static VIEW: OpDef = unary(15, "view", Effects::NONE, Lowering::View(|_, layout| Some(layout.clone())));

static SUB: OpDef = OpDef {
    info: OpInfo { number: 8, name: "sub", attrs: &[] },
    infer: |_, inputs| Ok(smallvec![inputs[0].clone()]),
    eval: |_, _| refused(),
    effects: Effects::NONE,
    lowering: Lowering::Map(|_, b, v| body::body(b, v, |[x, y]| x - y)),
    samples: || samples(2),
    transforms: &(),
};

/// A collective that is computed like an elementwise op.
static ALL_REDUCE: OpDef = unary(9, "all_reduce", Effects::COLLECTIVE, Lowering::Map(identity));

/// A collective that is computed like a view.
static ALL_GATHER: OpDef =
    unary(10, "all_gather", Effects::COLLECTIVE, Lowering::View(|_, layout| Some(layout.clone())));

/// A collective that is a separate step.
static BROADCAST: OpDef = unary(11, "broadcast", Effects::COLLECTIVE, Lowering::Library);

static START: OpDef = unary(12, "start", Effects::COLLECTIVE.and(Effects::PENDING), Lowering::Library);

/// A start whose result would be its operand, changed, if that could be overwritten.
static START_UPDATE: OpDef = unary(13, "start_update", Effects::COLLECTIVE.and(Effects::PENDING), Lowering::Update);

static DONE: OpDef = unary(14, "done", Effects::DONE, Lowering::Library);

impl Dialect for TestOps {
    fn definitions(&self) -> [&'static [&'static OpDef]; 2] {
        [&OPS, &[]]
    }

    fn custom_by_number(&self, _: u16) -> Option<&'static OpDef> {
        None
    }

    fn custom_by_name(&self, _: &str) -> Option<&'static OpDef> {
        None
    }

    fn custom_by_source(&self, _: &str, _: u64) -> Option<&'static OpDef> {
        None
    }

    fn control(&self, control: &Control) -> (Op, Attrs) {
        match control {
            Control::Branch => (IF.op(), Attrs::none()),
            Control::Loop(at) => (WHILE.op(), Attrs::new([at.carries.into()])),
            _ => (CALL.op(), Attrs::none()),
        }
    }

    fn constant(&self, value: Literal) -> Node {
        Node::new(CONSTANT.op(), Attrs::new([value.into()]), [])
    }

    fn full(&self, element: Literal, dims: &[Dim]) -> Node {
        Node::new(FULL.op(), Attrs::new([element.into(), dims.into()]), [])
    }

    fn select(&self, condition: ValueId, yes: ValueId, no: ValueId) -> Node {
        Node::new(SELECT.op(), Attrs::none(), [condition, yes, no])
    }

    fn copy(&self, _: DType) -> (Op, Attrs) {
        unreachable!("the target of these tests runs kernels")
    }

    fn literal_of<'n>(&self, node: &'n Node) -> Option<&'n Literal> {
        [CONSTANT.op(), FULL.op()].contains(&node.op).then(|| literal(&node.attrs))
    }
}

/// An op of one operand with a result of the same type, which is the operand.
const fn unary(number: u16, name: &'static str, effects: Effects, lowering: Lowering) -> OpDef {
    OpDef {
        info: OpInfo { number, name, attrs: &[] },
        infer: |_, inputs| Ok(smallvec![inputs[0].clone()]),
        eval: |_, inputs| Ok(smallvec![inputs[0].clone()]),
        effects,
        lowering,
        samples: || samples(1),
        transforms: &(),
    }
}

const fn regions(number: u16, name: &'static str, attrs: &'static [AttrInfo], rule: RegionRule) -> OpDef {
    OpDef {
        info: OpInfo { number, name, attrs },
        infer: |_, _| refused(),
        eval: |_, _| refused(),
        effects: Effects::REGIONS,
        lowering: Lowering::Regions(rule),
        samples: Vec::new,
        transforms: &(),
    }
}

fn identity(_: &Attrs, _: &mut KernelBuilder, operands: &[Val]) -> Val {
    operands[0]
}

fn samples(operands: usize) -> Vec<Sample> {
    vec![Sample::new((0..operands).map(|_| SampleInput::of(DType::F32, &[2], 0.0, 1.0)))]
}

fn literal(attrs: &Attrs) -> &Literal {
    match &attrs.as_slice()[0] {
        Attr::Literal(it) => it,
        other => panic!("{other:?} is no literal"),
    }
}

fn carries(attrs: &Attrs) -> usize {
    match attrs.as_slice() {
        [Attr::Int(it)] => *it as usize,
        other => panic!("{other:?} is no number of carries"),
    }
}

fn results(region: &Graph) -> Types {
    region.outputs().iter().map(|it| region.ty(*it).clone()).collect()
}

fn refused<T>() -> Result<T> {
    Err(Error::new(Code::Argument, "these tests evaluate identities only"))
}
