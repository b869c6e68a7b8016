//! Readers for the files of MNIST and CIFAR.

use super::file::{decoded, refuse, take_array};
use super::tensors::TensorDataset;
use crate::io::archive::gunzipped;
use ms_core::tensor::{Array, sized, try_room};
use ms_core::{DType, Result, Tensor};
use std::path::{Path, PathBuf};

/// The split of a published dataset.
///
/// ```
/// use ms::data::{Usage, mnist};
/// let error = mnist("no such folder", Usage::Test).err().expect("there are no files");
/// assert!(error.to_string().contains("t10k-images-idx3-ubyte"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Usage {
    /// The training set.
    Train,
    /// The test set.
    Test,
}

/// Labelled images: u8 `[channels, height, width]` and the class index, i64 `[]`.
///
/// ```
/// use ms::{data::LabeledImages, prelude::*};
/// let images: LabeledImages = TensorDataset::new((Tensor::zeros([4, 1, 28, 28]).cast(DType::U8), tensor![7, 2, 1, 0]));
/// let (image, class) = DataLoader::new(images.batch(4)).draw()?;
/// assert_eq!((image.shape(), class.shape()), (&[4, 1, 28, 28][..], &[4][..]));
/// # Ok::<(), ms::Error>(())
/// ```
pub type LabeledImages = TensorDataset<(Tensor, Tensor)>;

/// Reads MNIST (<http://yann.lecun.com/exdb/mnist/>), or a dataset with the same file names and formats, such as
/// Fashion-MNIST. The files may be compressed: `train-images-idx3-ubyte` or `train-images-idx3-ubyte.gz`.
///
/// ```no_run
/// use ms::data::{Usage, mnist};
/// use ms::prelude::*;
/// let train = mnist("MNIST/raw", Usage::Train)?;
/// let train = train.map(|(image, class)| (image.cast(DType::F32) / 255.0, class)).shuffle().batch(64);
/// # let _ = train;
/// # Ok::<(), ms::Error>(())
/// ```
///
/// # Errors
/// [`Code::Io`](ms_core::Code::Io) if a file cannot be read; [`Code::Parse`](ms_core::Code::Parse) if it is malformed,
/// or if the numbers of labels and images differ.
pub fn mnist(folder: impl AsRef<Path>, usage: Usage) -> Result<LabeledImages> {
    let folder = folder.as_ref();
    let name = match usage {
        Usage::Train => "train",
        Usage::Test => "t10k",
    };
    let found = |name: String| -> PathBuf {
        let (plain, packed) = (folder.join(&name), folder.join(format!("{name}.gz")));
        if !plain.exists() && packed.exists() { packed } else { plain }
    };
    let (of_images, of_classes) =
        (found(format!("{name}-images-idx3-ubyte")), found(format!("{name}-labels-idx1-ubyte")));
    let read = |path: &Path, rank: usize| -> Result<Array> {
        let array = decoded(path, |it| decode_idx(&gunzipped(it)?)).map_err(|it| it.with_op("mnist"))?;
        match (array.dtype(), array.shape().len()) {
            (DType::U8, found) if found == rank => Ok(array),
            _ => Err(refuse(path, format!("it has {} instead of bytes in {rank} dimensions", array.ty()))),
        }
    };
    let (images, classes) = (read(&of_images, 3)?, read(&of_classes, 1)?);
    let &[count, height, width] = images.shape() else { unreachable!("the rank was checked") };
    if classes.shape() != [count] {
        let message =
            format!("there are {} classes for the {count} images of `{}`", classes.numel(), of_images.display());
        return Err(refuse(&of_classes, message).with_op("mnist"));
    }
    let images = Array::from_bytes(&[count, 1, height, width], DType::U8, images.on_host()?.bytes());
    labeled(images, &[classes.on_host()?.bytes()], &of_images, |images, mut labels| (images, labels.remove(0)))
}

