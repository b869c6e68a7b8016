//! Assignments to statics, which a graph cannot make.

use crate::diag::{Code, Diags};
use crate::resolve::Scopes;
use syn::{Expr, ExprPath};

/// Refuses an assignment whose place is a static, or lies inside one.
pub fn check(place: &Expr, scopes: &Scopes, diags: &mut Diags) {
    if let Some(path) = root(place)
        && is_static(path, scopes)
    {
        let message = "compiled code cannot assign to a static: it would do so while tracing, and never again";
        let help = "return the value and assign it outside, or keep it in a `Parameter`";
        diags.refuse(Code::StaticAssignment, place, message, help);
    }
}

/// The path in which the place lies.
fn root(place: &Expr) -> Option<&ExprPath> {
    match place {
        Expr::Path(it) => Some(it),
        Expr::Field(it) => root(&it.base),
        Expr::Index(it) => root(&it.expr),
        Expr::Paren(it) => root(&it.expr),
        _ => None,
    }
}

/// Whether the path can be nothing but a static: it leads through a module, or is written like one
/// and no local has its name.
fn is_static(path: &ExprPath, scopes: &Scopes) -> bool {
    match path.path.get_ident() {
        Some(name) => {
            let name = name.to_string();
            name.chars().all(|it| !it.is_lowercase()) && name.contains(char::is_uppercase) && !scopes.is_local(&name)
        }
        None => path.path.segments.len() > 1,
    }
}
