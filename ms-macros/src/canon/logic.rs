//! Rewrites `&&` and `||`.

use super::branch::Use;
use super::{Rewriter, bare, changes};
use crate::names::{located, own};
use proc_macro2::{Ident, TokenStream};
use syn::spanned::Spanned;
use syn::visit_mut;
use syn::{BinOp, Expr, ExprBinary, ExprIf, parse_quote_spanned};

impl Rewriter<'_> {
    /// Rewrites an operator. It becomes an `if` with a value where its right operand mutates something and a tensor may
    /// decide whether to evaluate it.
    pub fn logic(&mut self, mut it: ExprBinary, used: &Use) -> Expr {
        let mut right = (*it.right).clone();
        let found = changes::changed(&self.scopes, |look| look.mention(&mut right));
        let is_settled = self.scopes.is_settled_condition(&it.left);
        if !is_settled && !found.places.is_empty() {
            return self.as_branch(&it, used);
        }
        visit_mut::visit_expr_binary_mut(self, &mut it);
        let probed = match is_settled {
            true => TokenStream::new(),
            false => self.probed(&own("logic"), &found.probes),
        };
        self.emit_logic(&it, &probed)
    }

    /// Emits the operator. The right operand stays in this function, so that `?` and `return` in it leave the function.
    fn emit_logic(&self, it: &ExprBinary, probed: &TokenStream) -> Expr {
        let span = it.op.span();
        let rt = located(self.rt.clone(), span);
        let operator = Ident::new(if matches!(it.op, BinOp::And(_)) { "and" } else { "or" }, span);
        let (logic, value) = (own("logic"), own("right"));
        let (left, right) = (bare(&it.left), bare(&it.right));
        parse_quote_spanned!(span=> {
            let #logic = #rt::#operator(#left);
            let mut #value = ::core::option::Option::None;
            if #logic.runs_right() {
                #probed
                #value = ::core::option::Option::Some(#right);
            }
            #logic.end(#value)
        })
    }

    fn as_branch(&mut self, it: &ExprBinary, used: &Use) -> Expr {
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
        self.branch(&chosen, used)
    }
}
