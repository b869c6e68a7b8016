//! `match` on numbers and bools: a chain of decisions, where the type of the scrutinee is to decide.

use super::Rewriter;
use super::branch::Use;
use super::compare::operand;
use crate::names::{located, own};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Arm, Expr, ExprMatch, Lit, Pat, parse_quote};

/// Whether every arm is a number or a bool, and the last one takes the rest.
pub fn is_choice(it: &ExprMatch) -> bool {
    let Some((last, arms)) = it.arms.split_last() else { return false };
    !arms.is_empty()
        && arms.iter().all(|arm| is_literal(&arm.pat))
        && match &last.pat {
            Pat::Wild(_) => true,
            Pat::Ident(it) => it.subpat.is_none() && it.ident.to_string().starts_with(|it: char| it.is_lowercase()),
            // Rust sees that the two are all.
            pat => is_bool(pat) && arms.len() == 1 && is_bool(&arms[0].pat),
        }
}

fn is_bool(pat: &Pat) -> bool {
    matches!(pat, Pat::Lit(it) if matches!(it.lit, Lit::Bool(_)))
}

fn is_literal(pat: &Pat) -> bool {
    match pat {
        Pat::Lit(it) => matches!(it.lit, Lit::Int(_) | Lit::Bool(_)),
        Pat::Or(it) => it.cases.iter().all(is_literal),
        Pat::Paren(it) => is_literal(&it.pat),
        _ => false,
    }
}

impl Rewriter<'_> {
    /// Whether a `match` is a chain of decisions whose types are to decide.
    pub fn is_choice(&self, it: &ExprMatch) -> bool {
        is_choice(it) && !self.scopes.is_settled(&it.expr)
    }

    /// Rewrites such a `match`.
    pub fn choose(&mut self, it: &ExprMatch, used: &Use) -> Expr {
        let mut scrutinee = (*it.expr).clone();
        self.visit_expr_mut(&mut scrutinee);
        let (name, rt, scrutinee) = (own("scrutinee"), self.rt, operand(&scrutinee));
        let (last, arms) = it.arms.split_last().expect("a choice has arms");
        let rest = match &last.pat {
            Pat::Ident(bound) => {
                let body = &last.body;
                parse_quote!({ let #bound = #rt::copy(#name); #body })
            }
            _ => block(last),
        };
        let chain: Expr = arms.iter().rev().fold(rest, |rest, arm| {
            let cond = self.is_case(&name, &arm.pat);
            let body = block(arm);
            parse_quote!(if #cond #body else #rest)
        });
        self.used = used.clone();
        let mut chain = chain;
        self.visit_expr_mut(&mut chain);
        parse_quote! {{
            let #name = &#scrutinee;
            #chain
        }}
    }

    /// That the scrutinee is what the pattern says.
    fn is_case(&self, name: &syn::Ident, pat: &Pat) -> Expr {
        let rt = located(self.rt.clone(), pat.span());
        match pat {
            Pat::Or(it) => {
                let cases = it.cases.iter().map(|it| self.is_case(name, it));
                cases.reduce(|one, other| parse_quote!(#one || #other)).unwrap_or_else(|| parse_quote!(false))
            }
            Pat::Paren(it) => self.is_case(name, &it.pat),
            Pat::Lit(it) => {
                let lit = &it.lit;
                let case = quote_spanned!(it.span()=> #rt::case(#name, #lit));
                parse_quote!(#case)
            }
            _ => parse_quote!(true),
        }
    }
}

fn block(arm: &Arm) -> Expr {
    let body = &arm.body;
    match &**body {
        Expr::Block(it) if it.label.is_none() && it.attrs.is_empty() => (**body).clone(),
        _ => {
            let value = quote!({ #body });
            parse_quote!(#value)
        }
    }
}
