//! Gradients: of functions, of networks, of compiled functions, and of gradients.

use ms::prelude::*;

#[jit]
fn cubed(x: &Tensor) -> Tensor {
    x * x * x
}

fn main() {
    let x = tensor![1., 2., 3.];
    let first = |x: &Tensor| ms::grad(|x: &Tensor| cubed(x).sum(()))(x);
    let second = |x: &Tensor| ms::grad(|x: &Tensor| first(x).sum(()))(x);
    println!("x³   {}", cubed(&x));
    println!("3x²  {}", first(&x));
    println!("6x   {}", second(&x));

    // A network stands for its trainable parameters.
    let net = nn::Dense::new(3, 2);
    let loss = |net: &nn::Dense| ops::mse_loss(net.call(&x), tensor![0., 1.]);
    let (value, gradients) = ms::value_and_grad(loss)(&net);
    println!("loss {value}");
    for (parameter, gradient) in gradients.iter() {
        println!("gradient of a parameter of shape {:?}:\n{gradient}", parameter.value().shape());
    }
    assert_eq!((first(&x).to_vec::<f32>(), second(&x).to_vec::<f32>()), (vec![3., 12., 27.], vec![6., 12., 18.]));
}
