//! Tests schedules of learning rates. `pytorch.py` prints the expected numbers of PyTorch 2.15.0.

use super::steps::{batch, both, loss, net, update, weights};
use ms::optim::{ParameterGroups, schedule_fn};
use ms::prelude::*;
use ms::{context, with_context};

#[test]
fn schedules_are_those_of_pytorch() {
    #[jit]
    fn compiled<S: Schedule>(schedule: &S, step: &Tensor) -> Tensor {
        schedule.rate(&Tensor::from(0.1f64), step)
    }
    fn check<S: Schedule>(name: &str, schedule: S, want: [f64; 12]) {
        for (step, want) in want.into_iter().enumerate() {
            let in_graph = compiled(&schedule, &Tensor::from(step as f64)).item::<f64>();
            for got in [schedule.at(0.1, step as u64), in_graph] {
                assert!((got - want).abs() < 1e-15, "{name}, step {step}: {got}, not {want}");
            }
        }
    }
    check(
        "StepLR(4, 0.5)",
        StepDecay::new(4, 0.5),
        [0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.025],
    );
    check(
        "MultiStepLR([2, 3, 8], 0.1)",
        MultiStepDecay::new([2, 3, 8], 0.1),
        [
            0.1,
            0.1,
            0.010000000000000002,
            0.0010000000000000002,
            0.0010000000000000002,
            0.0010000000000000002,
            0.0010000000000000002,
            0.0010000000000000002,
            0.00010000000000000003,
            0.00010000000000000003,
            0.00010000000000000003,
            0.00010000000000000003,
        ],
    );
    check(
        "ExponentialLR(0.8)",
        ExponentialDecay::new(0.8),
        [
            0.1,
            0.08000000000000002,
            0.06400000000000002,
            0.051200000000000016,
            0.04096000000000002,
            0.03276800000000001,
            0.026214400000000013,
            0.02097152000000001,
            0.016777216000000008,
            0.013421772800000007,
            0.010737418240000006,
            0.008589934592000005,
        ],
    );
    check(
        "CosineAnnealingLR(11, eta_min=0.02)",
        CosineDecay::new(11).min(0.02),
        [
            0.1,
            0.0983797189445799,
            0.09365014131324725,
            0.08619442935781142,
            0.07661660052007548,
            0.0656925935309314,
            0.05430740646906859,
            0.04338339947992455,
            0.0338055706421886,
            0.026349858686752756,
            0.021620281055420104,
            0.02,
        ],
    );
    check(
        "PolynomialLR(8, power=1.5)",
        PolynomialDecay::new(8, 1.5),
        [
            0.1,
            0.08184875533567998,
            0.0649519052838329,
            0.04941058844013094,
            0.03535533905932739,
            0.022963966338592302,
            0.012500000000000004,
            0.004419417382415924,
            0.0,
            0.0,
            0.0,
            0.0,
        ],
    );
    check(
        "OneCycleLR(0.1, total_steps=12)",
        OneCycle::new(12),
        [
            0.0040000000000000036,
            0.0349789654219583,
            0.08792851591221287,
            0.09944154354509119,
            0.09330129698414118,
            0.0811745653949763,
            0.06473789976951033,
            0.046263710266697504,
            0.028306099820869922,
            0.01334775301888306,
            0.0034566987425395223,
            4e-07,
        ],
    );
    check(
        "OneCycleLR(0.1, total_steps=12, pct_start=0.5, div_factor=4, final_div_factor=10)",
        OneCycle::new(12).rising(0.5).divisors(4.0, 10.0),
        [
            0.024999999999999994,
            0.03216186271093946,
            0.05091186271093947,
            0.07408813728906052,
            0.09283813728906053,
            0.1,
            0.0934687384344914,
            0.075625,
            0.051250000000000004,
            0.02687500000000001,
            0.009031261565508613,
            0.0025,
        ],
    );
    check(
        "SequentialLR([LinearLR(0.25, total_iters=4), CosineAnnealingLR(7)], [4])",
        WarmUp::new(4).from(0.25).then(CosineDecay::new(7)),
        [
            0.025,
            0.043750000000000004,
            0.06250000000000001,
            0.08125000000000002,
            0.1,
            0.09504844339512096,
            0.08117449009293669,
            0.061126046697815725,
            0.03887395330218429,
            0.018825509907063328,
            0.004951556604879048,
            0.0,
        ],
    );

    check("constant", WarmUp::new(1).from(1.0), [0.1; 12]);
}

