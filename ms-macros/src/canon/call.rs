//! Rewrites calls of objects: `net(&x, &y)`.

use crate::names::respan;
use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Expr, ExprCall, parse_quote_spanned};

/// Emits `net.invoke(Given { arguments: (&x, &y) })`.
pub fn emit(it: &ExprCall, rt: &TokenStream) -> Expr {
    let (callee, arguments, at) = (&it.func, &it.args, it.func.span());
    let trailing = (!arguments.is_empty() && !arguments.trailing_punct()).then(|| quote!(,));
    let given = respan(quote!(#rt::Given), at);
    parse_quote_spanned!(at=> #callee.invoke(#given { arguments: (#arguments #trailing) }))
}
