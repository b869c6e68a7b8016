//! What a region asks of the types of names that it uses, where the text does not say whether
//! something changes through them.

use super::Rewriter;
use crate::names::own_span;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned;

/// The module of the traits that answer.
pub const TRAITS: &str = "reach";

/// How a region uses a name.
#[derive(Clone, PartialEq)]
pub enum Usage {
    /// It is given away.
    Hands,
    /// It is lent, called, or a method of it is.
    Asks,
    /// It holds a closure that changes these variables.
    Captures(Vec<String>),
}

/// A name, or a field of one, that a region uses.
#[derive(Clone)]
pub struct Ask {
    /// The name.
    pub expr: Expr,
    /// The name for messages.
    pub name: String,
    /// How.
    pub usage: Usage,
}

impl Ask {
    /// Adds it to others, unless they ask as much.
    pub fn add(self, all: &mut Vec<Self>) {
        let text = |it: &Self| it.expr.to_token_stream().to_string();
        match all.iter_mut().find(|it| text(it) == text(&self)) {
            Some(it) if self.usage == Usage::Hands => it.usage = self.usage,
            Some(_) => {}
            None => all.push(self),
        }
    }
}

impl Rewriter<'_> {
    /// The statements that ask.
    pub fn asked(&mut self, region: &Ident, asks: &[Ask]) -> TokenStream {
        let rt = self.rt;
        let mut out = TokenStream::new();
        for Ask { expr, name, usage } in asks {
            let at = expr.span();
            let own = own_span(at);
            let reach = match usage {
                Usage::Hands => quote_spanned!(own=> (&&&&#rt::Probe(&#expr)).hands()),
                Usage::Asks => quote_spanned!(own=> (&&#rt::Probe(&#expr)).asks()),
                Usage::Captures(names) => {
                    let names = names.join(", ");
                    quote!(#rt::Reach::Captures(#names))
                }
            };
            if !matches!(usage, Usage::Captures(_)) {
                self.imports.insert(TRAITS);
            }
            // Spelled as in the user's text, so that the line of the error is the name's.
            out.extend(quote_spanned!(at=> #region.uses(#name, #reach);));
        }
        out
    }
}
