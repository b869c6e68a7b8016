//! Tests sizes that no memory holds, and counts that overflow.

use super::{Case, MAX, Refused, check, empty, image, row};
use ms::Code;
use ms::ops::PadMode;
use ms::prelude::*;

#[test]
fn sizes_beyond_memory_are_refused() {
    check(&[
        Case("zeros whose count overflows", || Tensor::zeros([MAX, 2]), Refused(Code::Memory)),
        Case("zeros of a count that fits i64 but not memory", || Tensor::zeros([1 << 61]), Refused(Code::Memory)),
        Case("zeros beyond the machine", || Tensor::zeros([1 << 57]), Refused(Code::Memory)),
        Case("zeros with a size above i64", || Tensor::zeros([1 << 63]), Refused(Code::Memory)),
        Case("no zeros of a size that overflows", || Tensor::zeros([MAX, 2, 0]), Refused(Code::Memory)),
        Case("ones of many axes", || Tensor::ones([1 << 20, 1 << 20, 1 << 20, 1 << 20]), Refused(Code::Memory)),
        Case("eye", || Tensor::eye(1usize << 40), Refused(Code::Memory)),
        Case("arange", || ops::arange(i64::MAX), Refused(Code::Memory)),
        Case("arange of floats", || ops::arange(1e300), Refused(Code::Memory)),
        Case("linspace", || Tensor::linspace(0.0, 1.0, MAX), Refused(Code::Memory)),
        Case("uniform", || random::uniform([MAX, MAX], 0.0, 1.0), Refused(Code::Memory)),
        Case("a broadcast", || Tensor::scalar(1.0).broadcast_to([MAX, MAX]), Refused(Code::Memory)),
        Case("a broadcast of wide elements", || tensor![1i64].broadcast_to([1 << 61]), Refused(Code::Memory)),
        Case(
            "an outer product of views",
            || {
                let (a, b) = (Tensor::ones([1, 1]), Tensor::ones([1, 1]));
                a.broadcast_to([1 << 40, 1]) * b.broadcast_to([1, 1 << 40])
            },
            Refused(Code::Memory),
        ),
        Case(
            "a product of views",
            || {
                let (a, b) = (Tensor::ones([1, 1]), Tensor::ones([1, 1]));
                a.broadcast_to([1 << 40, 1]).matmul(b.broadcast_to([1, 1 << 40]))
            },
            Refused(Code::Memory),
        ),
        Case("a reshape whose count wraps to zero", || empty().reshape([1usize << 32, 1 << 32]), Refused(Code::Shape)),
        Case(
            "a reshape whose count wraps to the operand's",
            || Tensor::ones([2]).reshape([(1usize << 63) + 1, 2]),
            Refused(Code::Shape),
        ),
        Case("a signed reshape whose count overflows", || row().reshape([i64::MAX, i64::MAX]), Refused(Code::Shape)),
        Case("a reshape with -1 whose count overflows", || row().reshape([i64::MAX, 3, -1]), Refused(Code::Argument)),
        Case("tile", || ops::tile(row(), &[MAX]), Refused(Code::Memory)),
        Case("repeat", || ops::repeat(row(), MAX, 0), Refused(Code::Memory)),
        Case("pad", || ops::pad(row(), &[(MAX, 1)], PadMode::Constant(0.into())), Refused(Code::Memory)),
        Case("pad with the edge", || ops::pad(row(), &[(MAX, 1)], PadMode::Edge), Refused(Code::Memory)),
        Case("diag", || ops::diag(row(), isize::MIN), Refused(Code::Memory)),
        Case("one_hot", || ops::one_hot(tensor![0, 1], MAX), Refused(Code::Memory)),
        Case("data for a shape that overflows", || Tensor::from_slice([MAX, 2], &[1.0f32]), Refused(Code::Shape)),
        Case(
            "data for a shape that wraps to none",
            || Tensor::from_slice([1 << 32, 1 << 32], &[0.0f32; 0]),
            Refused(Code::Shape),
        ),
        Case(
            "interpolate",
            || ops::interpolate(image([2, 2]), &[MAX, 2], ops::Interpolation::Nearest),
            Refused(Code::Memory),
        ),
    ]);
}

#[jit]
fn widened(x: &Tensor) -> Tensor {
    x.broadcast_to([MAX, MAX])
}

#[jit]
fn filled(x: &Tensor) -> Tensor {
    x + Tensor::zeros([1 << 57])
}

#[test]
fn sizes_beyond_memory_are_refused_while_tracing() {
    check(&[
        Case("a broadcast", || widened(&tensor![1.0]), Refused(Code::Memory)),
        Case("a result beyond the machine", || filled(&tensor![1.0]), Refused(Code::Memory)),
    ]);
}

#[test]
fn lists_of_tensors_are_as_long_as_memory_allows() {
    check(&[
        Case("parts of nothing", || ops::split(empty(), 1 << 60, 0).swap_remove(0), Refused(Code::Memory)),
        Case(
            "parts without elements",
            || ops::unstack(ops::full_of([1 << 60, 0], 0, DType::U8), 0).swap_remove(0),
            Refused(Code::Memory),
        ),
        Case("a long repetition", || ops::repeat_each(row(), &[1, MAX / 2, 1], 0), Refused(Code::Memory)),
        Case("repetitions that overflow", || ops::repeat_each(row(), &[1, MAX, 1], 0), Refused(Code::Memory)),
    ]);
}
