//! Splits the text form into tokens.

use crate::error::{Code, Error, Result};
use std::borrow::Cow;

/// A token; words keep their text.
#[derive(Clone, PartialEq, Debug)]
pub enum Token<'a> {
    /// Letters, digits, `_` and `.`, from a letter or `_` on.
    Word(&'a str),
    /// `%name`.
    Value(Value<'a>),
    /// `@name`, and the number after `#` (zero without one).
    Label(Cow<'a, str>, u32),
    /// Digits with an optional sign, fraction and exponent; also `-inf`.
    Number(&'a str),
    /// The digits after `0x`.
    Hex(&'a str),
    /// A string with its escapes resolved.
    Text(Cow<'a, str>),
    /// `->`
    Arrow,
    /// `..`
    Rest,
    /// Any other single character.
    Symbol(char),
    /// The end of the text.
    End,
}

/// A value as it is written.
#[derive(Clone, PartialEq, Debug)]
pub struct Value<'a> {
    /// The text after `%`, unique in the graph.
    pub text: &'a str,
    /// The name; `None` if it is written as a number.
    pub name: Option<Cow<'a, str>>,
}

/// Splits a text into tokens.
#[derive(Clone)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the byte after the last token.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Returns the next token and the byte at which it starts.
    ///
    /// # Errors
    /// [`Code::Parse`] for an unterminated string or a number that is too large.
    pub(super) fn next(&mut self) -> Result<(Token<'a>, usize)> {
        self.skip_blank();
        let start = self.at;
        let rest = &self.text[start..];
        let Some(first) = rest.chars().next() else {
            return Ok((Token::End, start));
        };
        let digit_follows = rest[first.len_utf8()..].starts_with(|it: char| it.is_ascii_digit());
        let token = match first {
            'a'..='z' | 'A'..='Z' | '_' => Token::Word(self.take(is_name)),
            '%' => Token::Value(self.value()?),
            '@' => self.label()?,
            '"' => Token::Text(self.string()?),
            '0' if rest.starts_with("0x") => Token::Hex(&self.take_after(2, |it| it.is_ascii_hexdigit())[2..]),
            '0'..='9' => Token::Number(self.number()),
            '-' if rest.starts_with("-inf") => Token::Number(self.take_after(4, |_| false)),
            '-' if digit_follows => Token::Number(self.number()),
            '-' if rest.starts_with("->") => {
                self.at += 2;
                Token::Arrow
            }
            '.' if rest.starts_with("..") => {
                self.at += 2;
                Token::Rest
            }
            other => {
                self.at += other.len_utf8();
                Token::Symbol(other)
            }
        };
        Ok((token, start))
    }

    /// Creates an error at byte `at`.
    pub(super) fn error(&self, at: usize, message: impl std::fmt::Display) -> Error {
        let before = &self.text[..at];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&it| it != '\n').count() + 1;
        Error::new(Code::Parse, format!("line {line}, column {column}: {message}"))
    }

    /// Returns the text from byte `at` to the end of the last token.
    pub(super) fn since(&self, at: usize) -> &'a str {
        &self.text[at..self.at]
    }

    fn skip_blank(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn take(&mut self, part: impl Fn(char) -> bool) -> &'a str {
        self.take_after(0, part)
    }

    /// Returns the next `skip` bytes and all characters after them that are `part` of the token.
    fn take_after(&mut self, skip: usize, part: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest[skip..].find(|it| !part(it)).map_or(rest.len(), |at| at + skip);
        self.at += end;
        &rest[..end]
    }

    fn number(&mut self) -> &'a str {
        let bytes = &self.text.as_bytes()[self.at..];
        let digits = |from: usize| bytes[from..].iter().take_while(|it| it.is_ascii_digit()).count();
        let byte = |at: usize| bytes.get(at).copied();
        let mut end = usize::from(bytes[0] == b'-');
        end += digits(end);
        if byte(end) == Some(b'.') && byte(end + 1).is_some_and(|it| it.is_ascii_digit()) {
            end += 1 + digits(end + 1);
        }
        if matches!(byte(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(byte(end + 1), Some(b'-' | b'+')));
            let exponent = digits((end + 1 + sign).min(bytes.len()));
            if exponent > 0 {
                end += 1 + sign + exponent;
            }
        }
        self.take_after(end, |_| false)
    }

    fn label(&mut self) -> Result<Token<'a>> {
        self.at += 1;
        let name =
            if self.text[self.at..].starts_with('"') { self.string()? } else { Cow::Borrowed(self.take(is_name)) };
        Ok(Token::Label(name, self.repetition()?))
    }

    fn value(&mut self) -> Result<Value<'a>> {
        self.at += 1;
        let start = self.at;
        let rest = &self.text[start..];
        let name = if rest.starts_with('"') {
            Some(self.string()?)
        } else {
            let word = self.take_after(value_len(rest), |_| false);
            (!is_number(word)).then_some(Cow::Borrowed(word))
        };
        self.repetition()?;
        Ok(Value { text: &self.text[start..self.at], name })
    }

    /// Reads the number after `#`, which distinguishes equal names; zero without one.
    fn repetition(&mut self) -> Result<u32> {
        if !self.text[self.at..].starts_with('#') {
            return Ok(0);
        }
        let start = self.at;
        let digits = &self.take_after(1, |it| it.is_ascii_digit())[1..];
        digits.parse().map_err(|_| self.error(start, "expected a small number behind `#`"))
    }

    fn string(&mut self) -> Result<Cow<'a, str>> {
        let start = self.at;
        self.at += 1;
        let plain = self.take(|it| !matches!(it, '"' | '\\'));
        let mut owned = String::new();
        loop {
            match self.text[self.at..].chars().next() {
                Some('"') => {
                    self.at += 1;
                    return Ok(if owned.is_empty() { Cow::Borrowed(plain) } else { Cow::Owned(owned) });
                }
                Some('\\') => {
                    if owned.is_empty() {
                        owned.push_str(plain);
                    }
                    owned.push(self.escape()?);
                    owned.push_str(self.take(|it| !matches!(it, '"' | '\\')));
                }
                _ => return Err(self.error(start, "the string is not closed")),
            }
        }
    }

    /// Reads the character after a backslash.
    fn escape(&mut self) -> Result<char> {
        let start = self.at;
        let known = match self.text[start + 1..].chars().next() {
            Some('n') => Some('\n'),
            Some(it @ ('"' | '\\')) => Some(it),
            Some('u') => None,
            _ => return Err(self.error(start, r#"expected `\"`, `\\`, `\n` or `\u{..}`"#)),
        };
        if let Some(known) = known {
            self.at += 2;
            return Ok(known);
        }
        let hex = self.take_after(2, |it| it == '{' || it.is_ascii_hexdigit());
        let code = hex[2..].strip_prefix('{').and_then(|it| u32::from_str_radix(it, 16).ok()).and_then(char::from_u32);
        match code {
            Some(code) if self.text[self.at..].starts_with('}') => {
                self.at += 1;
                Ok(code)
            }
            _ => Err(self.error(start, r"expected `\u{..}` with the number of a character")),
        }
    }
}

/// Returns whether a character is valid in a name.
pub(super) fn is_name(it: char) -> bool {
    it.is_ascii_alphanumeric() || matches!(it, '_' | '.')
}

/// Returns the number of bytes of the value at the beginning of a text: names, and numbers in brackets.
pub(super) fn value_len(text: &str) -> usize {
    let mut len = 0;
    loop {
        let rest = &text[len..];
        let name = rest.find(|it| !is_name(it)).unwrap_or(rest.len());
        let index = rest[name..].strip_prefix('[').map_or(0, |it| {
            let digits = it.bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 && it[digits..].starts_with(']') { digits + 2 } else { 0 }
        });
        len += name + index;
        if index == 0 {
            return len;
        }
    }
}

/// Writes a quoted string.
pub(super) fn write_string(text: &str, f: &mut impl std::fmt::Write) -> std::fmt::Result {
    f.write_char('"')?;
    for it in text.chars() {
        match it {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            it if it.is_control() => write!(f, "\\u{{{:x}}}", it as u32)?,
            it => f.write_char(it)?,
        }
    }
    f.write_char('"')
}

/// Returns whether a text stands for a value without a name.
pub(super) fn is_number(text: &str) -> bool {
    text.bytes().all(|it| it.is_ascii_digit())
}
