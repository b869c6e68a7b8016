//! Tests axes, indices, counts and options out of range.

use super::{Case, Gives, MAX, NAN, Refused, check, empty, image, row};
use ms::Code;
use ms::ops::PadMode;
use ms::prelude::*;

#[test]
fn axes_and_indices_are_checked() {
    check(&[
        Case("the least axis", || ops::sum(row(), isize::MIN), Refused(Code::OutOfRange)),
        Case("the largest axis", || ops::sum(row(), usize::MAX), Refused(Code::OutOfRange)),
        Case("an axis of a scalar", || ops::sum(Tensor::scalar(1.0), 0), Refused(Code::OutOfRange)),
        Case("an axis twice", || ops::sum(Tensor::ones([2, 2]), [0, -2]), Refused(Code::Argument)),
        Case("permute with an axis twice", || Tensor::ones([2, 2]).permute([0, 0]), Refused(Code::Argument)),
        Case("permute of too few axes", || Tensor::ones([2, 2]).permute([0]), Refused(Code::Argument)),
        Case("transpose of a scalar", || Tensor::scalar(1.0).transpose(0, 0), Refused(Code::OutOfRange)),
        Case("squeeze of a wide axis", || row().squeeze(0), Refused(Code::Shape)),
        Case("expand_dims far off", || row().expand_dims(isize::MAX), Refused(Code::OutOfRange)),
        Case("flatten of a scalar", || Tensor::scalar(2.0).flatten(0), Gives(&[1], &[2.0])),
        Case("flatten from behind the end", || row().flatten(2), Refused(Code::OutOfRange)),
        Case("the least index", || row().at(isize::MIN), Refused(Code::OutOfRange)),
        Case("the largest index", || row().at(isize::MAX), Refused(Code::OutOfRange)),
        Case("an index above isize", || row().at(MAX), Refused(Code::OutOfRange)),
        Case("an index of a scalar", || Tensor::scalar(1.0).at(0), Refused(Code::OutOfRange)),
        Case("a slice to the largest end", || row().i(0..=isize::MAX), Gives(&[3], &[1.0, 2.0, 3.0])),
        Case("a slice from the least start", || row().i(isize::MIN..2), Gives(&[2], &[1.0, 2.0])),
        Case("a slice above isize", || row().i(MAX..), Gives(&[0], &[])),
        Case("a step of zero", || row().i((..).step(0)), Refused(Code::Argument)),
        Case("the largest step", || row().i((1..).step(isize::MAX)), Gives(&[1], &[2.0])),
        Case("the least step", || row().i((..).step(isize::MIN)), Gives(&[1], &[3.0])),
        Case("the largest step of rows", || Tensor::ones([2, 3]).i(((..).step(isize::MAX), 0)), Gives(&[1], &[1.0])),
        Case(
            "the least step of a backward view",
            || Tensor::ones([2, 3]).flip([0, 1]).i(((..).step(isize::MIN), 0)),
            Gives(&[1], &[1.0]),
        ),
        Case("roll by the least shift", || ops::roll(row(), &[isize::MIN], 0), Gives(&[3], &[3.0, 1.0, 2.0])),
        Case("roll of nothing", || ops::roll(empty(), &[5], 0), Gives(&[0], &[])),
        Case("gather of the least class", || ops::gather(row(), tensor![i64::MIN], 0), Refused(Code::OutOfRange)),
        Case("gather by floats", || ops::gather(row(), tensor![0.0], 0), Refused(Code::DType)),
        Case(
            "gather of nothing from nothing",
            || ops::gather(empty(), Tensor::zeros_of([0], DType::I64), 0),
            Gives(&[0], &[]),
        ),
        Case("gather from nothing", || ops::gather(empty(), tensor![0], 0), Refused(Code::OutOfRange)),
        Case("take_along_axis outside", || ops::take_along_axis(row(), tensor![9], 0), Refused(Code::OutOfRange)),
        Case("scatter outside", || ops::scatter(row(), tensor![-7], tensor![1.0], 0), Refused(Code::OutOfRange)),
        Case("one_hot outside", || ops::one_hot(tensor![i64::MAX], 3), Refused(Code::OutOfRange)),
        Case("a diagonal far off", || ops::diag(Tensor::ones([2, 2]), isize::MIN), Gives(&[0], &[])),
        Case("eye far off", || ops::eye_of(2, 2, isize::MAX, DType::F32), Gives(&[2, 2], &[0.0; 4])),
        Case("tril far below", || ops::tril(Tensor::ones([2, 2]), isize::MIN), Gives(&[2, 2], &[0.0; 4])),
        Case("tril far above", || ops::tril(Tensor::ones([2, 2]), isize::MAX), Gives(&[2, 2], &[1.0; 4])),
        Case("triu far below", || ops::triu(Tensor::ones([2, 2]), isize::MIN), Gives(&[2, 2], &[1.0; 4])),
        Case("tril of a vector", || ops::tril(row(), 0), Refused(Code::Shape)),
    ]);
}

