// A custom op consists of a declaration and of its rules, each with the arguments that it takes.
use ms::custom::{Type, View, Vjp};
use ms::prelude::*;

ms::custom_op! {
    fn without_rules(x: &Tensor) -> Tensor;
}

ms::custom_op! {
    fn with_others(x: &Tensor) -> Tensor;

    fn types(x: &Type) -> Type {
        x.clone()
    }

    fn run(x: &[f32], y: &mut [f32]) {
        y.copy_from_slice(x);
    }

    fn derivatives(it: &Vjp<'_>) -> Tensor {
        it.cotangent().clone()
    }

    const LIMIT: f32 = 1.0;
}

ms::custom_op! {
    fn of_another_count(x: &Tensor, n: i64) -> (Tensor, Tensor);

    fn types(x: &Type) -> [Type; 2] {
        [x.clone(), x.clone()]
    }

    fn run(x: &[f32], n: i64, y: &mut [f32]) {}

    fn derivative(it: &Vjp<'_>) -> Tensor {
        it.cotangent().clone()
    }
}

ms::custom_op! {
    fn that_writes(x: &mut Tensor) -> f32;

    fn types(x: &Type) -> Type {
        x.clone()
    }

    fn run(x: View<'_, f32>, y: &mut [f32]) {
        y.copy_from_slice(&x);
    }
}

fn main() {}
