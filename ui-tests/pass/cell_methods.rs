//! Several annotated methods of a cell, and a getter with the name of a field.
use ms::prelude::*;

#[cell]
struct Autoencoder {
    encoder: Parameter,
    decoder: Parameter,
}

#[cell]
impl Autoencoder {
    fn new() -> Self {
        let parameter = |value: f32| Parameter::new(Tensor::scalar(value), "");
        Self { encoder: parameter(2.0), decoder: parameter(0.5) }
    }

    #[jit]
    fn encode(&self, x: &Tensor) -> Tensor {
        x * &self.encoder
    }

    #[jit]
    fn decode(&self, code: &Tensor) -> Tensor {
        code * &self.decoder
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        self.decode(&self.encode(x))
    }

    #[jit]
    fn grow(&self, by: &Tensor) {
        self.encoder.set(&(&self.encoder + by));
    }

    fn encoder(&self) -> &Parameter {
        &self.encoder
    }
}

impl Autoencoder {
    fn names(&self) -> Vec<String> {
        self.named_parameters().expect("names differ").into_iter().map(|it| it.0).collect()
    }
}

#[test]
fn main() {
    let net = Autoencoder::new();
    let x = Tensor::scalar(3.0f32);
    assert_eq!(net.call(&x).item::<f32>(), 3.0);
    net.grow(&Tensor::scalar(2.0f32));
    assert_eq!((net.encode(&x).item::<f32>(), net.call(&x).item::<f32>()), (12.0, 6.0));
    assert_eq!(net.encoder().value().item::<f32>(), 4.0);
    assert_eq!(net.names(), ["encoder", "decoder"]);
}
