//! Creates the names and spans of expansions.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::Path;

/// The path to the library in an expansion.
pub struct Names {
    root: TokenStream,
}

impl Names {
    /// Creates the path `::ms`, or the one of the option `crate = path`.
    pub fn new(root: Option<&Path>) -> Self {
        Self { root: root.map_or_else(|| quote!(::ms), |path| quote!(#path)) }
    }

    /// Returns the hidden module of functions that expansions call.
    pub fn rt(&self) -> TokenStream {
        let root = &self.root;
        quote!(#root::__rt)
    }
}

/// Returns a hygienic name, which the user's code cannot see.
pub fn own(name: &str) -> Ident {
    Ident::new(&format!("__{name}"), Span::mixed_site())
}

/// Returns a hygienic name with a number.
pub fn own_nth(name: &str, n: usize) -> Ident {
    format_ident!("__{name}{n}", span = Span::mixed_site())
}

/// Returns a hygienic span that messages show at `at`. rustc shows an expression at the attribute if some of its tokens
/// are the user's and some the expansion's.
pub fn own_span(at: Span) -> Span {
    Span::mixed_site().located_at(at)
}

/// Returns the hygienic name with a span that messages show at `at`.
pub fn shown(name: &Ident, at: Span) -> Ident {
    Ident::new(&name.to_string(), name.span().located_at(at))
}

/// Makes messages show the tokens at `at`. The names resolve as before.
pub fn respan(tokens: TokenStream, at: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            if let TokenTree::Group(it) = &token {
                token = Group::new(it.delimiter(), respan(it.stream(), at)).into();
            }
            token.set_span(at.resolved_at(token.span()));
            token
        })
        .collect()
}

/// Gives the tokens the span `at` of the user's text, which also decides how they resolve. The caller location of such
/// a call is the line of `at`.
pub fn located(tokens: TokenStream, at: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            token.set_span(at);
            token
        })
        .collect()
}
