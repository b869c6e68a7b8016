//! Graphs with graphs in them, as plans against the reference: branches, loops, calls.

use ms_core::exec::{Backend, reference};
use ms_core::ir::{Graph, Node, Type, ValueId};
use ms_core::lower::{LowerOptions, lower};
use ms_core::ops::{self, by_name, parse_graph};
use ms_core::optimize::{PassContext, optimize};
use ms_core::tensor::{Array, Attrs, DType, Dim};
use ms_cpu::{CpuBackend, Isa};
use std::sync::Arc;

/// Whether two results are equal to the bit, where neither is nan.
fn equal(a: &Array, b: &Array) -> bool {
    let same = |(a, b): (f64, f64)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    let of = |it: &Array| it.scalars().into_iter().map(|it| it.as_f64()).collect::<Vec<_>>();
    a.shape() == b.shape() && a.dtype() == b.dtype() && of(a).into_iter().zip(of(b)).all(same)
}

/// Runs a graph in every way on several inputs, and twice each: a plan's memory is used again.
fn check(graph: &Graph, inputs: &[Vec<Array>]) {
    ops::verify(graph).unwrap_or_else(|error| panic!("{error}\n{graph}"));
    let optimized = optimize(graph.clone(), &PassContext::default());
    let calls = optimize(graph.clone(), &PassContext { inline_limit: 0, ..PassContext::default() });
    let isas = [Isa::Interp, Isa::Avx2, Isa::Avx512].into_iter().filter(|it| it.is_supported());
    let mut ways = Vec::new();
    for isa in isas {
        ways.push((isa, true, graph));
        ways.push((isa, true, &optimized));
    }
    ways.extend([(Isa::detect(), false, graph), (Isa::detect(), false, &calls), (Isa::detect(), true, &calls)]);
    for (isa, fuse, graph) in ways {
        let backend = CpuBackend::with_isa(isa).expect("the instruction set is one of this machine");
        let plan = lower(graph, &LowerOptions { fuse, exact: true }).unwrap_or_else(|error| panic!("{error}\n{graph}"));
        let text = plan.display().to_string();
        let artifact = backend.compile(&plan).expect("the plan compiles");
        let executable = backend.load(Arc::new(plan), &artifact).unwrap_or_else(|error| panic!("{error}\n{text}"));
        for inputs in inputs.iter().chain(inputs) {
            let inputs: Vec<&Array> = inputs.iter().collect();
            let expected = reference(graph.clone()).run(&inputs).expect("the reference runs everything");
            let found = executable.run(&inputs).unwrap_or_else(|error| panic!("{error}\n{graph}\n{text}"));
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let values = |it: &Array| format!("{:?} {:?}", it.shape(), it.scalars());
                assert!(
                    equal(found, expected),
                    "output {i} on {isa}, fuse {fuse}: {} is not {}\nof {inputs:?}\n{graph}\n{text}",
                    values(found),
                    values(expected)
                );
            }
        }
    }
}

fn f32s(shape: &[usize], data: &[f32]) -> Array {
    Array::from_slice(shape, data)
}

fn scalar(value: f32) -> Array {
    f32s(&[], &[value])
}

fn int(value: i64) -> Array {
    Array::from_slice(&[], &[value])
}

fn flag(value: bool) -> Array {
    Array::from_slice(&[], &[value])
}

