// The rules of a custom op are typed: views have the element type of a dtype, and attributes are host values that can be part of a graph.
use ms::custom::Type;
use ms::prelude::*;

ms::custom_op! {
    fn of_strings(x: &Tensor) -> Tensor;

    fn types(x: &Type) -> Type {
        x.clone()
    }

    fn run(x: &[String], y: Vec<f32>) {}
}

ms::custom_op! {
    fn of_a_list(x: &Tensor, names: Vec<String>) -> Tensor;

    fn types(x: &Type, _names: Vec<String>) -> Type {
        x.clone()
    }

    fn run(x: &[f32], _names: Vec<String>, y: &mut [f32]) -> i64 {
        0
    }
}

fn main() {}
