//! Tests random graphs.

use super::{check, f32s, flag, int, scalar};
use ms_ir::data::{Array, Attrs, DType, Dim};
use ms_ir::{Graph, Node, Type, ValueId};
use ms_ops::ops::{self, by_name};
use std::sync::Arc;

type Random = ms_ir::testing::Random<'static>;

/// Builds a random graph over a few types from random values of each type.
struct Builder<'r> {
    random: &'r mut Random,
    graph: Graph,
    values: Vec<ValueId>,
    depth: usize,
}

fn types() -> [Type; 4] {
    [Type::of(DType::F32, &[]), Type::of(DType::F32, &[3]), Type::of(DType::Bool, &[]), Type::of(DType::I64, &[])]
}

impl<'r> Builder<'r> {
    /// Creates a builder that extends a graph.
    fn of(random: &'r mut Random, graph: Graph) -> Self {
        let values = graph.inputs().to_vec();
        Self { random, graph, values, depth: 0 }
    }

    /// Builds a graph from inputs to outputs of the given types.
    fn build(random: &mut Random, inputs: &[Type], outputs: &[Type], depth: usize) -> Graph {
        let mut graph = Graph::new("g");
        let values = inputs.iter().map(|it| graph.add_input(it.clone())).collect();
        let mut builder = Builder { random, graph, values, depth };
        for _ in 0..2 + builder.random.below(5) {
            builder.step();
        }
        let results: Vec<ValueId> = outputs.iter().map(|it| builder.value(it)).collect();
        builder.graph.set_outputs(results);
        builder.graph
    }

    fn add(&mut self, node: Node, types: Vec<Type>) -> Vec<ValueId> {
        let id = self.graph.add_node(node, types);
        let results = self.graph.node(id).outputs.to_vec();
        self.values.extend(&results);
        results
    }

    fn apply(&mut self, op: &str, inputs: &[ValueId]) -> ValueId {
        let def = by_name(op).unwrap_or_else(|| panic!("there is no op `{op}`"));
        let types: Vec<Type> = inputs.iter().map(|&it| self.graph.ty(it).clone()).collect();
        let types = (def.infer)(&Attrs::none(), &types.iter().collect::<Vec<_>>()).expect("operands fit");
        self.add(Node::new(def.op(), Attrs::none(), inputs.iter().copied()), types.to_vec())[0]
    }

    fn constant(&mut self, array: &Array) -> ValueId {
        let literal = ms_ir::data::Literal::from_array(array).expect("the elements are readable");
        let node = Node::new(ops::CONSTANT.op(), Attrs::new([ms_ir::data::Attr::Literal(literal)]), []);
        self.add(node, vec![array.ty()])[0]
    }

    /// Returns a value of a type.
    fn value(&mut self, ty: &Type) -> ValueId {
        let known: Vec<ValueId> = self.values.iter().copied().filter(|&it| self.graph.ty(it) == ty).collect();
        if !known.is_empty() && self.random.below(8) > 0 {
            return known[self.random.below(known.len())];
        }
        let number = self.random.below(7) as i64 - 3;
        let shape = ty.shape().expect("the types are constant");
        let array = match ty.dtype {
            DType::Bool => flag(number > 0),
            DType::I64 => int(number),
            _ => Array::full(&shape, (number as f64).into(), DType::F32),
        };
        self.constant(&array)
    }

    fn any_type(&mut self) -> Type {
        types()[self.random.below(4)].clone()
    }

    fn some_types(&mut self) -> Vec<Type> {
        (0..1 + self.random.below(4)).map(|_| self.any_type()).collect()
    }

    fn values(&mut self, types: &[Type]) -> Vec<ValueId> {
        types.iter().map(|it| self.value(it)).collect()
    }

    fn region(&mut self, inputs: &[Type], outputs: &[Type]) -> Arc<Graph> {
        Arc::new(Builder::build(self.random, inputs, outputs, self.depth - 1))
    }

