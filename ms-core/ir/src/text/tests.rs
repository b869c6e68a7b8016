use super::*;
use crate::Graph;
use crate::data::{Attr, AttrInfo, AttrKind, DType, Literal, Op, OpInfo, Scalar};
use crate::error::Code;
use crate::random::{mutate, random_graph, random_ops};
use crate::testing::Random;

fn read(text: &str) -> Graph {
    parse(text, &random_ops).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn random_graphs_come_back_exactly() {
    for seed in 0..400 {
        let graph = random_graph(&mut Random::Seed(seed), 3);
        let text = graph.to_string();
        let back = read(&text);
        assert_eq!(back.to_string(), text, "seed {seed}");
        assert_eq!(format!("{back:?}"), format!("{graph:?}"), "seed {seed}");
    }
}

#[test]
fn a_shared_region_is_written_and_stored_once() {
    let text = "\
graph @inner(%0: f32[]) -> (f32[]) {
  return %0
}

graph @outer(%0: f32[]) -> (f32[]) {
  %1 = plain @inner %0 : f32[]
  return %1
}

graph @outer#1(%0: f32[]) -> (f32[]) {
  return %0
}

graph @main(%0: f32[]) -> (f32[], f32[]) {
  %1, %2 = plain @inner @outer %0 : f32[], f32[]
  plain @outer#1 @outer %2, %1 : ()
  return %1, %2
}
";
    let graph = read(text);
    assert_eq!(graph.to_string(), text);
    let regions: Vec<_> = graph.nodes().flat_map(|(_, node)| &node.regions).collect();
    let [inner, outer, other, again] = regions[..] else { panic!("four regions") };
    assert!(std::sync::Arc::ptr_eq(outer, again));
    assert!(!std::sync::Arc::ptr_eq(outer, other));
    let nested = outer.nodes().flat_map(|(_, node)| &node.regions).next().expect("`@inner`");
    assert!(std::sync::Arc::ptr_eq(inner, nested));
}

#[test]
fn names_of_results_are_free_and_space_has_no_meaning() {
    let text = "graph@main(%x:f32[2],%y.1:f32[2])->(f32[2]){ // sum
        %total=plain %x,%y.1:f32[2] return%total}";
    let want = "\
graph @main(%x: f32[2], %y.1: f32[2]) -> (f32[2]) {
  %2 = plain %x, %y.1 : f32[2]
  return %2
}
";
    assert_eq!(read(text).to_string(), want);
}

/// Names of inputs are printed and read back.
#[test]
fn names_of_inputs_come_back() {
    let cases: [(&[&str], &str); 9] = [
        (&["x", "fc1.weight"], "%x %fc1.weight"),
        (&["layers[12].weight", "[0].w", "h[1][2]"], "%layers[12].weight %[0].w %h[1][2]"),
        (&["", "x"], "%0 %x"),
        (&["x", "y", "x", "x"], "%x %y %x#1 %x#2"),
        // Names that look like a number, or like the second of equal names.
        (&["1", "", "x", "x", "x#1"], "%\"1\" %1 %x %x#1 %\"x#1\""),
        (&["h[\"w\"]", "a b", "größe"], "%\"h[\\\"w\\\"]\" %\"a b\" %\"größe\""),
        (&["a[", "a[]", "a[b]", "a]"], "%\"a[\" %\"a[]\" %\"a[b]\" %\"a]\""),
        (&["1.5", "2x"], "%1.5 %2x"),
        (&["a\n\"\\"], "%\"a\\n\\\"\\\\\""),
    ];
    for (names, want) in cases {
        let mut graph = Graph::new("main");
        for (at, &name) in names.iter().enumerate() {
            graph.add_input(crate::data::Type::of(DType::F32, &[]));
            graph.name_input(at, Some(name.into()));
        }
        graph.set_outputs(graph.inputs().to_vec());
        let text = graph.to_string();
        let returned = text.lines().nth(1).and_then(|it| it.strip_prefix("  return ")).expect("two lines");
        assert_eq!(returned.replace(", ", " "), want);
        let back = read(&text);
        assert_eq!(format!("{back:?}"), format!("{graph:?}"), "{text}");
        assert_eq!(back.to_string(), text);
    }
}

/// The names of inputs are kept when inputs are reordered or inlined.
#[test]
fn names_of_inputs_stay_with_them() {
    let mut graph = read("graph @f(%a: f32[1], %1: f32[2], %c: f32[3]) -> () { return }");
    graph.reorder_inputs(&[2, 0, 1]);
    assert!(graph.to_string().starts_with("graph @f(%c: f32[3], %a: f32[1], %1: f32[2])"), "{graph}");
    let mut like = Graph::new("g");
    for &input in &graph.inputs()[1..] {
        like.add_input_like(&graph, input);
    }
    like.add_input(graph.ty(graph.inputs()[0]).clone());
    assert!(like.to_string().starts_with("graph @g(%a: f32[1], %1: f32[2], %2: f32[3])"), "{like}");
    like.name_inputs_like(&graph, [0, 2]);
    assert!(like.to_string().starts_with("graph @g(%c: f32[1], %1: f32[2], %a: f32[3])"), "{like}");
    let mut same = Graph::new("h");
    for &input in graph.inputs() {
        same.add_input(graph.ty(input).clone());
    }
    same.share_input_names(&graph);
    same.name_input(1, Some("other".into()));
    assert!(same.to_string().starts_with("graph @h(%c: f32[3], %other: f32[1], %2: f32[2])"), "{same}");
    assert!(graph.to_string().starts_with("graph @f(%c: f32[3], %a: f32[1], %1: f32[2])"), "{graph}");
    like.name_input(0, None);
    let names: Vec<_> = (0..4).map(|at| like.input_name(at).map(|it| &**it)).collect();
    assert_eq!(names, [None, None, Some("a"), None]);
}

