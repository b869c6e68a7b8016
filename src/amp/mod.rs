//! Mixed precision: layers in f16 or bf16, loss scaling and all-finite checks.
//!
//! ```
//! use ms::amp::{DynamicLossScaler, Level, auto_mixed_precision};
//! use ms::prelude::*;
//! let net = nn::sequential![nn::Dense::new(3, 8), nn::LayerNorm::new(8), nn::ReLU, nn::Dense::new(8, 1)];
//! auto_mixed_precision(&net, Level::O2, DType::F16);
//! let opt = Adam::new(1e-3).master_weights().loss_scale(DynamicLossScaler::new(65536.0));
//! let batch = (Tensor::ones([4, 3]), Tensor::zeros([4, 1]));
//! let loss = opt.step(&net, &batch, |net, (x, y)| ops::mse_loss(&net.call(x), y));
//! assert!(loss.item::<f32>().is_finite());
//! ```

mod level;
mod loss_scaled;
mod loss_scaler;

pub use level::{Level, MixedPrecision, auto_mixed_precision};
pub use loss_scaled::LossScaled;
pub use loss_scaler::{DynamicLossScaler, LossScaler, StaticLossScaler};
