//! Shared code of the examples: the handwritten digits and [pictures](picture). Examples with a PyTorch twin in
//! `peers/programs` also share deterministic inputs, which both sides compute from names and positions. The recorded
//! losses of the twins are compared here.

#![allow(dead_code, unused_imports, reason = "no program uses all of it")]

#[cfg(feature = "onnx")]
mod onnx;
pub mod picture;

#[cfg(feature = "onnx")]
pub use onnx::check_onnx;

use ms::prelude::*;
use std::path::{Path, PathBuf};

/// Returns element `at` of the random integers of a name: SplitMix64, seeded by the FNV-1a hash of the name.
fn bits(name: &str, at: u64) -> u64 {
    let seed = name.bytes().fold(0xcbf29ce484222325u64, |hash, byte| (hash ^ byte as u64).wrapping_mul(0x100000001b3));
    let z = seed.wrapping_add((at + 1).wrapping_mul(0x9e3779b97f4a7c15));
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
    z ^ (z >> 31)
}

fn generate<T: ms::tensor::Element>(name: &str, shape: &[usize], number: impl Fn(u64) -> T) -> Tensor {
    let numbers: Vec<T> = (0..shape.iter().product::<usize>() as u64).map(|at| number(bits(name, at))).collect();
    Tensor::from_slice(shape, &numbers)
}

/// Returns f32 numbers from -1 to 1, multiples of 2^-23.
pub fn uniform(name: &str, shape: &[usize]) -> Tensor {
    generate(name, shape, |bits| (bits >> 40) as f32 / 8388608.0 - 1.0)
}

/// Returns nearly normal f32 numbers of variance one: half the sum of 12 uniform numbers.
pub fn normal(name: &str, shape: &[usize]) -> Tensor {
    (0..12).map(|part| uniform(&format!("{name}.{part}"), shape)).reduce(|a, b| a + b).expect("there are 12") / 2.0
}

/// Returns integers from 0 to `limit` - 1.
pub fn below(name: &str, shape: &[usize], limit: u64) -> Tensor {
    generate(name, shape, |bits| ((bits >> 33) % limit) as i64)
}

/// Returns the initial value of a parameter or buffer by its PyTorch name: matrices of variance `1 / inputs`, scales
/// near one, biases near zero.
pub fn initial(name: &str, shape: &[usize]) -> Tensor {
    let numbers = uniform(name, shape);
    match shape.len() {
        1 if name.ends_with("weight") || name.ends_with("running_var") => 1.0 + 0.1 * numbers,
        1 => 0.1 * numbers,
        _ => numbers * (3.0 / shape[1..].iter().product::<usize>() as f64).sqrt() as f32,
    }
}

/// Sets all parameters and buffers to their [`initial`] values.
pub fn initialize(net: &impl Stateful) -> Result<()> {
    let state = StateDict::named(net, Convention::PyTorch);
    let values: StateDict = state.iter().map(|(name, it)| (name.to_owned(), initial(name, it.shape()))).collect();
    net.load_state_dict(&values, &LoadOptions::new().convention(Convention::PyTorch)).map(drop)
}

/// Returns the path of a file in `examples/data`.
pub fn data(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "data", name].iter().collect()
}

/// The number of training digits; the others are test digits.
pub const TRAIN: usize = 1437;

/// Reads the handwritten digits: 64 pixels from 0 to 1 for each, and its class.
pub fn digits() -> Result<(Tensor, Tensor)> {
    let table = read_csv(data("digits.csv"), &CsvOptions::new().header(false))?.matrix()?;
    Ok((table.i((.., ..64)) / 16.0, table.i((.., 64)).cast(DType::I64)))
}

/// Writes a weights file with the names and shapes of a program's twin, and [`initial`] values.
pub fn write_weights(program: &str, path: &Path) -> Result<()> {
    let list = std::fs::read_to_string(data(&format!("{program}_state.txt"))).expect("the file is in the repository");
    let entry = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next().expect("a name").to_owned();
        let shape: Vec<usize> = words.map(|it| it.parse().expect("a size")).collect();
        // The only values of rank 0 are batch counters.
        let value = if shape.is_empty() { Tensor::scalar(0i64) } else { initial(&name, &shape) };
        (name, value)
    };
    list.lines().map(entry).collect::<StateDict>().write(path)
}

/// Reads the numbers that the twin of a program wrote.
fn expected(program: &str) -> Vec<f32> {
    let path = data(&format!("curves/{program}.txt"));
    let text = std::fs::read_to_string(&path).expect("the file is in the repository");
    text.lines().map(|line| line.parse().expect("a number per line")).collect()
}

/// Compares the losses of a program with its twin's, and prints the largest difference.
///
/// # Panics
/// Panics if a loss differs by more than `tolerance`, relative to the twin's loss.
pub fn compare(program: &str, losses: &[f32], tolerance: f32) {
    let expected = expected(program);
    assert_eq!(losses.len(), expected.len(), "{program}: the number of losses");
    let differences = losses.iter().zip(&expected).map(|(got, want)| (got - want).abs() / want.abs());
    let (step, largest) = differences.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are losses");
    let (first, last) = (losses[0], losses[losses.len() - 1]);
    println!("{program}: the loss goes from {first:.4} to {last:.4} in {} steps", losses.len());
    println!("{program}: at most {largest:.1e} from PyTorch's, relatively, in step {step}");
    let steps = |losses: &[f32]| losses.iter().enumerate().map(|(at, it)| (at as f64, *it as f64)).collect();
    let curves = [("PyTorch", steps(&expected)), ("ms", steps(losses))];
    picture::curves(program, &format!("{program}: the loss"), "step", &curves);
    // `>` would be false for NaN.
    assert!(largest <= tolerance, "{program}: the losses differ from those of PyTorch by more than {tolerance:e}");
}

/// Compares results of a program with its twin's, and prints the largest difference.
///
/// # Panics
/// Panics if a number differs by more than `tolerance`, relative to the twin's largest number.
pub fn compare_values(program: &str, values: &Tensor, tolerance: f32) {
    let expected = Tensor::from_slice(values.shape(), &expected(program));
    let largest = |it: Tensor| it.abs().max(()).item::<f32>();
    let difference = largest(values - &expected) / largest(expected);
    println!("{program}: at most {difference:.1e} from PyTorch's, relative to the largest number");
    // `>` would be false for NaN.
    assert!(difference <= tolerance, "{program}: the results differ from those of PyTorch by more than {tolerance:e}");
}

/// Says that the ONNX model of a program is not compared.
#[cfg(not(feature = "onnx"))]
pub fn check_onnx<R>(program: &str, _: impl Fn(&[Tensor]) -> R, _: &[Tensor]) -> Result<()> {
    println!("{program}: with the feature `onnx`, the results are compared with those of an ONNX model");
    Ok(())
}
