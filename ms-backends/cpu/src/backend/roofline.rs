//! Measures the roofline of the CPU, see [`Roof`].

use crate::backend::CpuBackend;
use ms_compile::exec::{Exceeded, Roof};
use ms_ir::data::{DType, try_filled};
use ms_ir::{BinaryOp, Kernel, KernelBuilder, LaneAxis, Role, Scope, StrideClass, Val};
use ms_x64::codegen::LINE;
use ms_x64::threads;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Candidate numbers of accumulation chains of multiply-adds. The fastest one is the peak. The chains must hide the
/// latency of an instruction. With the copies of the body in generated code, they must also fit in the registers.
const ACCUMULATORS: [usize; 5] = [2, 3, 4, 6, 10];

/// The number of multiply-adds of a chain on each element.
const FMAS_PER_CHAIN: usize = 64;

/// The number of elements of a call that measures operations. They fit in the L1 cache.
const ELEMENTS: usize = 2048;

/// The duration of a round that measures one number of chains. The best call of all rounds counts.
const ROUND: Duration = Duration::from_millis(5);

/// The duration of a measurement of bandwidth. The best call counts.
const BYTES: Duration = Duration::from_millis(15);

/// The bytes that a step accesses: in L1, in L2, in L3, and in memory.
const SIZES: [usize; 4] = [32 << 10, 512 << 10, 8 << 20, 192 << 20];

/// Returns the best rates so far, with all threads of the pool. The first call measures all rates, and later calls
/// measure those that are `exceeded` again. `None` if there is not enough memory to measure.
pub fn measured(backend: &CpuBackend, exceeded: Exceeded) -> Option<Roof> {
    static ROOF: Mutex<Option<Roof>> = Mutex::new(None);
    let mut known = ROOF.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(roof) = &mut *known else {
        *known = rates(backend);
        return known.clone();
    };
    if exceeded.operations {
        roof.operations = best(backend).map_or(roof.operations, |it| roof.operations.max(it));
    }
    if exceeded.memory
        && let Some((size, rate)) = roof.bytes.last_mut()
    {
        *rate = bandwidth(backend, *size as usize).map_or(*rate, |it| rate.max(it));
    }
    known.clone()
}

/// Measures all rates.
fn rates(backend: &CpuBackend) -> Option<Roof> {
    // The rounds are spread over time, as a virtual processor may be slow for a while.
    let mut operations = best(backend)?;
    let mut bytes = Vec::new();
    for (at, &size) in SIZES.iter().enumerate() {
        bytes.push((size as u64, bandwidth(backend, size)?));
        if at % 2 == 1 {
            operations = operations.max(best(backend)?);
        }
    }
    Some(Roof { operations, bytes })
}

/// Measures the rate of operations in one round, per second.
fn best(backend: &CpuBackend) -> Option<f64> {
    ACCUMULATORS.iter().map(|&it| operations(backend, it)).try_fold(0.0, |best, it| Some(it?.max(best)))
}

/// Builds a kernel with one loop, f32 operands and one result.
fn kernel(inputs: usize, body: impl FnOnce(&mut KernelBuilder, &[Val]) -> Val) -> Kernel {
    let mut builder = KernelBuilder::new(0, 0, LaneAxis::Parallel);
    let params: Vec<_> = (0..inputs).map(|_| builder.param(DType::F32, Role::Input, StrideClass::Unit)).collect();
    let out = builder.param(DType::F32, Role::Output, StrideClass::Unit);
    let values: Vec<_> = params.into_iter().map(|it| builder.load(it)).collect();
    let result = body(&mut builder, &values);
    builder.store(out, result);
    builder.end_stage(Scope::Point);
    builder.finish()
}

/// Returns the shortest of at least two calls, in seconds. An additional first call touches the memory.
fn shortest(time: Duration, mut call: impl FnMut()) -> f64 {
    call();
    let (begin, mut least, mut calls) = (Instant::now(), f64::INFINITY, 0);
    while calls < 2 || begin.elapsed() < time {
        let start = Instant::now();
        call();
        least = least.min(start.elapsed().as_secs_f64());
        calls += 1;
    }
    least
}

/// Returns the argument block of a call with one loop, on rows that begin at these addresses.
fn block(elements: usize, addresses: &[u64]) -> Vec<u64> {
    let size = size_of::<f32>() as u64;
    std::iter::once(elements as u64).chain(addresses.iter().flat_map(|&it| [it, size])).collect()
}

/// Measures the rate of operations with `count` chains, per second.
fn operations(backend: &CpuBackend, count: usize) -> Option<f64> {
    let chains = kernel(1, |builder, values| {
        let [scale, shift] = [0.5f32, 0.25].map(|it| builder.constant(it, DType::F32));
        let firsts = (0..count).map(|at| {
            let first = builder.constant(at as f32, DType::F32);
            builder.binary(BinaryOp::Add, values[0], first)
        });
        let mut chains: Vec<_> = firsts.collect();
        for _ in 0..FMAS_PER_CHAIN {
            chains.iter_mut().for_each(|it| *it = builder.fma(*it, scale, shift));
        }
        chains.into_iter().reduce(|a, b| builder.binary(BinaryOp::Add, a, b)).expect("there are chains")
    });
    let code = backend.kernel(&chains).ok()?;
    let threads = threads::count();
    let mut rows = try_filled(0.5f32, 2 * threads * ELEMENTS).ok()?;
    let first = rows.as_mut_ptr().addr() as u64;
    let row = |at: usize| first + (at * ELEMENTS * size_of::<f32>()) as u64;
    let calls = 64;
    let time = shortest(ROUND, || {
        threads::for_each(threads, usize::MAX, |at| {
            let block = block(ELEMENTS, &[row(2 * at), row(2 * at + 1)]);
            let code = code.single_threaded(&block).unwrap_or(&*code);
            // SAFETY: each chunk has two separate rows of `ELEMENTS` elements in `rows`.
            (0..calls).for_each(|_| unsafe { code.call(&block) });
        });
    });
    Some((2 * count * FMAS_PER_CHAIN * ELEMENTS * calls * threads) as f64 / time)
}

/// Measures the bandwidth of `a * x + y` (STREAM triad) on about `bytes` bytes, in bytes per second.
fn bandwidth(backend: &CpuBackend, bytes: usize) -> Option<f64> {
    let triad = kernel(2, |builder, values| {
        let scale = builder.constant(0.5f32, DType::F32);
        builder.fma(values[0], scale, values[1])
    });
    let code = backend.kernel(&triad).ok()?;
    let threads = threads::count();
    // Rows consist of whole cache lines, like arrays.
    let elements = (bytes / (3 * threads * size_of::<f32>())).next_multiple_of(LINE);
    let mut rows = try_filled(0.5f32, 3 * threads * elements + LINE).ok()?;
    let first = (rows.as_mut_ptr().addr() as u64).next_multiple_of(LINE as u64);
    let row = |at: usize| first + (at * elements * size_of::<f32>()) as u64;
    let calls = (8 << 20) / bytes + 1;
    let time = shortest(BYTES, || {
        threads::for_each(threads, usize::MAX, |at| {
            let block = block(elements, &[row(3 * at), row(3 * at + 1), row(3 * at + 2)]);
            // SAFETY: each chunk has three separate rows of `elements` elements in `rows`.
            threads::serial(|| (0..calls).for_each(|_| unsafe { code.call(&block) }));
        });
    });
    Some((3 * threads * elements * size_of::<f32>() * calls) as f64 / time)
}
