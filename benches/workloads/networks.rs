//! Networks: forward passes and training steps with Adam.

use crate::gpt::{self, Gpt};
use crate::resnet::{self, ResNet18};
use crate::{Workload, needs};
use ms::Work;
use ms::prelude::*;
use std::hint::black_box;

#[cell]
struct Mlp {
    a: nn::Dense,
    b: nn::Dense,
    c: nn::Dense,
}

#[cell]
impl Mlp {
    fn new() -> Self {
        Self { a: nn::Dense::new(784, 512), b: nn::Dense::new(512, 512), c: nn::Dense::new(512, 10) }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        self.c(&self.b(&self.a(x).relu()).relu())
    }
}

#[jit]
fn mlp_forward(net: &Mlp, x: &Tensor) -> Tensor {
    net.call(x)
}

#[cell]
struct LeNet {
    c1: nn::Conv2d,
    c2: nn::Conv2d,
    pool: nn::MaxPool2d,
    f1: nn::Dense,
    f2: nn::Dense,
    f3: nn::Dense,
}

#[cell]
impl LeNet {
    fn new() -> Self {
        Self {
            c1: nn::Conv2d::new(1, 6, 5),
            c2: nn::Conv2d::new(6, 16, 5),
            pool: nn::MaxPool2d::new(2),
            f1: nn::Dense::new(256, 120),
            f2: nn::Dense::new(120, 84),
            f3: nn::Dense::new(84, 10),
        }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let x = self.pool(&self.c1(x).relu());
        let x = self.pool(&self.c2(&x).relu());
        self.f3(&self.f2(&self.f1(&x.flatten(1)).relu()).relu())
    }
}

const TIME: usize = 200;
const SEQUENCES: usize = 32;
const FEATURES: usize = 64;
const HIDDEN: usize = 128;
const CLASSES: usize = 10;

#[cell]
struct Recurrent {
    lstm: nn::LSTM,
    fc: nn::Dense,
}

#[cell]
impl Recurrent {
    fn new() -> Self {
        Self { lstm: nn::LSTM::new(FEATURES, HIDDEN), fc: nn::Dense::new(HIDDEN, CLASSES) }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let (_, (h, _)) = self.lstm(x, None, None);
        self.fc(&h.at(-1))
    }
}

#[jit]
fn recurrent_forward(net: &Recurrent, x: &Tensor) -> Tensor {
    net.call(x)
}

#[jit]
fn gpt_forward(net: &Gpt, ids: &Tensor) -> Tensor {
    net.call(ids)
}

/// The operand shape of causal attention over a long sequence: heads, length, features.
const ATTENDED: [usize; 3] = [8, 2048, 64];

fn attended(q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
    let options = ops::AttentionOptions { causal: true, ..Default::default() };
    ops::scaled_dot_product_attention(q, k, v, &options)
}

#[jit]
fn attention(q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
    attended(q, k, v)
}

#[jit]
fn attention_gradients(q: &Tensor, k: &Tensor, v: &Tensor) -> (Tensor, Tensor, Tensor) {
    ms::grad(|q: &Tensor, k: &Tensor, v: &Tensor| attended(q, k, v).square().sum(())).wrt_all()(q, k, v)
}

#[jit]
fn resnet_forward(net: &ResNet18, x: &Tensor) -> Tensor {
    net.call(x)
}

/// Generates the training steps of a classifier on these samples.
macro_rules! training {
    ($step:ident, $net:ident($($classes:expr)?), $samples:expr, $count:expr) => {{
        let (net, optimizer) = ($net::new($($classes)?), Adam::new(1e-3));
        let batch = ($samples, random::randint([$count], 0, CLASSES as i64));
        let loss = |net: &$net, (x, y): &(Tensor, Tensor)| ops::cross_entropy(net.call(x), y);
        Box::new(move || drop(black_box(optimizer.$step(&net, &batch, loss))))
    }};
}

fn normal(shape: &[usize]) -> Tensor {
    random::normal(shape.to_vec(), 0.0, 1.0)
}

/// Batch, channels, height and width: many small images, and one large image.
const IMAGES: [[usize; 4]; 2] = [[8, 3, 32, 32], [1, 3, 224, 224]];

fn resnet_inference(shape: [usize; 4]) -> Box<dyn FnMut()> {
    let (net, x) = (ResNet18::new(CLASSES), normal(&shape));
    net.set_train(false);
    Box::new(move || drop(black_box(resnet_forward(&net, &x))))
}

/// Returns the work of a forward pass with this many multiplications, parameters, and other numbers read or written.
fn forward(multiplications: usize, parameters: usize, others: usize) -> Work {
    needs(2 * multiplications, parameters + others)
}

/// Returns the work of a training step. Each product of the forward pass needs two more, except for backward-data of
/// the first layer, `first`. Each parameter, its gradient and two moments are read and written.
fn training(multiplications: usize, first: usize, parameters: usize) -> Work {
    needs(2 * (3 * multiplications - first) + 12 * parameters, 7 * parameters)
}

/// The number of weights of the multilayer perceptron, and of its multiplications for each row.
const MLP: usize = 784 * 512 + 512 * 512 + 512 * 10;
const MLP_BIASES: usize = 512 + 512 + 10;

/// The multiplications of LeNet for an image, the share of its first layer, and the number of parameters.
const LENET: [usize; 3] = {
    let first = 25 * 6 * 24 * 24;
    let dense = 256 * 120 + 120 * 84 + 84 * 10;
    [first + 150 * 16 * 8 * 8 + dense, first, 25 * 6 + 150 * 16 + dense + 6 + 16 + 120 + 84 + 10]
};

