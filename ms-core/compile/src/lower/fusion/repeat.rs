//! Lowers a loop with elementwise condition and body to a kernel. The loop runs for each vector of elements, and its
//! carries stay in registers.

use crate::lower::fusion::body::apply;
use crate::lower::fusion::domain::AxisSet;
use crate::lower::fusion::emitted::{Arg, Emitted, ParamAccess};
use crate::lower::fusion::nest::{Axis, Nest, Walk};
use crate::lower::fusion::simplify::simplify;
use crate::lower::plan::routines::Routines;
use crate::lower::rewrites::flat::{Access, Flat, FlatNode, Kind, Origin, Repetition, Source, ValueIndex};
use crate::lower::rewrites::flatten::{flatten_loop, live_nodes};
use crate::target::Target;
use ms_ir::MapVec;
use ms_ir::data::{DType, Type};
use ms_ir::error::{Code, Error, Result};
use ms_ir::op::{Lowering, definition};
use ms_ir::{BinaryOp, Compare, Graph, Inst, Kernel, KernelBuilder, LaneAxis, ParamId, Role, Scope, StrideClass, Val};
use smallvec::smallvec;
use std::rc::Rc;

/// A node with a loop that is a kernel.
#[derive(Clone, Copy)]
pub(in crate::lower) struct Repeated<'a> {
    /// The graph that contains the node.
    pub outer: &'a Flat,
    pub node: &'a FlatNode,
    /// The number of iterations of a scan.
    pub count: Option<usize>,
}

impl Repetition {
    /// Returns the loop of these regions, if the target runs it as a kernel.
    ///
    /// # Errors
    /// Fails if lowering views or constants fails.
    pub fn of(
        condition: Option<&Graph>,
        body: &Graph,
        carries: usize,
        routines: &Routines,
        target: &Target,
    ) -> Result<Option<Self>> {
        let Some(limits) = &target.repeats else { return Ok(None) };
        if body.outputs().len() != carries || carries > limits.carries {
            return Ok(None);
        }
        let mut elements = 1;
        let mut fits = |ty: &Type| match ty.numel() {
            Some(1) => true,
            Some(count) if count != 0 && count <= limits.elements => {
                let is_equal = elements == 1 || elements == count;
                elements = count;
                is_equal
            }
            _ => false,
        };
        let mut nodes = 0;
        for graph in condition.into_iter().chain([body]) {
            if !graph.inputs().iter().all(|it| fits(graph.ty(*it))) {
                return Ok(None);
            }
            for node in live_nodes(graph) {
                nodes += 1;
                let is_elementwise = matches!(
                    definition(node.op).lowering,
                    Lowering::Map(_) | Lowering::Generate(_) | Lowering::View(_) | Lowering::Constant(_)
                );
                if nodes > limits.nodes || !is_elementwise || !node.outputs.iter().all(|it| fits(graph.ty(*it))) {
                    return Ok(None);
                }
            }
        }
        let (flat, tested, condition, next) = flatten_loop(condition, body, routines, target)?;
        let found = Self { flat, tested, condition, next, elements };
        Ok(found.is_elementwise().then_some(found))
    }

    /// Returns whether every value is computed from values at the same element or from values of one element.
    fn is_elementwise(&self) -> bool {
        let Self { flat, condition, next, .. } = self;
        let reads = |access: &Access| match access.source {
            Source::Splat(_) => true,
            Source::Value(value) => match flat.values[value].origin {
                Origin::Constant(_) | Origin::Position => false,
                Origin::Input(_) | Origin::Node(_) => flat.numel(value) == 1 || flat.is_whole(access),
            },
        };
        let computes =
            |node: &FlatNode| matches!(node.kind, Kind::Map(_) | Kind::Copy) && node.inputs.iter().all(reads);
        flat.nodes.iter().all(computes) && next.iter().chain(condition).all(reads)
    }

