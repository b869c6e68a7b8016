//! Compares quantisation with the formulas of ONNX for single elements, and its gradients with PyTorch's.

use super::numbers;
use ms::ops;
use ms::{Code, DType, Tensor, tensor};
use ms_conformance::late_errors::catch;

/// The shapes of a case: of `x`, of the scales, and where they apply.
struct Form {
    shape: &'static [usize],
    scales: &'static [usize],
    axis: isize,
    block: usize,
}

impl Form {
    /// Returns the position of the scale of each element.
    fn positions(&self) -> Vec<usize> {
        let strides =
            |shape: &[usize]| -> Vec<usize> { (0..shape.len()).map(|at| shape[at + 1..].iter().product()).collect() };
        let (own, of_scales) = (strides(self.shape), strides(self.scales));
        let axis = self.axis.rem_euclid(self.shape.len().max(1) as isize) as usize;
        let position = |at: usize| {
            let index = |axis: usize| at / own[axis] % self.shape[axis];
            match (self.scales.len(), self.block) {
                (0, _) => 0,
                (_, 0) => index(axis),
                (rank, block) => {
                    (0..rank).map(|it| of_scales[it] * if it == axis { index(it) / block } else { index(it) }).sum()
                }
            }
        };
        (0..self.shape.iter().product()).map(position).collect()
    }
}

fn range(dtype: DType) -> [f32; 2] {
    match dtype {
        DType::I8 => [-128.0, 127.0],
        DType::U8 => [0.0, 255.0],
        DType::I16 => [-32768.0, 32767.0],
        _ => [0.0, 65535.0],
    }
}

/// Returns the quantised and the restored numbers, the simulated ones, and the gradient of the sum of their squares.
fn all(x: &Tensor, scale: &Tensor, zero: &Tensor, axis: &i64, block: &usize) -> (Tensor, Tensor, Tensor, Tensor) {
    let (axis, block) = (*axis as isize, *block);
    let q = ops::quantize(x, scale, zero, axis, block);
    let y = q.dequantize(scale, zero, axis, block);
    let squares = |x: &Tensor| x.fake_quantize(scale, zero, axis, block).square().sum(());
    (q, y, x.fake_quantize(scale, zero, axis, block), ms::grad(squares)(x))
}

/// Quantises numbers, some of them far outside of the range, and the results back, eagerly and compiled.
fn check(form: &Form, dtype: DType) {
    let (positions, [low, high]) = (form.positions(), range(dtype));
    let count: usize = form.scales.iter().product();
    let scales: Vec<f32> = (0..count).map(|it| [0.5, 0.3, 2.0, 0.01, 1.7][it % 5]).collect();
    let zeros: Vec<f32> = (0..count).map(|it| [0.0, 3.0, 100.0, 7.0][it % 4]).collect();
    let number = |at: usize| match at % 7 {
        // Halves of the first scales, and the ends of the range.
        0 => 0.25 * (at as f32 - 9.0),
        1 => f32::INFINITY,
        2 => -1e30,
        3 => (high + 0.5) * 0.5,
        _ => (at as f32 * 1.37).sin() * high / 3.0,
    };
    let x: Vec<f32> = (0..positions.len()).map(number).collect();
    let quantized = |(&x, &at): (&f32, &usize)| (x / scales[at]).round_ties_even() + zeros[at];
    let exceeding: Vec<f32> = x.iter().zip(&positions).map(quantized).collect();
    let integers: Vec<f32> = exceeding.iter().map(|it| it.clamp(low, high)).collect();
    let restored: Vec<f32> = integers.iter().zip(&positions).map(|(q, &at)| (q - zeros[at]) * scales[at]).collect();
    // The gradient of the sum of squares of the restored numbers.
    let is_inside = |it: &f32| (low..=high).contains(it);
    let slopes: Vec<f32> =
        restored.iter().zip(&exceeding).map(|(y, q)| if is_inside(q) { 2.0 * y } else { 0.0 }).collect();

    let (scale, zero) = (Tensor::from_slice(form.scales, &scales), Tensor::from_slice(form.scales, &zeros).cast(dtype));
    let x = Tensor::from_slice(form.shape, &x);
    let (axis, block) = (form.axis as i64, form.block);
    let compiled = ms::jit(all)(&x, &scale, &zero, &axis, &block);
    for (q, y, simulated, gradient) in [all(&x, &scale, &zero, &axis, &block), compiled] {
        assert_eq!([q.dtype(), y.dtype()], [dtype, DType::F32]);
        assert_eq!(numbers(&q), integers.iter().map(|it| f64::from(*it)).collect::<Vec<_>>(), "{dtype}");
        assert_eq!(y.to_vec::<f32>(), restored, "{dtype}");
        assert_eq!(simulated.to_vec::<f32>(), restored, "{dtype}");
        assert_eq!(gradient.to_vec::<f32>(), slopes, "{dtype}");
    }
}

#[test]
fn numbers_are_those_of_the_formulas() {
    let forms = [
        Form { shape: &[23], scales: &[], axis: 5, block: 0 },
        Form { shape: &[], scales: &[], axis: 0, block: 0 },
        Form { shape: &[4, 7], scales: &[4], axis: 0, block: 0 },
        Form { shape: &[2, 5, 3], scales: &[5], axis: -2, block: 0 },
        Form { shape: &[2, 5, 3], scales: &[2, 3, 3], axis: 1, block: 2 },
        Form { shape: &[3, 8], scales: &[3, 1], axis: 1, block: 9 },
        Form { shape: &[6], scales: &[2], axis: 0, block: 3 },
        Form { shape: &[0, 2], scales: &[2], axis: 1, block: 0 },
    ];
    for form in &forms {
        [DType::I8, DType::U8, DType::I16, DType::U16].into_iter().for_each(|it| check(form, it));
    }
}

