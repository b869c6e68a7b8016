//! Tests that in strict precision an op gives the same bits eagerly and in a graph.
//!
//! The bits do not depend on the layout of operands, on lanes, on the device, on the instruction set, or on the number of
//! threads.

use ms::ops::{self, ConvOptions, PoolOptions};
use ms::tensor::{Ellipsis, WithStep};
use ms::{Context, DType, Precision, Tensor, jit};
use ms_conformance::process_of;
use std::fmt::Write;

/// An operand of a case by its shape: floats, or positions below a number.
#[derive(Clone, Copy)]
enum Operand {
    Floats(&'static [usize]),
    Positions(&'static [usize], usize),
}

use Operand::{Floats, Positions};

/// An op on operands. The first operand has floats.
struct Case {
    name: &'static str,
    operands: &'static [Operand],
    run: fn(&[Tensor]) -> Tensor,
}

const CASES: &[Case] = &[
    // Tiles, K blocks and threads all have a remainder.
    Case { name: "matmul", operands: &[Floats(&[40, 1100]), Floats(&[1100, 70])], run: |x| x[0].matmul(&x[1]) },
    Case {
        name: "matmul of one column",
        operands: &[Floats(&[33, 1030]), Floats(&[1030])],
        run: |x| x[0].matmul(&x[1]),
    },
    Case { name: "matmul of one row", operands: &[Floats(&[2050]), Floats(&[2050, 19])], run: |x| x[0].matmul(&x[1]) },
    Case { name: "matmul of vectors", operands: &[Floats(&[9001]), Floats(&[9001])], run: |x| x[0].matmul(&x[1]) },
    Case { name: "matmul in stacks", operands: &[Floats(&[3, 5, 7]), Floats(&[7, 4])], run: |x| x[0].matmul(&x[1]) },
    Case {
        name: "matmul of broadcast stacks",
        operands: &[Floats(&[2, 1, 5, 7]), Floats(&[3, 7, 4])],
        run: |x| x[0].matmul(&x[1]),
    },
    Case {
        name: "matmul, read transposed",
        operands: &[Floats(&[30, 40]), Floats(&[40, 50])],
        run: |x| ops::exp(ops::tanh(x[0].matmul(&x[1])).t()),
    },
    Case {
        name: "matmul of calculated operands",
        operands: &[Floats(&[30, 40]), Floats(&[50, 40])],
        run: |x| ops::relu(&x[0]).matmul((&x[1] * 3.0).t()) + 1.0,
    },
    Case {
        name: "dense",
        operands: &[Floats(&[9, 40]), Floats(&[50, 40]), Floats(&[50])],
        run: |x| ops::dense(&x[0], &x[1], Some(&x[2])),
    },
    Case {
        name: "dense, whose activation is the epilogue of the product",
        operands: &[Floats(&[70, 1100]), Floats(&[80, 1100]), Floats(&[80])],
        run: |x| ops::tanh(ops::dense(&x[0], &x[1], Some(&x[2]))) * 2.0,
    },
    Case { name: "outer", operands: &[Floats(&[17]), Floats(&[34])], run: |x| ops::outer(&x[0], &x[1]) },
    Case {
        name: "einsum",
        operands: &[Floats(&[4, 6, 5]), Floats(&[5, 7, 4])],
        run: |x| ops::einsum("bij,jkb->kbi", &[&x[0], &x[1]]),
    },
    Case {
        name: "conv2d",
        operands: &[Floats(&[3, 4, 9, 8]), Floats(&[6, 2, 3, 3])],
        run: |x| ops::conv2d(&x[0], &x[1], None, &ConvOptions::new(2).stride([2, 1]).padding(1).groups(2)),
    },
    Case {
        name: "einsum over several axes",
        operands: &[Floats(&[4, 6, 5, 3]), Floats(&[5, 7, 4, 6])],
        run: |x| ops::einsum("bijc,jkbi->ckb", &[&x[0], &x[1]]),
    },
    Case {
        name: "pointwise conv2d",
        operands: &[Floats(&[2, 40, 5, 7]), Floats(&[9, 40, 1, 1])],
        run: |x| ops::conv2d(&x[0], &x[1], None, &ConvOptions::new(2).stride([1, 2])),
    },
    Case {
        name: "conv2d of patches",
        operands: &[Floats(&[2, 3, 9, 17]), Floats(&[5, 3, 4, 4])],
        run: |x| ops::conv2d(&x[0], &x[1], None, &ConvOptions::new(2).stride(4)),
    },
    Case {
        name: "conv2d of many windows",
        operands: &[Floats(&[2, 3, 30, 31]), Floats(&[5, 3, 3, 2])],
        run: |x| ops::conv2d(&x[0], &x[1], None, &ConvOptions::new(2)),
    },
    Case {
        name: "conv1d of many channels",
        operands: &[Floats(&[2, 400, 9]), Floats(&[3, 400, 3])],
        run: |x| ops::conv1d(&x[0], &x[1], None, &ConvOptions::new(1).padding(1).dilation(2)),
    },
    Case {
        name: "avg_pool",
        operands: &[Floats(&[2, 3, 9, 8])],
        run: |x| ops::avg_pool(&x[0], &PoolOptions::new(2, 3).stride(2).padding(1)),
    },
    Case {
        name: "max_pool",
        operands: &[Floats(&[2, 3, 9, 8])],
        run: |x| ops::max_pool(&x[0], &PoolOptions::new(2, 3).stride(1)),
    },
    Case {
        name: "adaptive_avg_pool2d",
        operands: &[Floats(&[2, 3, 9, 8])],
        run: |x| ops::adaptive_avg_pool2d(&x[0], [4, 3]),
    },
    Case { name: "cumsum", operands: &[Floats(&[5, 300])], run: |x| ops::cumsum(&x[0], 1) },
    Case { name: "cumprod", operands: &[Floats(&[30, 4])], run: |x| ops::cumprod(&x[0], 0) },
    Case {
        name: "index_add",
        operands: &[Floats(&[7, 70]), Positions(&[40], 7), Floats(&[40, 70])],
        run: |x| ops::index_add(&x[0], &x[1], &x[2], 0),
    },
    Case {
        name: "scatter_add",
        operands: &[Floats(&[5, 6]), Positions(&[50, 6], 5), Floats(&[50, 6])],
        run: |x| ops::scatter_add(&x[0], &x[1], &x[2], 0),
    },
    Case {
        name: "dynamic_update_slice",
        operands: &[Floats(&[5, 6]), Floats(&[5, 2]), Positions(&[5], 4)],
        run: |x| {
            ops::dynamic_update_slice(
                &x[0],
                ops::dynamic_slice(&x[1], ops::zeros([5]).cast(ms::DType::I64), 2, 1),
                &x[2],
                1,
            )
        },
    },
    Case {
        name: "scatter_mul",
        operands: &[Floats(&[5, 6]), Positions(&[50, 6], 5), Floats(&[50, 6])],
        run: |x| ops::scatter_mul(&x[0], &x[1], &x[2], 0),
    },
    Case {
        name: "segment",
        operands: &[Floats(&[50, 6]), Positions(&[50], 5)],
        run: |x| ops::segment(&x[0], &x[1], 5, ops::Segment::Mean),
    },
    Case {
        name: "scatter_nd_add",
        operands: &[Floats(&[4, 4, 3]), Positions(&[60, 2], 4), Floats(&[60, 3])],
        run: |x| ops::scatter_nd_add(&x[0], &x[1], &x[2]),
    },
    Case { name: "gather", operands: &[Floats(&[6, 5]), Positions(&[80], 6)], run: |x| ops::gather(&x[0], &x[1], 0) },
    Case { name: "sort", operands: &[Floats(&[4, 50])], run: |x| ops::sort(&x[0], 1, true).0 },
    // The cases have one element, as many as fill registers and more, and too many for one kernel of iterations.
    Case { name: "while, one element", operands: &[Floats(&[1, 1]), Floats(&[1, 1])], run: repeated },
    Case { name: "while, some elements", operands: &[Floats(&[7, 3]), Floats(&[1, 1])], run: repeated },
    Case { name: "a range, some elements", operands: &[Floats(&[7, 3]), Floats(&[1, 1])], run: counted },
    Case { name: "while, many elements", operands: &[Floats(&[9, 30]), Floats(&[1, 1])], run: repeated },
];

/// Runs six iterations that depend on their number.
fn counted(x: &[Tensor]) -> Tensor {
    ops::fori_loop(0, 6, |i, y: &Tensor| ops::cos(y * 1.25) - &x[1] * i.cast(y.dtype()), x[0].clone())
}

/// Runs five iterations of sums of functions. The last iterations use another formula.
fn repeated(x: &[Tensor]) -> Tensor {
    let step = |(i, y): &(Tensor, Tensor)| {
        let wave = ops::sin(y) * 1.75 + ops::exp(-ops::square(y));
        let next = ops::select(i.lt(3), wave + &x[1], ops::tanh(y) / 3.0 - &x[1]);
        (i + 1, next)
    };
    let first = (Tensor::scalar(0i32), x[0].clone());
    ops::while_loop(|(i, _): &(Tensor, Tensor)| i.lt(5), step, first).1
}

const DTYPES: [DType; 3] = [DType::F32, DType::F64, DType::BF16];

/// The layout of operands in memory.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Dense,
    /// The last two axes are transposed.
    Turned,
    /// The last axis is reversed.
    Reversed,
    /// The elements have gaps between them.
    Spread,
}

const LAYOUTS: [Layout; 4] = [Layout::Dense, Layout::Turned, Layout::Reversed, Layout::Spread];

impl Operand {
    fn tensor(self, dtype: DType, seed: u64) -> Tensor {
        let mut state = seed * 77 + 1;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as f64 / (1u64 << 31) as f64
        };
        match self {
            Floats(shape) => {
                // The numbers have several magnitudes, so that sums are rounded.
                let numbers: Vec<f64> =
                    (0..shape.iter().product()).map(|i| (next() * 2.0 - 1.0) * [1.0, 0.125, 3.0][i % 3]).collect();
                Tensor::from_slice(shape, &numbers).cast(dtype)
            }
            Positions(shape, below) => {
                let numbers: Vec<i64> = (0..shape.iter().product()).map(|_| (next() * below as f64) as i64).collect();
                Tensor::from_slice(shape, &numbers)
            }
        }
    }
}

