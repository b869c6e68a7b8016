//! Tests data files: files that Python and NumPy wrote (`data/files.py`), and broken files.

use crc32fast::hash as crc32;
use ms::Code;
use ms::data::{
    Epoch, TextFileDataset, Usage, cifar10, cifar100, mnist, read_idx, read_npy, read_npz, write_npy, write_npz,
};
use ms::prelude::*;
use ms_conformance::folder::Folder;
use std::path::{Path, PathBuf};

fn written(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/training/data/files").join(name)
}

/// Checks that the error has this code, and that its text contains all of these words and the path.
#[track_caller]
fn refused<T>(path: &Path, got: Result<T>, code: Code, words: &[&str]) {
    let error = got.err().unwrap_or_else(|| panic!("{} is accepted", path.display()));
    assert_eq!(error.code(), code, "{error}");
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()), "{text}");
    words.iter().for_each(|it| assert!(text.contains(it), "`{it}` is not in {text}"));
}

/// Computes the formula of `numbers` in `data/files.py`.
fn formula(dtype: DType, shape: &[usize]) -> Tensor {
    let modulus = if dtype == DType::Bool { 2 } else { 101 };
    let factor = |it: i64| if dtype == DType::Bool { it % modulus } else { (3 * it + 1) % modulus };
    let all: Vec<i64> = (0..shape.iter().product::<usize>() as i64).map(factor).collect();
    Tensor::from_slice(shape, &all).cast(dtype)
}

#[track_caller]
fn same(name: &str, got: &Tensor, want: &Tensor) {
    assert_eq!(got.ty(), want.ty(), "{name}");
    let values = |it: &Tensor| it.cast(DType::F64).to_vec::<f64>();
    assert_eq!(values(got), values(want), "{name}");
}

#[test]
fn arrays_of_numpy() {
    let kinds = [
        ("bool", DType::Bool),
        ("int8", DType::I8),
        ("int16", DType::I16),
        ("int32", DType::I32),
        ("int64", DType::I64),
        ("uint8", DType::U8),
        ("uint16", DType::U16),
        ("uint32", DType::U32),
        ("uint64", DType::U64),
        ("float16", DType::F16),
        ("float32", DType::F32),
        ("float64", DType::F64),
    ];
    let shapes: [(&str, DType, &[usize]); 5] = [
        ("fortran", DType::I32, &[2, 3, 4]),
        ("big", DType::F64, &[3, 2]),
        ("scalar", DType::F32, &[]),
        ("empty", DType::F32, &[0, 3]),
        ("large", DType::I16, &[300, 50]),
    ];
    for (file, count) in [("plain.npz", 16), ("packed.npz", 17)] {
        let arrays = read_npz(written(file)).expect(file);
        assert_eq!(arrays.len(), count, "{file}");
        for (name, dtype) in kinds {
            same(name, &arrays[name], &formula(dtype, &[2, 3]));
        }
        for (name, dtype, shape) in shapes.into_iter().filter(|it| arrays.contains_key(it.0)) {
            same(name, &arrays[name], &formula(dtype, shape));
        }
    }
    same("npy", &read_npy(written("float32.npy")).expect("an array"), &formula(DType::F32, &[2, 3]));
    same("version 3", &read_npy(written("version3.npy")).expect("an array"), &formula(DType::I32, &[2, 3, 4]));
    for (name, word) in
        [("text.npy", "<U2"), ("complex.npy", "<c16"), ("structure.npy", "structures"), ("object.npy", "|O")]
    {
        refused(&written(name), read_npy(written(name)), Code::Parse, &["read_npy", word]);
    }
}

