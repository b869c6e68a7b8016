//! Graphs as a page for a browser, which needs nothing but itself.

use super::graph::{Def, Graph, ValueId};
use super::text::write_attr;
use super::walk::subgraphs;
use rustc_hash::FxHashMap;
use std::fmt::{self, Write};
use std::sync::Arc;

/// The page; its one `{{graphs}}` is replaced by the graphs as JSON.
const PAGE: &str = include_str!("graph.html");

/// A page on which the graph and every distinct graph in it can be looked at: moved, zoomed, and
/// searched for ops, attributes, types and values. It loads nothing.
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
    label: String,
    detail: String,
    kind: &'static str,
    regions: Vec<usize>,
    /// The boxes that its operands come from, and the values.
    from: Vec<(usize, ValueId)>,
}

fn write_graph(graph: &Graph, numbers: &FxHashMap<*const Graph, usize>, f: &mut String) -> fmt::Result {
    let items = items(graph, numbers)?;
    let places = places(&items);
    write!(f, "{{\"name\":{},\"items\":[", Text(graph.name()))?;
    for (i, (item, (x, y))) in items.iter().zip(&places).enumerate() {
        let comma = if i > 0 { "," } else { "" };
        let (label, detail) = (Text(&item.label), Text(&item.detail));
        let regions: Vec<String> = item.regions.iter().map(usize::to_string).collect();
        let regions = regions.join(",");
        write!(f, "{comma}[{label},{detail},\"{}\",{x:.0},{y:.0},[{regions}]]", item.kind)?;
    }
    f.push_str("],\"edges\":[");
    let edges = items.iter().enumerate().flat_map(|(to, item)| item.from.iter().map(move |it| (it.0, to, it.1)));
    for (i, (from, to, value)) in edges.enumerate() {
        let comma = if i > 0 { "," } else { "" };
        write!(f, "{comma}[{from},{to},{}]", Text(&format!("{value}: {}", graph.ty(value))))?;
    }
    f.push_str("]}");
    Ok(())
}

fn items(graph: &Graph, numbers: &FxHashMap<*const Graph, usize>) -> Result<Vec<Item>, fmt::Error> {
    let inputs = graph.inputs().len();
    let of = |&id: &ValueId| match graph.value(id).def {
        Def::Input(at) => (at as usize, id),
        Def::Result(node, _) => (inputs + node.0 as usize, id),
    };
    let mut items = Vec::with_capacity(inputs + graph.len() + graph.outputs().len());
    for &id in graph.inputs() {
        let label = format!("{id}: {}", graph.ty(id));
        items.push(Item { label, detail: String::new(), kind: "input", regions: Vec::new(), from: Vec::new() });
    }
    for (_, node) in graph.nodes() {
        let mut detail = String::new();
        for (name, attr) in node.op.0.attrs.iter().zip(node.attrs.as_slice()) {
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
        let regions: Vec<usize> = node.regions.iter().map(|it| numbers[&Arc::as_ptr(it)]).collect();
        let kind = if regions.is_empty() { "node" } else { "call" };
        let label = match node.regions.first() {
            Some(region) => format!("{} @{}", node.op.name(), region.name()),
            None => node.op.name().to_owned(),
        };
        items.push(Item { label, detail, kind, regions, from: node.inputs.iter().map(of).collect() });
    }
    for (at, id) in graph.outputs().iter().enumerate() {
        let label = format!("output {at}");
        items.push(Item { label, detail: String::new(), kind: "output", regions: Vec::new(), from: vec![of(id)] });
    }
    Ok(items)
}

/// Where boxes stand: below those that they take from, near the middle of them.
fn places(items: &[Item]) -> Vec<(f64, f64)> {
    const GAP: f64 = 24.0;
    const LAYER: f64 = 70.0;
    let mut layers = vec![0usize; items.len()];
    for (i, item) in items.iter().enumerate() {
        layers[i] = item.from.iter().map(|&(from, _)| layers[from] + 1).max().unwrap_or(0);
    }
    // What takes nothing, a constant, stands just above the first that takes it.
    let mut first = vec![usize::MAX; items.len()];
    for (i, item) in items.iter().enumerate() {
        item.from.iter().for_each(|&(from, _)| first[from] = first[from].min(layers[i]));
    }
    for (i, _) in items.iter().enumerate().filter(|(_, it)| it.kind == "node" && it.from.is_empty()) {
        layers[i] = first[i].saturating_sub(1).min(layers.len());
    }
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); layers.iter().max().map_or(0, |it| it + 1)];
    layers.iter().enumerate().for_each(|(i, &layer)| rows[layer].push(i));
    let mut places = vec![(0.0, 0.0); items.len()];
    for (layer, row) in rows.iter_mut().enumerate() {
        let wanted = |i: usize| {
            let from = &items[i].from;
            let sum: f64 = from.iter().map(|&(from, _)| places[from].0).sum();
            if from.is_empty() { 0.0 } else { sum / from.len() as f64 }
        };
        row.sort_by(|&a, &b| wanted(a).total_cmp(&wanted(b)).then(a.cmp(&b)));
        let widths: Vec<f64> = row.iter().map(|&i| width(&items[i]) + GAP).collect();
        let middle = row.iter().map(|&i| wanted(i)).sum::<f64>() / row.len().max(1) as f64;
        let mut x = middle - widths.iter().sum::<f64>() / 2.0;
        let row_places: Vec<(usize, f64)> = row
            .iter()
            .zip(&widths)
            .map(|(&i, width)| {
                let place = x + width / 2.0;
                x += width;
                (i, place)
            })
            .collect();
        row_places.into_iter().for_each(|(i, x)| places[i] = (x, layer as f64 * LAYER));
    }
    places
}

/// The width of a box; the page draws the letters 7 wide.
fn width(item: &Item) -> f64 {
    item.label.chars().count() as f64 * 7.0 + 16.0
}

/// A string of JSON that can stand in a page.
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
    use crate::ir::parse;
    use crate::ir::random::random_ops;

    #[test]
    fn a_small_graph() {
        let text = "
            graph @f(%0: f32[]) -> (f32[]) { return %0 }
            graph @main(%0: f32[]) -> (f32[]) {
              %1 = one {value = \"</script>\"} : f32[]
              %2 = plain @f %0, %1 : f32[]
              return %2
            }";
        let page = to_html(&parse(text, &random_ops).expect(text));
        let data = page.split("type=\"application/json\">").nth(1).expect("the graphs").split("</script>").next();
        let want = concat!(
            r#"[{"name":"main","items":[["%0: f32[]","","input",-30,0,[]],"#,
            r#"["one","value = \"\u003c/script\u003e\"\n%1: f32[]\n","node",52,0,[]],"#,
            r#"["plain @f","%2: f32[]\n","call",10,70,[1]],["output 0","","output",10,140,[]]],"#,
            r#""edges":[[0,2,"%0: f32[]"],[1,2,"%1: f32[]"],[2,3,"%2: f32[]"]]},"#,
            r#"{"name":"f","items":[["%0: f32[]","","input",0,0,[]],["output 0","","output",0,70,[]]],"#,
            r#""edges":[[0,1,"%0: f32[]"]]}]"#
        );
        assert_eq!(data, Some(want));
        assert!(!page.contains("http"), "the page loads nothing");
    }
}
