//! Generates random graphs.

use ms_ir::data::{Array, Attr, Attrs, DType, Literal, Scalar};
use ms_ir::{Graph, Node, Type, ValueId};
use ms_ops::ops::by_name;

pub type Random = ms_ir::testing::Random<'static>;

pub fn array(random: &mut Random, ty: &Type) -> Array {
    let shape = ty.shape().expect("the dimensions are constants");
    let data: Vec<f32> = (0..shape.iter().product()).map(|_| random.below(4001) as f32 / 1000.0 - 2.0).collect();
    let array = Array::from_slice(&shape, &data);
    if ty.dtype == DType::F32 {
        return array;
    }
    let cast = by_name("cast").expect("cast is a primitive");
    (cast.eval)(&Attrs::new([ty.dtype.into()]), &[&array]).expect("anything casts").remove(0)
}

/// Builds graphs op by op.
pub struct Builder {
    pub graph: Graph,
}

impl Builder {
    pub fn apply(&mut self, op: &str, attrs: Attrs, inputs: &[ValueId]) -> Option<ValueId> {
        let def = by_name(op).unwrap_or_else(|| panic!("there is no op `{op}`"));
        let types: Vec<Type> = inputs.iter().map(|&it| self.graph.ty(it).clone()).collect();
        let types = (def.infer)(&attrs, &types.iter().collect::<Vec<_>>()).ok()?;
        let node = self.graph.add_node(Node::new(def.op(), attrs, inputs.iter().copied()), types);
        Some(self.graph.node(node).outputs[0])
    }

    pub fn shape(&self, value: ValueId) -> Vec<usize> {
        self.graph.ty(value).shape().expect("the dimensions are constants").to_vec()
    }
}

pub fn sizes(of: &[usize]) -> Attr {
    of.into()
}

/// Picks a random value. Later ones are likelier, so that chains grow.
pub fn near(random: &mut Random, values: &[ValueId]) -> ValueId {
    let back = random.below(values.len()).min(random.below(values.len()));
    values[values.len() - 1 - back]
}

/// Applies a random op whose result consists of slices, if it fits random values.
pub fn random_slices(random: &mut Random, builder: &mut Builder, values: &[ValueId]) -> Option<ValueId> {
    let x = near(random, values);
    let shape = builder.shape(x);
    if random.below(2) == 0 {
        let axis = random.below(shape.len().max(1));
        let others: Vec<ValueId> = (0..1 + random.below(2)).map(|_| near(random, values)).collect();
        let operands: Vec<ValueId> = std::iter::once(x).chain(others).collect();
        let fits = operands.iter().all(|&it| builder.shape(it).len() > axis);
        return fits.then(|| builder.apply("concat", Attrs::new([axis.into()]), &operands))?;
    }
    let y = near(random, values);
    let counts = builder.shape(y);
    if counts.len() != shape.len() {
        return None;
    }
    let (mut starts, mut steps) = (Vec::new(), Vec::new());
    for (&size, &count) in shape.iter().zip(&counts) {
        let step = random.pick(&[1i64, 1, 1, 2, -1]);
        let reach = (count - 1) * step.unsigned_abs() as usize;
        let low = random.below((size + 1).saturating_sub(reach).max(1));
        starts.push(if step < 0 { low + reach } else { low });
        steps.push(step);
    }
    builder.apply("slice_update", Attrs::new([sizes(&starts), (&steps[..]).into()]), &[x, y])
}