#[test]
fn creation_is_checked() {
    check(&[
        Case("arange with a step of zero", || ops::arange_of(0, 3, 0, DType::I64), Refused(Code::Argument)),
        Case("arange of nothing by zero", || ops::arange_of(0, 0, 0, DType::I64), Refused(Code::Argument)),
        Case("arange away from its end", || ops::arange_of(0, 3, -1, DType::I64), Gives(&[0], &[])),
        Case("arange backwards", || ops::arange_of(3, 0, -2, DType::I64), Gives(&[2], &[3.0, 1.0])),
        Case("arange to nan", || ops::arange(f64::NAN), Refused(Code::Argument)),
        Case("arange to infinity", || ops::arange(f64::INFINITY), Refused(Code::Argument)),
        Case("arange to below zero", || ops::arange(-3), Gives(&[0], &[])),
        Case("linspace of none", || Tensor::linspace(0.0, 1.0, 0), Gives(&[0], &[])),
        Case("linspace of one", || Tensor::linspace(2.0, 9.0, 1), Gives(&[1], &[2.0])),
        Case("eye of none", || Tensor::eye(0), Gives(&[0, 0], &[])),
        Case("iota along no axis", || ops::iota([2], 3, DType::I64), Refused(Code::OutOfRange)),
        Case("randint of an empty range", || random::randint([2], 3, 3), Refused(Code::Argument)),
        Case("bernoulli above one", || random::bernoulli([2], 1.5), Refused(Code::Argument)),
        Case("a permutation of none", || random::permutation(0), Gives(&[0], &[])),
        Case("numbers of none", || random::normal([0, 3], 0.0, 1.0), Gives(&[0, 3], &[])),
        Case("a negative size", || row().reshape([-3i64, -1]), Refused(Code::Argument)),
        Case("-1 of nothing", || empty().reshape([0i64, -1]), Refused(Code::Argument)),
        Case("-1 beside nothing", || empty().reshape([-1i64, 2]), Gives(&[0, 2], &[])),
        Case("a scalar from a row of one", || tensor![4.0].reshape(()), Gives(&[], &[4.0])),
        Case("a broadcast to fewer axes", || Tensor::ones([1, 3]).broadcast_to([3]), Refused(Code::Shape)),
        Case("a broadcast to nothing", || tensor![1.0].broadcast_to([0]), Gives(&[0], &[])),
    ]);
}

