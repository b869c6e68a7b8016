//! Tokenizers convert between text and token numbers.

use ms_core::{Code, Error, Result, Tensor};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Splits text into tokens, which are numbers below the vocabulary size, and joins them again.
///
/// ```
/// use ms::data::{ByteTokenizer, CharTokenizer, Tokenizer};
/// let tokenizers: [&dyn Tokenizer; 2] = [&ByteTokenizer, &CharTokenizer::of("ab")];
/// assert_eq!(tokenizers.map(|it| it.vocabulary_size()), [256, 2]);
/// let tokens = tokenizers[1].encode_tensor("abba")?;
/// assert_eq!((tokens.shape(), tokens.to_vec::<i64>()), (&[4][..], vec![0, 1, 1, 0]));
/// # Ok::<(), ms::Error>(())
/// ```
pub trait Tokenizer: Send + Sync {
    /// Returns the size of the vocabulary.
    fn vocabulary_size(&self) -> usize;

    /// Encodes a text as tokens.
    ///
    /// # Errors
    /// [`Code::Argument`] for text that is not in the vocabulary.
    fn encode(&self, text: &str) -> Result<Vec<i64>>;

    /// Decodes tokens to text.
    ///
    /// # Errors
    /// [`Code::OutOfRange`] for a token that does not exist, [`Code::Argument`] for tokens that do not form valid text.
    fn decode(&self, tokens: &[i64]) -> Result<String>;

    /// Encodes a text as a tensor: i64 `[tokens]`.
    ///
    /// # Errors
    /// The errors of [`Tokenizer::encode`].
    fn encode_tensor(&self, text: &str) -> Result<Tensor> {
        let tokens = self.encode(text)?;
        Tensor::try_from_slice([tokens.len()], &tokens)
    }
}

pub(super) fn no_token(tokenizer: &str, token: i64, size: usize) -> Error {
    Error::new(Code::OutOfRange, format!("there is no token {token} among {size}")).with_op(tokenizer)
}

/// A tokenizer whose tokens are the bytes of UTF-8.
///
/// ```
/// use ms::data::{ByteTokenizer, Tokenizer};
/// let tokens = ByteTokenizer.encode("aé")?;
/// assert_eq!(tokens, [97, 195, 169]);
/// assert_eq!(ByteTokenizer.decode(&tokens)?, "aé");
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct ByteTokenizer;

impl Tokenizer for ByteTokenizer {
    fn vocabulary_size(&self) -> usize {
        256
    }

    fn encode(&self, text: &str) -> Result<Vec<i64>> {
        Ok(text.bytes().map(i64::from).collect())
    }

    fn decode(&self, tokens: &[i64]) -> Result<String> {
        let byte = |it: &i64| u8::try_from(*it).map_err(|_| no_token("ByteTokenizer", *it, 256));
        let bytes = tokens.iter().map(byte).collect::<Result<Vec<u8>>>()?;
        String::from_utf8(bytes).map_err(|error| {
            let message = format!("the bytes are not UTF-8: {error}");
            Error::new(Code::Argument, message).with_op("ByteTokenizer")
        })
    }
}

/// A tokenizer whose tokens are the characters of a text, in code-point order. Clones share the vocabulary.
///
/// ```
/// use ms::data::{CharTokenizer, Tokenizer};
/// let tokenizer = CharTokenizer::of("hello");
/// assert_eq!((tokenizer.vocabulary_size(), tokenizer.encode("hole")?), (4, vec![1, 3, 2, 0]));
/// assert_eq!(tokenizer.decode(&[0, 2, 2])?, "ell");
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CharTokenizer {
    /// The characters in code-point order.
    characters: Arc<[char]>,
    unknown: Option<char>,
}

impl CharTokenizer {
    /// Creates a tokenizer with the characters that occur in a text.
    pub fn of(text: &str) -> Self {
        let characters: BTreeSet<char> = text.chars().collect();
        Self { characters: characters.into_iter().collect(), unknown: None }
    }

    /// Sets the character that stands for all unknown characters. It is added to the vocabulary, which shifts the
    /// tokens of later characters.
    pub fn unknown(self, unknown: char) -> Self {
        let characters: BTreeSet<char> = self.characters.iter().copied().chain([unknown]).collect();
        Self { characters: characters.into_iter().collect(), unknown: Some(unknown) }
    }

    /// Returns the characters, by token.
    pub fn characters(&self) -> &[char] {
        &self.characters
    }
}

impl Tokenizer for CharTokenizer {
    fn vocabulary_size(&self) -> usize {
        self.characters.len()
    }

    fn encode(&self, text: &str) -> Result<Vec<i64>> {
        let find = |it: char| self.characters.binary_search(&it).ok();
        let token = |(at, it): (usize, char)| {
            let found = find(it).or_else(|| self.unknown.and_then(find)).ok_or_else(|| {
                let message = format!("the character `{it}` at byte {at} has no token");
                Error::new(Code::Argument, message).with_op("CharTokenizer")
            })?;
            Ok(found as i64)
        };
        text.char_indices().map(token).collect()
    }

    fn decode(&self, tokens: &[i64]) -> Result<String> {
        let character = |it: &i64| {
            let found = usize::try_from(*it).ok().and_then(|it| self.characters.get(it));
            found.copied().ok_or_else(|| no_token("CharTokenizer", *it, self.characters.len()))
        };
        tokens.iter().map(character).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        let text = "Füße, 你好, \u{1f600}\n\t";
        let tokenizers: [&dyn Tokenizer; 2] = [&ByteTokenizer, &CharTokenizer::of(text)];
        for it in tokenizers {
            let tokens = it.encode(text).expect("every part has a token");
            assert!(tokens.iter().all(|token| (0..it.vocabulary_size() as i64).contains(token)));
            assert_eq!(it.decode(&tokens).expect("they are a text"), text);
            assert_eq!(it.encode_tensor(text).expect("tokens").to_vec::<i64>(), tokens);
            assert_eq!(it.encode_tensor("").expect("no tokens").shape(), [0]);
            for token in [-1, it.vocabulary_size() as i64, i64::MIN, i64::MAX] {
                assert_eq!(it.decode(&[0, token]).expect_err("there is none").code(), Code::OutOfRange);
            }
        }
    }

    #[test]
    fn what_has_no_token() {
        let tokenizer = CharTokenizer::of("abc");
        let error = tokenizer.encode("aüx").expect_err("two characters have none");
        assert!(error.code() == Code::Argument && error.to_string().contains("`ü` at byte 1"), "{error}");
        let tokenizer = tokenizer.unknown('?');
        let tokens = tokenizer.encode("aüx").expect("all others are unknown");
        assert_eq!((tokenizer.characters(), tokens.as_slice()), (&['?', 'a', 'b', 'c'][..], &[1, 0, 0][..]));
        assert_eq!(tokenizer.decode(&tokens).expect("they are a text"), "a??");
        assert_eq!(ByteTokenizer.decode(&[0xff]).expect_err("no UTF-8").code(), Code::Argument);
    }
}
