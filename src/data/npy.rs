//! NumPy's file formats: `.npy` with one array, and `.npz`, a zip archive of arrays
//! (<https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>).

use super::file::{decoded, take, take_array};
use crate::io::archive::{members, write_archive};
use crate::io::bytes::refuse;
use crate::io::replace::replace;
use crate::io::state_dict::row_major;
use ms_core::tensor::{Array, Layout, sized};
use ms_core::{Code, DType, Error, Result, Tensor};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

/// Reads the array of a `.npy` file, in row-major or column-major order and either byte order.
///
/// ```
/// use ms::{data::{read_npy, write_npy}, prelude::*};
/// # let path = std::env::temp_dir().join(format!("ms doc read_npy {}", std::process::id()));
/// write_npy(&path, &tensor![[1.0, 2.0], [3.0, 4.0]])?;
/// let array = read_npy(&path)?;
/// assert_eq!((array.shape(), array.to_vec::<f32>()), (&[2, 2][..], vec![1.0, 2.0, 3.0, 4.0]));
/// # std::fs::remove_file(&path).expect("it was written");
/// # Ok::<(), ms::Error>(())
/// ```
///
/// # Errors
/// - [`Code::Io`](ms_core::Code::Io) if the file cannot be read.
/// - [`Code::Parse`](ms_core::Code::Parse) for a file that is not an array, or is shorter or longer than its header
///   says. The same code reports element types without a dtype: structures, text, objects, complex numbers.
/// - [`Code::Memory`](ms_core::Code::Memory) if the system has no memory for the array.
pub fn read_npy(path: impl AsRef<Path>) -> Result<Tensor> {
    let array = decoded(path.as_ref(), decode).map_err(|it| it.with_op("read_npy"))?;
    Tensor::placed(array)
}

/// Reads the arrays of a `.npz` file by name, compressed or not.
///
/// An archive takes at most about a thousand times its size in memory. No member may be larger than its compressed
/// bytes allow, and no two members may share bytes.
///
/// See the example of [`write_npz`].
///
/// # Errors
/// The errors of [`read_npy`], with the name of the array; [`Code::Parse`](ms_core::Code::Parse) for a file that is not
/// a zip archive.
pub fn read_npz(path: impl AsRef<Path>) -> Result<BTreeMap<String, Tensor>> {
    let arrays = decoded(path.as_ref(), decode_all).map_err(|it| it.with_op("read_npz"))?;
    arrays.into_iter().map(|(name, array)| Ok((name, Tensor::placed(array)?))).collect()
}

/// Decodes the arrays of a `.npz` file.
pub(crate) fn decode_all(bytes: &[u8]) -> Result<BTreeMap<String, Array>, String> {
    let mut arrays = BTreeMap::new();
    for member in members(bytes)? {
        let wrong = |why: String| format!("its member `{}`: {why}", member.name);
        let array = member.content().and_then(|it| decode(&it)).map_err(wrong)?;
        let name = member.name.strip_suffix(".npy").unwrap_or(&member.name).to_owned();
        if arrays.insert(name, array).is_some() {
            return Err(wrong("there are two of this name".to_owned()));
        }
    }
    Ok(arrays)
}

/// Writes a tensor to a `.npy` file in row-major order. An existing file is replaced atomically.
///
/// See the example of [`read_npy`].
///
/// # Errors
/// [`Code::Argument`] for bf16, which NumPy does not have; [`Code::Io`] if the file cannot be written; the errors of
/// computing the tensor.
pub fn write_npy(path: impl AsRef<Path>, value: &Tensor) -> Result<()> {
    let path = path.as_ref();
    encode(value).and_then(|bytes| write(path, &bytes)).map_err(|it| it.with_op("write_npy"))
}

