//! Parses graphs.

mod attrs;
mod types;

use super::lex::{Token, Value};
use super::tokens::Tokens;
use crate::MapVec;
use crate::data::{Attrs, Op};
use crate::error::Result;
use crate::{Graph, Node, ValueId};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// Resolves the name of an op.
pub type Resolver<'a> = &'a dyn Fn(&str) -> Option<Op>;

/// The maximum nesting of graphs: dropping them takes a stack frame per level.
const DEEPEST: u32 = 1000;

/// Parses a graph in the text form (see [`text`](crate::text)).
///
/// Values of the graph are defined before they are used. The verifier checks whether its ops accept their operands.
///
/// # Errors
/// [`Code::Parse`](crate::Code::Parse) with line, column, and what was expected.
pub fn parse(text: &str, ops: Resolver<'_>) -> Result<Graph> {
    Parser { tokens: Tokens::new(text)?, ops, graphs: FxHashMap::default(), filled: 0 }.text()
}

/// A graph that later ones may use.
struct Known {
    graph: Arc<Graph>,
    /// The depth of nested graphs in it.
    depth: u32,
    /// The position of its label.
    at: usize,
    used: bool,
}

struct Parser<'a> {
    tokens: Tokens<'a>,
    ops: Resolver<'a>,
    graphs: FxHashMap<(Cow<'a, str>, u32), Known>,
    /// The size, in bytes, of the literals with `..` so far.
    filled: usize,
}

/// A graph under construction, and the names of its values.
struct Scope<'a> {
    graph: Graph,
    values: FxHashMap<&'a str, ValueId>,
    depth: u32,
}

impl<'a> Parser<'a> {
    fn text(&mut self) -> Result<Graph> {
        loop {
            self.tokens.word("graph")?;
            let (at, name) = (self.tokens.at, self.tokens.since(self.tokens.at));
            let label = self.label("the name of the graph")?;
            if self.graphs.contains_key(&label) {
                return Err(self.tokens.error(at, format!("`{name}` is defined twice")));
            }
            let (graph, depth) = self.graph(&label.0)?;
            if self.tokens.token == Token::End {
                return match self.graphs.values().filter(|it| !it.used).min_by_key(|it| it.at) {
                    Some(unused) => {
                        let message = "no node uses this graph, and it is not the last, which the text is of";
                        Err(self.tokens.error(unused.at, message))
                    }
                    None => Ok(graph),
                };
            }
            self.graphs.insert(label, Known { graph: Arc::new(graph), depth, at, used: false });
        }
    }

    fn graph(&mut self, name: &str) -> Result<(Graph, u32)> {
        let mut scope = Scope { graph: Graph::new(name), values: FxHashMap::default(), depth: 0 };
        self.tokens.symbol('(', "the inputs")?;
        if !self.tokens.eat(')')? {
            loop {
                let (Value { text, name }, at) = self.tokens.value("an input")?;
                self.tokens.symbol(':', "the input's type")?;
                let ty = self.ty()?;
                let position = scope.graph.inputs().len();
                let id = scope.graph.add_input(ty);
                scope.graph.name_input(position, name.map(Into::into));
                self.define(&mut scope, text, id, at)?;
                if !self.tokens.more(')')? {
                    break;
                }
            }
        }
        if self.tokens.token != Token::Arrow {
            return Err(self.tokens.expected("`->` and the types of the outputs"));
        }
        self.tokens.advance()?;
        let at = self.tokens.at;
        self.tokens.symbol('(', "the types of the outputs")?;
        let types = if self.tokens.eat(')')? {
            Vec::new()
        } else {
            let types = self.types()?;
            self.tokens.symbol(')', "the end of the output types")?;
            types
        };
        self.tokens.symbol('{', "the nodes")?;
        while self.tokens.token != Token::Word("return") {
            self.node(&mut scope)?;
        }
        self.tokens.advance()?;
        let outputs = self.operands(&scope)?;
        if !outputs.iter().map(|&it| scope.graph.ty(it)).eq(&types) {
            let returned: Vec<_> = outputs.map_vec(|&it| scope.graph.ty(it).to_string());
            return Err(self.tokens.error(at, format!("the graph returns ({}), not this", returned.join(", "))));
        }
        scope.graph.set_outputs(outputs);
        self.tokens.symbol('}', "the end of the graph")?;
        Ok((scope.graph, scope.depth))
    }

