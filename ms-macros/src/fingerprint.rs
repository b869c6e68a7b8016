//! A hash of source text, by which `ms cache explain` detects that a function changed.

use proc_macro2::TokenStream;

/// FNV-1a over the tokens: independent of formatting and comments, the same in every build.
pub fn of(tokens: &TokenStream) -> u64 {
    tokens
        .to_string()
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
