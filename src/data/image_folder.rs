//! Image folders, decoded by the `image` crate.

use super::dataset::{Dataset, check_index};
use super::epoch::Epoch;
use super::file::{read, refuse};
use image::imageops::{self, FilterType};
use image::{ImageReader, Limits, RgbImage};
use ms_core::error::in_op;
use ms_core::ops::rules::check_positive;
use ms_core::tensor::Array;
use ms_core::{Code, DType, Error, Result, Tensor};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The PNG and JPEG files of a folder with one subfolder for each class: `root/cat/1.png`. Classes and files are sorted
/// by name. Files with other extensions are ignored.
///
/// A sample is an RGB image and its class index: u8 `[3, height, width]` and i64 `[]`. The file is read and decoded
/// when the sample is accessed. Available with the feature `image`.
///
/// ```no_run
/// use ms::data::{ImageFolder, resize};
/// use ms::prelude::*;
/// let images = ImageFolder::open("flowers")?;
/// println!("{:?}", images.classes());
/// let images = images.try_map(|(image, class)| Ok((resize(&image, 64, 64)?.cast(DType::F32) / 255.0, class)));
/// let loader = DataLoader::new(images.shuffle().batch(32)).workers(4);
/// # let _ = loader;
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ImageFolder {
    classes: Arc<[String]>,
    files: Arc<[(PathBuf, i64)]>,
}

/// The maximum width and height in pixels.
const MAX_SIDE: u32 = 1 << 16;

fn io_error(path: &Path, error: std::io::Error) -> Error {
    Error::new(Code::Io, format!("cannot read `{}`: {error}", path.display())).with_op("ImageFolder")
}

/// Lists the entries of a folder, sorted by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let all = std::fs::read_dir(folder).map_err(|it| io_error(folder, it))?;
    let paths = all.map(|it| it.map(|it| it.path()).map_err(|it| io_error(folder, it)));
    let mut paths = paths.collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().and_then(|it| it.to_str()).map(str::to_ascii_lowercase);
    matches!(extension.as_deref(), Some("png" | "jpg" | "jpeg"))
}

impl ImageFolder {
    /// Opens a folder and lists its images.
    ///
    /// # Errors
    /// [`Code::Io`] if a folder cannot be read; [`Code::Argument`] if there is no image, and for a link to a file
    /// outside of the folder.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        let root = root.as_ref();
        let inside = root.canonicalize().map_err(|it| io_error(root, it))?;
        let (mut classes, mut files) = (Vec::new(), Vec::new());
        for folder in entries(root)?.into_iter().filter(|it| it.is_dir()) {
            for file in entries(&folder)?.into_iter().filter(|it| is_image(it)) {
                let target = file.canonicalize().map_err(|it| io_error(&file, it))?;
                if !target.starts_with(&inside) {
                    let message = format!("`{}` is a link out of `{}`", file.display(), root.display());
                    return Err(Error::new(Code::Argument, message).with_op("ImageFolder"));
                }
                files.push((file, classes.len() as i64));
            }
            classes.push(folder.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
        if files.is_empty() {
            let message = format!("there is no image in the folders of `{}`", root.display());
            return Err(Error::new(Code::Argument, message).with_op("ImageFolder"));
        }
        Ok(Self { classes: classes.into(), files: files.into() })
    }

    /// Returns the names of the classes, by class index.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }
}

impl Dataset for ImageFolder {
    type Sample = (Tensor, Tensor);

    fn len(&self) -> usize {
        self.files.len()
    }

    fn get(&self, _: Epoch, index: usize) -> Result<Self::Sample> {
        check_index(index, self.len())?;
        let (path, class) = &self.files[index];
        let image = decoded(path).map_err(|it| it.with_op("ImageFolder"))?;
        Ok((image, Tensor::from_array(Array::from_slice(&[], &[*class]))))
    }

    fn name(&self, _: Epoch, index: usize) -> String {
        match self.files.get(index) {
            Some((path, _)) => format!("`{}`", path.display()),
            None => format!("sample {index}"),
        }
    }
}

/// Decodes the pixels of a file.
fn decoded(path: &Path) -> Result<Tensor> {
    let bytes = read(path)?;
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|it| refuse(path, it))?;
    // The header of a small file may claim any number of pixels.
    let mut limits = Limits::default();
    (limits.max_image_width, limits.max_image_height) = (Some(MAX_SIDE), Some(MAX_SIDE));
    reader.limits(limits);
    in_op(|| of_pixels(&reader.decode().map_err(|it| refuse(path, it))?.into_rgb8()))
}

/// Converts interleaved RGB (HWC) to planar RGB (CHW).
fn of_pixels(pixels: &RgbImage) -> Result<Tensor> {
    let (width, height) = (pixels.width() as usize, pixels.height() as usize);
    let mut planes = ms_core::tensor::try_room(3 * width * height)?;
    (0..3).for_each(|colour| planes.extend(pixels.as_raw().iter().skip(colour).step_by(3)));
    Ok(Tensor::from_array(Array::from_bytes(&[3, height, width], DType::U8, &planes)))
}

/// Resizes an image u8 `[3, height, width]` with a triangular filter: linear interpolation when enlarging, averages
/// when shrinking.
///
/// ```
/// use ms::{data::resize, prelude::*};
/// let image = Tensor::full([3, 4, 6], 7).cast(DType::U8);
/// let small = resize(&image, 2, 3)?;
/// assert_eq!(small.shape(), [3, 2, 3]);
/// assert!(small.to_vec::<u8>().iter().all(|it| *it == 7));
/// # Ok::<(), ms::Error>(())
/// ```
///
/// # Errors
/// [`Code::Shape`] or [`Code::DType`] unless the image is RGB, [`Code::Argument`] for a size of zero.
pub fn resize(image: &Tensor, height: usize, width: usize) -> Result<Tensor> {
    let refuse =
        |code, message| Err(Error::new(code, message).with_op("resize").with_operands([image.ty().to_string()]));
    check_positive("resize", "height", height)?;
    check_positive("resize", "width", width)?;
    if height.max(width) > MAX_SIDE as usize {
        return refuse(Code::Argument, format!("an image has at most {MAX_SIDE} pixels in a row"));
    }
    if image.dtype() != DType::U8 {
        return refuse(Code::DType, "an image is of u8".to_owned());
    }
    let &[3, rows, columns] = image.shape() else {
        return refuse(Code::Shape, "an image is `[3, height, width]`".to_owned());
    };
    if rows == 0 || columns == 0 || rows.max(columns) > MAX_SIDE as usize {
        return refuse(Code::Shape, format!("an image has 1 to {MAX_SIDE} pixels in a row"));
    }
    let planes = image.try_to_vec::<u8>()?;
    let size = rows * columns;
    let at = |x: u32, y: u32, colour: usize| planes[colour * size + y as usize * columns + x as usize];
    let pixels = RgbImage::from_fn(columns as u32, rows as u32, |x, y| image::Rgb([0, 1, 2].map(|it| at(x, y, it))));
    in_op(|| of_pixels(&imageops::resize(&pixels, width as u32, height as u32, FilterType::Triangle)))
}
