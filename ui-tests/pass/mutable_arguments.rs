//! `&mut` trees are inputs and outputs.
use ms::prelude::*;

#[derive(Clone, Tree)]
struct State {
    mean: Tensor,
    count: usize,
}

impl State {
    #[jit]
    fn add(&mut self, x: &Tensor) -> Tensor {
        let old = self.mean.clone();
        self.mean = (&self.mean * self.count + x) / (self.count + 1) as f64;
        self.count += 1;
        old
    }
}

#[jit]
fn swap(a: &mut Tensor, b: &mut Tensor) {
    std::mem::swap(a, b);
}

#[jit]
fn push(list: &mut Vec<Tensor>, x: &Tensor) -> usize {
    list.push(x * list.len());
    list.len()
}

#[test]
fn main() {
    let number = |it: f32| Tensor::scalar(it);
    let mut state = State { mean: number(0.0), count: 0 };
    for x in [2.0, 4.0, 9.0] {
        state.add(&number(x));
    }
    assert_eq!((state.mean.item::<f32>(), state.count), (5.0, 3));
    let (mut a, mut b) = (number(1.0), number(2.0));
    swap(&mut a, &mut b);
    assert_eq!((a.item::<f32>(), b.item::<f32>()), (2.0, 1.0));
    let mut list = vec![];
    assert_eq!((0..3).map(|_| push(&mut list, &number(1.0))).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(list[2].item::<f32>(), 2.0);
}
