//! Tests running out of memory: it is an error of the op that allocates, at the user's line.
//!
//! A lack of memory never aborts the process.

use ms::error::OrRaise;
use ms::ops::{self, OpDef, Sample};
use ms::prelude::*;
use ms::tensor::{apply, try_room};
use ms::{Code, catch, load_checkpoint};
use ms_core::session::{Compiled, Precision};
use ms_core::trace;
use std::alloc::{GlobalAlloc, Layout, System};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, which can be made to fail.
struct Limited;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// The minimum size of blocks that fail when they are limited. Only blocks with sizes that depend on tensors are as
/// large.
const LARGE: usize = 16 << 10;

/// The number of large blocks that may still be allocated.
static LEFT: AtomicUsize = AtomicUsize::new(UNLIMITED);

const UNLIMITED: usize = usize::MAX;

fn is_granted(bytes: usize) -> bool {
    let one_less = |left: usize| if left == UNLIMITED { Some(left) } else { left.checked_sub(1) };
    bytes < LARGE || LEFT.fetch_update(Relaxed, Relaxed, one_less).is_ok()
}

// SAFETY: every block comes from `System`, which is a valid allocator, or is null, which reports a failure.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: `layout` has a non-zero size by the contract of `GlobalAlloc::alloc`.
        if is_granted(layout.size()) { unsafe { System.alloc(layout) } } else { std::ptr::null_mut() }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `System` allocated `block` with `layout`, since no other allocator returns blocks here.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_granted(size) {
            // SAFETY: `System` allocated `block` with `layout`, and `size` is non-zero and valid by the contract of
            // `realloc`.
            unsafe { System.realloc(block, layout, size) }
        } else {
            std::ptr::null_mut()
        }
    }
}

/// Runs `f` with a limited number of large blocks. Returns how many of them were left.
fn limited<R>(blocks: usize, f: impl FnOnce() -> R) -> (R, usize) {
    LEFT.store(blocks, Relaxed);
    let result = f();
    (result, LEFT.swap(UNLIMITED, Relaxed))
}

/// Runs `run` with no large block, then with one, and so on until it succeeds. Until then it must report that memory
/// ran out, and `check` checks the error. Returns the number of failures.
fn exhaust<R>(what: &str, run: impl Fn() -> Result<R>, check: impl Fn(&Error)) -> usize {
    eprintln!("{what}");
    let run = || catch(&run).and_then(std::convert::identity);
    // Objects that are created only once, such as kernels and tables, are created here.
    run().unwrap_or_else(|error| panic!("{what} with all memory: {error}"));
    let bytes = |count: usize| catch(|| ops::full_of([count], 0, DType::U8));
    assert!(bytes(2).is_ok(), "there is all memory");
    let mut refused = 0;
    for blocks in 0..1000 {
        // Cached blocks are released when an allocation fails. No op has such a large one.
        let (kept, _) = limited(0, || bytes(1 << 26));
        assert!(kept.is_err(), "there is no block for this");
        let (done, left) = limited(blocks, run);
        match done {
            Ok(_) if left > 0 => return refused,
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.code(), Code::Memory, "{what} with {blocks} blocks: {error}");
                check(&error);
                refused += 1;
            }
        }
    }
    panic!("{what} never has enough");
}

/// Checks that an error names an op, or the compiled function of many ops, and a line of this file.
fn is_named(error: &Error) {
    assert!(error.report().op.is_some() || !error.report().within.is_empty(), "no op is named: {error}");
    assert!(error.report().location.is_some_and(|it| it.file() == file!()), "no line of here is named: {error}");
}

/// The environment variable that passes the name of a test to a process.
const CHILD: &str = "MS_TEST_MEMORY_CHILD";

