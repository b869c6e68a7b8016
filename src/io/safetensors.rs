//! Reads and writes safetensors files (<https://huggingface.co/docs/safetensors>, version 0.8 of the library). A file
//! has an eight-byte length, a JSON header with dtype, shape and offsets of each tensor, and the data.
//!
//! The library is not used, because it would link `serde_json` into every program. The comparisons of `serde_json` with
//! numbers make `n == text.parse()?` ambiguous in user code.

use super::bytes::is_flat;
use ms_core::DType;
use ms_core::tensor::{Array, HostArray, sized};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;
use tinyjson::JsonValue;

/// The maximum header length, as in the library.
const MAX_HEADER: usize = 100_000_000;

/// The dtypes and their names in the file.
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

/// The maximum nesting of a header: an object of objects of arrays.
const MAX_DEPTH: usize = 3;

/// The header entry that is not a tensor.
const METADATA: &str = "__metadata__";

/// The content of a file.
pub struct File {
    /// The tensors by name.
    pub arrays: BTreeMap<String, Array>,
    /// The metadata texts by key.
    pub metadata: BTreeMap<String, String>,
}

/// Writes row-major arrays in the order of their names: equal arrays give equal files.
///
/// # Errors
/// I/O errors of `out`; an array with a reserved name.
pub fn write(arrays: &BTreeMap<String, HostArray<'_>>, out: &mut dyn Write) -> io::Result<()> {
    write_with(arrays, &BTreeMap::new(), out)
}

