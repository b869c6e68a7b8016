//! Virtual instructions: machine instructions over an unlimited number of registers.

use super::rows::Row;
use super::target::Width;
use ms_core::ir::ParamId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::ops::Range;

/// A virtual register. All except [accumulators](Program::accumulators) are defined once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VReg(pub u32);

/// A constant, which is in the pool once.
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
    /// Its value, if that is constant: it is rematerialised at its uses, and has no defining instruction.
    pub constant: Option<Constant>,
}

/// Whether an instruction overwrites an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tie {
    /// No: the result has a separate register.
    Free,
    /// The result takes the register of the first source.
    First,
    /// A fused multiply-add of sources `a * b + c`, whose result takes the register of any of
    /// them; the rows are the forms 132, 213 and 231.
    Fma([Row; 3]),
}

/// The widths of the registers in an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// Their own widths.
    Whole,
    /// The low 128 bits of all.
    LowAll,
    /// The low 128 bits of the sources; the result is whole.
    LowSources,
}

/// A machine instruction.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The instruction.
    pub row: Row,
    /// Its immediate operand.
    pub imm: Option<u8>,
    /// Whether it overwrites a source.
    pub tie: Tie,
    /// The widths of the registers.
    pub view: View,
    /// Whether its last source may be a constant in memory, broadcast on AVX-512.
    pub fold: bool,
    /// Whether the last source is the mask register that governs the lanes.
    pub masked: bool,
    /// Whether lanes without their mask bit become zero.
    pub zeroing: bool,
    /// Whether lanes past the end of a loop keep the previous contents of the result's register.
    pub merge: bool,
}

impl Machine {
    /// An instruction without options.
    pub const fn new(row: Row) -> Self {
        Self {
            row,
            imm: None,
            tie: Tie::Free,
            view: View::Whole,
            fold: false,
            masked: false,
            zeroing: false,
            merge: false,
        }
    }

    /// Sets an immediate operand.
    pub const fn imm(self, imm: u8) -> Self {
        Self { imm: Some(imm), ..self }
    }

    /// Sets the source that is overwritten.
    pub const fn tie(self, tie: Tie) -> Self {
        Self { tie, ..self }
    }

    /// Sets the widths of registers.
    pub const fn view(self, view: View) -> Self {
        Self { view, ..self }
    }

    /// Allows the last source to be a constant in memory.
    pub const fn fold(self) -> Self {
        Self { fold: true, ..self }
    }

    /// Makes the last source the mask.
    pub const fn masked(self) -> Self {
        Self { masked: true, ..self }
    }

    /// Sets lanes outside the mask to zero.
    pub const fn zeroing(self) -> Self {
        Self { zeroing: true, ..self }
    }

    /// Preserves the lanes past the end.
    pub const fn merge(self) -> Self {
        Self { merge: true, ..self }
    }
}

/// The number of an array of accumulators on the stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AccId(pub u32);

/// An array of accumulators on the stack.
#[derive(Clone, Copy, Debug)]
pub struct AccArray {
    /// Number of accumulators.
    pub count: usize,
    /// Bytes of one.
    pub size: usize,
}

/// The operation of a virtual instruction.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// A machine instruction.
    Machine(Machine),
    /// Reads adjacent elements of `size` bytes, for one copy of the body. `splat`: one element for all lanes.
    Load { param: ParamId, size: u8, splat: bool, copy: u8 },
    /// Reads the lanes' elements, of 4 or 8 bytes, at the stride of the call.
    Gather { param: ParamId, size: u8 },
    /// Reads the lanes' elements, of `size` bytes, of an indexed buffer at one position for all lanes, for
    /// one copy of the body: the position is an element of the buffer `index`, or the first lane of the
    /// operand. `strided`: lanes have the stride of the call.
    ReadAt { param: ParamId, size: u8, strided: bool, index: Option<ParamId>, copy: u8 },
    /// Reads the lanes' elements, of 4 or 8 bytes, of an indexed buffer, each at its own position. Sources:
    /// positions, offsets of elements in bytes, and the mask of lanes in range. `moves`: lanes also have a
    /// stride.
    GatherAt { param: ParamId, size: u8, moves: bool },
    /// The byte stride of an indexed buffer's axis.
    AxisStride(ParamId),
    /// The extent of an indexed buffer's axis.
    AxisExtent(ParamId),
    /// Writes adjacent elements of `size` bytes, for one copy of the body.
    Store { param: ParamId, size: u8, copy: u8 },
    /// The position along a loop.
    Index(u8),
    /// Leaves the loop of the block, of [`When::Repeat`], if the first lane of a truth value is false.
    LeaveUnless,
    /// A mask with all bits equal.
    MaskConst(bool),
    /// The quotient or remainder of integers of `size` bytes.
    Divide { size: u8, signed: bool, remainder: bool },
    /// Reads the accumulators of the lanes.
    AccLoad(AccId),
    /// Writes the accumulators of the lanes.
    AccStore(AccId),
    /// Reads the `n`-th vector of accumulators.
    AccRead(AccId, u8),
    /// Writes the `n`-th vector of accumulators.
    AccWrite(AccId, u8),
    /// Reads a vector of an array of results of blocks.
    PartialLoad(AccId, Partial),
    /// Writes a vector of an array of results of blocks.
    PartialStore(AccId, Partial),
}