/// Applies one random op to random values, if it fits them.
pub fn random_op(random: &mut Random, builder: &mut Builder, values: &[ValueId]) -> Option<ValueId> {
    let near = |random: &mut Random| near(random, values);
    let x = near(random);
    let shape = builder.shape(x);
    let axes = |random: &mut Random| (0..shape.len()).filter(|_| random.below(2) == 0).collect::<Vec<_>>();
    let none = Attrs::none;
    match random.below(18) {
        0..=3 => {
            let y = near(random);
            builder.apply(random.pick(&["add", "sub", "mul", "maximum"]), none(), &[x, y])
        }
        4 => builder.apply(random.pick(&["neg", "tanh", "abs"]), none(), &[x]),
        5 | 6 => {
            let attrs = Attrs::new([sizes(&axes(random)), (random.below(2) == 0).into()]);
            builder.apply(random.pick(&["sum", "max"]), attrs, &[x])
        }
        7 => {
            let mut order: Vec<usize> = (0..shape.len()).collect();
            (0..order.len()).for_each(|i| order.swap(i, random.below(i + 1)));
            builder.apply("permute", Attrs::new([sizes(&order)]), &[x])
        }
        8 => {
            let mut to = shape.clone();
            match random.below(3) {
                0 => to = vec![to.iter().product()],
                1 => to.insert(random.below(to.len() + 1), 1),
                _ => {
                    let at = random.below(to.len().max(1));
                    let size = *to.get(at)?;
                    let factor = [2, 3, 5].into_iter().find(|it| size % it == 0)?;
                    to[at] = factor;
                    to.insert(at + 1, size / factor);
                }
            }
            (to.len() < 5).then(|| builder.apply("reshape", Attrs::new([sizes(&to)]), &[x]))?
        }
        9 => {
            let mut to: Vec<usize> =
                shape.iter().map(|&it| if it == 1 { random.pick(&[1, 3, 16]) } else { it }).collect();
            if random.below(2) == 0 && to.len() < 4 {
                to.insert(0, random.pick(&[2, 4]));
            }
            (to.iter().product::<usize>() < 5000)
                .then(|| builder.apply("broadcast_to", Attrs::new([sizes(&to)]), &[x]))?
        }
        10 => {
            let y = near(random);
            builder.apply("matmul", none(), &[x, y])
        }
        11 => {
            let y = near(random);
            let condition = builder.apply(random.pick(&["less", "equal", "greater_equal"]), none(), &[x, y])?;
            builder.apply("select", none(), &[condition, x, y])
        }
        12 => {
            let lows: Vec<usize> = shape.iter().map(|&it| random.below(it)).collect();
            let counts: Vec<usize> = shape.iter().zip(&lows).map(|(it, low)| 1 + random.below(it - low)).collect();
            let backwards = random.below(2) == 0;
            let starts: Vec<usize> =
                if backwards { lows.iter().zip(&counts).map(|(low, count)| low + count - 1).collect() } else { lows };
            let steps: Vec<i64> = vec![if backwards { -1 } else { 1 }; shape.len()];
            builder.apply("slice", Attrs::new([sizes(&starts), sizes(&counts), (&steps[..]).into()]), &[x])
        }
        13 => {
            let axis = random.below(shape.len().max(1));
            shape.get(axis)?;
            let dtype = builder.graph.ty(x).dtype;
            let number = |it: i64| if dtype.is_float() { Attr::Float(it as f64) } else { Attr::Int(it) };
            let attrs = [sizes(&shape), axis.into(), number(1), number(2), dtype.into()];
            let position = builder.apply("iota", Attrs::new(attrs), &[])?;
            builder.apply("add", none(), &[position, x])
        }
        14 => {
            let dtype = builder.graph.ty(x).dtype;
            let to = random.pick(&[DType::F16, DType::BF16, DType::I32, DType::I64, DType::F64]);
            let narrow = builder.apply("cast", Attrs::new([to.into()]), &[x])?;
            let twice = builder.apply("add", none(), &[narrow, narrow])?;
            builder.apply("cast", Attrs::new([dtype.into()]), &[twice])
        }
        15 => {
            let dtype = builder.graph.ty(x).dtype;
            let state = Array::from_slice(&[2], &[random.bits(), random.bits()]);
            let state = Attr::Literal(Literal::from_array(&state).expect("the elements are readable"));
            let state = builder.apply("constant", Attrs::new([state]), &[])?;
            let (op, low, high) = if dtype.is_float() {
                ("random_uniform", Attr::Float(-1.5), Attr::Float(2.0))
            } else {
                ("random_integers", Attr::Int(-2), Attr::Int(3))
            };
            let drawn = builder.apply(op, Attrs::new([sizes(&shape), dtype.into(), low, high]), &[state])?;
            builder.apply("add", none(), &[drawn, x])
        }
        16 => {
            let axes = axes(random);
            random_rounds(random, builder, x, &axes)
        }
        _ => {
            let value = Attr::Literal(Literal::scalar(Scalar::Float(0.5), builder.graph.ty(x).dtype));
            let half = builder.apply("constant", Attrs::new([value]), &[])?;
            builder.apply("mul", none(), &[x, half])
        }
    }
}

