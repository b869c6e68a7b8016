//! Lists where another result than PyTorch's is right, or where the rounding error is larger.

/// The expected result where PyTorch's does not apply.
pub enum Instead {
    /// PyTorch's result. Where that is NaN, any result is right, but a value must be a number.
    Numbers,
    /// PyTorch's result, except for the element at this position.
    But(usize),
    /// This number.
    Is(f64),
    /// Any result: powers overflow or lose digits on the way.
    Open,
}

use Instead::{But, Is, Numbers, Open};

type At = fn(&[f64]) -> bool;

/// One exception: beginnings of function names, separated by bars, parts (0 is the value), points, and the expected
/// result.
type Exception = (&'static str, &'static [usize], At, Instead);

const VALUE: &[usize] = &[0];
const FIRST: &[usize] = &[1];
const SECOND: &[usize] = &[2];
const DERIVATIVES: &[usize] = &[1, 2];
const ALL: &[usize] = &[0, 1, 2];

/// Whether a number has an infinite square.
fn has_large(x: &[f64]) -> bool {
    x.iter().any(|it| it.is_finite() && it.abs() > 1e30)
}

/// Whether a number is large for f16 as well.
fn has_largest(x: &[f64]) -> bool {
    x.iter().any(|it| it.is_finite() && it.abs() > 6e4)
}

fn has_subnormal(x: &[f64]) -> bool {
    x.iter().any(|it| *it != 0.0 && it.abs() < 1e-7)
}

fn has_infinity(x: &[f64]) -> bool {
    x.iter().any(|it| it.is_infinite())
}

fn has_zero(x: &[f64]) -> bool {
    x.contains(&0.0)
}

fn any(_: &[f64]) -> bool {
    true
}

/// Whether the difference of the scores is NaN, which PyTorch compares with zero.
fn has_no_margin(own: f64, other: f64) -> bool {
    (own - other).is_nan()
}

const EXCEPTIONS: &[Exception] = &[
    ("norm|var|std|prod|cumprod|logsumexp|layer_norm|rms_norm|cosine|Cosine|Triplet|Dice|RMSE", ALL, has_large, Open),
    (
        "gelu_tanh|hswish|SoftMargin|log10|log2|asinh|acosh|div|Gaussian|Poisson|CTCLoss without labels",
        ALL,
        has_large,
        Open,
    ),
    ("sin|cos|tan|hypot|atan2|pow|Triplet", ALL, has_largest, Open),
    ("mean|cross_entropy|SoftMargin", VALUE, has_largest, Open),
    ("kl_div", SECOND, has_largest, Open),
    ("SoftMargin|mish|gelu|logaddexp|erf", DERIVATIVES, has_largest, Numbers),
    (
        "norm|std|layer_norm|rms_norm|hypot|atan2|pow|Triplet|RMSE|div|cosine|Cosine|prod|cumprod",
        ALL,
        has_subnormal,
        Open,
    ),
    ("remainder|fmod", ALL, has_subnormal, Open),
    ("kl_div", SECOND, has_subnormal, Open),
    // PyTorch multiplies the gradients of the steps after a NaN step by zero.
    ("CTCLoss, without infinities", DERIVATIVES, |x| x.iter().any(|it| it.is_nan()), Open),
    // The logarithm of a probability is at least -100, also in the gradient of the target.
    ("binary_cross_entropy", FIRST, |x| x[0] < 1e-40 || x[0] == 1.0, But(1)),
    ("binary_cross_entropy", SECOND, |x| x[0] != 0.5, Open),
    ("bce_with_logits", VALUE, |x| x[0] == f64::NEG_INFINITY && x[1] > 0.0, Numbers),
    ("kl_div of logarithms", ALL, |x| x[1] == f64::NEG_INFINITY, Numbers),
    ("kl_div", ALL, |x| x[0] == f64::NEG_INFINITY && x[1] == 0.0, Numbers),
    ("SoftMarginLoss", ALL, has_infinity, Numbers),
    ("PoissonNLLLoss, full", DERIVATIVES, |x| x[1] == 0.0, Numbers),
    // PyTorch computes 1/6 with the digits of f32.
    ("hsigmoid", FIRST, |x| x[0].abs() < 3.0, Is(1.0 / 6.0)),
    ("sign", VALUE, |x| x[0].is_nan(), Is(f64::NAN)),
    // The signs of the infinities differ.
    ("rsqrt", DERIVATIVES, has_zero, Open),
    ("pow 0.5|pow 1.5", ALL, |x| x[0].is_sign_negative(), Open),
    ("MultiMarginLoss", VALUE, |x| x[1..].iter().any(|it| has_no_margin(x[0], *it)), Is(f64::NAN)),
    ("MultiMarginLoss", DERIVATIVES, |x| x[1..].iter().any(|it| has_no_margin(x[0], *it)), Open),
    ("MultiLabelMarginLoss", VALUE, |x| has_no_margin(x[0], x[1]) || has_no_margin(x[2], x[1]), Is(f64::NAN)),
    ("MultiLabelMarginLoss", DERIVATIVES, |x| has_no_margin(x[0], x[1]) || has_no_margin(x[2], x[1]), Open),
    ("RMSELoss", DERIVATIVES, |x| x == [1.0; 3], Is(0.0)),
    ("elu of", SECOND, |x| x[0] == 0.0, Is(0.5)),
    ("elu", SECOND, |x| x[0] == 0.0, Is(1.0)),
    ("celu of 2", SECOND, |x| x[0] == 0.0, Is(0.5)),
    ("selu", SECOND, |x| x[0] == 0.0, Is(1.7580993408473766)),
    // From the threshold on, PyTorch returns zero.
    ("softplus", SECOND, |x| x[0] >= 10.0, Open),
    ("asin|acos|acosh", SECOND, |x| x[0].abs() == 1.0, Open),
    ("pow of 0", SECOND, any, Numbers),
    ("pow", SECOND, |x| x.len() == 2 && (x[1] == 0.0 || x[0] == 0.0), Open),
    ("norm", SECOND, any, Numbers),
    ("cosine_similarity", SECOND, has_zero, Numbers),
    ("logaddexp|acosh", SECOND, has_infinity, Numbers),
    ("TripletMarginLoss", DERIVATIVES, any, Numbers),
    // An infinite loss has no gradient, and neither has a step that no alignment passes.
    ("CTCLoss", DERIVATIVES, any, Numbers),
];

/// Returns the exception for a part of a function at a point, if there is one.
pub fn of(name: &str, x: &[f64], part: usize) -> Option<&'static Instead> {
    let fits = |it: &&Exception| it.0.split('|').any(|it| name.starts_with(it)) && it.1.contains(&part) && it.2(x);
    EXCEPTIONS.iter().find(fits).map(|it| &it.3)
}
