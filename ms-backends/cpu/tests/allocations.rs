//! Tests that a compiled step allocates nothing but the results that it returns, and chooses no implementation.

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

/// The number of runs of which one must find all scratch memory in the caches. Each thread fills its own cache when it
/// first takes part in a step.
const RUNS: usize = 50;

/// Checks the number of blocks that a run allocates: one for the list of several results, and one for each result.
#[track_caller]
fn check(body: &str) {
    let graph = parse_graph(&format!("graph @main{body}")).unwrap_or_else(|error| panic!("{error}"));
    let inputs: Vec<Array> = (graph.inputs().iter())
        .map(|&it| {
            let ty = graph.ty(it);
            let one = if ty.dtype.is_float() { Scalar::Float(0.5) } else { Scalar::Bool(true) };
            Array::full(&ty.shape().expect("shapes are constant"), one, ty.dtype)
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
        run();
        let queries = ms_cpu::queries();
        let (results, list) = (graph.outputs().len(), usize::from(graph.outputs().len() > 1));
        let blocks = || -> usize {
            let before = BLOCKS.load(Relaxed);
            run();
            BLOCKS.load(Relaxed) - before
        };
        let exact = (0..RUNS).map(|_| blocks()).find(|it| *it == results + list);
        assert!(exact.is_some(), "every run allocates more than its results in {precision}: {body}");
        assert_eq!(ms_cpu::queries(), queries, "a run chooses no implementation in {precision}: {body}");
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
    // A training step of a convolution network: convolutions with an epilogue, a stride and a 1x1 kernel, pooling, and
    // all their gradients.
    check(
        "(%x: f32[8, 3, 16, 16], %w: f32[8, 3, 3, 3], %v: f32[16, 8, 3, 3], %z: f32[12, 16, 1, 1], %t: f32[8, 12, 4, 4])
            -> (f32[8, 12, 4, 4], f32[8, 3, 3, 3], f32[16, 8, 3, 3], f32[12, 16, 1, 1]) {
          %zero = constant {value = f32[](0.0)} : f32[]
          %c = conv %x, %w {stride = [1, 1], dilation = [1, 1], before = [1, 1], after = [1, 1], groups = 1}
            : f32[8, 8, 16, 16]
          %r = relu %c : f32[8, 8, 16, 16]
          %p = max_pool %r {kernel = [2, 2], stride = [2, 2], dilation = [1, 1], before = [0, 0], after = [0, 0]}
            : f32[8, 8, 8, 8]
          %d = conv %p, %v {stride = [2, 2], dilation = [1, 1], before = [1, 1], after = [1, 1], groups = 1}
            : f32[8, 16, 4, 4]
          %y = conv %d, %z {stride = [1, 1], dilation = [1, 1], before = [0, 0], after = [0, 0], groups = 1}
            : f32[8, 12, 4, 4]
          %dy = sub %y, %t : f32[8, 12, 4, 4]
          %dz = conv_weight_grad %d, %dy
            {stride = [1, 1], dilation = [1, 1], before = [0, 0], after = [0, 0], groups = 1, sizes = [1, 1]}
            : f32[12, 16, 1, 1]
          %dd = conv_input_grad %dy, %z
            {stride = [1, 1], dilation = [1, 1], before = [0, 0], after = [0, 0], groups = 1, sizes = [4, 4]}
            : f32[8, 16, 4, 4]
          %dv = conv_weight_grad %p, %dd
            {stride = [2, 2], dilation = [1, 1], before = [1, 1], after = [1, 1], groups = 1, sizes = [3, 3]}
            : f32[16, 8, 3, 3]
          %dp = conv_input_grad %dd, %v
            {stride = [2, 2], dilation = [1, 1], before = [1, 1], after = [1, 1], groups = 1, sizes = [8, 8]}
            : f32[8, 8, 8, 8]
          %dr = max_pool_grad %r, %dp
            {kernel = [2, 2], stride = [2, 2], dilation = [1, 1], before = [0, 0], after = [0, 0]}
            : f32[8, 8, 16, 16]
          %m = greater %c, %zero : bool[8, 8, 16, 16]
          %dc = select %m, %dr, %zero : f32[8, 8, 16, 16]
          %dw = conv_weight_grad %x, %dc
            {stride = [1, 1], dilation = [1, 1], before = [1, 1], after = [1, 1], groups = 1, sizes = [3, 3]}
            : f32[8, 3, 3, 3]
          return %y, %dw, %dv, %dz
        }",
    );
    // Convolutions and gradients by every implementation that one case above does not reach: Winograd and long sums,
    // groups with one output channel, small and large images, few output positions, and pools that overlap.
    for ([images, channels, side], [outputs, kernel], stride, groups) in [
        ([2, 48, 24], [48, 3], 1, 1),
        ([1, 130, 8], [66, 3], 1, 1),
        ([2, 32, 12], [32, 3], 1, 32),
        ([9, 2, 20], [13, 3], 1, 1),
        ([1, 5, 40], [13, 3], 1, 1),
        ([16, 40, 4], [40, 3], 2, 1),
        ([3, 36, 9], [70, 5], 1, 2),
    ] {
        let (padding, of_group) = (kernel / 2, channels / groups);
        let out = (side + 2 * padding - kernel) / stride + 1;
        let window = format!(
            "stride = [{stride}, {stride}], dilation = [1, 1], before = [{padding}, {padding}], \
             after = [{padding}, {padding}], groups = {groups}"
        );
        let x = format!("f32[{images}, {channels}, {side}, {side}]");
        let w = format!("f32[{outputs}, {of_group}, {kernel}, {kernel}]");
        let y = format!("f32[{images}, {outputs}, {out}, {out}]");
        check(&format!(
            "(%x: {x}, %w: {w}, %g: {y}) -> ({y}, {x}, {w}, {y}) {{
              %y = conv %x, %w {{{window}}} : {y}
              %dx = conv_input_grad %g, %w {{{window}, sizes = [{side}, {side}]}} : {x}
              %dw = conv_weight_grad %x, %g {{{window}, sizes = [{kernel}, {kernel}]}} : {w}
              %p = max_pool %y {{kernel = [3, 3], stride = [1, 1], dilation = [1, 1], before = [1, 1], after = [1, 1]}} : {y}
              return %y, %dx, %dw, %p
            }}"
        ));
    }
    // Attention with a mask, and its gradient.
    check(
        "(%q: f32[2, 3, 60, 16], %k: f32[2, 3, 70, 16], %v: f32[2, 3, 70, 8], %m: bool[60, 70], %g: f32[2, 3, 60, 8])
            -> (f32[2, 3, 60, 8], f32[2, 3, 60, 16], f32[2, 3, 70, 16], f32[2, 3, 70, 8]) {
          %y = blocked_attention %q, %k, %v, %m {causal = false, scaled = true, scale = 1.0, queries = 48}
            : f32[2, 3, 60, 8]
          %dq, %dk, %dv = blocked_attention_grad %q, %k, %v, %y, %g, %m
            {causal = false, scaled = true, scale = 1.0, queries = 48}
            : f32[2, 3, 60, 16], f32[2, 3, 70, 16], f32[2, 3, 70, 8]
          return %y, %dq, %dk, %dv
        }",
    );
}
