//! Assignments to statics, which a graph cannot express.

use crate::diag::{Code, Diags};
use crate::resolve::Scopes;
use syn::{Expr, ExprPath};

/// Reports an assignment to a place in a static.
pub fn check(place: &Expr, scopes: &Scopes, diags: &mut Diags) {
    if let Some(path) = root(place)
        && is_static(path, scopes)
    {
        let message = "compiled code cannot assign to a static: it would do so while tracing, and never again";
        let help = "return the value and assign it outside, or keep it in a `Parameter`";
        diags.refuse(Code::StaticAssignment, place, message, help);
    }
}

/// The path at the root of a place expression.
fn root(place: &Expr) -> Option<&ExprPath> {
    match place {
        Expr::Path(it) => Some(it),
        Expr::Field(it) => root(&it.base),
        Expr::Index(it) => root(&it.expr),
        Expr::Paren(it) => root(&it.expr),
        _ => None,
    }
}

/// Whether the path can only be a static: it names a module, or is spelled like a static and is not
/// a local.
fn is_static(path: &ExprPath, scopes: &Scopes) -> bool {
    match path.path.get_ident() {
        Some(name) => {
            let name = name.to_string();
            name.chars().all(|it| !it.is_lowercase()) && name.contains(char::is_uppercase) && !scopes.is_local(&name)
        }
        None => path.path.segments.len() > 1,
    }
}
