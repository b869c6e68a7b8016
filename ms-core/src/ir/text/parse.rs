//! Text to graphs.

use super::lex::{Lexer, Token};
use super::literal::{bytes_from_hex, element_from_text, nan_from_hex};
use crate::error::{Error, Result};
use crate::ir::{Graph, Node, ValueId};
use crate::tensor::{Attr, Attrs, DType, Dim, Dims, Literal, Op, Shape, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// From the name of an op to its handle.
pub type Resolver<'a> = &'a dyn Fn(&str) -> Option<Op>;

/// Graphs stand in each other at most this deep: dropping them takes a stack frame per level.
const DEEPEST: u32 = 1000;

/// How deep quotients stand in quotients of sizes.
const DEEPEST_SIZE: u32 = 8;

/// The largest literal, in bytes, that `..` fills.
const LARGEST_FILL: usize = 1 << 30;

/// Reads a graph in the text form (see [`text`](crate::ir::text)).
///
/// What it gives is a graph whose values are defined before they are used. Whether its ops
/// take their operands is for the verifier to say.
///
/// # Errors
/// [`Code::Parse`](crate::Code::Parse) with line and column, and with what was expected there.
pub fn parse(text: &str, ops: Resolver<'_>) -> Result<Graph> {
    let mut parser = Parser { lexer: Lexer::new(text), token: Token::End, at: 0, ops, graphs: FxHashMap::default() };
    parser.advance()?;
    parser.text()
}

/// A graph that later ones may use.
struct Known {
    graph: Arc<Graph>,
    /// How many levels of graphs stand in it.
    depth: u32,
    /// Where its label is.
    at: usize,
    used: bool,
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token to be read next, and where it starts.
    token: Token<'a>,
    at: usize,
    ops: Resolver<'a>,
    graphs: FxHashMap<(Cow<'a, str>, u32), Known>,
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
            self.word("graph")?;
            let (at, name) = (self.at, self.lexer.since(self.at));
            let label = self.label("the name of the graph")?;
            if self.graphs.contains_key(&label) {
                return Err(self.lexer.error(at, format!("`{name}` is defined twice")));
            }
            let (graph, depth) = self.graph(&label.0)?;
            if self.token == Token::End {
                return match self.graphs.values().filter(|it| !it.used).min_by_key(|it| it.at) {
                    Some(unused) => {
                        let message = "no node uses this graph, and it is not the last, which the text is of";
                        Err(self.lexer.error(unused.at, message))
                    }
                    None => Ok(graph),
                };
            }
            self.graphs.insert(label, Known { graph: Arc::new(graph), depth, at, used: false });
        }
    }

    fn graph(&mut self, name: &str) -> Result<(Graph, u32)> {
        let mut scope = Scope { graph: Graph::new(name), values: FxHashMap::default(), depth: 0 };
        self.symbol('(', "the inputs")?;
        if !self.eat(')')? {
            loop {
                let (name, at) = self.value_name("an input")?;
                self.symbol(':', "the input's type")?;
                let ty = self.ty()?;
                let id = scope.graph.add_input(ty);
                self.define(&mut scope, name, id, at)?;
                if !self.more(')')? {
                    break;
                }
            }
        }
        if self.token != Token::Arrow {
            return Err(self.expected("`->` and the types of the outputs"));
        }
        self.advance()?;
        let at = self.at;
        self.symbol('(', "the types of the outputs")?;
        let types = if self.eat(')')? {
            Vec::new()
        } else {
            let types = self.types()?;
            self.symbol(')', "the end of the output types")?;
            types
        };
        self.symbol('{', "the nodes")?;
        while self.token != Token::Word("return") {
            self.node(&mut scope)?;
        }
        self.advance()?;
        let outputs = self.operands(&scope)?;
        if !outputs.iter().map(|&it| scope.graph.ty(it)).eq(&types) {
            let returned: Vec<_> = outputs.iter().map(|&it| scope.graph.ty(it).to_string()).collect();
            return Err(self.lexer.error(at, format!("the graph returns ({}), not this", returned.join(", "))));
        }
        scope.graph.set_outputs(outputs);
        self.symbol('}', "the end of the graph")?;
        Ok((scope.graph, scope.depth))
    }

    fn node(&mut self, scope: &mut Scope<'a>) -> Result<()> {
        let mut results: SmallVec<[(&str, usize); 2]> = SmallVec::new();
        if matches!(self.token, Token::Value(_)) {
            loop {
                results.push(self.value_name("a result")?);
                if !self.more('=')? {
                    break;
                }
            }
        }
        let Token::Word(name) = self.token else {
            return Err(self.expected(if results.is_empty() { "a node or `return`" } else { "an op" }));
        };
        let op = (self.ops)(name).ok_or_else(|| self.lexer.error(self.at, format!("there is no op `{name}`")))?;
        self.advance()?;
        let mut node = Node::new(op, Attrs::none(), []);
        while matches!(self.token, Token::Label(..)) {
            node.regions.push(self.region(scope)?);
        }
        node.inputs = self.operands(scope)?;
        node.attrs = self.attrs(op)?;
        self.symbol(':', "the types of the results")?;
        let at = self.at;
        let types = if self.eat('(')? {
            self.symbol(')', "`()` for no results")?;
            Vec::new()
        } else {
            self.types()?
        };
        if types.len() != results.len() {
            let message = format!("expected as many types as results, {}, found {}", results.len(), types.len());
            return Err(self.lexer.error(at, message));
        }
        let id = scope.graph.add_node(node, types);
        for (i, &(name, at)) in results.iter().enumerate() {
            let value = scope.graph.node(id).outputs[i];
            self.define(scope, name, value, at)?;
        }
        Ok(())
    }

    fn region(&mut self, scope: &mut Scope<'a>) -> Result<Arc<Graph>> {
        let (at, name) = (self.at, self.lexer.since(self.at));
        let label = self.label("a graph")?;
        let Some(known) = self.graphs.get_mut(&label) else {
            return Err(self.lexer.error(at, format!("there is no graph `{name}` before this one")));
        };
        known.used = true;
        scope.depth = scope.depth.max(known.depth + 1);
        if scope.depth > DEEPEST {
            return Err(self.lexer.error(at, format!("graphs stand in each other more than {DEEPEST} deep")));
        }
        Ok(known.graph.clone())
    }

    fn attrs(&mut self, op: Op) -> Result<Attrs> {
        let names = op.0.attrs;
        let mut attrs: SmallVec<[Option<Attr>; 4]> = SmallVec::from_elem(None, names.len());
        let start = self.at;
        if self.eat('{')? {
            loop {
                let slot = match self.token {
                    Token::Word(name) => names.iter().position(|&it| it == name),
                    _ => None,
                };
                let Some(slot) = slot.filter(|&it| attrs[it].is_none()) else {
                    let left = names.iter().zip(&attrs).filter(|(_, attr)| attr.is_none());
                    let left: Vec<_> = left.map(|(name, _)| format!("`{name}`")).collect();
                    let what = if left.is_empty() { "no more".to_string() } else { left.join(" or ") };
                    return Err(self.expected(&format!("an attribute of `{}`: {what}", op.name())));
                };
                self.advance()?;
                self.symbol('=', "the attribute's value")?;
                attrs[slot] = Some(self.attr()?);
                if !self.more('}')? {
                    break;
                }
            }
        }
        if let Some(missing) = attrs.iter().position(Option::is_none) {
            let message = format!("expected attribute `{}` of `{}`", names[missing], op.name());
            return Err(self.lexer.error(start, message));
        }
        Ok(Attrs::new(attrs.into_iter().flatten()))
    }

    fn attr(&mut self) -> Result<Attr> {
        let start = self.at;
        let token = self.token.clone();
        match token {
            Token::Word(word @ ("true" | "false")) => {
                self.advance()?;
                Ok(Attr::Bool(word == "true"))
            }
            Token::Text(text) => {
                self.advance()?;
                Ok(Attr::Str(text.as_ref().into()))
            }
            Token::Number(text) if !text.contains(['.', 'e', 'E', 'i']) => self.int().map(Attr::Int),
            Token::Number(_) | Token::Word("inf" | "nan") => Ok(Attr::Float(f64::from_bits(self.element(DType::F64)?))),
            Token::Symbol('[') => Ok(Attr::Ints(self.ints()?)),
            Token::Symbol('(') => {
                self.advance()?;
                let dim = self.size(0)?;
                self.symbol(')', "the end of the size")?;
                Ok(dim.into())
            }
            Token::Word(word) => {
                let dtype = DType::from_name(word).ok_or_else(|| self.expected("a value"))?;
                self.advance()?;
                if self.token != Token::Symbol('[') {
                    return Ok(Attr::DType(dtype));
                }
                let ty = self.dims(dtype, start)?;
                self.literal(&ty).map(Attr::Literal)
            }
            _ => Err(self.expected("a value")),
        }
    }

    /// The data of a literal, from `(` on.
    fn literal(&mut self, ty: &Type) -> Result<Literal> {
        let shape: Shape =
            ty.shape().ok_or_else(|| self.expected("elements of a type of constant sizes before them"))?;
        let count: usize = shape.iter().product();
        let size = ty.dtype.size();
        self.symbol('(', "the elements")?;
        let start = self.at;
        let mut bytes = Vec::new();
        if let Token::Hex(digits) = self.token {
            bytes = bytes_from_hex(digits).ok_or_else(|| self.expected("an even number of digits"))?;
            self.advance()?;
            self.symbol(')', "the end of the literal")?;
        } else if !self.eat(')')? {
            loop {
                let bits = self.element(ty.dtype)?;
                bytes.extend_from_slice(&bits.to_le_bytes()[..size]);
                if !self.more(')')? {
                    break;
                }
                if self.token == Token::Rest {
                    if bytes.len() != size || count * size > LARGEST_FILL {
                        return Err(self.expected("`..` behind the first element of a literal of at most 1 GiB"));
                    }
                    bytes = bytes.repeat(count);
                    self.advance()?;
                    self.symbol(')', "the end of the literal")?;
                    break;
                }
            }
        }
        let found = bytes.len();
        let refuse =
            |_| format!("expected {count} elements of {} in {} bytes, found {found} bytes", ty.dtype, count * size);
        Literal::from_bytes(&shape, ty.dtype, bytes).map_err(refuse).map_err(|it| self.lexer.error(start, it))
    }

    /// One element's bits.
    fn element(&mut self, dtype: DType) -> Result<u64> {
        let start = self.at;
        let (Token::Word(text) | Token::Number(text)) = self.token else {
            return Err(self.expected(&format!("an element of {dtype}")));
        };
        let plain = element_from_text(text, dtype).ok_or_else(|| self.expected(&format!("an element of {dtype}")))?;
        self.advance()?;
        if text != "nan" || !self.eat(':')? {
            return Ok(plain);
        }
        let Token::Hex(digits) = self.token else {
            return Err(self.expected("the bits of the nan, as `0x..`"));
        };
        let bits = nan_from_hex(digits, dtype);
        self.advance()?;
        bits.ok_or_else(|| self.lexer.error(start, format!("these are not the bits of a nan of {dtype}")))
    }

    fn types(&mut self) -> Result<Vec<Type>> {
        let mut types = vec![self.ty()?];
        while self.eat(',')? {
            types.push(self.ty()?);
        }
        Ok(types)
    }

    fn ty(&mut self) -> Result<Type> {
        let start = self.at;
        let dtype = match self.token {
            Token::Word(word) => DType::from_name(word),
            _ => None,
        };
        let dtype = dtype.ok_or_else(|| self.expected("a type such as `f32[2, 3]`"))?;
        self.advance()?;
        self.dims(dtype, start)
    }

    /// A type from its `[` on; `start` is where it begins.
    fn dims(&mut self, dtype: DType, start: usize) -> Result<Type> {
        let dims: Dims = self.list(Self::dim)?;
        // Strides are products of sizes, so these fit even where another size is zero.
        let sizes = dims.iter().map(|it| it.as_const().map_or(1, |size| size.max(1) as isize));
        let mut reach = Some(dtype.size() as isize);
        sizes.for_each(|size| reach = reach.and_then(|it| it.checked_mul(size)));
        match reach {
            Some(_) => Ok(Type::new(dtype, dims)),
            None => Err(self.lexer.error(start, "a value of this type does not fit the address space")),
        }
    }

    fn dim(&mut self) -> Result<Dim> {
        if self.eat('?')? {
            return Ok(Dim::DYNAMIC);
        }
        let start = self.at;
        let size = self.size(0)?;
        match size.raw() {
            negative if negative < 0 && !size.is_symbolic() => {
                Err(self.lexer.error(start, format!("a size is not negative, but {size} is")))
            }
            _ => Ok(size),
        }
    }

    /// A sum of terms: an integer, or an expression of symbols.
    fn size(&mut self, depth: u32) -> Result<Dim> {
        let mut sum = if self.eat('-')? { Dim::new(0) - self.term(depth)? } else { self.term(depth)? };
        loop {
            if self.eat('+')? {
                sum = sum + self.term(depth)?;
            } else if self.eat('-')? {
                sum = sum - self.term(depth)?;
            } else {
                return Ok(sum);
            }
        }
    }

    /// Factors with `*` between them.
    fn term(&mut self, depth: u32) -> Result<Dim> {
        let mut product = self.factor(depth)?;
        while self.eat('*')? {
            product = product * self.factor(depth)?;
        }
        Ok(product)
    }

    /// An integer, a symbol, or `(a)/(b)`; `depth` quotients are open around it.
    fn factor(&mut self, depth: u32) -> Result<Dim> {
        match self.token {
            Token::Word(name) => {
                self.advance()?;
                Ok(Dim::symbol(name))
            }
            Token::Symbol('(') if depth < DEEPEST_SIZE => {
                self.advance()?;
                let above = self.size(depth + 1)?;
                for wanted in [')', '/', '('] {
                    self.symbol(wanted, "a quotient `(a)/(b)`")?;
                }
                let start = self.at;
                let below = self.size(depth + 1)?;
                self.symbol(')', "the end of the quotient")?;
                if below == 0 {
                    return Err(self.lexer.error(start, "nothing is divided by zero"));
                }
                Ok(above / below)
            }
            _ => {
                let start = self.at;
                let dim = Dim::from_raw(self.int()?);
                if dim.is_symbolic() || dim == Dim::DYNAMIC {
                    return Err(self.lexer.error(start, "an integer of 63 bits is needed here"));
                }
                Ok(dim)
            }
        }
    }

    fn ints(&mut self) -> Result<SmallVec<[i64; 4]>> {
        let dims: Dims = self.list(|it| it.size(0))?;
        Ok(dims.iter().map(|it| it.raw()).collect())
    }

    /// Items in brackets, separated by commas.
    fn list<T, L: Default + Extend<T>>(&mut self, item: impl Fn(&mut Self) -> Result<T>) -> Result<L> {
        let mut items = L::default();
        self.symbol('[', "a list of integers")?;
        if !self.eat(']')? {
            loop {
                items.extend([item(self)?]);
                if !self.more(']')? {
                    break;
                }
            }
        }
        Ok(items)
    }

    fn int(&mut self) -> Result<i64> {
        let int = match self.token {
            Token::Number(text) => text.parse().ok(),
            _ => None,
        };
        let int = int.ok_or_else(|| self.expected("an integer of 64 bits"))?;
        self.advance()?;
        Ok(int)
    }

    /// Values that are defined, separated by commas; none unless a value stands here.
    fn operands(&mut self, scope: &Scope<'a>) -> Result<SmallVec<[ValueId; 3]>> {
        let mut ids = SmallVec::new();
        if !matches!(self.token, Token::Value(_)) {
            return Ok(ids);
        }
        loop {
            let (name, at) = self.value_name("a value")?;
            let id = scope.values.get(name);
            ids.push(*id.ok_or_else(|| self.lexer.error(at, format!("`%{name}` is not defined before this")))?);
            if !self.eat(',')? {
                return Ok(ids);
            }
        }
    }

    fn define(&self, scope: &mut Scope<'a>, name: &'a str, id: ValueId, at: usize) -> Result<()> {
        match scope.values.insert(name, id) {
            Some(_) => Err(self.lexer.error(at, format!("`%{name}` is defined twice"))),
            None => Ok(()),
        }
    }

    fn value_name(&mut self, what: &str) -> Result<(&'a str, usize)> {
        match self.token {
            Token::Value(name) if !name.is_empty() => {
                let at = self.at;
                self.advance()?;
                Ok((name, at))
            }
            _ => Err(self.expected(&format!("{what} such as `%0`"))),
        }
    }

    fn label(&mut self, what: &str) -> Result<(Cow<'a, str>, u32)> {
        match &self.token {
            Token::Label(name, number) => {
                let label = (name.clone(), *number);
                self.advance()?;
                Ok(label)
            }
            _ => Err(self.expected(&format!("{what}, as `@name`"))),
        }
    }

    fn word(&mut self, word: &str) -> Result<()> {
        if self.token != Token::Word(word) {
            return Err(self.expected(&format!("`{word}`")));
        }
        self.advance()
    }

    /// Reads a symbol that opens or closes `what`.
    fn symbol(&mut self, symbol: char, what: &str) -> Result<()> {
        if self.eat(symbol)? { Ok(()) } else { Err(self.expected(&format!("`{symbol}` ({what})"))) }
    }

    /// After an item of a list that ends in `end`: whether another one follows.
    fn more(&mut self, end: char) -> Result<bool> {
        if self.eat(',')? {
            return Ok(true);
        }
        if self.eat(end)? { Ok(false) } else { Err(self.expected(&format!("`,` or `{end}`"))) }
    }

    fn eat(&mut self, symbol: char) -> Result<bool> {
        let there = self.token == Token::Symbol(symbol);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    fn advance(&mut self) -> Result<()> {
        (self.token, self.at) = self.lexer.next()?;
        Ok(())
    }

    /// An error at the next token.
    fn expected(&self, what: &str) -> Error {
        let found = match self.token {
            Token::End => "the end of the text".to_string(),
            _ => {
                let text = self.lexer.since(self.at);
                let short: String = text.chars().take(40).collect();
                if short.len() < text.len() { format!("`{short}..`") } else { format!("`{short}`") }
            }
        };
        self.lexer.error(self.at, format!("expected {what}, found {found}"))
    }
}
