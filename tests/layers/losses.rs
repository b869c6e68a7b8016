//! Tests losses.

use crate::oracle::{check, entry};
use ms::ops::Reduction;
use ms::prelude::*;

/// Compares a loss with a case. The operands with gradients come first.
macro_rules! loss {
    ($case:literal, $loss:expr, 2) => {
        check($case, $loss, |net, x, by| {
            let all: Vec<&Tensor> = x.iter().chain(by).collect();
            vec![net.call(all[0], all[1])]
        })
    };
    ($case:literal, $loss:expr, 3) => {
        check($case, $loss, |net, x, by| {
            let all: Vec<&Tensor> = x.iter().chain(by).collect();
            vec![net.call(all[0], all[1], all[2])]
        })
    };
}

#[test]
fn losses_are_those_of_pytorch() {
    let weight = |case: &str| entry(case, "state.weight");
    loss!("mse_loss", nn::MSELoss::new(), 2);
    loss!("l1_loss", nn::L1Loss::new().reduction(Reduction::Sum), 2);
    loss!("smooth_l1_loss", nn::SmoothL1Loss::new().beta(0.5), 2);
    loss!("huber_loss", nn::HuberLoss::new().delta(0.7).reduction(Reduction::None), 2);
    loss!("bce_loss", nn::BCELoss::new().weight(weight("bce_loss")), 2);
    let pos_weight = entry("bce_with_logits_loss", "state.pos_weight");
    let bce = nn::BCEWithLogitsLoss::new().weight(weight("bce_with_logits_loss")).pos_weight(pos_weight);
    loss!("bce_with_logits_loss", bce, 2);
    loss!("kl_div_loss", nn::KLDivLoss::new().reduction(Reduction::BatchMean), 2);
    loss!("poisson_nll_loss", nn::PoissonNLLLoss::new().full(true), 2);
    loss!("poisson_nll_loss_mean", nn::PoissonNLLLoss::new().log_input(false), 2);
    loss!("gaussian_nll_loss", nn::GaussianNLLLoss::new().full(true), 3);
    loss!("soft_margin_loss", nn::SoftMarginLoss::new(), 2);
    loss!("hinge_embedding_loss", nn::HingeEmbeddingLoss::new().margin(0.5), 2);
    loss!("cosine_embedding_loss", nn::CosineEmbeddingLoss::new().margin(0.1), 3);
    loss!("margin_ranking_loss", nn::MarginRankingLoss::new().margin(0.3), 3);
    loss!("triplet_margin_loss", nn::TripletMarginLoss::new().margin(0.8).swap(true), 3);
    loss!("triplet_margin_loss_p1", nn::TripletMarginLoss::new().p(1.0).reduction(Reduction::Sum), 3);
    let cross_entropy = nn::CrossEntropyLoss::new().weight(weight("cross_entropy_loss"));
    loss!("cross_entropy_loss", cross_entropy.ignore_index(0).label_smoothing(0.1), 2);
    loss!("nll_loss", nn::NLLLoss::new().weight(weight("nll_loss")), 2);
    let soft = nn::MultiLabelSoftMarginLoss::new().weight(weight("multi_label_soft_margin_loss"));
    loss!("multi_label_soft_margin_loss", soft, 2);
    let multi = nn::MultiMarginLoss::new().p(2.0).margin(0.7).weight(weight("multi_margin_loss"));
    loss!("multi_margin_loss", multi, 2);
    loss!("multi_label_margin_loss", nn::MultiLabelMarginLoss::new(), 2);
}

#[test]
fn losses_of_sequences_are_those_of_pytorch() {
    let ctc = |net: &nn::CTCLoss, x: &[Tensor], by: &[Tensor]| {
        vec![net.call(&ops::log_softmax(&x[0], -1), &by[0], &by[1], &by[2])]
    };
    check("ctc_loss", nn::CTCLoss::new(), ctc);
    let none = nn::CTCLoss::new().blank(3).reduction(Reduction::None).zero_infinity(true);
    check("ctc_loss_zero_infinity", none, ctc);
    let run = || nn::CTCLoss::new().call(&Tensor::zeros([1, 1, 2]), &tensor![[1, 1]], &tensor![1], &tensor![2]);
    assert_eq!(run().item::<f32>(), f32::INFINITY, "two labels need more than one step");
}

