//! Reads and writes MindSpore checkpoints, as version 2.10 does. A checkpoint is a protobuf message with a value for
//! each parameter: a name and a tensor with dimensions, dtype and bytes (`mindspore/ccsrc/utils/checkpoint.proto`).

use crc32fast::hash as crc32;
use ms_core::DType;
use ms_core::tensor::{Array, HostArray, sized, try_room};
use ms_protobuf::{Value, bytes, field, header, take_varint, varint};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The dtypes and their names in the file.
const DTYPES: [(DType, &str); 13] = [
    (DType::Bool, "Bool"),
    (DType::I8, "Int8"),
    (DType::I16, "Int16"),
    (DType::I32, "Int32"),
    (DType::I64, "Int64"),
    (DType::U8, "UInt8"),
    (DType::U16, "UInt16"),
    (DType::U32, "UInt32"),
    (DType::U64, "UInt64"),
    (DType::F16, "Float16"),
    (DType::BF16, "BFloat16"),
    (DType::F32, "Float32"),
    (DType::F64, "Float64"),
];

/// The marker before the checksum at the end of a file.
const CHECKSUM: &[u8] = b"crc_num";

/// The bytes of the checksum field; the upper bytes are zero.
const CHECKSUM_BYTES: usize = 10;

/// The maximum number of bytes of a value. A larger tensor is written as several values.
const SLICE: usize = 512 << 20;

/// Writes row-major arrays in the order of their names: equal arrays give equal files.
///
/// # Errors
/// I/O errors of `out`.
pub fn write(arrays: &BTreeMap<String, HostArray<'_>>, out: &mut dyn Write) -> io::Result<()> {
    for (name, array) in arrays {
        let dtype = DTYPES.into_iter().find(|it| it.0 == array.dtype()).expect("every dtype has a name").1;
        // A dimension of zero must be written too, although zero is the default of the field.
        let dims: Vec<u8> = array.shape().iter().flat_map(|&it| [vec![1 << 3], varint(it as u64)].concat()).collect();
        let ty = [dims, bytes(2, dtype.as_bytes())].concat();
        let name = bytes(1, name.as_bytes());
        let slices = array.bytes().chunks(SLICE).chain(array.bytes().is_empty().then_some(&[][..]));
        for slice in slices {
            let content = header(3, slice.len());
            let tensor = header(2, ty.len() + content.len() + slice.len());
            out.write_all(&header(1, name.len() + tensor.len() + ty.len() + content.len() + slice.len()))?;
            for part in [&name, &tensor, &ty, &content, slice] {
                out.write_all(part)?;
            }
        }
    }
    Ok(())
}

/// Reads the arrays of a file.
///
/// # Errors
/// A description of the defect of the file.
pub fn read(file: &[u8]) -> Result<BTreeMap<String, Array>, String> {
    let mut slices: BTreeMap<String, Tensor<'_>> = BTreeMap::new();
    let mut rest = checked(file)?;
    while let Some((number, value)) = field(&mut rest)? {
        let (1, Value::Bytes(value)) = (number, value) else {
            return Err("it is no checkpoint of MindSpore, or an encrypted one".to_owned());
        };
        let (name, tensor) = named(value)?;
        let tensor = Tensor::read(tensor).map_err(|why| format!("`{name}`: {why}"))?;
        match slices.get_mut(&name) {
            None => _ = slices.insert(name, tensor),
            Some(first) if (&first.shape, first.dtype) == (&tensor.shape, tensor.dtype) => {
                first.slices.extend(tensor.slices);
            }
            Some(_) => return Err(format!("`{name}` has parts of several types")),
        }
    }
    slices
        .into_iter()
        .map(|(name, it)| Ok((name.clone(), it.array().map_err(|why| format!("`{name}`: {why}"))?)))
        .collect()
}

/// Checks and strips the checksum of a file.
fn checked(file: &[u8]) -> Result<&[u8], String> {
    let Some(start) = file.len().checked_sub(CHECKSUM.len() + CHECKSUM_BYTES) else { return Ok(file) };
    let (values, end) = file.split_at(start);
    let Some(checksum) = end.strip_prefix(CHECKSUM) else { return Ok(file) };
    let (zeros, checksum) = checksum.split_at(CHECKSUM_BYTES - 4);
    if zeros.iter().any(|it| *it != 0) || *checksum != crc32(values).to_be_bytes() {
        return Err("its checksum is wrong".to_owned());
    }
    Ok(values)
}

/// Parses the name and the tensor of a value.
fn named(mut value: &[u8]) -> Result<(String, &[u8]), String> {
    let (mut name, mut tensor) = (None, None);
    while let Some((number, value)) = field(&mut value)? {
        match (number, value) {
            (1, Value::Bytes(it)) => name = Some(it),
            (2, Value::Bytes(it)) => tensor = Some(it),
            (3, _) => return Err("it has hash tables of parameters, which do not exist here".to_owned()),
            _ => {}
        }
    }
    let name = name.ok_or("a value has no name")?;
    let name = String::from_utf8(name.to_vec()).map_err(|_| "a name is no text")?;
    let tensor = tensor.ok_or_else(|| format!("`{name}` has no tensor"))?;
    Ok((name, tensor))
}

