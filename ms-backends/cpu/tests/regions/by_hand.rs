//! Tests hand-written graphs.

use super::{check, f32s, flag, int};
use ms_ir::data::Array;
use ms_ops::ops::parse_graph;

#[test]
fn by_hand() {
    let numbers = || vec![f32s(&[3], &[1.0, -2.0, 3.0]), f32s(&[3], &[0.5, 8.0, -1.0])];
    let with = |first: Vec<Array>| first.into_iter().chain(numbers()).collect::<Vec<_>>();
    let flags = || vec![with(vec![flag(true)]), with(vec![flag(false)])];
    let counts = || [0, 1, 2, 5].map(|it| with(vec![int(it)])).to_vec();
    let cases: [(&str, &str, Vec<Vec<Array>>); 12] = [
        (
            "arms that give what they take, constants, and one value twice",
            "graph @yes(%x: f32[3], %y: f32[3]) -> (f32[3], f32[3], f32[3], f32[]) {
               %k = constant {value = f32[](4)} : f32[]
               return %y, %x, %x, %k
             }
             graph @no(%x: f32[3], %y: f32[3]) -> (f32[3], f32[3], f32[3], f32[]) {
               %z = add %x, %y : f32[3]
               %s = sum %z {axes = [0], keepdims = false} : f32[]
               return %z, %z, %x, %s
             }
             graph @main(%c: bool[], %x: f32[3], %y: f32[3]) -> (f32[3], f32[3], f32[3], f32[]) {
               %a, %b, %d, %e = if @yes @no %c, %x, %y : f32[3], f32[3], f32[3], f32[]
               return %a, %b, %d, %e
             }",
            flags(),
        ),
        (
            "operands that are views and splats",
            "graph @yes(%x: f32[2], %k: f32[2]) -> (f32[2]) { %y = add %x, %k : f32[2] return %y }
             graph @no(%x: f32[2], %k: f32[2]) -> (f32[2]) { return %x }
             graph @main(%c: bool[], %x: f32[3], %y: f32[3]) -> (f32[2], f32[2]) {
               %k = full {value = f32[](4), shape = [2]} : f32[2]
               %tail = slice %x {starts = [1], sizes = [2], steps = [1]} : f32[2]
               %back = slice %y {starts = [2], sizes = [2], steps = [-1]} : f32[2]
               %a = if @yes @no %c, %tail, %k : f32[2]
               %b = if @yes @no %c, %back, %a : f32[2]
               return %a, %b
             }",
            flags(),
        ),
        (
            "carries that change places",
            "graph @more(%i: i64[], %a: f32[3], %b: f32[3], %n: i64[]) -> (bool[]) { %c = less %i, %n : bool[] return %c }
             graph @step(%i: i64[], %a: f32[3], %b: f32[3], %n: i64[]) -> (i64[], f32[3], f32[3]) {
               %one = constant {value = i64[](1)} : i64[]
               %j = add %i, %one : i64[]
               return %j, %b, %a
             }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (i64[], f32[3], f32[3]) {
               %z = constant {value = i64[](0)} : i64[]
               %i, %a, %b = while @more @step %z, %x, %y, %n {carries = 3} : i64[], f32[3], f32[3]
               return %i, %a, %b
             }",
            counts(),
        ),
        (
            "a chain of carries",
            "graph @more(%i: i64[], %a: f32[3], %b: f32[3], %c: f32[3], %d: f32[3], %n: i64[]) -> (bool[]) {
               %r = less %i, %n : bool[] return %r
             }
             graph @step(%i: i64[], %a: f32[3], %b: f32[3], %c: f32[3], %d: f32[3], %n: i64[])
               -> (i64[], f32[3], f32[3], f32[3], f32[3]) {
               %one = constant {value = i64[](1)} : i64[]
               %j = add %i, %one : i64[]
               %e = add %a, %b : f32[3]
               return %j, %b, %e, %a, %a
             }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (i64[], f32[3], f32[3], f32[3], f32[3]) {
               %z = constant {value = i64[](0)} : i64[]
               %i, %a, %b, %c, %d = while @more @step %z, %x, %y, %x, %y, %n {carries = 5} : i64[], f32[3], f32[3], f32[3], f32[3]
               return %i, %a, %b, %c, %d
             }",
            counts(),
        ),
        (
            "carries that stay, and one that becomes what stays the same",
            "graph @more(%i: i64[], %a: f32[3], %b: f32[3], %n: i64[], %k: f32[3]) -> (bool[]) { %c = less %i, %n : bool[] return %c }
             graph @step(%i: i64[], %a: f32[3], %b: f32[3], %n: i64[], %k: f32[3]) -> (i64[], f32[3], f32[3]) {
               %one = constant {value = i64[](1)} : i64[]
               %j = add %i, %one : i64[]
               return %j, %a, %k
             }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (f32[3], f32[3]) {
               %z = constant {value = i64[](0)} : i64[]
               %s = add %x, %y : f32[3]
               %i, %a, %b = while @more @step %z, %s, %x, %n, %y {carries = 3} : i64[], f32[3], f32[3]
               return %a, %b
             }",
            counts(),
        ),
        (
            "a loop in a branch in a loop",
            "graph @inner_more(%x: f32[]) -> (bool[]) { %k = constant {value = f32[](20)} : f32[] %c = less %x, %k : bool[] return %c }
             graph @inner(%x: f32[]) -> (f32[]) { %k = constant {value = f32[](7)} : f32[] %y = add %x, %k : f32[] return %y }
             graph @yes(%x: f32[]) -> (f32[]) { %y = while @inner_more @inner %x {carries = 1} : f32[] return %y }
             graph @no(%x: f32[]) -> (f32[]) { %k = constant {value = f32[](17)} : f32[] %y = sub %x, %k : f32[] return %y }
             graph @more(%i: i64[], %x: f32[], %n: i64[]) -> (bool[]) { %c = less %i, %n : bool[] return %c }
             graph @step(%i: i64[], %x: f32[], %n: i64[]) -> (i64[], f32[]) {
               %one = constant {value = i64[](1)} : i64[]
               %j = add %i, %one : i64[]
               %k = constant {value = f32[](10)} : f32[]
               %small = less %x, %k : bool[]
               %y = if @yes @no %small, %x : f32[]
               %half = constant {value = f32[](0.5)} : f32[]
               %z = mul %y, %half : f32[]
               return %j, %z
             }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (f32[]) {
               %z = constant {value = i64[](0)} : i64[]
               %m = max %x {axes = [0], keepdims = false} : f32[]
               %i, %s = while @more @step %z, %m, %n {carries = 2} : i64[], f32[]
               return %s
             }",
            counts(),
        ),
        (
            "a stack through a call and a branch into a scan",
            "graph @more(%i: i64[], %x: f32[3], %n: i64[]) -> (bool[]) { %c = less %i, %n : bool[] return %c }
             graph @step(%i: i64[], %x: f32[3], %n: i64[]) -> (i64[], f32[3], f32[3], i64[]) {
               %one = constant {value = i64[](1)} : i64[]
               %j = add %i, %one : i64[]
               %y = add %x, %x : f32[3]
               return %j, %y, %x, %i
             }
             graph @forward(%n: i64[], %x: f32[3]) -> (f32[3], i64[], f32[?, 3], i64[?]) {
               %z = constant {value = i64[](0)} : i64[]
               %i, %y, %count, %xs, %is = while @more @step %z, %x, %n {carries = 2} : i64[], f32[3], i64[], f32[?, 3], i64[?]
               return %y, %count, %xs, %is
             }
             graph @yes(%c: i64[], %xs: f32[?, 3]) -> (i64[], f32[?, 3]) { return %c, %xs }
             graph @no(%c: i64[], %xs: f32[?, 3]) -> (i64[], f32[?, 3]) {
               %z = constant {value = i64[](0)} : i64[]
               return %z, %xs
             }
             graph @back(%s: f32[3], %x: f32[3], %i: i64[], %k: f32[3]) -> (f32[3], f32[3]) {
               %t = add %x, %k : f32[3]
               %u = add %s, %t : f32[3]
               return %u, %t
             }
             graph @main(%c: bool[], %n: i64[], %x: f32[3], %y: f32[3]) -> (f32[3], f32[3], i64[], f32[?, 3], i64[?]) {
               %a, %count, %xs, %is = call @forward %n, %x : f32[3], i64[], f32[?, 3], i64[?]
               %count2, %ys = if @yes @no %c, %count, %xs : i64[], f32[?, 3]
               %g, %ts = scan @back %count2, %a, %ys, %is, %y {length = -1, carries = 1, sequences = 2, reverse = true} : f32[3], f32[?, 3]
               return %a, %g, %count, %ts, %is
             }",
            [(true, 4), (false, 4), (true, 0), (true, 1000)].map(|(c, n)| with(vec![flag(c), int(n)])).to_vec(),
        ),
        (
            "a scan over rows, both ways, and over nothing",
            "graph @step(%a: f32[], %b: f32[], %x: f32[], %k: f32[3]) -> (f32[], f32[], f32[3], f32[]) {
               %s = add %a, %x : f32[]
               %t = mul %k, %s : f32[3]
               return %b, %s, %t, %x
             }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (f32[], f32[], f32[3, 3], f32[3], f32[3, 3], f32[3]) {
               %z = constant {value = f32[](0)} : f32[]
               %one = constant {value = f32[](1)} : f32[]
               %a, %b, %r, %s = scan @step %z, %one, %x, %y {length = 3, carries = 2, sequences = 1, reverse = false} : f32[], f32[], f32[3, 3], f32[3]
               %back = slice %x {starts = [2], sizes = [3], steps = [-1]} : f32[3]
               %c, %d, %t, %u = scan @step %a, %b, %back, %x {length = 3, carries = 2, sequences = 1, reverse = true} : f32[], f32[], f32[3, 3], f32[3]
               return %c, %d, %r, %s, %t, %u
             }",
            counts(),
        ),
        (
            "a scan of no steps, and of no sequences",
            "graph @step(%a: f32[3], %k: f32[3]) -> (f32[3], f32[3]) { %s = add %a, %k : f32[3] return %s, %a }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (f32[3], f32[0, 3], f32[3], f32[4, 3]) {
               %a, %r = scan @step %x, %y {length = 0, carries = 1, sequences = 0, reverse = false} : f32[3], f32[0, 3]
               %b, %s = scan @step %a, %y {length = 4, carries = 1, sequences = 0, reverse = false} : f32[3], f32[4, 3]
               return %a, %r, %b, %s
             }",
            counts(),
        ),
        (
            "calls of one graph, in each other's place",
            "graph @leaf(%x: f32[3], %y: f32[3]) -> (f32[3], f32[3]) { %z = add %x, %y : f32[3] return %z, %x }
             graph @twice(%x: f32[3], %y: f32[3]) -> (f32[3], f32[3]) {
               %a, %b = call @leaf %x, %y : f32[3], f32[3]
               %c, %d = call @leaf %a, %b : f32[3], f32[3]
               return %c, %d
             }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (f32[3], f32[3], f32[3]) {
               %a, %b = call @twice %x, %y : f32[3], f32[3]
               %c, %d = call @leaf %b, %a : f32[3], f32[3]
               %e, %f = call @twice %c, %d : f32[3], f32[3]
               return %e, %f, %b
             }",
            counts(),
        ),
        (
            "library ops on a routine's operands",
            "graph @step(%a: f32[3], %k: f32[3]) -> (f32[3], i64[3]) {
               %b = cumsum %a {axis = 0, exclusive = false, reverse = false} : f32[3]
               %i = argmax %k {axis = 0} : i64[]
               %j = broadcast_to %i {shape = [3]} : i64[3]
               %g = gather %b, %j {axis = 0} : f32[3]
               return %g, %j
             }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (f32[3], i64[2, 3]) {
               %a, %r = scan @step %x, %y {length = 2, carries = 1, sequences = 0, reverse = false} : f32[3], i64[2, 3]
               return %a, %r
             }",
            counts(),
        ),
        (
            "products of a routine's operands",
            "graph @step(%a: f32[2, 2], %k: f32[2, 2]) -> (f32[2, 2]) { %b = matmul %a, %k : f32[2, 2] return %b }
             graph @main(%n: i64[], %x: f32[3], %y: f32[3]) -> (f32[2, 2]) {
               %k = constant {value = f32[2, 2](1, 1, 0, 1)} : f32[2, 2]
               %a = scan @step %k, %k {length = 6, carries = 1, sequences = 0, reverse = false} : f32[2, 2]
               return %a
             }",
            counts(),
        ),
    ];
    for (what, text, inputs) in cases {
        let graph = parse_graph(text).unwrap_or_else(|error| panic!("{what}: {error}\n{text}"));
        check(&graph, &inputs);
    }
}