/// Examples of the standard: `QuantizeLinear` and `DequantizeLinear` of version 21.
#[test]
fn examples_of_the_standard() {
    let of = |x: &[f32]| Tensor::from_slice([x.len()], x);
    let (two, zero) = (tensor![2.0].squeeze(0), tensor![128u8].squeeze(0));
    let q = ops::quantize(of(&[0.0, 2.0, 3.0, 1000.0, -254.0, -1000.0]), &two, &zero, 1, 0);
    assert_eq!(q.to_vec::<u8>(), [128, 129, 130, 255, 1, 0]);
    let x = ops::dequantize(tensor![0u8, 3, 128, 255], &two, &zero, 1, 0);
    assert_eq!(x.to_vec::<f32>(), [-256.0, -250.0, 0.0, 254.0]);
    let x = tensor![[6.0, 12.0, 50.0, 5.0], [1.0, 8.0, 4.0, 5.0], [0.0, 20.0, 10.0, 4.0]];
    let scale = tensor![[1.5, 2.5], [3.0, 4.9], [5.1, 6.9]];
    let q = ops::quantize(x, scale, tensor![[0u8, 1], [1, 0], [2, 3]], 1, 2);
    assert_eq!(q.to_vec::<u8>(), [4, 8, 21, 3, 1, 4, 1, 1, 2, 6, 4, 4]);
}

/// The sum of a product is in i32, whose scale is the product of the scales. f16 is computed in f32.
#[test]
fn other_dtypes() {
    let q = tensor![[70000i32, -3], [5, 1]];
    let x = ops::dequantize(&q, tensor![0.5, 2.0], tensor![0i32, 1], 1, 0);
    assert_eq!(x.to_vec::<f32>(), [35000.0, -8.0, 2.5, 0.0]);
    let half = |it: Tensor| it.cast(DType::F16);
    let (x, scale, zero) =
        (half(tensor![1.0, 60000.0, -3.0]), half(tensor![0.25].squeeze(0)), tensor![2i16].squeeze(0));
    let q = ops::quantize(&x, &scale, &zero, 0, 0);
    assert_eq!(q.to_vec::<i16>(), [6, 32767, -10]);
    let y = ops::dequantize(&q, &scale, &zero, 0, 0);
    assert_eq!((y.dtype(), numbers(&y)), (DType::F16, vec![1.0, 8192.0, -3.0]));
    // An integer is converted to the dtype of the scale.
    assert_eq!(ops::quantize(tensor![7, -3], tensor![2.0, 2.0], tensor![0i8, 0], 0, 0).to_vec::<i8>(), [4, -2]);
}

/// The scales of `dequantize` have gradients, and quantised numbers have none.
#[test]
fn gradients_of_scales() {
    let q = tensor![[1i8, 2, 3], [4, 5, 6]];
    let zero = tensor![1i8, 1];
    let sum = |scale: &Tensor| ops::dequantize(&q, scale, &zero, 0, 0).sum(());
    assert_eq!(ms::grad(sum)(&tensor![1.0, 1.0]).to_vec::<f32>(), [3.0, 12.0]);
    let of_scale = |scale: &Tensor| ops::fake_quantize(tensor![1.0, 2.0], scale, &zero, 0, 0).sum(());
    assert_eq!(ms::grad(of_scale)(&tensor![1.0, 1.0]).to_vec::<f32>(), [0.0, 0.0]);
}

#[test]
fn what_is_refused() {
    #[track_caller]
    fn check(code: Code, words: &str, scales: &[usize], zeros: &Tensor, axis: isize, block: usize) {
        let x = Tensor::ones([4, 6]);
        let error = catch(|| ops::quantize(&x, Tensor::ones(scales), zeros, axis, block)).expect_err("it is refused");
        assert!(error.code() == code && error.to_string().contains(words), "{error}");
        let q = ops::ones([4, 6]).cast(zeros.dtype());
        let other = catch(|| ops::dequantize(&q, Tensor::ones(scales), zeros, axis, block)).err();
        assert_eq!(other.map(|it| it.code()), Some(code));
    }

    let zeros = |shape: &[usize]| Tensor::zeros(shape).cast(DType::I8);
    check(Code::DType, "quantised to i8, u8, i16 or u16", &[], &tensor![0.0].squeeze(0), 0, 0);
    check(Code::Shape, "the zeros", &[4], &zeros(&[]), 0, 0);
    check(Code::Shape, "one scale for each position along axis 1", &[4], &zeros(&[4]), 1, 0);
    check(Code::Shape, "one scale for each position", &[4, 6], &zeros(&[4, 6]), 1, 0);
    check(Code::Shape, "each block of 4 positions along axis 1", &[4, 3], &zeros(&[4, 3]), 1, 4);
    check(Code::Shape, "each block of 4 positions along axis 1", &[1, 2], &zeros(&[1, 2]), 1, 4);
    check(Code::OutOfRange, "axis", &[4], &zeros(&[4]), 2, 0);
    let integer = catch(|| ops::quantize(tensor![1.0], tensor![1], tensor![0i8], 0, 0)).expect_err("it is refused");
    assert!(integer.code() == Code::DType && integer.to_string().contains("not floats"), "{integer}");
    let wide = catch(|| ops::quantize(tensor![1.0], tensor![1.0], tensor![0i32], 0, 0)).expect_err("it is refused");
    assert_eq!(wide.code(), Code::DType);
    let differ = catch(|| ops::dequantize(tensor![1u8], tensor![1.0], tensor![0i8], 0, 0)).expect_err("it is refused");
    assert_eq!(differ.code(), Code::DType);
}