/// Applies reductions over the same axes in sequence. Each one needs the previous one, and some need values of earlier
/// ones.
fn random_rounds(random: &mut Random, builder: &mut Builder, x: ValueId, axes: &[usize]) -> Option<ValueId> {
    let mut all = vec![x];
    for _ in 0..2 + random.below(3) {
        // `tanh` is too costly to be recomputed.
        let bent = builder.apply("tanh", Attrs::none(), &[*all.last().expect("x is one")])?;
        let attrs = Attrs::new([sizes(axes), true.into()]);
        let reduced = builder.apply(random.pick(&["sum", "max"]), attrs, &[bent])?;
        let next = builder.apply(random.pick(&["sub", "mul"]), Attrs::none(), &[bent, reduced])?;
        let earlier = if random.below(3) == 0 { random.pick(&all) } else { next };
        all.push(builder.apply("add", Attrs::none(), &[next, earlier])?);
    }
    all.pop()
}

/// Builds a random graph of at most `ops` ops. With `slices`, one op in that many may be an op on slices.
pub fn random_graph(seed: u64, ops: usize, dtype: DType, slices: Option<usize>) -> Graph {
    let mut random = Random::Seed(seed);
    let mut builder = Builder { graph: Graph::new("random") };
    let sizes = [1, 2, 3, 4, 6, 10, 16, 17];
    let base: Vec<usize> = (0..1 + random.below(3)).map(|_| random.pick(&sizes)).collect();
    let mut values = Vec::new();
    for i in 0..3 {
        let shape: Vec<usize> = match i {
            0 => base.clone(),
            1 => base.iter().map(|&it| if random.below(3) == 0 { 1 } else { it }).collect(),
            _ => base[random.below(base.len() + 1)..].to_vec(),
        };
        values.push(builder.graph.add_input(Type::of(dtype, &shape)));
    }
    for _ in 0..ops {
        let size = |builder: &Builder, it: ValueId| builder.shape(it).iter().product::<usize>();
        let is_slices = slices.is_some_and(|it| random.below(it) == 0);
        let op = if is_slices { random_slices } else { random_op };
        if let Some(value) = op(&mut random, &mut builder, &values)
            && size(&builder, value) < 20_000
        {
            values.push(value);
        }
    }
    let outputs: Vec<ValueId> = (0..1 + random.below(3)).map(|_| values[random.below(values.len())]).collect();
    builder.graph.set_outputs(outputs.into_iter().chain(values.last().copied()));
    builder.graph
}

/// Applies a random elementwise op to a value and to inputs that broadcast to its shape, or to the value alone.
pub fn random_elementwise(random: &mut Random, builder: &mut Builder, x: ValueId) -> Option<ValueId> {
    let none = Attrs::none;
    let (shape, dtype) = (builder.shape(x), builder.graph.ty(x).dtype);
    let other = |random: &mut Random, builder: &mut Builder, dtype| {
        let part: Vec<usize> = shape.iter().map(|&it| if random.below(3) == 0 { 1 } else { it }).collect();
        builder.graph.add_input(Type::of(dtype, &part[random.below(shape.len())..]))
    };
    match random.below(9) {
        0 | 1 => {
            let y = other(random, builder, dtype);
            builder.apply(random.pick(&["add", "mul", "maximum", "sub"]), none(), &[x, y])
        }
        2 => {
            let (y, z) = (other(random, builder, dtype), other(random, builder, dtype));
            let condition = builder.apply("less", none(), &[y, z])?;
            builder.apply("select", none(), &[condition, x, y])
        }
        3 if dtype.is_float() => builder.apply(random.pick(&["tanh", "relu"]), none(), &[x]),
        4 => {
            let to = random.pick(&[DType::BF16, DType::F16, DType::I32, DType::F64]);
            let narrow = builder.apply("cast", Attrs::new([to.into()]), &[x])?;
            builder.apply("cast", Attrs::new([dtype.into()]), &[narrow])
        }
        5 => {
            let axis = random.below(shape.len());
            let number = |it: i64| if dtype.is_float() { Attr::Float(it as f64) } else { Attr::Int(it) };
            let attrs = [sizes(&shape), axis.into(), number(1), number(2), dtype.into()];
            let position = builder.apply("iota", Attrs::new(attrs), &[])?;
            builder.apply("add", none(), &[position, x])
        }
        6 => {
            let (last, rest) = shape.split_last()?;
            let to = if rest.is_empty() { vec![1, *last] } else { vec![rest.iter().product(), *last] };
            builder.apply("reshape", Attrs::new([sizes(&to)]), &[x])
        }
        7 => {
            let table = builder.graph.add_input(Type::of(dtype, &[5, *shape.last()?]));
            let rows = builder.graph.add_input(Type::of(DType::I64, &shape[..shape.len() - 1]));
            let zero = Attr::Literal(Literal::scalar(Scalar::Int(0), DType::I64));
            let zero = builder.apply("constant", Attrs::new([zero]), &[])?;
            let rows = builder.apply("mul", none(), &[rows, zero])?;
            let taken = builder.apply("gather", Attrs::new([Attr::Int(0)]), &[table, rows])?;
            builder.apply("add", none(), &[taken, x])
        }
        _ => builder.apply("add", none(), &[x, x]),
    }
}

