//! Defines virtual instructions: machine instructions over an unlimited number of virtual registers.

use super::opcodes::Opcode;
use super::target::Width;
use ms_ir::ParamId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ops::Range;

/// A virtual register, in SSA form except for [accumulators](Program::accumulators).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VReg(pub u32);

/// A constant. The pool stores each constant once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Constant {
    /// The bits of one lane.
    pub bits: u64,
    /// Bytes of one lane: 4 or 8.
    pub size: u8,
}

/// Properties of a virtual register.
#[derive(Clone, Copy, Debug)]
pub struct RegInfo {
    /// The width of the register.
    pub width: Width,
    /// The value of a constant register. It has no defining instruction and is rematerialised at its uses.
    pub constant: Option<Constant>,
}

/// Whether an instruction overwrites a source operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tie {
    /// No: the result has its own register.
    Free,
    /// The result takes the register of the first source.
    First,
    /// Any source of a fused multiply-add `a * b + c`. The opcodes are its forms 132, 213 and 231.
    Fma([Opcode; 3]),
}

/// The operand widths with which an instruction is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// The widths of the virtual registers.
    Whole,
    /// The low 128 bits of all operands.
    LowAll,
    /// The low 128 bits of the sources. The result has its full width.
    LowSources,
}

/// A machine instruction.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The instruction.
    pub opcode: Opcode,
    /// The immediate operand.
    pub imm: Option<u8>,
    /// Whether it overwrites a source, and which.
    pub tie: Tie,
    /// The widths of the registers.
    pub view: View,
    /// Whether the last source may be a memory operand from the constant pool, broadcast on AVX-512.
    pub fold: bool,
    /// Whether the last source is the op mask.
    pub masked: bool,
    /// Whether lanes without their mask bit become zero (zeroing-masking).
    pub zeroing: bool,
    /// Whether lanes past the end of a loop keep the previous contents of the destination (merge-masking).
    pub merge: bool,
}

impl Machine {
    /// Returns an instruction without options.
    pub const fn new(opcode: Opcode) -> Self {
        Self {
            opcode,
            imm: None,
            tie: Tie::Free,
            view: View::Whole,
            fold: false,
            masked: false,
            zeroing: false,
            merge: false,
        }
    }

    /// Sets the immediate operand.
    pub const fn imm(self, imm: u8) -> Self {
        Self { imm: Some(imm), ..self }
    }

    /// Sets which source is overwritten.
    pub const fn tie(self, tie: Tie) -> Self {
        Self { tie, ..self }
    }

    /// Sets the operand widths.
    pub const fn view(self, view: View) -> Self {
        Self { view, ..self }
    }

    /// Allows the last source to be a memory operand from the constant pool.
    pub const fn fold(self) -> Self {
        Self { fold: true, ..self }
    }

    /// Declares the last source to be the op mask.
    pub const fn masked(self) -> Self {
        Self { masked: true, ..self }
    }

    /// Sets lanes outside the mask to zero.
    pub const fn zeroing(self) -> Self {
        Self { zeroing: true, ..self }
    }

    /// Preserves the destination's lanes past the end of a loop.
    pub const fn merge(self) -> Self {
        Self { merge: true, ..self }
    }
}

/// The index of an accumulator array in [`Program::arrays`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AccId(pub u32);

/// An array of accumulators on the stack.
#[derive(Clone, Copy, Debug)]
pub struct AccArray {
    /// The number of accumulators.
    pub count: usize,
    /// The size of one accumulator in bytes.
    pub size: usize,
}

/// The operation of a virtual instruction.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// A machine instruction.
    Machine(Machine),
    /// Reads contiguous elements of `size` bytes for copy `copy` of the body. With `splat`, broadcasts one element.
    Load { param: ParamId, size: u8, splat: bool, copy: u8 },
    /// Gathers elements of 4 or 8 bytes at the lane stride of the argument block.
    Gather { param: ParamId, size: u8 },
    /// Reads elements of `size` bytes of an indexed buffer, at one position for all lanes, for copy `copy` of the body.
    /// The position is the element of the buffer `index`, or else lane 0 of the operand. With `strided`, lanes have the
    /// stride of the argument block.
    ReadAt { param: ParamId, size: u8, strided: bool, index: Option<ParamId>, copy: u8 },
    /// Gathers elements of 4 or 8 bytes of an indexed buffer, each lane at its own position. The sources are the
    /// positions, the byte offsets of the elements, and the mask of lanes in range. With `moves`, lanes have a stride
    /// as well.
    GatherAt { param: ParamId, size: u8, moves: bool },
    /// Reads the byte stride of an indexed buffer's axis.
    AxisStride(ParamId),
    /// Reads the extent of an indexed buffer's axis.
    AxisExtent(ParamId),
    /// Writes contiguous elements of `size` bytes for copy `copy` of the body.
    Store { param: ParamId, size: u8, copy: u8 },
    /// Computes the position along a loop.
    Index(u8),
    /// Leaves the loop of the [`When::Repeat`] block unless lane 0 of a truth value is true.
    LeaveUnless,
    /// Sets all bits of a mask to the same value.
    MaskConst(bool),
    /// Computes the quotient or remainder of integers of `size` bytes.
    Divide { size: u8, signed: bool, remainder: bool },
    /// Reads the accumulators of the current lanes.
    AccLoad(AccId),
    /// Writes the accumulators of the current lanes.
    AccStore(AccId),
    /// Reads the `n`-th vector of accumulators.
    AccRead(AccId, u8),
    /// Writes the `n`-th vector of accumulators.
    AccWrite(AccId, u8),
    /// Reads a vector of an array of block results.
    PartialLoad(AccId, Partial),
    /// Writes a vector of an array of block results.
    PartialStore(AccId, Partial),
}

