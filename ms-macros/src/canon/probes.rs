//! Type probes: in a region, a name whose mutability the syntax does not determine is probed by its
//! type.

use super::Rewriter;
use crate::names::own_span;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned;

/// The module of the traits that probes use.
pub const TRAITS: &str = "reach";

/// How a region uses a name.
#[derive(Clone, PartialEq)]
pub enum Usage {
    /// It is moved or passed on.
    Moves,
    /// It is borrowed, called, or the receiver of a method.
    Borrows,
    /// It holds a closure that mutates these variables.
    Captures(Vec<String>),
}

/// A name, or a field of one, that a region uses.
#[derive(Clone)]
pub struct Probe {
    /// The expression.
    pub expr: Expr,
    /// Its spelling in messages.
    pub name: String,
    /// How it is used.
    pub usage: Usage,
}

impl Probe {
    /// Adds the probe to others, unless they include it.
    pub fn add(self, all: &mut Vec<Self>) {
        let text = |it: &Self| it.expr.to_token_stream().to_string();
        match all.iter_mut().find(|it| text(it) == text(&self)) {
            Some(it) if self.usage == Usage::Moves => it.usage = self.usage,
            Some(_) => {}
            None => all.push(self),
        }
    }
}

impl Rewriter<'_> {
    /// The statements of the probes.
    pub fn probed(&mut self, region: &Ident, probes: &[Probe]) -> TokenStream {
        let rt = self.rt;
        let mut out = TokenStream::new();
        for Probe { expr, name, usage } in probes {
            let at = expr.span();
            let own = own_span(at);
            let reach = match usage {
                Usage::Moves => quote_spanned!(own=> (&&&&#rt::Probe(&#expr)).hands()),
                Usage::Borrows => quote_spanned!(own=> (&&#rt::Probe(&#expr)).asks()),
                Usage::Captures(names) => {
                    let names = names.join(", ");
                    quote!(#rt::Reach::Captures(#names))
                }
            };
            if !matches!(usage, Usage::Captures(_)) {
                self.imports.insert(TRAITS);
            }
            // Spelled as in the user's text, so that the error has the line of the name.
            out.extend(quote_spanned!(at=> #region.uses(#name, #reach);));
        }
        out
    }
}