#[test]
fn parts_and_wholes_are_checked() {
    fn first(mut parts: Vec<Tensor>) -> Tensor {
        parts.swap_remove(0)
    }
    check(&[
        Case("concat of no tensor", || ops::concat::<Tensor>(&[], 0), Refused(Code::Argument)),
        Case("stack of no tensor", || ops::stack::<Tensor>(&[], 0), Refused(Code::Argument)),
        Case("concat of scalars", || ops::concat(&[Tensor::scalar(1.0)], 0), Refused(Code::OutOfRange)),
        Case("concat with nothing", || ops::concat(&[row(), empty()], 0), Gives(&[3], &[1.0, 2.0, 3.0])),
        Case("concat of other ranks", || ops::concat(&[row(), Tensor::ones([1, 3])], 0), Refused(Code::Shape)),
        Case("a split that does not divide", || first(ops::split(row(), 2, 0)), Refused(Code::Argument)),
        Case("a split in no parts", || first(ops::split(row(), 0, 0)), Refused(Code::Argument)),
        Case("a split of nothing in many parts", || first(ops::split(empty(), 1 << 50, 0)), Refused(Code::Memory)),
        Case("many copies of one element", || ops::repeat_each(row(), &[1 << 50, 0, 0], 0), Refused(Code::Memory)),
        Case("copies that overflow", || ops::repeat_each(row(), &[MAX, 1, 0], 0), Refused(Code::Memory)),
        Case("a split of nothing", || first(ops::split(empty(), 2, 0)), Gives(&[0], &[])),
        Case("sizes that overflow", || first(ops::split_sizes(row(), &[MAX, 4], 0)), Refused(Code::Argument)),
        Case("topk of too many", || ops::topk(row(), 4, 0, true).0, Refused(Code::Argument)),
        Case("topk of none", || ops::topk(row(), 0, 0, true).0, Gives(&[0], &[])),
        Case("topk of a scalar", || ops::topk(Tensor::scalar(1.0), 1, 0, true).0, Refused(Code::OutOfRange)),
        Case("sort with nan", || ops::sort(tensor![f32::NAN, 1.0, 0.0], 0, false).0, Gives(&[3], &[0.0, 1.0, NAN])),
        Case("sort down with nan", || ops::sort(tensor![1.0, f32::NAN, 2.0], 0, true).0, Gives(&[3], &[NAN, 2.0, 1.0])),
        Case("sort of nothing", || ops::sort(empty(), 0, false).1, Gives(&[0], &[])),
        Case("argmax with nan", || ops::argmax(tensor![1.0, f32::NAN, 2.0], 0), Gives(&[], &[1.0])),
        Case("argmax of nothing", || ops::argmax(empty(), 0), Refused(Code::Argument)),
        Case("argmax of no row", || ops::argmax(Tensor::ones([0, 2]), 1), Gives(&[0], &[])),
        Case("cumsum of nothing", || ops::cumsum(empty(), 0), Gives(&[0], &[])),
        Case("tile of no copy", || ops::tile(row(), &[0]), Gives(&[0], &[])),
        Case("repeat of nothing", || ops::repeat(empty(), 3, 0), Gives(&[0], &[])),
        Case("reflection of nothing", || ops::pad(empty(), &[(1, 1)], PadMode::Reflect), Refused(Code::Argument)),
        Case("a pad for too few axes", || ops::pad(row(), &[], PadMode::Edge), Refused(Code::Argument)),
        Case("nonzero of a scalar", || ops::nonzero(Tensor::scalar(1.0)), Gives(&[1, 0], &[])),
        Case("nonzero of nothing", || ops::nonzero(Tensor::ones([0, 2])), Gives(&[0, 2], &[])),
        Case("masked_select of nothing", || ops::masked_select(row(), tensor![false]), Gives(&[0], &[])),
    ]);
}