impl Op {
    /// Returns whether the emitter needs the registers reserved for gathers.
    pub fn is_gather(&self) -> bool {
        matches!(self, Self::Gather { .. } | Self::GatherAt { .. } | Self::ReadAt { strided: true, .. })
    }

    /// Returns the buffer whose lane offsets are needed, if any.
    pub fn spread(&self) -> Option<ParamId> {
        match *self {
            Self::Gather { param, .. }
            | Self::GatherAt { param, moves: true, .. }
            | Self::ReadAt { param, strided: true, .. } => Some(param),
            _ => None,
        }
    }

    /// Returns the buffers that are read or written.
    pub fn buffers(&self) -> impl Iterator<Item = ParamId> {
        let (param, index) = match *self {
            Self::Load { param, .. } | Self::Gather { param, .. } | Self::Store { param, .. } => (Some(param), None),
            Self::GatherAt { param, .. } => (Some(param), None),
            Self::ReadAt { param, index, .. } => (Some(param), index),
            _ => (None, None),
        };
        param.into_iter().chain(index)
    }
}

/// The block result that an instruction refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partial {
    /// The current block result.
    Current,
    /// The block result that pairwise reduction combines with the current one.
    Other,
}

/// A virtual instruction.
#[derive(Clone, Debug)]
pub struct VInst {
    /// The operation.
    pub op: Op,
    /// The register of the result.
    pub dst: Option<VReg>,
    /// The registers of the operands.
    pub srcs: SmallVec<[VReg; 4]>,
}

/// A location, other than memory, that instructions read and write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Location {
    Register(VReg),
    /// Vector `n` of an accumulator array on the stack, or with `None` the vector of the current step.
    Accumulators(AccId, Option<u8>),
}

impl VInst {
    fn written(&self) -> Option<Location> {
        match self.op {
            Op::AccStore(id) => Some(Location::Accumulators(id, None)),
            Op::AccWrite(id, part) => Some(Location::Accumulators(id, Some(part))),
            _ => self.dst.map(Location::Register),
        }
    }

    fn read(&self) -> impl Iterator<Item = Location> {
        let accumulators = match self.op {
            Op::AccLoad(id) => Some(Location::Accumulators(id, None)),
            Op::AccRead(id, part) => Some(Location::Accumulators(id, Some(part))),
            _ => None,
        };
        self.srcs.iter().map(|it| Location::Register(*it)).chain(accumulators)
    }
}

/// The lanes that a lane loop covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Span {
    /// All lanes.
    All,
    /// The multiples of this many vectors.
    Whole(usize),
    /// The remainder after the multiples of this many vectors.
    Rest(usize),
}

/// When a block of instructions is executed, within a step of the parallel loops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Once.
    Once,
    /// In every step of the reduced loops. If the lanes are reduced, for the lanes of this span.
    Loop(Span),
    /// Repeatedly, until its [`Op::LeaveUnless`] leaves.
    Repeat,
    /// In [`Blocked`], before the loop over whole rounds of the accumulators. A round uses every accumulator vector
    /// once.
    Before,
    /// In a [`Slice`], for remaining lanes, on the vector of this index in the round.
    Rest(usize),
    /// In a slice, if the block has more lanes than this.
    IfMoreThan(usize),
    /// After the loop over whole rounds.
    After,
    /// Before the result of a block is first combined with a second-level accumulator. Also initialises unused
    /// second-level accumulators.
    StartPartial,
    /// When a block of a reduction ends.
    EndBlock,
    /// For each pair of second-level accumulators that is combined.
    ReducePartials,
    /// After blocked loops that had a single block.
    SingleBlock,
    /// After blocked loops that had several blocks.
    SeveralBlocks,
}