/// Reads the array of a file in the IDX format of MNIST, compressed or not.
///
/// ```
/// use ms::{data::read_idx, prelude::*};
/// # let path = std::env::temp_dir().join(format!("ms doc idx {}", std::process::id()));
/// // Two zeros, the code of u8, the number of axes, the size of each in four bytes, and the elements.
/// std::fs::write(&path, [0, 0, 8, 1, 0, 0, 0, 3, 5, 6, 7]).expect("the folder is writable");
/// assert_eq!(read_idx(&path)?.to_vec::<u8>(), [5, 6, 7]);
/// # std::fs::remove_file(&path).expect("it was written");
/// # Ok::<(), ms::Error>(())
/// ```
///
/// # Errors
/// [`Code::Io`](ms_core::Code::Io) if the file cannot be read; [`Code::Parse`](ms_core::Code::Parse) for a file that is
/// not IDX, or that is shorter or longer than its header says.
pub fn read_idx(path: impl AsRef<Path>) -> Result<Tensor> {
    let array = decoded(path.as_ref(), |it| decode_idx(&gunzipped(it)?)).map_err(|it| it.with_op("read_idx"))?;
    Tensor::placed(array)
}

/// Decodes the array of an IDX file.
pub(crate) fn decode_idx(mut bytes: &[u8]) -> Result<Array, String> {
    let [zero, also_zero, kind, rank] = take_array(&mut bytes)?;
    let dtype = match kind {
        0x08 => DType::U8,
        0x09 => DType::I8,
        0x0b => DType::I16,
        0x0c => DType::I32,
        0x0d => DType::F32,
        0x0e => DType::F64,
        _ => return Err("it is no IDX file".to_owned()),
    };
    if [zero, also_zero] != [0, 0] {
        return Err("it is no IDX file".to_owned());
    }
    let size = |_| take_array(&mut bytes).map(|it| u32::from_be_bytes(it) as usize);
    let shape = (0..rank).map(size).collect::<Result<Vec<usize>, String>>()?;
    let (ty, size) = sized(dtype, &shape)?;
    if bytes.len() != size {
        return Err(format!("{ty} takes {size} bytes, but there are {}", bytes.len()));
    }
    let mut native = try_room(bytes.len()).map_err(|it| it.report().message.clone())?;
    native.extend_from_slice(bytes);
    if cfg!(target_endian = "little") {
        native.chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
    }
    Ok(Array::from_bytes(&shape, dtype, &native))
}

/// The bytes of a CIFAR image: 32 by 32 pixels in three colour planes.
const PIXELS: usize = 3 * 32 * 32;

/// Reads CIFAR-10 (<https://www.cs.toronto.edu/~kriz/cifar.html>) in its binary version: `data_batch_1.bin` to
/// `data_batch_5.bin`, or `test_batch.bin`.
///
/// ```
/// use ms::{data::{Usage, cifar10}, prelude::*};
/// # let folder = std::env::temp_dir().join(format!("ms doc cifar10 {}", std::process::id()));
/// # std::fs::create_dir_all(&folder).expect("the folder is writable");
/// // An image: its class, and a byte for each colour of each pixel.
/// std::fs::write(folder.join("test_batch.bin"), [vec![3u8], vec![9; 3072]].concat()).expect("the folder is writable");
/// let (image, class) = DataLoader::new(cifar10(&folder, Usage::Test)?).draw()?;
/// assert_eq!((image.shape(), class.item::<i64>()), (&[3, 32, 32][..], 3));
/// # std::fs::remove_dir_all(&folder).expect("it was written");
/// # Ok::<(), ms::Error>(())
/// ```
///
/// # Errors
/// [`Code::Io`](ms_core::Code::Io) if a file cannot be read; [`Code::Parse`](ms_core::Code::Parse) if it does not
/// consist of whole images, or has a class that does not exist.
pub fn cifar10(folder: impl AsRef<Path>, usage: Usage) -> Result<LabeledImages> {
    let names: Vec<String> = match usage {
        Usage::Train => (1..=5).map(|it| format!("data_batch_{it}.bin")).collect(),
        Usage::Test => vec!["test_batch.bin".to_owned()],
    };
    cifar("cifar10", folder.as_ref(), &names, [("class", 10)], |images, mut labels| (images, labels.remove(0)))
}

