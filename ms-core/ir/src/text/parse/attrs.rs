//! Parses attributes.

use super::Parser;
use crate::MapVec;
use crate::data::{Attr, Attrs, DType, Dim, Literal, Op, Shape, Type};
use crate::error::Result;
use crate::text::lex::Token;
use crate::text::literal::bytes_from_hex;

/// The maximum total size, in bytes, of all literals with `..` in a text. The length of the text does not bound their
/// memory.
const LARGEST_FILL: usize = 1 << 30;

impl<'a> Parser<'a> {
    pub(super) fn attrs(&mut self, op: Op) -> Result<Attrs> {
        let names: Vec<&str> = op.0.attrs.map_vec(|it| it.name);
        let mut attrs: Vec<Option<Attr>> = vec![None; names.len()];
        let start = self.tokens.at;
        if self.tokens.eat('{')? {
            loop {
                let slot = match self.tokens.token {
                    Token::Word(name) => names.iter().position(|&it| it == name),
                    _ => None,
                };
                let Some(slot) = slot.filter(|&it| attrs[it].is_none()) else {
                    let left = names.iter().zip(&attrs).filter(|(_, attr)| attr.is_none());
                    let left: Vec<_> = left.map(|(name, _)| format!("`{name}`")).collect();
                    let what = if left.is_empty() { "no more".to_string() } else { left.join(" or ") };
                    return Err(self.tokens.expected(&format!("an attribute of `{}`: {what}", op.name())));
                };
                self.tokens.advance()?;
                self.tokens.symbol('=', "the attribute's value")?;
                attrs[slot] = Some(self.attr()?);
                if !self.tokens.more('}')? {
                    break;
                }
            }
        }
        if let Some(missing) = attrs.iter().position(Option::is_none) {
            let message = format!("expected attribute `{}` of `{}`", names[missing], op.name());
            return Err(self.tokens.error(start, message));
        }
        Ok(Attrs::new(attrs.into_iter().flatten()))
    }

    fn attr(&mut self) -> Result<Attr> {
        let start = self.tokens.at;
        let token = self.tokens.token.clone();
        match token {
            Token::Word(word @ ("true" | "false")) => {
                self.tokens.advance()?;
                Ok(Attr::Bool(word == "true"))
            }
            Token::Text(text) => {
                self.tokens.advance()?;
                Ok(Attr::Str(text.as_ref().into()))
            }
            Token::Number(text) if !text.contains(['.', 'e', 'E', 'i']) => self.tokens.int().map(Attr::Int),
            Token::Number(_) | Token::Word("inf" | "nan") => {
                Ok(Attr::Float(f64::from_bits(self.tokens.element(DType::F64)?)))
            }
            Token::Symbol('[') => self.ints(),
            Token::Symbol('(') => {
                self.tokens.advance()?;
                let dim = self.size(0)?;
                self.tokens.symbol(')', "the end of the size")?;
                Ok(dim.into())
            }
            Token::Word(word) => {
                let dtype = DType::from_name(word).ok_or_else(|| self.tokens.expected("a value"))?;
                self.tokens.advance()?;
                if self.tokens.token != Token::Symbol('[') {
                    return Ok(Attr::DType(dtype));
                }
                let ty = self.dims(dtype, start)?;
                self.literal(&ty).map(Attr::Literal)
            }
            _ => Err(self.tokens.expected("a value")),
        }
    }

    /// Parses the data of a literal, beginning with `(`.
    fn literal(&mut self, ty: &Type) -> Result<Literal> {
        let shape: Shape =
            ty.shape().ok_or_else(|| self.tokens.expected("elements of a type of constant sizes before them"))?;
        let count: usize = shape.iter().product();
        let size = ty.dtype.size();
        self.tokens.symbol('(', "the elements")?;
        let start = self.tokens.at;
        let mut bytes = Vec::new();
        if let Token::Hex(digits) = self.tokens.token {
            bytes = bytes_from_hex(digits).ok_or_else(|| self.tokens.expected("an even number of digits"))?;
            self.tokens.advance()?;
            self.tokens.symbol(')', "the end of the literal")?;
        } else if !self.tokens.eat(')')? {
            loop {
                let bits = self.tokens.element(ty.dtype)?;
                bytes.extend_from_slice(&bits.to_le_bytes()[..size]);
                if !self.tokens.more(')')? {
                    break;
                }
                if self.tokens.token == Token::Rest {
                    if bytes.len() != size {
                        return Err(self.tokens.expected("`..` behind the first element of a literal"));
                    }
                    if count * size > LARGEST_FILL - self.filled {
                        return Err(self.tokens.expected("literals with `..` of at most 1 GiB together"));
                    }
                    self.filled += count * size;
                    bytes = bytes.repeat(count);
                    self.tokens.advance()?;
                    self.tokens.symbol(')', "the end of the literal")?;
                    break;
                }
            }
        }
        let found = bytes.len();
        let refuse =
            |_| format!("expected {count} elements of {} in {} bytes, found {found} bytes", ty.dtype, count * size);
        Literal::from_bytes(&shape, ty.dtype, bytes).map_err(refuse).map_err(|it| self.tokens.error(start, it))
    }

    /// Parses a list of integers, or of sizes if one of them is an expression.
    fn ints(&mut self) -> Result<Attr> {
        let start = self.tokens.at;
        let all: Vec<Attr> = self.list(|it| match it.tokens.token {
            // An integer that cannot be a constant in an expression.
            Token::Number(text) if text.parse().is_ok_and(|it| Dim::signed(it).as_known() != Some(it)) => {
                it.tokens.int().map(Attr::Int)
            }
            _ => it.size(0).map(Attr::from),
        })?;
        let int = |it: &Attr| if let Attr::Int(it) = it { Some(*it) } else { None };
        if let Some(all) = all.iter().map(int).collect() {
            return Ok(Attr::Ints(all));
        }
        let dim = |it: &Attr| match it {
            Attr::Int(it) => Some(Dim::signed(*it)).filter(|dim| dim.as_known() == Some(*it)),
            Attr::Size(it) => Some(*it),
            _ => None,
        };
        let sizes = all.iter().map(dim).collect::<Option<_>>().map(Attr::Sizes);
        sizes.ok_or_else(|| self.tokens.error(start, "an integer beside sizes has 63 bits"))
    }

    /// Parses items in brackets, separated by commas.
    pub(super) fn list<T, L: Default + Extend<T>>(&mut self, item: impl Fn(&mut Self) -> Result<T>) -> Result<L> {
        let mut items = L::default();
        self.tokens.symbol('[', "a list of integers")?;
        if !self.tokens.eat(']')? {
            loop {
                items.extend([item(self)?]);
                if !self.tokens.more(']')? {
                    break;
                }
            }
        }
        Ok(items)
    }
}