#[test]
fn literals_are_short_where_they_can_be() {
    let floats = |values: &[f32]| {
        let bytes = values.iter().flat_map(|it| it.to_le_bytes()).collect();
        Literal::from_bytes(&[values.len()], DType::F32, bytes).expect("the bytes fill the shape")
    };
    let long: Vec<f32> = (0..17).map(|it| it as f32).collect();
    let cases = [
        (floats(&[]), "f32[0]()"),
        (floats(&[0.1, -0.0, 1e-45]), "f32[3](0.1, -0.0, 1e-45)"),
        (floats(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]), "f32[3](nan, inf, -inf)"),
        (floats(&[-f32::NAN, 0.0]), "f32[2](nan:0xffc00000, 0.0)"),
        (floats(&[2.0; 100]), "f32[100](2.0, ..)"),
        (floats(&long), "f32[17](0x000000000000803f000000400000404000008040"),
        (Literal::scalar(Scalar::Float(0.1), DType::F16), "f16[](0.099975586)"),
        (Literal::scalar(Scalar::UInt(u64::MAX), DType::U64), "u64[](18446744073709551615)"),
        (Literal::scalar(Scalar::Bool(true), DType::Bool), "bool[](true)"),
    ];
    for (literal, want) in cases {
        let mut text = String::new();
        print::write_attr(&Attr::Literal(literal.clone()), &mut text).expect("a string takes any text");
        assert!(text.starts_with(want), "{text} for {want}");
        let graph = read(&format!("graph @f() -> () {{ one {{value = {text}}} : () return }}"));
        let (_, node) = graph.nodes().next().expect("one node");
        assert_eq!(node.attrs.as_slice(), [Attr::Literal(literal)], "{text}");
    }
}

/// Errors state their positions.
#[test]
fn errors_say_what_was_expected() {
    let cases = [
        ("", "1, column 1: expected `graph`, found the end of the text"),
        ("graph main", "1, column 7: expected the name of the graph, as `@name`, found `main`"),
        ("graph @f(%0 f32[])", "1, column 13: expected `:` (the input's type), found `f32`"),
        ("graph @f(%0: g32[])", "1, column 14: expected a type such as `f32[2, 3]`, found `g32`"),
        ("graph @f(%0: f32[-1])", "1, column 18: a size is not negative, but -1 is"),
        ("graph @f(%0: f32[0, 4611686018427387904])", "1, column 14: a value of this type does not fit"),
        ("graph @f(%0: f32[=])", "1, column 18: expected an integer of 64 bits, found `=`"),
        ("graph @f(%0: f32[], %0: f32[])", "1, column 21: `%0` is defined twice"),
        ("graph @f() -> (f32[]) {\n  return\n}", "1, column 15: the graph returns (), not this"),
        ("graph @f() -> () {\n  return %1\n}", "2, column 10: `%1` is not defined before this"),
        ("graph @f() -> () {\n  %1 = dance : f32[]\n}", "2, column 8: there is no op `dance`"),
        ("graph @f() -> () {\n  plain @g : ()", "2, column 9: there is no graph `@g` before this one"),
        ("graph @f() -> () {\n  one : ()", "2, column 7: expected attribute `value` of `one`"),
        ("graph @f() -> () { one {x = 1} : ()", "1, column 25: expected an attribute of `one`: `value`, found `x`"),
        ("graph @f() -> () { one {value = 1, value = 1}", "an attribute of `one`: no more, found `value`"),
        ("graph @f() -> () { one {value = q} : ()", "1, column 33: expected a value, found `q`"),
        ("graph @f() -> () { one {value = \"q} : ()", "1, column 33: the string is not closed"),
        ("graph @f() -> () { one {value = f32[2](1)}", "1, column 40: expected 2 elements of f32 in 8 bytes"),
        ("graph @f() -> () { one {value = i8[](128)}", "1, column 38: expected an element of i8, found `128`"),
        ("graph @f() -> () { one {value = f16[](1e9)}", "expected an element of f16, found `1e9`"),
        ("graph @f() -> () { one {value = f32[](0x0)}", "expected an even number of digits"),
        ("graph @f() -> () { one {value = bool[](0x02)}", "expected 1 elements of bool"),
        ("graph @f() -> () { one {value = nan:0x1} : ()", "1, column 33: these are not the bits of a nan of f64"),
        ("graph @f() -> () { one {value = f64[9, 9, 99999999](1, ..)}", "at most 1 GiB together"),
        // The second one alone would have the maximum size.
        ("graph @f() -> () { one {value = i8[9](1, ..)} : () one {value = f64[134217728](1, ..)}", "1 GiB together"),
        ("graph @f() -> () { %1 = plain : f32[], f32[]", "expected as many types as results, 1, found 2"),
        ("graph @f(%x: f32[], %x: f32[])", "1, column 21: `%x` is defined twice"),
        ("graph @f(%x: f32[]) -> () { return %x#1 }", "1, column 36: `%x#1` is not defined before this"),
        ("graph @f(%x#: f32[])", "1, column 12: expected a small number behind `#`"),
        ("graph @f(%\"x: f32[])", "1, column 11: the string is not closed"),
        ("graph @f() -> () { return } graph @f", "1, column 35: `@f` is defined twice"),
        ("graph @f() -> () { return } graph @g() -> () { return }", "1, column 7: no node uses this graph"),
        ("graph @f() -> () { return } return", "1, column 29: expected `graph`, found `return`"),
        ("graph @f() -> () {\n  é", "2, column 3: expected a node or `return`, found `é`"),
    ];
    for (text, want) in cases {
        let error = parse(text, &random_ops).expect_err(text);
        assert_eq!(error.code(), Code::Parse, "{text}");
        assert!(error.to_string().contains(want), "{error}\n{text}\n{want}");
    }
}

