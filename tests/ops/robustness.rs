//! Input at the edge of every domain gives an error with a code, or NumPy's answer: no other
//! panic, whether an overflow, an index or a failed allocation.

#![forbid(unsafe_code)]

use ms::data::{Dataset, read_csv};
use ms::ops::{AttentionOptions, BatchStatistics, CrossEntropy, PadMode, Reduction};
use ms::prelude::*;
use ms::{Code, Result, catch};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What must come of a call.
enum Want {
    /// A refusal with this code.
    Code(Code),
    /// A tensor of this shape with these elements in row-major order; nan equals nan.
    Gives(&'static [usize], &'static [f64]),
}

use Want::{Code as Refused, Gives};

struct Case(&'static str, fn() -> Tensor, Want);

/// What is wrong with the outcome of a case.
fn defect(case: &Case) -> Option<String> {
    let Ok(outcome) = catch_unwind(AssertUnwindSafe(|| catch(case.1))) else {
        return Some("panicked without an error".into());
    };
    verdict(outcome, &case.2)
}

/// What is wrong with an outcome.
fn verdict(outcome: Result<Tensor>, want: &Want) -> Option<String> {
    match (outcome, want) {
        (Err(error), Refused(code)) if error.code() == *code => None,
        (Err(error), _) => Some(format!("refused with {error}")),
        (Ok(got), Refused(code)) => Some(format!("accepted, not refused with {code}: {:?}", got.shape())),
        (Ok(got), Gives(shape, elements)) => {
            let values = got.cast(DType::F64).to_vec::<f64>();
            let same = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
            let fits =
                got.shape() == *shape && values.len() == elements.len() && values.iter().zip(*elements).all(same);
            (!fits).then(|| format!("gave {:?} {values:?}, not {shape:?} {elements:?}", got.shape()))
        }
    }
}

fn check(cases: &[Case]) {
    let found: Vec<_> = cases.iter().filter_map(|it| Some(format!("{}: {}", it.0, defect(it)?))).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

const NAN: f64 = f64::NAN;
const MAX: usize = usize::MAX;

fn row() -> Tensor {
    tensor![1.0, 2.0, 3.0]
}

fn empty() -> Tensor {
    Tensor::ones([0])
}

fn image(sides: [usize; 2]) -> Tensor {
    Tensor::ones([1, 1, sides[0], sides[1]])
}

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
fn axes_and_indices_are_checked() {
    check(&[
        Case("the least axis", || ops::sum(row(), isize::MIN, false), Refused(Code::OutOfRange)),
        Case("the largest axis", || ops::sum(row(), usize::MAX, false), Refused(Code::OutOfRange)),
        Case("an axis of a scalar", || ops::sum(Tensor::scalar(1.0), 0, false), Refused(Code::OutOfRange)),
        Case("an axis twice", || ops::sum(Tensor::ones([2, 2]), [0, -2], false), Refused(Code::Argument)),
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
        Case("one_hot outside", || ops::one_hot(tensor![i64::MAX], 3), Gives(&[1, 3], &[0.0; 3])),
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
            Refused(Code::Memory),
        ),
        Case(
            "a convolution with the largest dilation",
            || ops::conv2d(image([4, 4]), image([3, 3]), None, &ops::ConvOptions::new(2).dilation(MAX)),
            Refused(Code::Shape),
        ),
        Case(
            "a convolution with the largest stride",
            || ops::conv2d(image([4, 4]), image([3, 3]), None, &ops::ConvOptions::new(2).stride(MAX)),
            Gives(&[1, 1, 1, 1], &[9.0]),
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
        Case("the product of nothing", || ops::prod(empty(), (), false), Gives(&[], &[1.0])),
        Case("the variance of nothing", || ops::var(empty(), (), 0, false), Gives(&[], &[NAN])),
        Case("the variance of fewer than ddof", || ops::var(tensor![1.0], (), 2, false), Gives(&[], &[NAN])),
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

type Shapes = &'static [&'static [usize]];

/// An op on tensors of ones, shapes that it takes, and shapes that broadcast or fill up although they
/// do not belong together.
struct Asks {
    name: &'static str,
    run: fn(&[Tensor]) -> Tensor,
    takes: &'static [Shapes],
    refuses: &'static [Shapes],
}

const fn asks(
    name: &'static str,
    run: fn(&[Tensor]) -> Tensor,
    takes: &'static [Shapes],
    refuses: &'static [Shapes],
) -> Asks {
    Asks { name, run, takes, refuses }
}

const ALIKE: &[Shapes] = &[&[&[3, 2], &[3, 2]], &[&[], &[]], &[&[0], &[0]]];
const UNLIKE: &[Shapes] = &[
    &[&[3, 3], &[3]],
    &[&[4, 1], &[4]],
    &[&[4], &[4, 1]],
    &[&[2, 3], &[3, 2]],
    &[&[5], &[1]],
    &[&[1], &[5]],
    &[&[2], &[]],
];

fn classes(x: &Tensor) -> Tensor {
    x.cast(DType::I64)
}

fn masked(x: &[Tensor]) -> Tensor {
    let options = AttentionOptions { mask: Some(x[1].clone()), ..AttentionOptions::default() };
    ops::scaled_dot_product_attention(&x[0], &x[0], &x[0], &options)
}

fn weighted(weight: &Tensor) -> CrossEntropy {
    CrossEntropy { weight: Some(weight.clone()), ..CrossEntropy::default() }
}

static ASKS: &[Asks] = &[
    asks("mse_loss", |x| ops::mse_loss(&x[0], &x[1]), ALIKE, UNLIKE),
    asks("l1_loss", |x| ops::l1_loss(&x[0], &x[1]), ALIKE, UNLIKE),
    asks("smooth_l1_loss", |x| ops::smooth_l1_loss(&x[0], &x[1], 1.0, Reduction::Mean), ALIKE, UNLIKE),
    asks("huber_loss", |x| ops::huber_loss(&x[0], &x[1], 1.0, Reduction::Mean), ALIKE, UNLIKE),
    asks("binary_cross_entropy", |x| ops::binary_cross_entropy(&x[0], &x[1], None, Reduction::Mean), ALIKE, UNLIKE),
    asks("bce_with_logits", |x| ops::bce_with_logits(&x[0], &x[1], None, Reduction::Mean), ALIKE, UNLIKE),
    asks("kl_div", |x| ops::kl_div(&x[0], &x[1], false, Reduction::Mean), ALIKE, UNLIKE),
    asks("kl_div of logarithms", |x| ops::kl_div(&x[0], &x[1], true, Reduction::Mean), ALIKE, UNLIKE),
    asks(
        "binary_cross_entropy with a weight",
        |x| ops::binary_cross_entropy(&x[0], &x[1], Some(&x[2]), Reduction::None),
        &[&[&[2, 3], &[2, 3], &[3]], &[&[2, 3], &[2, 3], &[]]],
        &[&[&[3], &[3], &[2, 3]], &[&[1], &[1], &[4]]],
    ),
    asks(
        "bce_with_logits with a weight",
        |x| ops::bce_with_logits(&x[0], &x[1], Some(&x[2]), Reduction::None),
        &[&[&[2, 3], &[2, 3], &[3]], &[&[2, 3], &[2, 3], &[2, 1]]],
        &[&[&[3], &[3], &[2, 3]], &[&[1], &[1], &[4]]],
    ),
    asks(
        "cross_entropy with distributions",
        |x| ops::cross_entropy(&x[0], &x[1]),
        &[&[&[3, 3], &[3, 3]], &[&[2, 3, 4], &[2, 3, 4]], &[&[3], &[3]]],
        &[&[&[3, 3], &[3]], &[&[3, 3], &[1, 3]], &[&[3, 3], &[3, 1]], &[&[2, 3, 4], &[3, 4]], &[&[2, 3], &[]]],
    ),
    asks(
        "cross_entropy with classes",
        |x| ops::cross_entropy(&x[0], classes(&x[1])),
        &[&[&[3, 4], &[3]], &[&[2, 3, 4], &[2, 4]], &[&[3], &[]]],
        &[&[&[3, 4], &[4]], &[&[3, 4], &[3, 1]], &[&[3, 4], &[1]], &[&[3, 4], &[]]],
    ),
    asks(
        "cross_entropy with a weight",
        |x| weighted(&x[2]).of(&x[0], classes(&x[1])),
        &[&[&[3, 4], &[3], &[4]]],
        &[&[&[3, 4], &[3], &[3]], &[&[3, 4], &[3], &[1]], &[&[3, 4], &[3], &[2, 2]]],
    ),
    asks(
        "nll_loss with distributions",
        |x| ops::nll_loss(&x[0], &x[1]),
        &[&[&[3, 3], &[3, 3]]],
        &[&[&[3, 3], &[3]], &[&[3, 3], &[1, 3]]],
    ),
    asks(
        "cosine_embedding_loss",
        |x| ops::cosine_embedding_loss(&x[0], &x[1], &x[2], 0.0, Reduction::Mean),
        &[&[&[2, 3], &[2, 3], &[2]], &[&[3], &[3], &[]]],
        &[&[&[2, 3], &[1, 3], &[2]], &[&[2, 3], &[2, 3], &[2, 1]], &[&[2, 3], &[2, 3], &[]]],
    ),
    asks(
        "embedding",
        |x| ops::embedding(classes(&x[0]), &x[1], Some(0)),
        &[&[&[2], &[5, 3]], &[&[2, 4], &[5, 3]]],
        &[&[&[2], &[5]], &[&[2], &[5, 3, 2]]],
    ),
    asks(
        "attention with a mask",
        masked,
        &[&[&[2, 3, 4], &[3, 3]], &[&[2, 3, 4], &[1, 1, 3]]],
        &[&[&[2, 3, 4], &[5, 2, 3, 3]], &[&[1, 3, 4], &[2, 3, 3]], &[&[2, 3, 4], &[4]]],
    ),
    asks(
        "layer_norm",
        |x| ops::layer_norm(&x[0], Some(&x[1]), Some(&x[2]), 1, 1e-5),
        &[&[&[2, 3], &[3], &[3]], &[&[2, 3, 4], &[3, 4], &[3, 4]]],
        &[&[&[2, 3], &[1], &[3]], &[&[2, 3], &[3], &[1]], &[&[2, 3], &[2, 3], &[3]], &[&[2, 3, 4], &[4], &[4]]],
    ),
    asks(
        "rms_norm",
        |x| ops::rms_norm(&x[0], &x[1], -1, 1e-5),
        &[&[&[2, 3], &[3]], &[&[2, 3], &[]]],
        &[&[&[2, 3], &[1]], &[&[2, 3], &[2, 3]]],
    ),
    asks(
        "group_norm",
        |x| ops::group_norm(&x[0], 2, &x[1], &x[2], 1e-5),
        &[&[&[2, 4, 3], &[4], &[4]], &[&[2, 4], &[4], &[4]]],
        &[&[&[2, 4, 3], &[1], &[4]], &[&[2, 4, 3], &[4], &[3]], &[&[4], &[4], &[4]], &[&[], &[4], &[4]]],
    ),
    asks(
        "instance_norm",
        |x| ops::instance_norm(&x[0], &x[1], &x[2], 1e-5),
        &[&[&[2, 3, 4], &[3], &[3]]],
        &[&[&[2, 3, 4], &[1], &[3]], &[&[2, 3, 4], &[3], &[3, 1]], &[&[3], &[3], &[3]]],
    ),
    asks(
        "batch_norm",
        |x| ops::batch_norm(&x[0], &x[1], &x[2], None, 1e-5),
        &[&[&[2, 3], &[3], &[3]], &[&[1, 3, 2], &[3], &[3]]],
        &[&[&[2, 3], &[1], &[3]], &[&[2, 3], &[3], &[1]], &[&[3], &[3], &[3]], &[&[2, 3], &[2, 3], &[3]]],
    ),
    asks(
        "batch_norm by statistics",
        |x| {
            let kept = BatchStatistics { mean: x[1].clone(), var: x[2].clone() };
            ops::batch_norm(&x[0], Tensor::ones([3]), Tensor::ones([3]), Some(&kept), 1e-5)
        },
        &[&[&[2, 3], &[3], &[3]], &[&[1, 3], &[3], &[3]]],
        &[&[&[2, 3], &[1], &[3]], &[&[2, 3], &[3], &[1]]],
    ),
    asks(
        "lstm",
        |x| ops::lstm(&x[0], (&x[1], &x[2]), (&x[3], &x[4]), None).0,
        &[&[&[5, 2, 3], &[2, 4], &[2, 4], &[16, 3], &[16, 4]]],
        &[
            &[&[5, 2, 3], &[1, 4], &[2, 4], &[16, 3], &[16, 4]],
            &[&[5, 2, 3], &[2, 4], &[2, 1], &[16, 3], &[16, 4]],
            &[&[5, 2, 3], &[2, 4], &[2, 4], &[12, 3], &[16, 4]],
            &[&[5, 2, 3], &[2, 4], &[2, 4], &[16, 3], &[16, 3]],
        ],
    ),
    asks(
        "gru",
        |x| ops::gru(&x[0], &x[1], (&x[2], &x[3]), None).0,
        &[&[&[5, 2, 3], &[2, 4], &[12, 3], &[12, 4]]],
        &[&[&[5, 2, 3], &[1, 4], &[12, 3], &[12, 4]], &[&[5, 2, 3], &[2, 4], &[4, 3], &[12, 4]]],
    ),
    asks(
        "dense",
        |x| ops::dense(&x[0], &x[1], Some(&x[2])),
        &[&[&[2, 3], &[4, 3], &[4]], &[&[3], &[4, 3], &[4]]],
        &[&[&[2, 3], &[4, 3], &[1]], &[&[2, 3], &[4, 3], &[2, 4]], &[&[2, 3], &[3], &[1]]],
    ),
    asks(
        "conv1d",
        |x| ops::conv1d(&x[0], &x[1], Some(&x[2]), &ops::ConvOptions::new(1)),
        &[&[&[1, 2, 5], &[4, 2, 3], &[4]]],
        &[&[&[1, 2, 5], &[4, 2, 3], &[1]], &[&[1, 2, 5], &[4, 2, 3], &[2, 2]]],
    ),
];

#[jit]
fn asked(at: usize, x: &Vec<Tensor>) -> Tensor {
    (ASKS[at].run)(x)
}

#[test]
fn operands_of_other_shapes_are_refused() {
    for (at, asks) in ASKS.iter().enumerate() {
        let given = |shapes: Shapes| shapes.iter().map(|&it| Tensor::ones(it)).collect::<Vec<_>>();
        let ways = |x: &Vec<Tensor>| [catch(|| (asks.run)(x)), catch(|| asked(at, x))];
        for shapes in asks.takes {
            for outcome in ways(&given(shapes)) {
                assert!(outcome.is_ok(), "{} of {shapes:?}: {}", asks.name, outcome.expect_err("it is refused"));
            }
        }
        for shapes in asks.refuses {
            for outcome in ways(&given(shapes)) {
                match outcome {
                    Ok(got) => panic!("{} of {shapes:?} is accepted: {got}", asks.name),
                    Err(error) => assert_eq!(error.code(), Code::Shape, "{} of {shapes:?}: {error}", asks.name),
                }
            }
        }
    }
}

fn pair() -> [Tensor; 2] {
    [Tensor::ones([2, 4]), Tensor::ones([4])]
}

fn grouped(groups: usize) -> Tensor {
    let [x, per_channel] = pair();
    ops::group_norm(x, groups, &per_channel, &per_channel, 0.5)
}

/// Cases that have one outcome eagerly and compiled.
static ONE_RULE: &[Case] = &[
    Case("no groups", || grouped(0), Refused(Code::Argument)),
    Case("groups that do not divide", || grouped(3), Refused(Code::Argument)),
    Case("more groups than channels", || grouped(8), Refused(Code::Argument)),
    Case("groups of one channel", || grouped(4), Gives(&[2, 4], &[1.0; 8])),
    Case("the batch norm of one row", || nn::BatchNorm::new(4).call(&Tensor::ones([1, 4])), Refused(Code::Argument)),
    Case("the batch norm of no row", || nn::BatchNorm::new(4).call(&Tensor::ones([0, 4])), Refused(Code::Argument)),
    Case(
        "the batch norm of one picture",
        || nn::BatchNorm::new(1).call(&image([1, 2])),
        Gives(&[1, 1, 1, 2], &[0.0; 2]),
    ),
    Case(
        "batch_norm of one row",
        || ops::batch_norm(Tensor::ones([1, 4]), Tensor::ones([4]), Tensor::ones([4]), None, 1e-5),
        Refused(Code::Argument),
    ),
    Case(
        "instance_norm of one place",
        || ops::instance_norm(Tensor::ones([2, 4, 1]), Tensor::ones([4]), Tensor::ones([4]), 1e-5),
        Refused(Code::Argument),
    ),
    Case("layer_norm from far off", || ops::layer_norm(row(), None, None, -(1 << 40), 0.5), Refused(Code::OutOfRange)),
    Case("layer_norm behind the end", || ops::layer_norm(row(), None, None, 1, 0.5), Refused(Code::OutOfRange)),
    Case("rms_norm from far off", || ops::rms_norm(row(), row(), 1 << 40, 0.5), Refused(Code::OutOfRange)),
    Case("dropout of all", || ops::dropout(row(), 1.0), Refused(Code::Argument)),
    Case("dropout of fewer than none", || ops::dropout(row(), -0.5), Refused(Code::Argument)),
    Case("dropout with nan", || ops::dropout(row(), NAN), Refused(Code::Argument)),
    Case("huber_loss without a bend", || ops::huber_loss(row(), row(), 0.0, Reduction::Mean), Refused(Code::Argument)),
    Case("a negative beta", || ops::smooth_l1_loss(row(), row(), -1.0, Reduction::Mean), Refused(Code::Argument)),
    Case("a beta of zero", || ops::smooth_l1_loss(row(), row() * 2, 0.0, Reduction::Sum), Gives(&[], &[6.0])),
    Case(
        "smoothing above one",
        || CrossEntropy { label_smoothing: 1.5, ..CrossEntropy::default() }.of(row(), tensor![1].at(0)),
        Refused(Code::Argument),
    ),
    Case(
        "a class to ignore among distributions",
        || CrossEntropy { ignore_index: Some(1), ..CrossEntropy::default() }.of(row(), row()),
        Refused(Code::Argument),
    ),
    Case(
        "a padding outside the table",
        || ops::embedding(tensor![0], Tensor::ones([3, 2]), Some(3)),
        Refused(Code::OutOfRange),
    ),
    Case("a negative deviation", || random::normal([2], 0.0, -1.0), Refused(Code::Argument)),
    Case("a range backwards", || random::uniform([2], 1.0, 0.0), Refused(Code::Argument)),
    Case("an infinite range", || random::uniform([2], 0.0, f64::INFINITY), Refused(Code::Argument)),
    // What names a position that is not there is refused, whether or not the result has elements.
    Case("rows of no element", || ops::gather(Tensor::ones([3, 0]), tensor![7], 0), Refused(Code::OutOfRange)),
    Case("rows of rows", || ops::gather_nd(Tensor::ones([3, 0]), tensor![[7]]), Refused(Code::OutOfRange)),
    Case(
        "take from nothing",
        || ops::take_along_axis(Tensor::ones([0, 1]), tensor![[0]], 0),
        Refused(Code::OutOfRange),
    ),
    Case("scatter to nothing", || ops::scatter(empty(), tensor![0], tensor![1.0], 0), Refused(Code::OutOfRange)),
    Case("add to nothing", || ops::scatter_add(empty(), tensor![0], tensor![1.0], 0), Refused(Code::OutOfRange)),
    Case("add rows to nothing", || ops::index_add(empty(), tensor![0], tensor![1.0], 0), Refused(Code::OutOfRange)),
    Case(
        "add slices to nothing",
        || ops::scatter_nd_add(Tensor::ones([3, 0]), tensor![[-4]], Tensor::ones([1, 0])),
        Refused(Code::OutOfRange),
    ),
    Case("rows of no element that are there", || ops::gather(Tensor::ones([3, 0]), tensor![2], 0), Gives(&[1, 0], &[])),
    // Views of nothing, and many rows of nothing.
    Case("the sum of nothing backwards", || Tensor::ones([0, 3]).flip(1).sum((), false), Gives(&[], &[0.0])),
    Case(
        "the product of nothing backwards",
        || Tensor::ones([2, 0, 3]).flip([0, 2]).prod((), false),
        Gives(&[], &[1.0]),
    ),
    Case("sums of nothing backwards", || Tensor::ones([0, 3]).flip([0, 1]).sum(0, false), Gives(&[3], &[0.0; 3])),
    Case("nothing turned and backwards", || Tensor::ones([3, 0]).t().flip(1).sum([0, 1], true), Gives(&[1, 1], &[0.0])),
    Case("whether any of nothing", || Tensor::ones([0, 3]).flip(1).gt(0.0).any((), false), Gives(&[], &[0.0])),
    Case(
        "layer_norm of nothing backwards",
        || ops::layer_norm(Tensor::ones([0, 2, 3]).flip(2), None, None, 0, 1e-5),
        Gives(&[0, 2, 3], &[]),
    ),
    Case("a sum with many empty rows", || Tensor::zeros([1 << 40, 0]) + 1.0, Gives(&[1 << 40, 0], &[])),
    Case(
        "many empty rows turned",
        || Tensor::zeros([1 << 40, 0, 2]).transpose(0, 2) * 2.0,
        Gives(&[2, 0, 1 << 40], &[]),
    ),
    Case("the sum of many empty rows", || Tensor::zeros([1 << 40, 0]).sum((), false), Gives(&[], &[0.0])),
    Case("eye without columns", || ops::eye_of(1usize << 40, 0, 0, DType::F32), Gives(&[1 << 40, 0], &[])),
    Case("numbers of many empty rows", || ops::iota([1 << 40, 0], 0, DType::I64), Gives(&[1 << 40, 0], &[])),
    Case("eye far below", || ops::eye_of(2, 2, isize::MIN + 7, DType::F32), Gives(&[2, 2], &[0.0; 4])),
    Case("randint from far below", || random::randint([1], -i64::MAX, 0).lt(0), Refused(Code::Argument)),
    Case("randint from the least", || random::randint([1], i64::MIN, 0).lt(0), Gives(&[1], &[1.0])),
    Case("randint from below half of all", || random::randint([1], i64::MIN / 2 - 9, 0).lt(0), Gives(&[1], &[1.0])),
];

#[jit]
fn ruled(at: usize) -> Tensor {
    (ONE_RULE[at].1)()
}

#[test]
fn one_rule_holds_eagerly_and_compiled() {
    check(ONE_RULE);
    let compiled = ONE_RULE.iter().enumerate().filter_map(|(at, case)| {
        let Ok(outcome) = catch_unwind(AssertUnwindSafe(|| catch(|| ruled(at)))) else {
            return Some(format!("{}, compiled: panicked without an error", case.0));
        };
        Some(format!("{}, compiled: {}", case.0, verdict(outcome, &case.2)?))
    });
    let found: Vec<String> = compiled.collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn data_sets_are_checked() {
    fn five() -> Dataset {
        Dataset::new(Tensor::ones([5, 2]), Tensor::ones([5]))
    }
    fn inputs(set: Dataset) -> Tensor {
        set.inputs().clone()
    }
    check(&[
        Case("unequal rows", || inputs(Dataset::new(Tensor::ones([5, 2]), Tensor::ones([4]))), Refused(Code::Shape)),
        Case("no rows at all", || inputs(Dataset::new(Tensor::scalar(1.0), Tensor::scalar(1.0))), Refused(Code::Shape)),
        Case("nine of five", || inputs(five().split(9).0), Refused(Code::OutOfRange)),
        Case("five of five", || inputs(five().split(5).1), Gives(&[0, 2], &[])),
        Case("batches of none", || five().batches(0).next().map_or(empty(), |it| it.1), Refused(Code::Argument)),
        Case(
            "shuffled batches of none",
            || five().shuffled_batches(0).next().map_or(empty(), |it| it.1),
            Refused(Code::Argument),
        ),
        Case("the largest batch", || five().batches(MAX).next().map_or(empty(), |it| it.1), Gives(&[5], &[1.0; 5])),
        Case(
            "a decay rate of one",
            || {
                Adam::new(1.0).betas(0.9, 1.0);
                empty()
            },
            Refused(Code::Argument),
        ),
    ]);
    let path = std::env::temp_dir().join(format!("ms-robustness-{}.csv", std::process::id()));
    for text in ["", "\n \n"] {
        std::fs::write(&path, text).expect("the file is written");
        let error = read_csv(&path).expect_err("there is no number");
        assert!(error.code() == Code::Parse && error.to_string().contains("no line of numbers"), "{error}");
    }
    std::fs::remove_file(&path).expect("the file is there");
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