/// Written arrays are read back unchanged, and a file of one array equals NumPy's byte for byte.
#[test]
fn arrays_for_numpy() {
    let folder = Folder::new("written");
    let (one, several) = (folder.0.join("one.npy"), folder.0.join("several.npz"));
    let arrays = read_npz(written("plain.npz")).expect("arrays of all dtypes");
    for (name, array) in &arrays {
        write_npy(&one, array).expect(name);
        same(name, &read_npy(&one).expect(name), array);
    }
    write_npz(&several, arrays.iter().map(|(name, it)| (&**name, it))).expect("the folder is writable");
    let again = read_npz(&several).expect("it was written");
    assert!(again.keys().eq(arrays.keys()));
    arrays.iter().for_each(|(name, it)| same(name, &again[name], it));

    let rows = formula(DType::F32, &[2, 3]);
    for view in [&rows, &ops::stack(&[&rows, &rows], 2).at((.., .., 1))] {
        write_npy(&one, view).expect("the folder is writable");
        let [got, want] = [&one, &written("float32.npy")].map(|it| std::fs::read(it).expect("it is there"));
        assert!(got == want, "the bytes of `numpy.save`");
    }

    // A refused write leaves the file unchanged.
    let before = std::fs::read(&several).expect("it was written");
    let half = rows.cast(DType::BF16);
    for (second, code, word) in
        [(("b", &half), Code::Argument, "the tensor is `b`"), (("a", &rows), Code::DuplicateName, "`a`")]
    {
        let error = write_npz(&several, [("a", &rows), second]).expect_err(word);
        assert!(error.code() == code && error.to_string().contains(word), "{error}");
        assert!(std::fs::read(&several).expect("it is there") == before);
    }
    refused(&folder.0, write_npy(&folder.0, &rows), Code::Io, &["write_npy"]);
}

/// Returns an NPY file with this header.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), data].concat()
}

#[test]
fn broken_arrays_are_refused() {
    let folder = Folder::new("npy");
    let header = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let cases: [(&str, Vec<u8>, &str); 14] = [
        ("nothing", vec![], "no NPY file"),
        ("another format", b"PK\x03\x04 and so on".to_vec(), "no NPY file"),
        ("a version of the future", b"\x93NUMPY\x09\x00\x00\x00".to_vec(), "version 9"),
        ("a short header", npy(&header("()"), &[])[..30].to_vec(), "in its header, it ends"),
        ("no dict", npy("[1, 2]", &[]), "header `[1, 2]` is broken"),
        ("a missing key", npy("{'descr': '<f4', 'shape': (1,)}", &[0; 4]), "broken"),
        ("another key", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}", &[0; 4]), "broken"),
        ("a negative size", npy(&header("(-1,)"), &[]), "broken"),
        ("a size that is no number", npy(&header("(1.5,)"), &[]), "broken"),
        ("a shape beyond memory", npy(&header("(99999999999, 99999999999, 9999)"), &[]), "no memory holds"),
        ("a shape beyond the file", npy(&header("(999999999999,)"), &[0; 4]), "but there are 4"),
        ("too few bytes", npy(&header("(2, 3)"), &[0; 23]), "takes 24 bytes, but there are 23"),
        ("too many bytes", npy(&header("(2, 3)"), &[0; 25]), "takes 24 bytes, but there are 25"),
        (
            "an order of bytes that is none",
            npy("{'descr': '!f4', 'fortran_order': False, 'shape': ()}", &[0; 4]),
            "`!f4`",
        ),
    ];
    for (name, bytes, word) in cases {
        let path = folder.file(name, bytes);
        refused(&path, read_npy(&path), Code::Parse, &[word]);
    }
    refused(&folder.0, read_npy(&folder.0), Code::Io, &[]);
    let missing = folder.0.join("missing");
    refused(&missing, read_npz(&missing), Code::Io, &["read_npz"]);
}

/// Every truncated or changed archive is read to the same arrays, or refused.
#[test]
fn broken_archives_are_refused() {
    let folder = Folder::new("npz");
    let whole = std::fs::read(written("packed.npz")).expect("it is in the repository");
    for length in (0..whole.len()).step_by(97).chain([whole.len() - 1]) {
        let path = folder.file("cut.npz", &whole[..length]);
        refused(&path, read_npz(&path), Code::Parse, &["no zip archive"]);
    }
    let want = read_npz(written("packed.npz")).expect("it is whole");
    let (mut accepted, mut tried) = (0, 0);
    for at in (0..whole.len()).step_by(13) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        let path = folder.file("changed.npz", &bytes);
        tried += 1;
        match read_npz(&path) {
            Err(error) => assert_eq!(error.code(), Code::Parse, "byte {at}: {error}"),
            // The changed byte is in a name, a time or another field that is not part of an array.
            Ok(arrays) => {
                accepted += 1;
                for (name, got) in arrays.iter().filter(|it| want.contains_key(it.0)) {
                    same(name, got, &want[name]);
                }
            }
        }
    }
    assert!(accepted < tried / 2, "{accepted} of {tried} are accepted");
}

