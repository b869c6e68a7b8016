//! Runs max pooling and its gradient.

mod best;
mod blocks;
mod largest;
mod pairs;
mod plan;
#[cfg(test)]
mod tests;

use self::largest::{Largest, Sink};
use self::pairs::Pairs;
use self::plan::{Loops, Pool};
use super::dense::{DenseOperand, DenseResult};
use super::epilogues::Epilogues;
use super::implementation::{Implementation, choose};
use super::scratch::Workspace;
use super::{LibraryCode, OpCall};
use ms_compile::exec::ArrayLayout;
use ms_ir::data::{Attrs, DType, Element, Shape};
use ms_ir::error::Result;
use ms_x64::gemm::Shared;
use ms_x64::interp::Number;
use ms_x64::threads;
use ms_x64::{Isa, Vectors};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::ops::{AddAssign, Range};

/// Maximum number of tasks.
const MAX_CHUNKS: usize = 16;

/// Minimum number of channel planes of a task.
const MIN_PLANES: usize = 8;

/// The loops of an implementation.
enum Windows {
    /// The largest elements of pairs of columns, by the start of each row of a window.
    Pairs(SmallVec<[usize; 4]>),
    /// The largest elements of lines, then along lines.
    Lines,
}

/// The implementations of the ops.
const IMPLEMENTATIONS: &[Implementation<Pool, Windows>] = &[
    Implementation {
        name: "pairs",
        is_conditional: false,
        accepts: pairs::accepts,
        prepare: |it| Ok(Windows::Pairs(pairs::rows(it))),
    },
    Implementation { name: "lines", is_conditional: false, accepts: |_| Ok(()), prepare: |_| Ok(Windows::Lines) },
];

/// The ops.
#[derive(Clone, Copy)]
pub enum Kind {
    Max,
    Gradient,
    Take,
}

/// Prepares max pooling, its gradient or its derivative; `None` for element types without native code.
///
/// # Errors
/// The errors of the implementations.
pub fn prepare(
    isa: Isa,
    kind: Kind,
    attrs: &Attrs,
    operands: &[ArrayLayout],
    results: &[ArrayLayout],
) -> Result<Option<Box<dyn LibraryCode>>> {
    let [result] = results else { return Ok(None) };
    if operands.iter().any(|it| it.dtype != result.dtype) {
        return Ok(None);
    }
    Ok(Some(match result.dtype {
        DType::F64 => Box::new(PoolStep::<f64>::new(isa, kind, attrs, operands, result)?),
        DType::F32 | DType::F16 | DType::BF16 => Box::new(PoolStep::<f32>::new(isa, kind, attrs, operands, result)?),
        _ => return Ok(None),
    }))
}

/// A type in which elements are compared and added.
trait Computed: Number + Element + AddAssign {
    /// Returns the elements as f32 if this is f32.
    fn as_f32(elements: &[Self]) -> Option<&[f32]>;
}

impl Computed for f32 {
    fn as_f32(elements: &[Self]) -> Option<&[f32]> {
        Some(elements)
    }
}

impl Computed for f64 {
    fn as_f32(_: &[Self]) -> Option<&[f32]> {
        None
    }
}

/// A prepared op, which computes in `T`.
struct PoolStep<T> {
    isa: Isa,
    kind: Kind,
    pool: Pool,
    windows: Windows,
    /// The input, and the second operand if the op has one.
    operands: SmallVec<[DenseOperand; 2]>,
    result: DenseResult,
    shape: Shape,
    workspace: usize,
    choice: String,
    of: PhantomData<T>,
}

impl<T: Computed> PoolStep<T> {
    fn new(isa: Isa, kind: Kind, attrs: &Attrs, operands: &[ArrayLayout], result: &ArrayLayout) -> Result<Self> {
        let shape = |at: usize| operands[at].layout.shape();
        let (output, list) = match kind {
            Kind::Max => (result.layout.shape(), IMPLEMENTATIONS),
            Kind::Gradient => (shape(1), IMPLEMENTATIONS),
            // Elements are read at indices, which only lines give.
            Kind::Take => (result.layout.shape(), &IMPLEMENTATIONS[1..]),
        };
        let pool = Pool::new(attrs, shape(0), output);
        let (mut codes, choice) = choose(list, &pool)?;
        let windows = codes.pop().expect("one implementation is chosen");
        let operands: SmallVec<[DenseOperand; 2]> = operands.iter().map(DenseOperand::new::<T>).collect();
        let (shape, result) = (result.layout.shape().into(), DenseResult::new(result));
        let copies = operands.iter().map(DenseOperand::workspace::<T>);
        let workspace = copies.fold(result.workspace::<T>(), usize::saturating_add);
        let choice = choice.to_string();
        Ok(Self { isa, kind, pool, windows, operands, result, shape, workspace, choice, of: PhantomData })
    }