/// A tensor with its elements in one or several slices.
struct Tensor<'a> {
    dtype: DType,
    shape: Vec<usize>,
    slices: Vec<&'a [u8]>,
}

impl<'a> Tensor<'a> {
    fn read(mut tensor: &'a [u8]) -> Result<Self, String> {
        let (mut ty, mut content, mut shape) = (None, None, Vec::new());
        let size = |it: u64| usize::try_from(it).map_err(|_| "a dimension is too large".to_owned());
        while let Some((number, value)) = field(&mut tensor)? {
            match (number, value) {
                (1, Value::Number(it)) => shape.push(size(it)?),
                (1, Value::Bytes(mut all)) => {
                    while !all.is_empty() {
                        shape.push(size(take_varint(&mut all)?)?);
                    }
                }
                (2, Value::Bytes(it)) => ty = Some(it),
                (3, Value::Bytes(it)) => content = Some(it),
                _ => {}
            }
        }
        let ty = String::from_utf8_lossy(ty.ok_or("it has no type")?);
        let dtype = DTYPES.into_iter().find(|it| it.1 == ty).map(|it| it.0);
        let dtype = dtype.ok_or_else(|| format!("there is no dtype here for `{ty}`"))?;
        Ok(Self { dtype, shape, slices: content.into_iter().collect() })
    }

    /// Joins the elements of all slices, and checks their number against the shape.
    fn array(&self) -> Result<Array, String> {
        let Self { dtype, shape, slices } = self;
        let has: usize = slices.iter().map(|it| it.len()).sum();
        if sized(*dtype, shape)?.1 != has {
            return Err(format!("{has} bytes are not {dtype}{shape:?}"));
        }
        if cfg!(target_endian = "big") && dtype.size() > 1 {
            return Err("this machine has another order of bytes".to_owned());
        }
        let whole = match slices[..] {
            [one] => return Ok(Array::from_bytes(shape, *dtype, one)),
            _ => slices.iter().try_fold(try_room(has).map_err(|it| it.to_string())?, |mut all: Vec<u8>, it| {
                all.extend_from_slice(it);
                Ok::<_, String>(all)
            })?,
        };
        Ok(Array::from_bytes(shape, *dtype, &whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_protobuf::number;

    /// Files that MindSpore 2.10 wrote, without and with a checksum.
    const FILES: [&[u8]; 2] =
        [include_bytes!("../../tests/data/mindspore.ckpt"), include_bytes!("../../tests/data/mindspore_crc.ckpt")];

    fn text(arrays: &BTreeMap<String, Array>) -> Vec<String> {
        let value =
            |it: &Array| it.on_host().expect("it is here").scalars().iter().map(|it| it.as_f64()).collect::<Vec<_>>();
        arrays.iter().map(|(name, it)| format!("{name} {}{:?} {:?}", it.dtype(), it.shape(), value(it))).collect()
    }

    #[test]
    fn a_file_of_mindspore() {
        for file in FILES {
            let arrays = read(file).expect("MindSpore wrote it");
            let want = [
                "d f64[2] [0.0, 0.125]",
                "fc.bias f16[2] [-3.5, -4.0]",
                "fc.weight f32[2, 3] [1.25, 0.5, 0.0, -1.0, -1.0, -2.0]",
                "half bf16[3] [1.5, -2.0, 0.25]",
                "ids i64[4] [-6.0, 5.0, 2.0, 6.0]",
                "mask bool[3] [1.0, 0.0, 1.0]",
                "step i32[] [7.0]",
                "u u8[2] [0.0, 255.0]",
            ];
            assert_eq!(text(&arrays), want);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut arrays = read(FILES[0]).expect("MindSpore wrote it");
        arrays.insert("none".to_owned(), Array::zeros(&[0, 3], DType::F32));
        let hosted: BTreeMap<_, _> =
            arrays.iter().map(|(name, it)| (name.clone(), it.on_host().expect("it is here"))).collect();
        let mut file = Vec::new();
        write(&hosted, &mut file).expect("memory can be written");
        assert_eq!(text(&read(&file).expect("it was just written")), text(&arrays));
    }

    #[test]
    fn a_tensor_in_parts() {
        let part = |content: &[u8]| {
            let tensor = [number(1, 3), bytes(2, b"UInt8"), bytes(3, content)].concat();
            bytes(1, &[bytes(1, b"x"), bytes(2, &tensor)].concat())
        };
        let file = [part(&[1, 2]), part(&[3])].concat();
        assert_eq!(text(&read(&file).expect("the parts are whole")), ["x u8[3] [1.0, 2.0, 3.0]"]);
        assert!(read(&part(&[1, 2])).is_err_and(|it| it.contains("2 bytes are not u8[3]")));
    }

    /// Truncated or changed files are rejected or read as different data; none makes the process fail.
    #[test]
    fn damage() {
        for file in FILES {
            for len in 0..file.len() {
                let _ = read(&file[..len]);
            }
            for at in 0..file.len() {
                for change in [1, 0x80, 0xff] {
                    let mut file = file.to_vec();
                    file[at] ^= change;
                    let _ = read(&file);
                }
            }
        }
        let mut changed = FILES[1].to_vec();
        changed[40] ^= 1;
        assert!(read(&changed).is_err_and(|it| it.contains("checksum")));
        assert!(read(b"\x12\x00").is_err());
    }
}