/// Name, method, packed bytes, size and checksum. The last entry is a false start of the header for the directory, or
/// `None`.
type Member<'a> = (&'a str, u16, &'a [u8], u32, u32, Option<u32>);

/// Returns a zip archive with these members.
fn zip(members: &[Member]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, method, packed, size, checksum, start) in members {
        let at = start.unwrap_or(file.len() as u32);
        let sizes = [*checksum, packed.len() as u32, *size].map(u32::to_le_bytes).concat();
        let name_length = (name.len() as u16).to_le_bytes();
        let common = [&[20, 0, 0, 0][..], &method.to_le_bytes(), &[0; 4], &sizes, &name_length, &[0, 0]].concat();
        if start.is_none() {
            file.extend([&b"PK\x03\x04"[..], &common, name.as_bytes(), packed].concat());
        }
        directory.extend([&b"PK\x01\x02\x14\x00"[..], &common, &[0; 10], &at.to_le_bytes(), name.as_bytes()].concat());
    }
    let (start, length) = ((file.len() as u32).to_le_bytes(), (directory.len() as u32).to_le_bytes());
    let count = (members.len() as u16).to_le_bytes();
    [&file, &directory, &b"PK\x05\x06\0\0\0\0"[..], &count, &count, &length, &start, &[0, 0]].concat()
}

#[test]
fn archives_that_lie_are_refused() {
    let folder = Folder::new("zip");
    let array = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", &[1, 2, 3]);
    let (len, checksum) = (array.len() as u32, crc32(&array));
    // The data are a stored block of Deflate.
    let stored = [&[1][..], &(len as u16).to_le_bytes(), &(!(len as u16)).to_le_bytes(), &array].concat();
    let good = [("a.npy", 0, &array[..], len, checksum, None), ("../b", 8, &stored[..], len, checksum, None)];
    let arrays = read_npz(folder.file("good", zip(&good))).expect("both are whole");
    assert_eq!(arrays.keys().collect::<Vec<_>>(), ["../b", "a"], "a name is nowhere used as a path");
    let comment = zip(&good[..1]);
    let with_comment = |it: &[u8; 4]| [&comment[..comment.len() - 2], &[4, 0], it].concat();
    assert_eq!(read_npz(folder.file("comment", with_comment(b"text"))).expect("a comment").len(), 1);
    // Readers disagree where such an archive ends.
    let path = folder.file("two ends", with_comment(b"PK\x05\x06"));
    refused(&path, read_npz(&path), Code::Parse, &["it is no zip archive"]);
    let path = folder.file("bytes behind", [&comment[..], &[0]].concat());
    refused(&path, read_npz(&path), Code::Parse, &["bytes behind its end"]);
    // Other readers trust the length of the directory, or its start without a correction.
    let end = comment.len() - 22;
    let length = [&comment[..end + 12], &[1], &comment[end + 13..]].concat();
    for (name, archive) in [("another length", length), ("bytes before", [&[0], &comment[..]].concat())] {
        let path = folder.file(name, archive);
        refused(&path, read_npz(&path), Code::Parse, &["the records at its end disagree"]);
    }

    let size = u32::MAX - 1;
    let cases = [
        ("a checksum", vec![("a", 0, &array[..], len, checksum ^ 1, None)], "`a`: its checksum"),
        ("more than it says", vec![("a", 8, &stored[..], len - 1, checksum, None)], "`a`: its compressed bytes"),
        ("less than it says", vec![("a", 8, &stored[..], len + 1, checksum, None)], "`a`: it has"),
        ("stored, less than it says", vec![("a", 0, &array[..], len + 1, checksum, None)], "`a`: it has"),
        ("a bomb", vec![("a", 8, &stored[..], size, checksum, None)], "compressed bytes cannot be 4294967294"),
        ("4 GiB", vec![("a", 0, &array[..], u32::MAX, checksum, None)], "bytes instead of 4294967295"),
        ("another method", vec![("a", 12, &array[..], len, checksum, None)], "method 12"),
        ("bytes twice", vec![good[0], ("c", 0, &array[..], len, checksum, Some(0))], "members overlap"),
        ("a name twice", vec![good[0], ("a", 0, &array[..], len, checksum, None)], "two of this name"),
        ("a header elsewhere", vec![good[0], ("c", 0, &array[..], len, checksum, Some(5))], "is not where"),
        ("beyond the end", vec![good[0], ("c", 0, &array[..], len, checksum, Some(1 << 30))], "is not where"),
        ("no array", vec![("a", 0, &b"hello"[..], 5, crc32(b"hello"), None)], "`a`: it is no NPY file"),
    ];
    for (name, members, word) in cases {
        let path = folder.file(name, zip(&members));
        refused(&path, read_npz(&path), Code::Parse, &[word]);
    }
}