/// Runs a test of this file in a separate process. Other tests allocate at the same time, and a failed allocation
/// outside the framework aborts the process.
fn in_child(name: &str, run: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return run();
    }
    let program = std::env::current_exe().expect("a test has a path");
    let mut child = Command::new(program);
    let output = child
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, name)
        // If threads had separate heaps, the limit would not cover their free memory.
        .env("MALLOC_ARENA_MAX", "1")
        // Mapped memory does not pass through the allocator, so the limit would not cover it.
        .env("MS_HUGE_PAGES", "0")
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("a test runs");
    let said = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = said.lines().rev().take(12).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    assert!(output.status.success(), "{}: the last lines are\n{}", output.status, last.join("\n"));
}

/// Returns a sample with operands of several pages, if its op accepts them.
fn enlarged(def: &OpDef, sample: &Sample) -> Option<Sample> {
    let sizes: Vec<usize> = sample.inputs.iter().flat_map(|it| it.shape.clone()).collect();
    let taken = |sample: &Sample| {
        let numel = |shape: &[usize]| shape.iter().fold(1usize, |all, &it| all.saturating_mul(it));
        let largest = sample.inputs.iter().map(|it| numel(&it.shape)).max().unwrap_or(0);
        if !(20_000..200_000).contains(&largest) {
            return false;
        }
        let types: Vec<_> = sample.arrays().iter().map(|it| it.ty()).collect();
        (def.infer)(&sample.attrs, &types.iter().collect::<Vec<_>>()).is_ok()
    };
    let every = |_: usize| true;
    let only: Vec<_> = sizes.iter().map(|&size| move |it: usize| it == size).collect();
    let which: Vec<&dyn Fn(usize) -> bool> =
        only.iter().map(|it| it as &dyn Fn(usize) -> bool).chain([&every as &dyn Fn(usize) -> bool]).collect();
    for factor in [2, 3, 5, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000] {
        for which in &which {
            let mut larger = sample.clone();
            let shapes = larger.inputs.iter_mut().flat_map(|it| &mut it.shape);
            shapes.filter(|it| which(**it)).for_each(|it| *it *= factor);
            if taken(&larger) {
                return Some(larger);
            }
        }
    }
    None
}

#[test]
fn memory_runs_out_in_every_primitive() {
    in_child("memory_runs_out_in_every_primitive", || {
        let mut run = 0;
        for def in ops::definitions().filter(|it| it.name() != "get_float_status") {
            let Some(sample) = (def.samples)().iter().find_map(|it| enlarged(def, it)) else { continue };
            run += 1;
            let operands: Vec<Tensor> = sample.arrays().into_iter().map(Tensor::from_array).collect();
            let all: Vec<&Tensor> = operands.iter().collect();
            exhaust(
                def.name(),
                || apply(def.op(), &sample.attrs, &all),
                |error| {
                    is_named(error);
                    assert_eq!(error.report().op.as_deref(), Some(def.name()), "{error}");
                },
            );
            let types: Vec<_> = operands.iter().map(Tensor::ty).collect();
            let build = |given: &[Tensor]| {
                let given: Vec<&Tensor> = given.iter().collect();
                Ok(apply(def.op(), &sample.attrs, &given)?.into_vec())
            };
            let graph = trace::build(def.name(), &types, build).expect("the op takes them");
            let compiled = Compiled::new(&graph, Precision::Strict).expect("the graph is sound");
            exhaust(
                &format!("{}, compiled", def.name()),
                || compiled.run(&operands),
                |error| assert_eq!(error.report().op.as_deref(), Some(def.name()), "{error}"),
            );
        }
        assert!(run > 100, "only {run} primitives take large operands");
    });
}

/// Returns a table with constants that differ for each number, so that no cache finds it by its content.
fn table(number: usize) -> Tensor {
    let mut table = try_room::<f32>(30_000).or_raise();
    table.extend((0..30_000).map(|it| (it * 7 % 1000 + number) as f32));
    Tensor::from_slice([30_000], &table)
}

