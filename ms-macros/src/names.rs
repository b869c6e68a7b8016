//! Names in expansions.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::Path;

/// The path to the library in an expansion.
pub struct Names {
    root: TokenStream,
}

impl Names {
    /// `::ms`, or the option `crate = path`.
    pub fn new(root: Option<&Path>) -> Self {
        Self { root: root.map_or_else(|| quote!(::ms), |path| quote!(#path)) }
    }

    /// The hidden module of functions that expansions call.
    pub fn rt(&self) -> TokenStream {
        let root = &self.root;
        quote!(#root::__rt)
    }
}

/// A hygienic name, invisible to the user's code.
pub fn own(name: &str) -> Ident {
    Ident::new(&format!("__{name}"), Span::mixed_site())
}

/// A hygienic name, one of several.
pub fn own_nth(name: &str, n: usize) -> Ident {
    format_ident!("__{name}{n}", span = Span::mixed_site())
}

/// The hygienic span for tokens that messages show at `at`. rustc shows an expression at the
/// attribute if some of its tokens are the user's and some the expansion's.
pub fn own_span(at: Span) -> Span {
    Span::mixed_site().located_at(at)
}

/// A hygienic name that messages show at `at`.
pub fn shown(name: &Ident, at: Span) -> Ident {
    Ident::new(&name.to_string(), name.span().located_at(at))
}

/// The same names, shown at `at` in messages.
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

/// The same names as if they were written in the user's text at `at`: a call with such a span has
/// that line as its caller location.
pub fn located(tokens: TokenStream, at: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            token.set_span(at);
            token
        })
        .collect()
}
