//! Defines the kernel of a fusion group with its arguments, and which of them may share memory.

use crate::lower::fusion::domain::AxisSet;
use crate::lower::fusion::nest::Nest;
use crate::lower::plan::{IndexedAxis, KernelId};
use crate::lower::rewrites::flat::{Flat, ValueIndex};
use ms_ir::{Inst, Kernel, Role, Scope};
use std::rc::Rc;

/// The kernel of a group, and its arguments.
#[derive(PartialEq)]
pub(in crate::lower) struct Emitted {
    pub kernel: KernelId,
    pub nest: Rc<Nest>,
    /// The accesses of each param by the kernel.
    pub accesses: Rc<[ParamAccess]>,
    /// The buffers, in the order of the kernel's params.
    pub args: Vec<Arg>,
}

/// An argument of a kernel call.
#[derive(PartialEq)]
pub(in crate::lower) struct Arg {
    pub value: ValueIndex,
    pub role: Role,
    /// The first element, in elements.
    pub offset: usize,
    /// The axis of a value that the kernel gathers along.
    pub axis: Option<IndexedAxis>,
    /// The part of the domain that the whole value covers, if the kernel traverses it in row-major order.
    pub dense: Option<AxisSet>,
}

/// The instructions at which a kernel accesses a param.
#[derive(Clone, Copy, PartialEq, Default)]
pub(in crate::lower) struct ParamAccess {
    last_read: Option<usize>,
    first_write: Option<usize>,
    /// Whether an access is in a loop, so that it does not happen once per point.
    in_loop: bool,
}

impl ParamAccess {
    /// Returns the accesses of a kernel, by param.
    pub fn of(kernel: &Kernel) -> Rc<[Self]> {
        let mut all = vec![Self::default(); kernel.params.len()];
        for (stage, it) in kernel.stages.iter().enumerate() {
            for at in kernel.stage_range(stage) {
                let access = match kernel.insts[at] {
                    Inst::Load(param) => {
                        let access = &mut all[param.0 as usize];
                        access.last_read = Some(at);
                        access
                    }
                    Inst::Store(param, _) => {
                        let access = &mut all[param.0 as usize];
                        access.first_write.get_or_insert(at);
                        access
                    }
                    _ => continue,
                };
                access.in_loop |= it.scope == Scope::Loop;
            }
        }
        all.into()
    }
}

impl Emitted {
    /// Returns the values that the kernel writes.
    pub fn results(&self) -> impl Iterator<Item = ValueIndex> + '_ {
        self.args.iter().filter(|it| it.role.is_written()).map(|it| it.value)
    }

    /// Returns for each result argument a distinct operand that it may overwrite. `kept` lists, sorted, the operands to
    /// exclude.
    pub fn overwritten(&self, flat: &Flat, kept: &[ValueIndex]) -> Vec<Option<ValueIndex>> {
        let pairs = self.overwritable(flat, kept);
        // Each result takes a different operand.
        let mut results = 0..;
        let over = |(at, arg): (usize, &Arg)| {
            let number = if arg.role.is_written() { results.next()? } else { return None };
            let operands = operands_of(&pairs, at).map(|it| self.args[it].value);
            let mut made = operands.filter(|it| flat.producer(*it).is_some());
            made.clone().nth(number).or_else(|| made.next())
        };
        self.args.iter().enumerate().map(over).collect()
    }

    /// Returns pairs of a result and an operand that it may overwrite, as argument indices, sorted by result. Both have
    /// elements of the same size and are traversed in the same order. Every element is read, once per point, before it
    /// is written. `kept` lists, sorted, the operands to exclude.
    pub fn overwritable(&self, flat: &Flat, kept: &[ValueIndex]) -> Vec<(usize, usize)> {
        let args = || self.args.iter().enumerate().filter(|it| it.1.dense.is_some() && !self.accesses[it.0].in_loop);
        // A gather also reads elements other than the current one, after some of them are overwritten.
        let reads = |value| self.args.iter().filter(|it| !it.role.is_written() && it.value == value).count();
        let operands: Vec<(usize, &Arg)> = args()
            .filter(|it| it.1.role == Role::Input && reads(it.1.value) == 1 && kept.binary_search(&it.1.value).is_err())
            .collect();
        let size = |arg: &Arg| flat.values[arg.value].dtype.size();
        let mut pairs = Vec::new();
        for (to, result) in args().filter(|it| it.1.role.is_written()) {
            let fits = |(from, operand): &&(usize, &Arg)| {
                operand.dense == result.dense
                    && size(operand) == size(result)
                    && self.accesses[*from].last_read < self.accesses[to].first_write
            };
            pairs.extend(operands.iter().filter(fits).map(|it| (to, it.0)));
        }
        pairs
    }
}

/// Returns the operands paired with `result`; `pairs` is sorted.
pub(in crate::lower) fn operands_of(pairs: &[(usize, usize)], result: usize) -> impl Iterator<Item = usize> + Clone {
    let first = pairs.partition_point(|it| it.0 < result);
    pairs[first..].iter().take_while(move |it| it.0 == result).map(|it| it.1)
}
