//! Dicts of cells.

use ms::prelude::*;

#[cell]
struct Net {
    branches: nn::CellDict<Box<dyn Layer>>,
}

#[cell]
impl Net {
    #[jit]
    fn construct(&self, x: &Tensor) -> Tensor {
        self.branches.iter().fold(x.clone(), |x, (_, branch)| branch.forward(&x))
    }
}

#[test]
fn dicts_keep_their_order_and_name_their_cells() {
    let mut branches = nn::CellDict::new();
    let layer = |layer: Box<dyn Layer>| layer;
    assert!(branches.insert("z", layer(Box::new(nn::Dense::new(3, 2)))).is_none());
    assert!(branches.insert("a", layer(Box::new(nn::ReLU))).is_none());
    assert!(branches.insert("z", layer(Box::new(nn::Dense::new(2, 2)))).is_some());
    assert!(branches.names().eq(["z", "a"]));
    let net = Net { branches };
    let names = |it| StateDict::named(&net, it).names().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(names(Convention::Ms), ["branches[\"z\"].bias", "branches[\"z\"].weight"]);
    assert_eq!(names(Convention::PyTorch), ["branches.z.bias", "branches.z.weight"]);
    let x = tensor![[1.0, -2.0]];
    for _ in 0..2 {
        let want = ops::relu(net.branches["z"].forward(&x)).to_vec::<f32>();
        assert_eq!(net.call(&x).to_vec::<f32>(), want);
    }
    // Another order is another network.
    let Net { mut branches } = net;
    let first = branches.remove("z").expect("it is there");
    branches.insert("z", first);
    let net = Net { branches };
    assert_eq!(net.call(&x).to_vec::<f32>(), net.branches["z"].forward(&ops::relu(&x)).to_vec::<f32>());
    assert!(net.branches.get("b").is_none() && net.branches.len() == 2);
}
