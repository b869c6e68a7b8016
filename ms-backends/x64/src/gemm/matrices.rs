//! Maps contractions to batches of GEMMs.

use ms_ir::StepOperand;
use ms_ir::data::try_filled;
use ms_ir::error::Result;
use ms_ir::{Contraction, ContractionAxes, ContractionAxis};
use smallvec::SmallVec;

/// A contraction as a batch of GEMMs: one axis each for M, K and N, and loops over the other axes. Strides are in
/// elements.
#[derive(Clone, Debug)]
pub struct Matrices {
    /// Rows of `a` and of the result.
    pub m: usize,
    /// Columns of `a`, rows of `b`.
    pub k: usize,
    /// Columns of `b` and of the result.
    pub n: usize,
    /// Strides of `a` between rows and between columns.
    pub a: [isize; 2],
    /// Strides of `b` between rows and between columns.
    pub b: [isize; 2],
    /// Strides of the result between rows and between columns.
    pub out: [isize; 2],
    /// The axes of the result that rows and columns run along, if any.
    pub axes: [Option<usize>; 2],
    /// The batch loops, outermost first, each with its axis of the result.
    loops: SmallVec<[(ContractionAxis, usize); 1]>,
}

impl Matrices {
    /// Returns the batch of GEMMs of a contraction; `None` if it sums over several axes.
    pub fn from_contraction(contraction: &Contraction) -> Option<Self> {
        let mut loops: SmallVec<[(ContractionAxis, usize); 1]> = contraction.batch.iter().copied().zip(0..).collect();
        let mut first = loops.len();
        // The largest axis of each kind is the matrix axis.
        let mut widest = |axes: &ContractionAxes| {
            let (at, widest) = axes.iter().enumerate().max_by_key(|it| it.1.size)?;
            let others = axes.iter().enumerate().filter(|it| it.0 != at);
            loops.extend(others.map(|(at, it)| (*it, first + at)));
            let axis = first + at;
            first += axes.len();
            Some((*widest, axis))
        };
        let mut sides = [widest(&contraction.m), widest(&contraction.n)];
        // One operand times many vectors is one GEMM, which reads the operand once.
        for (side, fixed) in [(1, 0), (0, 1)] {
            let of_vectors = |it: &(ContractionAxis, usize)| it.0.strides[fixed] == 0 && it.0.size > 1;
            if sides[side].is_none_or(|it| it.0.size == 1)
                && let Some(at) = loops.iter().position(of_vectors)
            {
                sides[side] = Some(loops.remove(at));
            }
        }
        let one = ContractionAxis { size: 1, strides: [0; 3] };
        let [m, n] = sides.map(|it| it.map_or(one, |it| it.0));
        let k = match contraction.k[..] {
            [] => one,
            [k] => k,
            _ => return None,
        };
        Some(Self {
            m: m.size,
            k: k.size,
            n: n.size,
            a: [m.strides[0], k.strides[0]],
            b: [k.strides[1], n.strides[1]],
            out: [m.strides[2], n.strides[2]],
            axes: sides.map(|it| it.map(|it| it.1)),
            loops,
        })
    }

    /// Returns the number of products of the batch.
    pub fn count(&self) -> usize {
        self.loops.iter().map(|it| it.0.size).product()
    }

    /// Whether all products share an operand.
    pub fn is_same(&self, operand: usize) -> bool {
        self.loops.iter().all(|(it, _)| it.size == 1 || it.strides[operand] == 0)
    }

    /// Returns the offsets of the first elements of `a`, `b` and the result of product `i`, in elements.
    pub fn offsets(&self, i: usize) -> [isize; 3] {
        let mut at = [0; 3];
        self.each_loop(i, |it, _, index| {
            for (at, stride) in at.iter_mut().zip(it.strides) {
                *at += index as isize * stride;
            }
        });
        at
    }

    /// Calls `f` with each batch axis of the result and the index of product `i` along it.
    pub fn indices(&self, i: usize, mut f: impl FnMut(usize, usize)) {
        self.each_loop(i, |_, axis, index| f(axis, index));
    }

    /// Calls `f` with each batch loop, its axis of the result, and the index of product `i`.
    #[inline]
    fn each_loop(&self, mut i: usize, mut f: impl FnMut(&ContractionAxis, usize, usize)) {
        for (it, axis) in self.loops.iter().rev() {
            f(it, *axis, i % it.size);
            i /= it.size;
        }
    }
}

