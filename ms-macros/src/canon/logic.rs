//! `&&` and `||`.

use super::branch::Use;
use super::{Rewriter, bare, changes};
use crate::names::{located, own};
use proc_macro2::{Ident, TokenStream};
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{BinOp, Expr, ExprBinary, ExprIf, parse_quote_spanned};

/// The right side stays in this function, so that `?` and `return` in it leave the function.
pub fn emit(it: &ExprBinary, rt: &TokenStream) -> Expr {
    let span = it.op.span();
    let rt = located(rt.clone(), span);
    let operator = Ident::new(if matches!(it.op, BinOp::And(_)) { "and" } else { "or" }, span);
    let (logic, value) = (own("logic"), own("right"));
    let (left, right) = (bare(&it.left), bare(&it.right));
    parse_quote_spanned!(span=> {
        let #logic = #rt::#operator(#left);
        let mut #value = ::core::option::Option::None;
        if #logic.runs_right() {
            #value = ::core::option::Option::Some(#right);
        }
        #logic.end(#value)
    })
}

impl Rewriter<'_> {
    /// The decision as an `if` with a value, where the right side changes something and a tensor may
    /// decide whether it runs; nothing where it does not.
    pub fn deciding(&mut self, it: &ExprBinary, used: &Use) -> Option<Expr> {
        if self.scopes.is_settled_condition(&it.left) {
            return None;
        }
        let mut right = (*it.right).clone();
        if changes::changed(&self.scopes, |look| look.visit_expr_mut(&mut right)).is_empty() {
            return None;
        }
        let at = it.op.span();
        let (rt, region) = (located(self.rt.clone(), at), own("region"));
        let (left, right) = (bare(&it.left), bare(&it.right));
        let chosen: ExprIf = match it.op {
            BinOp::And(_) => parse_quote_spanned! {at=>
                if #left { #rt::truth(&#region, #right) } else { #rt::known(false) }
            },
            _ => parse_quote_spanned! {at=>
                if #left { #rt::known(true) } else { #rt::truth(&#region, #right) }
            },
        };
        let used = match used {
            Use::Statement | Use::Never => &Use::Value(None),
            used => used,
        };
        Some(self.branch(&chosen, used))
    }
}
