//! Image transforms for functions of [`Dataset::map`](super::Dataset::map).
//!
//! The last two axes of an image are its rows and columns: `[3, height, width]`, or a batch of such images. Random
//! transforms draw from the default generator, which in a dataset depends on the sample and the epoch only.

use ms_core::ops::rules::{Interval, check_interval, check_positive};
use ms_core::ops::{self, PadMode};
use ms_core::tensor::Scalar;
use ms_core::{Code, DType, Error, Result, Tensor, random};

/// Returns the height and width of an image.
fn size_of(op: &'static str, image: &Tensor) -> Result<[usize; 2]> {
    match image.shape() {
        &[.., height, width] => Ok([height, width]),
        _ => Err(refused(op, image, "an image has rows and columns along its last two axes")),
    }
}

fn refused(op: &str, image: &Tensor, message: impl Into<String>) -> Error {
    Error::new(Code::Shape, message.into()).with_op(op).with_operands([image.ty().to_string()])
}

/// Crops an image to `size`, with the top left corner at `start`.
fn part(image: &Tensor, start: [usize; 2], size: [usize; 2]) -> Tensor {
    let outer = image.rank() - 2;
    let starts: Vec<usize> = std::iter::repeat_n(0, outer).chain(start).collect();
    let sizes: Vec<usize> = image.shape()[..outer].iter().copied().chain(size).collect();
    ops::slice(image, &starts, &sizes)
}

/// Returns the excess of an image over a crop of this size, in rows and columns.
fn room(op: &'static str, image: &Tensor, [height, width]: [usize; 2]) -> Result<[usize; 2]> {
    check_positive(op, "height", height)?;
    check_positive(op, "width", width)?;
    let [rows, columns] = size_of(op, image)?;
    match (rows.checked_sub(height), columns.checked_sub(width)) {
        (Some(above), Some(left)) => Ok([above, left]),
        _ => Err(refused(op, image, format!("a part of {height} x {width} is larger than the image"))),
    }
}

/// Crops the centre of an image, like torchvision's and MindSpore's `CenterCrop`. If the excess is odd, one more row or
/// column is removed below or on the right.
///
/// # Errors
/// [`Code::Shape`] for an image that is smaller than the crop, [`Code::Argument`] for a size of zero.
///
/// ```
/// use ms::{data::center_crop, prelude::*};
/// let image = Tensor::arange(16).reshape([1, 4, 4]);
/// assert_eq!(center_crop(&image, 2, 2)?.to_vec::<i64>(), [5, 6, 9, 10]);
/// # Ok::<(), ms::Error>(())
/// ```
pub fn center_crop(image: &Tensor, height: usize, width: usize) -> Result<Tensor> {
    let room = room("center_crop", image, [height, width])?;
    Ok(part(image, room.map(|it| it / 2), [height, width]))
}

/// Crops a random part of an image after zero padding on all sides, like torchvision's and MindSpore's `RandomCrop`.
///
/// # Errors
/// [`Code::Shape`] if the padded image is smaller than the crop, [`Code::Argument`] for a size of zero.
///
/// ```
/// use ms::{data::random_crop, prelude::*};
/// let images = TensorDataset::new(Tensor::ones([8, 3, 32, 32])).try_map(|image| random_crop(&image, 32, 32, 4));
/// assert_eq!(DataLoader::new(images.batch(8)).seed(1).draw()?.shape(), [8, 3, 32, 32]);
/// # Ok::<(), ms::Error>(())
/// ```
pub fn random_crop(image: &Tensor, height: usize, width: usize, padding: usize) -> Result<Tensor> {
    size_of("random_crop", image)?;
    let sides = |axis: usize| if axis + 2 < image.rank() { (0, 0) } else { (padding, padding) };
    let padded = match padding {
        0 => image.clone(),
        _ => ops::pad(image, &(0..image.rank()).map(sides).collect::<Vec<_>>(), PadMode::Constant(Scalar::Int(0))),
    };
    let room = room("random_crop", &padded, [height, width])?;
    let start = room.map(|it| random::randint((), 0, it as i64 + 1).item::<i64>() as usize);
    Ok(part(&padded, start, [height, width]))
}

/// Reverses an image along an axis, counted from the end, with this probability.
fn flipped(op: &'static str, image: &Tensor, probability: f64, axis: i64) -> Result<Tensor> {
    check_interval(op, "probability", probability, &Interval::SHARE)?;
    size_of(op, image)?;
    let flips = random::bernoulli((), probability).item::<bool>();
    Ok(if flips { image.flip(axis) } else { image.clone() })
}

/// Flips an image horizontally with this probability: reverses its columns.
///
/// # Errors
/// [`Code::Shape`] for fewer than two axes, [`Code::Argument`] for a probability outside of `0..=1`.
///
/// ```
/// use ms::{data::random_horizontal_flip, prelude::*};
/// let image = tensor![[1, 2], [3, 4]];
/// assert_eq!(random_horizontal_flip(&image, 1.0)?.to_vec::<i64>(), [2, 1, 4, 3]);
/// # Ok::<(), ms::Error>(())
/// ```
pub fn random_horizontal_flip(image: &Tensor, probability: f64) -> Result<Tensor> {
    flipped("random_horizontal_flip", image, probability, -1)
}

/// Flips an image vertically with this probability: reverses its rows.
///
/// ```
/// use ms::{data::random_vertical_flip, prelude::*};
/// let image = tensor![[1, 2], [3, 4]];
/// assert_eq!(random_vertical_flip(&image, 1.0)?.to_vec::<i64>(), [3, 4, 1, 2]);
/// # Ok::<(), ms::Error>(())
/// ```
///
/// # Errors
/// The errors of [`random_horizontal_flip`].
pub fn random_vertical_flip(image: &Tensor, probability: f64) -> Result<Tensor> {
    flipped("random_vertical_flip", image, probability, -2)
}

/// Computes `(image - mean) / std` with one number for each channel, the third axis from the end. Integers are
/// converted to f32, but not scaled: divide a u8 image by 255 first if `mean` and `std` refer to `0..=1`.
///
/// # Errors
/// [`Code::Shape`] for a wrong number of channels, [`Code::Argument`] for a `std` that is zero or not finite.
///
/// ```
/// use ms::{data::normalize, prelude::*};
/// let image = Tensor::full([3, 1, 1], 6.0);
/// assert_eq!(normalize(&image, &[2.0, 4.0, 6.0], &[2.0, 1.0, 0.5])?.to_vec::<f32>(), [2.0, 2.0, 0.0]);
/// # Ok::<(), ms::Error>(())
/// ```
pub fn normalize(image: &Tensor, mean: &[f64], std: &[f64]) -> Result<Tensor> {
    let channels = match image.shape() {
        &[.., channels, _, _] if channels == mean.len() && channels == std.len() => channels,
        _ => {
            let message = format!("{} means and {} deviations are those of another image", mean.len(), std.len());
            return Err(refused("normalize", image, message));
        }
    };
    for (values, interval) in [(mean, &Interval::FINITE), (std, &Interval::POSITIVE)] {
        values.iter().try_for_each(|&it| check_interval("normalize", "a number of a channel", it, interval))?;
    }
    let dtype = if image.dtype().is_float() { image.dtype() } else { DType::F32 };
    let of_channels = |values: &[f64]| Tensor::from_slice([channels, 1, 1], values).cast(dtype);
    Ok((image.cast(dtype) - of_channels(mean)) / of_channels(std))
}