#[test]
fn tables() {
    let options = CsvOptions::new().column("a \"quoted\" name", DType::I64).column("flag", DType::Bool);
    let table = read_csv(written("quoted.csv"), &options.text("text, with commas").dtype(DType::F64)).expect("a table");
    assert_eq!(table.names(), ["number", "a \"quoted\" name", "text, with commas", "flag"]);
    assert_eq!(table.len(), 4);
    let numbers = table.column("number").expect("numbers").to_vec::<f64>();
    assert_eq!(numbers, [0.0, 1.0 / 7.0, 2.0 / 7.0, 3.0 / 7.0]);
    assert_eq!(table.column("a \"quoted\" name").expect("integers").to_vec::<i64>(), [1, 10, 100, 1000]);
    let want = ["plain", "with, comma", "with \"quotes\"", "with\nline\r\nends"];
    assert_eq!(table.text("text, with commas").expect("text"), want);
    assert_eq!(table.column("flag").expect("bools").to_vec::<bool>(), [true, false, true, false]);
    for (got, code) in [
        (table.column("x").err(), Code::Argument),
        (table.column("text, with commas").err(), Code::Argument),
        (table.text("flag").err(), Code::Argument),
        (table.matrix().err(), Code::Argument),
        (table.columns(&["number", "flag"]).err(), Code::DType),
    ] {
        assert_eq!(got.expect("it is refused").code(), code);
    }
    let options = CsvOptions::new().header(false).delimiter(';').dtype(DType::I16);
    let table = read_csv(written("semicolons.csv"), &options).expect("a table");
    assert_eq!(table.names(), ["0", "1", "2"]);
    assert_eq!(table.columns(&["1", "0"]).expect("numbers").to_vec::<i16>(), [0, 0, -1, 1, -2, 2]);
    assert_eq!(table.matrix().expect("numbers").shape(), [3, 3]);
}

#[test]
fn forms_of_tables() {
    let folder = Folder::new("csv");
    let plain = || CsvOptions::new().header(false);
    let accepted: [(&str, &str, CsvOptions, &[f32]); 6] = [
        ("no end of the last line", "1,2\n3,4", plain(), &[1.0, 2.0, 3.0, 4.0]),
        ("ends of Windows", "1,2\r\n3,4\r\n", plain(), &[1.0, 2.0, 3.0, 4.0]),
        ("empty lines", "\n1,2\n \n\r\n3,4\n\n", plain(), &[1.0, 2.0, 3.0, 4.0]),
        ("spaces", " 1 ,\t2\n", plain(), &[1.0, 2.0]),
        ("a mark of the order of bytes", "\u{feff}a\n1\n", CsvOptions::new(), &[1.0]),
        ("numbers", "1e3\n-.5\ninf\n", plain(), &[1000.0, -0.5, f32::INFINITY]),
    ];
    for (name, text, options, want) in accepted {
        let table = read_csv(folder.file(name, text), &options).expect(name);
        assert_eq!(table.matrix().expect(name).to_vec::<f32>(), want, "{name}");
    }
    let rejected: [(&str, &[u8], CsvOptions, &[&str]); 14] = [
        ("nothing", b"", plain(), &["it has no line"]),
        ("blank lines", b"\n \n", plain(), &["it has no line"]),
        ("a header alone", b"a,b\n", CsvOptions::new(), &["it has no row"]),
        ("a word", b"1,2\n3,x\n", plain(), &["line 2", "column `1` is `x`, no f32"]),
        ("nothing between commas", b"1,,2\n", plain(), &["column `1` is ``"]),
        ("a short line", b"1,2\n\n3\n", plain(), &["line 3: 1 columns where the first line has 2"]),
        ("a long line", b"1\n1,2\n", plain(), &["line 2: 2 columns"]),
        ("beyond the dtype", b"255\n256\n", plain().dtype(DType::U8), &["line 2", "`256`, no u8"]),
        ("a fraction", b"1.5\n", plain().dtype(DType::I32), &["`1.5`, no i32"]),
        ("no truth value", b"2\n", plain().dtype(DType::Bool), &["`2`, no bool"]),
        ("an open quote", b"1\n\"2\n3\n", plain(), &["line 2: a quoted field has no end"]),
        ("text after a quote", b"\"1\"2\n", plain(), &["line 1: a quoted field goes on"]),
        ("a name twice", b"a,b,a\n1,2,3\n", CsvOptions::new(), &["column 3 is called `a`"]),
        ("no text", b"1\n\xff\n", plain(), &["it is no text"]),
    ];
    for (name, text, options, words) in rejected {
        let path = folder.file(name, text);
        refused(&path, read_csv(&path, &options), Code::Parse, words);
    }
    let path = folder.file("no such column", "a\n1\n");
    refused(&path, read_csv(&path, &CsvOptions::new().text("b")), Code::Argument, &["no column `b`"]);
    // Lines inside a quoted field are counted.
    let path = folder.file("lines", "\"a\nb\",1\nc,x\n");
    refused(&path, read_csv(&path, &plain().text("0")), Code::Parse, &["line 3", "`x`"]);
}

