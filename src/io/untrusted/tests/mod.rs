//! Runs every reader on mutated files, and functions of one op, in processes with memory and time limits.

mod one_op;

use super::*;
use crate::io::archive::{members, write_archive};
use crate::io::{ExportOptions, ExportedFunction, StateDict};
use crate::prelude::*;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The task of a process: the reader, the first case, the number of cases, and the file for the current one.
const TASK: &str = "MS_FUZZ_TASK";

/// The address-space limit of a process in KiB.
const MEMORY: usize = 2 << 20;

/// The time limit of a case.
const TIME: Duration = Duration::from_secs(10);

/// The pseudo-reader of functions of one op, which are read by the reader `exported`.
const ONE_OP: &str = "one op";

/// The exit codes after a panic of a reader and after a timeout.
const PANICKED: i32 = 70;
const ENDLESS: i32 = 71;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

fn of_repository(folder: &str, extension: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = fs::read_dir(folder).expect("the folder is in the repository");
    let mut paths: Vec<PathBuf> = entries.map(|it| it.expect("an entry").path()).collect();
    paths.retain(|it| it.extension().is_some_and(|it| it == extension));
    paths.sort();
    paths.iter().map(|it| fs::read(it).expect("it is a file")).collect()
}

/// Returns the bytes that a function writes to a file.
fn written(write: impl FnOnce(&Path) -> Result<()>) -> Vec<u8> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("ms fuzz {} {number}", std::process::id()));
    write(&path).unwrap_or_else(|error| panic!("{error}"));
    let bytes = fs::read(&path).expect("it was written");
    fs::remove_file(&path).expect("it was written");
    bytes
}

fn functions() -> Vec<ExportedFunction> {
    let images =
        nn::sequential![nn::Conv2d::new(1, 2, 3), nn::MaxPool2d::new(2), nn::Flatten::new(), nn::Dense::new(2, 3)];
    let options = ExportOptions::new().input("x", ["n", "_", "_", "_"]);
    let images =
        crate::export(|x: &Tensor| ops::softmax(images.call(x), -1), (&Tensor::zeros([1, 1, 4, 4]),), &options);
    let options = ExportOptions::new().input("x", ["n", "_"]);
    let moved = |x: &Tensor| ops::concat(&[x.i(1..), ops::cumsum(&x.i(..1), 1) * 2.0], 0).sum(1);
    let moved = crate::export(moved, (&Tensor::zeros([3, 4]),), &options);
    [images, moved].map(|it| it.unwrap_or_else(|error| panic!("{error}"))).into()
}

/// Returns small valid files for a reader.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let tensors = || [tensor![[1.0f32, 2.0], [3.0, 4.0]], tensor![7i64], Tensor::zeros([0, 3]).cast(DType::F16)];
    match name {
        "ckpt" => of_repository("tests/data", "ckpt"),
        "csv" => [&b"x,y,z\n0.5,1,2\n-2,3,\"4\"\n"[..], b"a\n1\n\n2\r\n"].map(<[u8]>::to_vec).into(),
        "exported" => functions().iter().map(|it| written(|path| it.save(path))).collect(),
        "idx" => {
            let plain = [&[0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3][..], &[7; 6]].concat();
            of_repository("tests/training/data/files", "gz").into_iter().chain([plain]).collect()
        }
        "npy" => {
            let mut all: Vec<_> = tensors().iter().map(|it| npy::encode(it).expect("NumPy has the type")).collect();
            let turned = String::from_utf8_lossy(&all[0]).contains("False");
            assert!(turned);
            let mut columns = all[0].clone();
            let at = columns.windows(5).position(|it| it == b"False").expect("it says so");
            columns[at..at + 5].copy_from_slice(b"True ");
            all.push(columns);
            all
        }
        "npz" => {
            let own = written(|path| crate::data::write_npz(path, ["a", "b", "c"].into_iter().zip(&tensors())));
            of_repository("tests/training/data/files", "npz").into_iter().chain([own]).collect()
        }
        #[cfg(feature = "onnx")]
        "onnx" => {
            let own = functions();
            let own = own.iter().map(|it| written(|path| it.save_onnx(path)));
            // One file refers to external data, which is absent here.
            let is_whole = |it: &Vec<u8>| !it.windows(8).any(|it| it == b"external");
            own.chain(of_repository("tests/data/onnx", "onnx").into_iter().filter(is_whole)).collect()
        }
        "pytorch" => of_repository("tests/data", "pt"),
        "safetensors" => {
            let state: StateDict = ["a", "b", "c"].map(str::to_owned).into_iter().zip(tensors()).collect();
            vec![written(|path| state.write(path))]
        }
        #[cfg(feature = "tokenizers")]
        "tokenizer" => vec![crate::data::pretrained::tests::pairs().into_bytes()],
        _ => panic!("the reader `{name}` has no files"),
    }
}

