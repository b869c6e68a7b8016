use ms::prelude::*;

struct Plain {
    weight: Parameter,
}

fn count<C: Cell>(net: &C) -> usize {
    net.parameters().len()
}

fn main() {
    let plain = Plain { weight: Parameter::new(Tensor::scalar(1.0), "") };
    count(&plain);
    let list = nn::CellList::from(vec![1, 2]);
    count(&list);
}
