//! Tests movement, products, convolutions and random tensors on the backend of this machine.
//!
//! The results are the same eagerly and compiled.

use ms::ops::{self, ConvOptions};
use ms::tensor::{Ellipsis, NewAxis, WithStep};
use ms::{DType, Tensor, random, tensor};
use ms_conformance::counted::counted;
use ms_conformance::late_errors::catch;

/// Compares the compiled form of an expression of `x` with the eager one, bit for bit.
macro_rules! same {
    ($x:expr, |$arg:ident| $body:expr) => {{
        let x = $x;
        let eager = (|$arg: &Tensor| -> Tensor { $body })(&x);
        let compiled = ms::jit(|$arg: &Tensor| -> Tensor { $body });
        for _ in 0..2 {
            let got = compiled(&x);
            assert_eq!(got.ty(), eager.ty(), "{}", stringify!($body));
            assert_eq!(got.to_string(), eager.to_string(), "{}", stringify!($body));
        }
    }};
}

#[test]
fn views_and_movement() {
    same!(counted([2, 3, 4]), |x| x.permute([2, 0, 1]));
    same!(counted([2, 3, 4]), |x| x.t().reshape([4, -1]));
    same!(counted([2, 3, 4]), |x| x.i((Ellipsis, (..).step(-2))));
    same!(counted([2, 3, 4]), |x| x.i((1, NewAxis, .., 1..3)));
    same!(counted([2, 3, 4]), |x| x.at(-1).flip([0, 1]));
    same!(counted([2, 3]), |x| x.set_at((.., 1), 9.0));
    same!(counted([2, 3]), |x| ops::concat(&[x, &x.flip(0)], 1));
    same!(counted([2, 3]), |x| ops::stack(&ops::split(x, 3, 1), 0));
    same!(counted([3, 90]), |x| ops::concat(&ops::split(x.flip(1), 90, 1), 1));
    same!(counted([90, 4]), |x| ops::stack(&ops::unstack(x.i((.., 1..4)), 0), 1));
    same!(counted([90, 0]), |x| ops::concat(&ops::unstack(x, 0), 0));
    same!(counted([2, 3]), |x| ops::tile(x, &[2, 2]));
    same!(counted([2, 3]), |x| ops::pad(x, &[(1, 0), (0, 2)], ops::PadMode::Constant(7.into())));
    same!(counted([4, 3]), |x| ops::wrapping::gather(x, tensor![2, -1, 0], 0));
    same!(counted([4, 3]), |x| ops::sort(x, 0, true).0);
    same!(counted([4, 3]), |x| ops::add(ops::sort(x, 1, false).0, x));
}

#[test]
fn creation_inside_a_graph() {
    same!(counted([3]), |x| ops::add(x, Tensor::arange(3)));
    same!(counted([3]), |x| ops::add(x, Tensor::linspace(0.0, 1.0, 3)));
    same!(counted([3]), |x| ops::add(x, Tensor::eye(3)));
    same!(counted([3]), |x| ops::add(x, Tensor::full([2, 1], 2)));
    same!(counted([3]), |x| ops::add(x, Tensor::ones_like(x)));
    same!(counted([3]), |x| ops::add(x, tensor![[1., 2., 3.]]));
    same!(counted([3]), |_x| ops::iota([2, 3], 1, DType::U8));
}

#[test]
fn products_and_convolutions() {
    same!(counted([2, 3]), |x| x.matmul(x.t()));
    same!(counted([2, 2, 3]), |x| x.matmul(x.transpose(1, 2)));
    same!(counted([2, 2, 3]), |x| x.matmul(tensor![1., 2., 3.]));
    same!(counted([1, 2, 5, 5]), |x| {
        let weight = ops::reshape(x.i((.., .., 0..3, 0..3)), [1, 2, 3, 3]);
        ops::conv2d(x, weight, None, &ConvOptions::new(2).stride(2).padding(1))
    });
    same!(counted([1, 2, 4, 4]), |x| ops::max_pool2d(x, 2));
    same!(counted([1, 2, 4, 4]), |x| ops::avg_pool2d(x, [2, 4]));
}

#[test]
fn random_numbers_are_the_same_eagerly_and_compiled() {
    let draw = |_x: &Tensor| ops::stack(&[random::randn([5]), random::uniform([5], -1.0, 1.0)], 0);
    let compiled = ms::jit(|_x: &Tensor| ops::stack(&[random::randn([5]), random::uniform([5], -1.0, 1.0)], 0));
    let x = Tensor::ones([1]);
    random::set_seed(3);
    let eager: Vec<Vec<f32>> = (0..3).map(|_| draw(&x).to_vec()).collect();
    random::set_seed(3);
    let traced: Vec<Vec<f32>> = (0..3).map(|_| compiled(&x).to_vec()).collect();
    assert_eq!(eager, traced);
    assert_ne!(eager[0], eager[1]);
    assert_eq!(random::default_generator().state().value().to_vec::<u64>(), [3, 6]);
}