fn draw<D: Dataset + 'static>(data: D) -> D::Sample
where
    D::Sample: Tree,
{
    let all = data.len();
    DataLoader::new(data.batch(all)).draw().expect("in memory")
}

#[test]
fn files_of_mnist() {
    for usage in [Usage::Train, Usage::Test] {
        let (images, classes) = draw(mnist(written(""), usage).expect("both files are there"));
        same("images", &images, &formula(DType::U8, &[3, 1, 4, 5]));
        assert_eq!(classes.to_vec::<i64>(), [7, 0, 9]);
    }
    let path = written("t10k-labels-idx1-ubyte.gz");
    assert_eq!(read_idx(&path).expect("compressed").to_vec::<u8>(), [7, 0, 9]);

    let folder = Folder::new("mnist");
    let packed = std::fs::read(&path).expect("it is in the repository");
    for length in 0..packed.len() {
        let path = folder.file("cut", &packed[..length]);
        refused(&path, read_idx(&path), Code::Parse, &[]);
    }
    for at in 0..packed.len() {
        let mut bytes = packed.clone();
        bytes[at] ^= 0x10;
        let path = folder.file("changed", &bytes);
        // The header has the name of the compressed file, and bits follow the end of the last block.
        let same = read_idx(&path).map(|it| it.to_vec::<u8>() == [7, 0, 9]);
        assert!(same.unwrap_or(true), "byte {at}");
    }
    let idx = |kind: u8, sizes: &[u32], data: &[u8]| {
        let sizes: Vec<u8> = sizes.iter().flat_map(|it| it.to_be_bytes()).collect();
        [&[0, 0, kind, sizes.len() as u8 / 4][..], &sizes, data].concat()
    };
    let path = folder.file("i16", idx(0x0b, &[2], &[1, 2, 0xff, 0xfe]));
    assert_eq!(read_idx(&path).expect("big endian").to_vec::<i16>(), [258, -2]);
    let cases = [
        ("a kind", idx(0x0a, &[1], &[0]), "no IDX file"),
        ("few bytes", idx(8, &[2, 2], &[0; 3]), "takes 4 bytes, but there are 3"),
        ("many bytes", idx(8, &[2, 2], &[0; 5]), "but there are 5"),
        ("no sizes", vec![0, 0, 8, 3, 0], "ends 3 bytes early"),
        ("beyond memory", idx(0x0e, &[u32::MAX; 9], &[]), "no memory holds"),
    ];
    for (name, bytes, word) in cases {
        let path = folder.file(name, bytes);
        refused(&path, read_idx(&path), Code::Parse, &[word]);
    }
    let images = folder.file("train-images-idx3-ubyte", idx(8, &[2, 1, 1], &[5, 6]));
    let classes = folder.file("train-labels-idx1-ubyte", idx(8, &[3], &[1, 2, 3]));
    refused(&classes, mnist(&folder.0, Usage::Train), Code::Parse, &["3 classes for the 2 images"]);
    folder.file("train-labels-idx1-ubyte", idx(8, &[2], &[1, 2]));
    assert!(mnist(&folder.0, Usage::Train).is_ok());
    folder.file("train-images-idx3-ubyte", idx(8, &[2], &[5, 6]));
    refused(&images, mnist(&folder.0, Usage::Train), Code::Parse, &["u8[2] instead of bytes in 3 dimensions"]);
    let missing = folder.0.join("t10k-images-idx3-ubyte");
    refused(&missing, mnist(&folder.0, Usage::Test), Code::Io, &[]);
}

