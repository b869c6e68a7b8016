//! The safetensors format: the length of a JSON header in eight bytes, the header with dtype,
//! shape and place of each tensor, and their bytes
//! (<https://huggingface.co/docs/safetensors>, version 0.8 of its library).
//!
//! Written here because the library brings `serde_json` into every program, whose comparisons
//! with numbers make `n == text.parse()?` ambiguous in user code.

use ms_core::DType;
use ms_core::tensor::{Array, Type};
use std::collections::{BTreeMap, HashMap};
use tinyjson::JsonValue;

/// Headers longer than this are refused, as by the library.
const MAX_HEADER: usize = 100_000_000;

/// Each dtype with its name in the file.
const DTYPES: [(DType, &str); 13] = [
    (DType::Bool, "BOOL"),
    (DType::I8, "I8"),
    (DType::I16, "I16"),
    (DType::I32, "I32"),
    (DType::I64, "I64"),
    (DType::U8, "U8"),
    (DType::U16, "U16"),
    (DType::U32, "U32"),
    (DType::U64, "U64"),
    (DType::F16, "F16"),
    (DType::BF16, "BF16"),
    (DType::F32, "F32"),
    (DType::F64, "F64"),
];

/// The bytes of a file that holds these arrays.
pub fn serialize(arrays: &BTreeMap<String, Array>) -> Vec<u8> {
    let numbers = |all: &[usize]| JsonValue::Array(all.iter().map(|&it| JsonValue::Number(it as f64)).collect());
    let mut header = HashMap::new();
    let mut data = Vec::new();
    for (name, array) in arrays {
        let start = data.len();
        data.extend(array.to_bytes());
        let (_, dtype) = DTYPES.into_iter().find(|it| it.0 == array.dtype()).expect("every dtype has a name");
        let entry = HashMap::from([
            ("dtype".to_owned(), JsonValue::String(dtype.to_owned())),
            ("shape".to_owned(), numbers(array.shape())),
            ("data_offsets".to_owned(), numbers(&[start, data.len()])),
        ]);
        header.insert(name.clone(), JsonValue::Object(entry));
    }
    let mut header = JsonValue::Object(header).stringify().expect("sizes and offsets are finite numbers");
    // The data starts at a multiple of eight bytes; spaces after JSON mean nothing.
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.into_bytes());
    file.extend(data);
    file
}

/// The arrays of a file.
///
/// # Errors
/// What is wrong with the file, in words.
pub fn deserialize(file: &[u8]) -> Result<BTreeMap<String, Array>, String> {
    let (length, rest) = file.split_first_chunk::<8>().ok_or("it is shorter than the length of its header")?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > rest.len().min(MAX_HEADER) {
        return Err(format!("it is too short for a header of {length} bytes"));
    }
    let (header, data) = rest.split_at(length);
    let header = std::str::from_utf8(header).map_err(|error| format!("its header is no text: {error}"))?;
    let header: JsonValue = header.parse().map_err(|error| format!("its header is no JSON: {error}"))?;
    let header: &HashMap<String, JsonValue> = header.get().ok_or("its header is no JSON object")?;
    let mut arrays = BTreeMap::new();
    let mut used = 0;
    for (name, entry) in header.iter().filter(|(name, _)| *name != "__metadata__") {
        let array = tensor(entry, data).ok_or_else(|| format!("the entry `{name}` is broken"))?;
        used += array.numel() * array.dtype().size();
        arrays.insert(name.clone(), array);
    }
    if used != data.len() {
        return Err(format!("its tensors take {used} bytes of {}", data.len()));
    }
    Ok(arrays)
}

/// The array that an entry of the header describes, if it describes one.
fn tensor(entry: &JsonValue, data: &[u8]) -> Option<Array> {
    let entry: &HashMap<String, JsonValue> = entry.get()?;
    let numbers = |name: &str| -> Option<Vec<usize>> {
        let all: &Vec<JsonValue> = entry.get(name)?.get()?;
        let whole =
            |it: &JsonValue| it.get::<f64>().filter(|it| it.fract() == 0.0 && **it >= 0.0).map(|it| *it as usize);
        all.iter().map(whole).collect()
    };
    let name: &String = entry.get("dtype")?.get()?;
    let (dtype, _) = DTYPES.into_iter().find(|it| it.1 == name)?;
    let (shape, offsets) = (numbers("shape")?, numbers("data_offsets")?);
    let &[start, end] = offsets.as_slice() else { return None };
    let bytes = data.get(start..end)?;
    let ty = Type::of(dtype, &shape);
    ty.check_size().ok()?;
    (Some(bytes.len()) == ty.numel().map(|it| it * dtype.size())).then(|| Array::from_bytes(&shape, dtype, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_core::tensor::Scalar;

    #[test]
    fn every_dtype_and_shape_comes_back() {
        let shapes: [&[usize]; 4] = [&[], &[0, 3], &[2, 3], &[1]];
        let mut arrays = BTreeMap::new();
        for dtype in DType::ALL {
            for shape in shapes {
                arrays.insert(format!("{dtype} {shape:?} \"quoted\""), Array::full(shape, Scalar::Int(1), dtype));
            }
        }
        let file = serialize(&arrays);
        let read = deserialize(&file).expect("it was written here");
        assert!(arrays.keys().eq(read.keys()));
        for (name, array) in &arrays {
            assert_eq!((read[name].ty(), read[name].to_bytes()), (array.ty(), array.to_bytes()), "{name}");
        }
    }

    #[test]
    fn broken_files_are_refused() {
        let file = serialize(&BTreeMap::from([("w".to_owned(), Array::zeros(&[2], DType::F32))]));
        for length in 0..file.len() {
            assert!(deserialize(&file[..length]).is_err(), "{length} bytes");
        }
        let text = |header: &str| {
            let mut file = (header.len() as u64).to_le_bytes().to_vec();
            file.extend(header.as_bytes());
            file.extend([0; 8]);
            file
        };
        for header in [
            "[]",
            "{\"w\": 3}",
            "{\"w\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 4]}}",
            "{\"w\": {\"dtype\": \"F32\", \"shape\": [-2], \"data_offsets\": [0, 8]}}",
            "{\"w\": {\"dtype\": \"F33\", \"shape\": [2], \"data_offsets\": [0, 8]}}",
            "{\"w\": {\"dtype\": \"F32\", \"shape\": [1e300, 1e300], \"data_offsets\": [0, 8]}}",
            "{\"w\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [8, 16]}}",
        ] {
            assert!(deserialize(&text(header)).is_err(), "{header}");
        }
    }
}
