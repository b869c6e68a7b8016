//! Neural-network layers: cells with parameters, written with the public API.

mod activation;
mod attention;
mod batch_norm;
mod cell_dict;
mod cell_list;
mod compute;
mod conv;
mod dense;
mod dropout;
mod embedding;
mod flatten;
mod group_norm;
pub mod init;
mod layer_norm;
mod loss;
mod pipeline;
mod pool;
mod recurrent;
mod residual;
mod sequential;
mod summary;
mod windows;

pub use activation::{
    CELU, ELU, GELU, HSigmoid, HSwish, LeakyReLU, LogSigmoid, LogSoftmax, Mish, PReLU, ReLU, ReLU6, SELU, SiLU,
    Sigmoid, Softmax, Softplus, Softsign, Tanh,
};
pub use attention::{
    AttentionMask, DecoderCache, DecoderMasks, KeyValueCache, MultiheadAttention, RotaryEmbedding, Transformer,
    TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer,
};
pub use batch_norm::BatchNorm;
pub use cell_dict::CellDict;
pub use cell_list::{CellList, Selected};
pub use conv::{Conv, Conv1d, Conv1dTranspose, Conv2d, Conv2dTranspose, Conv3d, Conv3dTranspose, ConvTranspose};
pub use dense::{BiDense, Dense};
pub use dropout::{ChannelDropout, Dropout, Dropout1d, Dropout2d, Dropout3d};
pub use embedding::Embedding;
pub use flatten::Flatten;
pub use group_norm::{GroupNorm, InstanceNorm};
pub use layer_norm::{LayerNorm, RMSNorm};
pub use loss::{
    BCELoss, BCEWithLogitsLoss, CTCLoss, CosineEmbeddingLoss, CrossEntropyLoss, DiceLoss, FocalLoss, GaussianNLLLoss,
    HingeEmbeddingLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss, MarginRankingLoss, MultiClassDiceLoss,
    MultiLabelMarginLoss, MultiLabelSoftMarginLoss, MultiMarginLoss, NLLLoss, PoissonNLLLoss, RMSELoss, SmoothL1Loss,
    SoftMarginLoss, TripletMarginLoss,
};
pub use pipeline::PipelineCell;
pub use pool::{
    AdaptiveAvgPool, AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool, AdaptiveMaxPool1d,
    AdaptiveMaxPool2d, AdaptiveMaxPool3d, AvgPool, AvgPool1d, AvgPool2d, AvgPool3d, MaxPool, MaxPool1d, MaxPool2d,
    MaxPool3d,
};
pub use recurrent::{GRU, GRUCell, LSTM, LSTMCell, Nonlinearity, RNN, RNNCell};
pub use residual::Residual;
pub use sequential::Sequential;
pub use summary::{Summary, SummaryRow, summary};
pub use windows::{IntoPadding, PadMode, PaddingMode};

#[doc(inline)]
pub use crate::sequential;
