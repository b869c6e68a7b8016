//! Types, and sizes that may be expressions of symbols.

use super::Parser;
use crate::error::Result;
use crate::ir::text::lex::Token;
use crate::tensor::{DType, Dim, Dims, Type};

/// How deep quotients stand in quotients of sizes.
const DEEPEST_SIZE: u32 = 8;

impl<'a> Parser<'a> {
    pub(super) fn types(&mut self) -> Result<Vec<Type>> {
        let mut types = vec![self.ty()?];
        while self.eat(',')? {
            types.push(self.ty()?);
        }
        Ok(types)
    }

    pub(super) fn ty(&mut self) -> Result<Type> {
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
    pub(super) fn dims(&mut self, dtype: DType, start: usize) -> Result<Type> {
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
    pub(super) fn size(&mut self, depth: u32) -> Result<Dim> {
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
}
