// Ops that the program declares: `custom_op!` on slices of the host, `kernel!` on elements.
use ms::custom::{AnyView, AnyViewMut, Type, View, Vjp};
use ms::prelude::*;

mod inner {
    ms::custom_op! {
        /// The sums of rows, scaled.
        pub fn row_sums(x: &ms::Tensor, scale: f64, name: &str, shape: &[i64]) -> ms::Tensor;

        fn types(x: &super::Type, _scale: f64, _name: &str, _shape: &[i64]) -> super::Type {
            super::Type::new(x.dtype, x.dims[..x.rank() - 1].into())
        }

        fn run(x: super::View<'_, f32>, scale: f64, name: &str, shape: &[i64], sums: &mut [f32]) {
            assert_eq!((name, shape), ("rows", &[1, 2][..]));
            sums.iter_mut().zip(x.rows()).for_each(|(to, row)| *to = row.iter().sum::<f32>() * scale as f32);
        }

        fn derivative(it: &super::Vjp<'_>, scale: f64, _name: &str, _shape: &[i64]) -> ms::Tensor {
            ms::ops::broadcast_to(ms::ops::expand_dims(it.cotangent() * scale, -1), it.inputs[0].dims())
        }
    }
}

ms::custom_op! {
    fn copied(x: &Tensor) -> Tensor;

    fn types(x: &Type) -> ms::Result<Type> {
        Ok(x.clone())
    }

    fn run(x: AnyView<'_>, mut y: AnyViewMut<'_>) -> ms::Result<()> {
        y.typed::<f32>()?.copy_from_slice(&x.typed::<f32>()?);
        Ok(())
    }
}

ms::custom_op! {
    /// The squares below `n²`, of no operand.
    fn squares(n: usize) -> Tensor;

    fn types(n: usize) -> Type {
        Type::of(DType::I64, &[n])
    }

    fn run(n: usize, squares: &mut [i64]) {
        squares.iter_mut().zip(0..n as i64).for_each(|(to, it)| *to = it * it);
    }
}

ms::kernel! {
    /// `x` limited, by names and expressions of every kind.
    pub fn limited(x: Float, mask: Bool, low: f64, steps: usize) -> Float {
        let mut y = if mask && !(x < low) { x } else { Float::from(low) };
        for _ in 0..steps {
            y = (y + x.abs().sqrt() * 0.5) / 2;
        }
        let double = |it: Float| it * 2.0;
        if steps > 3 || low == 0.0 { double(y) } else if x >= 1 { y.max(low) } else { 1.0 - y }
    }
}

ms::kernel! {
    /// Integers, casts, and several results.
    pub fn divided(x: Int, by: Int, scale: F64) -> (Int, F64, Bool) {
        let quotient = if by == 0 { 0 } else { x / by };
        let mut odd = quotient & 1;
        odd ^= 1;
        (quotient, quotient as F64 * scale, odd as Bool || x < by)
    }
}

#[jit]
fn compiled(x: &Tensor) -> Tensor {
    let y = limited(x, x > 0.0, 0.0, 2);
    inner::row_sums(&copied(&y), 2.0, "rows", &[1, 2])
}

#[test]
fn main() {
    let x = tensor![[1.0, 4.0], [-1.0, 9.0]];
    let eager = inner::row_sums(&limited(&x, x.gt(0.0), 0.0, 2), 2.0, "rows", &[1, 2]);
    assert_eq!(compiled(&x).to_vec::<f32>(), eager.to_vec::<f32>());
    let (quotient, scaled, flags) = divided(tensor![7, 8], tensor![2, 0], tensor![0.5f64]);
    assert_eq!((quotient.to_vec::<i64>(), scaled.to_vec::<f64>()), (vec![3, 0], vec![1.5, 0.0]));
    assert_eq!(flags.to_vec::<bool>(), [false, true]);
    assert_eq!(squares(3).to_vec::<i64>(), [0, 1, 4]);
    let gradient = ms::grad(|x: &Tensor| inner::row_sums(x, 3.0, "rows", &[1, 2]))(&x);
    assert_eq!(gradient.to_vec::<f32>(), [3.0; 4]);
}
