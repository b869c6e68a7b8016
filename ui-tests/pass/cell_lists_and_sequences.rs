//! `CellList`, a cell of it selected by a tensor, `Sequential` and `nn::sequential!`.
use ms::prelude::*;

#[cell]
struct Net {
    blocks: nn::CellList<nn::Dense>,
    head: nn::Sequential,
    other: nn::CellList<Box<dyn Layer>>,
}

#[cell]
impl Net {
    #[jit]
    fn construct(&self, x: &Tensor) -> Tensor {
        let x = self.blocks.iter().fold(x.clone(), |x, block| block.call(&x));
        self.head(&self.other[1].forward(&x))
    }
}

#[jit]
fn chosen(layers: &nn::CellList<Box<dyn Layer>>, index: &Tensor, x: &Tensor) -> Tensor {
    layers.select(index).call(x) + layers.select(0).with(|layer| layer.forward(x))
}

#[test]
fn main() {
    let mut other = nn::CellList::new();
    other.push(Box::new(nn::Tanh) as Box<dyn Layer>);
    other.push(Box::new(nn::ReLU));
    let net = Net {
        blocks: (0..3).map(|_| nn::Dense::new(4, 4)).collect(),
        head: nn::sequential![nn::Dense::new(4, 2), nn::ReLU, nn::Sequential::new().push(nn::Sigmoid)],
        other,
    };
    for (index, want) in [(0i64, 2.0f32.tanh() * 2.0), (1, 2.0f32.tanh() + 2.0), (9, 2.0f32.tanh() + 2.0)] {
        let got = chosen(&net.other, &Tensor::scalar(index), &Tensor::scalar(2.0f32)).item::<f32>();
        assert!((got - want).abs() < 1e-6, "{got} {want}");
    }
    let x = Tensor::ones([2, 4]);
    let eager = ms::with_context(Context { jit: false, ..ms::context() }, || net.call(&x));
    assert_eq!(net.call(&x).shape(), [2, 2]);
    let (got, want) = (net.call(&x).to_vec::<f32>(), eager.to_vec::<f32>());
    assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-6), "{got:?}");
    let names: Vec<String> = net.named_parameters().expect("names differ").into_iter().map(|it| it.0).collect();
    assert_eq!(names[2..4], ["blocks[1].weight", "blocks[1].bias"]);
    assert_eq!((net.blocks.len(), net.head.len()), (3, 3));
}