    fn step(&mut self) {
        let [number, vector, boolean, integer] = types();
        match self.random.below(if self.depth > 0 { 12 } else { 6 }) {
            0 | 1 => {
                let ty = [&number, &vector, &integer][self.random.below(3)].clone();
                let (a, b) = (self.value(&ty), self.value(&ty));
                let op = ["add", "sub", "maximum", "minimum"][self.random.below(4)];
                self.apply(op, &[a, b]);
            }
            2 => {
                let (a, b) = (self.value(&number), self.value(&vector));
                self.apply("add", &[a, b]);
            }
            3 => {
                let ty = [&number, &integer][self.random.below(2)].clone();
                let (a, b) = (self.value(&ty), self.value(&ty));
                self.apply("less", &[a, b]);
            }
            4 => {
                let ty = self.any_type();
                let (c, a, b) = (self.value(&boolean), self.value(&ty), self.value(&ty));
                self.apply("select", &[c, a, b]);
            }
            5 => {
                let a = self.value(&vector);
                self.apply("neg", &[a]);
            }
            6 | 7 => {
                let (inputs, outputs) = (self.some_types(), self.some_types());
                let regions = [self.region(&inputs, &outputs), self.region(&inputs, &outputs)];
                let mut operands = vec![self.value(&boolean)];
                operands.extend(self.values(&inputs));
                let mut node = Node::new(ops::IF.op(), Attrs::none(), operands);
                node.regions.extend(regions);
                self.add(node, outputs);
            }
            8 => {
                let (inputs, outputs) = (self.some_types(), self.some_types());
                let callee = self.region(&inputs, &outputs);
                for _ in 0..1 + self.random.below(2) {
                    let mut node = Node::new(ops::CALL.op(), Attrs::none(), self.values(&inputs));
                    node.regions.push(callee.clone());
                    self.add(node, outputs.clone());
                }
            }
            9 => {
                let (carried, sequences) = (self.some_types(), self.some_types());
                let invariants = self.some_types();
                let series = if self.random.below(2) == 0 { vec![] } else { self.some_types() };
                let all = [&carried[..], &sequences, &invariants].concat();
                let body = self.region(&all, &[&carried[..], &series].concat());
                let length = self.random.below(4);
                // The sequences are the elements of a vector of three.
                let sequences: Vec<ValueId> = if length == 3 && sequences.iter().all(|it| *it == number) {
                    sequences.iter().map(|_| self.value(&vector)).collect()
                } else {
                    let stacked: Vec<Type> = sequences.iter().map(|it| it.stacked(Dim::new(length))).collect();
                    stacked
                        .iter()
                        .map(|it| {
                            let shape = it.shape().expect("the types are constant");
                            let zero = Array::full(&shape, 2.0.into(), it.dtype);
                            self.constant(&zero)
                        })
                        .collect()
                };
                let mut operands = self.values(&carried);
                let attrs = [
                    (length as i64).into(),
                    (carried.len() as i64).into(),
                    (sequences.len() as i64).into(),
                    (self.random.below(2) == 0).into(),
                ];
                operands.extend(sequences);
                operands.extend(self.values(&invariants));
                let mut node = Node::new(ops::SCAN.op(), Attrs::new(attrs), operands);
                node.regions.push(body);
                let results = series.iter().map(|it| it.stacked(Dim::new(length)));
                self.add(node, carried.iter().cloned().chain(results).collect());
            }
            _ => self.while_loop(),
        }
    }

    /// Adds a loop of a few iterations, and a scan over its stacked values.
    fn while_loop(&mut self) {
        let integer = types()[3].clone();
        let carried = [vec![integer.clone()], self.some_types()].concat();
        let invariants = self.some_types();
        let saved = if self.random.below(2) == 0 { vec![] } else { self.some_types() };
        let all = [&carried[..], &invariants].concat();
        let mut body = Builder::build(self.random, &all, &[&carried[..], &saved].concat(), self.depth - 1);
        // The first carry counts the iterations.
        let mut outputs = body.outputs().to_vec();
        let mut builder = Builder::of(self.random, body);
        let one = builder.constant(&int(1));
        let counter = builder.graph.inputs()[0];
        outputs[0] = builder.apply("add", &[counter, one]);
        body = builder.graph;
        body.set_outputs(outputs);
        let mut condition = Graph::new("more");
        for ty in &all {
            condition.add_input(ty.clone());
        }
        let mut builder = Builder::of(self.random, condition);
        let counter = builder.graph.inputs()[0];
        let limit = int(builder.random.below(4) as i64);
        let limit = builder.constant(&limit);
        let below = builder.apply("less", &[counter, limit]);
        let result = if builder.random.below(3) == 0 {
            let other = builder.value(&types()[2]);
            builder.apply("logical_and", &[below, other])
        } else {
            below
        };
        condition = builder.graph;
        condition.set_outputs([result]);
        let mut operands = vec![self.constant(&int(0))];
        operands.extend(self.values(&carried[1..]));
        operands.extend(self.values(&invariants));
        let mut node = Node::new(ops::WHILE.op(), Attrs::new([(carried.len() as i64).into()]), operands);
        node.regions.extend([Arc::new(condition), Arc::new(body)]);
        let mut results = carried.clone();
        if !saved.is_empty() {
            results.push(integer);
            results.extend(saved.iter().map(|it| it.stacked(Dim::DYNAMIC)));
        }
        let results = self.add(node, results);
        if saved.is_empty() {
            return;
        }
        let stacks = &results[carried.len() + 1..];
        let carried = self.some_types();
        let series = if self.random.below(2) == 0 { vec![] } else { self.some_types() };
        let all = [&carried[..], &saved].concat();
        let body = self.region(&all, &[&carried[..], &series].concat());
        let mut operands = vec![results[results.len() - saved.len() - 1]];
        operands.extend(self.values(&carried));
        operands.extend(stacks);
        let attrs = [
            (-1i64).into(),
            (carried.len() as i64).into(),
            (saved.len() as i64).into(),
            (self.random.below(2) == 0).into(),
        ];
        let mut node = Node::new(ops::SCAN.op(), Attrs::new(attrs), operands);
        node.regions.push(body);
        let results = series.iter().map(|it| it.stacked(Dim::DYNAMIC));
        self.add(node, carried.iter().cloned().chain(results).collect());
    }
}

#[test]
fn random_graphs() {
    let count = std::env::var("MS_RANDOM_GRAPHS").map_or(40, |it| it.parse().expect("MS_RANDOM_GRAPHS is a number"));
    for seed in 0..count {
        let mut random = Random::Seed(seed);
        let [number, vector, boolean, integer] = types();
        let inputs = [number.clone(), vector.clone(), vector.clone(), boolean.clone(), integer.clone()];
        let outputs = [number, vector.clone(), vector, boolean, integer];
        let graph = Builder::build(&mut random, &inputs, &outputs, 3);
        let mut value = |_| random.below(9) as f32 - 4.0;
        let sets = (0..3).map(|set| {
            let (a, b) = ([0; 3].map(&mut value), [0; 3].map(&mut value));
            vec![scalar(value(0)), f32s(&[3], &a), f32s(&[3], &b), flag(set % 2 == 0), int(set)]
        });
        check(&graph, &sets.collect::<Vec<_>>());
    }
}
