//! Ops of neural networks: activations, softmax, normalisations, losses, dropout, embedding, attention and recurrent
//! layers.

mod activation;
mod attention;
mod cross_entropy;
mod dense;
mod dropout;
mod embedding;
mod loss;
mod normalize;
mod recurrent;
mod softmax;

pub use activation::{
    GELU, GELU_TANH, celu, elu, gelu, gelu_tanh, hsigmoid, hswish, leaky_relu, logsigmoid, mish, relu6, selu, silu,
    softplus, softsign,
};
pub use attention::{
    AttentionOptions, BLOCKED_ATTENTION, BLOCKED_ATTENTION_GRAD, BlockedAttentionAttrs, SCALED_DOT_PRODUCT_ATTENTION,
    attention_weights, scaled_dot_product_attention,
};
pub use cross_entropy::{CROSS_ENTROPY, CrossEntropy, NLL_LOSS, cross_entropy, nll_loss};
pub use dense::{DENSE, dense};
pub use dropout::dropout;
pub use embedding::{EMBEDDING, embedding};
pub use loss::{
    Reduction, bce_with_logits, binary_cross_entropy, cosine_embedding_loss, cosine_similarity, huber_loss, kl_div,
    l1_loss, mse_loss, smooth_l1_loss,
};
pub use normalize::{
    BATCH_NORM, BatchStatistics, GROUP_NORM, INSTANCE_NORM, LAYER_NORM, RMS_NORM, batch_norm, group_norm,
    instance_norm, layer_norm, rms_norm,
};
pub use recurrent::{GRU_CELL, LSTM_CELL, gru, lstm};
pub use softmax::{LOG_SOFTMAX, SOFTMAX, log_softmax, logsumexp, softmax};
