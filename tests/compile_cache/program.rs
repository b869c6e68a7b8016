//! Runs the program of a separate process: one call of a compiled function.
//!
//! The outcome is printed as one line.

use crate::memory;
use ms::prelude::*;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The loop count, which a static passes to the function.
static COUNT: AtomicUsize = AtomicUsize::new(200);

/// Has a host loop that is unrolled to `COUNT` iterations.
// The test needs a mutable static: a later process has to see its change.
#[allow(deprecated)]
#[jit]
fn func(input_x: &Tensor, input_y: &Tensor) -> Tensor {
    let mut output = input_x.clone();
    for _ in 0..COUNT.load(Ordering::Relaxed) {
        output = input_x + input_x * input_y + output;
    }
    output
}

#[jit]
fn scaled(x: &Tensor, factor: i64) -> Tensor {
    x * factor
}

#[jit]
fn doubled(x: &Tensor) -> Tensor {
    x * 2
}

#[jit]
fn raised(x: &Tensor) -> Tensor {
    x + 100
}

/// Reads the environment while it is traced.
#[jit]
fn from_environment(x: &Tensor) -> Tensor {
    let factor: f64 = std::env::var("FACTOR").ok().and_then(|it| it.parse().ok()).unwrap_or(1.0);
    x * factor
}

/// Reads the clock while it is traced.
#[jit]
fn from_clock(x: &Tensor) -> Tensor {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is later");
    println!("traced at {}", now.as_nanos());
    x + now.as_nanos() as i64
}

/// Takes a constant of this process.
#[jit]
fn with_a_constant(x: &Tensor, constant: i64) -> Tensor {
    let constant = Tensor::from_slice([3], &[constant as f32, 0.0, 1.0]);
    x + constant * 2
}

/// Prints while it is traced.
#[jit]
fn prints(x: &Tensor) -> Tensor {
    println!("traced");
    x + 1
}

#[cell]
struct Scale {
    factor: i64,
    weight: Parameter,
}

#[cell]
impl Scale {
    fn new(factor: i64) -> Self {
        Self { factor, weight: Parameter::new(tensor![1.0, 2.0, 3.0], "weight") }
    }

    fn construct(&self, x: &Tensor) -> Tensor {
        x * self.factor + &self.weight
    }
}

#[jit]
fn field(cell: &Scale, x: &Tensor) -> Tensor {
    cell.call(x)
}

/// Creates its cell while it is traced.
#[jit]
fn makes_a_cell(x: &Tensor) -> Tensor {
    let cell = Scale::new(7);
    cell.call(x)
}

/// The result of [`pure`].
#[derive(Clone, Tree)]
struct Parts {
    sum: Tensor,
    rest: Option<(Tensor, i64)>,
    names: Vec<String>,
}

#[derive(Clone, Tree)]
enum Either {
    Doubled(Parts),
    #[allow(dead_code)]
    Nothing,
}

/// Prints when it is traced, which a hit in the cache prevents.
#[jit(pure)]
fn pure(cell: &Scale, x: &Tensor, factor: i64) -> Either {
    println!("traced");
    let y = cell.call(x) * factor;
    cell.weight.set(&y);
    Either::Doubled(Parts { sum: y.sum(()), rest: Some((y * 2, factor + 1)), names: vec!["ü".into()] })
}

#[jit(pure)]
fn pure_cubed(x: &Tensor) -> Tensor {
    println!("traced");
    (x * x * x).sum(())
}

#[jit]
fn gradient(x: &Tensor) -> Tensor {
    ms::grad(|x: &Tensor| (x * x * x).sum(()))(x)
}

#[jit]
fn cubed(x: &Tensor) -> Tensor {
    (x * x * x).sum(())
}

#[jit]
fn product(a: &Tensor, b: &Tensor) -> Tensor {
    ops::softmax(a.matmul(b), -1)
}

ms::custom_op! {
    /// Returns the distance of an integer from the smallest one.
    fn distance(x: &Tensor, of: i64) -> Tensor;

    fn types(x: &ms::custom::Type, _of: i64) -> ms::custom::Type {
        x.clone()
    }

    fn run(_x: &[f32], of: i64, y: &mut [f32]) {
        y.fill(of.wrapping_sub(i64::MIN) as f32);
    }
}

#[jit]
fn given(x: &Tensor, integer: i64) -> Tensor {
    distance(x, integer) + x
}

#[jit(dims(x = [count]))]
fn sized(x: &Tensor) -> Tensor {
    x * 2 + 1
}

/// Holds a large constant, so that its entry is large.
#[jit]
fn held(x: &Tensor) -> Tensor {
    let constant: Vec<f32> = (0..15_000).map(|it| (it * it % 1001) as f32).collect();
    (x.reshape([3, 1]) + Tensor::from_slice([15_000], &constant)).max(1) - 991.0
}

