//! Renders graphs as a self-contained HTML page.

use super::graph::{Def, Graph, ValueId};
use super::text::{ValueNames, write_attr};
use super::walk::subgraphs;
use crate::MapVec;
use rustc_hash::FxHashMap;
use std::fmt::{self, Write};
use std::sync::Arc;

/// The page. Its single `{{graphs}}` is replaced by the graphs as JSON.
const PAGE: &str = include_str!("graph.html");

/// Renders a page that shows the graph and every distinct graph in it, with panning, zooming, and search for ops,
/// attributes, types and values. It loads no other resource.
pub fn to_html(graph: &Graph) -> String {
    let mut data = String::new();
    write_graphs(graph, &mut data).expect("a string takes any text");
    PAGE.replacen("{{graphs}}", &data, 1)
}

fn write_graphs(root: &Graph, f: &mut String) -> fmt::Result {
    let mut graphs: Vec<&Graph> = vec![root];
    graphs.extend(subgraphs(root).into_iter().rev().map(|it| &**it));
    let numbers: FxHashMap<*const Graph, usize> =
        graphs.iter().enumerate().map(|(i, &graph)| (std::ptr::from_ref(graph), i)).collect();
    f.push('[');
    for (i, graph) in graphs.into_iter().enumerate() {
        if i > 0 {
            f.push(',');
        }
        write_graph(graph, &numbers, f)?;
    }
    f.push(']');
    Ok(())
}

/// An input, a node or an output, as a box of the page.
struct Item {
    /// The op, or the name of the value.
    label: String,
    /// The types of the results.
    types: String,
    detail: String,
    kind: &'static str,
    regions: Vec<usize>,
    /// The boxes of the operands, with the labels of the edges.
    from: Vec<(usize, ValueId)>,
}

fn write_graph(graph: &Graph, numbers: &FxHashMap<*const Graph, usize>, f: &mut String) -> fmt::Result {
    let names = ValueNames::of(graph);
    let items = items(graph, &names, numbers)?;
    let places = places(&items);
    write!(f, "{{\"name\":{},\"items\":[", Text(graph.name()))?;
    for (i, (item, (x, y))) in items.iter().zip(&places).enumerate() {
        let comma = if i > 0 { "," } else { "" };
        let (label, types, detail) = (Text(&item.label), Text(&item.types), Text(&item.detail));
        let regions: Vec<String> = item.regions.map_vec(usize::to_string);
        let (regions, width) = (regions.join(","), width(item));
        write!(f, "{comma}[{label},{types},{detail},\"{}\",{x:.0},{y:.0},{width},[{regions}]]", item.kind)?;
    }
    f.push_str("],\"edges\":[");
    let edges = items.iter().enumerate().flat_map(|(to, item)| item.from.iter().map(move |it| (it.0, to, it.1)));
    for (i, (from, to, value)) in edges.enumerate() {
        let comma = if i > 0 { "," } else { "" };
        write!(f, "{comma}[{from},{to},{}]", Text(&format!("{}: {}", names.show(value), graph.ty(value))))?;
    }
    f.push_str("]}");
    Ok(())
}

