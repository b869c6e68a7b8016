//! Refuses assignments that a graph cannot express: to statics, and to fields through `&self`.

use super::Rewriter;
use crate::diag::Code;
use crate::resolve::Scopes;
use quote::{ToTokens, quote};
use syn::{BinOp, Expr, ExprPath};

impl Rewriter<'_> {
    /// Returns the expression that replaces a refused assignment to `place`; `op` is the operator of a compound
    /// assignment.
    pub fn refused_assignment(&mut self, place: &Expr, op: Option<&BinOp>) -> Option<Expr> {
        let path = root(place)?;
        if is_static(path, &self.scopes) {
            let message = "compiled code cannot assign to a static: it would do so while tracing, and never again";
            let help = "return the value and assign it outside, or keep it in a `Parameter`";
            return Some(self.diags.refuse_in_place(Code::StaticAssignment, place, message, help));
        }
        if !self.behind_self || !path.path.is_ident("self") || matches!(place, Expr::Path(_)) {
            return None;
        }
        let name = place.to_token_stream().to_string().replace(' ', "");
        let value = match op.map(|it| it.to_token_stream().to_string()) {
            Some(op) => format!("{name}.value() {} ..", op.trim_end_matches('=')),
            None => "..".to_owned(),
        };
        let message = format!("`{name}` cannot be assigned: a call of `&self` changes no field");
        let help = format!("make it a `Parameter`, and write `{name}.set(&({value}))`");
        Some(self.diags.refuse_in_place(Code::FieldAssignment, quote!(#place), message, help))
    }
}

/// Returns the path at the root of a place expression.
fn root(place: &Expr) -> Option<&ExprPath> {
    match place {
        Expr::Path(it) => Some(it),
        Expr::Field(it) => root(&it.base),
        Expr::Index(it) => root(&it.expr),
        Expr::Paren(it) => root(&it.expr),
        _ => None,
    }
}

/// Whether the path can only be a static: it names a module, or is spelled like a static and is not a local.
fn is_static(path: &ExprPath, scopes: &Scopes) -> bool {
    match path.path.get_ident() {
        Some(name) => {
            let name = name.to_string();
            name.chars().all(|it| !it.is_lowercase()) && name.contains(char::is_uppercase) && !scopes.is_local(&name)
        }
        None => path.path.segments.len() > 1,
    }
}
