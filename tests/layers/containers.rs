//! Tests cells by name, and layers in and around other layers.

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
    // Another order of the branches is another network.
    let Net { mut branches } = net;
    let first = branches.remove("z").expect("it is there");
    branches.insert("z", first);
    let net = Net { branches };
    assert_eq!(net.call(&x).to_vec::<f32>(), net.branches["z"].forward(&ops::relu(&x)).to_vec::<f32>());
    assert!(net.branches.get("b").is_none() && net.branches.len() == 2);
}

#[test]
fn layers_of_a_sequence_have_names() {
    let net = nn::sequential! { fc: nn::Dense::new(3, 2), relu: nn::ReLU, last: nn::Dense::new(2, 2) };
    let names = |it| StateDict::named(&net, it).names().map(str::to_owned).collect::<Vec<_>>();
    let own = ["fc\"].bias", "fc\"].weight", "last\"].bias", "last\"].weight"].map(|it| format!("layers[\"{it}"));
    assert_eq!(names(Convention::Ms), own);
    for other in [Convention::PyTorch, Convention::MindSpore] {
        assert_eq!(names(other), ["fc.bias", "fc.weight", "last.bias", "last.weight"]);
    }
    let x = tensor![[1.0, -2.0, 0.5]];
    let plain = nn::sequential![nn::Dense::new(3, 2), nn::ReLU, nn::Dense::new(2, 2)];
    let values: StateDict = net
        .state_dict()
        .iter()
        .map(|(_, it)| it.clone())
        .zip(plain.state_dict().names())
        .map(|(value, name)| (name.to_owned(), value))
        .collect();
    plain.load_state_dict(&values, &LoadOptions::new()).expect("both have the same layers");
    assert_eq!(net.call(&x).to_vec::<f32>(), plain.call(&x).to_vec::<f32>());
    assert_eq!((net.len(), nn::Sequential::new().push_named("one", nn::ReLU).len()), (3, 1));
    let twice = ms::catch(|| nn::sequential! { a: nn::ReLU, a: nn::ReLU }).map(|_| ()).expect_err("a name twice");
    assert_eq!(twice.code(), ms::Code::DuplicateName, "{twice}");
}

#[test]
fn residual_blocks() {
    let x = tensor![[1.0, -2.0, 0.5]];
    let body = nn::Dense::new(3, 3);
    let y = body.call(&x);
    let copy = |of: &nn::Dense| {
        let copy = nn::Dense::new(3, 3);
        copy.load_state_dict(&of.state_dict(), &LoadOptions::new()).expect("both have the same names");
        copy
    };
    assert_eq!(nn::Residual::new(copy(&body)).call(&x).to_vec::<f32>(), (&y + &x).to_vec::<f32>());
    let around = nn::Dense::new(3, 3);
    let whole = nn::Residual::new(copy(&body)).shortcut(nn::sequential![copy(&around)]).activation(nn::ReLU);
    assert_eq!(whole.call(&x).to_vec::<f32>(), (&y + around.call(&x)).relu().to_vec::<f32>());
    let names = |it| StateDict::named(&whole, it).names().map(str::to_owned).collect::<Vec<_>>();
    let own = ["body.bias", "body.weight", "shortcut.layers[0].bias", "shortcut.layers[0].weight"];
    assert_eq!(names(Convention::Ms), own);
    assert_eq!(names(Convention::PyTorch), ["bias", "shortcut.0.bias", "shortcut.0.weight", "weight"]);
    assert_eq!(nn::Residual::new(body).named_parameters().expect("names differ").len(), 2);
    let error = ms::catch(|| nn::Residual::new(nn::Dense::new(3, 2)).call(&x)).map(|_| ()).expect_err("3 and 2");
    assert!(error.code() == ms::Code::Shape && error.to_string().contains("Residual"), "{error}");
}