#[test]
fn products_windows_and_reductions_are_checked() {
    check(&[
        Case("a product over nothing", || Tensor::ones([2, 0]).matmul(Tensor::ones([0, 1])), Gives(&[2, 1], &[0.0; 2])),
        Case("a dot product of nothing", || empty().matmul(empty()), Gives(&[], &[0.0])),
        Case("a product of no row", || Tensor::ones([0, 2]).matmul(Tensor::ones([2, 3])), Gives(&[0, 3], &[])),
        Case("a product of a scalar", || row().matmul(Tensor::scalar(1.0)), Refused(Code::Shape)),
        Case("a stack of no products", || Tensor::ones([0, 2, 2]).matmul(Tensor::ones([2, 2])), Gives(&[0, 2, 2], &[])),
        Case("einsum of an empty text", || ops::einsum("", &[row()]), Refused(Code::Argument)),
        Case("einsum of a scalar", || ops::einsum("->", &[Tensor::scalar(2.0)]), Gives(&[], &[2.0])),
        Case("einsum without operands", || ops::einsum::<Tensor>("i->i", &[]), Refused(Code::Argument)),
        Case("einsum of no operand at all", || ops::einsum::<Tensor>("", &[]), Refused(Code::Argument)),
        Case("einsum with a foreign result", || ops::einsum("i->j", &[row()]), Refused(Code::Argument)),
        Case("einsum with two arrows", || ops::einsum("i->i->i", &[row()]), Refused(Code::Argument)),
        Case("einsum with two ellipses", || ops::einsum("......->", &[Tensor::ones([1, 1])]), Refused(Code::Argument)),
        Case("einsum with signs", || ops::einsum("+->+", &[row()]), Refused(Code::Argument)),
        Case("einsum with digits", || ops::einsum("0...->0...", &[Tensor::ones([2, 2])]), Refused(Code::Argument)),
        Case("einsum of other sizes", || ops::einsum("i,i->", &[row(), tensor![1.0, 2.0]]), Refused(Code::Shape)),
        Case(
            "a kernel above its input",
            || ops::conv2d(image([2, 2]), image([3, 3]), None, &ops::ConvOptions::new(2)),
            Refused(Code::Shape),
        ),
        Case(
            "a convolution with a stride of zero",
            || ops::conv2d(image([4, 4]), image([3, 3]), None, &ops::ConvOptions::new(2).stride(0)),
            Refused(Code::Argument),
        ),
        Case(
            "a convolution in no groups",
            || ops::conv2d(image([4, 4]), image([3, 3]), None, &ops::ConvOptions::new(2).groups(0)),
            Refused(Code::Shape),
        ),
        Case(
            "a convolution with the largest padding",
            || ops::conv2d(image([4, 4]), image([3, 3]), None, &ops::ConvOptions::new(2).padding(MAX)),
            Refused(Code::Argument),
        ),
        Case(
            "a convolution with the largest dilation",
            || ops::conv2d(image([4, 4]), image([3, 3]), None, &ops::ConvOptions::new(2).dilation(MAX)),
            Refused(Code::Argument),
        ),
        Case(
            "a convolution with the largest stride",
            || ops::conv2d(image([4, 4]), image([3, 3]), None, &ops::ConvOptions::new(2).stride(MAX)),
            Refused(Code::Argument),
        ),
        Case(
            "a convolution of no image",
            || ops::conv2d(Tensor::ones([0, 1, 4, 4]), image([3, 3]), None, &ops::ConvOptions::new(2)),
            Gives(&[0, 1, 2, 2], &[]),
        ),
        Case(
            "a convolution of a vector",
            || ops::conv2d(row(), image([3, 3]), None, &ops::ConvOptions::new(2)),
            Refused(Code::Shape),
        ),
        Case("a pool above its input", || ops::max_pool2d(image([2, 2]), 3), Refused(Code::Shape)),
        Case("a pool of no taps", || ops::max_pool2d(image([2, 2]), 0), Refused(Code::Argument)),
        Case("means of no taps", || ops::avg_pool2d(image([2, 2]), 0), Refused(Code::Argument)),
        Case("a pool over no place", || ops::max_pool2d(image([0, 0]), 1), Refused(Code::Shape)),
        Case("means over no place", || ops::avg_pool2d(image([0, 2]), 1), Refused(Code::Shape)),
        Case(
            "a pool with the largest padding",
            || ops::max_pool(image([2, 2]), &ops::PoolOptions::new(2, 2).padding(MAX)),
            Refused(Code::Argument),
        ),
        Case("adaptive means in no windows", || ops::adaptive_avg_pool2d(image([2, 2]), 0), Gives(&[1, 1, 0, 0], &[])),
        Case("adaptive means over no place", || ops::adaptive_avg_pool2d(image([0, 0]), 1), Refused(Code::Argument)),
        Case("the product of nothing", || ops::prod(empty(), ()), Gives(&[], &[1.0])),
        Case("the variance of nothing", || ops::var(empty(), (), 0), Gives(&[], &[NAN])),
        Case("the variance of fewer than ddof", || ops::var(tensor![1.0], (), 2), Gives(&[], &[NAN])),
        Case("softmax of nothing", || ops::softmax(empty(), 0), Gives(&[0], &[])),
        Case("softmax of a scalar", || ops::softmax(Tensor::scalar(3.0), 0), Refused(Code::OutOfRange)),
        Case("integers by zero", || tensor![1, -1] % 0, Gives(&[2], &[0.0, 0.0])),
        Case("the least integer by -1", || ops::floor_div(tensor![i64::MIN], -1), Gives(&[1], &[i64::MIN as f64])),
        Case("the least integer without its sign", || ops::abs(tensor![i64::MIN]), Gives(&[1], &[i64::MIN as f64])),
        Case("a shift beyond the width", || ops::left_shift(tensor![1], tensor![200]), Gives(&[1], &[0.0])),
        Case("an integer to a negative power", || ops::pow(tensor![2], tensor![-1]), Gives(&[1], &[0.0])),
        Case(
            "no size between elements",
            || ops::interpolate(image([2, 2]), &[0, 2], ops::Interpolation::Nearest),
            Gives(&[1, 1, 0, 2], &[]),
        ),
    ]);
}

#[test]
fn data_sets_are_checked() {
    check(&[
        Case(
            "unequal rows",
            || TensorDataset::new((Tensor::ones([5, 2]), Tensor::ones([4]))).tensors().0.clone(),
            Refused(Code::Shape),
        ),
        Case("no rows at all", || TensorDataset::new(Tensor::scalar(1.0)).tensors().clone(), Refused(Code::Shape)),
        Case(
            "a decay rate of one",
            || {
                Adam::new(1.0).betas(0.9, 1.0);
                empty()
            },
            Refused(Code::Argument),
        ),
    ]);
}
