//! Calls of objects: `net(&x, &y)`.

use syn::spanned::Spanned;
use syn::{Expr, ExprCall, parse_quote_spanned};

/// `net.invoke((&x, &y))`.
pub fn emit(it: &ExprCall) -> Expr {
    let (callee, arguments) = (&it.func, &it.args);
    let trailing = (!arguments.is_empty() && !arguments.trailing_punct()).then(|| quote::quote!(,));
    parse_quote_spanned!(callee.span()=> #callee.invoke((#arguments #trailing)))
}
