//! Computes the operations and bytes of steps, and their names in profiles.

use ms_ir::MapVec;
use ms_ir::data::{Attrs, Op, Type};
use ms_ir::op;
use ms_ir::{Contraction, Inst, Kernel, LaneAxis, Role, Scope};
use std::fmt::Write;

/// The operations and bytes of a step.
///
/// ```
/// use ms_core::{Tensor, ops, session::profile};
/// let x = Tensor::ones([8, 8]);
/// let (_, profile) = profile(|| ops::matmul(&x, &x));
/// let work = profile.steps.iter().find(|it| it.name.starts_with("matmul")).expect("the op is recorded").work;
/// // Two operands and a result of 64 elements of f32.
/// assert_eq!((work.operations, work.bytes), (1024, 3 * 64 * 4));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Additions, multiplications and other instructions on elements. A fused multiply-add counts as two.
    pub operations: u64,
    /// Bytes of operands and results. Each element counts once.
    pub bytes: u64,
}

impl Work {
    /// Returns the work of a kernel call with this argument block. Loops inside a kernel count as one iteration, since
    /// their trip counts depend on values.
    pub fn of_kernel(kernel: &Kernel, block: &[u64]) -> Self {
        let extents = &block[..kernel.loops()];
        let par = kernel.par as usize;
        let product = |extents: &[u64]| extents.iter().fold(1u64, |all, &it| all.saturating_mul(it));
        let (outer, all) = (product(&extents[..par]), product(extents));
        let points = if kernel.lanes == LaneAxis::Parallel { outer.saturating_mul(extents[par]) } else { outer };
        let mut operations = 0u64;
        for (at, stage) in kernel.stages.iter().enumerate() {
            let times = if stage.scope == Scope::Loop { all } else { points };
            let insts: u64 = kernel.stage_range(at).map(|it| operations_of(&kernel.insts[it])).sum();
            operations = operations.saturating_add(insts.saturating_mul(times));
        }
        let accessed = (0..kernel.params.len()).map(|at| {
            let param = kernel.params[at];
            let strides = match param.role {
                Role::Iota | Role::Immediate => return 0,
                Role::Input | Role::Indexed | Role::Output | Role::Reloaded | Role::Scratch => {
                    &block[kernel.param_word(at) + 1..][..extents.len()]
                }
            };
            // A gathered operand is read once per point, wherever its elements are.
            let moves = |stride: u64| stride != 0 || param.role == Role::Indexed;
            let elements = extents.iter().zip(strides).filter(|it| moves(*it.1));
            elements.fold(param.dtype.size() as u64, |all, it| all.saturating_mul(*it.0))
        });
        Self { operations, bytes: accessed.fold(0, u64::saturating_add) }
    }

    /// Returns the work of a contraction with a materialised result.
    pub fn of_contraction(contraction: &Contraction) -> Self {
        let Contraction { batch, m, n, k, .. } = contraction;
        let terms = [batch, m, n, k].into_iter().fold(1u64, |all, it| all.saturating_mul(Contraction::size(it) as u64));
        let bytes = (0..3).map(|operand| operand_bytes(contraction, operand));
        Self { operations: terms.saturating_mul(2), bytes: bytes.fold(0, u64::saturating_add) }
    }

    /// Returns the work of an op with operands and results of these types: see [`op::flops`].
    pub fn of_op(op: Op, attrs: &Attrs, operands: &[&Type], results: &[Type]) -> Self {
        let bytes = |ty: &Type| ty.numel().unwrap_or(0).saturating_mul(ty.dtype.size()) as u64;
        let all = operands.iter().copied().chain(results).map(bytes);
        Self { operations: op::flops(op, attrs, operands, results), bytes: all.fold(0, u64::saturating_add) }
    }
}

/// Returns the number of operations of an instruction on one element.
fn operations_of(inst: &Inst) -> u64 {
    match inst {
        Inst::Load(_) | Inst::Store(..) | Inst::Const(_) | Inst::Index(_) | Inst::Gather(..) => 0,
        Inst::Carry(_) | Inst::While(_) | Inst::Next(..) => 0,
        Inst::Fma(..) => 2,
        Inst::Unary(..) | Inst::Binary(..) | Inst::Math(..) | Inst::Compare(..) | Inst::Select(..) => 1,
        Inst::Cast { .. } | Inst::Reduce(..) => 1,
    }
}

/// Returns the bytes of the elements of an operand of a contraction, or of its result (number 2).
fn operand_bytes(contraction: &Contraction, operand: usize) -> u64 {
    let axes = contraction.axes_of(operand).filter(|it| it.strides[operand] != 0);
    let size = contraction.types.all()[operand].size() as u64;
    axes.fold(size, |all, it| all.saturating_mul(it.size as u64))
}

/// Returns the bytes of the result of a contraction.
pub fn result_bytes(contraction: &Contraction) -> u64 {
    operand_bytes(contraction, 2)
}

/// Formats a kernel by its extents, its reductions, and the number of its instructions.
pub fn kernel_name(kernel: &Kernel, block: &[u64]) -> String {
    let extents = &block[..kernel.loops()];
    let points = kernel.par as usize + usize::from(kernel.lanes == LaneAxis::Parallel);
    let mut name = format!("kernel {:?}", &extents[..points]);
    if points < extents.len() {
        let reducers = kernel.insts.iter().filter_map(|it| match it {
            Inst::Reduce(reducer, _) => Some(reducer.name()),
            _ => None,
        });
        let reducers: Vec<&str> = reducers.collect();
        let _ = write!(name, " {} of {:?}", reducers.join(", "), &extents[points..]);
    }
    let insts: u64 = kernel.insts.iter().map(operations_of).sum();
    let _ = write!(name, ", {insts} operations");
    name
}

/// Formats a contraction by its sizes: batch, m, k, n.
pub fn contraction_name(contraction: &Contraction) -> String {
    let Contraction { batch, m, n, k, types, .. } = contraction;
    let [m, k, n] = [m, k, n].map(|it| Contraction::size(it));
    let batch = match Contraction::size(batch) {
        1 => String::new(),
        batch => format!("{batch} x "),
    };
    format!("product {batch}[{m}, {k}] [{k}, {n}] {}", types.a)
}

/// Formats an op with the types of its operands.
pub fn op_name(op: Op, operands: &[&Type]) -> String {
    let operands: Vec<String> = operands.map_vec(|it| it.to_string());
    format!("{} {}", op.name(), operands.join(", "))
}