/// Writes arrays and metadata; see [`write`](fn@write).
///
/// # Errors
/// The errors of [`write`](fn@write), and a header that is longer than the format permits.
pub fn write_with(
    arrays: &BTreeMap<String, HostArray<'_>>,
    metadata: &BTreeMap<String, String>,
    out: &mut dyn Write,
) -> io::Result<()> {
    if arrays.contains_key(METADATA) {
        return Err(io::Error::other(format!("no tensor of a safetensors file is named `{METADATA}`")));
    }
    let mut header = String::from("{");
    let mut end = 0;
    let text = |it: &String| JsonValue::String(it.clone()).stringify().expect("a string is JSON");
    if !metadata.is_empty() {
        let entries: Vec<String> = metadata.iter().map(|(key, it)| format!("{}:{}", text(key), text(it))).collect();
        write!(header, r#""{METADATA}":{{{}}}"#, entries.join(",")).expect("a string takes any text");
    }
    for (name, array) in arrays {
        let start = end;
        end += array.numel() * array.dtype().size();
        let (_, dtype) = DTYPES.into_iter().find(|it| it.0 == array.dtype()).expect("every dtype has a name");
        let name = text(name);
        let comma = if header.len() > 1 { "," } else { "" };
        let shape = array.shape();
        write!(header, r#"{comma}{name}:{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#)
            .expect("a string takes any text");
    }
    header.push('}');
    // Data is aligned to eight bytes. JSON permits trailing spaces.
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    if header.len() > MAX_HEADER {
        let message = format!("its header has {} bytes, and the format permits {MAX_HEADER}", header.len());
        return Err(io::Error::other(message));
    }
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    for array in arrays.values() {
        out.write_all(array.bytes())?;
    }
    Ok(())
}

/// Reads the arrays of a file.
///
/// # Errors
/// A description of the defect of the file.
pub fn deserialize(bytes: &[u8]) -> Result<BTreeMap<String, Array>, String> {
    file(bytes).map(|it| it.arrays)
}

/// Reads the arrays and metadata of a file.
///
/// # Errors
/// The errors of [`deserialize`].
pub fn file(bytes: &[u8]) -> Result<File, String> {
    let (length, rest) = bytes.split_first_chunk::<8>().ok_or("it is shorter than the length of its header")?;
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > rest.len().min(MAX_HEADER) {
        return Err(format!("it is too short for a header of {length} bytes"));
    }
    let (header, data) = rest.split_at(length);
    let header = std::str::from_utf8(header).map_err(|error| format!("its header is no text: {error}"))?;
    // The parser is recursive, so the nesting depth is bounded first.
    if !is_flat(header, MAX_DEPTH) {
        return Err(format!("its header nests more than {MAX_DEPTH} deep"));
    }
    let header: JsonValue = header.parse().map_err(|error| format!("its header is no JSON: {error}"))?;
    let header: &HashMap<String, JsonValue> = header.get().ok_or("its header is no JSON object")?;
    let mut arrays = BTreeMap::new();
    let mut places = Vec::new();
    let mut metadata = BTreeMap::new();
    for (name, entry) in header {
        if name == METADATA {
            metadata = texts(entry).ok_or("its metadata is no object of strings")?;
            continue;
        }
        let (array, place) = tensor(entry, data).ok_or_else(|| format!("the entry `{name}` is broken"))?;
        places.push(place);
        arrays.insert(name.clone(), array);
    }
    // The format requires contiguous tensors without gaps.
    places.sort_by_key(|it| (it.start, it.end));
    let mut end = 0;
    for place in places {
        if place.start != end {
            return Err(format!("a tensor begins at byte {} of its data, not {end}", place.start));
        }
        end = place.end;
    }
    if end != data.len() {
        return Err(format!("its tensors take {end} bytes of {}", data.len()));
    }
    Ok(File { arrays, metadata })
}

/// Returns the strings of an object; `None` for any other value.
fn texts(value: &JsonValue) -> Option<BTreeMap<String, String>> {
    let entries: &HashMap<String, JsonValue> = value.get()?;
    entries.iter().map(|(key, it)| Some((key.clone(), it.get::<String>()?.clone()))).collect()
}

/// Returns the array that a header entry describes, and its range in the data; `None` if the entry is invalid.
fn tensor(entry: &JsonValue, data: &[u8]) -> Option<(Array, Range<usize>)> {
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
    let (_, size) = sized(dtype, &shape).ok()?;
    (bytes.len() == size).then(|| (Array::from_bytes(&shape, dtype, bytes), start..end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ms_core::tensor::Scalar;

    fn serialize(arrays: &BTreeMap<String, Array>) -> Vec<u8> {
        let mut file = Vec::new();
        let arrays = arrays.iter().map(|(name, it)| (name.clone(), it.on_host().expect("on the host"))).collect();
        write(&arrays, &mut file).expect("memory can be written");
        file
    }

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
            let bytes = |it: &Array| it.on_host().expect("on the host").to_bytes();
            assert_eq!((read[name].ty(), bytes(&read[name])), (array.ty(), bytes(array)), "{name}");
        }
        assert_eq!(serialize(&read), file, "equal arrays give equal files");
    }

    #[test]
    fn metadata_comes_back() {
        let array = Array::zeros(&[2], DType::F32);
        let metadata =
            BTreeMap::from([("a".to_owned(), "line\n\"b\" \u{1} é".to_owned()), (String::new(), String::new())]);
        let mut written = Vec::new();
        let arrays = |name: &str| BTreeMap::from([(name.to_owned(), array.on_host().expect("on the host"))]);
        write_with(&arrays("w"), &metadata, &mut written).expect("memory can be written");
        let read = file(&written).expect("it was written here");
        assert_eq!((read.metadata, read.arrays.len()), (metadata, 1));
        assert!(write(&arrays(METADATA), &mut Vec::new()).is_err(), "the name is not that of a tensor");
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
            "{\"__metadata__\": 3, \"w\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}}",
            "{\"__metadata__\": {\"a\": 3}, \"w\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}}",
            "{\"w\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 4]}}",
            "{\"w\": {\"dtype\": \"F32\", \"shape\": [-2], \"data_offsets\": [0, 8]}}",
            "{\"w\": {\"dtype\": \"F33\", \"shape\": [2], \"data_offsets\": [0, 8]}}",
            "{\"w\": {\"dtype\": \"F32\", \"shape\": [1e300, 1e300], \"data_offsets\": [0, 8]}}",
            "{\"w\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [8, 16]}}",
        ] {
            assert!(deserialize(&text(header)).is_err(), "{header}");
        }
        let entry =
            |from: usize, to: usize| format!("{{\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [{from}, {to}]}}");
        for [first, second] in [[(0, 4), (4, 8)], [(4, 8), (0, 4)], [(0, 4), (0, 4)], [(0, 4), (2, 6)]] {
            let header = format!("{{\"a\": {}, \"b\": {}}}", entry(first.0, first.1), entry(second.0, second.1));
            let apart = first.0.abs_diff(second.0) == 4;
            assert_eq!(deserialize(&text(&header)).is_ok(), apart, "{header}");
        }
    }

    #[test]
    fn headers_nest_as_deep_as_the_format_does() {
        let file = |header: &str| [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
        let metadata = |value: &str| format!("{{\"__metadata__\": {{\"a\": {value}}}}}");
        let brackets = format!("\"\\\"{}\"", "[".repeat(9));
        assert!(deserialize(&file(&metadata(&brackets))).is_ok(), "brackets in strings do not nest");
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            for depth in [2, 1 << 20] {
                let deep = format!("{}0{}", open.repeat(depth), close.repeat(depth));
                assert!(deserialize(&file(&metadata(&deep))).is_err(), "{depth} x {open}");
            }
            assert!(deserialize(&file(&open.repeat(1 << 20))).is_err(), "{open} without an end");
        }
    }

    /// Regression tests for inputs that fuzzing found, and similar ones.
    #[test]
    fn any_bytes_are_a_file_or_refused() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/checkpoint");
        let mut files: Vec<Vec<u8>> = std::fs::read_dir(folder)
            .expect("the corpus is there")
            .map(|it| std::fs::read(it.expect("an entry").path()).expect("a file"))
            .collect();
        files.push(serialize(&BTreeMap::from([("w".to_owned(), Array::zeros(&[2, 3], DType::F32))])));
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below.max(1)
        };
        for file in files {
            for round in 0..500 {
                let mut changed = file.clone();
                for _ in 0..round % 5 {
                    let (at, from) = (random(changed.len()), random(changed.len()));
                    match (random(3), changed.get(from).copied()) {
                        (0, _) => changed.truncate(at),
                        (1, Some(byte)) => changed[at] = byte,
                        (_, Some(byte)) => changed[at] = byte ^ 1 << random(8),
                        _ => {}
                    }
                }
                let Ok(read) = deserialize(&changed) else { continue };
                assert!(deserialize(&serialize(&read)).is_ok_and(|it| it.keys().eq(read.keys())));
            }
        }
    }
}
