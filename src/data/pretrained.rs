//! Pretrained tokenizers, run by the `tokenizers` crate.

use super::file::decoded;
use super::tokenizer::{Tokenizer, no_token};
use crate::io::bytes::is_flat;
use ms_core::{Code, Error, Result};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use tinyjson::JsonValue;

/// The name of the op in errors.
const NAME: &str = "PretrainedTokenizer";

/// A tokenizer that is read from a file `tokenizer.json`, which published models provide. The file defines the
/// normaliser, the pre-tokenizer, the model (BPE, WordPiece, Unigram) and the special tokens. Clones share the
/// tokenizer. Available with the feature `tokenizers`.
///
/// ```no_run
/// use ms::data::{PretrainedTokenizer, Tokenizer};
/// let tokenizer = PretrainedTokenizer::open("gpt2/tokenizer.json")?;
/// let tokens = tokenizer.encode_tensor("Hello, world")?;          // i64 `[tokens]`
/// let end = tokenizer.token("<|endoftext|>");
/// # let _ = (tokens, end);
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PretrainedTokenizer {
    inner: Arc<tokenizers::Tokenizer>,
    /// The vocabulary size: the largest token plus one.
    size: usize,
    special: bool,
}

impl PretrainedTokenizer {
    /// Reads a tokenizer from a file.
    ///
    /// # Errors
    /// [`Code::Io`] if the file cannot be read; [`Code::Parse`] for a file that is not a tokenizer.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        decoded(path.as_ref(), Self::of).map_err(|it| it.with_op(NAME))
    }

    pub(crate) fn of(bytes: &[u8]) -> Result<Self, String> {
        check_bounds(bytes)?;
        // The crate panics on files with inconsistent parts.
        let read = catch_unwind(|| tokenizers::Tokenizer::from_bytes(bytes));
        let inner = read.map_err(|_| "it is no tokenizer: its parts do not fit")?;
        let inner = inner.map_err(|error| format!("it is no tokenizer: {error}"))?;
        let size = inner.get_vocab(true).into_values().max().map_or(0, |last| last as usize + 1);
        Ok(Self { inner: Arc::new(inner), size, special: true })
    }

    /// Sets whether [`encode`](Tokenizer::encode) adds the special tokens that the file defines, such as a begin token,
    /// and [`decode`](Tokenizer::decode) omits special tokens. The default is true.
    pub fn special_tokens(mut self, special: bool) -> Self {
        self.special = special;
        self
    }

    /// Returns the token with this text, such as `"[MASK]"`.
    pub fn token(&self, text: &str) -> Option<i64> {
        self.inner.token_to_id(text).map(i64::from)
    }
}

impl Tokenizer for PretrainedTokenizer {
    fn vocabulary_size(&self) -> usize {
        self.size
    }

    /// Encodes a text. Text outside of the vocabulary becomes the unknown token if the file defines one. Otherwise it
    /// depends on the model whether it is an error or is dropped. The text is truncated or padded if the file says so.
    fn encode(&self, text: &str) -> Result<Vec<i64>> {
        let encoded = catch_unwind(AssertUnwindSafe(|| self.inner.encode_fast(text, self.special)));
        match encoded {
            Ok(Ok(encoding)) => Ok(encoding.get_ids().iter().map(|&it| it.into()).collect()),
            Ok(Err(error)) => Err(Error::new(Code::Argument, format!("the text has no tokens: {error}")).with_op(NAME)),
            Err(_) => Err(Error::new(Code::Argument, "the parts of the tokenizer do not fit").with_op(NAME)),
        }
    }

    fn decode(&self, tokens: &[i64]) -> Result<String> {
        let known = |it: &i64| {
            let token = u32::try_from(*it).ok().filter(|&it| self.inner.id_to_token(it).is_some());
            token.ok_or_else(|| no_token(NAME, *it, self.size))
        };
        let tokens = tokens.iter().map(known).collect::<Result<Vec<u32>>>()?;
        match catch_unwind(AssertUnwindSafe(|| self.inner.decode(&tokens, self.special))) {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(error)) => Err(Error::new(Code::Argument, format!("the tokens are no text: {error}")).with_op(NAME)),
            Err(_) => Err(Error::new(Code::Argument, "the parts of the tokenizer do not fit").with_op(NAME)),
        }
    }
}