    fn node(&mut self, scope: &mut Scope<'a>) -> Result<()> {
        let mut results: Vec<(&str, usize)> = Vec::new();
        if matches!(self.tokens.token, Token::Value(_)) {
            loop {
                let (Value { text, .. }, at) = self.tokens.value("a result")?;
                results.push((text, at));
                if !self.tokens.more('=')? {
                    break;
                }
            }
        }
        let Token::Word(name) = self.tokens.token else {
            return Err(self.tokens.expected(if results.is_empty() { "a node or `return`" } else { "an op" }));
        };
        let op =
            (self.ops)(name).ok_or_else(|| self.tokens.error(self.tokens.at, format!("there is no op `{name}`")))?;
        self.tokens.advance()?;
        let mut node = Node::new(op, Attrs::none(), []);
        while matches!(self.tokens.token, Token::Label(..)) {
            node.regions.push(self.region(scope)?);
        }
        node.inputs = self.operands(scope)?;
        node.attrs = self.attrs(op)?;
        self.tokens.symbol(':', "the types of the results")?;
        let at = self.tokens.at;
        let types = if self.tokens.eat('(')? {
            self.tokens.symbol(')', "`()` for no results")?;
            Vec::new()
        } else {
            self.types()?
        };
        if types.len() != results.len() {
            let message = format!("expected as many types as results, {}, found {}", results.len(), types.len());
            return Err(self.tokens.error(at, message));
        }
        let id = scope.graph.add_node(node, types);
        for (i, &(name, at)) in results.iter().enumerate() {
            let value = scope.graph.node(id).outputs[i];
            self.define(scope, name, value, at)?;
        }
        Ok(())
    }

    fn region(&mut self, scope: &mut Scope<'a>) -> Result<Arc<Graph>> {
        let (at, name) = (self.tokens.at, self.tokens.since(self.tokens.at));
        let label = self.label("a graph")?;
        let Some(known) = self.graphs.get_mut(&label) else {
            return Err(self.tokens.error(at, format!("there is no graph `{name}` before this one")));
        };
        known.used = true;
        scope.depth = scope.depth.max(known.depth + 1);
        if scope.depth > DEEPEST {
            return Err(self.tokens.error(at, format!("graphs are nested more than {DEEPEST} deep")));
        }
        Ok(known.graph.clone())
    }

    /// Parses zero or more defined values, separated by commas.
    fn operands(&mut self, scope: &Scope<'a>) -> Result<SmallVec<[ValueId; 3]>> {
        let mut ids = SmallVec::new();
        if !matches!(self.tokens.token, Token::Value(_)) {
            return Ok(ids);
        }
        loop {
            let (Value { text, .. }, at) = self.tokens.value("a value")?;
            let id = scope.values.get(text);
            ids.push(*id.ok_or_else(|| self.tokens.error(at, format!("`%{text}` is not defined before this")))?);
            if !self.tokens.eat(',')? {
                return Ok(ids);
            }
        }
    }

    fn define(&self, scope: &mut Scope<'a>, name: &'a str, id: ValueId, at: usize) -> Result<()> {
        match scope.values.insert(name, id) {
            Some(_) => Err(self.tokens.error(at, format!("`%{name}` is defined twice"))),
            None => Ok(()),
        }
    }

    fn label(&mut self, what: &str) -> Result<(Cow<'a, str>, u32)> {
        match &self.tokens.token {
            Token::Label(name, number) => {
                let label = (name.clone(), *number);
                self.tokens.advance()?;
                Ok(label)
            }
            _ => Err(self.tokens.expected(&format!("{what}, as `@name`"))),
        }
    }
}