#[test]
fn nesting_has_an_end() {
    let mut text = "graph @g0() -> () { return }".to_string();
    for level in 1..=1001 {
        text += &format!("graph @g{level}() -> () {{ plain @g{} : () return }}", level - 1);
    }
    let error = parse(&text, &random_ops).expect_err("too deep");
    assert!(error.to_string().contains("more than 1000 deep"), "{error}");
}

/// Mutated text is an error or a graph, never a panic.
#[test]
fn mutated_text_does_not_panic() {
    let pieces = [
        "%0", "@f", "f32[", "]", "(", ")", "..", "0x", "nan", "-inf", "\"", "\\u{", "é", "1e999", ":", "->", "#",
        "%x#1", "%\"", "[0]",
    ];
    for seed in 0..1500 {
        let random = &mut Random::Seed(seed);
        let mut text = random_graph(random, 2).to_string();
        mutate(random, &mut text, &pieces);
        if let Ok(graph) = parse(&text, &random_ops) {
            let printed = graph.to_string();
            assert_eq!(read(&printed).to_string(), printed, "seed {seed}");
        }
    }
}

#[test]
fn symbolic_sizes_come_back_and_are_filled_in() {
    let text = "\
graph @main(%0: f32[batch, 4], %1: f32[2*batch + 1, ?]) -> (f32[batch*seq - 3]) {
  %2 = plain %0, %1 {value = [batch, -1, (batch + 1)/(2)], other = (-batch + 2)} : f32[batch*seq - 3]
  return %2
}
";
    let ops = |name: &str| (name == "plain").then_some(Op(&SIZED));
    let graph = parse(text, &ops).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(graph.to_string(), text);
    assert_eq!(graph.symbols().into_iter().collect::<Vec<_>>(), ["batch"]);
    let sizes = |name: &str| Some(if name == "batch" { 5 } else { 2 });
    let known = graph.with_sizes(&sizes).expect("every size is known").to_string();
    let node = "plain %0, %1 {value = [5, -1, 3], other = -3} : f32[7]";
    assert!(known.contains("%0: f32[5, 4], %1: f32[11, ?]") && known.contains(node), "{known}");
    assert_ne!(crate::canonical_bytes(&graph), crate::canonical_bytes(&parse(&known, &ops).expect(&known)));
}

/// Expanded, such a product would have 4^12 terms.
#[test]
fn products_of_many_sums_come_back() {
    let sum = |at: usize| format!("min(a{at} + b{at} + c{at} + d{at}, 1000000)");
    let factors: Vec<String> = (0..12).map(|at| format!("({})/(1)", sum(at))).collect();
    let ops = |name: &str| (name == "plain").then_some(Op(&SIZED));
    let sums: Vec<String> = (0..12).map(|at| format!("(a{at} + b{at} + c{at} + d{at})/(1)")).collect();
    for (size, has_sums) in [
        (sums.join("*"), true),
        (factors.join("*"), false),
        (sums[..3].join("*"), false),
        ("n*(a + b)*(c + 2)".into(), true),
    ] {
        let text = format!("graph @main(%0: f32[{size}]) -> (f32[{size}]) {{\n  return %0\n}}\n");
        let printed = parse(&text, &ops).unwrap_or_else(|error| panic!("{error}")).to_string();
        assert_eq!(printed.contains(")*("), has_sums, "{printed}");
        assert!(printed.len() < 1 << 16, "{}", printed.len());
        assert_eq!(parse(&printed, &ops).unwrap_or_else(|error| panic!("{error}")).to_string(), printed);
    }
}

static SIZED: OpInfo = OpInfo {
    number: 1,
    name: "plain",
    attrs: &[AttrInfo::any("value", AttrKind::Ints), AttrInfo::any("other", AttrKind::Int)],
};
