//! Prints graphs for Graphviz.

use super::graph::{Def, Graph, Node, NodeId, ValueId};
use super::text::{ValueNames, write_attr};
use super::walk::subgraphs;
use rustc_hash::FxHashMap;
use std::fmt::{self, Write};

/// Formats the graph in Graphviz's language. Values are edges, and every distinct region is a cluster. Dashed edges
/// lead to it from the nodes that contain it.
pub fn to_dot(graph: &Graph) -> String {
    let mut out = String::new();
    write_dot(graph, &mut out).expect("a string takes any text");
    out
}

fn write_dot(root: &Graph, f: &mut String) -> fmt::Result {
    let mut graphs: Vec<&Graph> = subgraphs(root).into_iter().map(|it| &**it).collect();
    graphs.push(root);
    let numbers: FxHashMap<*const Graph, usize> =
        graphs.iter().enumerate().map(|(i, &graph)| (std::ptr::from_ref(graph), i)).collect();
    writeln!(f, "digraph {{\n  compound = true\n  node [shape = box, fontname = monospace]")?;
    for (i, graph) in graphs.iter().enumerate() {
        writeln!(f, "  subgraph cluster_{i} {{\n    label = {}", quoted(&format!("@{}", graph.name())))?;
        writeln!(f, "    g{i} [shape = point, style = invis]")?;
        let names = ValueNames::of(graph);
        for (at, &id) in graph.inputs().iter().enumerate() {
            let label = quoted(&format!("{}: {}", names.show(id), graph.ty(id)));
            writeln!(f, "    g{i}_in{at} [shape = ellipse, label = {label}]")?;
        }
        for (id, node) in graph.nodes() {
            writeln!(f, "    g{i}_n{} [label = {}]", id.0, quoted(&node_label(node)?))?;
            for &input in &node.inputs {
                edge(f, i, graph, &names, input, &node_name(i, id))?;
            }
        }
        for (at, &id) in graph.outputs().iter().enumerate() {
            let name = format!("g{i}_out{at}");
            writeln!(f, "    {name} [shape = ellipse, label = \"output {at}\"]")?;
            edge(f, i, graph, &names, id, &name)?;
        }
        writeln!(f, "  }}")?;
    }
    for (i, graph) in graphs.iter().enumerate() {
        for (id, node) in graph.nodes() {
            for region in &node.regions {
                let to = numbers[&std::sync::Arc::as_ptr(region)];
                writeln!(f, "  {} -> g{to} [style = dashed, lhead = cluster_{to}]", node_name(i, id))?;
            }
        }
    }
    writeln!(f, "}}")
}

fn node_name(graph: usize, id: NodeId) -> String {
    format!("g{graph}_n{}", id.0)
}

/// Returns the op, and a line for each attribute.
fn node_label(node: &Node) -> Result<String, fmt::Error> {
    let mut label = node.op.name().to_string();
    for (name, attr) in node.op.0.attrs.iter().map(|it| it.name).zip(node.attrs.as_slice()) {
        let mut text = String::new();
        write_attr(attr, &mut text)?;
        if let Some((cut, _)) = text.char_indices().nth(40) {
            text.truncate(cut);
            text.push_str("..");
        }
        write!(label, "\n{name} = {text}")?;
    }
    Ok(label)
}

fn edge(f: &mut String, i: usize, graph: &Graph, names: &ValueNames<'_>, id: ValueId, to: &str) -> fmt::Result {
    let from = match graph.value(id).def {
        Def::Input(at) => format!("g{i}_in{at}"),
        Def::Result(node, _) => node_name(i, node),
    };
    writeln!(f, "    {from} -> {to} [label = {}]", quoted(&format!("{}: {}", names.show(id), graph.ty(id))))
}

/// Quotes a string for Graphviz, with left-justified lines.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for it in text.chars() {
        match it {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\l"),
            it => out.push(it),
        }
    }
    if text.contains('\n') {
        out.push_str("\\l");
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::random::random_ops;

    #[test]
    fn a_small_graph() {
        let text = "
            graph @f(%fc[0].bias: f32[]) -> (f32[]) { return %fc[0].bias }
            graph @main(%0: f32[]) -> (f32[]) {
              %1 = one {value = \"a\"} : f32[]
              %2 = plain @f %0, %1 : f32[]
              return %2
            }";
        let want = r#"digraph {
  compound = true
  node [shape = box, fontname = monospace]
  subgraph cluster_0 {
    label = "@f"
    g0 [shape = point, style = invis]
    g0_in0 [shape = ellipse, label = "%fc[0].bias: f32[]"]
    g0_out0 [shape = ellipse, label = "output 0"]
    g0_in0 -> g0_out0 [label = "%fc[0].bias: f32[]"]
  }
  subgraph cluster_1 {
    label = "@main"
    g1 [shape = point, style = invis]
    g1_in0 [shape = ellipse, label = "%0: f32[]"]
    g1_n0 [label = "one\lvalue = \"a\"\l"]
    g1_n1 [label = "plain"]
    g1_in0 -> g1_n1 [label = "%0: f32[]"]
    g1_n0 -> g1_n1 [label = "%1: f32[]"]
    g1_out0 [shape = ellipse, label = "output 0"]
    g1_n1 -> g1_out0 [label = "%2: f32[]"]
  }
  g1_n1 -> g0 [style = dashed, lhead = cluster_0]
}
"#;
        assert_eq!(to_dot(&parse(text, &random_ops).expect(text)), want);
    }
}