/// Reads CIFAR-100 in its binary version, `train.bin` or `test.bin`. A sample is an image with its coarse class, one of
/// 20, and its fine class.
///
/// ```
/// use ms::{data::{Usage, cifar100}, prelude::*};
/// # let folder = std::env::temp_dir().join(format!("ms doc cifar100 {}", std::process::id()));
/// # std::fs::create_dir_all(&folder).expect("the folder is writable");
/// // An image: its coarse class, its fine class, and a byte for each colour of each pixel.
/// std::fs::write(folder.join("test.bin"), [vec![4u8, 71], vec![9; 3072]].concat()).expect("the folder is writable");
/// let (image, coarse, fine) = DataLoader::new(cifar100(&folder, Usage::Test)?).draw()?;
/// assert_eq!((image.shape(), coarse.item::<i64>(), fine.item::<i64>()), (&[3, 32, 32][..], 4, 71));
/// # std::fs::remove_dir_all(&folder).expect("it was written");
/// # Ok::<(), ms::Error>(())
/// ```
///
/// # Errors
/// The errors of [`cifar10`].
pub fn cifar100(folder: impl AsRef<Path>, usage: Usage) -> Result<TensorDataset<(Tensor, Tensor, Tensor)>> {
    let name = match usage {
        Usage::Train => "train.bin",
        Usage::Test => "test.bin",
    };
    let classes = [("coarse class", 20), ("fine class", 100)];
    cifar("cifar100", folder.as_ref(), &[name.to_owned()], classes, |images, mut labels| {
        let fine = labels.remove(1);
        (images, labels.remove(0), fine)
    })
}

/// Reads CIFAR records: `N` label bytes below these limits, then an image.
fn cifar<const N: usize, T: ms_core::trace::Tree + Send + Sync + 'static>(
    op: &str,
    folder: &Path,
    names: &[String],
    classes: [(&str, u8); N],
    made: impl FnOnce(Tensor, Vec<Tensor>) -> T,
) -> Result<TensorDataset<T>> {
    let mut pixels = Vec::new();
    let mut labels = [const { Vec::new() }; N];
    for name in names {
        let mut split = |bytes: &[u8]| -> Result<(), String> {
            let record = N + PIXELS;
            if !bytes.len().is_multiple_of(record) || bytes.is_empty() {
                return Err(format!("its {} bytes are no images of {record} bytes each", bytes.len()));
            }
            let refuse = |_| "no memory holds it".to_owned();
            pixels.try_reserve(bytes.len() / record * PIXELS).map_err(refuse)?;
            for (at, record) in bytes.chunks_exact(record).enumerate() {
                for ((label, (what, limit)), all) in record.iter().zip(classes).zip(&mut labels) {
                    if *label >= limit {
                        return Err(format!("the {what} of image {at} is {label}, but there are {limit}"));
                    }
                    all.push(*label);
                }
                pixels.extend_from_slice(&record[N..]);
            }
            Ok(())
        };
        decoded(&folder.join(name), &mut split).map_err(|it| it.with_op(op))?;
    }
    let images = Array::from_bytes(&[labels[0].len(), 3, 32, 32], DType::U8, &pixels);
    labeled(images, &labels.each_ref().map(Vec::as_slice), folder, made)
}

/// Creates a dataset of images with labels.
fn labeled<T: ms_core::trace::Tree + Send + Sync + 'static>(
    images: Array,
    labels: &[&[u8]],
    source: &Path,
    made: impl FnOnce(Tensor, Vec<Tensor>) -> T,
) -> Result<TensorDataset<T>> {
    let widened = |it: &&[u8]| {
        let wide: Vec<i64> = it.iter().map(|it| i64::from(*it)).collect();
        Tensor::from_array(Array::from_slice(&[wide.len()], &wide))
    };
    let tensors = made(Tensor::from_array(images), labels.iter().map(widened).collect());
    TensorDataset::try_new(tensors, Some(format!("`{}`", source.display())))
}