impl Layout {
    /// Returns a tensor for which [`Layout::view`] returns `x`.
    fn base(self, x: &Tensor) -> Tensor {
        let base = match self {
            Self::Dense => x.clone(),
            Self::Turned if x.rank() < 2 => x.clone(),
            Self::Turned => x.transpose(-1, -2),
            Self::Reversed => x.flip(-1),
            Self::Spread => ops::stack(&[x, x], -1).reshape(doubled(x)),
        };
        // The copy is contiguous.
        Tensor::placed(base.try_array().and_then(ms::tensor::Array::into_host).expect("an array").to_contiguous())
            .expect("there is memory")
    }

    fn view(self, base: &Tensor) -> Tensor {
        match self {
            Self::Dense => base.clone(),
            Self::Turned if base.rank() < 2 => base.clone(),
            Self::Turned => base.transpose(-1, -2),
            Self::Reversed => base.flip(-1),
            Self::Spread => base.i((Ellipsis, (..).step(2))),
        }
    }
}

fn doubled(x: &Tensor) -> Vec<usize> {
    let mut shape = x.shape().to_vec();
    *shape.last_mut().expect("operands have an axis") *= 2;
    shape
}

/// Returns the value of a case, and its gradients by the float operands.
fn value_and_gradients(case: &Case, operands: &[Tensor]) -> Vec<Tensor> {
    let value = (case.run)(operands);
    let weight = ops::cos(&value);
    let mut all = vec![value];
    for at in (0..operands.len()).filter(|&at| operands[at].dtype().is_float()) {
        let sum = |x: &Tensor| {
            let mut operands = operands.to_vec();
            operands[at] = x.clone();
            ops::sum((case.run)(&operands) * &weight, ())
        };
        all.push(ms::grad(sum)(&operands[at]));
    }
    all
}