/// Returns the value minus the sum of its rows, and that sum, both scaled by the largest elements.
fn random_statistics(random: &mut Random, builder: &mut Builder, x: ValueId) -> Option<[ValueId; 2]> {
    let (shape, dtype) = (builder.shape(x), builder.graph.ty(x).dtype);
    let last = shape.len() - 1;
    let reduce = |builder: &mut Builder, op: &str, x, keepdims: bool| {
        builder.apply(op, Attrs::new([sizes(&[last]), keepdims.into()]), &[x])
    };
    let one = Attr::Literal(Literal::scalar(Scalar::Float(1.0), DType::F32));
    let one = builder.apply("constant", Attrs::new([one]), &[])?;
    let one = builder.apply("cast", Attrs::new([dtype.into()]), &[one])?;
    let magnitude = builder.apply("abs", Attrs::none(), &[x])?;
    let top = reduce(builder, "max", magnitude, true)?;
    let divisor = builder.apply("add", Attrs::none(), &[top, one])?;
    let scaled = builder.apply("div", Attrs::none(), &[x, divisor])?;
    let keepdims = random.below(2) == 0;
    let sum = reduce(builder, random.pick(&["sum", "min"]), scaled, keepdims)?;
    let kept: Vec<usize> = shape[..last].iter().copied().chain([1]).collect();
    let row = builder.apply("reshape", Attrs::new([sizes(&kept)]), &[sum])?;
    Some([builder.apply("sub", Attrs::none(), &[scaled, row])?, sum])
}

/// Computes a value from two slices of another value, each with half of the columns. The columns are adjacent or
/// strided, in either order. Now and then the slices also have half of the rows, which are then other rows than the
/// result's.
fn random_columns(random: &mut Random, builder: &mut Builder, y: ValueId) -> Option<ValueId> {
    let shape = builder.shape(y);
    let axis = shape.len().checked_sub(1)?;
    let halved = |axis: usize| (shape[axis] / 2 > 0).then_some(axis);
    let rows = axis.checked_sub(1).filter(|_| random.below(4) == 0).and_then(halved);
    let axis = halved(axis)?;
    let every = random.pick(&[1, 1, 2]);
    let mut half = |builder: &mut Builder, second: usize| {
        let (mut starts, mut counts, mut steps) = (vec![0; shape.len()], shape.clone(), vec![1i64; shape.len()]);
        for axis in rows.into_iter().chain([axis]) {
            let count = shape[axis] / 2;
            let (first, step) = if every == 1 { (second * count, 1) } else { (second, 2) };
            let is_reversed = random.below(4) == 0;
            (starts[axis], counts[axis]) = (first + if is_reversed { (count - 1) * step } else { 0 }, count);
            steps[axis] = if is_reversed { -(step as i64) } else { step as i64 };
        }
        builder.apply("slice", Attrs::new([sizes(&starts), sizes(&counts), (&steps[..]).into()]), &[y])
    };
    let halves = [half(builder, 0)?, half(builder, 1)?];
    let gate = builder.apply("maximum", Attrs::none(), &halves)?;
    builder.apply("mul", Attrs::none(), &[gate, halves[1]])
}

