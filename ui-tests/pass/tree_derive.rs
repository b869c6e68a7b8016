//! `#[derive(Tree)]` on structs, enums and generic types.
use ms::prelude::*;

#[derive(Clone, Tree)]
struct Pair<T, const N: usize> {
    first: T,
    rest: [T; N],
}

#[derive(Clone, Tree)]
struct Unit;

#[derive(Clone, Tree)]
enum Shape<T> {
    Empty,
    Circle(T),
    Box { width: T, height: T, tag: Unit },
}

#[jit]
fn area(shape: &Shape<Tensor>) -> Tensor {
    match shape {
        Shape::Empty => Tensor::scalar(0.0f32),
        Shape::Circle(radius) => radius * radius * 3.0,
        Shape::Box { width, height, .. } => width * height,
    }
}

#[jit]
fn doubled<T: Tree + Send + Sync + 'static>(it: &Pair<T, 2>) -> Vec<Pair<T, 2>> {
    vec![it.clone(), it.clone()]
}

impl Pair<Tensor, 2> {
    #[jit]
    fn sum(&self) -> Tensor {
        self.rest.iter().fold(self.first.clone(), |sum, it| sum + it)
    }
}

#[test]
fn main() {
    let number = |it: f32| Tensor::scalar(it);
    for _ in 0..2 {
        let of_box = Shape::Box { width: number(2.0), height: number(3.0), tag: Unit };
        let areas = [Shape::Empty, Shape::Circle(number(2.0)), of_box].map(|it| area(&it).item::<f32>());
        assert_eq!(areas, [0.0, 12.0, 6.0]);
        let pair = Pair { first: number(1.0), rest: [number(2.0), number(3.0)] };
        assert_eq!(pair.sum().item::<f32>(), 6.0);
        assert_eq!(doubled(&pair)[1].rest[1].item::<f32>(), 3.0);
        assert_eq!(doubled(&Pair { first: 1i64, rest: [2, 3] })[0].rest, [2, 3]);
    }
}