#[jit]
fn compiled(case: usize, way: usize, bases: &Vec<Tensor>) -> Vec<Tensor> {
    let operands: Vec<Tensor> = bases.iter().map(|it| LAYOUTS[way].view(it)).collect();
    value_and_gradients(&CASES[case], &operands)
}

/// Runs a case with operands that are constants of the graph.
#[jit]
fn of_constants(case: usize, dtype: DType, zero: &Tensor) -> Vec<Tensor> {
    let operands = operands(&CASES[case], dtype);
    let first = &operands[0] + zero;
    let rest = operands[1..].iter().cloned();
    vec![(CASES[case].run)(&[first].into_iter().chain(rest).collect::<Vec<_>>())]
}

fn operands(case: &Case, dtype: DType) -> Vec<Tensor> {
    case.operands.iter().enumerate().map(|(i, it)| it.tensor(dtype, i as u64)).collect()
}

/// Returns the bits of tensors for comparison. All NaNs are equal.
fn bits(tensors: &[Tensor]) -> Vec<u64> {
    let scalars = tensors.iter().flat_map(|it| {
        let array = it.try_array().expect("an array");
        let dtype = array.dtype();
        array
            .on_host()
            .expect("the elements are readable")
            .scalars()
            .into_iter()
            .map(move |it| if it.as_f64().is_nan() { u64::MAX } else { it.to_bits(dtype) })
    });
    scalars.collect()
}