#[jit]
fn scaled(x: &Tensor, number: &usize) -> Tensor {
    let table = table(*number);
    (x * &table).flip(0) + &table.flip(0)
}

#[jit]
fn slope(x: &Tensor, number: &usize) -> Tensor {
    ms::grad(scaled)(x, number)
}

/// A function that could not start for lack of memory is started by a later call.
#[test]
fn what_could_not_start_is_started_later() {
    in_child("what_could_not_start_is_started_later", || {
        let x = Tensor::ones([30_000]);
        let mut refused = 0;
        for blocks in 0..200 {
            let call = || [scaled(&x, &blocks), slope(&x, &blocks)].map(|it| it.to_vec::<f32>());
            let want = ms::with_context(ms::Context { jit: false, ..ms::context() }, call);
            let (first, left) = limited(blocks, || catch(call));
            match first {
                Ok(got) => assert_eq!(got, want),
                Err(error) => {
                    refused += 1;
                    assert_eq!(error.code(), Code::Memory, "{blocks} blocks: {error}");
                }
            }
            assert_eq!(call(), want, "after {blocks} blocks");
            if left > 0 {
                assert!(refused > 3, "it starts with {blocks} blocks");
                return;
            }
        }
        panic!("it never starts");
    });
}

fn row() -> Tensor {
    ops::arange(30_000).cast(DType::F32) / 30_000.0
}

fn image() -> Tensor {
    row().reshape([1, 3, 100, 100])
}

#[jit]
fn compiled(x: &Tensor) -> Tensor {
    ops::softmax(x.exp() * x, 0)
}

#[jit]
fn saved(x: &Tensor) -> Tensor {
    let (mut x, mut most) = (x.clone(), Tensor::scalar(0.0));
    while most < 3.0 {
        x = x.sin() + 0.5;
        most = most + 1.0;
    }
    x.sum(())
}

