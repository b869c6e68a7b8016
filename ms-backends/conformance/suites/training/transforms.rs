//! Tests transforms of images: their choices, their order, and their refusals.

use ms::Code;
use ms::data::{center_crop, normalize, random_crop, random_horizontal_flip, random_vertical_flip};
use ms::prelude::*;

/// Returns an image `[2, 4, 5]` of elements that equal their positions.
fn image(dtype: DType) -> Tensor {
    Tensor::arange(40).reshape([2, 4, 5]).cast(dtype)
}

#[test]
fn parts_and_mirrors() {
    for dtype in [DType::U8, DType::I64, DType::F32] {
        let middle = center_crop(&image(dtype), 2, 2).expect("it fits");
        assert_eq!((middle.dtype(), middle.shape()), (dtype, &[2, 2, 2][..]));
        assert_eq!(middle.cast(DType::I64).to_vec::<i64>(), [6, 7, 11, 12, 26, 27, 31, 32]);
        let whole = center_crop(&image(dtype), 4, 5).expect("it fits");
        assert_eq!(whole.cast(DType::I64).to_vec::<i64>(), image(DType::I64).to_vec::<i64>());
    }
    let mirrored = random_horizontal_flip(&image(DType::I64).i(0), 1.0).expect("an image");
    assert_eq!(mirrored.to_vec::<i64>()[..5], [4, 3, 2, 1, 0]);
    let turned = random_vertical_flip(&image(DType::I64), 1.0).expect("an image");
    assert_eq!(turned.to_vec::<i64>()[..5], [15, 16, 17, 18, 19]);
    assert_eq!(random_vertical_flip(&image(DType::U8), 0.0).expect("an image").to_vec::<u8>()[..3], [0, 1, 2]);
    let scaled = normalize(&image(DType::U8), &[1.0, 20.0], &[2.0, 0.5]).expect("two channels");
    assert_eq!((scaled.dtype(), scaled.to_vec::<f32>()[19], scaled.to_vec::<f32>()[21]), (DType::F32, 9.0, 2.0));
    assert_eq!(normalize(&image(DType::F16), &[0.0; 2], &[1.0; 2]).expect("two channels").dtype(), DType::F16);
}

/// Every position of a crop occurs. Its content is the image's or padding, and workers change nothing.
#[test]
fn random_choices_are_those_of_the_seed() {
    let images = TensorDataset::new(ops::broadcast_to(image(DType::I64).expand_dims(0), [200, 2, 4, 5]));
    let cropped = images.try_map(|it| random_horizontal_flip(&random_crop(&it, 3, 4, 1)?, 0.5));
    let drawn = |seed, workers| {
        let loader = DataLoader::new(cropped.clone().batch(200)).seed(seed).workers(workers);
        loader.draw().expect("all fit").to_vec::<i64>()
    };
    let all = drawn(1, 0);
    assert_eq!(all, drawn(1, 3));
    assert_ne!(all, drawn(2, 0));
    let mut seen = std::collections::HashSet::new();
    let at = |row: i64, column: i64| {
        let inside = (0..4).contains(&row) && (0..5).contains(&column);
        if inside { row * 5 + column } else { 0 }
    };
    for part in all.chunks(24) {
        let found = (-1..3).flat_map(|row| (-1..3).flat_map(move |column| [(row, column, false), (row, column, true)]));
        let place = found.into_iter().find(|&(row, column, flipped)| {
            (0..12).all(|it| {
                let x = if flipped { 3 - it % 4 } else { it % 4 };
                part[it as usize] == at(row + it / 4, column + x)
            })
        });
        seen.insert(place.expect("a part of the padded image"));
    }
    // There are four positions along each axis, mirrored and not.
    assert_eq!(seen.len(), 32);
}

#[test]
fn what_is_no_image_is_refused() {
    let (image, row) = (image(DType::F32), tensor![1.0, 2.0]);
    let cases = [
        (center_crop(&image, 5, 2), Code::Shape, "a part of 5 x 2 is larger"),
        (center_crop(&image, 0, 2), Code::Argument, "height"),
        (center_crop(&row, 1, 1), Code::Shape, "rows and columns"),
        (random_crop(&image, 4, 8, 1), Code::Shape, "a part of 4 x 8 is larger"),
        (random_crop(&row, 1, 1, 1), Code::Shape, "rows and columns"),
        (random_horizontal_flip(&image, 1.5), Code::Argument, "probability"),
        (random_vertical_flip(&row, 0.5), Code::Shape, "rows and columns"),
        (normalize(&image, &[0.0], &[1.0]), Code::Shape, "1 means and 1 deviations"),
        (normalize(&image, &[0.0; 2], &[1.0, 0.0]), Code::Argument, "a number of a channel"),
    ];
    for (at, (result, code, words)) in cases.into_iter().enumerate() {
        let error = result.expect_err(words);
        assert!(error.code() == code && error.to_string().contains(words), "case {at}: {error}");
    }
}
