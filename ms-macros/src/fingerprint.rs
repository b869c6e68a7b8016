//! Hashes source text. `ms cache explain` compares the hashes to detect that a function changed.

use proc_macro2::TokenStream;

/// Computes FNV-1a over the tokens. The hash is independent of formatting and comments, and equal in every build.
pub fn of(tokens: &TokenStream) -> u64 {
    tokens
        .to_string()
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