#[test]
fn memory_runs_out_in_composites() {
    in_child("memory_runs_out_in_composites", || {
        type Case = (&'static str, fn() -> Tensor);
        let cases: [Case; 16] = [
            ("to_vec", || Tensor::scalar(row().to_vec::<f32>()[0])),
            ("from_slice", || Tensor::from_slice([30_000], &[0u64; 30_000])),
            ("nonzero", || ops::nonzero(row())),
            ("masked_select", || ops::masked_select(row(), row().gt(0.5))),
            ("repeat_each", || ops::repeat_each(row(), &[2; 30_000], 0)),
            ("repeat", || ops::repeat(row(), 3, 0)),
            ("tile", || ops::tile(row(), &[3])),
            ("split", || ops::split(row(), 3000, 0).swap_remove(7)),
            ("unstack", || ops::unstack(row().reshape([2000, 15]), 0).swap_remove(7)),
            ("stack", || ops::stack(&[row(), row()], 0)),
            ("the median", || ops::sort(row(), 0, false).0),
            ("a product of integers", || {
                row().cast(DType::I32).reshape([150, 200]).matmul(row().cast(DType::I32).reshape([200, 150]))
            }),
            ("a convolution of halves", || {
                let weight = Tensor::ones([4, 3, 3, 3]).cast(DType::BF16);
                ops::conv2d(image().cast(DType::BF16), weight, None, &ops::ConvOptions::new(2))
            }),
            ("a compiled function", || compiled(&row())),
            ("a compiled tangent", || ms::jvp(|x: &Tensor| compiled(x))(&row(), &row()).1),
            ("a compiled gradient through a loop", || ms::grad(|x: &Tensor| saved(x))(&row())),
        ];
        for (what, run) in cases {
            exhaust(what, || Ok(run()), is_named);
        }
        // Backward ops have the lines of their rules.
        let pooled = |x: &Tensor| ops::max_pool2d(x, 3).sum(());
        exhaust(
            "the gradient of pooling",
            || Ok(ms::grad(pooled)(&image())),
            |error| {
                assert!(error.report().op.is_some(), "{error}");
            },
        );
    });
}

/// An error names the op or the function that the user called, for results, scratch memory and intermediate values.
#[test]
fn compiled_functions_without_memory_name_the_op() {
    in_child("compiled_functions_without_memory_name_the_op", || {
        type Function = fn(&Tensor) -> Tensor;
        macro_rules! cases {
            ($($names:expr => $case:expr;)*) => { [$({
                fn case(x: &Tensor) -> Tensor {
                    let case: Function = $case;
                    case(x)
                }
                (&$names as &[&str], case as Function, (|x| ms::jit(case)(x)) as Function)
            }),*] };
        }
        let cases = cases! {
            ["sort"] => |x| ops::sort(x, 0, false).0;
            ["sort"] => |x| ops::sort(x, 0, true).1;
            ["argsort"] => |x| ops::argsort(x, 0, false);
            ["topk"] => |x| ops::topk(x, 20_000, 0, true).0;
            ["cumsum"] => |x| ops::cumsum(x, 0);
            ["cumsum"] => |x| ops::cumsum(x.reshape((150, 200)), 0);
            ["cumsum"] => |x| ops::cumsum(x.cast(DType::F64), 0);
            ["cumprod"] => |x| ops::cumprod(x, 0);
            ["exp"] => |x| x.exp();
            ["exp", "sort"] => |x| ops::sort(x.exp(), 0, false).0;
            ["add"] => |x| x + 1.0;
            ["softmax"] => |x| ops::softmax(x, 0);
            ["layer_norm"] => |x| ops::layer_norm(x, None, None, -1, 1e-5);
            ["matmul"] => |x| ops::matmul(x.reshape((150, 200)), x.reshape((200, 150)));
            ["conv2d"] => |x| {
                let weight = x.i(0..135).reshape((5, 3, 3, 3));
                ops::conv2d(x.reshape((1, 3, 100, 100)), weight, None, &ops::ConvOptions::new(2))
            };
            ["max_pool"] => |x| ops::max_pool(x.reshape((1, 3, 100, 100)), &ops::PoolOptions::new(2, 3).stride(1));
            ["avg_pool"] => |x| ops::avg_pool(x.reshape((1, 3, 100, 100)), &ops::PoolOptions::new(2, 3).stride(1));
            ["gather"] => |x| ops::gather(x, (x * 2.0).cast(DType::I64), 0);
            ["embedding"] => |x| ops::embedding((x * 2.0).cast(DType::I64), x.reshape((-1, 2)), None);
            ["scatter_add"] => |x| ops::scatter_add(x, (x * 2.0).cast(DType::I64), x, 0);
            ["concat"] => |x| ops::concat(&[x, x], 0);
            ["repeat"] => |x| ops::repeat(x, 3, 0);
            ["flip"] => |x| ops::flip(x, 0);
            ["sum"] => |x| ops::sum(x.reshape((2, 15_000)), 0);
        };
        let mut refused = 0;
        for (names, case, compiled) in cases {
            let x = row();
            let check = |error: &Error| {
                is_named(error);
                let known =
                    error.report().op.as_deref().is_some_and(|op| names.contains(&op) || op == "cast" || op == "mul");
                assert!(known, "{names:?}: {error}");
            };
            exhaust(&format!("{names:?}"), || Ok(case(&x)), check);
            refused += exhaust(&format!("{names:?}, compiled"), || Ok(compiled(&x)), check);
        }
        assert!(refused >= cases.len(), "{refused} refusals");
    });
}

/// Uses the system's own limit. Large blocks are mappings there.
#[cfg(target_os = "linux")]
#[test]
fn an_address_space_has_an_end() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    in_child("an_address_space_has_an_end", || {
        let path = std::env::temp_dir().join(format!("ms memory {}", std::process::id()));
        let net = nn::sequential![nn::Dense::new(2, 2)];
        ms::save_checkpoint(&path, &net).expect("the folder is writable");
        let file = std::fs::OpenOptions::new().write(true).open(&path).expect("it was just written");
        file.set_len(4 << 30).expect("holes take no room");
        let x = Tensor::ones([8 << 20]);
        compiled(&x);
        let pages = std::fs::read_to_string("/proc/self/statm").expect("the system tells");
        let pages: u64 = pages.split(' ').next().and_then(|it| it.parse().ok()).expect("a number of pages");
        let limit = pages * rustix::param::page_size() as u64 + (256 << 20);
        setrlimit(Resource::As, Rlimit { current: Some(limit), maximum: Some(limit) }).expect("less may be asked for");
        let mut held = Vec::new();
        let ways: [fn(&Tensor) -> Tensor; 4] =
            [|x| x + x, |x| compiled(x), |x| ops::concat(&[x, x], 0), |x| Tensor::from(x.to_vec::<f32>())];
        for way in ways {
            let error = loop {
                match catch(|| way(&x)) {
                    Ok(more) => held.push(more),
                    Err(error) => break error,
                }
            };
            assert!(!held.is_empty(), "there is some memory");
            assert_eq!(error.code(), Code::Memory, "{error}");
            is_named(&error);
        }
        let error = load_checkpoint(&path, &net).expect_err("the file is larger than the address space");
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(error.code(), Code::Memory, "{error}");
        // Released memory can be allocated again.
        drop(held);
        assert_eq!((&x + &x).dim(0), 8 << 20);
    });
}

