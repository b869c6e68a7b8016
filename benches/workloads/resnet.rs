//! A ResNet-18.

use ms::prelude::*;

fn conv(inputs: usize, outputs: usize, kernel: usize, stride: usize) -> nn::Conv2d {
    nn::Conv2d::new(inputs, outputs, kernel).stride(stride).padding(kernel / 2).without_bias()
}

#[cell]
struct Block {
    conv1: nn::Conv2d,
    bn1: nn::BatchNorm,
    conv2: nn::Conv2d,
    bn2: nn::BatchNorm,
    shortcut: nn::Sequential,
}

#[cell]
impl Block {
    fn new(inputs: usize, outputs: usize, stride: usize) -> Self {
        Self {
            conv1: conv(inputs, outputs, 3, stride),
            bn1: nn::BatchNorm::new(outputs),
            conv2: conv(outputs, outputs, 3, 1),
            bn2: nn::BatchNorm::new(outputs),
            shortcut: match stride {
                1 => nn::sequential![],
                _ => nn::sequential![conv(inputs, outputs, 1, stride), nn::BatchNorm::new(outputs)],
            },
        }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        let y = self.bn1(&self.conv1(x)).relu();
        let y = self.bn2(&self.conv2(&y));
        (y + self.shortcut(x)).relu()
    }
}

/// Channels and stride of the stages; each stage has two blocks.
const STAGES: [(usize, usize); 4] = [(64, 1), (128, 2), (256, 2), (512, 2)];

#[cell]
pub struct ResNet18 {
    stem: nn::Sequential,
    pool: nn::MaxPool2d,
    stages: nn::Sequential,
    fc: nn::Dense,
}

#[cell]
impl ResNet18 {
    pub fn new(classes: usize) -> Self {
        let stage = |inputs, outputs, stride| {
            nn::sequential![Block::new(inputs, outputs, stride), Block::new(outputs, outputs, 1)]
        };
        Self {
            stem: nn::sequential![conv(3, 64, 7, 2), nn::BatchNorm::new(64), nn::ReLU],
            pool: nn::MaxPool2d::new(3).stride(2).padding(1),
            stages: nn::sequential![stage(64, 64, 1), stage(64, 128, 2), stage(128, 256, 2), stage(256, 512, 2)],
            fc: nn::Dense::new(512, classes),
        }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        self.fc(&self.stages(&self.pool(&self.stem(x))).mean([2, 3]))
    }
}

/// The work of the network on images.
pub struct Counts {
    pub multiplications: usize,
    /// The multiplications of the first layer.
    pub first: usize,
    pub parameters: usize,
}

/// Counts the work for images `[batch, channels, height, width]`.
pub fn counts([batch, channels, height, width]: [usize; 4], classes: usize) -> Counts {
    let halved = |it: usize| it.div_ceil(2);
    let (mut rows, mut columns) = (halved(height), halved(width));
    let mut parameters = 49 * channels * 64 + 2 * 64;
    let first = batch * 49 * channels * 64 * rows * columns;
    let mut multiplications = first;
    (rows, columns) = (halved(rows), halved(columns));
    let mut inputs = 64;
    for (outputs, stride) in STAGES {
        if stride == 2 {
            (rows, columns) = (halved(rows), halved(columns));
        }
        let shortcut = if stride == 2 { inputs * outputs } else { 0 };
        let weights = 9 * inputs * outputs + 3 * 9 * outputs * outputs + shortcut;
        multiplications += batch * weights * rows * columns;
        parameters += weights + 2 * outputs * (4 + usize::from(stride == 2));
        inputs = outputs;
    }
    multiplications += batch * inputs * classes;
    parameters += (inputs + 1) * classes;
    Counts { multiplications, first, parameters }
}
