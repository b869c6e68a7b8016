//! Checks the bounds of the steps of routines.

use crate::lower::{Argument, Buffer, BufferId, BufferLocation, KernelCall, Plan, Routine, Span, View, value_bytes};
use ms_ir::data::Type;
use ms_ir::error::{Code, Error, Result};
use ms_ir::{Contraction, Kernel, LaneAxis, Param, Role};

/// Checks the bounds in one routine of a plan.
#[derive(Clone, Copy)]
pub(super) struct Checker<'a> {
    pub plan: &'a Plan,
    pub routine: &'a Routine,
}

impl<'a> Checker<'a> {
    pub fn buffer(&self, id: BufferId) -> Result<&'a Buffer> {
        self.routine.buffers.get(id.0 as usize).ok_or_else(|| malformed("a step has a buffer that does not exist"))
    }

    /// Checks that a buffer is within its memory.
    pub fn check_buffer(&self, buffer: &Buffer) -> Result<()> {
        let bytes = |types: &[Type], i: u32| value_bytes(types.get(i as usize)?);
        let room = match buffer.place {
            BufferLocation::Input(i) => bytes(&self.routine.inputs, i),
            BufferLocation::Output(i) => bytes(&self.routine.outputs, i),
            BufferLocation::Constant(i) => self.plan.constants.get(i as usize).map(|it| it.bytes().len()),
            BufferLocation::Arena(at) => self.routine.arena_bytes.checked_sub(at),
            BufferLocation::Position => Some(usize::MAX),
        };
        match room {
            Some(room) if buffer.bytes <= room => Ok(()),
            _ => Err(malformed("a buffer is outside its place")),
        }
    }

    /// Checks that a buffer is materialised.
    fn check_memory(&self, id: BufferId) -> Result<()> {
        match self.buffer(id)?.place {
            BufferLocation::Position => Err(malformed("a step takes positions for values")),
            _ => Ok(()),
        }
    }

    /// Checks that a value of `bytes` bytes lies within its buffer.
    pub fn check_span(&self, span: &Span, bytes: usize) -> Result<()> {
        self.check_memory(span.buffer)?;
        match self.buffer(span.buffer)?.bytes.checked_sub(span.offset) {
            Some(room) if bytes <= room => Ok(()),
            _ => Err(malformed("a step reaches outside its buffer")),
        }
    }

    pub fn check_argument(&self, arg: &Argument, kernel: &Kernel, param: &Param, extents: &[usize]) -> Result<()> {
        if (param.role == Role::Iota) != (self.buffer(arg.buffer)?.place == BufferLocation::Position) {
            return Err(malformed("positions are what a kernel takes for positions"));
        }
        // A result is written once per point even if there is nothing to reduce.
        let points = kernel.par as usize + usize::from(kernel.lanes == LaneAxis::Parallel);
        let written = |axis: usize| param.role.is_written() && axis >= points;
        let steps = extents
            .iter()
            .zip(&arg.strides)
            .enumerate()
            .map(|(axis, (&extent, &stride))| (if written(axis) { extent.max(1) } else { extent }, stride as i128));
        if param.role.is_reloaded() && !are_distinct(extents, &arg.strides, param.dtype.size()) {
            return Err(malformed("a kernel reloads the elements of an output that are one for each iteration"));
        }
        let axis = arg.axis.map(|it| (it.extent, it.stride as i128));
        self.check_reach(arg.buffer, arg.offset as i128, steps.chain(axis), param.dtype.size())
    }

    /// Checks that a step has several independent kernels: none has a buffer that overlaps a buffer that another
    /// writes.
    pub fn check_independent(&self, calls: &[KernelCall]) -> Result<()> {
        if calls.len() < 2 {
            return Err(malformed("a step of kernels has several"));
        }
        let mut read = Vec::new();
        let mut written = Vec::new();
        for (number, call) in calls.iter().enumerate() {
            let kernel = self.plan.kernels.get(call.kernel.0 as usize);
            let params = kernel.map_or(&[][..], |it| &it.params);
            for (arg, param) in call.args.iter().zip(params) {
                let Some(memory) = Memory::of(self.buffer(arg.buffer)?) else { continue };
                let accesses = if param.role.is_written() { &mut written } else { &mut read };
                accesses.push((memory, number));
            }
        }
        written.sort_unstable();
        // A kernel may write several slices of a value.
        written.dedup_by(|(memory, number), before| {
            let joins = *number == before.1 && !before.0.is_before(memory);
            before.0.end = if joins { before.0.end.max(memory.end) } else { before.0.end };
            joins
        });
        let is_apart = written.windows(2).all(|it| it[0].0.is_before(&it[1].0));
        // Disjoint ranges sorted by start are also sorted by end.
        let others = |(memory, number): &(Memory, usize)| {
            let first = written.partition_point(|it| it.0.is_before(memory));
            written[first..].iter().take_while(|it| !memory.is_before(&it.0)).any(|it| it.1 != *number)
        };
        if !is_apart || read.iter().any(others) {
            return Err(malformed("no kernel of a step accesses what another one writes"));
        }
        Ok(())
    }

    /// Checks that an operand of a contraction, or its result (number 2), lies within its buffer.
    pub fn check_operand(&self, contraction: &Contraction, operand: usize, span: &Span) -> Result<()> {
        self.check_memory(span.buffer)?;
        if !contraction.is_sound() {
            return Err(malformed("a contraction has the axes that it says"));
        }
        let size = contraction.types.all()[operand].size();
        let sizes = contraction.axes_of(operand).map(|it| (it.size, it.strides[operand] as i128 * size as i128));
        self.check_reach(span.buffer, span.offset as i128, sizes, size)
    }

    pub fn check_view(&self, view: &View) -> Result<()> {
        self.check_memory(view.buffer)?;
        let size = view.dtype.size();
        let steps = view.layout.shape().iter().zip(view.layout.strides());
        let steps = steps.map(|(&extent, &stride)| (extent, stride as i128 * size as i128));
        self.check_reach(view.buffer, view.layout.offset() as i128 * size as i128, steps, size)
    }

    /// Checks that all elements at these extents and byte strides are within the buffer.
    fn check_reach(
        &self,
        buffer: BufferId,
        first: i128,
        steps: impl Iterator<Item = (usize, i128)>,
        size: usize,
    ) -> Result<()> {
        let bytes = self.buffer(buffer)?.bytes as i128;
        let (mut low, mut high) = (first, first + size as i128);
        for (extent, stride) in steps {
            if extent == 0 {
                return Ok(());
            }
            let reach = (extent as i128 - 1).saturating_mul(stride);
            low = low.saturating_add(reach.min(0));
            high = high.saturating_add(reach.max(0));
        }
        if low < 0 || high > bytes {
            return Err(malformed("a step reaches outside its buffer"));
        }
        Ok(())
    }
}