/// Products allocate memory for packed operands.
#[test]
fn memory_runs_out_in_products() {
    in_child("memory_runs_out_in_products", || {
        let operand =
            |rows: usize, columns: usize| ops::arange(rows * columns).cast(DType::F32).reshape((rows, columns));
        let (x, y) = (operand(200, 300) / 60_000.0, operand(300, 200) / 60_000.0);
        let (wide, tall) = (x.cast(DType::F64), y.cast(DType::F64));
        let halves = (operand(1, 3000) / 3000.0, operand(3000, 200) / 600_000.0);
        let halves = (halves.0.cast(DType::BF16), halves.1.cast(DType::BF16));
        let weight = operand(64, 27).reshape((64, 3, 3, 3));
        let options = ops::ConvOptions::new(2);
        let picture = image();
        type Case<'a> = (&'static str, Box<dyn Fn() -> Tensor + Sync + 'a>);
        let (high, narrow) = (operand(3600, 60) / 216_000.0, operand(60, 40) / 2400.0);
        let (few, many) = (operand(65, 200) / 13_000.0, operand(200, 75) / 15_000.0);
        let (long, short) = (operand(40, 5600) / 224_000.0, operand(5600, 40) / 224_000.0);
        let cases: [Case<'_>; 9] = [
            ("many rows", Box::new(|| high.matmul(&narrow))),
            ("a small one", Box::new(|| few.matmul(&many))),
            ("long sums", Box::new(|| long.matmul(&short))),
            ("f32", Box::new(|| x.matmul(&y))),
            ("turned", Box::new(|| y.transpose(0, 1).matmul(x.transpose(0, 1)))),
            ("f64", Box::new(|| wide.matmul(&tall))),
            ("a vector of bf16", Box::new(|| halves.0.matmul(&halves.1))),
            ("a batch", Box::new(|| ops::stack(&[&x, &x, &x], 0).matmul(&y))),
            ("a convolution", Box::new(|| ops::conv2d(&picture, &weight, None, &options))),
        ];
        let refused: Vec<usize> = cases.iter().map(|(what, run)| exhaust(what, || Ok(run()), is_named)).collect();
        let some = refused.iter().filter(|&&it| it > 0).count();
        // A small product needs no large block.
        assert!(some >= cases.len() - 1, "{refused:?}");
    });
}