/// Numbers that are often limits.
const HOSTILE: [&str; 12] = [
    "-1",
    "0",
    "1",
    "65",
    "4294967295",
    "2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1099511627776",
    "1e300",
    "1000000007",
];

/// Mutates some bytes.
fn change(bytes: &mut Vec<u8>, others: &[Vec<u8>], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        let widest = 1 << random.below(8);
        let length = random.below(widest).min(bytes.len().saturating_sub(at));
        match random.below(9) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at.max(1)),
            3 => drop(bytes.drain(at..at + length)),
            4 => {
                let part = bytes[at..at + length].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, part);
            }
            5 => {
                let other = &others[random.below(others.len())];
                let from = random.below(other.len());
                let part = &other[from..(from + length).min(other.len())];
                bytes.splice(at..at + length, part.iter().copied());
            }
            6 => {
                let value = [0, 1, u64::MAX, 1 << 31, 1 << 32, 1 << 40, i64::MAX as u64, 1 << 63][random.below(8)];
                let value = if random.below(2) == 0 { value.to_le_bytes() } else { value.to_be_bytes() };
                let width = [1, 2, 4, 8][random.below(4)].min(bytes.len() - at.min(bytes.len()));
                bytes[at..at + width].copy_from_slice(&value[..width]);
            }
            _ => {
                // Replaces a number in a text.
                let Some(start) = (at..bytes.len()).find(|&it| bytes[it].is_ascii_digit()) else { continue };
                let end = (start..bytes.len()).find(|&it| !bytes[it].is_ascii_digit()).unwrap_or(bytes.len());
                bytes.splice(start..end, HOSTILE[random.below(HOSTILE.len())].bytes());
            }
        }
    }
}

/// Returns the file of a case.
fn changed(name: &str, seeds: &[Vec<u8>], case: u64) -> Vec<u8> {
    let mut random = Random(case);
    let mut bytes = seeds[random.below(seeds.len())].clone();
    let inside = random.below(3) > 0;
    match name {
        // Mutates the content before the checksums of the members are computed.
        "npz" | "pytorch" if inside => {
            let parts = members(&bytes).expect("it is an archive");
            let parts = parts.iter().map(|it| (it.name.clone(), it.content().expect("it is whole").into_owned()));
            let mut parts: BTreeMap<String, Vec<u8>> = parts.collect();
            let others: Vec<Vec<u8>> = parts.values().cloned().collect();
            let chosen = match parts.keys().position(|it| it.ends_with("data.pkl")) {
                Some(at) if random.below(4) > 0 => at,
                _ => random.below(parts.len()),
            };
            change(parts.values_mut().nth(chosen).expect("it is one of them"), &others, &mut random);
            let mut archive = Vec::new();
            write_archive(&parts, &mut archive).expect("memory can be written");
            archive
        }
        // The length field is updated to the mutated header.
        "exported" | "safetensors" if inside => {
            let (length, rest) = bytes.split_first_chunk::<8>().expect("it is a file");
            let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
            let mut header = header.to_vec();
            let others = [header.clone()];
            change(&mut header, &others, &mut random);
            [&(header.len() as u64).to_le_bytes(), &header[..], data].concat()
        }
        _ => {
            change(&mut bytes, seeds, &mut random);
            bytes
        }
    }
}