/// A contraction that sums over one axis, with the copies of operands that merging its axes needs.
pub struct Flattened {
    /// The contraction.
    pub contraction: Contraction,
    /// The elements of `a` and `b`, if they are copied.
    copies: [Option<Vec<u64>>; 2],
}

impl Flattened {
    /// Merges the `k` axes, and copies the operands whose strides do not allow that.
    ///
    /// # Safety
    /// The elements of the operands that the contraction addresses are valid for reads.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_ir::Code::Memory) if there is no memory for the copies.
    pub unsafe fn new(contraction: &Contraction, operands: [StepOperand<'_>; 2]) -> Result<Self> {
        let mut contraction = contraction.clone();
        let mut copies = [None, None];
        for (operand, copy) in copies.iter_mut().enumerate() {
            let is_even = |it: &[ContractionAxis]| {
                it[0].strides[operand] == it[1].strides[operand].wrapping_mul(it[1].size as isize)
            };
            if !contraction.k.windows(2).all(is_even) {
                let from = operands[operand].address as *const u8;
                // SAFETY: the operand's elements are valid for reads by this function's contract.
                *copy = Some(unsafe { dense(&mut contraction, operand, from)? });
            }
        }
        let sum = contraction.k.iter().copied().reduce(|outer, inner| {
            let size = outer.size * inner.size;
            ContractionAxis { size, ..inner }
        });
        contraction.k = sum.into_iter().collect();
        Ok(Self { contraction, copies })
    }

    /// Returns the copy of an operand if there is one, otherwise the `given` operand.
    pub fn operand<'a>(&self, operand: usize, given: StepOperand<'a>) -> StepOperand<'a> {
        self.copies[operand].as_ref().map_or(given, |it| StepOperand::at(it.as_ptr() as u64))
    }
}

/// Copies an operand to row-major order and updates its strides in the contraction. Axes with stride 0 other than `k`
/// axes are not copied.
///
/// # Safety
/// The operand's elements are valid for reads.
unsafe fn dense(contraction: &mut Contraction, operand: usize, from: *const u8) -> Result<Vec<u64>> {
    let size = contraction.types.all()[operand].size();
    let Contraction { batch, m, n, k, .. } = contraction;
    let outer = if operand == 0 { m } else { n };
    let varies = |it: &&mut ContractionAxis| it.strides[operand] != 0;
    let outer = batch.iter_mut().chain(outer).filter(varies);
    let mut axes: SmallVec<[&mut ContractionAxis; 6]> = outer.collect();
    axes.extend(k);
    let elements: usize = axes.iter().map(|it| it.size).product();
    let mut to = try_filled(0u64, (elements * size).div_ceil(8))?;
    let loops: SmallVec<[(usize, isize); 6]> = axes.iter().map(|it| (it.size, it.strides[operand])).collect();
    // SAFETY: `loops` address the operand's elements, which are valid for reads, and `to` has room for their product.
    unsafe {
        let to = to.as_mut_ptr();
        match size {
            1 => copy(&loops, from, to.cast::<u8>()),
            2 => copy(&loops, from.cast(), to.cast::<u16>()),
            4 => copy(&loops, from.cast(), to.cast::<u32>()),
            _ => copy(&loops, from.cast(), to),
        }
    }
    let mut step = 1;
    for axis in axes.into_iter().rev() {
        axis.strides[operand] = step;
        step *= axis.size as isize;
    }
    Ok(to)
}

/// Copies elements that loops of these sizes and strides address to row-major memory.
///
/// # Safety
/// The elements are valid for reads, and `to` has room for them.
unsafe fn copy<T: Copy>(loops: &[(usize, isize)], from: *const T, to: *mut T) {
    let Some((&(count, step), outer)) = loops.split_last() else {
        // SAFETY: without loops there is one element, which is readable, and `to` has room for it.
        return unsafe { *to = *from };
    };
    let rows: usize = outer.iter().map(|it| it.0).product();
    for row in 0..rows {
        let (mut at, mut left) = (0, row);
        for &(size, stride) in outer.iter().rev() {
            at += (left % size) as isize * stride;
            left /= size;
        }
        for column in 0..count {
            let at = at + column as isize * step;
            // SAFETY: indices along all loops are below their sizes, so the element is readable and `to` has room for
            // it.
            unsafe { *to.add(row * count + column) = *from.wrapping_offset(at) };
        }
    }
}