impl When {
    /// Returns whether the instructions form a loop body.
    pub fn is_loop(self) -> bool {
        matches!(self, Self::Loop(_) | Self::Repeat)
    }
}

/// A block of virtual instructions, from the end of the previous block to `end`.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// When it runs.
    pub when: When,
    /// The end of its instructions (exclusive).
    pub end: usize,
}

/// The instruction blocks inside the reduced loops of a stage with
/// [`ReductionOrder::Blocks`](ms_ir::ReductionOrder::Blocks), and the blocks after these loops.
#[derive(Clone, Debug)]
pub struct Blocked {
    /// The indices of all its instruction blocks.
    pub blocks: Range<usize>,
    /// The slices that hold parts of the accumulators in registers, one after another, each over a whole block of the
    /// reduction. Only used if the lanes are the only reduced loop. The last slice produces the result of the block.
    pub slices: Vec<Slice>,
}

/// A subset of a stage's accumulators, held in registers over one block of a reduction.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The indices of the instruction blocks over which the accumulators stay in registers. The block before them sets
    /// the accumulators to the identity, and the block after them uses them.
    pub in_registers: Range<usize>,
    /// The number of lanes in a round before those of this slice.
    pub skipped: usize,
}

/// The body of a kernel as virtual instructions.
#[derive(Clone, Default, Debug)]
pub struct Program {
    /// Properties of each virtual register.
    pub regs: Vec<RegInfo>,
    /// All instructions, in order.
    pub insts: Vec<VInst>,
    /// The blocks, in order.
    pub blocks: Vec<Block>,
    /// The stages with blocked reductions.
    pub blocked: Vec<Blocked>,
    /// Registers that are live across iterations of a loop and redefined in it: accumulators and carries.
    pub accumulators: Vec<VReg>,
    /// The accumulator arrays on the stack.
    pub arrays: Vec<AccArray>,
    /// The number of lanes in a vector.
    pub lanes: usize,
    /// The number of copies of the body, each on the next vector of lanes.
    pub copies: usize,
    /// Whether lanes are always processed one at a time.
    pub one_lane: bool,
}

impl Program {
    /// Returns the instructions of block `i`.
    pub fn block_range(&self, i: usize) -> Range<usize> {
        let start = if i == 0 { 0 } else { self.blocks[i - 1].end };
        start..self.blocks[i].end
    }

    /// Returns the blocked loops that begin with block `i`, if any.
    pub fn blocked_at(&self, i: usize) -> Option<&Blocked> {
        self.blocked.iter().find(|it| it.blocks.start == i)
    }

    /// Returns the ranges of blocks over which accumulators stay in registers, except single loops. Outer ranges
    /// precede the ranges inside them.
    pub fn register_ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let inside = |it: &Blocked| it.slices.iter().map(|it| it.in_registers.clone()).collect::<Vec<_>>();
        self.blocked.iter().flat_map(move |it| std::iter::once(it.blocks.clone()).chain(inside(it)))
    }

    /// Returns the instructions of a range of blocks.
    pub fn insts_of(&self, blocks: &Range<usize>) -> Range<usize> {
        self.block_range(blocks.start).start..self.block_range(blocks.end - 1).end
    }

    /// Interleaves runs of instructions, to expose instruction-level parallelism. Run `i` spans
    /// `bounds[i]..bounds[i + 1]`. The runs must be independent: none may read or write a location that another run
    /// writes.
    pub fn alternate(&mut self, bounds: &[usize]) {
        debug_assert!(self.are_independent(bounds));
        let runs = || bounds.windows(2).map(|it| &self.insts[it[0]..it[1]]);
        let longest = runs().map(<[VInst]>::len).max().unwrap_or(0);
        let all: Vec<VInst> = (0..longest).flat_map(|i| runs().filter_map(move |it| it.get(i).cloned())).collect();
        self.insts[bounds[0]..].iter_mut().zip(all).for_each(|(place, inst)| *place = inst);
    }

    /// Returns whether no run reads or writes a register or accumulator that another run writes.
    fn are_independent(&self, bounds: &[usize]) -> bool {
        let runs = || bounds.windows(2).map(|it| &self.insts[it[0]..it[1]]).enumerate();
        let mut writers = FxHashMap::default();
        let mut alone = true;
        for (run, inst) in runs().flat_map(|(run, insts)| insts.iter().map(move |it| (run, it))) {
            alone &= inst.written().is_none_or(|it| *writers.entry(it).or_insert(run) == run);
        }
        let own = |place: &Location, run: usize| writers.get(place).is_none_or(|it| *it == run);
        alone && runs().all(|(run, insts)| insts.iter().flat_map(VInst::read).all(|it| own(&it, run)))
    }

    /// Returns the properties of a register.
    pub fn info(&self, reg: VReg) -> RegInfo {
        self.regs[reg.0 as usize]
    }
}