/// Runs the program that `arguments` name, and prints the result and the use of the cache.
pub fn run(arguments: &[String]) {
    if std::env::var_os(memory::REFUSE).is_some() && !memory::refuse_executable_memory() {
        println!("executable memory cannot be refused");
    }
    let x = tensor![1.0, 2.0, 3.0];
    let number = |at: usize| arguments.get(at).and_then(|it| it.parse::<i64>().ok()).unwrap_or(0);
    let ones = |sizes: [usize; 2]| Tensor::ones(sizes) * 0.5;
    let start = Instant::now();
    let result = match &*arguments[0] {
        "func" => {
            COUNT.store(number(1) as usize, Ordering::Relaxed);
            func(&tensor![1.0], &tensor![2.0])
        }
        "shape" => doubled(&Tensor::ones([number(1) as usize])),
        "order" if number(1) == 0 => ops::concat(&[doubled(&x), raised(&x)], 0),
        "order" => {
            let raised = raised(&x);
            ops::concat(&[doubled(&x), raised], 0)
        }
        "constant" => scaled(&x, number(1)),
        "dtype" if number(1) == 0 => doubled(&x),
        "dtype" => doubled(&x.cast(DType::I32)),
        "environment" => from_environment(&x),
        "clock" => from_clock(&x.cast(DType::I64)).max(()),
        "captures" => with_a_constant(&x, number(1)),
        "prints" => prints(&x),
        "field" => field(&Scale::new(number(1)), &x),
        "makes" => makes_a_cell(&x),
        "pure" => {
            let cell = Scale::new(number(1));
            let Either::Doubled(parts) = pure(&cell, &x, number(2)) else { panic!("the other variant") };
            let (doubled, more) = parts.rest.expect("there is a rest");
            assert_eq!((more, &*parts.names), (number(2) + 1, &["ü".to_owned()][..]));
            ops::concat(&[parts.sum.reshape([1]), doubled, cell.weight.value()], 0)
        }
        "pure tape" => {
            let value = pure_cubed(&x);
            let gradient = ms::grad(|x: &Tensor| pure_cubed(x))(&x);
            ops::concat(&[value.reshape([1]), gradient, pure_cubed(&x).reshape([1])], 0)
        }
        "gradient" => gradient(&x),
        "tape" => ms::grad(|x: &Tensor| cubed(x))(&x),
        "tape twice" => ms::grad(|x: &Tensor| ms::grad(|x: &Tensor| cubed(x))(x).sum(()))(&x),
        "product" => product(&ones([64, 48]), &ones([48, 32])).sum(()),
        "precision" => {
            let precision = if number(1) == 0 { Precision::Strict } else { Precision::Highest };
            ms::with_context(Context { precision, ..ms::context() }, || product(&ones([8, 8]), &ones([8, 8]))).sum(())
        }
        "context" => {
            let path = Some(arguments[2].clone().into());
            let context = Context { enable_compile_cache: number(1) != 0, compile_cache_path: path, ..ms::context() };
            ms::with_context(context, || doubled(&x))
        }
        // The program computes with expressions before the attribute is read.
        "given" => given(&sized(&x), number(1)),
        "sized" => {
            let first =
                |count: usize| sized(&Tensor::from_slice([count], &vec![count as f32; count])).to_vec::<f32>()[0];
            Tensor::from_slice([10], &(1..=10).map(first).collect::<Vec<_>>())
        }
        "large" => held(&x),
        "shortened" => {
            let before = scaled(&x, 3);
            for file in std::fs::read_dir(&arguments[1]).expect("the cache is there").flatten() {
                std::fs::set_permissions(file.path(), PermissionsExt::from_mode(0o600)).expect("it is ours");
                let file = std::fs::OpenOptions::new().write(true).open(file.path()).expect("it is ours");
                file.set_len(0).expect("it can be shortened");
            }
            assert_eq!(scaled(&x, 3).to_vec::<f32>(), before.to_vec::<f32>());
            scaled(&x, 4)
        }
        "vanishes" => {
            let before = held(&x);
            std::fs::remove_dir_all(&arguments[1]).expect("the cache is there");
            assert_eq!(held(&x).to_vec::<f32>(), before.to_vec::<f32>());
            scaled(&x, 4)
        }
        "exit" => {
            doubled(&x);
            std::process::exit(3)
        }
        "many" => {
            // The functions differ in a constant. Each process compiles them in another order.
            let (first, count) = (number(1), number(2));
            let wrong = (0..count)
                .map(|i| (first + i * 7) % count)
                .filter(|&i| scaled(&x, i).to_vec::<f32>() != [i as f32, 2.0 * i as f32, 3.0 * i as f32]);
            Tensor::scalar(wrong.count() as i64)
        }
        other => panic!("no program is called {other}"),
    };
    let took = start.elapsed();
    let [mapped, copied] = memory::code();
    let last = ms::compile_report().pop().unwrap_or_default();
    let stages: Vec<&str> = last.stages.iter().map(|it| it.name).collect();
    let used = ms::cache_use();
    let values = result.cast(DType::F64).to_vec::<f64>();
    println!("result {} {values:?}", result.dtype());
    println!("stages {}", stages.join(", "));
    println!("hits {} misses {} us {} mapped {mapped} copied {copied}", used.hits, used.misses, took.as_micros());
}
