//! Builds calls of a kernel that own the memory of their operands.

use crate::kernel::KernelCode;
use ms_ir::data::{DType, Kind, Scalar};
use ms_ir::testing::Random;
use ms_ir::text::write_element;
use ms_ir::{Inst, Kernel, LaneAxis, ParamId, Role, Scope, StrideClass};

/// Numbers of lanes around the vector lengths of every instruction set.
pub const LANES: [usize; 12] = [0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 100];

/// The size in bytes of the guards before and after the elements of an operand.
const GUARD: usize = 128;

/// The number of positions along the axis of an indexed operand, unless specified.
const POSITIONS: usize = 5;

/// The contents of an operand before it is written.
const UNWRITTEN: u64 = 0xa5a5_a5a5_a5a5_a5a5;

/// The layout of an operand in memory. Unspecified fields get default values.
#[derive(Clone, Default)]
pub struct Form {
    /// The stride of each loop, in elements.
    pub strides: Option<Vec<i64>>,
    /// The axis of an indexed operand.
    pub axis: Option<Axis>,
}

/// The axis of an indexed operand.
#[derive(Clone, Copy)]
pub struct Axis {
    /// The number of positions.
    pub extent: usize,
    /// The stride, in elements.
    pub stride: i64,
}

/// A cache line of words.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; LINE_WORDS]);

/// The number of words in a cache line.
const LINE_WORDS: usize = 8;

/// The memory of a buffer of a call: its elements between two guards. The elements begin at a cache line.
#[derive(Clone)]
struct Operand {
    dtype: DType,
    lines: Vec<Line>,
    /// The number of elements between the guards.
    count: usize,
    /// The index of the element at the first step of all loops.
    first: usize,
    /// The stride of each loop, in elements.
    strides: Vec<i64>,
    axis: Option<Axis>,
}

impl Operand {
    /// Allocates memory for the elements that the loops and the axis access. There are no elements if the axis, or one
    /// of the first `outer` loops, has no steps.
    fn new(dtype: DType, extents: &[usize], strides: Vec<i64>, axis: Option<Axis>, outer: usize, guard: u64) -> Self {
        let own = axis.as_ref().map(|it| (&it.extent, &it.stride));
        let loops = || extents.iter().zip(&strides).chain(own);
        let reach = |sign: i64| {
            let of = |(extent, stride): (&usize, &i64)| extent.saturating_sub(1) * (sign * stride).max(0) as usize;
            loops().map(of).sum::<usize>()
        };
        let empty = loops().take(outer).any(|(extent, stride)| *extent == 0 && *stride != 0)
            || axis.is_some_and(|it| it.extent == 0);
        let count = if empty { 0 } else { 1 + reach(1) + reach(-1) };
        let lines = vec![Line([guard; LINE_WORDS]); (2 * GUARD + count * dtype.size()).div_ceil(8 * LINE_WORDS)];
        let mut operand = Self { dtype, lines, count, first: if empty { 0 } else { reach(-1) }, strides, axis };
        (0..count).for_each(|at| operand.set(at, UNWRITTEN));
        operand
    }

    /// Returns the word of an element, and the element's bit offset in it.
    fn place(&self, at: usize) -> (usize, usize) {
        let byte = GUARD + at * self.dtype.size();
        (byte / 8, byte % 8 * 8)
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.dtype.size())
    }

    fn set(&mut self, at: usize, bits: u64) {
        let ((word, shift), mask) = (self.place(at), self.mask());
        let word = &mut self.lines[word / LINE_WORDS].0[word % LINE_WORDS];
        *word = *word & !(mask << shift) | (bits & mask) << shift;
    }

    fn bits(&self, at: usize) -> u64 {
        let (word, shift) = self.place(at);
        self.word(word) >> shift & self.mask()
    }

    fn word(&self, at: usize) -> u64 {
        self.lines[at / LINE_WORDS].0[at % LINE_WORDS]
    }

    /// Returns the bits of an element, with one canonical pattern for all NaNs.
    fn get(&self, at: usize) -> u64 {
        let bits = self.bits(at);
        match Scalar::from_bits(bits, self.dtype) {
            Scalar::Float(it) if it.is_nan() => Scalar::Float(f64::NAN).to_bits(self.dtype),
            _ => bits,
        }
    }

    /// Returns whether the guards are unchanged.
    fn is_intact(&self, guard: u64) -> bool {
        let end = GUARD + self.count * self.dtype.size();
        let byte = |at: usize| self.word(at / 8) >> (at % 8 * 8) & 0xff == guard >> (at % 8 * 8) & 0xff;
        (0..GUARD).chain(end..8 * LINE_WORDS * self.lines.len()).all(byte)
    }
}

