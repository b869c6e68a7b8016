//! Descriptions of matrix products: sizes and strides, without addresses.

use crate::error::{Code, Error, Result};
use crate::ir::Precision;
use crate::tensor::{DType, Layout};
use smallvec::SmallVec;

/// `out = a b` over a batch: sizes, and strides in elements.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MatrixProduct {
    /// The element type of all three.
    pub dtype: DType,
    /// Determines the order in which terms of floats are added.
    pub precision: Precision,
    /// Rows of `a` and `out`.
    pub m: usize,
    /// Columns of `a`, rows of `b`.
    pub k: usize,
    /// Columns of `b` and `out`.
    pub n: usize,
    /// Strides of `a` between rows and between columns.
    pub a: [isize; 2],
    /// Strides of `b` between rows and between columns.
    pub b: [isize; 2],
    /// Strides of `out` between rows and between columns.
    pub out: [isize; 2],
    /// The dimensions of the batch, outermost first, without those of size one.
    pub batch: SmallVec<[BatchDim; 2]>,
}

/// One dimension of a batch of products.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BatchDim {
    /// Its size.
    pub size: usize,
    /// Strides of `a`, `b` and `out`.
    pub strides: [isize; 3],
}

impl MatrixProduct {
    /// The product of `a` `[.., m, k]` and `b` `[.., k, n]` in `out` `[.., m, n]`, whose leading
    /// dimensions are equal.
    ///
    /// # Errors
    /// [`Code::Shape`] when the shapes do not fit.
    pub fn new(dtype: DType, precision: Precision, a: &Layout, b: &Layout, out: &Layout) -> Result<Self> {
        let refuse = || {
            let message = format!("no product of {:?} and {:?} in {:?}", a.shape(), b.shape(), out.shape());
            Error::new(Code::Shape, message)
        };
        let lead = out.rank().checked_sub(2).ok_or_else(refuse)?;
        let fits = a.rank() == out.rank()
            && b.rank() == out.rank()
            && a.shape()[..=lead] == out.shape()[..=lead]
            && b.shape()[..lead] == out.shape()[..lead]
            && b.shape()[lead + 1] == out.shape()[lead + 1]
            && a.shape()[lead + 1] == b.shape()[lead];
        if !fits {
            return Err(refuse());
        }
        let steps = |layout: &Layout| [layout.strides()[lead], layout.strides()[lead + 1]];
        let mut batch: SmallVec<[BatchDim; 2]> = SmallVec::new();
        for axis in (0..lead).filter(|&axis| out.shape()[axis] != 1) {
            let strides = [a, b, out].map(|it| it.strides()[axis]);
            let size = out.shape()[axis];
            match batch.last_mut() {
                // Dimensions that are contiguous in all three are merged.
                Some(outer) if outer.strides == strides.map(|it| it * size as isize) => {
                    *outer = BatchDim { size: outer.size * size, strides };
                }
                _ => batch.push(BatchDim { size, strides }),
            }
        }
        let (m, k, n) = (out.shape()[lead], b.shape()[lead], out.shape()[lead + 1]);
        Ok(Self { dtype, precision, m, k, n, a: steps(a), b: steps(b), out: steps(out), batch })
    }

    /// Number of products in the batch.
    pub fn batch_len(&self) -> usize {
        self.batch.iter().map(|it| it.size).product()
    }

    /// Offsets of product `i` of the batch in `a`, `b` and `out`, in elements.
    pub fn batch_offsets(&self, mut i: usize) -> [isize; 3] {
        let mut at = [0; 3];
        for dim in self.batch.iter().rev() {
            let index = (i % dim.size) as isize;
            i /= dim.size;
            for (at, stride) in at.iter_mut().zip(dim.strides) {
                *at += index * stride;
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_merge() {
        let of = |shape: &[usize]| Layout::contiguous(shape);
        let all = MatrixProduct::new(
            DType::F32,
            Precision::Strict,
            &of(&[2, 1, 3, 4, 5]),
            &of(&[2, 1, 3, 5, 6]),
            &of(&[2, 1, 3, 4, 6]),
        )
        .expect("the shapes fit");
        assert_eq!(all.batch[..], [BatchDim { size: 6, strides: [20, 30, 24] }]);
        assert_eq!((all.m, all.k, all.n), (4, 5, 6));
        let shared = of(&[5, 6]).broadcast_to(&[2, 3, 5, 6]).expect("a broadcast");
        let outer = of(&[2, 1, 4, 5]).broadcast_to(&[2, 3, 4, 5]).expect("a broadcast");
        let part = MatrixProduct::new(DType::F32, Precision::Strict, &outer, &shared, &of(&[2, 3, 4, 6]))
            .expect("the shapes fit");
        assert_eq!(part.batch.len(), 2);
        assert_eq!(part.batch_offsets(4), [20, 0, 96]);
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let of = |shape: &[usize]| Layout::contiguous(shape);
        for (a, b, out) in [
            (of(&[2, 3]), of(&[4, 5]), of(&[2, 5])),
            (of(&[3]), of(&[3, 5]), of(&[5])),
            (of(&[2, 2, 3]), of(&[3, 3, 5]), of(&[2, 2, 5])),
            (of(&[2, 3]), of(&[3, 5]), of(&[5, 2])),
        ] {
            let error =
                MatrixProduct::new(DType::F32, Precision::Strict, &a, &b, &out).expect_err("the shapes do not fit");
            assert_eq!(error.code(), Code::Shape);
        }
    }
}
