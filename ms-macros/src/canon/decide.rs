//! Rewrites the conditions of `if`, `while` and guards.

use super::Rewriter;
use crate::names::located;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{BinOp, Expr, UnOp, parse_quote_spanned};

impl Rewriter<'_> {
    /// Rewrites a condition so that it evaluates to a `bool`, and declares the names that its `let`s bind.
    pub fn condition(&mut self, cond: &mut Expr) {
        match cond {
            Expr::Let(it) => {
                self.check_pattern(&it.pat, &mut it.expr);
                let scrutinee = (*it.expr).clone();
                self.visit_expr_mut(&mut it.expr);
                self.scopes.declare_as(&it.pat, Some(&scrutinee));
            }
            Expr::Binary(it) if matches!(it.op, BinOp::And(_) | BinOp::Or(_)) => {
                self.condition(&mut it.left);
                self.condition(&mut it.right);
            }
            Expr::Paren(it) => self.condition(&mut it.expr),
            Expr::Unary(it) if matches!(it.op, UnOp::Not(_)) => self.condition(&mut it.expr),
            _ => {
                let native = self.scopes.is_settled(cond);
                let at = cond.span();
                self.visit_expr_mut(cond);
                if !native {
                    let rt = located(self.rt.clone(), at);
                    *cond = parse_quote_spanned!(at=> #rt::decide(#cond));
                }
            }
        }
    }
}

/// Whether a condition contains `let`.
pub fn has_let(cond: &Expr) -> bool {
    match cond {
        Expr::Let(_) => true,
        Expr::Binary(it) => has_let(&it.left) || has_let(&it.right),
        _ => false,
    }
}

/// Collects the operands of a chain of `&&`.
pub fn flatten(cond: &Expr, parts: &mut Vec<Expr>) {
    match cond {
        Expr::Binary(it) if matches!(it.op, BinOp::And(_)) => {
            flatten(&it.left, parts);
            flatten(&it.right, parts);
        }
        cond => parts.push(cond.clone()),
    }
}