fn items(
    graph: &Graph,
    names: &ValueNames<'_>,
    numbers: &FxHashMap<*const Graph, usize>,
) -> Result<Vec<Item>, fmt::Error> {
    let inputs = graph.inputs().len();
    let of = |&id: &ValueId| match graph.value(id).def {
        Def::Input(at) => (at as usize, id),
        Def::Result(node, _) => (inputs + node.0 as usize, id),
    };
    let mut items = Vec::with_capacity(inputs + graph.len() + graph.outputs().len());
    let types = |ids: &[ValueId]| {
        let all: Vec<String> = ids.map_vec(|&it| graph.ty(it).to_string());
        match &all[..] {
            [first, _, rest @ ..] if !rest.is_empty() => format!("{first}, {} more", rest.len() + 1),
            _ => all.join(", "),
        }
    };
    for (at, &id) in graph.inputs().iter().enumerate() {
        let (label, types) = (names.show(id).to_string(), types(&[id]));
        let detail = format!("input {at}\n");
        items.push(Item { label, types, detail, kind: "input", regions: Vec::new(), from: Vec::new() });
    }
    for (_, node) in graph.nodes() {
        let mut detail = String::new();
        for (name, attr) in node.op.0.attrs.iter().map(|it| it.name).zip(node.attrs.as_slice()) {
            write!(detail, "{name} = ")?;
            write_attr(attr, &mut detail)?;
            detail.push('\n');
        }
        for &id in &node.outputs {
            writeln!(detail, "{id}: {}", graph.ty(id))?;
        }
        if let Some(location) = node.location {
            writeln!(detail, "{location}")?;
        }
        let regions: Vec<usize> = node.regions.map_vec(|it| numbers[&Arc::as_ptr(it)]);
        let kind = if regions.is_empty() { "node" } else { "call" };
        let label = match node.regions.first() {
            Some(region) => format!("{} @{}", node.op.name(), region.name()),
            None => node.op.name().to_owned(),
        };
        let from = node.inputs.map_vec(of);
        items.push(Item { label, types: types(&node.outputs), detail, kind, regions, from });
    }
    for (at, id) in graph.outputs().iter().enumerate() {
        let (label, types) = (format!("output {at}"), types(&[*id]));
        items.push(Item {
            label,
            types,
            detail: String::new(),
            kind: "output",
            regions: Vec::new(),
            from: vec![of(id)],
        });
    }
    Ok(items)
}

/// The distances between boxes in a row, between rows, and between layers.
const GAP: f64 = 20.0;
const LINE: f64 = 54.0;
const LAYER: f64 = 84.0;

/// The maximum width of a row of boxes; a wider layer has several rows.
const LONGEST: f64 = 1500.0;

/// Computes the positions of boxes: below the boxes of their operands, near the middle of them.
fn places(items: &[Item]) -> Vec<(f64, f64)> {
    let mut layers = vec![0usize; items.len()];
    for (i, item) in items.iter().enumerate() {
        layers[i] = item.from.iter().map(|&(from, _)| layers[from] + 1).max().unwrap_or(0);
    }
    // Inputs, constants, and values computed from only one of them go directly above their first use.
    let mut alone = vec![false; items.len()];
    for (i, item) in items.iter().enumerate().filter(|it| it.1.kind != "output") {
        alone[i] = item.from.len() <= 1 && item.from.iter().all(|&(from, _)| alone[from]);
    }
    let mut first = vec![usize::MAX; items.len()];
    for (i, item) in items.iter().enumerate().rev() {
        if alone[i] && first[i] != usize::MAX {
            layers[i] = first[i].saturating_sub(1);
        }
        item.from.iter().for_each(|&(from, _)| first[from] = first[from].min(layers[i]));
    }
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); layers.iter().max().map_or(0, |it| it + 1)];
    layers.iter().enumerate().for_each(|(i, &layer)| rows[layer].push(i));
    let first_uses = first_uses(items);
    let mut places = vec![(0.0, 0.0); items.len()];
    let mut y = 0.0;
    for row in &mut rows {
        // Below its operands, or, without operands, beside the other operands of its first use.
        let wanted = |i: usize| {
            let near = |i: usize| items[i].from.iter().filter(|it| !alone[it.0]).map(|it| it.0);
            let from: Vec<usize> = match (alone[i], first_uses[i]) {
                (true, Some(taker)) => near(taker).filter(|&it| layers[it] < layers[i]).collect(),
                _ => items[i].from.map_vec(|it| it.0),
            };
            let sum: f64 = from.iter().map(|&it| places[it].0).sum();
            if from.is_empty() { 0.0 } else { sum / from.len() as f64 }
        };
        row.sort_by(|&a, &b| wanted(a).total_cmp(&wanted(b)).then(a.cmp(&b)));
        let middle = row.iter().map(|&i| wanted(i)).sum::<f64>() / row.len().max(1) as f64;
        let mut placed: Vec<(usize, f64, f64)> = Vec::new();
        for line in lines(items, row) {
            let mut x = middle - line.iter().map(|&i| width(&items[i]) + GAP).sum::<f64>() / 2.0;
            for &i in line {
                let step = width(&items[i]) + GAP;
                placed.push((i, x + step / 2.0, y));
                x += step;
            }
            y += LINE;
        }
        y += LAYER - LINE;
        placed.into_iter().for_each(|(i, x, y)| places[i] = (x, y));
    }
    places
}