/// Runs all cases in all ways, and returns a hash of the bits of each case.
fn run_all() -> String {
    let context = |jit| Context { jit, precision: Precision::Strict, ..ms::context() };
    let mut text = String::new();
    let mut wrong = Vec::new();
    for (at, case) in CASES.iter().enumerate() {
        for dtype in DTYPES {
            let operands = operands(case, dtype);
            let eagerly =
                |operands: &[Tensor]| ms::with_context(context(false), || bits(&value_and_gradients(case, operands)));
            let want = eagerly(&operands);
            let mut hold = |how: String, got: &[u64]| {
                if got != &want[..got.len()] {
                    wrong.push(format!("{} of {dtype}, {how}", case.name));
                }
            };
            for (way, lies) in LAYOUTS.into_iter().enumerate() {
                let bases: Vec<Tensor> = operands.iter().map(|it| lies.base(it)).collect();
                let views: Vec<Tensor> = bases.iter().map(|it| lies.view(it)).collect();
                hold(format!("{lies:?}, eagerly"), &eagerly(&views));
                if case.name.starts_with("matmul") {
                    // Operands in slots are packed after several reads.
                    let _slots: Vec<ms::Parameter> =
                        bases.iter().map(|it| ms::Parameter::new(it.clone(), "")).collect();
                    (0..5).for_each(|call| hold(format!("{lies:?}, in slots, call {call}"), &eagerly(&views)));
                }
                let inside = ms::with_context(context(true), || bits(&compiled(at, way, &bases)));
                hold(format!("{lies:?}, compiled"), &inside);
            }
            let zero = Tensor::scalar(0.0f32).cast(dtype);
            hold("constants".into(), &ms::with_context(context(true), || bits(&of_constants(at, dtype, &zero))));
            let hash = want
                .iter()
                .fold(0xcbf2_9ce4_8422_2325u64, |hash, &it| (hash ^ it).wrapping_mul(0x100_0000_01b3).rotate_left(17));
            writeln!(text, "bits {} {dtype} {hash:016x}", case.name).expect("a string takes all");
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    text
}

#[test]
#[ignore = "bits_are_the_same_everywhere starts it, once for each device, instruction set and number of threads"]
fn in_one_way() {
    println!("\n{}", run_all());
}

/// A kind of device, an instruction set of the host, and a number of threads.
type Way<'a> = [&'a str; 3];

/// Returns the hashes of a process; nothing if the machine does not support the instruction set.
fn on(way @ [device, isa, threads]: Way<'_>) -> Option<String> {
    let mut test = process_of(concat!(module_path!(), "::in_one_way"));
    test.args(["--ignored", "--nocapture"]);
    test.env("MS_DEVICE_TARGET", device).env("MS_CPU_ISA", isa).env("MS_NUM_THREADS", threads);
    let output = test.output().expect("the test starts");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if isa != "interp" && errors.contains(&format!("error[{}]", ms::Code::Environment)) {
        return None;
    }
    assert!(output.status.success(), "{way:?}: {text}{errors}");
    Some(text.lines().filter(|it| it.starts_with("bits ")).collect::<Vec<_>>().join("\n"))
}

/// Compares the bits of processes with those of the interpreter on the host.
pub fn compare(ways: &[Way<'_>]) {
    let host = ["cpu", "interp", "2"];
    let all: Vec<_> = std::thread::scope(|scope| {
        let apart: Vec<_> = [host].iter().chain(ways).map(|&way| scope.spawn(move || Some((way, on(way)?)))).collect();
        apart.into_iter().filter_map(|it| it.join().expect("the process ends well")).collect()
    });
    let want = &all[0].1;
    assert_eq!(want.lines().count(), CASES.len() * DTYPES.len());
    for (way, got) in &all[1..] {
        let differ: Vec<_> = got.lines().zip(want.lines()).filter(|(got, want)| got != want).collect();
        assert!(differ.is_empty(), "{way:?} and {host:?}: {differ:?}");
    }
}

#[test]
fn bits_are_the_same_everywhere() {
    let device = std::env::var("MS_DEVICE_TARGET").unwrap_or("cpu".into());
    compare(&[["cpu", "avx2", "8"], ["cpu", "avx512", "1"], ["cpu", "avx512", "2"], [&device, "interp", "1"]]);
}

/// A product or convolution over lanes has the bits of the single lanes.
#[test]
fn lanes_have_the_bits_of_each() {
    let strict = Context { precision: Precision::Strict, ..ms::context() };
    ms::with_context(strict, || {
        for case in CASES.iter().filter(|it| ["matmul", "conv"].iter().any(|name| it.name.starts_with(name))) {
            let lanes: Vec<Vec<Tensor>> = (0..3)
                .map(|lane| {
                    case.operands
                        .iter()
                        .enumerate()
                        .map(|(i, it)| it.tensor(DType::F32, 10 * lane + i as u64))
                        .collect()
                })
                .collect();
            let stacked: Vec<Tensor> = (0..case.operands.len())
                .map(|i| ops::stack(&lanes.iter().map(|it| &it[i]).collect::<Vec<_>>(), 0))
                .collect();
            let of_two = |x: &Tensor, y: &Tensor| (case.run)(&[x.clone(), y.clone()]);
            let each: Vec<Tensor> = lanes.iter().map(|it| of_two(&it[0], &it[1])).collect();
            let both = ms::vmap(of_two)(&stacked[0], &stacked[1]);
            assert_eq!(bits(&[both]), bits(&each), "{}", case.name);
            let shared: Vec<Tensor> = lanes.iter().map(|it| of_two(&it[0], &lanes[0][1])).collect();
            let left = ms::vmap(of_two).in_axes((0, None))(&stacked[0], &lanes[0][1]);
            assert_eq!(bits(&[left]), bits(&shared), "{}, the right operand shared", case.name);
        }
    });
}