    /// Emits the kernels of a node with this loop; `used` names its live results. One kernel computes the results of
    /// one element, and one the others.
    ///
    /// # Errors
    /// [`Code::Verify`] for operands that do not fit the loop.
    pub fn emit(
        &self,
        of: Repeated<'_>,
        used: impl Fn(ValueIndex) -> bool,
        target: &Target,
        routines: &mut Routines,
    ) -> Result<Vec<Emitted>> {
        let Repeated { outer, node, .. } = of;
        let mut emitted = Vec::new();
        for is_one in [true, false] {
            let is_result = |it: &usize| used(node.outputs[*it]) && (outer.numel(node.outputs[*it]) == 1) == is_one;
            let results: Vec<usize> = (0..node.outputs.len()).filter(is_result).collect();
            if !results.is_empty() {
                let elements = if is_one { 1 } else { self.elements };
                emitted.push(self.kernel_of(of, &results, elements, target, routines)?);
            }
        }
        Ok(emitted)
    }

    /// Builds the kernel that computes these results.
    fn kernel_of(
        &self,
        Repeated { outer, node, count }: Repeated<'_>,
        results: &[usize],
        elements: usize,
        target: &Target,
        routines: &mut Routines,
    ) -> Result<Emitted> {
        let (mut args, mut walks): (Vec<Arg>, Vec<Walk>) = (Vec::new(), Vec::new());
        let mut body = KernelBuilder::new(0, 0, LaneAxis::Parallel);
        let mut firsts: Vec<Val> = Vec::with_capacity(node.inputs.len());
        let mut operands: Vec<Option<ParamId>> = Vec::new();
        let mut known: Vec<(Role, ValueIndex, usize, StrideClass)> = Vec::new();
        let mut push = |body: &mut KernelBuilder, access: &Access, value, role| {
            let is_one = access.layout.numel() == 1;
            let step = if role == Role::Input && is_one { StrideClass::Zero } else { StrideClass::Unit };
            let offset = access.layout.offset();
            let key = (role, value, offset, step);
            if let Some(known) = known.iter().position(|it| *it == key) {
                return ParamId(known as u32);
            }
            known.push(key);
            let is_whole = outer.is_whole(access) && access.layout.numel() == elements;
            args.push(Arg { value, role, offset, axis: None, dense: is_whole.then_some(AxisSet::All) });
            let stride = if is_one && elements > 1 { 0 } else { 1 };
            walks.push(Walk { dtype: access.dtype, strides: smallvec![stride] });
            body.param(access.dtype, role, step)
        };
        for access in &node.inputs {
            operands.push(access.value().map(|value| push(&mut body, access, value, Role::Input)));
        }
        let outs = results.iter().map(|&result| {
            let value = node.outputs[result];
            let whole = Access::whole(value, outer.values[value].dtype, &outer.values[value].shape);
            push(&mut body, &whole, value, Role::Output)
        });
        let outs: Vec<ParamId> = outs.collect();
        for (access, param) in node.inputs.iter().zip(&operands) {
            firsts.push(match (access.source, param) {
                (Source::Splat(scalar), _) => body.constant(scalar, access.dtype),
                (Source::Value(_), Some(param)) => body.load(*param),
                (Source::Value(_), None) => unreachable!("a value has a param"),
            });
        }
        let last = self.stage(&mut body, count, &firsts);
        for (&result, param) in results.iter().zip(outs) {
            body.store(param, last[result]);
        }
        body.end_stage(Scope::Point);
        let kernel = simplify(target.expand(body.finish()), routines.precision().is_relaxed());
        let kernel = without_unread(kernel, &mut args, &mut walks);
        debug_assert!(kernel.check().and_then(|()| target.check(&kernel)).is_ok(), "{kernel}");
        let nest = Nest::new(&[Axis { size: elements, reduced: false }], &walks, &[], None)
            .ok_or_else(|| Error::new(Code::Verify, "a loop over elements has a nest"))?;
        let accesses = ParamAccess::of(&kernel);
        Ok(Emitted { kernel: routines.kernel(kernel), nest: Rc::new(nest), accesses, args })
    }

