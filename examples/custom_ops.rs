//! User-defined ops: a function of scalars that becomes one kernel, and a Rust function on slices.

use ms::custom::{Type, View, Vjp};
use ms::prelude::*;

ms::kernel! {
    /// The Huber loss: quadratic near zero and linear beyond `delta`. Its derivative is generated.
    fn huber(prediction: Float, target: Float, delta: f64) -> Float {
        let d = prediction - target;
        if d.abs() <= delta { 0.5 * d * d } else { delta * (d.abs() - 0.5 * delta) }
    }
}

ms::kernel! {
    /// Quantises numbers to multiples of a step in one byte each, and returns the quantisation error.
    fn quantised(x: Float, step: Float) -> (I8, Float) {
        let steps = (x / step).round_ties_even() as I8;
        (steps, x - steps as Float * step)
    }
}

ms::custom_op! {
    /// The median of each row.
    fn medians(x: &Tensor) -> (Tensor, Tensor);

    const VERSION: u32 = 1;

    fn types(x: &Type) -> [Type; 2] {
        let rows = &x.dims[..x.rank() - 1];
        [Type::new(x.dtype, rows.into()), Type::new(DType::I64, rows.into())]
    }

    fn run(x: View<'_, f32>, medians: &mut [f32], positions: &mut [i64]) -> Result<(), String> {
        for (row, (median, position)) in x.rows().zip(medians.iter_mut().zip(positions)) {
            let mut order: Vec<usize> = (0..row.len()).collect();
            order.sort_by(|&a, &b| row[a].total_cmp(&row[b]));
            let middle = *order.get(row.len() / 2).ok_or("a row without elements has no median")?;
            (*median, *position) = (row[middle], middle as i64);
        }
        Ok(())
    }

    fn derivative(it: &Vjp<'_>) -> Option<Tensor> {
        let zeros = ops::zeros_like(&it.inputs[0]);
        let gradient = ops::expand_dims(it.cotangents[0].as_ref()?, -1);
        Some(ops::scatter_add(&zeros, ops::expand_dims(&it.outputs[1], -1), gradient, -1))
    }
}

#[jit]
fn loss(x: &Tensor, target: &Tensor) -> Tensor {
    huber(medians(x).0, target, 1.0).mean(())
}

fn main() {
    let x = tensor![[3.0, 1.0, 2.0], [10.0, 30.0, 20.0]];
    let target = tensor![2.5, 15.0];
    println!("the loss is {}, its gradient {}", loss(&x, &target), ms::grad(loss)(&x, &target));
    let (steps, lost) = quantised(&x, 0.4);
    println!("{steps} steps of 0.4, without {lost}");
    assert_eq!(steps.to_vec::<i8>(), [8, 2, 5, 25, 75, 50]);
    assert_eq!(ms::grad(loss)(&x, &target).to_vec::<f32>(), [0.0, 0.0, -0.25, 0.0, 0.0, 0.5]);
}
