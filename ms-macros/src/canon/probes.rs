//! Probes the types of names that a region uses and for which the syntax does not determine the mutability.

use super::Rewriter;
use crate::names::own_span;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned;

/// The name of the module with the traits that probes use.
pub const TRAITS: &str = "reach";

/// How a region uses a name.
#[derive(Clone, PartialEq)]
pub enum Usage {
    /// The region moves the name or passes it on.
    Moves,
    /// The region borrows or calls the name, or calls a method on it.
    Borrows,
    /// The name holds a closure that mutates these variables.
    Captures(Vec<String>),
}

/// A name, or a field of one, that a region uses.
#[derive(Clone)]
pub struct Probe {
    /// The expression.
    pub expr: Expr,
    /// The name as messages spell it.
    pub name: String,
    /// How the region uses the name.
    pub usage: Usage,
}

impl Probe {
    /// Adds the probe to `all`, unless `all` already covers it.
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
    /// Emits the statements of the probes.
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
            // These tokens have the user's span, so that the error has the line of the name.
            out.extend(quote_spanned!(at=> #region.uses(#name, #reach);));
        }
        out
    }
}