/// The maximum nesting depth of a file: each level takes stack frames.
const DEEPEST: usize = 24;

/// The maximum number of steps of one kind, such as pieces of a template or chained normalisers.
const MAX_STEPS: usize = 64;

/// The maximum length that padding may give a short text.
const LONGEST: f64 = (1 << 20) as f64;

/// The maximum factor by which all replacements of a file together may lengthen a text.
const MAX_GROWTH: f64 = (1 << 10) as f64;

/// The names of objects with an entry for each token.
const VOCABULARIES: [&str; 3] = ["vocab", "merges", "added_tokens"];

/// Rejects files that would take memory or stack out of proportion to their size. The crate allocates without limit,
/// which would abort the process.
fn check_bounds(bytes: &[u8]) -> Result<(), String> {
    let wrong = |why: &str| format!("it is no tokenizer: {why}");
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("it is no text"))?;
    if !is_flat(text, DEEPEST) {
        return Err(wrong(&format!("it nests more than {DEEPEST} deep")));
    }
    let whole: JsonValue = text.parse().map_err(|error| wrong(&format!("{error}")))?;
    let mut bounds = Bounds { growth: 1.0 };
    bounds.visit(&whole).map_err(|why| wrong(&why))
}

struct Bounds {
    growth: f64,
}

impl Bounds {
    fn visit(&mut self, value: &JsonValue) -> Result<(), String> {
        match value {
            JsonValue::Array(all) if all.len() > MAX_STEPS => Err(format!("it has a list of {} steps", all.len())),
            JsonValue::Array(all) => all.iter().try_for_each(|it| self.visit(it)),
            JsonValue::Object(all) => {
                self.object(all)?;
                let steps = all.iter().filter(|it| !VOCABULARIES.contains(&it.0.as_str()));
                steps.map(|it| it.1).try_for_each(|it| self.visit(it))
            }
            _ => Ok(()),
        }
    }

    fn object(&mut self, all: &HashMap<String, JsonValue>) -> Result<(), String> {
        let number = |of: &HashMap<String, JsonValue>, key: &str| of.get(key)?.get::<f64>().copied();
        let object = |key: &str| all.get(key)?.get::<HashMap<String, JsonValue>>();
        let text = |of: &HashMap<String, JsonValue>, key: &str| of.get(key)?.get::<String>().map(String::len);
        if let Some(padding) = object("padding") {
            let fixed = padding.get("strategy").and_then(|it| it.get::<HashMap<String, JsonValue>>());
            let lengths = [fixed.and_then(|it| number(it, "Fixed")), number(padding, "pad_to_multiple_of")];
            if let Some(length) = lengths.into_iter().flatten().find(|&it| it > LONGEST) {
                return Err(format!("it pads to {length} tokens"));
            }
        }
        if let Some(truncation) = object("truncation") {
            let (length, stride) = (number(truncation, "max_length"), number(truncation, "stride"));
            // Consecutive pieces of a text overlap by the stride.
            if let (Some(length), Some(stride)) = (length, stride)
                && stride > 0.0
                && (length - stride) * (MAX_STEPS as f64) < length
            {
                return Err(format!("it cuts texts into pieces of {length} tokens, {stride} of which overlap"));
            }
        }
        let pattern = all.get("pattern").and_then(|it| it.get::<HashMap<String, JsonValue>>());
        let pattern = pattern.and_then(|it| text(it, "String")).unwrap_or(1).max(1);
        let content = text(all, "content").filter(|_| all.contains_key("pattern"));
        let added = content.map(|it| it as f64 / pattern as f64).filter(|&it| it > 1.0);
        self.growth *= added.unwrap_or(1.0);
        match self.growth <= MAX_GROWTH {
            true => Ok(()),
            false => Err(format!("its replacements make a text more than {MAX_GROWTH} times as long")),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A BPE tokenizer with lower-casing and one token before each text.
    pub(crate) fn pairs() -> String {
        let vocabulary = ["<s>", "h", "e", "l", "o", "Ġ", "w", "r", "d", "he", "ll", "hell", "hello", "Ġw", "Ã", "¶"];
        let vocabulary: Vec<String> = vocabulary.iter().enumerate().map(|(at, it)| format!("{it:?}: {at}")).collect();
        format!(
            r#"{{
                "version": "1.0", "truncation": null, "padding": null,
                "added_tokens": [
                    {{"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
                      "normalized": false, "special": true}},
                    {{"id": 20, "content": "<far>", "single_word": false, "lstrip": false, "rstrip": false,
                      "normalized": false, "special": false}}
                ],
                "normalizer": {{"type": "Lowercase"}},
                "pre_tokenizer": {{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": true}},
                "post_processor": {{
                    "type": "TemplateProcessing",
                    "single": [{{"SpecialToken": {{"id": "<s>", "type_id": 0}}}}, {{"Sequence": {{"id": "A", "type_id": 0}}}}],
                    "pair": [{{"Sequence": {{"id": "A", "type_id": 0}}}}, {{"Sequence": {{"id": "B", "type_id": 1}}}}],
                    "special_tokens": {{"<s>": {{"id": "<s>", "ids": [0], "tokens": ["<s>"]}}}}
                }},
                "decoder": {{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}},
                "model": {{
                    "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                    "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                    "vocab": {{{}}}, "merges": ["h e", "l l", "he ll", "hell o", "Ġ w"]
                }}
            }}"#,
            vocabulary.join(", ")
        )
    }

    /// A word-level tokenizer, with or without an unknown token.
    fn words(unknown: &str) -> String {
        format!(
            r#"{{
                "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
                "pre_tokenizer": {{"type": "Whitespace"}}, "post_processor": null, "decoder": null,
                "model": {{"type": "WordLevel", "vocab": {{"?": 0, "one": 1, "two": 2}}, "unk_token": "{unknown}"}}
            }}"#
        )
    }

