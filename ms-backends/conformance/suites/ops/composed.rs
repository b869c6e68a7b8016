//! Tests the errors of functions that are composed of others.

use ms::prelude::*;
use ms_conformance::late_errors::catch;

/// A call of a function with arguments that it refuses.
type Call = fn() -> Tensor;

macro_rules! calls {
    ($($name:literal: $call:expr;)*) => { &[$(($name, || Tensor::from($call))),*] };
}

/// Composed functions, each with arguments that only an inner op refuses.
const COMPOSED: &[(&str, Call)] = calls! {
    "softmax": ops::softmax(Tensor::ones([2, 3]), -3);
    "softmax": ops::softmax(Tensor::scalar(1.0), 0);
    "softmax": ops::softmax(tensor![true], 1);
    "log_softmax": ops::log_softmax(Tensor::ones([2, 3]), 2);
    "logsumexp": ops::logsumexp(Tensor::ones([2, 3]), 2);
    "mean": ops::mean(Tensor::ones([2, 3]), 2);
    "var": ops::var(Tensor::ones([2, 3]), 2, 0);
    "std": ops::std(Tensor::ones([2, 3]), 2, 0);
    "norm": ops::norm(Tensor::ones([2, 3]), 2.0, 2);
    "norm": ops::norm(Tensor::zeros([2, 0]), f64::INFINITY, 1);
    "embedding": ops::embedding(tensor![1.0], Tensor::ones([2, 3]), None);
    "embedding": ops::embedding(tensor![5], Tensor::ones([2, 3]), None);
    "mse_loss": ops::mse_loss(tensor![true, false], tensor![true, true]);
    "l1_loss": ops::l1_loss(tensor![true, false], tensor![true, true]);
    "smooth_l1_loss": ops::smooth_l1_loss(tensor![true], tensor![true], 1.0, ops::Reduction::Mean);
    "huber_loss": ops::huber_loss(tensor![true], tensor![true], 1.0, ops::Reduction::Mean);
    "kl_div": ops::kl_div(tensor![true], tensor![true], false, ops::Reduction::Mean);
    "cosine_similarity": ops::cosine_similarity(Tensor::ones([2, 3]), Tensor::ones([2, 4]), 1, 1e-8);
    "cosine_similarity": ops::cosine_similarity(Tensor::ones([2, 3]), Tensor::ones([2, 3]), 2, 1e-8);
    "cross_entropy": ops::cross_entropy(Tensor::ones([2, 3]), Tensor::ones([2, 4]));
    "cross_entropy": ops::cross_entropy(Tensor::ones([2, 3]), tensor![[true, true, true], [true, true, true]]);
    "nll_loss": ops::nll_loss(Tensor::ones([2, 3]), tensor![0.5, 0.5]);
    "dense": ops::dense(Tensor::ones([2, 3]), Tensor::ones([4, 5]), None);
    "dense": ops::dense(Tensor::ones([2, 3]), Tensor::ones([4, 3]), Some(&Tensor::ones([5])));
    "dense": ops::dense(tensor![[true]], Tensor::ones([4, 5]), None);
    "conv2d": ops::conv2d(Tensor::ones([1, 3, 8, 8]), Tensor::ones([4, 2, 3, 3]), None, &ops::ConvOptions::new(2));
    "conv2d": {
        let bias = Tensor::ones([5]);
        ops::conv2d(Tensor::ones([1, 3, 8, 8]), Tensor::ones([4, 3, 3, 3]), Some(&bias), &ops::ConvOptions::new(2))
    };
    "rms_norm": ops::rms_norm(Tensor::ones([2, 3]), Tensor::ones([4]), -1, 1e-5);
    "layer_norm": ops::layer_norm(Tensor::ones([2, 3]), Some(&Tensor::ones([4])), None, -1, 1e-5);
    "group_norm": ops::group_norm(Tensor::ones([2, 4, 3]), 3, Tensor::ones([4]), Tensor::ones([4]), 1e-5);
    "instance_norm": ops::instance_norm(Tensor::ones([2, 4, 3]), Tensor::ones([3]), Tensor::ones([3]), 1e-5);
    "elu": ops::elu(tensor![true], 1.0);
    "selu": ops::selu(tensor![true]);
    "celu": ops::celu(tensor![true], 1.0);
    "mish": ops::mish(tensor![true]);
    "leaky_relu": ops::leaky_relu(tensor![true], 0.5);
    "relu6": ops::relu6(tensor![true]);
    "hsigmoid": ops::hsigmoid(tensor![true]);
    "hswish": ops::hswish(tensor![true]);
    "softsign": ops::softsign(tensor![true]);
    "addn": ops::addn(&[Tensor::ones([2]), Tensor::ones([3])]);
    "addcmul": ops::addcmul(Tensor::ones([2]), Tensor::ones([3]), Tensor::ones([2]), 1.0);
    "addcdiv": ops::addcdiv(Tensor::ones([2]), Tensor::ones([3]), Tensor::ones([2]), 1.0);
    "lerp": ops::lerp(Tensor::ones([2]), Tensor::ones([3]), 0.5);
    "logaddexp": ops::logaddexp(Tensor::ones([2]), Tensor::ones([3]));
    "isclose": ops::isclose(Tensor::ones([2]), Tensor::ones([3]), 1e-5, 1e-5, false);
    "outer": ops::outer(Tensor::ones([2, 2]), Tensor::ones([3]));
    "bmm": ops::bmm(Tensor::ones([2, 2, 3]), Tensor::ones([2, 4, 3]));
    "count_nonzero": ops::count_nonzero(Tensor::ones([2, 2]), [5]);
    "repeat": ops::repeat(Tensor::ones([2]), 2, 1);
    "roll": ops::roll(Tensor::ones([2]), &[1], [1]);
    "squeeze": ops::squeeze(Tensor::ones([2]), [0]);
    "expand_dims": ops::expand_dims(Tensor::ones([2]), [5]);
    "flatten": ops::flatten(Tensor::ones([2]), 5);
    "flip": ops::flip(Tensor::ones([2]), [5]);
    "tril": ops::tril(Tensor::ones([2]), 0);
    "triu": ops::triu(Tensor::ones([2]), 0);
    "diag": ops::diag(Tensor::ones([2, 2, 2]), 0);
    "masked_fill": ops::masked_fill(Tensor::ones([2]), tensor![true, true, true], 0.0);
    "masked_fill": ops::masked_fill(tensor![1, 2], tensor![true, true], 0.5);
    "masked_select": ops::masked_select(Tensor::ones([2]), tensor![true, true, true]);
    "einsum": ops::einsum("ij,jk->ik", &[Tensor::ones([2, 3]), Tensor::ones([4, 5])]);
    "unstack": ops::unstack(Tensor::ones([2]), 1).remove(0);
    "meshgrid": ops::meshgrid(&[Tensor::ones([2, 2])]).remove(0);
};

/// An error names the op that was called. The inner op follows.
#[test]
fn errors_name_the_function_that_was_called() {
    let mut wrong = Vec::new();
    for (i, (name, call)) in COMPOSED.iter().enumerate() {
        match catch(call) {
            Ok(result) => wrong.push(format!("{i} {name}: accepted, with {result}")),
            Err(error) if error.report().op.as_deref() == Some(name) => {}
            Err(error) => wrong.push(format!("{i} {name}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), COMPOSED.len(), wrong.join("\n"));
}