/// Writes named tensors to an uncompressed `.npz` file. An existing file is replaced atomically. [`read_npz`] and
/// `numpy.load` return the same names.
///
/// ```
/// use ms::data::{read_npz, write_npz};
/// use ms::prelude::*;
/// # let path = std::env::temp_dir().join(format!("ms doc npz {}", std::process::id()));
/// let net = nn::Dense::new(3, 2);
/// write_npz(&path, net.state_dict().iter())?;
/// let state: StateDict = read_npz(&path)?.into_iter().collect();
/// net.load_state_dict(&state, &LoadOptions::new())?;
/// # std::fs::remove_file(&path).expect("it was written");
/// # Ok::<(), ms::Error>(())
/// ```
///
/// # Errors
/// The errors of [`write_npy`], with the name of the tensor; [`Code::DuplicateName`] for two tensors of one name;
/// [`Code::Argument`] for a name of 64 KiB or more. After an error, nothing is written.
pub fn write_npz<'a>(path: impl AsRef<Path>, tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>) -> Result<()> {
    let path = path.as_ref();
    let mut members = BTreeMap::new();
    for (name, value) in tensors {
        let named = |it: Error| it.help(format!("the tensor is `{name}`")).with_op("write_npz");
        if members.insert(format!("{name}.npy"), encode(value).map_err(named)?).is_some() {
            let twice = Error::new(Code::DuplicateName, format!("two tensors are named `{name}`"));
            return Err(twice.with_op("write_npz"));
        }
    }
    let written = replace(path, |out| write_archive(&members, out)).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => Error::new(Code::Argument, error.to_string()),
        _ => refuse(path, "write", error),
    });
    written.map_err(|it| it.with_op("write_npz"))
}

/// Replaces the content of a file.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    replace(path, |out| out.write_all(bytes)).map_err(|error| refuse(path, "write", error))
}

/// Encodes a `.npy` file. The data is aligned to 64 bytes.
pub(crate) fn encode(value: &Tensor) -> Result<Vec<u8>> {
    const BEFORE_HEADER: usize = 10;
    let array = row_major(value)?;
    let (dtype, sizes) = (array.dtype(), array.shape());
    let letters = DTYPES.into_iter().find(|it| it.1 == dtype).map(|it| it.0);
    let letters = letters.ok_or_else(|| Error::new(Code::Argument, format!("NumPy has no type for {dtype}")))?;
    let order = match dtype.size() {
        1 => '|',
        _ if cfg!(target_endian = "big") => '>',
        _ => '<',
    };
    let shape = match sizes {
        [size] => format!("{size},"),
        _ => sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
    };
    let header = format!("{{'descr': '{order}{letters}', 'fortran_order': False, 'shape': ({shape}), }}");
    let end = (BEFORE_HEADER + header.len() + 1).next_multiple_of(64);
    let header = format!("{header:width$}\n", width = end - BEFORE_HEADER - 1);
    let too_long = |_| Error::new(Code::Argument, format!("{} axes are too many for the format", sizes.len()));
    let length = u16::try_from(header.len()).map_err(too_long)?;
    let mut file = ms_core::tensor::try_room(end + array.bytes().len())?;
    file.extend_from_slice(b"\x93NUMPY\x01\x00");
    file.extend_from_slice(&length.to_le_bytes());
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(array.bytes());
    Ok(file)
}

/// Decodes the array of a `.npy` file.
pub(crate) fn decode(mut bytes: &[u8]) -> Result<Array, String> {
    if take(&mut bytes, 6).ok() != Some(b"\x93NUMPY") {
        return Err("it is no NPY file".to_owned());
    }
    let [version, _] = take_array(&mut bytes)?;
    let length = match version {
        1 => u16::from_le_bytes(take_array(&mut bytes)?) as usize,
        2 | 3 => u32::from_le_bytes(take_array(&mut bytes)?) as usize,
        _ => return Err(format!("version {version} of the format is unknown")),
    };
    let header = take(&mut bytes, length).map_err(|why| format!("in its header, {why}"))?;
    let header = std::str::from_utf8(header).map_err(|_| "its header is no text")?;
    let Header { dtype, swapped, fortran, shape } = Header::parse(header)?;
    let (ty, size) = sized(dtype, &shape)?;
    if bytes.len() != size {
        return Err(format!("{ty} takes {size} bytes, but there are {}", bytes.len()));
    }
    let mut native = ms_core::tensor::try_room(bytes.len()).map_err(|it| it.report().message.clone())?;
    native.extend_from_slice(bytes);
    if swapped {
        native.chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
    }
    if !fortran || shape.len() < 2 {
        return Ok(Array::from_bytes(&shape, dtype, &native));
    }
    let reversed: Vec<usize> = shape.iter().rev().copied().collect();
    let columns = Array::from_bytes(&reversed, dtype, &native);
    let axes: Vec<usize> = (0..shape.len()).rev().collect();
    let view = columns.with_layout(Layout::contiguous(&reversed).permute(&axes));
    let dense = view.on_host().map(|it| it.to_contiguous());
    dense.map_err(|it| it.report().message.clone())
}

