//! Macros of std whose arguments are expressions.

use super::{Rewriter, bare};
use crate::names::located;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Expr, ExprRepeat, Macro, Token, parse_quote_spanned};

/// The first argument is a condition.
const ASSERTIONS: &[&str] = &["assert", "debug_assert"];

/// All arguments are values.
const VALUES: &[&str] = &[
    "vec",
    "assert_eq",
    "assert_ne",
    "debug_assert_eq",
    "debug_assert_ne",
    "format",
    "print",
    "println",
    "eprint",
    "eprintln",
    "write",
    "writeln",
    "panic",
];

impl Rewriter<'_> {
    /// Rewrites the arguments of a macro that is known; the others see the user's text.
    pub fn macro_call(&mut self, it: &mut Macro) {
        let named = |names: &[&str]| names.iter().any(|name| it.path.is_ident(name));
        let rewritten = if named(ASSERTIONS) {
            self.assertion(&it.tokens)
        } else if named(VALUES) {
            self.values(&it.tokens)
        } else {
            None
        };
        if let Some(tokens) = rewritten {
            it.tokens = tokens;
        }
    }

    /// The message of an assertion keeps the text of the condition.
    fn assertion(&mut self, tokens: &TokenStream) -> Option<TokenStream> {
        let mut arguments = arguments(tokens)?;
        let condition = arguments.first_mut()?;
        if self.scopes.is_settled_condition(condition) {
            arguments.iter_mut().for_each(|it| self.visit_expr_mut(it));
            return Some(arguments.into_token_stream());
        }
        let text = format!("assertion failed: {}", condition.to_token_stream());
        let at = condition.span();
        self.visit_expr_mut(condition);
        let (rt, bare) = (located(self.rt.clone(), at), bare(condition));
        *condition = parse_quote_spanned!(at=> #rt::holds(#bare, #text));
        arguments.iter_mut().skip(1).for_each(|it| self.visit_expr_mut(it));
        arguments.pop_punct();
        let message = (arguments.len() == 1).then(|| quote!(, "{}", #text));
        Some(quote!(#arguments #message))
    }

    fn values(&mut self, tokens: &TokenStream) -> Option<TokenStream> {
        if let Some(mut arguments) = arguments(tokens) {
            arguments.iter_mut().for_each(|it| self.visit_expr_mut(it));
            return Some(arguments.into_token_stream());
        }
        // `vec![value; count]`
        let mut repeat: ExprRepeat = syn::parse2(quote!([#tokens])).ok()?;
        self.visit_expr_mut(&mut repeat.expr);
        let (value, count) = (&repeat.expr, &repeat.len);
        Some(quote!(#value; #count))
    }
}

fn arguments(tokens: &TokenStream) -> Option<Punctuated<Expr, Token![,]>> {
    Punctuated::parse_terminated.parse2(tokens.clone()).ok()
}