impl Op {
    /// Returns whether a gather needs registers of the emitter.
    pub fn is_gather(&self) -> bool {
        matches!(self, Self::Gather { .. } | Self::GatherAt { .. } | Self::ReadAt { strided: true, .. })
    }

    /// The buffer whose offsets of lanes are needed.
    pub fn spread(&self) -> Option<ParamId> {
        match *self {
            Self::Gather { param, .. }
            | Self::GatherAt { param, moves: true, .. }
            | Self::ReadAt { param, strided: true, .. } => Some(param),
            _ => None,
        }
    }

    /// The buffers that are read and written.
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

/// The result of blocks that an instruction refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partial {
    /// The current one.
    Current,
    /// The one that is combined with it by halves.
    Other,
}

/// A virtual instruction.
#[derive(Clone, Debug)]
pub struct VInst {
    /// The operation.
    pub op: Op,
    /// Its result.
    pub dst: Option<VReg>,
    /// Its operands.
    pub srcs: SmallVec<[VReg; 4]>,
}

/// What instructions read and write besides memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Place {
    Register(VReg),
    /// The vector of accumulators on the stack with a number, or the one of the current step.
    Accumulators(AccId, Option<u8>),
}

impl VInst {
    fn written(&self) -> Option<Place> {
        match self.op {
            Op::AccStore(id) => Some(Place::Accumulators(id, None)),
            Op::AccWrite(id, part) => Some(Place::Accumulators(id, Some(part))),
            _ => self.dst.map(Place::Register),
        }
    }

    fn read(&self) -> impl Iterator<Item = Place> {
        let accumulators = match self.op {
            Op::AccLoad(id) => Some(Place::Accumulators(id, None)),
            Op::AccRead(id, part) => Some(Place::Accumulators(id, Some(part))),
            _ => None,
        };
        self.srcs.iter().map(|it| Place::Register(*it)).chain(accumulators)
    }
}

/// The lanes that a loop over them processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Span {
    /// All.
    All,
    /// Whole runs of this many vectors.
    Whole(usize),
    /// The rest after the whole runs.
    Rest(usize),
}

/// When a run of instructions is executed, for a step of the parallel loops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Once.
    Once,
    /// For every step of the reduced loops, for these lanes if they are reduced.
    Loop(Span),
    /// Until [`Op::LeaveUnless`] in it leaves.
    Repeat,
    /// Before a loop over whole turns of the accumulators, in [`Blocked`].
    Before,
    /// For the rest of the lanes, on the vector of this number in the turn, in a [`Slice`].
    Rest(usize),
    /// In a slice, if the block has more lanes than these.
    Behind(usize),
    /// After a loop over whole turns.
    After,
    /// Before the result of a block is first combined with an accumulator of the second level, and for unused
    /// accumulators.
    StartPartial,
    /// When a block of a reduction ends.
    EndBlock,
    /// For each pair of accumulators of the second level that is combined.
    ReducePartials,
    /// At the end of cut loops, if there was one block.
    One,
    /// At the end of cut loops, if there were several blocks.
    Several,
}

