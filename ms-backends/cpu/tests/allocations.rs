//! Tests that a compiled step of kernels and products allocates nothing but the results that it returns.

use ms_compile::exec::{Backend, CompileOptions};
use ms_cpu::CpuBackend;
use ms_ir::Precision;
use ms_ir::data::{Array, Scalar};
use ms_ops::ops::parse_graph;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, which counts blocks.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static BLOCKS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every block comes from `System`, which is a valid allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BLOCKS.fetch_add(1, Relaxed);
        // SAFETY: `layout` has a non-zero size by the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `System` allocated `block` with `layout`, since no other allocator returns blocks here.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        BLOCKS.fetch_add(1, Relaxed);
        // SAFETY: `System` allocated `block` with `layout`, and `size` is non-zero and valid by the contract of
        // `realloc`.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// Checks the number of blocks that a run allocates: one for the list of several results, and one for each result.
///
/// The first runs fill the caches of host memory.
#[track_caller]
fn check(body: &str) {
    let graph = parse_graph(&format!("graph @main{body}")).unwrap_or_else(|error| panic!("{error}"));
    let inputs: Vec<Array> = (graph.inputs().iter())
        .map(|&it| {
            let ty = graph.ty(it);
            Array::full(&ty.shape().expect("shapes are constant"), Scalar::Float(0.5), ty.dtype)
        })
        .collect();
    let inputs: Vec<&Array> = inputs.iter().collect();
    for precision in [Precision::Strict, Precision::Highest] {
        let backend = CpuBackend::new();
        let artifact = backend.compile(&graph, &CompileOptions { precision, ..CompileOptions::default() });
        let artifact = artifact.unwrap_or_else(|error| panic!("{error}"));
        // SAFETY: this backend compiled the artifact from a valid graph.
        let executable = unsafe { backend.load(&artifact) }.unwrap_or_else(|error| panic!("{error}"));
        let run = || drop(executable.run(&inputs).unwrap_or_else(|error| panic!("{error}")));
        (0..3).for_each(|_| run());
        let before = BLOCKS.load(Relaxed);
        run();
        let results = graph.outputs().len();
        let list = usize::from(results > 1);
        assert_eq!(BLOCKS.load(Relaxed) - before, results + list, "{precision}: {body}");
    }
}

/// Other tests would allocate in the meantime, so that there is one.
#[test]
fn steps_allocate_nothing() {
    // Kernels, one of which reduces rows.
    check(
        "(%x: f32[64, 100]) -> (f32[64, 1]) {
          %e = exp %x : f32[64, 100]
          %s = sum %e {axes = [1], keepdims = true} : f32[64, 1]
          return %s
        }",
    );
    // Two layers and their gradients: products whose results kernels read by tiles, and products of transposes.
    check(
        "(%x: f32[64, 96], %w: f32[96, 128], %b: f32[128], %u: f32[128, 32], %t: f32[64, 32])
            -> (f32[64, 32], f32[96, 128], f32[128], f32[128, 32]) {
          %zero = constant {value = f32[](0.0)} : f32[]
          %p = matmul %x, %w : f32[64, 128]
          %s = add %p, %b : f32[64, 128]
          %h = relu %s : f32[64, 128]
          %y = matmul %h, %u : f32[64, 32]
          %dy = sub %y, %t : f32[64, 32]
          %ht = permute %h {axes = [1, 0]} : f32[128, 64]
          %du = matmul %ht, %dy : f32[128, 32]
          %ut = permute %u {axes = [1, 0]} : f32[32, 128]
          %dh = matmul %dy, %ut : f32[64, 128]
          %hm = greater %h, %zero : bool[64, 128]
          %ds = select %hm, %dh, %zero : f32[64, 128]
          %db = sum %ds {axes = [0], keepdims = false} : f32[128]
          %xt = permute %x {axes = [1, 0]} : f32[96, 64]
          %dw = matmul %xt, %ds : f32[96, 128]
          return %y, %dw, %db, %du
        }",
    );
    // A batch of products, long sums, and a product with a vector.
    check(
        "(%q: f32[6, 65, 33], %k: f32[6, 33, 70], %a: f32[5, 5000], %b: f32[5000, 7], %v: f32[1, 5000])
            -> (f32[6, 65, 70], f32[5, 7], f32[1, 7]) {
          %p = matmul %q, %k : f32[6, 65, 70]
          %r = matmul %a, %b : f32[5, 7]
          %s = matmul %v, %b : f32[1, 7]
          return %p, %r, %s
        }",
    );
}
