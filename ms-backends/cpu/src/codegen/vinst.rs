//! Virtual instructions: machine instructions over as many registers as one likes.

use super::rows::Row;
use super::target::Width;
use ms_core::ir::ParamId;
use smallvec::SmallVec;
use std::ops::Range;

/// A virtual register. All but accumulators are defined once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VReg(pub u32);

/// A constant, of which the pool holds one copy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Constant {
    /// The bits of one lane.
    pub bits: u64,
    /// Bytes of one lane: 4 or 8.
    pub size: u8,
}

/// What is known of a virtual register.
#[derive(Clone, Copy, Debug)]
pub struct RegInfo {
    /// The register it needs.
    pub width: Width,
    /// Its value, if that is constant: it is made anew wherever it is needed, and has no
    /// defining instruction.
    pub constant: Option<Constant>,
}

/// Whether an instruction overwrites an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tie {
    /// No: the result has a register of its own.
    Free,
    /// The result takes the register of the first source.
    First,
    /// A fused multiply-add of sources `a * b + c`, whose result takes the register of any of
    /// them; the rows are the forms 132, 213 and 231.
    Fma([Row; 3]),
}

/// Under which names an instruction sees its operands' registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// In their own width.
    Whole,
    /// The low 128 bits of all.
    LowAll,
    /// The low 128 bits of the sources; the result is whole.
    LowSources,
}

/// A machine instruction.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Which.
    pub row: Row,
    /// Its immediate operand.
    pub imm: Option<u8>,
    /// Whether it overwrites a source.
    pub tie: Tie,
    /// How it sees the registers.
    pub view: View,
    /// Whether its last source may be a constant in memory, broadcast on AVX-512.
    pub fold: bool,
    /// Whether the last source is the mask register that governs the lanes.
    pub masked: bool,
    /// Whether lanes without their mask bit become zero.
    pub zeroing: bool,
    /// Whether lanes past the end of a loop keep what the result's register held.
    pub merge: bool,
}

impl Machine {
    /// The plain use of an instruction.
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

    /// With an immediate operand.
    pub const fn imm(self, imm: u8) -> Self {
        Self { imm: Some(imm), ..self }
    }

    /// Overwriting a source.
    pub const fn tie(self, tie: Tie) -> Self {
        Self { tie, ..self }
    }

    /// Seeing registers under other names.
    pub const fn view(self, view: View) -> Self {
        Self { view, ..self }
    }

    /// With a last source that may be a constant in memory.
    pub const fn fold(self) -> Self {
        Self { fold: true, ..self }
    }

    /// Under the mask that is the last source.
    pub const fn masked(self) -> Self {
        Self { masked: true, ..self }
    }

    /// With zeros outside the mask.
    pub const fn zeroing(self) -> Self {
        Self { zeroing: true, ..self }
    }

    /// Keeping the lanes past the end.
    pub const fn merge(self) -> Self {
        Self { merge: true, ..self }
    }
}

/// The number of an array of accumulators on the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccId(pub u32);

/// An array of accumulators on the stack.
#[derive(Clone, Copy, Debug)]
pub struct AccArray {
    /// Number of accumulators.
    pub count: usize,
    /// Bytes of one.
    pub size: usize,
}

/// What a virtual instruction does.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// A machine instruction.
    Machine(Machine),
    /// Reads the lanes' elements, of `size` bytes, side by side, for one copy of the body.
    /// `splat`: one element for all lanes.
    Load { param: ParamId, size: u8, splat: bool, copy: u8 },
    /// Reads the lanes' elements, of 4 or 8 bytes, by the stride of the call.
    Gather { param: ParamId, size: u8 },
    /// Reads the lanes' elements, of `size` bytes, of an indexed buffer at one position for all lanes, for one
    /// copy of the body: the element of the buffer `index`, or the first lane of the operand. `strided`: lanes
    /// move by the stride of the call.
    ReadAt { param: ParamId, size: u8, strided: bool, index: Option<ParamId>, copy: u8 },
    /// Reads the lanes' elements, of 4 or 8 bytes, of an indexed buffer, each at a position of its own. Sources:
    /// positions, offsets of elements in bytes, and for which lanes there is one. `moves`: lanes move besides.
    GatherAt { param: ParamId, size: u8, moves: bool },
    /// The byte stride of an indexed buffer's axis.
    AxisStride(ParamId),
    /// The extent of an indexed buffer's axis.
    AxisExtent(ParamId),
    /// Writes the lanes' elements, of `size` bytes, side by side, for one copy of the body.
    Store { param: ParamId, size: u8, copy: u8 },
    /// The position along a loop.
    Index(u8),
    /// A mask with all bits alike.
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
    /// Whether registers of the emitter are needed for a gather.
    pub fn is_gather(&self) -> bool {
        matches!(self, Self::Gather { .. } | Self::GatherAt { .. } | Self::ReadAt { strided: true, .. })
    }

    /// The buffer of which offsets of the lanes are needed.
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

