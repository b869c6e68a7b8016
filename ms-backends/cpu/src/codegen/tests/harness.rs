//! Runs a kernel on made-up buffers, interpreted and compiled, and compares all their bytes.

use super::super::{Unsupported, compile};
use crate::code::{CodeMemory, Compiled};
use crate::interp;
use crate::isa::Isa;
use ms_core::exec::KernelCode;
use ms_core::ir::{Inst, Kernel, LaneAxis, Role, Scope, StrideClass};
use ms_core::tensor::DType;

/// Numbers of lanes around the steps of every instruction set.
pub const LANES: [usize; 12] = [0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 100];

/// The instruction sets that this machine has.
pub fn targets() -> impl Iterator<Item = Isa> {
    [Isa::Avx2, Isa::Avx512].into_iter().filter(|it| it.is_supported())
}

/// A generator of numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// The bits of an element: often a special value, often a small number.
    pub fn element(&mut self, dtype: DType) -> u64 {
        let small = self.below(9) as i64 - 4;
        let kind = self.below(3);
        match dtype {
            DType::Bool => self.next() & 1,
            DType::F64 if kind == 0 => self.pick(&SPECIAL).to_bits(),
            DType::F32 if kind == 0 => (self.pick(&SPECIAL) as f32).to_bits().into(),
            DType::F16 if kind == 0 => half::f16::from_f64(self.pick(&SPECIAL)).to_bits().into(),
            DType::BF16 if kind == 0 => half::bf16::from_f64(self.pick(&SPECIAL)).to_bits().into(),
            DType::F64 if kind == 1 => (small as f64 * 0.75).to_bits(),
            DType::F32 if kind == 1 => (small as f32 * 0.75).to_bits().into(),
            DType::F16 if kind == 1 => half::f16::from_f64(small as f64 * 0.75).to_bits().into(),
            DType::BF16 if kind == 1 => half::bf16::from_f64(small as f64 * 0.75).to_bits().into(),
            _ if kind == 0 => {
                self.pick(&[0, 1, !0, 31, 32, 63, 64, 1 << 7, 1 << 15, 1 << 31, 1 << 63, i64::MAX as u64])
            }
            _ if kind == 1 => small as u64,
            _ => self.next() >> self.below(40),
        }
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

/// A buffer of a call: its bytes, the offset of the first element, its strides.
#[derive(Clone)]
struct Buffer {
    words: Vec<u64>,
    start: usize,
    strides: Vec<i64>,
}

impl Buffer {
    /// A buffer with distinct places for all steps of the loops that it takes part in.
    fn new(kernel: &Kernel, param: usize, extents: &[usize], random: &mut Random) -> Self {
        let info = kernel.params[param];
        let size = info.dtype.size() as i64;
        let lanes = kernel.par as usize;
        let point = (0..kernel.stages.len()).all(|i| {
            kernel.stages[i].scope == Scope::Point
                || kernel.insts[kernel.stage_range(i)]
                    .iter()
                    .all(|it| !matches!(it, Inst::Load(p) | Inst::Store(p, _) if p.0 as usize == param))
        });
        let mut strides = vec![0; kernel.loops()];
        let mut bytes = size;
        let mut start = 0;
        let mut axis = |strides: &mut [i64], at: usize, stride: i64| {
            strides[at] = stride;
            bytes += stride.abs() * (extents[at] as i64 - 1).max(0);
            if stride < 0 {
                start += -stride * (extents[at] as i64 - 1).max(0);
            }
            bytes
        };
        let mut reach = size;
        if !point || kernel.lanes == LaneAxis::Parallel {
            let stride = match info.step {
                StrideClass::Unit => size,
                StrideClass::Zero => 0,
                StrideClass::Any if param.is_multiple_of(2) => 3 * size,
                StrideClass::Any => -2 * size,
            };
            reach = axis(&mut strides, lanes, stride);
        }
        if !point {
            for at in (lanes + 1..kernel.loops()).rev() {
                reach = axis(&mut strides, at, reach);
            }
        }
        for at in (0..lanes).rev() {
            reach = axis(&mut strides, at, reach);
        }
        let count = reach as usize / size as usize;
        let mut words = vec![0xa5a5_a5a5_a5a5_a5a5; (reach as usize).div_ceil(8) + 8];
        if info.role == Role::Input {
            for i in 0..count {
                let element = random.element(info.dtype).to_le_bytes();
                let at = 32 + i * size as usize;
                for (j, byte) in element[..size as usize].iter().enumerate() {
                    let (word, shift) = ((at + j) / 8, (at + j) % 8 * 8);
                    words[word] = words[word] & !(0xff << shift) | u64::from(*byte) << shift;
                }
            }
        }
        Self { words, start: 32 + start as usize, strides }
    }

    /// Every element, with one bit pattern for all nans.
    fn elements(&self, dtype: DType) -> Vec<u64> {
        let bytes: Vec<u8> = self.words.iter().flat_map(|it| it.to_le_bytes()).collect();
        let element = |chunk: &[u8]| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        };
        bytes.chunks(dtype.size()).map(element).map(|it| if is_nan(it, dtype) { u64::MAX } else { it }).collect()
    }
}