/// Returns whether elements of `size` bytes at all steps of loops are distinct, as far as nested strides show it: each
/// stride is beyond what the loops of smaller strides reach.
fn are_distinct(extents: &[usize], strides: &[i64], size: usize) -> bool {
    let loops =
        || extents.iter().zip(strides).map(|(&extent, stride)| (extent as u128, u128::from(stride.unsigned_abs())));
    let is_beyond = |(at, (extent, stride)): (usize, (u128, u128))| {
        let inner = loops().enumerate().filter(|&(other, it)| other != at && it.1 <= stride && it.0 > 1);
        let reach = inner.map(|(_, (extent, stride))| stride.saturating_mul(extent - 1));
        extent <= 1 || stride >= reach.fold(size as u128, u128::saturating_add)
    };
    extents.contains(&0) || loops().enumerate().all(is_beyond)
}

/// A range of a routine's memory, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Memory {
    /// The allocation. Inputs and outputs are disjoint, or shared as [`Reuse`](crate::lower::Reuse) allows.
    which: (u8, u32),
    start: usize,
    end: usize,
}

impl Memory {
    /// Returns the memory of a buffer; `None` if it is not materialised.
    fn of(&Buffer { bytes, place }: &Buffer) -> Option<Self> {
        let (which, start) = match place {
            BufferLocation::Input(at) => ((0, at), 0),
            BufferLocation::Output(at) => ((1, at), 0),
            BufferLocation::Constant(at) => ((2, at), 0),
            BufferLocation::Arena(at) => ((3, 0), at),
            BufferLocation::Position => return None,
        };
        (bytes > 0).then(|| Self { which, start, end: start.saturating_add(bytes) })
    }

    /// Returns whether all of this range precedes another.
    fn is_before(&self, other: &Self) -> bool {
        (self.which, self.end) <= (other.which, other.start)
    }
}

pub(super) fn malformed(what: &str) -> Error {
    Error::new(Code::Verify, format!("the plan is not well formed: {what}"))
}