#[test]
fn losses_of_mindspore() {
    // The expected values come from the formulas.
    let (x, target) = (tensor![[2.0, 0.0], [0.0, 1.0]], tensor![0, 0]);
    let p = [1.0 / (1.0 + (-2f64).exp()), 1.0 / (1.0 + 1f64.exp())];
    let want: f64 = p.iter().map(|p| -(1.0 - p).powi(3) * p.ln()).sum::<f64>() / 2.0;
    let got = nn::FocalLoss::new().gamma(3.0).call(&x, &target).item::<f32>();
    assert!((got as f64 - want).abs() < 1e-6, "{got}, not {want}");
    let dice = nn::DiceLoss::default().call(&tensor![0.5, 0.5, 1.0], &tensor![1.0, 0.0, 1.0]).item::<f32>();
    assert!((dice - (1.0 - 3.0 / 3.50001)).abs() < 1e-6, "{dice}");
    let (logits, target) = (tensor![[[0.0, 1.0], [0.5, -1.0]]], tensor![[[1.0, 0.0], [0.0, 1.0]]]);
    let p = [[0.0f64, 1.0], [0.5, -1.0]].map(|row| row.map(f64::exp));
    let total = [0, 1].map(|at| p[0][at] + p[1][at]);
    let of_class = |class: usize| {
        let q = [0, 1].map(|at| p[class][at] / total[at]);
        1.0 - 2.0 * q[class] / (q[0] * q[0] + q[1] * q[1] + 1.0 + 1e-3)
    };
    let classes = nn::MultiClassDiceLoss::new().smooth(1e-3);
    let weighted = classes.clone().weight(tensor![3.0, 0.5]);
    let mean = |a: f64, b: f64| (a * of_class(0) + b * of_class(1)) / 2.0;
    for (loss, want) in
        [(classes, mean(1.0, 1.0)), (weighted.clone(), mean(3.0, 0.5)), (weighted.ignore_index(0), mean(0.0, 0.5))]
    {
        let compiled = ms::jit(|loss: &nn::MultiClassDiceLoss, x: &Tensor, y: &Tensor| loss.call(x, y));
        for got in [loss.call(&logits, &target), compiled(&loss, &logits, &target)] {
            assert!((got.item::<f32>() as f64 - want).abs() < 1e-6, "{got}, not {want}");
        }
    }
    let rmse = nn::RMSELoss.call(&tensor![1.0, 2.0], &tensor![4.0, 2.0]).item::<f32>();
    assert!((rmse - 4.5f32.sqrt()).abs() < 1e-6, "{rmse}");
}

#[test]
fn losses_do_not_broadcast() {
    let (x, y) = (Tensor::ones([3, 1]), Tensor::ones([3]));
    let refused = |run: &dyn Fn() -> Tensor| ms::catch(run).expect_err("shapes differ").code();
    assert_eq!(refused(&|| nn::MSELoss::new().call(&x, &y)), ms::Code::Shape);
    assert_eq!(refused(&|| nn::HingeEmbeddingLoss::new().call(&x, &y)), ms::Code::Shape);
    assert_eq!(refused(&|| nn::TripletMarginLoss::new().call(&x, &x, &y)), ms::Code::Shape);
}

/// Padding after the labels of a sequence is ignored: it may be -1, or no class at all.
#[test]
fn ctc_ignores_what_pads_labels() {
    let logs = ops::log_softmax(ops::arange(24.0).reshape([4, 2, 3]).sin(), -1);
    let run = |padding: i64, jit: bool| {
        let context = ms::Context { jit, ..ms::context() };
        let labels = tensor![[1, 2], [2, padding]];
        let loss =
            |logs: &Tensor, labels: &Tensor| nn::CTCLoss::new().call(logs, labels, &tensor![4, 3], &tensor![2, 1]);
        ms::with_context(context, || ms::jit(loss)(&logs, &labels).item::<f32>())
    };
    let wanted = run(0, false);
    assert!(wanted.is_finite() && wanted > 0.0, "{wanted}");
    for padding in [-1, 2, 7] {
        for got in [run(padding, false), run(padding, true)] {
            assert!((got - wanted).abs() < 1e-5, "{padding}: {got}, not {wanted}");
        }
    }
}