/// The extents and operands of a call of a kernel.
#[derive(Clone)]
pub struct Call {
    extents: Vec<usize>,
    /// The position of the first step of each loop, if the kernel reads positions.
    bases: Vec<u64>,
    /// The smallest position of each parameter with [`Role::Iota`].
    starts: Vec<u64>,
    operands: Vec<Operand>,
    roles: Vec<Role>,
    /// For each operand, the index of the operand whose memory it uses: itself, or one that it overwrites.
    memory: Vec<usize>,
    guard: u64,
}

impl Call {
    /// Creates a call of `kernel` with the extents of all loops. Operands without a form have distinct elements for all
    /// positions, and for all steps of the loops that they depend on. The memory around operands is filled with
    /// `guard`.
    pub fn new(kernel: &Kernel, extents: &[usize], forms: &[Option<Form>], guard: u64) -> Self {
        let operand = |(at, form): (usize, &Option<Form>)| {
            let Form { strides, axis } = form.clone().unwrap_or_default();
            let dtype = kernel.params[at].dtype;
            if kernel.params[at].role == Role::Immediate {
                return Operand::new(dtype, extents, vec![0; kernel.loops()], None, 0, guard);
            }
            let (dense, next) = dense(kernel, ParamId(at as u32), extents);
            let strides = strides.unwrap_or(dense);
            let is_indexed = kernel.params[at].role == Role::Indexed;
            let axis = axis.or(is_indexed.then_some(Axis { extent: POSITIONS, stride: next }));
            // A buffer that is read at points is read even if the reduced loops have no steps.
            let loops =
                if uses(kernel, ParamId(at as u32), Scope::Point) { result_loops(kernel) } else { kernel.loops() };
            Operand::new(dtype, extents, strides, axis, loops, guard)
        };
        Self {
            extents: extents.to_vec(),
            bases: vec![0; if kernel.reads_position() { kernel.loops() } else { 0 }],
            starts: vec![0; kernel.params.len()],
            operands: forms.iter().enumerate().map(operand).collect(),
            roles: kernel.params.iter().map(|it| it.role).collect(),
            memory: (0..kernel.params.len()).collect(),
            guard,
        }
    }

    /// Creates a call with random elements in all inputs, and random bases of loops.
    pub fn random(kernel: &Kernel, extents: &[usize], random: &mut Random<'_>, guard: u64) -> Self {
        let mut call = Self::new(kernel, extents, &vec![None; kernel.params.len()], guard);
        let is_filled = |role: Role| matches!(role, Role::Input | Role::Indexed | Role::Immediate);
        for (at, param) in kernel.params.iter().enumerate().filter(|it| is_filled(it.1.role)) {
            call.fill(ParamId(at as u32), |_| element(random, param.dtype));
        }
        call.bases.iter_mut().for_each(|it| *it = random.bits() >> random.below(40));
        call.starts.iter_mut().for_each(|it| *it = random.bits() >> (4 + random.below(60)));
        call
    }

    /// Sets the position of the first step of each loop. The kernel must read positions.
    pub fn begin_at(&mut self, bases: &[u64]) {
        assert_eq!(bases.len(), self.bases.len());
        self.bases.copy_from_slice(bases);
    }