/// Builds GEMMs of one dtype in all forms, and returns the graph and the number of GEMMs. Elementwise ops and row
/// statistics follow each one. Several of their results are outputs and operands of sums. The last one may be an
/// operand of the next GEMM.
pub fn random_layers(seed: u64) -> (Graph, usize) {
    let mut products = 0;
    let mut random = Random::Seed(seed);
    let mut builder = Builder { graph: Graph::new("epilogues") };
    let dtype = random.pick(&[DType::F32, DType::F32, DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32]);
    let size = |random: &mut Random| random.pick(&[1, 1, 2, 3, 5, 8, 16, 17, 33, 40]);
    let mut shape = vec![size(&mut random), size(&mut random)];
    if random.below(3) == 0 {
        shape.insert(0, random.pick(&[1, 2, 3]));
    }
    let mut x = builder.graph.add_input(Type::of(dtype, &shape));
    let mut outputs = Vec::new();
    for _ in 0..1 + random.below(3) {
        let mut operand = builder.shape(x);
        let rank = operand.len();
        let columns = if random.below(3) == 0 { operand[rank - 1] } else { size(&mut random) };
        (operand[rank - 2], operand[rank - 1]) = (operand[rank - 1], columns);
        if random.below(2) == 0 {
            operand.drain(..rank - 2);
        }
        let w = builder.graph.add_input(Type::of(dtype, &operand));
        let Some(mut y) = builder.apply("matmul", Attrs::none(), &[x, w]) else { continue };
        products += 1;
        if random.below(3) == 0 {
            let mut axes: Vec<usize> = (0..builder.shape(y).len()).collect();
            let rank = axes.len();
            axes.swap(rank - 2, rank - 1);
            y = builder.apply("permute", Attrs::new([sizes(&axes)]), &[y]).expect("all axes are there");
        }
        // Other kernels read the product, too.
        for _ in 0..random.below(3) {
            match random.below(3) {
                0 => outputs.extend(random_elementwise(&mut random, &mut builder, y)),
                1 => outputs.extend(random_statistics(&mut random, &mut builder, y).into_iter().flatten()),
                _ => {}
            }
        }
        // The operands of a GEMM are still read while tiles of results are written.
        for value in [x, w] {
            if random.below(3) == 0 && builder.shape(value) == builder.shape(y) {
                y = builder.apply("add", Attrs::none(), &[y, value]).expect("the types are equal");
            }
        }
        if random.below(4) == 0
            && let Some([result, sum]) = random_statistics(&mut random, &mut builder, y)
        {
            y = result;
            outputs.extend((random.below(2) == 0).then_some(sum));
        }
        for _ in 0..random.below(5) {
            y = random_elementwise(&mut random, &mut builder, y).unwrap_or(y);
            if random.below(6) == 0 {
                outputs.push(y);
            }
        }
        if random.below(3) == 0 {
            y = random_columns(&mut random, &mut builder, y).unwrap_or(y);
            if random.below(2) == 0 {
                y = random_elementwise(&mut random, &mut builder, y).unwrap_or(y);
            }
        }
        // Scaling keeps the sums of further GEMMs small.
        let small = Attr::Literal(Literal::scalar(Scalar::Float(0.125), DType::F32));
        let small = builder.apply("constant", Attrs::new([small]), &[]).expect("a constant");
        let small = builder.apply("cast", Attrs::new([dtype.into()]), &[small]).expect("anything casts");
        x = builder.apply("mul", Attrs::none(), &[y, small]).expect("a number fits");
        let shape = builder.shape(x);
        if random.below(3) == 0 {
            let axes: Vec<usize> = (0..shape.len()).filter(|_| random.below(2) == 0).collect();
            let attrs = Attrs::new([sizes(&axes), false.into()]);
            outputs.extend(builder.apply(random.pick(&["sum", "max"]), attrs, &[x]));
        }
        if shape.len() < 2 {
            break;
        }
    }
    builder.graph.set_outputs(outputs.into_iter().chain([x]));
    (builder.graph, products)
}