fn is_nan(bits: u64, dtype: DType) -> bool {
    match dtype {
        DType::F16 => half::f16::from_bits(bits as u16).is_nan(),
        DType::BF16 => half::bf16::from_bits(bits as u16).is_nan(),
        DType::F32 => f32::from_bits(bits as u32).is_nan(),
        DType::F64 => f64::from_bits(bits).is_nan(),
        _ => false,
    }
}

fn block(extents: &[usize], buffers: &mut [Buffer]) -> Vec<u64> {
    let mut words: Vec<u64> = extents.iter().map(|&it| it as u64).collect();
    for buffer in buffers {
        words.push(buffer.words.as_mut_ptr() as u64 + buffer.start as u64);
        words.extend(buffer.strides.iter().map(|&it| it as u64));
    }
    words
}

/// A kernel's code, ready to be called; nothing where executable memory is refused.
pub fn mapped(bytes: &[u8]) -> Option<Compiled> {
    let memory = CodeMemory::map(bytes)?;
    // SAFETY: the bytes are a kernel's code, entered at the first.
    Some(unsafe { Compiled::new(&memory, 0) })
}

/// Compares code for `isa` with the interpreter for each of `sizes`, which are extents of all loops.
#[track_caller]
pub fn check(what: &str, kernel: &Kernel, isa: Isa, sizes: &[Vec<usize>]) -> Result<usize, Unsupported> {
    let code = compile(kernel, isa)?;
    let Some(compiled) = mapped(&code.bytes) else { return Ok(code.spills) };
    for extents in sizes {
        let mut random = Random(extents.iter().sum::<usize>() as u64);
        let buffers = (0..kernel.params.len()).map(|it| Buffer::new(kernel, it, extents, &mut random));
        let mut expected: Vec<Buffer> = buffers.collect();
        let mut got = expected.clone();
        let call = block(extents, &mut expected);
        // SAFETY: the buffers have a place for every step of the loops.
        unsafe { interp::run(kernel, &call) };
        let call = block(extents, &mut got);
        // SAFETY: as above.
        unsafe { compiled.call(&call) };
        for (i, (want, got)) in expected.iter().zip(&got).enumerate() {
            let dtype = kernel.params[i].dtype;
            let (want, got) = (want.elements(dtype), got.elements(dtype));
            if let Some(at) = (0..want.len()).find(|&it| want[it] != got[it]) {
                panic!(
                    "{what} on {isa}, extents {extents:?}: buffer {i} of {dtype} has {:#x} instead of {:#x} at {at} \
                     of {}\n{kernel:?}",
                    got[at],
                    want[at],
                    want.len()
                );
            }
        }
    }
    Ok(code.spills)
}