/// The multiplications and the parameters of the GPT: products for each token, causal attention, and the table.
const GPT: [usize; 2] = {
    let (tokens, width) = (gpt::BATCH * gpt::LENGTH, gpt::WIDTH);
    let block = 12 * width * width;
    let attention = gpt::LENGTH * width;
    let table = gpt::VOCABULARY * width;
    [tokens * (gpt::BLOCKS * (block + attention) + table), gpt::BLOCKS * (block + 13 * width) + table + 130 * width]
};

/// The multiplications of the recurrent network, the share of the input projection, and the number of parameters.
const RECURRENT: [usize; 3] = {
    let (gates, steps) = (4 * HIDDEN, TIME * SEQUENCES);
    let parameters = gates * (FEATURES + HIDDEN);
    [steps * parameters, steps * gates * FEATURES, parameters + 2 * gates + (HIDDEN + 1) * CLASSES]
};

/// The multiplications of causal attention, its exponentials as ten operations each, and the numbers of an operand.
const ATTENTION: [usize; 3] = {
    let [heads, length, features] = ATTENDED;
    let pairs = heads * length * length / 2;
    [2 * pairs * features, 10 * pairs, heads * length * features]
};

pub fn workloads() -> Vec<Workload> {
    let gpt_logits = gpt::BATCH * gpt::LENGTH * gpt::VOCABULARY;
    let images = |shape| resnet::counts(shape, CLASSES);
    let [small, large] = IMAGES.map(images);
    vec![
        Workload {
            name: "mlp_fwd_b1",
            make: || {
                let (net, x) = (Mlp::new(), normal(&[1, 784]));
                Box::new(move || drop(black_box(mlp_forward(&net, &x))))
            },
            needs: forward(MLP, MLP + MLP_BIASES, 784 + 10),
        },
        Workload {
            name: "mlp_fwd_b64",
            make: || {
                let (net, x) = (Mlp::new(), normal(&[64, 784]));
                Box::new(move || drop(black_box(mlp_forward(&net, &x))))
            },
            needs: forward(64 * MLP, MLP + MLP_BIASES, 64 * (784 + 10)),
        },
        Workload {
            name: "mlp_train_b64",
            make: || training!(step, Mlp(), normal(&[64, 784]), 64),
            needs: training(64 * MLP, 64 * 784 * 512, MLP + MLP_BIASES),
        },
        Workload {
            name: "mlp_train_b64_eager",
            make: || training!(step_eagerly, Mlp(), normal(&[64, 784]), 64),
            needs: training(64 * MLP, 64 * 784 * 512, MLP + MLP_BIASES),
        },
        Workload {
            name: "lenet_train_b32",
            make: || training!(step, LeNet(), normal(&[32, 1, 28, 28]), 32),
            needs: training(32 * LENET[0], 32 * LENET[1], LENET[2]),
        },
        Workload {
            name: "gpt_fwd",
            make: || {
                let (net, ids, _) = gpt::inputs();
                Box::new(move || drop(black_box(gpt_forward(&net, &ids))))
            },
            needs: forward(GPT[0], GPT[1], gpt_logits),
        },
        Workload {
            name: "gpt_train",
            make: || {
                let training = gpt::Training::new();
                Box::new(move || _ = black_box(training.step()))
            },
            needs: training(GPT[0], 0, GPT[1]),
        },
        Workload {
            name: "gpt_train_bf16",
            make: || {
                let training = gpt::Training::in_bf16();
                Box::new(move || _ = black_box(training.step()))
            },
            needs: training(GPT[0], 0, GPT[1]),
        },
        Workload {
            name: "attention_2k_fwd",
            make: || {
                let [q, k, v] = [(); 3].map(|()| normal(&ATTENDED));
                Box::new(move || drop(black_box(attention(&q, &k, &v))))
            },
            needs: needs(2 * ATTENTION[0] + ATTENTION[1], 4 * ATTENTION[2]),
        },
        Workload {
            name: "attention_2k_grad",
            make: || {
                let [q, k, v] = [(); 3].map(|()| normal(&ATTENDED));
                Box::new(move || drop(black_box(attention_gradients(&q, &k, &v))))
            },
            // The backward pass needs two products for each one of the forward pass.
            needs: needs(6 * ATTENTION[0] + ATTENTION[1], 7 * ATTENTION[2]),
        },
        Workload {
            name: "lstm200_fwd",
            make: || {
                let (net, x) = (Recurrent::new(), normal(&[TIME, SEQUENCES, FEATURES]));
                Box::new(move || drop(black_box(recurrent_forward(&net, &x))))
            },
            needs: forward(RECURRENT[0], RECURRENT[2], TIME * SEQUENCES * FEATURES),
        },
        Workload {
            name: "lstm200_train",
            make: || training!(step, Recurrent(), normal(&[TIME, SEQUENCES, FEATURES]), SEQUENCES),
            needs: training(RECURRENT[0], RECURRENT[1], RECURRENT[2]),
        },
        Workload {
            name: "resnet18_b8_32_fwd",
            make: || resnet_inference(IMAGES[0]),
            needs: forward(small.multiplications, small.parameters, 0),
        },
        Workload {
            name: "resnet18_b8_32_train",
            make: || training!(step, ResNet18(CLASSES), normal(&IMAGES[0]), IMAGES[0][0]),
            needs: training(small.multiplications, small.first, small.parameters),
        },
        Workload {
            name: "resnet18_b1_224_fwd",
            make: || resnet_inference(IMAGES[1]),
            needs: forward(large.multiplications, large.parameters, 0),
        },
        Workload {
            name: "resnet18_b1_224_train",
            make: || training!(step, ResNet18(CLASSES), normal(&IMAGES[1]), IMAGES[1][0]),
            needs: training(large.multiplications, large.first, large.parameters),
        },
    ]
}
