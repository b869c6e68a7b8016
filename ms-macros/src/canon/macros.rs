//! Rewrites the arguments of macros that take expressions: macros of std, and `tensor!`.

use super::{Rewriter, bare};
use crate::names::located;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Expr, ExprRepeat, Macro, Token, parse_quote_spanned};

/// A macro that takes expressions as arguments.
pub struct KnownMacro {
    name: &'static str,
    /// How the macro uses its arguments.
    pub uses: Uses,
    annotated: Annotated,
}

/// How a macro uses its arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Uses {
    /// Moves the arguments.
    Moves,
    /// Reads the arguments.
    Reads,
    /// Writes to the first argument, and reads the others.
    Writes,
}

/// The arguments that the rewriter rewrites.
#[derive(Clone, Copy)]
enum Annotated {
    /// All arguments.
    Values,
    /// All arguments, and the first one is a condition.
    Condition,
    /// No arguments.
    No,
}

const fn macro_of(name: &'static str, uses: Uses, annotated: Annotated) -> KnownMacro {
    KnownMacro { name, uses, annotated }
}

static KNOWN: &[KnownMacro] = &[
    macro_of("assert", Uses::Reads, Annotated::Condition),
    macro_of("assert_eq", Uses::Reads, Annotated::Values),
    macro_of("assert_ne", Uses::Reads, Annotated::Values),
    macro_of("debug_assert", Uses::Reads, Annotated::Condition),
    macro_of("debug_assert_eq", Uses::Reads, Annotated::Values),
    macro_of("debug_assert_ne", Uses::Reads, Annotated::Values),
    macro_of("eprint", Uses::Reads, Annotated::Values),
    macro_of("eprintln", Uses::Reads, Annotated::Values),
    macro_of("format", Uses::Reads, Annotated::Values),
    macro_of("matches", Uses::Reads, Annotated::No),
    macro_of("panic", Uses::Reads, Annotated::Values),
    macro_of("print", Uses::Reads, Annotated::Values),
    macro_of("println", Uses::Reads, Annotated::Values),
    macro_of("tensor", Uses::Reads, Annotated::No),
    macro_of("todo", Uses::Reads, Annotated::No),
    macro_of("unreachable", Uses::Reads, Annotated::No),
    macro_of("vec", Uses::Moves, Annotated::Values),
    macro_of("write", Uses::Writes, Annotated::Values),
    macro_of("writeln", Uses::Writes, Annotated::Values),
];

/// Returns the table's entry for the macro of this call.
pub fn known(it: &Macro) -> Option<&'static KnownMacro> {
    KNOWN.iter().find(|known| it.path.is_ident(known.name))
}

impl Rewriter<'_> {
    /// Rewrites the arguments of a known macro. Arguments of other macros are left unchanged.
    pub fn macro_call(&mut self, it: &mut Macro) {
        let rewritten = match known(it).map_or(Annotated::No, |known| known.annotated) {
            Annotated::Condition => self.assertion(&it.tokens),
            Annotated::Values => self.values(&it.tokens),
            Annotated::No => None,
        };
        if let Some(tokens) = rewritten {
            it.tokens = tokens;
        }
    }

    /// Rewrites an assertion. Its message contains the text of the condition.
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

/// Parses the arguments of a macro; `None` if they are not expressions.
pub fn arguments(tokens: &TokenStream) -> Option<Punctuated<Expr, Token![,]>> {
    Punctuated::parse_terminated.parse2(tokens.clone()).ok()
}