    /// Computes the op of the operands `x` and `g`, which is empty if there is one operand.
    fn compute(&self, [x, g]: [&[T]; 2], out: &mut [T]) -> Result<()> {
        let Self { isa, kind, ref pool, ref windows, .. } = *self;
        let (sizes, out) = (&pool.windows, &Shared::new(out.as_mut_ptr()));
        match (kind, windows) {
            (Kind::Max, Windows::Pairs(rows)) => run(isa, pool, &Pairs::<T, false> { windows: sizes, rows, x, g, out }),
            (Kind::Max, Windows::Lines) => run(isa, pool, &Largest::<_, false> { pool, x, sink: &Max { pool, out } }),
            (Kind::Gradient, Windows::Pairs(rows)) => {
                run(isa, pool, &Pairs::<T, true> { windows: sizes, rows, x, g, out })
            }
            (Kind::Gradient, Windows::Lines) => {
                run(isa, pool, &Largest::<_, true> { pool, x, sink: &Gradient { pool, g, out } })
            }
            (Kind::Take, _) => run(isa, pool, &Largest::<_, true> { pool, x, sink: &Take { pool, h: g, out } }),
        }
    }
}

impl<T: Computed> LibraryCode for PoolStep<T> {
    fn workspace(&self) -> usize {
        self.workspace
    }

    fn choice(&self) -> &str {
        &self.choice
    }

    unsafe fn run(&self, call: OpCall<'_>) -> Result<()> {
        let Self { operands, result, .. } = self;
        let &[address] = call.results else { unreachable!("the op has one result") };
        // SAFETY: the workspace has the prepared size, and the operands are live, by the contract of `run`. Nothing
        // else accesses the result, and the loops write all its elements before the epilogues run.
        unsafe {
            let mut workspace = Workspace::at(call.workspace, self.workspace);
            let mut read: [&[T]; 2] = [&[]; 2];
            for ((operand, &at), read) in operands.iter().zip(call.operands).zip(&mut read) {
                *read = operand.elements::<T>(at, &mut workspace).0;
            }
            let out = result.elements::<T>(address, &mut workspace);
            self.compute(read, out)?;
            if let Some(from) = T::as_f32(out).filter(|_| result.is_rounded::<T>()) {
                result.round(from, address);
            }
            Epilogues::new(call.epilogues, &self.shape).run_on_all();
        }
        Ok(())
    }
}

/// Writes the largest elements.
struct Max<'a, T> {
    pool: &'a Pool,
    out: &'a Shared<*mut T>,
}

impl<T: Number + Element> Sink<T> for Max<'_, T> {
    fn maxima(&self, plane: usize) -> &mut [T] {
        let len = self.pool.output_len;
        // SAFETY: each plane has its own `output_len` elements of the result.
        unsafe { std::slice::from_raw_parts_mut(self.out.get().add(plane * len), len) }
    }
}

/// Adds gradients at the indices of the largest elements, in the order of the windows. NaN is larger than all other
/// elements, and the first of equal elements takes the gradient.
struct Gradient<'a, T> {
    pool: &'a Pool,
    g: &'a [T],
    out: &'a Shared<*mut T>,
}

impl<T: Number + Element + AddAssign> Sink<T> for Gradient<'_, T> {
    fn indices(&self, plane: usize, indices: &[u32]) {
        let len = self.pool.input_len;
        // SAFETY: each plane has its own `input_len` elements of the result.
        let to = unsafe { std::slice::from_raw_parts_mut(self.out.get().add(plane * len), len) };
        to.fill(T::ZERO);
        let g = &self.g[plane * self.pool.output_len..];
        for (&at, &g) in indices.iter().zip(g) {
            to[at as usize] += g;
        }
    }
}

/// Reads elements at the indices of the largest ones.
struct Take<'a, T> {
    pool: &'a Pool,
    h: &'a [T],
    out: &'a Shared<*mut T>,
}

impl<T: Number + Element> Sink<T> for Take<'_, T> {
    fn indices(&self, plane: usize, indices: &[u32]) {
        let h = &self.h[plane * self.pool.input_len..][..self.pool.input_len];
        let len = self.pool.output_len;
        // SAFETY: each plane has its own `output_len` elements of the result.
        let to = unsafe { std::slice::from_raw_parts_mut(self.out.get().add(plane * len), len) };
        to.iter_mut().zip(indices).for_each(|(to, &at)| *to = h[at as usize]);
    }
}

/// Runs loops over all planes, compiled for an instruction set.
fn run(isa: Isa, pool: &Pool, loops: &impl Loops) -> Result<()> {
    let per_chunk = pool.planes.div_ceil(MAX_CHUNKS).max(MIN_PLANES);
    threads::try_for_each(pool.planes.div_ceil(per_chunk), pool.nanos(), |chunk| {
        compiled(isa, loops, chunk * per_chunk..((chunk + 1) * per_chunk).min(pool.planes))
    })
}

/// Runs loops that are compiled for an instruction set of this processor.
fn compiled(isa: Isa, loops: &impl Loops, planes: Range<usize>) -> Result<()> {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    fn avx512(loops: &impl Loops, planes: Range<usize>) -> Result<()> {
        loops.run::<true>(planes)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn avx2(loops: &impl Loops, planes: Range<usize>) -> Result<()> {
        loops.run::<true>(planes)
    }

    match isa.vectors() {
        // SAFETY: `isa` is an instruction set of this processor, which has AVX-512.
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => unsafe { avx512(loops, planes) },
        // SAFETY: `isa` is an instruction set of this processor, which has AVX2.
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => unsafe { avx2(loops, planes) },
        _ => loops.run::<false>(planes),
    }
}