#[test]
fn files_of_cifar() {
    let folder = Folder::new("cifar");
    let image = |labels: &[u8], seed: usize| {
        let pixels = (0..3072).map(|it| ((it + seed) % 251) as u8);
        labels.iter().copied().chain(pixels).collect::<Vec<u8>>()
    };
    let pixel = |images: &Tensor, at: [usize; 4]| images.i((at[0], at[1], at[2], at[3])).item::<u8>();
    for batch in 1..=5 {
        folder.file(&format!("data_batch_{batch}.bin"), [image(&[batch], 3), image(&[9], 7)].concat());
    }
    let (images, classes) = draw(cifar10(&folder.0, Usage::Train).expect("five files"));
    assert_eq!(images.shape(), [10, 3, 32, 32]);
    assert_eq!(classes.to_vec::<i64>(), [1, 9, 2, 9, 3, 9, 4, 9, 5, 9]);
    assert_eq!(pixel(&images, [1, 2, 5, 6]) as usize, (2 * 1024 + 5 * 32 + 6 + 7) % 251);
    folder.file("test.bin", [image(&[19, 99], 1), image(&[0, 5], 2)].concat());
    let (images, coarse, fine) = draw(cifar100(&folder.0, Usage::Test).expect("one file"));
    assert_eq!((coarse.to_vec::<i64>(), fine.to_vec::<i64>()), (vec![19, 0], vec![99, 5]));
    assert_eq!(pixel(&images, [1, 0, 0, 1]), 3);

    let path = folder.file("test_batch.bin", [image(&[9], 0), image(&[10], 0)].concat());
    refused(&path, cifar10(&folder.0, Usage::Test), Code::Parse, &["class of image 1 is 10, but there are 10"]);
    let path = folder.file("train.bin", image(&[20, 0], 0));
    refused(&path, cifar100(&folder.0, Usage::Train), Code::Parse, &["coarse class of image 0 is 20"]);
    for length in [0, 1, 3072, 3074] {
        let path = folder.file("test_batch.bin", vec![0; length]);
        refused(&path, cifar10(&folder.0, Usage::Test), Code::Parse, &["no images of 3073 bytes"]);
    }
    let path = folder.file("data_batch_3.bin", []);
    refused(&path, cifar10(&folder.0, Usage::Train), Code::Parse, &[]);
}

#[test]
fn lines_of_text() {
    let folder = Folder::new("text");
    let paths = [folder.file("a", "one\n\ntwo \r\n"), folder.file("b", ""), folder.file("c", "drei\nvier ü")];
    let lines = TextFileDataset::read(&paths).expect("text");
    let all = (0..lines.len()).map(|it| lines.get(Epoch::new(0, 0), it)).collect::<Result<Vec<_>>>().expect("all");
    assert_eq!(all, ["one", "", "two ", "drei", "vier ü"]);
    assert!(lines.name(Epoch::new(0, 0), 4).starts_with("line 2 of `"));
    let fails = lines.clone().map(|it| Tensor::ones([2, 3]).reshape([it.len()]));
    let error = fails.get(Epoch::new(0, 0), 3).expect_err("six elements are not four");
    assert!(error.to_string().contains(&format!("line 1 of `{}`", paths[2].display())), "{error}");
    assert_eq!(lines.get(Epoch::new(0, 0), 5).expect_err("there are five").code(), Code::OutOfRange);
    let path = folder.file("d", b"fine\nalso fine\nnot \xff");
    refused(&path, TextFileDataset::read([&path]), Code::Parse, &["line 3 is not UTF-8"]);
    let missing = folder.0.join("missing");
    refused(&missing, TextFileDataset::read([&missing]), Code::Io, &[]);
}

