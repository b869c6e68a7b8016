//! Samples of operands for generated tests.

use crate::data::{Array, Attrs, DType, Element, Scalar};
use crate::with_element;

/// A set of operands for generated tests of an op.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The attributes.
    pub attrs: Attrs,
    /// The operands.
    pub inputs: Vec<SampleInput>,
}

/// An operand: random values of a shape and dtype in a range, away from kinks.
#[derive(Clone, Debug)]
pub struct SampleInput {
    /// Sizes of the dimensions.
    pub shape: Vec<usize>,
    /// The element type.
    pub dtype: DType,
    /// The minimum.
    pub low: f64,
    /// The maximum.
    pub high: f64,
}

impl Sample {
    /// Creates a sample without attributes.
    pub fn new(inputs: impl IntoIterator<Item = SampleInput>) -> Self {
        Self { attrs: Attrs::none(), inputs: inputs.into_iter().collect() }
    }

    /// Sets the attributes.
    pub fn attrs(mut self, attrs: Attrs) -> Self {
        self.attrs = attrs;
        self
    }

    /// Returns the operands.
    pub fn arrays(&self) -> Vec<Array> {
        self.inputs.iter().enumerate().map(|(seed, it)| it.array(seed)).collect()
    }
}

impl SampleInput {
    /// Creates an f32 operand with values in a range.
    pub fn f32(shape: &[usize], low: f64, high: f64) -> Self {
        Self { shape: shape.to_vec(), dtype: DType::F32, low, high }
    }

    /// Creates an operand of another dtype.
    pub fn of(dtype: DType, shape: &[usize], low: f64, high: f64) -> Self {
        Self { shape: shape.to_vec(), dtype, low, high }
    }
    /// Returns evenly distributed values of the range, different for every `seed`.
    pub fn array(&self, seed: usize) -> Array {
        let mut out = Array::zeros(&self.shape, self.dtype);
        with_element!(self.dtype, T => {
            for (i, to) in out.as_mut_slice::<T>().iter_mut().enumerate() {
                // Multiples of the golden ratio modulo one are evenly distributed.
                let unit = ((i + 1) as f64 * 0.618_033_988_749_894_9 + seed as f64 * 0.37).fract();
                *to = <T as Element>::from_scalar(match self.dtype.is_float() {
                    true => Scalar::Float(self.low + unit * (self.high - self.low)),
                    false => Scalar::Int((self.low + unit * (self.high - self.low + 1.0)).floor() as i64),
                });
            }
        });
        out
    }
}
