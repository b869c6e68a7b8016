//! The phrase book: what a line of PyTorch is here. Each row of `docs/from_pytorch.md` is run, and compared with
//! what PyTorch computes (`data/phrases.py` writes `data/phrases.json`).
//!
//! `MS_BLESS=1` updates the tables of the page.

use ms::prelude::*;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// A line of PyTorch, the same here, and its results.
struct Row<'a> {
    theirs: &'static str,
    ours: &'static str,
    run: Box<dyn Fn() -> Vec<Tensor> + 'a>,
}

/// What a row computes.
trait Results {
    fn results(self) -> Vec<Tensor>;
}

impl Results for Tensor {
    fn results(self) -> Vec<Tensor> {
        vec![self]
    }
}

impl Results for (Tensor, Tensor) {
    fn results(self) -> Vec<Tensor> {
        vec![self.0, self.1]
    }
}

impl Results for Vec<Tensor> {
    fn results(self) -> Vec<Tensor> {
        self
    }
}

/// The tables of the page, by title.
macro_rules! tables {
    ($($title:literal: { $($theirs:literal => $ours:expr;)* })*) => {
        [$((
            $title,
            vec![$(Row { theirs: $theirs, ours: stringify!($ours), run: Box::new(|| $ours.results()) },)*],
        ),)*]
    };
}

/// Runs `visit` on the tables. The operands are those of `data/phrases.py`.
fn with_tables(visit: impl FnOnce(&[(&str, Vec<Row<'_>>)])) {
    let x = tensor![[1., 2., 3.], [4., 5., 6.]];
    let y = tensor![[0.5, -1., 2.], [3., 0.25, -2.]];
    let v = tensor![1., -2., 3.];
    let w = tensor![[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [-0.1, -0.2, -0.3], [0.7, 0., -0.7]];
    let b = tensor![0.5, -0.5, 0.25, 0.];
    let i = tensor![2, 0, 1];
    let c = tensor![2, 0];
    let p = tensor![[0.1, 0.7, 0.2], [0.6, 0.3, 0.9]];
    let m = ops::arange_of(0, 24, 1, DType::F32).reshape([2, 3, 4]) / 8.;
    let z = ops::arange_of(0, 32, 1, DType::F32).reshape([1, 2, 4, 4]) / 16.;
    let k = ops::arange_of(0, 54, 1, DType::F32).reshape([3, 2, 3, 3]) / 27. - 1.;
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
            "F.cross_entropy(y, c, label_smoothing=0.1)" => nn::CrossEntropyLoss::new().label_smoothing(0.1).call(&y, &c);
            "F.nll_loss(F.log_softmax(y, 1), c)" => ops::nll_loss(ops::log_softmax(&y, 1), &c);
            "F.binary_cross_entropy(p, (x > 2).float())" => nn::BCELoss::new().call(&p, &x.gt(2.).cast(DType::F32));
        }
    });
}

#[test]
fn rows_compute_what_pytorch_computes() {
    let expected: Value = serde_json::from_str(include_str!("data/phrases.json")).expect("JSON");
    with_tables(|tables| {
        for row in tables.iter().flat_map(|it| &it.1) {
            let results = (row.run)();
            let all = expected[row.theirs].as_array().unwrap_or_else(|| panic!("no results of `{}`", row.theirs));
            assert_eq!(results.len(), all.len(), "results of `{}`", row.ours);
            for (result, expected) in results.iter().zip(all) {
                let numbers = |name: &str| expected[name].as_array().expect("a list").iter();
                let shape: Vec<u64> = numbers("shape").map(|it| it.as_u64().expect("a size")).collect();
                assert_eq!(result.shape().iter().map(|&it| it as u64).collect::<Vec<_>>(), shape, "`{}`", row.ours);
                let ours = result.cast(DType::F64).to_vec::<f64>();
                for (ours, theirs) in ours.iter().zip(numbers("elements").map(|it| it.as_f64().expect("a number"))) {
                    let near = (ours - theirs).abs() <= 1e-6 + 2e-6 * theirs.abs();
                    assert!(near || ours.is_nan() && theirs.is_nan(), "`{}` has {ours}, not {theirs}", row.ours);
                }
            }
        }
    });
}

/// The page with the tables of the rows.
fn page(text: &str, tables: &[(&str, Vec<Row<'_>>)]) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        writeln!(out, "{line}").expect("a string has room");
        let Some((_, rows)) = tables.iter().find(|it| line == format!("## {}", it.0)) else { continue };
        while lines.peek().is_some_and(|it| !it.starts_with('#')) {
            lines.next();
        }
        writeln!(out, "\n| PyTorch | here |\n|---|---|").expect("a string has room");
        for row in rows {
            let cell = |code: &str| code.replace('|', "\\|");
            writeln!(out, "| `{}` | `{}` |", cell(row.theirs), cell(row.ours)).expect("a string has room");
        }
        if lines.peek().is_some() {
            out.push('\n');
        }
    }
    out
}

#[test]
fn the_page_has_the_rows() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/from_pytorch.md");
    let text = std::fs::read_to_string(&path).expect("the page");
    with_tables(|tables| {
        for (title, _) in tables {
            assert!(text.lines().any(|it| it == format!("## {title}")), "the page has the heading `{title}`");
        }
        let page = page(&text, tables);
        if std::env::var_os("MS_BLESS").is_some() {
            std::fs::write(&path, page).expect("the page is writable");
        } else {
            assert!(page == text, "docs/from_pytorch.md has other rows; MS_BLESS=1 updates it");
        }
    });
}