    /// Sets the smallest position of a parameter.
    pub fn count_from(&mut self, param: ParamId, start: u64) {
        self.starts[param.0 as usize] = start;
    }

    /// Returns the number of elements of an operand.
    pub fn count(&self, param: ParamId) -> usize {
        self.operands[param.0 as usize].count
    }

    /// Writes the bits of all elements of an operand, in memory order.
    pub fn fill(&mut self, param: ParamId, mut bits: impl FnMut(usize) -> u64) {
        let operand = &mut self.operands[param.0 as usize];
        (0..operand.count).for_each(|at| operand.set(at, bits(at)));
    }

    /// Makes an output overwrite an input of its dtype.
    pub fn overwrite(&mut self, out: ParamId, input: ParamId) {
        let [out, input] = [out.0 as usize, input.0 as usize];
        self.operands[out].strides = self.operands[input].strides.clone();
        self.memory[out] = input;
    }

    /// Returns the bits of all elements of an operand, with one canonical pattern for all NaNs.
    pub fn elements(&self, param: ParamId) -> Vec<u64> {
        let operand = &self.operands[self.memory[param.0 as usize]];
        (0..operand.count).map(|at| operand.get(at)).collect()
    }

    /// Returns whether the loops over the result may be partitioned: their steps must write distinct elements.
    pub fn may_be_partitioned(&self, kernel: &Kernel) -> bool {
        let outputs = self.operands.iter().zip(&self.roles).filter(|it| it.1.is_written());
        outputs
            .flat_map(|it| it.0.strides[..result_loops(kernel)].iter().zip(&self.extents))
            .all(|it| *it.0 != 0 || *it.1 < 2)
    }

    /// Runs the call.
    ///
    /// # Safety
    /// `code` is the code of the call's kernel.
    pub unsafe fn run(&mut self, code: &dyn KernelCode) {
        let mut words: Vec<u64> = self.extents.iter().map(|&it| it as u64).collect();
        let in_memory = |at: &usize| self.roles[*at] != Role::Immediate;
        for at in (0..self.roles.len()).filter(in_memory) {
            let memory = self.memory[at];
            let size = self.operands[at].dtype.size();
            let first = self.operands[memory].first * size;
            words.push(match self.roles[at] {
                Role::Iota => 8 * self.starts[at] + first as u64,
                _ => self.operands[memory].lines.as_mut_ptr() as u64 + (GUARD + first) as u64,
            });
            words.extend(self.operands[at].strides.iter().map(|&it| (it * size as i64) as u64));
        }
        for operand in &self.operands {
            let size = operand.dtype.size() as i64;
            words.extend(operand.axis.iter().flat_map(|it| [(it.stride * size) as u64, it.extent as u64]));
        }
        let immediates = self.operands.iter().zip(&self.roles).filter(|it| *it.1 == Role::Immediate);
        // Only the low bytes of an immediate's word are significant.
        words.extend(immediates.map(|(it, _)| it.bits(0) | self.guard & !it.mask()));
        words.extend(&self.bases);
        // SAFETY: operands have an element for every step of the loops, and `code` is compiled from the call's kernel.
        unsafe { code.call(&words) };
    }

    /// Returns the call with the same elements and other guards.
    pub fn with_guard(&self, guard: u64) -> Self {
        let mut call = Self { guard, ..self.clone() };
        for operand in &mut call.operands {
            let elements: Vec<u64> = (0..operand.count).map(|at| operand.bits(at)).collect();
            operand.lines.fill(Line([guard; LINE_WORDS]));
            elements.iter().enumerate().for_each(|(at, &bits)| operand.set(at, bits));
        }
        call
    }

    /// Returns whether all guards are unchanged.
    pub fn is_intact(&self) -> bool {
        self.operands.iter().all(|it| it.is_intact(self.guard))
    }

