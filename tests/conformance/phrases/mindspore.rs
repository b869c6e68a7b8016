//! Defines the rows of `docs/from_mindspore.md`.

use super::{Operands, Results, Row, Tables, tables};
use ms::prelude::*;

/// Runs `visit` on the tables of the page.
pub fn with_tables(visit: &dyn Fn(&Tables<'_>)) {
    let Operands { x, y, v, w, b, i, c, p, m, z, k } = Operands::new();
    visit(&tables! {
        "Making tensors": {
            "Tensor([[1., 2.], [3., 4.]], ms.float32)" => tensor![[1., 2.], [3., 4.]];
            "ops.zeros((2, 3))" => Tensor::zeros([2, 3]);
            "ops.ones((2, 3))" => Tensor::ones([2, 3]);
            "ops.full((2, 3), 7.)" => Tensor::full([2, 3], 7.);
            "ops.zeros_like(x)" => ops::zeros_like(&x);
            "ops.arange(5)" => ops::arange(5);
            "ops.arange(2, 10, 3)" => ops::arange_of(2, 10, 3, DType::I64);
            "ops.linspace(0., 1., 5)" => ops::linspace(0., 1., 5);
            "ops.eye(3)" => ops::eye(3);
            "x.astype(ms.float64)" => x.cast(DType::F64);
            "ops.cast(x, ms.int64)" => x.cast(DType::I64);
        }
        "Shapes": {
            "x.reshape(3, 2)" => x.reshape([3, 2]);
            "x.reshape(-1)" => x.reshape([-1]);
            "ops.flatten(m, start_dim=1)" => m.flatten(1);
            "x.T" => x.t();
            "m.swapaxes(0, 2)" => m.transpose(0, 2);
            "ops.transpose(m, (2, 0, 1))" => m.permute([2, 0, 1]);
            "ops.movedim(m, 0, -1)" => ops::move_axis(&m, 0, -1);
            "ops.expand_dims(x, 0)" => x.expand_dims(0);
            "ops.squeeze(x[None], 0)" => x.expand_dims(0).squeeze(0);
            "ops.broadcast_to(v, (2, 3))" => v.broadcast_to([2, 3]);
            "ops.tile(x, (2, 1))" => x.tile(&[2, 1]);
            "ops.repeat_interleave(x, 2, 1)" => x.repeat(2, 1);
            "ops.flip(x, (1,))" => x.flip(1);
            "ops.pad(x, [1, 2])" => ops::pad(&x, &[(0, 0), (1, 2)], ops::PadMode::Constant(0.0.into()));
            "ops.concat((x, y), 1)" => ops::concat(&[&x, &y], 1);
            "ops.stack((x, y), 0)" => ops::stack(&[&x, &y], 0);
            "ops.split(x, [1, 2], axis=1)" => ops::split_sizes(&x, &[1, 2], 1);
            "ops.chunk(m, 2, axis=2)" => m.split(2, 2);
            "ops.unstack(x, 0)" => ops::unstack(&x, 0);
            "ops.tril(x)" => x.tril(0);
            "ops.diag(v)" => v.diag(0);
        }
        "Indices": {
            "x[0]" => x.at(0);
            "x[0, 2]" => x.at((0, 2));
            "x[:, 1:]" => x.i((.., 1..));
            "m[..., 0]" => m.i((Ellipsis, 0));
            "m[:, ::2]" => m.i((.., (..).step(2)));
            "ops.gather(x, i, 1)" => x.i((.., &i));
            "ops.gather_elements(x, 1, c.expand_dims(1))" => x.take_along_axis(c.expand_dims(1), 1);
            "ops.masked_select(x, x > 2)" => x.masked_select(x.gt(2.));
            "ops.masked_fill(x, x > 2, 0.)" => x.masked_fill(x.gt(2.), 0.);
            "ops.select(x > 2, x, y)" => ops::select(x.gt(2.), &x, &y);
            "ops.one_hot(c, 3).float()" => ops::one_hot(&c, 3);
            "ops.nonzero(x > 2)" => x.gt(2.).nonzero();
        }
        "Elements": {
            "x * 2 + y" => &x * 2. + &y;
            "ops.square(x)" => x.square();
            "ops.pow(x, y)" => x.pow(&y);
            "x // 2" => x.floor_div(2.);
            "x % 2" => x.remainder(2.);
            "ops.exp(x)" => x.exp();
            "ops.log(x)" => x.log();
            "ops.sqrt(x)" => x.sqrt();
            "ops.rsqrt(x)" => x.rsqrt();
            "ops.abs(y)" => y.abs();
            "ops.sign(y)" => y.sign();
            "ops.clamp(y, -1., 1.)" => y.clamp(-1., 1.);
            "ops.maximum(x, y)" => x.maximum(&y);
            "ops.equal(x, y)" => x.eq(&y);
            "ops.logical_and(x > 1, y < 0)" => x.gt(1.).logical_and(y.lt(0.));
            "ops.isnan(x)" => x.isnan();
            "ops.lerp(x, y, 0.25)" => ops::lerp(&x, &y, 0.25);
        }
        "Reductions": {
            "x.sum()" => x.sum(());
            "ops.sum(x, 1)" => x.sum(1);
            "ops.mean(x, 0, keep_dims=True)" => x.mean(keepdims(0));
            "ops.sum(m, (0, 2))" => m.sum([0, 2]);
            "ops.amax(x, 1)" => x.max(1);
            "ops.argmax(x, 1)" => x.argmax(1);
            "ops.std(x, 1, ddof=1)" => x.std(1, 1);
            "ops.var(x, 1, ddof=0)" => x.var(1, 0);
            "ops.norm(x)" => x.norm(2., ());
            "ops.prod(x, 1)" => x.prod(1);
            "ops.any(x > 2, 1)" => x.gt(2.).any(1);
            "ops.all(x > 2, 1)" => x.gt(2.).all(1);
            "ops.logsumexp(x, 1)" => x.logsumexp(1);
            "ops.cumsum(x, 1)" => x.cumsum(1);
            "ops.sort(y, 1)" => y.sort(1, false);
            "ops.argsort(y, 1, True)" => y.argsort(1, true);
            "ops.topk(y, 2)" => y.topk(2, -1, true);
            "ops.count_nonzero(ops.cast(x > 2, ms.int32))" => ops::count_nonzero(x.gt(2.), ());
        }
        "Products": {
            "ops.matmul(x, y.T)" => x.matmul(y.t());
            "ops.bmm(m, m.swapaxes(1, 2))" => ops::bmm(&m, m.transpose(1, 2));
            "ops.outer(v, b)" => ops::outer(&v, &b);
            "ops.dense(x, w, b)" => ops::dense(&x, &w, Some(&b));
        }
        "Functions of networks": {
            "ops.relu(y)" => y.relu();
            "ops.leaky_relu(y, 0.1)" => ops::leaky_relu(&y, 0.1);
            "ops.gelu(y, approximate='none')" => ops::gelu(&y);
            "ops.gelu(y, approximate='tanh')" => ops::gelu_tanh(&y);
            "ops.silu(y)" => ops::silu(&y);
            "ops.elu(y)" => ops::elu(&y, 1.);
            "ops.softplus(y)" => ops::softplus(&y, 1., 20.);
            "ops.hardswish(y)" => ops::hswish(&y);
            "ops.sigmoid(y)" => y.sigmoid();
            "ops.tanh(y)" => y.tanh();
            "ops.softmax(y, -1)" => ops::softmax(&y, -1);
            "ops.log_softmax(y, -1)" => ops::log_softmax(&y, -1);
            "nn.LayerNorm((3,), epsilon=1e-5)(x)" => nn::LayerNorm::new(3).call(&x);
            "ops.conv2d(z, k, pad_mode='pad', padding=1)" => ops::conv2d(&z, &k, None, &ops::ConvOptions::new(2).padding(1));
            "ops.max_pool2d(z, 2)" => ops::max_pool2d(&z, 2);
            "ops.avg_pool2d(z, 2, 2)" => ops::avg_pool2d(&z, 2);
            "ops.adaptive_avg_pool2d(z, 1)" => ops::adaptive_avg_pool2d(&z, 1);
            "ops.cosine_similarity(x, y, 1, 1e-8)" => ops::cosine_similarity(&x, &y, 1, 1e-8);
        }
        "Losses": {
            "ops.mse_loss(x, y)" => ops::mse_loss(&x, &y);
            "ops.l1_loss(x, y)" => ops::l1_loss(&x, &y);
            "ops.huber_loss(x, y)" => ops::huber_loss(&x, &y, 1., ops::Reduction::Mean);
            "ops.cross_entropy(y, c)" => ops::cross_entropy(&y, &c);
            "ops.cross_entropy(y, c, label_smoothing=0.1)" => nn::CrossEntropyLoss::new().label_smoothing(0.1).call(&y, &c);
            "ops.nll_loss(ops.log_softmax(y, 1), c)" => ops::nll_loss(ops::log_softmax(&y, 1), &c);
            "nn.BCELoss()(p, ops.cast(x > 2, ms.float32))" => nn::BCELoss::new().call(&p, &x.gt(2.).cast(DType::F32));
        }
    });
}
