//! Defines the rows of `docs/from_pytorch.md`.

use super::{Operands, Results, Row, Tables, tables};
use ms::prelude::*;

/// Runs `visit` on the tables of the page.
pub fn with_tables(visit: &dyn Fn(&Tables<'_>)) {
    let Operands { x, y, v, w, b, i, c, p, m, z, k } = Operands::new();
    visit(&tables! {
        "Making tensors": {
            "torch.tensor([[1., 2.], [3., 4.]])" => tensor![[1., 2.], [3., 4.]];
            "torch.zeros(2, 3)" => Tensor::zeros([2, 3]);
            "torch.ones(2, 3)" => Tensor::ones([2, 3]);
            "torch.full((2, 3), 7.)" => Tensor::full([2, 3], 7.);
            "torch.zeros_like(x)" => ops::zeros_like(&x);
            "torch.arange(5)" => ops::arange(5);
            "torch.arange(2, 10, 3)" => ops::arange_of(2, 10, 3, DType::I64);
            "torch.linspace(0, 1, 5)" => ops::linspace(0., 1., 5);
            "torch.eye(3)" => ops::eye(3);
            "x.to(torch.float64)" => x.cast(DType::F64);
            "x.long()" => x.cast(DType::I64);
        }
        "Shapes": {
            "x.reshape(3, 2)" => x.reshape([3, 2]);
            "x.reshape(-1)" => x.reshape([-1]);
            "m.flatten(1)" => m.flatten(1);
            "x.T" => x.t();
            "m.transpose(0, 2)" => m.transpose(0, 2);
            "m.permute(2, 0, 1)" => m.permute([2, 0, 1]);
            "m.movedim(0, -1)" => ops::move_axis(&m, 0, -1);
            "x.unsqueeze(0)" => x.expand_dims(0);
            "x[None].squeeze(0)" => x.expand_dims(0).squeeze(0);
            "v.expand(2, 3)" => v.broadcast_to([2, 3]);
            "x.repeat(2, 1)" => x.tile(&[2, 1]);
            "x.repeat_interleave(2, 1)" => x.repeat(2, 1);
            "torch.flip(x, [1])" => x.flip(1);
            "torch.roll(x, 1, 1)" => x.roll(&[1], 1);
            "F.pad(x, (1, 2))" => ops::pad(&x, &[(0, 0), (1, 2)], ops::PadMode::Constant(0.0.into()));
            "torch.cat([x, y], 1)" => ops::concat(&[&x, &y], 1);
            "torch.stack([x, y])" => ops::stack(&[&x, &y], 0);
            "x.split([1, 2], 1)" => ops::split_sizes(&x, &[1, 2], 1);
            "m.chunk(2, 2)" => m.split(2, 2);
            "x.unbind(0)" => ops::unstack(&x, 0);
            "torch.tril(x)" => x.tril(0);
            "torch.diag(v)" => v.diag(0);
        }
        "Indices": {
            "x[0]" => x.at(0);
            "x[0, 2]" => x.at((0, 2));
            "x[:, 1:]" => x.i((.., 1..));
            "x[:, -1:]" => x.i((.., -1..));
            "m[..., 0]" => m.i((Ellipsis, 0));
            "m[:, ::2]" => m.i((.., (..).step(2)));
            "v[i]" => v.at(&i);
            "x[:, i]" => x.i((.., &i));
            "x.gather(1, c[:, None])" => x.take_along_axis(c.expand_dims(1), 1);
            "x[x > 2]" => x.masked_select(x.gt(2.));
            "x.masked_fill(x > 2, 0.)" => x.masked_fill(x.gt(2.), 0.);
            "torch.where(x > 2, x, y)" => ops::select(x.gt(2.), &x, &y);
            "x.index_add(1, i, y)" => x.index_add(&i, &y, 1);
            "F.one_hot(c, 3).float()" => ops::one_hot(&c, 3);
            "torch.nonzero(x > 2)" => x.gt(2.).nonzero();
        }
        "Elements": {
            "x * 2 + y" => &x * 2. + &y;
            "x / y" => &x / &y;
            "-x" => -&x;
            "x ** 2" => x.square();
            "x ** y" => x.pow(&y);
            "x // 2" => x.floor_div(2.);
            "x % 2" => x.remainder(2.);
            "x.exp()" => x.exp();
            "x.log()" => x.log();
            "x.sqrt()" => x.sqrt();
            "x.rsqrt()" => x.rsqrt();
            "y.abs()" => y.abs();
            "y.sign()" => y.sign();
            "y.clamp(-1, 1)" => y.clamp(-1., 1.);
            "y.clamp(min=0)" => ops::clamp_min(&y, 0.);
            "torch.maximum(x, y)" => x.maximum(&y);
            "x == y" => x.eq(&y);
            "(x > 1) & (y < 0)" => x.gt(1.).logical_and(y.lt(0.));
            "torch.isnan(x)" => x.isnan();
            "torch.lerp(x, y, 0.25)" => ops::lerp(&x, &y, 0.25);
        }
        "Reductions": {
            "x.sum()" => x.sum(());
            "x.sum(1)" => x.sum(1);
            "x.mean(0, keepdim=True)" => x.mean(keepdims(0));
            "m.sum((0, 2))" => m.sum([0, 2]);
            "x.amax(1)" => x.max(1);
            "x.argmax(1)" => x.argmax(1);
            "x.std(1)" => x.std(1, 1);
            "x.var(1, unbiased=False)" => x.var(1, 0);
            "x.norm()" => x.norm(2., ());
            "x.prod(1)" => x.prod(1);
            "(x > 2).any(1)" => x.gt(2.).any(1);
            "(x > 2).all(1)" => x.gt(2.).all(1);
            "x.logsumexp(1)" => x.logsumexp(1);
            "x.cumsum(1)" => x.cumsum(1);
            "y.sort(1)" => y.sort(1, false);
            "y.argsort(1, descending=True)" => y.argsort(1, true);
            "y.topk(2, 1)" => y.topk(2, 1, true);
            "torch.count_nonzero(x > 2)" => ops::count_nonzero(x.gt(2.), ());
        }
        "Products": {
            "x @ y.T" => x.matmul(y.t());
            "x @ v" => x.matmul(&v);
            "torch.bmm(m, m.transpose(1, 2))" => ops::bmm(&m, m.transpose(1, 2));
            "torch.outer(v, b)" => ops::outer(&v, &b);
            "torch.einsum('ij,kj->ik', x, w)" => ops::einsum("ij,kj->ik", &[&x, &w]);
            "F.linear(x, w, b)" => ops::dense(&x, &w, Some(&b));
        }
        "Functions of networks": {
            "F.relu(y)" => y.relu();
            "F.leaky_relu(y, 0.1)" => ops::leaky_relu(&y, 0.1);
            "F.gelu(y)" => ops::gelu(&y);
            "F.gelu(y, approximate='tanh')" => ops::gelu_tanh(&y);
            "F.silu(y)" => ops::silu(&y);
            "F.elu(y)" => ops::elu(&y, 1.);
            "F.softplus(y)" => ops::softplus(&y, 1., 20.);
            "F.hardswish(y)" => ops::hswish(&y);
            "torch.sigmoid(y)" => y.sigmoid();
            "torch.tanh(y)" => y.tanh();
            "F.softmax(y, -1)" => ops::softmax(&y, -1);
            "F.log_softmax(y, -1)" => ops::log_softmax(&y, -1);
            "F.layer_norm(x, (3,))" => ops::layer_norm(&x, None, None, -1, 1e-5);
            "F.embedding(c, w)" => ops::embedding(&c, &w, None);
            "F.conv2d(z, k, padding=1)" => ops::conv2d(&z, &k, None, &ops::ConvOptions::new(2).padding(1));
            "F.max_pool2d(z, 2)" => ops::max_pool2d(&z, 2);
            "F.avg_pool2d(z, 2)" => ops::avg_pool2d(&z, 2);
            "F.adaptive_avg_pool2d(z, 1)" => ops::adaptive_avg_pool2d(&z, 1);
            "F.cosine_similarity(x, y)" => ops::cosine_similarity(&x, &y, 1, 1e-8);
        }
        "Losses": {
            "F.mse_loss(x, y)" => ops::mse_loss(&x, &y);
            "F.l1_loss(x, y)" => ops::l1_loss(&x, &y);
            "F.huber_loss(x, y)" => ops::huber_loss(&x, &y, 1., ops::Reduction::Mean);
            "F.cross_entropy(y, c)" => ops::cross_entropy(&y, &c);
            "F.cross_entropy(y, c, ignore_index=-100)" => nn::CrossEntropyLoss::new().ignore_index(-100).call(&y, &c);
            "F.cross_entropy(y, c, label_smoothing=0.1)" => nn::CrossEntropyLoss::new().label_smoothing(0.1).call(&y, &c);
            "F.nll_loss(F.log_softmax(y, 1), c)" => ops::nll_loss(ops::log_softmax(&y, 1), &c);
            "F.binary_cross_entropy(p, (x > 2).float())" => nn::BCELoss::new().call(&p, &x.gt(2.).cast(DType::F32));
        }
    });
}
