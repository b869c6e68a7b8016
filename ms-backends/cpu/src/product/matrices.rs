//! Contractions as products of matrices.

use ms_core::error::Result;
use ms_core::exec::ContractionOperand;
use ms_core::ir::{Contraction, ContractionAxes, ContractionAxis};
use ms_core::tensor::try_filled;
use smallvec::SmallVec;

/// A contraction as products of matrices: one axis of each kind, and loops over the other ones. Strides are in
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
    /// The axes of the result that rows and columns are, if it has these.
    pub axes: [Option<usize>; 2],
    /// The loops, outermost first, with the axes of the result that they are.
    loops: SmallVec<[(ContractionAxis, usize); 1]>,
}

impl Matrices {
    /// The products of a contraction; `None` if it sums over several axes.
    pub fn of(contraction: &Contraction) -> Option<Self> {
        let mut loops: SmallVec<[(ContractionAxis, usize); 1]> = contraction.batch.iter().copied().zip(0..).collect();
        let mut first = loops.len();
        // The largest axis of each kind is that of the matrices.
        let mut widest = |axes: &ContractionAxes| {
            let (at, widest) = axes.iter().enumerate().max_by_key(|it| it.1.size)?;
            let others = axes.iter().enumerate().filter(|it| it.0 != at);
            loops.extend(others.map(|(at, it)| (*it, first + at)));
            let axis = first + at;
            first += axes.len();
            Some((*widest, axis))
        };
        let mut sides = [widest(&contraction.m), widest(&contraction.n)];
        // One operand times many vectors is one product, which reads it once.
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

    /// The number of products.
    pub fn count(&self) -> usize {
        self.loops.iter().map(|it| it.0.size).product()
    }

    /// Whether an operand is the same in all products.
    pub fn is_same(&self, operand: usize) -> bool {
        self.loops.iter().all(|(it, _)| it.size == 1 || it.strides[operand] == 0)
    }

    /// Offsets of the first elements of `a`, `b` and the result of product `i`, in elements.
    pub fn offsets(&self, i: usize) -> [isize; 3] {
        let mut at = [0; 3];
        self.each_loop(i, |it, _, index| {
            for (at, stride) in at.iter_mut().zip(it.strides) {
                *at += index as isize * stride;
            }
        });
        at
    }

    /// Calls `f` with the axes of the result that are neither rows nor columns, and the place of product `i` along each.
    pub fn indices(&self, i: usize, mut f: impl FnMut(usize, usize)) {
        self.each_loop(i, |_, axis, index| f(axis, index));
    }

    /// Calls `f` with each loop, the axis of the result that it is, and its index in product `i`.
    #[inline]
    fn each_loop(&self, mut i: usize, mut f: impl FnMut(&ContractionAxis, usize, usize)) {
        for (it, axis) in self.loops.iter().rev() {
            f(it, *axis, i % it.size);
            i /= it.size;
        }
    }
}

/// A contraction that sums over one axis, and the copies of operands that make it so.
pub struct Flattened {
    /// The contraction.
    pub contraction: Contraction,
    /// The elements of `a` and `b`, where they had to be copied.
    copies: [Option<Vec<u64>>; 2],
}

impl Flattened {
    /// Copies the operands whose elements are not evenly spaced along all `k` axes together, which are merged.
    ///
    /// # Safety
    /// The elements of the operands that the contraction addresses are valid for reads.
    ///
    /// # Errors
    /// [`Code::Memory`](ms_core::Code::Memory) if there is no memory for the copies.
    pub unsafe fn new(contraction: &Contraction, operands: [ContractionOperand<'_>; 2]) -> Result<Self> {
        let mut contraction = contraction.clone();
        let mut copies = [None, None];
        for (operand, copy) in copies.iter_mut().enumerate() {
            let is_even = |it: &[ContractionAxis]| {
                it[0].strides[operand] == it[1].strides[operand].wrapping_mul(it[1].size as isize)
            };
            if !contraction.k.windows(2).all(is_even) {
                let from = operands[operand].address as *const u8;
                // SAFETY: as the caller's.
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

    /// An operand, which is the given one unless it was copied.
    pub fn operand<'a>(&self, operand: usize, given: ContractionOperand<'a>) -> ContractionOperand<'a> {
        self.copies[operand].as_ref().map_or(given, |it| ContractionOperand::at(it.as_ptr() as u64))
    }
}

/// A row-major copy of an operand, whose strides the contraction then has. Elements that are repeated along other axes
/// than those of terms are copied once.
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
    // SAFETY: by the caller's contract; there is room for all elements.
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

/// Copies elements that are addressed by loops of these sizes and strides to row-major memory.
///
/// # Safety
/// The elements are valid for reads, and there is room for them.
unsafe fn copy<T: Copy>(loops: &[(usize, isize)], from: *const T, to: *mut T) {
    let Some((&(count, step), outer)) = loops.split_last() else {
        // SAFETY: by the caller's contract.
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
            // SAFETY: by the caller's contract.
            unsafe { *to.add(row * count + column) = *from.wrapping_offset(at) };
        }
    }
}
