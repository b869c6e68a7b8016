//! Tests horizontal fusion: which kernels become one step, and which inputs they may overwrite.

use super::plan;

/// A graph, and the expected properties of its plan.
struct Case {
    body: &'static str,
    results: &'static str,
    types: &'static str,
    /// The number of kernels of each step; zero for a step that is not of kernels.
    kernels: &'static [usize],
    /// Pairs of an output and an input that the output may overwrite, since its step is the last reader.
    in_place: &'static [(u32, u32)],
    arena_bytes: usize,
}

/// Independent kernels are fused into one step.
///
/// A kernel stays a separate step if it reads a result of another kernel, or has a large result that is not an output.
/// The same holds if it would overwrite an operand of another kernel. So fusion loses no update in place, and needs no
/// more memory.
#[test]
fn independent_kernels_are_one_step() {
    let inputs = "%a: f32[64, 64], %b: f32[32, 64], %c: f32[64], %x: f32[64, 64], %y: f32[32, 64], %z: f32[64]";
    let cases = [
        Case {
            body: "%p = sub %a, %x : f32[64, 64]\n %q = sub %b, %y : f32[32, 64]\n %r = sub %c, %z : f32[64]",
            results: "%p, %q, %r",
            types: "f32[64, 64], f32[32, 64], f32[64]",
            kernels: &[3],
            in_place: &[(0, 0), (0, 3), (1, 1), (1, 4), (2, 2), (2, 5)],
            arena_bytes: 0,
        },
        // Operands that several kernels read are not overwritten.
        Case {
            body: "%p = sub %a, %c : f32[64, 64]\n %q = sub %b, %c : f32[32, 64]\n %r = neg %z : f32[64]",
            results: "%p, %q, %r",
            types: "f32[64, 64], f32[32, 64], f32[64]",
            kernels: &[3],
            in_place: &[(0, 0), (1, 1), (2, 5)],
            arena_bytes: 0,
        },
        // The second kernel reads a result of the first one.
        Case {
            body: "%p = sub %a, %x : f32[64, 64]\n %s = sum %p {axes = [0], keepdims = false} : f32[64]
                %q = sub %b, %s : f32[32, 64]",
            results: "%p, %q",
            types: "f32[64, 64], f32[32, 64]",
            kernels: &[1, 1],
            in_place: &[(1, 1)],
            arena_bytes: 256,
        },
        // The second kernel also overwrites an operand of the first one.
        Case {
            body: "%s = sum %a {axes = [1], keepdims = false} : f32[64]\n %p = sub %c, %s : f32[64]
                %q = sub %a, %x : f32[64, 64]",
            results: "%p, %q",
            types: "f32[64], f32[64, 64]",
            kernels: &[1, 1],
            in_place: &[(0, 2), (1, 0), (1, 3)],
            arena_bytes: 0,
        },
        Case {
            body: "%p = sub %a, %x : f32[64, 64]\n %q = sub %x, %a : f32[64, 64]",
            results: "%p, %q",
            types: "f32[64, 64], f32[64, 64]",
            kernels: &[1, 1],
            in_place: &[(1, 0), (1, 3)],
            arena_bytes: 0,
        },
        // The second kernel has no operand, and overwrites an operand of the first one.
        Case {
            body: "%p = sub %a, %x : f32[64, 64]
                %q = iota {shape = [32, 128], axis = 1, start = 0, step = 1, dtype = f32} : f32[32, 128]",
            results: "%p, %q",
            types: "f32[64, 64], f32[32, 128]",
            kernels: &[1, 1],
            in_place: &[(0, 0), (0, 3)],
            arena_bytes: 0,
        },
        // Copies are not fused.
        Case {
            body: "%p = permute %a {axes = [1, 0]} : f32[64, 64]\n %q = sub %b, %y : f32[32, 64]
                %r = permute %x {axes = [1, 0]} : f32[64, 64]",
            results: "%p, %q, %r",
            types: "f32[64, 64], f32[32, 64], f32[64, 64]",
            kernels: &[1, 1, 1],
            in_place: &[(1, 1), (1, 4)],
            arena_bytes: 0,
        },
        // Small results that are not outputs are fused, and large ones are not.
        Case {
            body: "%s = sum %a {axes = [0, 1], keepdims = false} : f32[]
                %t = sum %b {axes = [0, 1], keepdims = false} : f32[]\n %m = div %c, %s : f32[64]
                %p = mul %m, %t : f32[64]",
            results: "%p",
            types: "f32[64]",
            kernels: &[2, 1],
            in_place: &[(0, 2)],
            arena_bytes: 128,
        },
        Case {
            body: "%s = sum %x {axes = [0], keepdims = true} : f32[1, 64]\n %t = mul %a, %s : f32[64, 64]
                %u = sum %y {axes = [0], keepdims = true} : f32[1, 64]\n %v = mul %b, %u : f32[32, 64]
                %p = matmul %v, %t : f32[32, 64]",
            results: "%p",
            types: "f32[32, 64]",
            kernels: &[1, 1, 0],
            in_place: &[],
            arena_bytes: 24576,
        },
    ];
    for Case { body, results, types, kernels, in_place, arena_bytes } in cases {
        let plan = plan(&format!("graph @f({inputs}) -> ({types}) {{\n {body}\n return {results}\n}}"));
        let main = plan.main();
        let of: Vec<usize> = main.steps.iter().map(|it| it.kernels().len()).collect();
        let found = (&of[..], &main.reuse.in_place[..], main.arena_bytes);
        assert_eq!(found, (kernels, in_place, arena_bytes), "{body}\n{}", plan.display());
    }
}
