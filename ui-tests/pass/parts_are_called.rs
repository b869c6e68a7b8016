//! Cells are called by the names that patterns and loops bind them to, wherever they are stored.
#![deny(warnings)]
use ms::nn::{CellList, Dense, LayerNorm};
use ms::prelude::*;
use std::collections::BTreeMap;

#[cell]
struct Net {
    norm: Option<LayerNorm>,
    layers: Vec<Dense>,
    list: CellList<Dense>,
    heads: BTreeMap<String, Dense>,
    #[cell(skip)]
    end: fn(&Tensor) -> Tensor,
}

#[cell]
impl Net {
    #[jit]
    fn construct(&self, x: &Tensor, head: &str) -> Tensor {
        let mut x = match &self.norm {
            Some(norm) => norm(x),
            None => x.clone(),
        };
        for (i, layer) in self.layers.iter().enumerate() {
            x = layer(&x) + i;
        }
        for layer in &self.list {
            x = layer(&x);
        }
        let first = &self.layers[0];
        if x > -100.0 {
            x = first(&x);
        }
        if let Some(head) = self.heads.get(head) {
            x = head(&x);
        }
        let end = self.end;
        end(&x)
    }
}

#[jit]
fn both(x: &Tensor, layers: &[Dense], last: Option<&Dense>) -> Tensor {
    let mut x = x.clone();
    for layer in layers {
        x = layer(&x);
    }
    match last {
        Some(last) => last(&x),
        None => x,
    }
}

/// Functions that are kept are called as Rust calls them.
#[jit]
fn functions(x: &Tensor) -> Tensor {
    let shared: Vec<Box<dyn Fn(&Tensor) -> Tensor>> = vec![Box::new(|x| x + 1.0), Box::new(|x| x * 2.0)];
    let mut counting: Vec<Box<dyn FnMut(&Tensor) -> Tensor>> = Vec::new();
    let mut count = 0;
    counting.push(Box::new(move |x| {
        count += 1;
        x + count
    }));
    let mut x = x.clone();
    for f in &shared {
        x = f(&x);
    }
    for f in counting.iter_mut() {
        x = f(&x);
    }
    for f in &mut counting {
        x = f(&x);
    }
    if let Some(f) = shared.first() {
        x = f(&x);
    }
    x
}

/// An iterator over cells that is advanced by hand.
#[jit]
fn advanced(x: &Tensor, layers: &[Dense]) -> Tensor {
    let mut x = x.clone();
    let mut rest = layers.iter();
    while let Some(layer) = rest.next() {
        if x > 5.0 {
            break;
        }
        x = layer(&x);
    }
    x
}

#[test]
fn main() {
    let dense = |weight: f32| {
        let dense = Dense::new(1, 1);
        dense.weight.set(&Tensor::full([1, 1], weight));
        dense.bias.as_ref().expect("a new layer has one").set(&Tensor::ones([1]));
        dense
    };
    let net = Net {
        norm: None,
        layers: vec![dense(2.0), dense(3.0)],
        list: [dense(1.0)].into_iter().collect(),
        heads: BTreeMap::from([("double".to_owned(), dense(2.0))]),
        end: |x| x * 10.0,
    };
    for jit in [false, true] {
        let context = ms::Context { jit, ..ms::context() };
        ms::with_context(context, || {
            let x = tensor![[1.0]];
            assert_eq!(net.call(&x, "double").to_vec::<f32>(), [510.0]);
            assert_eq!(net.call(&x, "none").to_vec::<f32>(), [250.0]);
            assert_eq!(functions(&x).to_vec::<f32>(), [8.0]);
            assert_eq!(advanced(&x, &net.layers).to_vec::<f32>(), [10.0]);
            assert_eq!(both(&x, &net.layers, net.layers.first()).to_vec::<f32>(), [21.0]);
        });
    }
}