/// Which result of blocks an instruction means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partial {
    /// The one whose turn it is.
    Current,
    /// The one that is combined with it by halves.
    Other,
}

/// A virtual instruction.
#[derive(Clone, Debug)]
pub struct VInst {
    /// What it does.
    pub op: Op,
    /// Its result.
    pub dst: Option<VReg>,
    /// Its operands.
    pub srcs: SmallVec<[VReg; 4]>,
}

/// Which lanes a loop over them takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Span {
    /// All.
    All,
    /// As many whole runs of so many vectors as there are.
    Whole(usize),
    /// What is left after the whole runs.
    Rest(usize),
}

/// When a run of instructions takes place, for a step of the parallel loops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Once.
    Once,
    /// For every step of the reduced loops, on these lanes of it if they are reduced.
    Loop(Span),
    /// Before a loop over whole turns of the accumulators, in [`Blocked`].
    Before,
    /// For what is left of the lanes, on the vector of this number in the turn, in a [`Slice`].
    Rest(usize),
    /// In a slice, if there are more lanes in the block than these.
    Behind(usize),
    /// After a loop over whole turns.
    After,
    /// Before the result of a block goes to an accumulator of the second level for the first time,
    /// and for those that get none.
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

/// A run of virtual instructions: those from the end of the block before up to `end`.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// When it runs.
    pub when: When,
    /// One past its last instruction.
    pub end: usize,
}

/// Blocks of instructions that stand inside the loops of a stage whose reductions are
/// [cut](ms_core::ir::ReductionOrder::Blocks), and what follows these loops.
#[derive(Clone, Debug)]
pub struct Blocked {
    /// All of them, by number.
    pub blocks: Range<usize>,
    /// Parts of the accumulators that are in registers in turn, each over a whole block of the
    /// reduction, if the lanes are the only loop; the last one gives the result of the block.
    pub slices: Vec<Slice>,
}

/// Some of the accumulators of a stage, in registers, over a block of a reduction.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The blocks of instructions in which the accumulators are held, by number: after the one that sets
    /// them to the identity, and before the one that takes them.
    pub held: Range<usize>,
    /// Lanes of a turn that come before those of this slice.
    pub skipped: usize,
}

/// The body of a kernel as virtual instructions.
#[derive(Clone, Default, Debug)]
pub struct Program {
    /// Of each virtual register.
    pub regs: Vec<RegInfo>,
    /// All instructions, in order.
    pub insts: Vec<VInst>,
    /// The blocks, in order.
    pub blocks: Vec<Block>,
    /// Those around which reduced loops stand that are cut.
    pub blocked: Vec<Blocked>,
    /// Registers that keep a value from one step of the reduced loops to the next.
    pub accumulators: Vec<VReg>,
    /// Arrays of accumulators.
    pub arrays: Vec<AccArray>,
    /// Lanes of one vector.
    pub lanes: usize,
    /// Copies of the body, each on the next vector of lanes.
    pub copies: usize,
    /// Whether the lanes are taken one by one throughout.
    pub one_lane: bool,
}

impl Program {
    /// The range of block `i`.
    pub fn block_range(&self, i: usize) -> Range<usize> {
        let start = if i == 0 { 0 } else { self.blocks[i - 1].end };
        start..self.blocks[i].end
    }

    /// The cut loops that begin with block `i`, if some do.
    pub fn blocked_at(&self, i: usize) -> Option<&Blocked> {
        self.blocked.iter().find(|it| it.blocks.start == i)
    }

    /// Runs of blocks over which accumulators keep their registers, besides single loops; each run
    /// stands before those in it.
    pub fn held(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let inside = |it: &Blocked| it.slices.iter().map(|it| it.held.clone()).collect::<Vec<_>>();
        self.blocked.iter().flat_map(move |it| std::iter::once(it.blocks.clone()).chain(inside(it)))
    }

    /// The instructions of a run of blocks.
    pub fn insts_of(&self, blocks: &Range<usize>) -> Range<usize> {
        self.block_range(blocks.start).start..self.block_range(blocks.end - 1).end
    }

    /// What is known of a register.
    pub fn info(&self, reg: VReg) -> RegInfo {
        self.regs[reg.0 as usize]
    }
}