/// Runs the cases of a worker process; does nothing in any other process.
#[test]
fn task() {
    let Ok(task) = std::env::var(TASK) else { return };
    let [name, first, count, path] = task.split('|').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let [first, count] = [first, count].map(|it| it.parse::<u64>().expect("a number"));
    let (read, seeds) = if name == ONE_OP { (one_op::read as Reader, Vec::new()) } else { (reader(name), seeds(name)) };
    for seed in &seeds {
        let module = name == "pytorch" && read(seed).is_err_and(|it| it.to_string().contains("__main__"));
        assert!(module || read(seed).is_ok(), "a file of {name} is not read: {:?}", read(seed));
    }
    static STARTED: AtomicU64 = AtomicU64::new(0);
    let begin = Instant::now();
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(TIME / 20);
            let started = Duration::from_millis(STARTED.load(Ordering::Relaxed));
            if begin.elapsed().saturating_sub(started) > TIME {
                std::process::exit(ENDLESS);
            }
        }
    });
    let mut state = OpenOptions::new().read(true).write(true).open(path).expect("the parent made it");
    let mut accepted = 0u64;
    for case in first..first + count {
        STARTED.store(begin.elapsed().as_millis() as u64, Ordering::Relaxed);
        state.rewind().expect("it is a file");
        state.write_all(&[case, accepted].map(u64::to_le_bytes).concat()).expect("it is a file");
        // Functions of one op are generated with the rules of ops, which are under test.
        let tested = || match name {
            ONE_OP => read(&one_op::file(&one_op::function(&mut Random(case)))),
            _ => read(&changed(name, &seeds, case)),
        };
        match catch_unwind(AssertUnwindSafe(|| tested().is_ok())) {
            Ok(is_read) => accepted += u64::from(is_read),
            Err(_) => std::process::exit(PANICKED),
        }
    }
    state.rewind().expect("it is a file");
    state.write_all(&[first + count, accepted].map(u64::to_le_bytes).concat()).expect("it is a file");
}

/// Runs cases of a reader. Returns how many files were accepted, and the failures.
fn run(name: &str, first: u64, count: u64) -> (u64, Vec<String>) {
    let path = std::env::temp_dir().join(format!("ms fuzz state {} {name}", std::process::id()));
    let (mut at, end, mut accepted, mut found) = (first, first + count, 0, Vec::new());
    while at < end && found.len() < 40 {
        fs::write(&path, [at, 0].map(u64::to_le_bytes).concat()).expect("the folder is writable");
        let limited = format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\"");
        let mut child = Command::new("sh");
        child.args(["-c", &limited]).arg(std::env::current_exe().expect("it runs"));
        child
            .args(["--exact", "io::untrusted::tests::task", "--test-threads=1", "--nocapture"])
            .env("MS_NUM_THREADS", "1");
        let output = child.env(TASK, format!("{name}|{at}|{}|{}", end - at, path.display())).output();
        let output = output.expect("there is a shell");
        let mut state = [[0; 8]; 2];
        let mut file = fs::File::open(&path).expect("it was made");
        file.read_exact(state.as_flattened_mut()).expect("the child keeps its size");
        let [case, read] = state.map(u64::from_le_bytes);
        accepted += read;
        if output.status.success() && case == end {
            break;
        }
        let why = match output.status.code() {
            Some(PANICKED) => "panics".to_owned(),
            Some(ENDLESS) => format!("takes more than {TIME:?}"),
            _ => format!("ends the process: {}", output.status),
        };
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        let first_lines: String = text.lines().filter(|it| !it.is_empty()).take(6).collect::<Vec<_>>().join(" / ");
        found.push(format!("{name} case {case} {why}: {first_lines}"));
        at = case + 1;
    }
    fs::remove_file(&path).expect("it was made");
    (accepted, found)
}

