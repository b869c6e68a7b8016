//! Compositions that networks are made of: activations, softmax, losses, dropout, embedding,
//! attention, recurrence.

mod activation;
mod attention;
mod dropout;
mod embedding;
mod loss;
mod recurrent;
mod softmax;

pub use activation::{
    elu, gelu, gelu_tanh, hsigmoid, hswish, leaky_relu, logsigmoid, mish, relu6, silu, softplus, softsign,
};
pub use attention::{AttentionOptions, scaled_dot_product_attention};
pub use dropout::dropout;
pub use embedding::embedding;
pub use loss::{CrossEntropy, Reduction, cross_entropy, l1_loss, mse_loss};
pub use recurrent::{gru, lstm};
pub use softmax::{log_softmax, logsumexp, softmax};
