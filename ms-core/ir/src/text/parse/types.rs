//! Parses types, including sizes that are expressions of symbols.

use super::Parser;
use crate::data::{DType, Dim, Dims, Type};
use crate::error::Result;
use crate::text::lex::Token;

/// Maximum nesting of quotients and functions in sizes.
const DEEPEST_SIZE: u32 = 8;

impl<'a> Parser<'a> {
    pub(super) fn types(&mut self) -> Result<Vec<Type>> {
        let mut types = vec![self.ty()?];
        while self.tokens.eat(',')? {
            types.push(self.ty()?);
        }
        Ok(types)
    }

    pub(super) fn ty(&mut self) -> Result<Type> {
        let start = self.tokens.at;
        let dtype = match self.tokens.token {
            Token::Word(word) => DType::from_name(word),
            _ => None,
        };
        let dtype = dtype.ok_or_else(|| self.tokens.expected("a type such as `f32[2, 3]`"))?;
        self.tokens.advance()?;
        self.dims(dtype, start)
    }

    /// Parses the dimensions of a type, beginning with `[`. `start` is the position of the type.
    pub(super) fn dims(&mut self, dtype: DType, start: usize) -> Result<Type> {
        let dims: Dims = self.list(Self::dim)?;
        // Strides are products of sizes, so they must not overflow even if another size is zero.
        let sizes = dims.iter().map(|it| it.as_const().map_or(1, |size| size.max(1) as isize));
        let mut reach = Some(dtype.size() as isize);
        sizes.for_each(|size| reach = reach.and_then(|it| it.checked_mul(size)));
        match reach {
            Some(_) => Ok(Type::new(dtype, dims)),
            None => Err(self.tokens.error(start, "a value of this type does not fit the address space")),
        }
    }

    fn dim(&mut self) -> Result<Dim> {
        if self.tokens.eat('?')? {
            return Ok(Dim::DYNAMIC);
        }
        let start = self.tokens.at;
        let size = self.size(0)?;
        match size.is_negative() {
            true => Err(self.tokens.error(start, format!("a size is not negative, but {size} is"))),
            false => Ok(size),
        }
    }

    /// Parses a sum of terms: an integer, or an expression of symbols.
    pub(super) fn size(&mut self, depth: u32) -> Result<Dim> {
        let mut sum = if self.tokens.eat('-')? { Dim::new(0) - self.term(depth)? } else { self.term(depth)? };
        loop {
            if self.tokens.eat('+')? {
                sum = sum + self.term(depth)?;
            } else if self.tokens.eat('-')? {
                sum = sum - self.term(depth)?;
            } else {
                return Ok(sum);
            }
        }
    }

    /// Parses factors separated by `*`.
    fn term(&mut self, depth: u32) -> Result<Dim> {
        let mut product = self.factor(depth)?;
        while self.tokens.eat('*')? {
            product = product * self.factor(depth)?;
        }
        Ok(product)
    }

    /// Parses an integer, a symbol, `(a)`, `(a)/(b)`, `min(a, b)` or `broadcast(a, b)`, nested in `depth` others.
    fn factor(&mut self, depth: u32) -> Result<Dim> {
        match self.tokens.token {
            Token::Word(name) => {
                self.tokens.advance()?;
                let of: fn(Dim, Dim) -> Dim = match (name, &self.tokens.token) {
                    ("min", Token::Symbol('(')) => Dim::smaller,
                    ("broadcast", Token::Symbol('(')) => Dim::broadcast,
                    _ => return Ok(Dim::symbol(name)),
                };
                if depth >= DEEPEST_SIZE {
                    return Err(self.tokens.expected("a size that is less nested"));
                }
                self.tokens.advance()?;
                let a = self.size(depth + 1)?;
                self.tokens.symbol(',', "the second of two sizes")?;
                let b = self.size(depth + 1)?;
                self.tokens.symbol(')', "the end of two sizes")?;
                Ok(of(a, b))
            }
            Token::Symbol('(') if depth < DEEPEST_SIZE => {
                self.tokens.advance()?;
                let above = self.size(depth + 1)?;
                self.tokens.symbol(')', "the end of a size in parentheses")?;
                if !self.tokens.eat('/')? {
                    return Ok(above.as_factor());
                }
                self.tokens.symbol('(', "a quotient `(a)/(b)`")?;
                let start = self.tokens.at;
                let below = self.size(depth + 1)?;
                self.tokens.symbol(')', "the end of the quotient")?;
                if below == 0 {
                    return Err(self.tokens.error(start, "nothing is divided by zero"));
                }
                Ok(above / below)
            }
            _ => {
                let start = self.tokens.at;
                let number = self.tokens.int()?;
                let refuse = || self.tokens.error(start, "an integer of 63 bits is needed here");
                Some(Dim::signed(number)).filter(|it| it.as_known() == Some(number)).ok_or_else(refuse)
            }
        }
    }
}