fn check<'a>(names: impl IntoIterator<Item = &'a str>, count: u64) {
    let first = std::env::var("MS_FUZZ_FIRST").map_or(0, |it| it.parse().expect("a number"));
    let mut all = Vec::new();
    for name in names {
        let begin = Instant::now();
        let (accepted, found) = run(name, first, count);
        println!("{name}: {count} files, {accepted} read, {} findings, {:?}", found.len(), begin.elapsed());
        all.extend(found);
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn changed_files_are_read_or_refused() {
    check(READERS.iter().map(|it| it.0), 100);
}

/// `MS_FUZZ_OPS` is the number of functions, and `MS_FUZZ_FIRST` the first one.
#[test]
fn functions_of_one_op_are_read_or_refused() {
    check([ONE_OP], std::env::var("MS_FUZZ_OPS").map_or(1000, |it| it.parse().expect("a number")));
}

/// `MS_FUZZ_CASES` is the number of files for each reader, `MS_FUZZ_READER` selects one, and `MS_FUZZ_FIRST` is the
/// first case.
#[test]
#[ignore = "it takes hours"]
fn many_changed_files() {
    let only = std::env::var("MS_FUZZ_READER").ok();
    let names = READERS.iter().map(|it| it.0).filter(|it| only.as_ref().is_none_or(|only| only == it));
    check(names, std::env::var("MS_FUZZ_CASES").map_or(100_000, |it| it.parse().expect("a number")));
}

/// Every reader rejects files that are not regular, and does not wait for them.
#[cfg(unix)]
#[test]
fn pipes_are_refused() {
    use crate::data;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let folder = std::env::temp_dir().join(format!("ms pipes {}", std::process::id()));
    fs::create_dir_all(&folder).expect("the folder is writable");
    let made = |name: &str| {
        let path = folder.join(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("the folder is writable");
        path
    };
    let pipe = made("pipe");
    made("train-images-idx3-ubyte");
    made("data_batch_1.bin");
    made("train.bin");
    made("external.bin");
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/onnx");
    let model = folder.join("model.onnx");
    fs::copy(models.join("external.onnx"), &model).expect("the folder is writable");
    type Read = fn(&Path) -> Result<()>;
    let readers: &[(&str, Read)] = &[
        ("safetensors", |it| StateDict::read(it).map(drop)),
        ("mindspore", |it| StateDict::read_mindspore(it).map(drop)),
        ("pytorch", |it| StateDict::read_pytorch(it).map(drop)),
        ("checkpoint", |it| crate::load_checkpoint(it, nn::Dense::new(1, 1)).map(drop)),
        ("exported", |it| ExportedFunction::load(it).map(drop)),
        #[cfg(feature = "onnx")]
        ("onnx", |it| ExportedFunction::load_onnx(it).map(drop)),
        #[cfg(feature = "onnx")]
        ("external data", |it| ExportedFunction::load_onnx(it.with_file_name("model.onnx")).map(drop)),
        ("npy", |it| data::read_npy(it).map(drop)),
        ("npz", |it| data::read_npz(it).map(drop)),
        ("csv", |it| data::read_csv(it, &CsvOptions::new()).map(drop)),
        ("idx", |it| data::read_idx(it).map(drop)),
        ("mnist", |it| data::mnist(it.parent().expect("it is in a folder"), data::Usage::Train).map(drop)),
        ("cifar10", |it| data::cifar10(it.parent().expect("it is in a folder"), data::Usage::Train).map(drop)),
        ("cifar100", |it| data::cifar100(it.parent().expect("it is in a folder"), data::Usage::Train).map(drop)),
        #[cfg(feature = "tokenizers")]
        ("tokenizer", |it| data::PretrainedTokenizer::open(it).map(drop)),
    ];
    for &(name, read) in readers {
        let (send, receive) = std::sync::mpsc::channel();
        let path = pipe.clone();
        std::thread::spawn(move || send.send(read(&path)));
        let result = receive.recv_timeout(TIME).unwrap_or_else(|_| panic!("{name} waits for a pipe"));
        let error = result.expect_err(name);
        assert!(error.code() == Code::Io && error.to_string().contains("no regular file"), "{name}: {error}");
    }
    assert!(StateDict::read("/dev/zero").is_err_and(|it| it.to_string().contains("no regular file")));
    fs::remove_dir_all(&folder).expect("it was made");
}

/// All readers open files through one function.
#[test]
fn files_are_opened_in_one_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("it is in the repository") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&root).expect("it is inside").display().to_string();
            let text = fs::read_to_string(&path).expect("it is text");
            let text = text.split("#[cfg(test)]\nmod tests").next().expect("there is a first part");
            let is_code = |it: &&str| !it.trim_start().starts_with("//");
            let opens = |it: &str| ["File::open(", "fs::read(", "read_to_string("].iter().any(|call| it.contains(call));
            let found = text.lines().filter(is_code).find(|it| opens(it));
            let is_test = name.ends_with("tests.rs") || name.contains("/tests/");
            if !["io/bytes.rs", "io/replace.rs"].contains(&name.as_str()) && !is_test {
                assert_eq!(found, None, "{name}: files are opened by `io::bytes::open`");
            }
        }
    }
}
