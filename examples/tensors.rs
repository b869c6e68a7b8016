//! Tensors: literals, views, slice assignment, random numbers, and conversion to Rust values.

use ms::prelude::*;

fn main() {
    let x = tensor![[1., 2., 3.], [4., 5., 6.]];
    println!("x =\n{x}\n");

    // Views copy nothing; negative indices and bounds count from the end.
    println!("second row      {}", x.at(1));
    println!("last column     {}", x.i((.., -1)));
    println!("rows reversed\n{}\n", x.i((..).step(-1)));

    // Assignment copies the elements for `y`: `x` is unchanged.
    let mut y = x.clone();
    y.assign_at((0, 1..), 0.);
    println!("y =\n{y}\n");

    // Shapes broadcast and dtypes promote as in NumPy; numbers take the tensor's dtype.
    let centred = &x - x.mean(keepdims(0));
    println!("centred =\n{centred}\n{centred:?}\n");

    random::set_seed(7);
    let (a, b) = (random::normal([3], 0., 1.), random::normal([3], 0., 1.));
    random::set_seed(7);
    println!("drawn {a}, then {b}, and again {}", random::normal([3], 0., 1.));

    let total: f32 = y.sum(()).item();
    assert_eq!((total, x.to_vec::<f32>()), (16., vec![1., 2., 3., 4., 5., 6.]));
}
