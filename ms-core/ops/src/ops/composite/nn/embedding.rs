//! Embedding: rows of a table.

use crate::ops::core::axis::refusal;
use crate::ops::core::wide::Inner;
use crate::ops::primitive::from_zero::from_zero;
use crate::ops::primitive::gather::rows_read;
use crate::ops::{
    Batching, Derivative, Effects, Sample, SampleInput, expand_dims, not_equal, select, stop_gradient, wrapping,
};
use crate::tensor::{AsTensor, Attrs, DType, Tensor, apply1, refused};
use ms_ir::error::{Code, called};
use smallvec::smallvec;

attributes! {
    /// The attributes of [`EMBEDDING`]: whether there is a padding row, which has no gradient, and its position.
    struct EmbeddingAttrs { padded: bool, padding: usize where 0..=i64::MAX }
}

composite! {
    /// Gathers the rows of the first operand at the positions in the second one.
    EMBEDDING = 850: "embedding", EmbeddingAttrs::DECLARED;
    body |attrs, inputs| {
        let (table, index) = (inputs[0], inputs[1]);
        let rows = wrapping::gather(table, index, 0);
        smallvec![match trained(attrs, index) {
            Some(trained) => select(trained, &rows, stop_gradient(&rows)),
            None => rows,
        }]
    };
    // The gradient of the rows read, masked at the padding row.
    derivative Derivative::Read(|it| {
        let (index, g) = (&it.inputs[1], it.cotangent());
        let masked = trained(it.attrs, index).map(|trained| select(trained, g, 0.0));
        rows_read(&it.inputs[0], 0, index, masked.as_ref().unwrap_or(g))
    }), finite: true;
    effects Effects::MAY_FAIL;
    // Rows are copied, without arithmetic.
    inner Inner::OperandDtype;
    batching Batching::Partial(|it| (!it.mapped[0]).then(|| it.apply(it.attrs, it.inputs)));
    samples || {
        let of = |dtype, index: DType, padded: bool| {
            Sample::new([SampleInput::of(dtype, &[4, 2], -2.0, 2.0), SampleInput::of(index, &[2, 3], 0.0, 3.0)])
                .attrs(EmbeddingAttrs::attrs(padded, 1usize))
        };
        let floats = [DType::F64, DType::F16, DType::BF16].map(|it| of(it, DType::I64, true));
        [of(DType::F32, DType::I64, false), of(DType::F32, DType::I32, true)].into_iter().chain(floats).collect()
    };
}

/// Whether each position is trained, that is, not the padding row, with a last axis of size 1. Returns `None` if there
/// is no padding row.
fn trained(attrs: &Attrs, index: &Tensor) -> Option<Tensor> {
    let it = EmbeddingAttrs::of(attrs);
    it.padded().then(|| expand_dims(not_equal(index, it.padding()), -1))
}

/// Returns the rows of `table` `[rows, features]` at the positions in `index`, as a new last axis. The row
/// `padding_idx` has no gradient.
///
/// # Panics
/// Raises [`Code::DType`](crate::Code::DType) unless `index` is of integers, [`Code::OutOfRange`] for a row that does
/// not exist, and [`Code::Shape`] unless the table has rank 2.
///
/// ```
/// use ms_core::{ops, tensor};
/// assert_eq!(ops::embedding(tensor![1, 0], tensor![[1., 2.], [3., 4.]], None).to_vec::<f32>(), [3., 4., 1., 2.]);
/// ```
#[track_caller]
pub fn embedding(index: impl AsTensor, table: impl AsTensor, padding_idx: Option<usize>) -> Tensor {
    let _called = called("embedding");
    let (index, table) = (index.as_tensor(), table.as_tensor());
    propagate_poison!(index, table);
    let refusal = |code, message: String| refused(refusal("embedding", &[&index, &table], code, message));
    if table.rank() != 2 {
        return refusal(Code::Shape, format!("the table is {}, but has to have rows and features", table.ty()));
    }
    if let (Some(padding), Some(rows)) = (padding_idx, table.dims()[0].as_const())
        && padding >= rows
    {
        return refusal(Code::OutOfRange, format!("`padding_idx` is {padding}, but there are {rows} rows"));
    }
    let attrs = EmbeddingAttrs::attrs(padding_idx.is_some(), padding_idx.unwrap_or(0));
    apply1(EMBEDDING.op(), &attrs, &[&*table, &from_zero(&index, "embedding")])
}