impl When {
    /// Whether the instructions are executed several times in a row.
    pub fn is_loop(self) -> bool {
        matches!(self, Self::Loop(_) | Self::Repeat)
    }
}

/// A run of virtual instructions: from the end of the previous block to `end`.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// When it runs.
    pub when: When,
    /// One past its last instruction.
    pub end: usize,
}

/// Blocks of instructions inside the loops of a stage whose reductions are
/// [cut](ms_core::ir::ReductionOrder::Blocks), and the blocks after these loops.
#[derive(Clone, Debug)]
pub struct Blocked {
    /// All blocks, by number.
    pub blocks: Range<usize>,
    /// Parts of the accumulators that are in registers in turn, each over a whole block of the reduction, if
    /// the lanes are the only loop; the last one produces the result of the block.
    pub slices: Vec<Slice>,
}

/// Some of the accumulators of a stage, in registers, over a block of a reduction.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The blocks of instructions in which the accumulators are in registers, by number: after the one that
    /// sets them to the identity, and before the one that uses them.
    pub held: Range<usize>,
    /// Lanes of a turn before those of this slice.
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
    /// The stages with reduced loops that are cut.
    pub blocked: Vec<Blocked>,
    /// Registers that are live across steps of a loop, and are defined in it again: accumulators, and carries.
    pub accumulators: Vec<VReg>,
    /// Arrays of accumulators.
    pub arrays: Vec<AccArray>,
    /// Lanes of one vector.
    pub lanes: usize,
    /// Number of copies of the body, each on the next vector of lanes.
    pub copies: usize,
    /// Whether lanes are always processed one by one.
    pub one_lane: bool,
}

impl Program {
    /// The range of block `i`.
    pub fn block_range(&self, i: usize) -> Range<usize> {
        let start = if i == 0 { 0 } else { self.blocks[i - 1].end };
        start..self.blocks[i].end
    }

    /// The cut loops that begin with block `i`, if any.
    pub fn blocked_at(&self, i: usize) -> Option<&Blocked> {
        self.blocked.iter().find(|it| it.blocks.start == i)
    }

    /// Runs of blocks over which accumulators keep their registers, besides single loops; each run comes
    /// before those inside it.
    pub fn held(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let inside = |it: &Blocked| it.slices.iter().map(|it| it.held.clone()).collect::<Vec<_>>();
        self.blocked.iter().flat_map(move |it| std::iter::once(it.blocks.clone()).chain(inside(it)))
    }

    /// The instructions of a run of blocks.
    pub fn insts_of(&self, blocks: &Range<usize>) -> Range<usize> {
        self.block_range(blocks.start).start..self.block_range(blocks.end - 1).end
    }

    /// Makes runs of instructions alternate; run `i` is from `bounds[i]` to `bounds[i + 1]`, and none reads or writes
    /// what another one writes.
    pub fn alternate(&mut self, bounds: &[usize]) {
        debug_assert!(self.are_independent(bounds));
        let runs = || bounds.windows(2).map(|it| &self.insts[it[0]..it[1]]);
        let longest = runs().map(<[VInst]>::len).max().unwrap_or(0);
        let all: Vec<VInst> = (0..longest).flat_map(|i| runs().filter_map(move |it| it.get(i).cloned())).collect();
        self.insts[bounds[0]..].iter_mut().zip(all).for_each(|(place, inst)| *place = inst);
    }

    /// Returns whether no run of instructions reads or writes a register or accumulators that another one writes.
    fn are_independent(&self, bounds: &[usize]) -> bool {
        let runs = || bounds.windows(2).map(|it| &self.insts[it[0]..it[1]]).enumerate();
        let mut writers = FxHashMap::default();
        let mut alone = true;
        for (run, inst) in runs().flat_map(|(run, insts)| insts.iter().map(move |it| (run, it))) {
            alone &= inst.written().is_none_or(|it| *writers.entry(it).or_insert(run) == run);
        }
        let own = |place: &Place, run: usize| writers.get(place).is_none_or(|it| *it == run);
        alone && runs().all(|(run, insts)| insts.iter().flat_map(VInst::read).all(|it| own(&it, run)))
    }

    /// Properties of a register.
    pub fn info(&self, reg: VReg) -> RegInfo {
        self.regs[reg.0 as usize]
    }
}