#[test]
fn by_hand() {
    let numbers = || vec![f32s(&[3], &[1.0, -2.0, 3.0]), f32s(&[3], &[0.5, 8.0, -1.0])];
    let with = |first: Vec<Array>| first.into_iter().chain(numbers()).collect::<Vec<_>>();
    let flags = || vec![with(vec![flag(true)]), with(vec![flag(false)])];
    let counts = || [0, 1, 2, 5].map(|it| with(vec![int(it)])).to_vec();
    let cases: [(&str, &str, Vec<Vec<Array>>); 12] = [
        (
            "arms that give what they take, constants, and one value twice",
            "graph @yes(%x: f32[3], %y: f32[3]) -> (f32[3], f32[3], f32[3], f32[]) {
               %k = constant {value = f32[](4)} : f32[]
               return %y, %x, %x, %k
             }
             graph @no(%x: f32[3], %y: f32[3]) -> (f32[3], f32[3], f32[3], f32[]) {
               %z = add %x, %y : f32[3]
               %s = sum %z {axes = [0], keepdims = false} : f32[]
               return %z, %z, %x, %s
             }
             graph @main(%c: bool[], %x: f32[3], %y: f32[3]) -> (f32[3], f32[3], f32[3], f32[]) {
               %a, %b, %d, %e = if @yes @no %c, %x, %y : f32[3], f32[3], f32[3], f32[]
               return %a, %b, %d, %e
             }",
            flags(),
        ),
        (
            "operands that are views and splats",
            "graph @yes(%x: f32[2], %k: f32[2]) -> (f32[2]) { %y = add %x, %k : f32[2] return %y }
             graph @no(%x: f32[2], %k: f32[2]) -> (f32[2]) { return %x }
             graph @main(%c: bool[], %x: f32[3], %y: f32[3]) -> (f32[2], f32[2]) {
               %k = full {value = f32[](4), shape = [2]} : f32[2]
               %tail = slice %x {starts = [1], sizes = [2], steps = [1]} : f32[2]
               %back = slice %y {starts = [2], sizes = [2], steps = [-1]} : f32[2]
               %a = if @yes @no %c, %tail, %k : f32[2]
               %b = if @yes @no %c, %back, %a : f32[2]
               return %a, %b
             }",
            flags(),
        ),
        (
            "carries that change places",
            "graph @more(%i: i64[], %a: f32[3], %b: f32[3], %n: i64[]) -> (bool[]) { %c = less %i, %n : bool[] return %c }
             graph @step(%i: i64[], %a: f32[3], %b: f32[3], %n: i64[]) -> (i64[], f32[3], f32[3]) {
               %one = constant {value = i64[](1)} : i64[]
               %j = add %i, %one : i64[]
               return %j, %b, %a
             }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (i64[], f32[3], f32[3]) {
               %z = constant {value = i64[](0)} : i64[]
               %i, %a, %b = while @more @step %z, %x, %y, %n {carries = 3} : i64[], f32[3], f32[3]
               return %i, %a, %b
             }",
            counts(),
        ),
        (
            "a chain of carries",
            "graph @more(%i: i64[], %a: f32[3], %b: f32[3], %c: f32[3], %d: f32[3], %n: i64[]) -> (bool[]) {
               %r = less %i, %n : bool[] return %r
             }
             graph @step(%i: i64[], %a: f32[3], %b: f32[3], %c: f32[3], %d: f32[3], %n: i64[])
               -> (i64[], f32[3], f32[3], f32[3], f32[3]) {
               %one = constant {value = i64[](1)} : i64[]
               %j = add %i, %one : i64[]
               %e = add %a, %b : f32[3]
               return %j, %b, %e, %a, %a
             }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (i64[], f32[3], f32[3], f32[3], f32[3]) {
               %z = constant {value = i64[](0)} : i64[]
               %i, %a, %b, %c, %d = while @more @step %z, %x, %y, %x, %y, %n {carries = 5} : i64[], f32[3], f32[3], f32[3], f32[3]
               return %i, %a, %b, %c, %d
             }",
            counts(),
        ),
        (
            "carries that stay, and one that becomes what stays the same",
            "graph @more(%i: i64[], %a: f32[3], %b: f32[3], %n: i64[], %k: f32[3]) -> (bool[]) { %c = less %i, %n : bool[] return %c }
             graph @step(%i: i64[], %a: f32[3], %b: f32[3], %n: i64[], %k: f32[3]) -> (i64[], f32[3], f32[3]) {
               %one = constant {value = i64[](1)} : i64[]
               %j = add %i, %one : i64[]
               return %j, %a, %k
             }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (f32[3], f32[3]) {
               %z = constant {value = i64[](0)} : i64[]
               %s = add %x, %y : f32[3]
               %i, %a, %b = while @more @step %z, %s, %x, %n, %y {carries = 3} : i64[], f32[3], f32[3]
               return %a, %b
             }",
            counts(),
        ),
        (
            "a loop in a branch in a loop",
            "graph @inner_more(%x: f32[]) -> (bool[]) { %k = constant {value = f32[](20)} : f32[] %c = less %x, %k : bool[] return %c }
             graph @inner(%x: f32[]) -> (f32[]) { %k = constant {value = f32[](7)} : f32[] %y = add %x, %k : f32[] return %y }
             graph @yes(%x: f32[]) -> (f32[]) { %y = while @inner_more @inner %x {carries = 1} : f32[] return %y }
             graph @no(%x: f32[]) -> (f32[]) { %k = constant {value = f32[](17)} : f32[] %y = sub %x, %k : f32[] return %y }
             graph @more(%i: i64[], %x: f32[], %n: i64[]) -> (bool[]) { %c = less %i, %n : bool[] return %c }
             graph @step(%i: i64[], %x: f32[], %n: i64[]) -> (i64[], f32[]) {
               %one = constant {value = i64[](1)} : i64[]
               %j = add %i, %one : i64[]
               %k = constant {value = f32[](10)} : f32[]
               %small = less %x, %k : bool[]
               %y = if @yes @no %small, %x : f32[]
               %half = constant {value = f32[](0.5)} : f32[]
               %z = mul %y, %half : f32[]
               return %j, %z
             }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (f32[]) {
               %z = constant {value = i64[](0)} : i64[]
               %m = max %x {axes = [0], keepdims = false} : f32[]
               %i, %s = while @more @step %z, %m, %n {carries = 2} : i64[], f32[]
               return %s
             }",
            counts(),
        ),
        (
            "a stack through a call and a branch into a scan",
            "graph @more(%i: i64[], %x: f32[3], %n: i64[]) -> (bool[]) { %c = less %i, %n : bool[] return %c }
             graph @step(%i: i64[], %x: f32[3], %n: i64[]) -> (i64[], f32[3], f32[3], i64[]) {
               %one = constant {value = i64[](1)} : i64[]
               %j = add %i, %one : i64[]
               %y = add %x, %x : f32[3]
               return %j, %y, %x, %i
             }
             graph @forward(%n: i64[], %x: f32[3]) -> (f32[3], i64[], f32[?, 3], i64[?]) {
               %z = constant {value = i64[](0)} : i64[]
               %i, %y, %count, %xs, %is = while @more @step %z, %x, %n {carries = 2} : i64[], f32[3], i64[], f32[?, 3], i64[?]
               return %y, %count, %xs, %is
             }
             graph @yes(%c: i64[], %xs: f32[?, 3]) -> (i64[], f32[?, 3]) { return %c, %xs }
             graph @no(%c: i64[], %xs: f32[?, 3]) -> (i64[], f32[?, 3]) {
               %z = constant {value = i64[](0)} : i64[]
               return %z, %xs
             }
             graph @back(%s: f32[3], %x: f32[3], %i: i64[], %k: f32[3]) -> (f32[3], f32[3]) {
               %t = add %x, %k : f32[3]
               %u = add %s, %t : f32[3]
               return %u, %t
             }
             graph @main(%c: bool[], %n: i64[], %x: f32[3], %y: f32[3]) -> (f32[3], f32[3], i64[], f32[?, 3], i64[?]) {
               %a, %count, %xs, %is = call @forward %n, %x : f32[3], i64[], f32[?, 3], i64[?]
               %count2, %ys = if @yes @no %c, %count, %xs : i64[], f32[?, 3]
               %g, %ts = scan @back %count2, %a, %ys, %is, %y {length = -1, carries = 1, sequences = 2, reverse = true} : f32[3], f32[?, 3]
               return %a, %g, %count, %ts, %is
             }",
            [(true, 4), (false, 4), (true, 0), (true, 1000)].map(|(c, n)| with(vec![flag(c), int(n)])).to_vec(),
        ),
        (
            "a scan over rows, both ways, and over nothing",
            "graph @step(%a: f32[], %b: f32[], %x: f32[], %k: f32[3]) -> (f32[], f32[], f32[3], f32[]) {
               %s = add %a, %x : f32[]
               %t = mul %k, %s : f32[3]
               return %b, %s, %t, %x
             }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (f32[], f32[], f32[3, 3], f32[3], f32[3, 3], f32[3]) {
               %z = constant {value = f32[](0)} : f32[]
               %one = constant {value = f32[](1)} : f32[]
               %a, %b, %r, %s = scan @step %z, %one, %x, %y {length = 3, carries = 2, sequences = 1, reverse = false} : f32[], f32[], f32[3, 3], f32[3]
               %back = slice %x {starts = [2], sizes = [3], steps = [-1]} : f32[3]
               %c, %d, %t, %u = scan @step %a, %b, %back, %x {length = 3, carries = 2, sequences = 1, reverse = true} : f32[], f32[], f32[3, 3], f32[3]
               return %c, %d, %r, %s, %t, %u
             }",
            counts(),
        ),
        (
            "a scan of no steps, and of no sequences",
            "graph @step(%a: f32[3], %k: f32[3]) -> (f32[3], f32[3]) { %s = add %a, %k : f32[3] return %s, %a }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (f32[3], f32[0, 3], f32[3], f32[4, 3]) {
               %a, %r = scan @step %x, %y {length = 0, carries = 1, sequences = 0, reverse = false} : f32[3], f32[0, 3]
               %b, %s = scan @step %a, %y {length = 4, carries = 1, sequences = 0, reverse = false} : f32[3], f32[4, 3]
               return %a, %r, %b, %s
             }",
            counts(),
        ),
        (
            "calls of one graph, in each other's place",
            "graph @leaf(%x: f32[3], %y: f32[3]) -> (f32[3], f32[3]) { %z = add %x, %y : f32[3] return %z, %x }
             graph @twice(%x: f32[3], %y: f32[3]) -> (f32[3], f32[3]) {
               %a, %b = call @leaf %x, %y : f32[3], f32[3]
               %c, %d = call @leaf %a, %b : f32[3], f32[3]
               return %c, %d
             }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (f32[3], f32[3], f32[3]) {
               %a, %b = call @twice %x, %y : f32[3], f32[3]
               %c, %d = call @leaf %b, %a : f32[3], f32[3]
               %e, %f = call @twice %c, %d : f32[3], f32[3]
               return %e, %f, %b
             }",
            counts(),
        ),
        (
            "library ops on a routine's operands",
            "graph @step(%a: f32[3], %k: f32[3]) -> (f32[3], i64[3]) {
               %b = cumsum %a {axis = 0, exclusive = false, reverse = false} : f32[3]
               %i = argmax %k {axis = 0} : i64[]
               %j = broadcast_to %i {shape = [3]} : i64[3]
               %g = gather %b, %j {axis = 0} : f32[3]
               return %g, %j
             }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (f32[3], i64[2, 3]) {
               %a, %r = scan @step %x, %y {length = 2, carries = 1, sequences = 0, reverse = false} : f32[3], i64[2, 3]
               return %a, %r
             }",
            counts(),
        ),
        (
            "products of a routine's operands",
            "graph @step(%a: f32[2, 2], %k: f32[2, 2]) -> (f32[2, 2]) { %b = matmul %a, %k : f32[2, 2] return %b }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (f32[2, 2]) {
               %k = constant {value = f32[2, 2](1, 1, 0, 1)} : f32[2, 2]
               %a = scan @step %k, %k {length = 6, carries = 1, sequences = 0, reverse = false} : f32[2, 2]
               return %a
             }",
            counts(),
        ),
    ];
    for (what, text, inputs) in cases {
        let graph = parse_graph(text).unwrap_or_else(|error| panic!("{what}: {error}\n{text}"));
        check(&graph, &inputs);
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

/// Builds a random graph over a few types: what there is of a type is used as it comes.
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
    /// A builder that goes on with a graph.
    fn of(random: &'r mut Random, graph: Graph) -> Self {
        let values = graph.inputs().to_vec();
        Self { random, graph, values, depth: 0 }
    }

    /// A graph from inputs of some types to outputs of some types.
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
        let literal = ms_core::tensor::Literal::from_array(array);
        let node = Node::new(ops::CONSTANT.op(), Attrs::new([ms_core::tensor::Attr::Literal(literal)]), []);
        self.add(node, vec![array.ty()])[0]
    }

    /// A value of a type.
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
                // Sequences are numbers of a vector, so that there are three.
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

    /// A loop of at most a few iterations, and a scan over what it saved.
    fn while_loop(&mut self) {
        let integer = types()[3].clone();
        let carried = [vec![integer.clone()], self.some_types()].concat();
        let invariants = self.some_types();
        let saved = if self.random.below(2) == 0 { vec![] } else { self.some_types() };
        let all = [&carried[..], &invariants].concat();
        let mut body = Builder::build(self.random, &all, &[&carried[..], &saved].concat(), self.depth - 1);
        // The first carry counts.
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
    let count = std::env::var("MS_RANDOM_GRAPHS").ok().and_then(|it| it.parse().ok()).unwrap_or(40);
    for seed in 0..count {
        let mut random = Random(seed);
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