    /// Adds the loop with these first values of carries and invariants, and returns the last values of the carries.
    fn stage(&self, body: &mut KernelBuilder, count: Option<usize>, firsts: &[Val]) -> Vec<Val> {
        let Self { flat, tested, condition, next, .. } = self;
        let zero = body.constant(0i64, DType::I32);
        body.end_stage(Scope::Point);
        let mut values: Vec<Option<Val>> = vec![None; flat.values.len()];
        // A carry that takes its own value keeps its first value, an input.
        let is_kept = |carry: usize| next[carry].value() == Some(carry);
        for (input, &first) in firsts.iter().enumerate() {
            let is_carry = input < next.len() && !is_kept(input);
            values[input] = Some(if is_carry { body.carry(first) } else { first });
        }
        let carries: Vec<Val> = values.iter().take(next.len()).copied().flatten().collect();
        let counter = count.map(|count| (body.carry(zero), count));
        let read = |body: &mut KernelBuilder, values: &[Option<Val>], access: &Access| match access.source {
            Source::Splat(scalar) => body.constant(scalar, access.dtype),
            Source::Value(value) => values[value].expect("a node comes after those that it reads"),
        };
        let run = |body: &mut KernelBuilder, values: &mut [Option<Val>], nodes: &[FlatNode]| {
            for node in nodes {
                let operands: Vec<Val> = node.inputs.map_vec(|it| read(body, values, it));
                values[node.outputs[0]] = Some(apply(flat, node, body, &operands));
            }
        };
        let (tests, steps) = flat.nodes.split_at(*tested);
        run(body, &mut values, tests);
        let goes_on = match (counter, condition) {
            (Some((counter, count)), _) => {
                let count = body.constant(count as i64, DType::I32);
                body.compare(Compare::Lt, counter, count)
            }
            (None, Some(condition)) => read(body, &values, condition),
            (None, None) => unreachable!("a loop without a condition has a number of iterations"),
        };
        body.end_unless(goes_on);
        run(body, &mut values, steps);
        let following: Vec<Val> = next.map_vec(|it| read(body, &values, it));
        let counted = counter.map(|(counter, _)| {
            let one = body.constant(1i64, DType::I32);
            (counter, body.binary(BinaryOp::Add, counter, one))
        });
        for (carry, &value) in following.iter().enumerate().filter(|it| !is_kept(it.0)) {
            body.next(carries[carry], value);
        }
        if let Some((counter, following)) = counted {
            body.next(counter, following);
        }
        body.end_stage(Scope::Repeat);
        carries
    }
}

/// Removes the params that the kernel does not access, and their entries in `args` and `walks`.
fn without_unread(mut kernel: Kernel, args: &mut Vec<Arg>, walks: &mut Vec<Walk>) -> Kernel {
    let mut number: Vec<Option<u32>> = vec![None; kernel.params.len()];
    for inst in &kernel.insts {
        if let Inst::Load(param) | Inst::Store(param, _) = inst {
            number[param.0 as usize] = Some(0);
        }
    }
    let is_read = |number: &[Option<u32>], at: &mut usize| {
        *at += 1;
        number[*at - 1].is_some()
    };
    let (mut a, mut b, mut c) = (0, 0, 0);
    kernel.params.retain(|_| is_read(&number, &mut a));
    args.retain(|_| is_read(&number, &mut b));
    walks.retain(|_| is_read(&number, &mut c));
    let mut next = 0..;
    number.iter_mut().flatten().for_each(|it| *it = next.next().expect("the range has no end"));
    for inst in &mut kernel.insts {
        if let Inst::Load(param) | Inst::Store(param, _) = inst {
            param.0 = number[param.0 as usize].expect("params that are accessed stay");
        }
    }
    kernel
}