/// Returns the first use of each box.
fn first_uses(items: &[Item]) -> Vec<Option<usize>> {
    let mut uses = vec![None; items.len()];
    for (i, item) in items.iter().enumerate() {
        item.from.iter().for_each(|&(from, _)| uses[from] = uses[from].or(Some(i)));
    }
    uses
}

/// Breaks a row of boxes into shorter ones.
fn lines<'a>(items: &[Item], row: &'a [usize]) -> Vec<&'a [usize]> {
    let all: f64 = row.iter().map(|&i| width(&items[i]) + GAP).sum();
    let longest = all / (all / LONGEST).ceil().max(1.0);
    let (mut lines, mut begin, mut length) = (Vec::new(), 0, 0.0);
    for (at, &i) in row.iter().enumerate() {
        length += width(&items[i]) + GAP;
        if length >= longest - 1e-6 || at + 1 == row.len() {
            lines.push(&row[begin..=at]);
            (begin, length) = (at + 1, 0.0);
        }
    }
    lines
}

/// Returns the width of a box: characters of the label are 7 wide, characters of types 6.
fn width(item: &Item) -> f64 {
    let letters = |it: &str, wide: usize| it.chars().count() * wide;
    (letters(&item.label, 7).max(letters(&item.types, 6)) + 20).max(48) as f64
}

/// Formats a JSON string that is valid inside a script element.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for it in self.0.chars() {
            match it {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => write!(f, "\\u{:04x}", it as u32)?,
                it if it < ' ' => write!(f, "\\u{:04x}", it as u32)?,
                it => f.write_char(it)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::random::random_ops;

    #[test]
    fn a_small_graph() {
        let text = "
            graph @f(%\"<w>\": f32[]) -> (f32[]) { return %\"<w>\" }
            graph @main(%0: f32[]) -> (f32[]) {
              %1 = one {value = \"</script>\"} : f32[]
              %2 = plain @f %0, %1 : f32[]
              return %2
            }";
        let page = to_html(&parse(text, &random_ops).expect(text));
        let data = page.split("type=\"application/json\">").nth(1).expect("the graphs").split("</script>").next();
        let want = concat!(
            r#"[{"name":"main","items":[["%0","f32[]","input 0\n","input",-35,0,50,[]],"#,
            r#"["one","f32[]","value = \"\u003c/script\u003e\"\n%1: f32[]\n","node",35,0,50,[]],"#,
            r#"["plain @f","f32[]","%2: f32[]\n","call",0,84,76,[1]],["output 0","f32[]","","output",0,168,76,[]]],"#,
            r#""edges":[[0,2,"%0: f32[]"],[1,2,"%1: f32[]"],[2,3,"%2: f32[]"]]},"#,
            r#"{"name":"f","items":[["%\"\u003cw\u003e\"","f32[]","input 0\n","input",0,0,62,[]],"#,
            r#"["output 0","f32[]","","output",0,84,76,[]]],"edges":[[0,1,"%\"\u003cw\u003e\": f32[]"]]}]"#
        );
        assert_eq!(data, Some(want));
        assert!(!page.contains("http"), "the page loads nothing");
    }
}
