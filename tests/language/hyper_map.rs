//! Runs the cases of `hypermap/test_hypermap.py` eagerly and compiled, with the same numbers and the same refusals.

use ms::Value;
use ms::prelude::*;
use ms::{Code, HyperMap, Map, MultitypeFuncGraph, catch, grad};

fn square() -> MultitypeFuncGraph {
    MultitypeFuncGraph::new("square").register(|x: &Tensor| ops::square(x)).register(|x: &f64| x * x)
}

fn add() -> MultitypeFuncGraph {
    MultitypeFuncGraph::new("add").register(|x: &Tensor, y: &Tensor| x + y)
}

#[jit]
fn squares(x: &(Tensor, Tensor)) -> (Tensor, Tensor) {
    HyperMap::new(square()).call(x)
}

#[jit]
fn mixed(x: &Tensor, k: f64) -> (Tensor, f64) {
    HyperMap::new(square()).call(&(x.clone(), k))
}

#[jit]
fn sums(x: &Vec<Tensor>, y: &Vec<Tensor>) -> Vec<Tensor> {
    HyperMap::new(add()).call_as(&[x, y])
}

#[jit]
fn tiled(x: &(Tensor, Tensor)) -> (Tensor, Tensor) {
    let tile = MultitypeFuncGraph::new("tile").register(|x: &Tensor, times: &[Value]| {
        let times: Vec<usize> = times.iter().map(|it| if let Value::Int(it) = it { *it as usize } else { 1 }).collect();
        ops::tile(x, &times)
    });
    Map::new(tile).call_as(&[x, &((2i64, 1i64), (1i64, 2i64))])
}

#[jit]
fn first_rows(x: &(Tensor, Tensor), y: &(Tensor, Tensor)) -> (Tensor, Tensor) {
    let plus_first = MultitypeFuncGraph::new("plus_first").register(|x: &Tensor, y: &Tensor| x + y.at(0));
    HyperMap::new(plus_first).call_as(&[x, y])
}

#[jit]
fn other_length(x: &(Tensor,), y: &(Tensor, Tensor)) -> (Tensor,) {
    HyperMap::new(add()).call_as(&[x, y])
}

#[jit]
fn other_form(x: &(Tensor, Tensor), y: &Vec<Tensor>) -> (Tensor, Tensor) {
    HyperMap::new(add()).call_as(&[x, y])
}

#[jit]
fn no_form(x: &(Tensor, i64)) -> (Tensor, i64) {
    HyperMap::new(square()).call(x)
}

/// Runs `f` once eagerly and twice compiled.
fn both(f: impl Fn()) {
    ms::with_context(Context { jit: false, ..ms::context() }, &f);
    f();
    f();
}

#[test]
fn structures_are_mapped_alike_eagerly_and_compiled() {
    let (a, b) = (tensor![1.0, 2.0, 3.0], tensor![4.0, 5.0, 6.0]);
    let pair = (a.clone(), b.clone());
    both(|| {
        let (x, y) = squares(&pair);
        assert_eq!((x.to_vec::<f32>(), y.to_vec::<f32>()), (vec![1.0, 4.0, 9.0], vec![16.0, 25.0, 36.0]));
        let (x, k) = mixed(&a, 3.0);
        assert_eq!((x.to_vec::<f32>(), k), (vec![1.0, 4.0, 9.0], 9.0));
        let three =
            sums(&vec![tensor![1.0], tensor![2.0], tensor![3.0]], &vec![tensor![4.0], tensor![5.0], tensor![6.0]]);
        assert_eq!(three.iter().map(Tensor::item::<f32>).collect::<Vec<_>>(), [5.0, 7.0, 9.0]);
        let square = tensor![[1.0, 2.0], [3.0, 4.0]];
        let (down, along) = tiled(&(square.clone(), square.clone()));
        assert_eq!(down.to_vec::<f32>(), [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(along.to_vec::<f32>(), [1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0]);
        let (x, y) = first_rows(&pair, &(tensor![10.0, 20.0], tensor![[1.0, 1.0, 2.0], [7.0, 7.0, 7.0]]));
        assert_eq!((x.to_vec::<f32>(), y.to_vec::<f32>()), (vec![11.0, 12.0, 13.0], vec![5.0, 6.0, 8.0]));
    });
}

#[test]
fn what_does_not_fit_is_refused_in_both_modes() {
    let x = tensor![1.0];
    both(|| {
        let refused = |f: &dyn Fn()| catch(f).expect_err("refused").code();
        let length = refused(&|| drop(other_length(&(x.clone(),), &(x.clone(), x.clone()))));
        let form = refused(&|| drop(other_form(&(x.clone(), x.clone()), &vec![x.clone(), x.clone()])));
        let kind = refused(&|| drop(no_form(&(x.clone(), 1))));
        assert_eq!([length, form, kind], [Code::Structure, Code::Structure, Code::NoOverload]);
    });
}

#[test]
fn gradients_are_mapped() {
    let clip = MultitypeFuncGraph::new("clip").register(|g: &Tensor| ops::clamp(g, -1.0, 1.0));
    let layer = nn::Dense::new(2, 1);
    let gradients = grad(|layer: &nn::Dense, x: &Tensor| layer.call(x))(&layer, &tensor![[5.0, 0.5]]);
    let clipped = HyperMap::new(clip).call_tree(&gradients);
    assert_eq!(gradients.len(), clipped.len());
    let weight = clipped.iter().next().expect("a weight").1;
    assert_eq!(weight.to_vec::<f32>(), [1.0, 0.5]);
}