#[test]
fn a_plateau_is_that_of_pytorch() {
    let opt = SGD::new(0.1);
    let plateau = ReduceOnPlateau::new(0.5, 1).cooldown(2).min(0.03).threshold(0.01);
    let metrics =
        [5.0, 4.0, 3.99, 3.98, 3.97, 3.9, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 3.0, 3.0, 3.0, 3.0, 3.0];
    let want = [
        0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03,
        0.03,
    ];
    for (step, (metric, want)) in metrics.into_iter().zip(want).enumerate() {
        plateau.observe(metric, &opt);
        assert_eq!(opt.learning_rates()[0].get(), want, "after {step}");
    }
}

#[test]
fn a_schedule_counts_steps_in_any_function() {
    /// Takes two steps in one compiled function.
    #[jit]
    fn twice<O: Optimizer + 'static>(net: &nn::Sequential, opt: &O, x: &Tensor, y: &Tensor) {
        for _ in ms::range(0, 2) {
            opt.step(net, &(x.clone(), y.clone()), loss);
        }
    }
    let rates = |jit| {
        with_context(Context { jit, precision: Precision::Strict, ..context() }, || {
            let (net, (x, y)) = (net(), batch());
            let opt = SGD::new(1.0).schedule(schedule_fn(|base, step| base / (step + 1.0)));
            opt.prepare(&net.trainable_parameters());
            opt.step(&net, &(x.clone(), y.clone()), loss);
            opt.step_eagerly(&net, &(x.clone(), y.clone()), loss);
            twice(&net, &opt, &x, &y);
            (opt.learning_rates()[0].get(), weights(&net))
        })
    };
    let (eager, compiled) = (rates(false), rates(true));
    assert_eq!(eager, compiled);
    assert_eq!(eager.0, 0.25);
}

/// A schedule counts updates, so its order relative to an accumulation does not matter.
#[test]
fn schedules_count_updates() {
    fn rate<O: Optimizer + 'static>(opt: &O) -> f64 {
        both("schedules", || {
            let weight = vec![Parameter::new(tensor![1.0], "")];
            opt.prepare(&weight);
            (0..4).for_each(|_| update(opt, &weight, &vec![tensor![1.0]]));
        });
        opt.learning_rates()[0].get()
    }
    let halved = || StepDecay::new(1, 0.5);
    // Four steps run eagerly, then four compiled: the last update has number 3.
    assert_eq!(rate(&SGD::new(1.0).accumulate(2).schedule(halved())), 0.5f64.powi(3));
    assert_eq!(rate(&SGD::new(1.0).schedule(halved()).accumulate(2)), 0.5f64.powi(3));
    assert_eq!(rate(&SGD::new(1.0).accumulate(2).clip_by_value(9.0).hook(|_, it| it * 1.0).schedule(halved())), 0.125);
    assert_eq!(rate(&SGD::new(1.0).accumulate(2).accumulate(2).schedule(halved())), 0.5);
    let groups = || ParameterGroups::new(SGD::new(1.0).accumulate(2));
    assert_eq!(rate(&groups().schedule(halved())), 0.125);
    // One of two groups is updated in every step.
    assert_eq!(rate(&groups().group(&[], SGD::new(1.0)).schedule(halved())), 0.5f64.powi(7));
    // Four eager steps make two updates. The averaged values are 1 - 1, then -1.
    let average = |both_ways: bool| {
        let weight = Parameter::new(tensor![1.0], "");
        let opt = |it: &dyn Fn()| (0..4).for_each(|_| it());
        let ones = || ms::Gradients::new(vec![weight.clone()], vec![tensor![1.0]]);
        if both_ways {
            let it = SGD::new(1.0).accumulate(2).average(0.75);
            opt(&|| it.update(&ones()));
            it.average_of(&weight).item::<f32>()
        } else {
            let it = SGD::new(1.0).average(0.75).accumulate(2);
            opt(&|| it.update(&ones()));
            it.optimizer.average_of(&weight).item::<f32>()
        }
    };
    assert_eq!([true, false].map(average), [-0.25, -0.25]);
}