/// The parsed header of an array.
struct Header {
    dtype: DType,
    /// Whether the byte order of elements differs from the host's.
    swapped: bool,
    fortran: bool,
    shape: Vec<usize>,
}

impl Header {
    /// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`, with the keys in any order.
    fn parse(text: &str) -> Result<Self, String> {
        let broken = || format!("its header `{}` is broken", text.trim());
        let body = text.trim().strip_prefix('{').and_then(|it| it.strip_suffix('}')).ok_or_else(broken)?;
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        let mut rest = body.trim();
        while !rest.is_empty() {
            let (key, value) = rest.strip_prefix('\'').and_then(|it| it.split_once('\'')).ok_or_else(broken)?;
            let value = value.trim_start().strip_prefix(':').ok_or_else(broken)?.trim_start();
            let end = match key {
                "shape" => value.find(')').ok_or_else(broken)? + 1,
                "descr" if value.starts_with('[') => return Err("its elements are structures".to_owned()),
                _ => value.find(',').unwrap_or(value.len()),
            };
            let taken = value[..end].trim();
            match key {
                "descr" => descr = Some(taken),
                "fortran_order" => fortran = Some(taken),
                "shape" => shape = Some(taken),
                _ => return Err(broken()),
            }
            rest = value[end..].trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
        let (Some(descr), Some(fortran), Some(shape)) = (descr, fortran, shape) else { return Err(broken()) };
        let descr = descr.strip_prefix('\'').and_then(|it| it.strip_suffix('\'')).ok_or_else(broken)?;
        let fortran = match fortran {
            "True" => true,
            "False" => false,
            _ => return Err(broken()),
        };
        let sizes = shape.strip_prefix('(').and_then(|it| it.strip_suffix(')')).ok_or_else(broken)?.trim();
        let sizes = sizes.strip_suffix(',').unwrap_or(sizes);
        let size = |it: &str| it.trim().parse::<usize>().map_err(|_| broken());
        let shape = match sizes {
            "" => Vec::new(),
            _ => sizes.split(',').map(size).collect::<Result<_, _>>()?,
        };
        let (dtype, swapped) =
            dtype_of(descr).ok_or_else(|| format!("its elements are `{descr}`, which is no dtype"))?;
        Ok(Self { dtype, swapped, fortran, shape })
    }
}

/// NumPy's type strings without the byte order, and their dtypes.
const DTYPES: [(&str, DType); 12] = [
    ("b1", DType::Bool),
    ("i1", DType::I8),
    ("i2", DType::I16),
    ("i4", DType::I32),
    ("i8", DType::I64),
    ("u1", DType::U8),
    ("u2", DType::U16),
    ("u4", DType::U32),
    ("u8", DType::U64),
    ("f2", DType::F16),
    ("f4", DType::F32),
    ("f8", DType::F64),
];

/// Returns the dtype of a NumPy type string, and whether its byte order differs from the host's.
fn dtype_of(descr: &str) -> Option<(DType, bool)> {
    let mut letters = descr.chars();
    let order = letters.next()?;
    let (_, dtype) = DTYPES.into_iter().find(|it| it.0 == letters.as_str())?;
    match order {
        '|' if dtype.size() == 1 => Some((dtype, false)),
        '=' => Some((dtype, false)),
        '<' => Some((dtype, cfg!(target_endian = "big"))),
        '>' => Some((dtype, cfg!(target_endian = "little"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks() {
        for (rank, is_read) in [(64, true), (65, false), (100_000, false)] {
            for order in ["False", "True"] {
                let shape = "1,".repeat(rank);
                let header = format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': ({shape}), }}");
                let length = (header.len() as u32).to_le_bytes();
                let file = [b"\x93NUMPY\x02\0", &length[..], header.as_bytes(), &1.5f32.to_le_bytes()].concat();
                assert_eq!(decode(&file).map(|it| it.shape().len()).ok(), is_read.then_some(rank), "{rank} {order}");
            }
        }
    }
}
