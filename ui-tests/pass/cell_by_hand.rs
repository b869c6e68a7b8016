//! A cell that is implemented by hand, together with derived ones.
use ms::prelude::*;
use ms::{Apply, Arg, Name, Sink};

/// A parameter that is shown under another name, and a cached number that is not shown at all.
struct Gain {
    slot: Parameter,
    calls: std::sync::atomic::AtomicUsize,
}

impl Arg for Gain {
    fn visit(&self, sink: &mut Sink<'_>) {
        sink.begin(Name::Field("gain"));
        self.slot.visit(sink);
        sink.end();
    }
}

impl Cell for Gain {}

impl<'a> Apply<'a> for Gain {
    type Argument = &'a Tensor;
    type Output = Tensor;

    fn apply(&self, x: &'a Tensor) -> Tensor {
        self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        x * &self.slot
    }
}

#[cell]
struct Net {
    gain: Gain,
    layers: Vec<Box<dyn Layer>>,
}

#[cell]
impl Net {
    #[jit]
    fn construct(&self, x: &Tensor) -> Tensor {
        self.layers[0].forward(&self.gain(x))
    }
}

#[test]
fn main() {
    let gain = |by: f32| Gain { slot: Parameter::new(Tensor::scalar(by), ""), calls: 0.into() };
    let net = Net { gain: gain(2.0), layers: vec![Box::new(gain(5.0))] };
    assert_eq!(net.call(&Tensor::scalar(1.0f32)).item::<f32>(), 10.0);
    assert_eq!(net.call(&Tensor::scalar(2.0f32)).item::<f32>(), 20.0);
    let names: Vec<String> = net.named_parameters().expect("names differ").into_iter().map(|it| it.0).collect();
    assert_eq!(names, ["gain.gain", "layers[0].gain"]);
}
