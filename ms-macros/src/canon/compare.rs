//! Rewrites comparisons: `==`, `!=`, `<`, `<=`, `>`, `>=`.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::spanned::Spanned;
use syn::{BinOp, Expr, ExprBinary, Lit, parse_quote_spanned};

/// Emits `Subject(&a).lt(&b)`.
pub fn emit(it: &ExprBinary, rt: &TokenStream) -> Expr {
    let method = match it.op {
        BinOp::Eq(_) => "eq",
        BinOp::Ne(_) => "ne",
        BinOp::Lt(_) => "lt",
        BinOp::Le(_) => "le",
        BinOp::Gt(_) => "gt",
        _ => "ge",
    };
    // `2.0 < x` is emitted as `x > 2.0`: the type of the other operand determines the type of the literal.
    let (left, right, method) = match method {
        _ if !is_number(&it.left) => (&it.left, &it.right, method),
        "lt" => (&it.right, &it.left, "gt"),
        "le" => (&it.right, &it.left, "ge"),
        "gt" => (&it.right, &it.left, "lt"),
        "ge" => (&it.right, &it.left, "le"),
        symmetric => (&it.right, &it.left, symmetric),
    };
    let method = match method {
        "eq" if is_number(right) => "is",
        "ne" if is_number(right) => "is_not",
        method => method,
    };
    let span = it.op.span();
    let method = Ident::new(method, span);
    let (left, right) = (operand(left), operand(right));
    parse_quote_spanned!(span=> #rt::Subject(&#left).#method(&#right))
}

/// Whether the expression is an unsuffixed number.
fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(it) => match &it.lit {
            Lit::Int(it) => it.suffix().is_empty(),
            Lit::Float(it) => it.suffix().is_empty(),
            _ => false,
        },
        Expr::Paren(it) => is_number(&it.expr),
        Expr::Unary(it) => is_number(&it.expr),
        _ => false,
    }
}

/// Returns the expression as the operand of `&`.
pub fn operand(expr: &Expr) -> TokenStream {
    match expr {
        Expr::Path(_)
        | Expr::Lit(_)
        | Expr::Paren(_)
        | Expr::Call(_)
        | Expr::MethodCall(_)
        | Expr::Field(_)
        | Expr::Index(_)
        | Expr::Macro(_)
        | Expr::Try(_)
        | Expr::Array(_)
        | Expr::Tuple(_)
        | Expr::Reference(_)
        | Expr::Unary(_)
        | Expr::Block(_) => quote!(#expr),
        _ => quote!((#expr)),
    }
}
