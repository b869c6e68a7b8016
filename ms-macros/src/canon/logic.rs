//! `&&` and `||`.

use super::bare;
use crate::names::{located, own};
use proc_macro2::{Ident, TokenStream};
use syn::spanned::Spanned;
use syn::{BinOp, Expr, ExprBinary, parse_quote_spanned};

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