    fn of(text: &str) -> PretrainedTokenizer {
        PretrainedTokenizer::of(text.as_bytes()).unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn texts_come_back() {
        let tokenizer = of(&pairs());
        assert_eq!(
            (tokenizer.vocabulary_size(), tokenizer.token("hello"), tokenizer.token("no")),
            (21, Some(12), None)
        );
        let cases: [(&str, &[i64], &str); 5] = [
            ("Hello world", &[0, 12, 13, 4, 7, 3, 8], "hello world"),
            ("hell", &[0, 11], "hell"),
            ("ö", &[0, 14, 15], "ö"),
            ("<far>he", &[0, 20, 9], "<far>he"),
            ("", &[0], ""),
        ];
        for (text, tokens, back) in cases {
            assert_eq!(tokenizer.encode(text).expect("tokens"), tokens, "{text}");
            assert_eq!(tokenizer.decode(tokens).expect("a text"), back);
            let plain = tokenizer.clone().special_tokens(false);
            assert_eq!(plain.encode(text).expect("tokens"), tokens[1..], "{text}");
            assert_eq!(plain.decode(tokens).expect("a text"), format!("<s>{back}"));
        }
        assert_eq!(tokenizer.encode_tensor("hello").expect("tokens").to_vec::<i64>(), [0, 12]);
    }

    /// Returns a file in which the value of a key is replaced.
    fn changed(key: &str, value: &str) -> String {
        let whole = pairs();
        let begin = format!("\"{key}\": ");
        let at = whole.find(&begin).expect("the key is there") + begin.len();
        let rest = &whole[at..];
        let end = if rest.starts_with("null") { 4 } else { rest.find('}').expect("it is an object") + 1 };
        format!("{}{value}{}", &whole[..at], &rest[end..])
    }

    #[test]
    fn sizes_are_bounded() {
        let padding = |strategy: &str, multiple: u64| {
            let rest = r#""direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "<s>""#;
            changed("padding", &format!(r#"{{"strategy": {strategy}, "pad_to_multiple_of": {multiple}, {rest}}}"#))
        };
        let replace = r#"{"type": "Replace", "pattern": {"String": "l"}, "content": "llll"}"#;
        let chain = |count: usize| {
            changed(
                "normalizer",
                &format!(r#"{{"type": "Sequence", "normalizers": [{}]}}"#, vec![replace; count].join(",")),
            )
        };
        let nested = |depth: usize| {
            let open = r#"{"type": "Sequence", "normalizers": ["#.repeat(depth);
            changed("normalizer", &format!("{open}{}{}", r#"{"type": "Lowercase"}"#, "]}".repeat(depth)))
        };
        assert_eq!(of(&padding(r#"{"Fixed": 4}"#, 1)).encode("hello").expect("tokens"), [0, 12, 0, 0]);
        assert!(of(&chain(3)).encode("hello").is_ok());
        assert!(of(&nested(4)).encode("hello").is_ok());
        let refused = [
            (padding(r#"{"Fixed": 1099511627776}"#, 1), "pads to"),
            (padding(r#""BatchLongest""#, 1 << 40), "pads to"),
            (chain(40), "times as long"),
            (chain(1_000), "steps"),
            (nested(60), "nests more than"),
            (
                changed(
                    "truncation",
                    r#"{"max_length": 9000, "stride": 8999, "strategy": "LongestFirst", "direction": "Right"}"#,
                ),
                "overlap",
            ),
        ];
        for (file, word) in refused {
            let why = PretrainedTokenizer::of(file.as_bytes()).map(|_| ()).expect_err(word);
            assert!(why.contains(word), "`{word}` is not in {why}");
        }
    }

    /// A failed assertion inside the crate becomes an error.
    #[test]
    fn decoders_that_do_not_fit() {
        for (start, stop) in [(0u64, 9u64), (9, 0), (1 << 40, 0), (0, 1 << 40)] {
            let strip = format!(r#"{{"type": "Strip", "content": "h", "start": {start}, "stop": {stop}}}"#);
            let Ok(tokenizer) = PretrainedTokenizer::of(changed("decoder", &strip).as_bytes()) else { continue };
            let _ = tokenizer.decode(&[1, 2, 12]);
        }
    }

    #[test]
    fn what_has_no_token() {
        assert_eq!(of(&words("?")).encode("one three two").expect("tokens"), [1, 0, 2]);
        assert_eq!(of(&words("none")).encode("one three").expect_err("a word").code(), Code::Argument);
        let tokenizer = of(&pairs());
        // No token lies between the vocabulary and the added token.
        for token in [-1, 16, 19, 21, i64::MIN, i64::MAX] {
            let error = tokenizer.decode(&[1, token]).expect_err("there is none");
            assert_eq!(error.code(), Code::OutOfRange, "{error}");
        }
    }

    /// Truncated or changed files are rejected, or are valid tokenizers.
    #[test]
    fn damage() {
        let whole = pairs();
        for length in (0..whole.len()).filter(|&it| whole.is_char_boundary(it)) {
            assert!(PretrainedTokenizer::of(&whole.as_bytes()[..length]).is_err(), "{length}");
        }
        for at in 0..whole.len() {
            for change in [1u8, 0x10, 0x80] {
                let mut bytes = whole.clone().into_bytes();
                bytes[at] ^= change;
                if let Ok(tokenizer) = PretrainedTokenizer::of(&bytes) {
                    let _ = tokenizer.encode("hello wörld").and_then(|it| tokenizer.decode(&it));
                }
            }
        }
        let deep = format!(
            r#"{{"version": "1.0", "normalizer": {}"#,
            r#"{"type": "Sequence", "normalizers": ["#.repeat(100_000)
        );
        let cases = [("", "no tokenizer"), ("{}", "no tokenizer"), ("[1]", "no tokenizer"), (&deep, "no tokenizer")];
        for (text, word) in cases {
            let why = PretrainedTokenizer::of(text.as_bytes()).map(|_| ()).expect_err("it is none");
            assert!(why.contains(word), "{why}");
        }
        let missing = PretrainedTokenizer::open("no such file").expect_err("it is not there");
        assert!(missing.code() == Code::Io && missing.to_string().contains(NAME), "{missing}");
    }
}
