//! Provides a stream of tokens with one token of lookahead.

use super::lex::{Lexer, Token, Value};
use super::literal::{element_from_text, nan_from_hex};
use crate::data::DType;
use crate::error::{Error, Result};

/// The tokens of a text that is being read.
#[derive(Clone)]
pub struct Tokens<'a> {
    lexer: Lexer<'a>,
    /// The next token.
    pub token: Token<'a>,
    /// The byte at which it starts.
    pub at: usize,
    /// The byte at which the token before it ends.
    pub end: usize,
}

impl<'a> Tokens<'a> {
    /// Creates the tokens of `text`.
    ///
    /// # Errors
    /// See [`Tokens::advance`].
    pub fn new(text: &'a str) -> Result<Self> {
        let mut tokens = Self { lexer: Lexer::new(text), token: Token::End, at: 0, end: 0 };
        tokens.advance()?;
        Ok(tokens)
    }

    /// Reads a value and returns it with the byte at which it begins.
    ///
    /// # Errors
    /// Fails when another token is next.
    pub fn value(&mut self, what: &str) -> Result<(Value<'a>, usize)> {
        match &self.token {
            Token::Value(value) if !value.text.is_empty() => {
                let (value, at) = (value.clone(), self.at);
                self.advance()?;
                Ok((value, at))
            }
            _ => Err(self.expected(&format!("{what} such as `%0`"))),
        }
    }

    /// Reads this word.
    ///
    /// # Errors
    /// Fails when another token is next.
    pub fn word(&mut self, word: &str) -> Result<()> {
        if self.token != Token::Word(word) {
            return Err(self.expected(&format!("`{word}`")));
        }
        self.advance()
    }

    /// Reads a symbol that opens or closes `what`.
    ///
    /// # Errors
    /// Fails when another token is next.
    pub fn symbol(&mut self, symbol: char, what: &str) -> Result<()> {
        if self.eat(symbol)? { Ok(()) } else { Err(self.expected(&format!("`{symbol}` ({what})"))) }
    }

    /// Returns whether another item follows in a list that ends in `end`.
    ///
    /// # Errors
    /// Fails when neither a comma nor `end` is next.
    pub fn more(&mut self, end: char) -> Result<bool> {
        if self.eat(',')? {
            return Ok(true);
        }
        if self.eat(end)? { Ok(false) } else { Err(self.expected(&format!("`,` or `{end}`"))) }
    }

    /// Reads a symbol if it is next, and returns whether it was.
    ///
    /// # Errors
    /// See [`Tokens::advance`].
    pub fn eat(&mut self, symbol: char) -> Result<bool> {
        let there = self.token == Token::Symbol(symbol);
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    /// Advances to the next token.
    ///
    /// # Errors
    /// [`Code::Parse`](crate::Code::Parse) for an unterminated string or a number that is too large.
    pub fn advance(&mut self) -> Result<()> {
        self.end = self.lexer.position();
        (self.token, self.at) = self.lexer.next()?;
        Ok(())
    }

    /// Creates an error at the next token, where `what` is expected.
    pub fn expected(&self, what: &str) -> Error {
        let found = match self.token {
            Token::End => "the end of the text".to_string(),
            _ => {
                let text = self.since(self.at);
                let short: String = text.chars().take(40).collect();
                if short.len() < text.len() { format!("`{short}..`") } else { format!("`{short}`") }
            }
        };
        self.error(self.at, format!("expected {what}, found {found}"))
    }

    /// Reads an element of a dtype, and returns its bits.
    ///
    /// # Errors
    /// Fails when another token is next, or the element is out of the range of the dtype.
    pub fn element(&mut self, dtype: DType) -> Result<u64> {
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
        bits.ok_or_else(|| self.error(start, format!("these are not the bits of a nan of {dtype}")))
    }

    /// Reads a name that `of` maps to a value.
    ///
    /// # Errors
    /// Fails when another token is next.
    pub fn named<T>(&mut self, what: &str, of: impl FnOnce(&str) -> Option<T>) -> Result<T> {
        let found = match self.token {
            Token::Word(word) => of(word),
            _ => None,
        };
        let found = found.ok_or_else(|| self.expected(what))?;
        self.advance()?;
        Ok(found)
    }

    /// Reads an integer.
    ///
    /// # Errors
    /// Fails when another token is next, or the integer does not fit in 64 bits.
    pub fn int(&mut self) -> Result<i64> {
        let int = match self.token {
            Token::Number(text) => text.parse().ok(),
            _ => None,
        };
        let int = int.ok_or_else(|| self.expected("an integer of 64 bits"))?;
        self.advance()?;
        Ok(int)
    }

    /// Creates a [`Code::Parse`](crate::Code::Parse) error at byte `at`, with line and column.
    pub fn error(&self, at: usize, message: impl std::fmt::Display) -> Error {
        self.lexer.error(at, message)
    }

    /// Returns the text from byte `at` to the end of the next token.
    pub fn since(&self, at: usize) -> &'a str {
        self.lexer.since(at)
    }
}