#[test]
fn data_dependent_sizes_are_refused_while_tracing() {
    let count = ms::jit(|x: &Tensor| ops::nonzero(x));
    let error = catch(|| count(&tensor![1., 0.])).expect_err("the number of rows depends on data");
    assert_eq!(error.code(), ms::Code::DataDependentShape);
    for part in ["`nonzero`", "depends on data", file!()] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let read = ms::jit(|x: &Tensor| ops::full([1], x.item::<f32>()));
    let error = catch(|| read(&tensor![1.])).expect_err("the value is not known");
    assert!(error.to_string().contains(file!()), "{error}");
    assert_eq!(ops::nonzero(tensor![1., 0., 2.]).to_vec::<i64>(), [0, 2]);
}

#[test]
fn positions_outside_are_errors_of_the_run() {
    let pick = ms::jit(|index: &Tensor| ops::wrapping::gather(tensor![1., 2.], index, 0));
    assert_eq!(pick(&tensor![1, -2]).to_vec::<f32>(), [2.0, 1.0]);
    let error = catch(|| pick(&tensor![0, 2])).expect_err("outside");
    assert_eq!(error.code(), ms::Code::OutOfRange);
    assert_eq!(pick(&tensor![0, 1]).to_vec::<f32>(), [1.0, 2.0]);
}

#[test]
fn refusals_name_the_op_and_the_line_of_the_user() {
    let (x, scalar) = (counted([2, 3]), Tensor::scalar(1.0));
    let options = ConvOptions::new(2);
    type Refused<'a> = Box<dyn Fn() -> Tensor + 'a>;
    let refusals: Vec<(&str, Refused<'_>)> = vec![
        ("broadcast_to", Box::new(|| x.broadcast_to([2, 4]))),
        ("concat", Box::new(|| ops::concat(&[&x, &x.t()], 0))),
        ("conv", Box::new(|| ops::conv(counted([1, 1, 2, 2]), counted([1, 2, 1, 1]), None, &options))),
        ("conv2d", Box::new(|| ops::conv2d(&x, &x, None, &options))),
        ("conv_transpose", Box::new(|| ops::conv_transpose(&x, &x, None, &options, 0))),
        ("einsum", Box::new(|| ops::einsum("ij,jk->ik", &[&x]))),
        ("expand_dims", Box::new(|| x.expand_dims(4))),
        ("gather", Box::new(|| ops::gather(&x, tensor![5], 1))),
        ("index", Box::new(|| x.i((.., 7)))),
        ("interpolate", Box::new(|| ops::interpolate(&x, &[1], ops::Interpolation::Nearest))),
        ("matmul", Box::new(|| x.matmul(&x))),
        ("matmul", Box::new(|| x.matmul(&scalar))),
        ("max_pool", Box::new(|| ops::max_pool2d(counted([1, 1, 2, 2]), 3))),
        ("pad", Box::new(|| ops::pad(&x, &[(1, 1)], ops::PadMode::Edge))),
        ("permute", Box::new(|| x.permute([0, 0]))),
        ("reshape", Box::new(|| x.reshape([4, 2]))),
        ("reshape", Box::new(|| x.reshape([4, -1]))),
        ("scatter_add", Box::new(|| ops::scatter_add(&x, tensor![[9]], tensor![[1.]], 0))),
        ("set_at", Box::new(|| x.set_at((5, 0), 1.0))),
        ("sort", Box::new(|| ops::sort(&x, 2, false).0)),
        ("split", Box::new(|| ops::split(&x, 2, 1).remove(0))),
        ("squeeze", Box::new(|| x.squeeze(0))),
        ("stack", Box::new(|| ops::stack(&[&x], 5))),
        ("take_along_axis", Box::new(|| ops::take_along_axis(&x, tensor![0], 0))),
        ("topk", Box::new(|| ops::topk(&x, 9, 1, true).0)),
        ("transpose", Box::new(|| x.transpose(0, 2))),
        ("tril", Box::new(|| ops::tril(&scalar, 0))),
    ];
    for (op, refused) in refusals {
        let text = catch(&refused).expect_err(op).to_string();
        assert!(text.contains(file!()), "{text}");
        assert!(text.contains(&format!("`{op}`")) && text.contains("operands"), "`{op}` in {text}");
    }
}
