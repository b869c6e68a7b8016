//! Tests of movement, indexing and products against results computed by hand.

use crate::ops::core::testing::{refused, run};
use crate::ops::*;
use crate::tensor;
use crate::tensor::{DType, Ellipsis, NewAxis, Tensor, WithStep};
use ms_ir::error::Code;

/// Compares a result with a shape and values.
#[track_caller]
fn check(got: Tensor, shape: &[usize], want: &[f64]) {
    assert_eq!(got.shape(), shape);
    let array = got.try_array().expect("an array");
    let got: Vec<f64> =
        array.on_host().expect("the elements are readable").scalars().into_iter().map(|it| it.as_f64()).collect();
    assert_eq!(got, want);
}

/// `0, 1, 2, ...` with a shape.
fn counted<const N: usize>(shape: [usize; N]) -> Tensor {
    let numel = shape.iter().product::<usize>();
    Tensor::from_slice(shape, &(0..numel).map(|it| it as f32).collect::<Vec<_>>())
}

#[test]
fn creation() {
    run(|| {
        check(Tensor::zeros([2]), &[2], &[0.0; 2]);
        check(Tensor::ones(()), &[], &[1.0]);
        check(Tensor::full([2], 3), &[2], &[3.0; 2]);
        assert_eq!(Tensor::full([2], 3).dtype(), DType::I64);
        assert_eq!(zeros_like(tensor![true]).dtype(), DType::Bool);
        check(Tensor::arange(4), &[4], &[0.0, 1.0, 2.0, 3.0]);
        check(arange_of(2, 17, 3, DType::I32), &[5], &[2.0, 5.0, 8.0, 11.0, 14.0]);
        check(arange_of(0.0, 1.0, 0.25, DType::F32), &[4], &[0.0, 0.25, 0.5, 0.75]);
        check(arange_of(0.0, 4.0, 1.5, DType::I64), &[3], &[0.0, 1.0, 3.0]);
        check(arange_of(3, 0, 1, DType::I64), &[0], &[]);
        check(Tensor::linspace(0.0, 1.0, 5), &[5], &[0.0, 0.25, 0.5, 0.75, 1.0]);
        check(Tensor::linspace(2.0, 5.0, 1), &[1], &[2.0]);
        check(Tensor::eye(2), &[2, 2], &[1.0, 0.0, 0.0, 1.0]);
        check(eye_of(2, 3, 1, DType::I64), &[2, 3], &[0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
        check(iota([2, 2], 0, DType::I32), &[2, 2], &[0.0, 0.0, 1.0, 1.0]);
    });
    assert_eq!(refused(|| arange_of(0, 1, 0, DType::I64)), Code::Argument);
}

#[test]
fn views() {
    run(|| {
        let x = counted([2, 3]);
        check(x.t(), &[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        check(x.transpose(-1, 0), &[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        check(move_axis(counted([2, 1, 3]), 0, -1), &[1, 3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        check(x.flip(1), &[2, 3], &[2.0, 1.0, 0.0, 5.0, 4.0, 3.0]);
        check(x.reshape([3, -1]), &[3, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        check(x.reshape([6]), &[6], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        check(x.at(-1), &[3], &[3.0, 4.0, 5.0]);
        check(x.i((.., 0..2)), &[2, 2], &[0.0, 1.0, 3.0, 4.0]);
        check(x.i((1, 2)), &[], &[5.0]);
        check(x.i((Ellipsis, NewAxis, 1)), &[2, 1], &[1.0, 4.0]);
        check(x.i((.., (..).step(-2))), &[2, 2], &[2.0, 0.0, 5.0, 3.0]);
        check(x.expand_dims([0, -1]), &[1, 2, 3, 1], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        check(x.expand_dims(1).squeeze(1), &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        check(counted([2, 3, 1]).flatten(1), &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        check(counted([0, 3]).i(..0), &[0, 3], &[]);
    });
    let x = counted([2, 3]);
    assert_eq!(refused(|| x.at(2)), Code::OutOfRange);
    assert_eq!(refused(|| x.i((0, 0, 0))), Code::OutOfRange);
    assert_eq!(refused(|| x.reshape([4, 2])), Code::Shape);
    assert_eq!(refused(|| x.reshape([4, -1])), Code::Argument);
    assert_eq!(refused(|| x.reshape([-1, -1])), Code::Argument);
    assert_eq!(refused(|| x.squeeze(0)), Code::Shape);
    assert_eq!(refused(|| x.permute([0, 0])), Code::Argument);
    assert_eq!(refused(|| x.permute([0])), Code::Argument);
    assert_eq!(refused(|| x.transpose(0, 2)), Code::OutOfRange);
}

#[test]
fn errors_name_op_operand_and_range() {
    let error = crate::catch(|| run(|| counted([2, 3]).i((.., 5)))).expect_err("outside");
    let text = error.to_string();
    for part in ["MS102", "`index`", "index 5 is outside axis 1", "[2, 3]", "f32[2, 3]", "from -3 to 2", "tests.rs"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn updates_of_slices() {
    run(|| {
        let mut x = counted([2, 3]);
        let kept = x.clone();
        check(x.set_at(0, 9.0), &[2, 3], &[9.0, 9.0, 9.0, 3.0, 4.0, 5.0]);
        check(x.set_at((.., -1), tensor![7., 8.]), &[2, 3], &[0.0, 1.0, 7.0, 3.0, 4.0, 8.0]);
        x.assign_at((.., (..).step(-1)), tensor![[1., 2., 3.]]);
        check(x, &[2, 3], &[3.0, 2.0, 1.0, 3.0, 2.0, 1.0]);
        check(kept, &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    });
    assert_eq!(refused(|| counted([2, 3]).set_at(0, tensor![1., 2.])), Code::Shape);
    assert_eq!(refused(|| cast(counted([2, 3]), DType::I64).set_at(0, 1.5)), Code::DType);
}

#[test]
fn products() {
    run(|| {
        let (a, b) = (counted([2, 3]), counted([3, 2]));
        check(a.matmul(&b), &[2, 2], &[10.0, 13.0, 28.0, 40.0]);
        check(matmul(tensor![1., 2., 3.], &b), &[2], &[16.0, 22.0]);
        check(matmul(&a, tensor![1., 2., 3.]), &[2], &[8.0, 26.0]);
        check(matmul(tensor![1., 2.], tensor![3., 4.]), &[], &[11.0]);
        check(matmul(counted([2, 1, 3]), &b), &[2, 1, 2], &[10.0, 13.0, 28.0, 40.0]);
        check(matmul(tensor![[1., 0., 0.]], counted([2, 3, 1])), &[2, 1, 1], &[0.0, 3.0]);
        check(matmul(counted([2, 1, 1, 2]), counted([3, 2, 1])), &[2, 3, 1, 1], &[1.0, 3.0, 5.0, 3.0, 13.0, 23.0]);
        check(matmul(tensor![[true, false]], tensor![[false], [true]]), &[1, 1], &[0.0]);
        check(matmul(tensor![[250u8]], tensor![[2u8]]), &[1, 1], &[244.0]);
        check(matmul(counted([2, 0]), counted([0, 2])), &[2, 2], &[0.0; 4]);
        check(matmul(counted([0, 2]), counted([2, 3])), &[0, 3], &[]);
        assert_eq!(matmul(tensor![[1]], tensor![[1.5]]).dtype(), DType::F32);
        check(dense(tensor![[1., 2.]], tensor![[3., 4.], [5., 6.]], Some(&tensor![1., -1.])), &[1, 2], &[12.0, 16.0]);
    });
    assert_eq!(refused(|| matmul(counted([2, 3]), counted([2, 3]))), Code::Shape);
    assert_eq!(refused(|| matmul(counted([2, 2, 3]), counted([3, 3, 1]))), Code::Shape);
    assert_eq!(refused(|| matmul(counted([2]), Tensor::scalar(1.0))), Code::Shape);
}

#[test]
fn joining_and_repeating() {
    run(|| {
        let (a, b) = (tensor![[1., 2.], [3., 4.]], tensor![[5., 6.]]);
        check(concat(&[&a, &b], 0), &[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        check(concat(&[a.t(), tensor![[7], [8]]], -1), &[2, 3], &[1.0, 3.0, 7.0, 2.0, 4.0, 8.0]);
        check(stack(&[tensor![1, 2], tensor![3, 4]], 1), &[2, 2], &[1.0, 3.0, 2.0, 4.0]);
        let parts = split_sizes(counted([2, 3]), &[1, 2], 1);
        check(parts[1].clone(), &[2, 2], &[1.0, 2.0, 4.0, 5.0]);
        assert_eq!(split(counted([6, 1]), 3, 0).len(), 3);
        check(tile(tensor![1, 2], &[2, 2]), &[2, 4], &[1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
        check(repeat(tensor![[1, 2]], 2, 1), &[1, 4], &[1.0, 1.0, 2.0, 2.0]);
        check(repeat_each(tensor![1, 2, 3], &[1, 0, 2], 0), &[3], &[1.0, 3.0, 3.0]);
        check(roll(tensor![1, 2, 3, 4], &[1], 0), &[4], &[4.0, 1.0, 2.0, 3.0]);
        check(roll(tensor![1, 2, 3, 4], &[-5], 0), &[4], &[2.0, 3.0, 4.0, 1.0]);
        let x = tensor![1, 2, 3];
        check(pad(&x, &[(1, 2)], PadMode::Constant(9.into())), &[6], &[9.0, 1.0, 2.0, 3.0, 9.0, 9.0]);
        check(pad(&x, &[(2, 2)], PadMode::Reflect), &[7], &[3.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0]);
        check(pad(&x, &[(1, 1)], PadMode::Edge), &[5], &[1.0, 1.0, 2.0, 3.0, 3.0]);
        check(pad(&x, &[(1, 1)], PadMode::Wrap), &[5], &[3.0, 1.0, 2.0, 3.0, 1.0]);
    });
    assert_eq!(refused(|| concat::<Tensor>(&[], 0)), Code::Argument);
    assert_eq!(refused(|| concat(&[counted([2, 3]), counted([3, 2])], 0)), Code::Shape);
    assert_eq!(refused(|| split(counted([5]), 2, 0)), Code::Argument);
    assert_eq!(refused(|| pad(counted([0]), &[(1, 0)], PadMode::Edge)), Code::Argument);
}

#[test]
fn gathering_and_scattering() {
    run(|| {
        let x = counted([2, 3]);
        check(wrapping::gather(&x, tensor![2, 0, -1], 1), &[2, 3], &[2.0, 0.0, 2.0, 5.0, 3.0, 5.0]);
        check(gather(&x, tensor![[1], [0]], 0), &[2, 1, 3], &[3.0, 4.0, 5.0, 0.0, 1.0, 2.0]);
        check(gather(&x, Tensor::from(1u8), 0), &[3], &[3.0, 4.0, 5.0]);
        check(
            index_add(&x, tensor![0, 0], tensor![[1.], [2.]].broadcast_to([2, 3]), 0),
            &[2, 3],
            &[3.0, 4.0, 5.0, 3.0, 4.0, 5.0],
        );
        check(take_along_axis(&x, tensor![[2], [0]], 1), &[2, 1], &[2.0, 3.0]);
        check(take_along_axis(&x, tensor![[1, 0, 1]], 0), &[1, 3], &[3.0, 1.0, 5.0]);
        check(
            scatter_add(&x, tensor![[0, 0], [1, 2]], tensor![[1., 1.], [1., 1.]], 1),
            &[2, 3],
            &[2.0, 1.0, 2.0, 3.0, 5.0, 6.0],
        );
        check(wrapping::gather_nd(&x, tensor![[1, 2], [0, -3]]), &[2], &[5.0, 0.0]);
        check(one_hot(tensor![2, 0], 3), &[2, 3], &[0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
        check(nonzero(tensor![[0, 5], [7, 0]]), &[2, 2], &[0.0, 1.0, 1.0, 0.0]);
        check(nonzero(Tensor::from(1i64)), &[1, 0], &[]);
        check(masked_select(&x, tensor![true, false, true]), &[4], &[0.0, 2.0, 3.0, 5.0]);
    });
    run(|| {
        let (x, mask) = (counted([2, 3]), tensor![true, false, true]);
        check(nonzero_sized(&x, 2, -1), &[2, 2], &[0.0, 1.0, 0.0, 2.0]);
        check(nonzero_sized(tensor![0., 3., f32::NAN], 3, 9), &[3, 1], &[1.0, 2.0, 9.0]);
        check(nonzero_sized(tensor![0, 0], 2, 9), &[2, 1], &[9.0, 9.0]);
        check(nonzero_sized(&x, 0, 9), &[0, 2], &[]);
        check(nonzero_sized(counted([0, 3]), 1, 9), &[1, 2], &[9.0, 9.0]);
        check(nonzero_sized(Tensor::from(1i64), 2, 9), &[2, 0], &[]);
        check(masked_select_sized(&x, &mask, 5, -1.0), &[5], &[0.0, 2.0, 3.0, 5.0, -1.0]);
        check(masked_select_sized(&x, &mask, 3, -1.0), &[3], &[0.0, 2.0, 3.0]);
        check(masked_select_sized(counted([0, 3]), &mask, 1, 2.0), &[1], &[2.0]);
        check(masked_select_sized(Tensor::from(4i64), tensor![[true], [false]], 2, 7), &[2], &[4.0, 7.0]);
    });
    assert_eq!(refused(|| masked_select_sized(counted([2]), tensor![1, 0], 1, 0.0)), Code::DType);
    assert_eq!(refused(|| masked_select_sized(tensor![1, 2], tensor![true, false], 1, 0.5)), Code::DType);
    let x = counted([2, 3]);
    assert_eq!(refused(|| gather(&x, tensor![3], 1)), Code::OutOfRange);
    assert_eq!(refused(|| gather(&x, tensor![0.5], 1)), Code::DType);
    assert_eq!(refused(|| one_hot(tensor![0.5], 3)), Code::DType);
    assert_eq!(refused(|| one_hot(tensor![-1], 3)), Code::OutOfRange);
    assert_eq!(refused(|| one_hot(tensor![3], 3)), Code::OutOfRange);
    assert_eq!(refused(|| gather_nd(&x, tensor![[0, 0, 0]])), Code::Shape);
    assert_eq!(refused(|| masked_select(&x, tensor![1, 0, 1])), Code::DType);
    assert_eq!(refused(|| index_add(&x, tensor![0], counted([2, 3]), 0)), Code::Shape);
}

#[test]
fn sorting() {
    run(|| {
        let (values, places) = sort(tensor![3., f32::NAN, 1., 3.], 0, false);
        assert_eq!(values.to_vec::<f32>()[..3], [1.0, 3.0, 3.0]);
        check(places, &[4], &[2.0, 0.0, 3.0, 1.0]);
        check(argsort(tensor![[2, 9], [5, 9]], 0, true), &[2, 2], &[1.0, 0.0, 0.0, 1.0]);
        let (values, places) = topk(tensor![[1, 4, 2]], 2, -1, true);
        check(values, &[1, 2], &[4.0, 2.0]);
        check(places, &[1, 2], &[1.0, 2.0]);
        check(sort(tensor![true, false], 0, false).0, &[2], &[0.0, 1.0]);
    });
    assert_eq!(refused(|| topk(tensor![1, 2], 3, 0, true)), Code::Argument);
}

#[test]
fn convolution_and_pooling() {
    run(|| {
        let x = counted([1, 1, 3, 3]);
        let ones = Tensor::from_slice([1, 1, 2, 2], &[1.0f32; 4]);
        check(conv2d(&x, &ones, None, &ConvOptions::new(2)), &[1, 1, 2, 2], &[8.0, 12.0, 20.0, 24.0]);
        let strided = ConvOptions::new(2).stride(2).padding(1);
        check(conv2d(&x, &ones, Some(&tensor![0.5]), &strided), &[1, 1, 2, 2], &[0.5, 3.5, 9.5, 24.5]);
        let up = conv_transpose2d(tensor![[[[1., 2.]]]], &ones, None, &ConvOptions::new(2).stride(2), 0);
        check(up, &[1, 1, 2, 4], &[1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0]);
        check(max_pool2d(counted([1, 1, 4, 4]), 2), &[1, 1, 2, 2], &[5.0, 7.0, 13.0, 15.0]);
        check(avg_pool2d(counted([1, 1, 4, 4]), 2), &[1, 1, 2, 2], &[2.5, 4.5, 10.5, 12.5]);
        let over = PoolOptions::new(2, 2).ceil_mode(true);
        check(max_pool(&x, &over), &[1, 1, 2, 2], &[4.0, 5.0, 7.0, 8.0]);
        check(avg_pool(&x, &over), &[1, 1, 2, 2], &[2.0, 3.5, 6.5, 8.0]);
        let padded = PoolOptions::new(2, 2).padding(1);
        check(avg_pool(&x, &padded), &[1, 1, 2, 2], &[0.0, 0.75, 2.25, 6.0]);
        check(avg_pool(&x, &padded.count_include_pad(false)), &[1, 1, 2, 2], &[0.0, 1.5, 4.5, 6.0]);
        check(adaptive_avg_pool2d(&x, [1, 2]), &[1, 1, 1, 2], &[3.5, 4.5]);
    });
    let x = counted([1, 2, 3, 3]);
    let weight = counted([1, 1, 2, 2]);
    assert_eq!(refused(|| conv2d(&x, &weight, None, &ConvOptions::new(2))), Code::Shape);
    assert_eq!(refused(|| conv2d(counted([3, 3]), &weight, None, &ConvOptions::new(2))), Code::Shape);
    assert_eq!(refused(|| conv2d(counted([1, 1, 1, 1]), &weight, None, &ConvOptions::new(2))), Code::Shape);
    assert_eq!(refused(|| max_pool(&x, &PoolOptions::new(2, 2).padding(2))), Code::Argument);
    assert_eq!(refused(|| max_pool2d(&x, 4)), Code::Shape);
}

#[test]
fn triangles_and_diagonals() {
    run(|| {
        let x = counted([2, 3]);
        check(tril(&x, 0), &[2, 3], &[0.0, 0.0, 0.0, 3.0, 4.0, 0.0]);
        check(triu(&x, 1), &[2, 3], &[0.0, 1.0, 2.0, 0.0, 0.0, 5.0]);
        check(tril(counted([2, 1, 2]), -1), &[2, 1, 2], &[0.0; 4]);
        check(diag(tensor![1, 2], 0), &[2, 2], &[1.0, 0.0, 0.0, 2.0]);
        check(diag(tensor![1], -1), &[2, 2], &[0.0, 0.0, 1.0, 0.0]);
        check(diag(&x, 0), &[2], &[0.0, 4.0]);
        check(diag(&x, 2), &[1], &[2.0]);
        check(diag(&x, 3), &[0], &[]);
        check(masked_fill(&x, tensor![true, false, true], -1.0), &[2, 3], &[-1.0, 1.0, -1.0, -1.0, 4.0, -1.0]);
    });
    assert_eq!(refused(|| tril(counted([3]), 0)), Code::Shape);
    assert_eq!(refused(|| masked_fill(tensor![1, 2], tensor![true, false], 0.5)), Code::DType);
}

#[test]
fn sums_of_products() {
    run(|| {
        let (a, b) = (counted([2, 3]), counted([3, 2]));
        check(einsum("ij,jk->ik", &[&a, &b]), &[2, 2], &[10.0, 13.0, 28.0, 40.0]);
        check(einsum("ij,jk", &[&a, &b]), &[2, 2], &[10.0, 13.0, 28.0, 40.0]);
        check(einsum("ij->ji", &[&a]), &[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        check(einsum("ii", &[counted([2, 2])]), &[], &[3.0]);
        check(einsum("ii->i", &[counted([2, 2])]), &[2], &[0.0, 3.0]);
        check(einsum("i,j->ij", &[tensor![1, 2], tensor![3, 4]]), &[2, 2], &[3.0, 4.0, 6.0, 8.0]);
        check(einsum("ij,ij->i", &[&a, &a]), &[2], &[5.0, 50.0]);
        check(einsum("...j,j->...", &[&a, &tensor![1., 1., 1.]]), &[2], &[3.0, 12.0]);
        check(einsum("...i,...i", &[a.reshape([2, 1, 3]), a.reshape([1, 2, 3])]), &[2, 2], &[5.0, 14.0, 14.0, 50.0]);
        check(einsum("ab,bc,cd->", &[&a, &b, &a]), &[], &[750.0]);
    });
    let a = counted([2, 3]);
    assert_eq!(refused(|| einsum("ij,jk->ik", &[&a])), Code::Argument);
    assert_eq!(refused(|| einsum("ijk->i", &[&a])), Code::Argument);
    assert_eq!(refused(|| einsum("ij->ik", &[&a])), Code::Argument);
    assert_eq!(refused(|| einsum("ij,ij->i", &[&a, &counted([3, 2])])), Code::Shape);
}

/// Evaluates an einsum by its definition, a sum over all labels, for equations with an arrow and no ellipsis.
fn by_definition(equation: &str, operands: &[Tensor]) -> Vec<f32> {
    let (left, output) = equation.split_once("->").expect("the equation has an arrow");
    let inputs: Vec<&str> = left.split(',').collect();
    let mut sizes = std::collections::BTreeMap::new();
    for (labels, x) in inputs.iter().zip(operands) {
        labels.chars().zip(x.shape()).for_each(|(label, size)| _ = sizes.insert(label, size));
    }
    let summed = sizes.keys().copied().filter(|it| !output.contains(*it));
    let labels: Vec<char> = output.chars().chain(summed).collect();
    let own: Vec<Vec<f32>> = operands.iter().map(|it| it.to_vec()).collect();
    let results: usize = output.chars().map(|it| sizes[&it]).product();
    let steps: usize = labels.iter().map(|it| sizes[it]).product();
    let mut out = vec![0.0; results];
    for step in 0..steps {
        let (mut left, mut at) = (step, std::collections::BTreeMap::new());
        for label in labels.iter().rev() {
            at.insert(*label, left % sizes[label]);
            left /= sizes[label];
        }
        let place = |labels: &str| labels.chars().fold(0, |all, it| all * sizes[&it] + at[&it]);
        let factors = inputs.iter().zip(&own).map(|(labels, elements)| elements[place(labels)]);
        out[place(output)] += factors.product::<f32>();
    }
    out
}

#[test]
fn sums_of_products_by_definition() {
    let sizes = |label: char| [2, 3, 4, 2, 5, 3][label as usize - 'a' as usize];
    let equations = [
        "ab,bc->ca",
        "abc,cbd->da",
        "abc,bc->a",
        "abcd,cabe->bed",
        "ab,ab->",
        "ab,cd->cabd",
        "ab,bc,cd->ad",
        "ab,bc,cd,de,ef->fa",
        "a,b,c,d->dcab",
        "aab,bc->ac",
        "abca,cd->bd",
        "aa,bb->ab",
        "ab,cb,db->acd",
        "abc,ade,bdf,cef->",
        "abcd,abcd->ad",
        "ab,c->a",
        "abc->b",
        "ab,bc,ca->b",
    ];
    run(|| {
        for equation in equations {
            let (left, output) = equation.split_once("->").expect("every one has an arrow");
            let shape = |labels: &str| labels.chars().map(sizes).collect::<Vec<usize>>();
            let of_shape = |shape: &[usize]| counted([shape.iter().product()]).reshape(shape) * 0.25 - 1.0;
            let operands: Vec<Tensor> = left.split(',').map(|it| of_shape(&shape(it))).collect();
            let want = by_definition(equation, &operands);
            let got = einsum(equation, &operands);
            assert_eq!(got.shape(), shape(output), "{equation}");
            for (got, want) in got.to_vec::<f32>().into_iter().zip(want) {
                assert!((got - want).abs() <= 1e-5 * (1.0 + want.abs()), "{equation}: {got} is not {want}");
            }
        }
        // Equations with an ellipsis, also in the middle, and of different lengths.
        let (a, b) = (counted([2, 3, 4]), counted([4, 3]));
        let (elided, named) = (einsum("i...j,j...->...i", &[&a, &b]), einsum("ikj,jk->ki", &[&a, &b]));
        assert_eq!(elided.to_vec::<f32>(), named.to_vec::<f32>());
        let (elided, named) = (einsum("...ij,jk", &[&a, &b]), einsum("aij,jk->aik", &[&a, &b]));
        assert_eq!((elided.shape(), elided.to_vec::<f32>()), (named.shape(), named.to_vec::<f32>()));
    });
}

#[test]
fn the_last_of_several_scattered_elements_stays() {
    run(|| {
        let (x, index) = (counted([3]), tensor![1, 1]);
        check(scatter(&x, &index, tensor![8., 9.], 0), &[3], &[0.0, 9.0, 2.0]);
        check(wrapping::scatter(&x, tensor![-1], tensor![7.], 0), &[3], &[0.0, 1.0, 7.0]);
    });
    assert_eq!(refused(|| scatter(counted([3]), tensor![3], tensor![1.], 0)), Code::OutOfRange);
}

#[test]
fn pictures_in_another_size() {
    run(|| {
        let x = tensor![[[[0., 4.]]]];
        let linear = |align_corners| Interpolation::Linear { align_corners };
        check(interpolate(&x, &[1, 4], Interpolation::Nearest), &[1, 1, 1, 4], &[0.0, 0.0, 4.0, 4.0]);
        check(interpolate(&x, &[1, 4], linear(false)), &[1, 1, 1, 4], &[0.0, 1.0, 3.0, 4.0]);
        check(interpolate(&x, &[2, 3], linear(true)), &[1, 1, 2, 3], &[0.0, 2.0, 4.0, 0.0, 2.0, 4.0]);
    });
}

#[test]
fn usual_compositions() {
    const INF: f32 = f32::INFINITY;
    run(|| {
        check(addn(&[tensor![[1.], [2.]], tensor![[3., 4.]]]), &[2, 2], &[4.0, 5.0, 5.0, 6.0]);
        check(exp2(tensor![3, -2]), &[2], &[8.0, 0.25]);
        check(
            logaddexp(tensor![INF, -INF, -INF, 0.], tensor![INF, -INF, INF, -INF]),
            &[4],
            &[f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY, 0.0],
        );
        check(isclose(tensor![INF, INF, 1.], tensor![INF, -INF, INF], 1e-5, 1e-8, false), &[3], &[1.0, 0.0, 0.0]);
        check(isclose(tensor![f32::NAN], tensor![f32::NAN], 1e-5, 1e-8, false), &[1], &[0.0]);
        check(isclose(tensor![3, 4], tensor![3, 5], 0.0, 0.5, false), &[2], &[1.0, 0.0]);
        check(lerp(tensor![0., 10.], tensor![4., 20.], tensor![1., 0.5]), &[2], &[4.0, 15.0]);
        check(unstack(counted([2, 3]), -1)[2].clone(), &[2], &[2.0, 5.0]);
        assert!(unstack(counted([2, 0]), 1).is_empty());
        assert_eq!(meshgrid(&[tensor![1], tensor![2, 3], tensor![4, 5]])[1].shape(), [1, 2, 2]);
        check(count_nonzero(counted([2, 3]), [0, 1]), &[], &[5.0]);
    });
    assert_eq!(refused(|| addn::<Tensor>(&[])), Code::Argument);
    assert_eq!(refused(|| outer(counted([2, 2]), counted([2]))), Code::Shape);
    assert_eq!(refused(|| bmm(counted([2, 2]), counted([2, 2]))), Code::Shape);
    assert_eq!(refused(|| meshgrid(&[counted([2, 2])])), Code::Shape);
    assert_eq!(refused(|| unstack(counted([2]), 1)), Code::OutOfRange);
}