    /// Returns the first difference from the results of another call of the same kernel on equal inputs, if any.
    pub fn difference(&self, want: &Self) -> Option<String> {
        if !self.is_intact() || !want.is_intact() {
            return Some(format!("extents {:?}: memory around operands is written", self.extents));
        }
        for (at, (got, other)) in self.operands.iter().zip(&want.operands).enumerate() {
            let text = |bits: u64| {
                let mut text = String::new();
                write_element(bits, got.dtype, &mut text).expect("a string takes any text");
                text
            };
            if let Some(i) = (0..got.count).find(|&it| got.get(it) != other.get(it)) {
                let (got, want) = (text(got.get(i)), text(other.get(i)));
                return Some(format!("extents {:?}: element {i} of buffer %{at} is {got}, not {want}", self.extents));
            }
        }
        None
    }
}

/// Returns the bits of a random element: often a special value, often a small number.
pub fn element(random: &mut Random<'_>, dtype: DType) -> u64 {
    let small = random.below(9) as i64 - 4;
    let kind = random.below(3);
    match (dtype.kind(), kind) {
        (Kind::Bool, _) => random.bits() & 1,
        (Kind::Float, 0) => Scalar::Float(random.pick(&SPECIAL)).to_bits(dtype),
        (Kind::Float, 1) => Scalar::Float(small as f64 * 0.75).to_bits(dtype),
        (Kind::Int, 0) => random.pick(&[0, 1, !0, 31, 32, 63, 64, 1 << 7, 1 << 15, 1 << 31, 1 << 63, i64::MAX as u64]),
        (Kind::Int, 1) => small as u64,
        _ => random.bits() >> random.below(40),
    }
}

const SPECIAL: [f64; 26] = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    1e-40,
    -1e-310,
    f64::MAX,
    3.0e38,
    65504.0,
    16_777_217.0,
    8_388_609.5,
    2_147_483_647.0,
    2_147_483_648.0,
    -2_147_483_648.0,
    -2_147_483_904.0,
    4_294_967_295.0,
    4_294_967_296.0,
    9_223_372_036_854_774_784.0,
    9_223_372_036_854_775_808.0,
    -9_223_372_036_854_775_808.0,
    18_446_744_073_709_551_616.0,
];

/// Returns the number of loops over the result, which come first.
fn result_loops(kernel: &Kernel) -> usize {
    kernel.par as usize + usize::from(kernel.lanes == LaneAxis::Parallel)
}

/// Returns whether stages of a scope read or write a buffer.
fn uses(kernel: &Kernel, param: ParamId, scope: Scope) -> bool {
    let uses = |inst: &Inst| matches!(inst, Inst::Load(it) | Inst::Gather(it, _) | Inst::Store(it, _) if *it == param);
    let mut stages = (0..kernel.stages.len()).filter(|&it| kernel.stages[it].scope == scope);
    stages.any(|it| kernel.insts[kernel.stage_range(it)].iter().any(uses))
}

/// Returns strides, in elements, with distinct addresses for all steps of the loops that a buffer depends on. Also
/// returns the stride of an axis around them.
fn dense(kernel: &Kernel, param: ParamId, extents: &[usize]) -> (Vec<i64>, i64) {
    let lanes = kernel.par as usize;
    let in_loop = uses(kernel, param, Scope::Loop);
    let mut strides = vec![0; kernel.loops()];
    let mut reach = 1;
    let mut axis = |at: usize, stride: i64| {
        strides[at] = stride;
        reach += stride.abs() * (extents[at] as i64 - 1).max(0);
        reach
    };
    let mut next = 1;
    if in_loop || kernel.lanes == LaneAxis::Parallel {
        let step = match kernel.params[param.0 as usize].step {
            StrideClass::Unit => 1,
            StrideClass::Zero => 0,
            StrideClass::Any if param.0.is_multiple_of(2) => 3,
            StrideClass::Any => -2,
        };
        next = axis(lanes, step);
    }
    let reduced = if in_loop { lanes + 1..kernel.loops() } else { 0..0 };
    for at in reduced.rev().chain((0..lanes).rev()) {
        next = axis(at, next);
    }
    (strides, next)
}
