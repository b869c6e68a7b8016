//! Tests recurrent layers.

use crate::oracle::{check, near};
use ms::nn::Nonlinearity;
use ms::prelude::*;

/// Compares a layer with a case that has the input, the states and the lengths as operands.
macro_rules! recurrent {
    ($case:literal, $layer:expr) => {
        check($case, $layer, |net, x, by| {
            let (y, h) = net.call(&x[0], x.get(1).cloned(), by.first().cloned());
            vec![y, h]
        })
    };
    ($case:literal, $layer:expr, lstm) => {
        check($case, $layer, |net, x, by| {
            let states = x.get(1).cloned().zip(x.get(2).cloned());
            let (y, (h, c)) = net.call(&x[0], states, by.first().cloned());
            vec![y, h, c]
        })
    };
}

#[test]
fn cells_are_those_of_pytorch() {
    let cell = nn::RNNCell::new(2, 4).nonlinearity(Nonlinearity::ReLU);
    check("rnn_cell", cell, |net, x, _| vec![net.call(&x[0], &x[1])]);
    check("gru_cell", nn::GRUCell::new(2, 4).without_bias(), |net, x, _| vec![net.call(&x[0], &x[1])]);
    check("lstm_cell", nn::LSTMCell::new(2, 4), |net, x, _| {
        let (h, c) = net.call(&x[0], &x[1], &x[2]);
        vec![h, c]
    });
}

#[test]
fn layers_and_directions_are_those_of_pytorch() {
    recurrent!("rnn", nn::RNN::new(2, 4).num_layers(2).bidirectional(true));
    recurrent!("rnn_relu", nn::RNN::new(2, 4).nonlinearity(Nonlinearity::ReLU).bias(false));
    recurrent!("lstm", nn::LSTM::new(2, 4).bidirectional(true).num_layers(2), lstm);
    recurrent!("lstm_batch_first", nn::LSTM::new(2, 4).batch_first(true), lstm);
    recurrent!("gru", nn::GRU::new(2, 4).num_layers(2).bidirectional(true));
}

#[test]
fn sequences_of_several_lengths_are_those_of_pytorch() {
    recurrent!("rnn_lengths", nn::RNN::new(2, 4).bidirectional(true));
    recurrent!("lstm_lengths", nn::LSTM::new(2, 4).num_layers(2).bidirectional(true), lstm);
    recurrent!("gru_lengths", nn::GRU::new(2, 4).num_layers(2).bidirectional(true));
}

#[test]
fn the_padding_of_sequences_has_no_gradient() {
    let (net, x) = (nn::GRU::new(2, 3), random::randn([4, 2, 2]));
    let sum = |net: &nn::GRU, x: &Tensor| {
        let (y, h) = net.call(x, None, Some(tensor![1, 4]));
        y.sum(()) + h.sum(())
    };
    let gradient = ms::grad(sum).wrt(ms::At::<1>)(&net, &x);
    assert_eq!(gradient.i((1.., 0)).to_vec::<f32>(), [0.0; 6]);
    assert!(gradient.i((1.., 1)).to_vec::<f32>().iter().all(|it| *it != 0.0));
}

#[test]
fn dropout_is_between_layers_and_in_training() {
    let net = nn::LSTM::new(2, 8).num_layers(2).dropout(0.5);
    let x = random::randn([3, 2, 2]);
    let run = || net.call(&x, None, None).0;
    assert_ne!(run().to_vec::<f32>(), run().to_vec::<f32>());
    net.set_train(false);
    near("evaluation", &run(), &run());
}

#[test]
fn invalid_operands_are_refused() {
    let x = || Tensor::ones([3, 2, 4]);
    type Case = (&'static str, Box<dyn Fn()>);
    let cases: [Case; 4] = [
        ("rank", Box::new(|| drop(nn::GRU::new(4, 3).call(&Tensor::ones([2, 4]), None, None)))),
        ("state", Box::new(move || drop(nn::GRU::new(4, 3).call(&x(), Some(Tensor::zeros([2, 2, 3])), None)))),
        ("lengths", Box::new(move || drop(nn::LSTM::new(4, 3).call(&x(), None, Some(tensor![1, 2, 3]))))),
        ("features", Box::new(move || drop(nn::LSTM::new(5, 3).call(&x(), None, None)))),
    ];
    for (name, run) in cases {
        assert_eq!(ms::catch(&run).expect_err(name).code(), ms::Code::Shape, "{name}");
    }
}
