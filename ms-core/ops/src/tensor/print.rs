//! Printing of tensors: arrays as in NumPy, and the types of traced values.

use super::tensor::Tensor;
use ms_ir::data::Array;
use std::fmt;

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.as_array(), self.as_traced()) {
            (Some(array), _) => fmt::Display::fmt(array, f),
            (None, Some(traced)) => write!(f, "Tensor<traced {}>", traced.ty),
            (None, None) => unreachable!("a tensor is an array or a traced value"),
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_array() {
            Some(array) => write!(f, "Tensor<{}>{}{array}", array.ty(), separator(array)),
            None => fmt::Display::fmt(self, f),
        }
    }
}

fn separator(array: &Array) -> &'static str {
    if array.layout().rank() > 1 { "\n" } else { " " }
}

#[cfg(test)]
mod tests {
    use crate::tensor;
    use crate::tensor::{Tensor, Traced, Type};

    fn check(tensor: Tensor, want: &str) {
        assert_eq!(tensor.to_string(), want);
    }

    #[test]
    fn as_numpy_prints() {
        check(tensor![[1., 2.], [3., 4.]], "[[1. 2.]\n [3. 4.]]");
        check(tensor![1., 2.25, -10.5], "[  1.     2.25 -10.5 ]");
        check(tensor![0.1, 0.33333334], "[0.1        0.33333334]");
        check(tensor![1e-5, 1e10], "[1.e-05 1.e+10]");
        check(tensor![1.25e-5, 1.0], "[1.25e-05 1.00e+00]");
        check(tensor![0.001, 10.], "[1.e-03 1.e+01]");
        check(tensor![1.0 / 3.0; f64], "[0.33333333]");
        check(tensor![f32::NAN, 1.0, f32::NEG_INFINITY], "[ nan   1. -inf]");
        check(tensor![0., 0.], "[0. 0.]");
        check(tensor![[1, -20], [300, 4]], "[[  1 -20]\n [300   4]]");
        check(tensor![true, false], "[ true false]");
        check(tensor![[[1], [2]], [[3], [4]]], "[[[1]\n  [2]]\n\n [[3]\n  [4]]]");
        check(Tensor::from(3.0f32), "3.0");
        check(Tensor::from(1e-7f32), "1.e-07");
        check(Tensor::from(7i64), "7");
        check(Tensor::from([half::f16::from_f32(0.1)]), "[0.1]");
        check(tensor![], "[]");
    }

    #[test]
    fn long_axes_are_summarised_and_lines_wrapped() {
        let long: Vec<i64> = (0..2000).collect();
        check(Tensor::from(&long), "[   0    1    2 ... 1997 1998 1999]");
        check(
            Tensor::from_slice([500, 4], &long),
            "[[   0    1    2    3]\n [   4    5    6    7]\n [   8    9   10   11]\n ...\n [1988 1989 1990 1991]\n \
             [1992 1993 1994 1995]\n [1996 1997 1998 1999]]",
        );
        let wrapped = Tensor::from(&long[..40]).to_string();
        assert!(wrapped.lines().count() == 2 && wrapped.lines().all(|it| it.len() <= 75), "{wrapped}");
        assert!(wrapped.lines().nth(1).is_some_and(|it| it.starts_with(" 2")), "{wrapped}");
    }

    #[test]
    fn debug_adds_the_type_and_traced_values_show_only_it() {
        assert_eq!(format!("{:?}", tensor![1, 2]), "Tensor<i64[2]> [1 2]");
        assert_eq!(format!("{:?}", tensor![[1, 2]]), "Tensor<i64[1, 2]>\n[[1 2]]");
        let ty = Type::of(crate::DType::F32, &[64, 10]);
        let traced =
            Traced { trace: 0, frame: 0, value: 0, shape: ty.shape().unwrap_or_default(), ty, poisoned: false };
        assert_eq!(Tensor::from_traced(traced).to_string(), "Tensor<traced f32[64, 10]>");
    }
}