/// With `MS_CHECKPOINTS`, writes a file to that folder, and compares the file that `peers/checkpoints.py` wrote in
/// response.
fn with_others(
    name: &str,
    extension: &str,
    state: &StateDict,
    write: fn(&StateDict, PathBuf) -> Result<()>,
    read: fn(PathBuf) -> Result<StateDict>,
) {
    let Some(folder) = std::env::var_os("MS_CHECKPOINTS").map(PathBuf::from) else { return };
    write(state, folder.join(name).with_extension(extension)).expect("the folder is writable");
    state.write(folder.join(name).with_extension("safetensors")).expect("the folder is writable");
    let back = folder.join("back").with_extension(extension);
    if !back.exists() {
        println!("{} was not compared: `peers/checkpoints.py` writes it", back.display());
        return;
    }
    let read = read(back).expect("the other framework wrote it");
    assert!(read.names().eq(state.names()));
    for (name, want) in state.iter() {
        let got = read.get(name).expect("the names are equal");
        assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()), "{name}");
        assert_eq!(got.cast(DType::F64).to_vec::<f64>(), want.cast(DType::F64).to_vec::<f64>(), "{name}");
    }
}

/// A checkpoint of MindSpore is read as it was written. Values that it cannot hold are refused, and leave the file
/// unchanged.
#[test]
fn checkpoints_of_mindspore() {
    let folder = Folder::new("mindspore");
    let path = folder.0.join("net.ckpt");
    let mut state = StateDict::new();
    state.insert("fc.weight", tensor![[1f32, -2.5], [0.0, 4.0]]);
    state.insert("none", Tensor::zeros([0, 3]));
    state.write_mindspore(&path).expect("the folder is writable");
    let read = StateDict::read_mindspore(&path).expect("it was just written");
    assert!(read.names().eq(["fc.weight", "none"]));
    assert_eq!(read.get("fc.weight").expect("it is there").to_vec::<f32>(), [1.0, -2.5, 0.0, 4.0]);
    with_others("cells", "ckpt", &state, StateDict::write_mindspore, StateDict::read_mindspore);
    state.insert("empty", Tensor::zeros([0]));
    let error = state.write_mindspore(&path).expect_err("it would be another shape");
    assert_eq!(error.code(), Code::Argument);
    assert!(error.to_string().contains("`empty`"));
    assert_eq!(StateDict::read_mindspore(&path).expect("it is as it was").len(), 2);
    let error = StateDict::read_pytorch(&path).expect_err("it is no zip archive");
    assert!(error.code() == Code::Io && error.to_string().contains("net.ckpt"));
}

/// A file of PyTorch is read as it was written, in every dtype that PyTorch has. Other dtypes are refused, and leave
/// the file unchanged.
#[test]
fn files_of_pytorch() {
    let folder = Folder::new("pytorch");
    let path = folder.0.join("net.pt");
    let mut state = StateDict::new();
    let foreign = [DType::U16, DType::U32, DType::U64];
    for dtype in DType::ALL.into_iter().filter(|it| !foreign.contains(it)) {
        let matrix = (Tensor::arange(6) % 2).reshape([2, 3]).transpose(0, 1);
        state.insert(format!("{dtype} matrix"), matrix.cast(dtype));
        state.insert(format!("{dtype} scalar"), Tensor::ones(()).cast(dtype));
        state.insert(format!("{dtype} none"), Tensor::zeros([0, 3]).cast(dtype));
    }
    state.insert("", tensor![-2.5f32]);
    state.insert("size beyond 32 bits", Tensor::zeros([0, 3_000_000_000]));
    state.write_pytorch(&path).expect("the folder is writable");
    let read = StateDict::read_pytorch(&path).expect("it was just written");
    assert!(read.names().eq(state.names()));
    for (name, want) in state.iter() {
        let got = read.get(name).expect("the names are equal");
        assert_eq!((got.dtype(), got.shape()), (want.dtype(), want.shape()), "{name}");
        assert_eq!(got.cast(DType::F32).to_vec::<f32>(), want.cast(DType::F32).to_vec::<f32>(), "{name}");
    }
    with_others("net", "pt", &state, StateDict::write_pytorch, StateDict::read_pytorch);
    for dtype in foreign {
        let mut other = StateDict::new();
        other.insert("ids", Tensor::ones([2]).cast(dtype));
        let error = other.write_pytorch(&path).expect_err("PyTorch has no storage of it");
        assert_eq!(error.code(), Code::DType);
        assert!(error.to_string().contains("`ids`"));
    }
    assert_eq!(StateDict::read_pytorch(&path).expect("it is as it was").len(), state.len());
}
