//! Names that expansions use.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::Path;

/// Where the expansion finds the library.
pub struct Names {
    root: TokenStream,
}

impl Names {
    /// `::ms`, or what the option `crate = path` says.
    pub fn new(root: Option<&Path>) -> Self {
        Self { root: root.map_or_else(|| quote!(::ms), |path| quote!(#path)) }
    }

    /// The hidden module that holds what macros call.
    pub fn rt(&self) -> TokenStream {
        let root = &self.root;
        quote!(#root::__rt)
    }
}

/// A name of the expansion's own, invisible to the user's code.
pub fn own(name: &str) -> Ident {
    Ident::new(&format!("__{name}"), Span::mixed_site())
}

/// A name of the expansion's own, one of several.
pub fn own_nth(name: &str, n: usize) -> Ident {
    format_ident!("__{name}{n}", span = Span::mixed_site())
}

/// Where tokens of the expansion's own are shown in messages. rustc shows an expression at the
/// attribute if its tokens are in part the user's and in part the expansion's.
pub fn own_span(at: Span) -> Span {
    Span::mixed_site().located_at(at)
}

/// A name of the expansion's own, shown at `at` in messages.
pub fn shown(name: &Ident, at: Span) -> Ident {
    Ident::new(&name.to_string(), name.span().located_at(at))
}

/// The same names, shown at `at` in messages.
pub fn respan(tokens: TokenStream, at: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            token.set_span(at.resolved_at(token.span()));
            token
        })
        .collect()
}

/// The same names as if they stood in the user's text at `at`: a call that is spelled so has that
/// line as its location.
pub fn located(tokens: TokenStream, at: Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            token.set_span(at);
            token
        })
        .collect()
}
