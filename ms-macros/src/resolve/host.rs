//! Finds the expressions that are certainly host values.

use super::{Known, Scopes};
use crate::types::is_host_type;
use syn::{BinOp, Expr, ExprBinary, ExprMethodCall};

impl Scopes {
    /// Whether `expr` is certainly a host value.
    pub fn is_host(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Lit(_) | Expr::Let(_) => true,
            Expr::Path(it) => it.path.get_ident().is_some_and(|name| self.name(name) == Known::Host),
            Expr::Paren(it) => self.is_host(&it.expr),
            Expr::Group(it) => self.is_host(&it.expr),
            Expr::Reference(it) => self.is_host(&it.expr),
            Expr::Unary(it) => self.is_host(&it.expr),
            Expr::Cast(it) => is_host_type(&it.ty),
            Expr::Binary(it) if is_comparison(&it.op) => self.is_native_comparison(it),
            Expr::Binary(it) => self.is_host(&it.left) && self.is_host(&it.right),
            Expr::Field(it) => self.is_host(&it.base),
            Expr::Index(it) => self.is_host(&it.expr),
            Expr::Tuple(it) => it.elems.iter().all(|it| self.is_host(it)),
            Expr::Array(it) => it.elems.iter().all(|it| self.is_host(it)),
            Expr::Range(it) => it.start.iter().chain(&it.end).all(|it| self.is_host(it)),
            Expr::MethodCall(it) => {
                let queries = QUERYING.iter().any(|name| it.method == name);
                queries || (!is_open(expr) && self.is_host(&it.receiver) && it.args.iter().all(|it| self.is_host(it)))
            }
            // A copy that `canon::moves` inserted in an arm.
            Expr::Call(it) => match (&*it.func, it.args.first()) {
                (Expr::Path(path), Some(value)) => is_copy(&path.path) && self.is_host(value),
                _ => false,
            },
            Expr::Macro(it) => ["matches", "cfg", "format"].iter().any(|name| it.mac.path.is_ident(name)),
            _ => false,
        }
    }

    /// Whether a comparison is Rust's own. It has two host operands, or an operand of an open type, which nothing else
    /// could infer.
    pub fn is_native_comparison(&self, it: &ExprBinary) -> bool {
        let open = is_open(&it.left) || is_open(&it.right);
        open || (self.is_host(&it.left) && self.is_host(&it.right))
    }

    /// Whether a condition, which may contain `let`, is certainly a bool.
    pub fn is_settled_condition(&self, cond: &Expr) -> bool {
        match cond {
            Expr::Let(_) => true,
            Expr::Binary(it) if matches!(it.op, BinOp::And(_) | BinOp::Or(_)) => {
                self.is_settled_condition(&it.left) && self.is_settled_condition(&it.right)
            }
            Expr::Paren(it) => self.is_settled_condition(&it.expr),
            Expr::Unary(it) if matches!(it.op, syn::UnOp::Not(_)) => self.is_settled_condition(&it.expr),
            _ => self.is_settled(cond),
        }
    }

    /// Whether a condition is certainly a bool: it is a host value, or has an open type.
    pub fn is_settled(&self, expr: &Expr) -> bool {
        self.is_host(expr) || is_open(expr)
    }
}

/// Whether the path names the function that copies values in arms.
fn is_copy(path: &syn::Path) -> bool {
    let mut names = path.segments.iter().rev().map(|it| &it.ident);
    names.next().is_some_and(|it| it == "copy") && names.next().is_some_and(|it| it == "Copied")
}

/// Whether the operator compares.
pub fn is_comparison(op: &BinOp) -> bool {
    matches!(op, BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_))
}

/// Whether the operator assigns to its left operand.
pub fn is_assignment(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::MulAssign(_)
            | BinOp::DivAssign(_)
            | BinOp::RemAssign(_)
            | BinOp::BitXorAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::ShlAssign(_)
            | BinOp::ShrAssign(_)
    )
}

/// Methods of std that query a container or a string, whatever it holds.
const QUERYING: &[&str] = &["len", "is_empty", "is_some", "is_none", "is_ok", "is_err"];

/// Whether the type of `expr` is open, that is, inferred from its use: `"4".parse()?`, `it.sum()` of an iterator,
/// `x.into()`, `x.item()`, `Default::default()`.
pub(super) fn is_open(expr: &Expr) -> bool {
    match expr {
        Expr::Paren(it) => is_open(&it.expr),
        Expr::Group(it) => is_open(&it.expr),
        Expr::Try(it) => is_open(&it.expr),
        Expr::Unary(it) => is_open(&it.expr),
        Expr::Call(it) => match &*it.func {
            Expr::Path(path) if path.qself.is_none() => {
                let names: Vec<_> = path.path.segments.iter().map(|it| it.ident.to_string()).collect();
                names == ["Default", "default"]
            }
            _ => false,
        },
        Expr::MethodCall(it) if it.turbofish.is_none() => match it.method.to_string().as_str() {
            "parse" | "into" | "try_into" | "collect" | "item" => true,
            "sum" | "product" => iterates(&it.receiver),
            "unwrap" | "expect" | "unwrap_or" | "unwrap_or_default" => is_open(&it.receiver),
            _ => false,
        },
        _ => false,
    }
}

/// Whether the chain of calls contains an iterator.
fn iterates(expr: &Expr) -> bool {
    match expr {
        Expr::Paren(it) => iterates(&it.expr),
        Expr::Range(_) => true,
        Expr::MethodCall(ExprMethodCall { receiver, method, .. }) => {
            let starts = ["iter", "into_iter", "iter_mut", "chars", "bytes", "lines", "split", "drain", "windows"];
            starts.iter().any(|name| method == name) || iterates(receiver)
        }
        _ => false,
    }
}
