//! Maps contractions to batches of GEMMs.

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

/// A copy of an operand to row-major order.
#[derive(Clone, Debug)]
pub struct OperandCopy {
    /// The sizes and the strides in elements of the loops over the operand, outermost first.
    loops: SmallVec<[(usize, isize); 6]>,
    /// The size of an element in bytes.
    size: usize,
}

impl OperandCopy {
    /// Plans the copy of an operand, and gives the contraction the strides of the copy. Axes with stride 0 other than
    /// `k` axes are not copied.
    fn new(contraction: &mut Contraction, operand: usize) -> Self {
        let size = contraction.types.all()[operand].size();
        let Contraction { batch, m, n, k, .. } = contraction;
        let outer = if operand == 0 { m } else { n };
        let varies = |it: &&mut ContractionAxis| it.strides[operand] != 0;
        let outer = batch.iter_mut().chain(outer).filter(varies);
        let mut axes: SmallVec<[&mut ContractionAxis; 6]> = outer.collect();
        axes.extend(k);
        let loops = axes.iter().map(|it| (it.size, it.strides[operand])).collect();
        let mut step = 1;
        for axis in axes.into_iter().rev() {
            axis.strides[operand] = step;
            step = step.saturating_mul(axis.size as isize);
        }
        Self { loops, size }
    }

    /// Returns the size of the copy in bytes.
    pub fn bytes(&self) -> usize {
        self.loops.iter().fold(self.size, |all, it| all.saturating_mul(it.0))
    }

    /// Copies the operand, whose first element is at `from`.
    ///
    /// # Safety
    /// The operand's elements are valid for reads, and `to` is valid for writes of [`bytes`](OperandCopy::bytes) bytes
    /// and aligned to elements.
    pub unsafe fn run(&self, from: *const u8, to: *mut u8) {
        // SAFETY: `loops` address the operand's elements, which are valid for reads, and `to` has room for their
        // product, by this function's contract.
        unsafe {
            match self.size {
                1 => copy(&self.loops, from, to),
                2 => copy(&self.loops, from.cast::<u16>(), to.cast()),
                4 => copy(&self.loops, from.cast::<u32>(), to.cast()),
                _ => copy(&self.loops, from.cast::<u64>(), to.cast()),
            }
        }
    }
}

/// Returns the contraction with its `k` axes merged into one, and the copies of operands whose strides do not allow
/// that.
pub fn flattened(contraction: &Contraction) -> (Contraction, [Option<OperandCopy>; 2]) {
    let mut contraction = contraction.clone();
    let copies = std::array::from_fn(|operand| {
        let is_even =
            |it: &[ContractionAxis]| it[0].strides[operand] == it[1].strides[operand].wrapping_mul(it[1].size as isize);
        (!contraction.k.windows(2).all(is_even)).then(|| OperandCopy::new(&mut contraction, operand))
    });
    let sum = contraction.k.iter().copied().reduce(|outer, inner| {
        let size = outer.size * inner.size;
        ContractionAxis { size, ..inner }
    });
    contraction.k = sum.into_iter().collect();
    (contraction, copies)
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
