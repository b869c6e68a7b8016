//! Copies values that one arm of a region moves and that other code needs.
//!
//! The other code is one of:
//! - the other arm, since rustc does not know that only one of them runs;
//! - the region itself, which carries changed values;
//! - the code after an arm that jumps.
//!
//! The arm moves a copy.

use super::changes;
use crate::names::{own_span, respan};
use crate::resolve::{Mutability, Scopes};
use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Block, Expr, ExprClosure, FieldValue, Item, Macro, Stmt, parse_quote_spanned};

/// Makes `block` copy those outer variables in `needed` that it moves.
pub fn copy(block: &mut Block, needed: BTreeSet<String>, scopes: &Scopes, rt: &TokenStream) {
    let mut mentioned = needed;
    mentioned.retain(|name| {
        let refers = matches!(scopes.mutability(name), Mutability::Reference | Mutability::Guard);
        scopes.is_local(name) && !refers && !scopes.is_shared(name)
    });
    if mentioned.is_empty() {
        return;
    }
    let mut copies = Copies { mentioned, rt };
    copies.visit_block_mut(block);
    if let Some(Stmt::Expr(tail, None)) = block.stmts.last_mut() {
        copies.value(tail);
    }
}

/// Collects the names in token streams.
pub fn mentioned(texts: impl Iterator<Item = TokenStream>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    texts.for_each(|it| mention(it, &mut names));
    names
}

/// Whether one of the names occurs in a token stream.
pub fn mentions(text: &TokenStream, names: &[&str]) -> bool {
    text.clone().into_iter().any(|token| match token {
        TokenTree::Ident(it) => names.iter().any(|name| it == name),
        TokenTree::Group(group) => mentions(&group.stream(), names),
        _ => false,
    })
}

fn mention(tokens: TokenStream, names: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(name) => drop(names.insert(name.to_string())),
            TokenTree::Group(group) => mention(group.stream(), names),
            _ => {}
        }
    }
}

struct Copies<'a> {
    mentioned: BTreeSet<String>,
    rt: &'a TokenStream,
}

impl Copies<'_> {
    /// Rewrites an expression that is moved, so that it copies the value.
    fn value(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Path(_) | Expr::Field(_) if self.root(expr).is_some() => {
                let at = expr.span();
                let (shown, at, value) = (quote_spanned!(at=> _), own_span(at), quote_spanned!(at=> &#expr));
                let rt = respan(self.rt.clone(), at);
                *expr = parse_quote_spanned!(at=> <#shown as #rt::Copied>::copy(#value));
            }
            Expr::Paren(it) => self.value(&mut it.expr),
            Expr::Block(it) => {
                if let Some(Stmt::Expr(tail, None)) = it.block.stmts.last_mut() {
                    self.value(tail);
                }
            }
            Expr::If(it) => {
                if let Some(Stmt::Expr(tail, None)) = it.then_branch.stmts.last_mut() {
                    self.value(tail);
                }
                if let Some((_, other)) = &mut it.else_branch {
                    self.value(other);
                }
            }
            Expr::Match(it) => it.arms.iter_mut().for_each(|arm| self.value(&mut arm.body)),
            _ => {}
        }
    }

    fn root<'e>(&self, expr: &'e Expr) -> Option<&'e Ident> {
        match expr {
            Expr::Path(it) => it.path.get_ident().filter(|name| self.mentioned.contains(&name.to_string())),
            Expr::Field(it) => self.root(&it.base),
            _ => None,
        }
    }
}

impl VisitMut for Copies<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        visit_mut::visit_expr_mut(self, expr);
        match expr {
            Expr::Call(it) => it.args.iter_mut().for_each(|it| self.value(it)),
            Expr::MethodCall(it) => it.args.iter_mut().for_each(|it| self.value(it)),
            Expr::Tuple(it) => it.elems.iter_mut().for_each(|it| self.value(it)),
            Expr::Array(it) => it.elems.iter_mut().for_each(|it| self.value(it)),
            Expr::Assign(it) => self.value(&mut it.right),
            Expr::Unary(it) if !matches!(it.op, syn::UnOp::Deref(_)) => self.value(&mut it.expr),
            Expr::Binary(it) if is_arithmetic(&it.op) => {
                self.value(&mut it.left);
                self.value(&mut it.right);
            }
            Expr::Binary(it) if crate::resolve::is_assignment(&it.op) => self.value(&mut it.right),
            Expr::Return(it) => it.expr.iter_mut().for_each(|it| self.value(it)),
            Expr::Break(it) => it.expr.iter_mut().for_each(|it| self.value(it)),
            Expr::ForLoop(it) => self.value(&mut it.expr),
            _ => {}
        }
    }

    fn visit_local_mut(&mut self, local: &mut syn::Local) {
        visit_mut::visit_local_mut(self, local);
        // A pattern that binds by reference moves nothing.
        if let Some(init) = &mut local.init
            && !changes::binds_mutably(&local.pat)
        {
            self.value(&mut init.expr);
        }
    }

    fn visit_field_value_mut(&mut self, it: &mut FieldValue) {
        visit_mut::visit_field_value_mut(self, it);
        let before = it.expr.to_token_stream().to_string();
        self.value(&mut it.expr);
        if it.colon_token.is_none() && it.expr.to_token_stream().to_string() != before {
            it.colon_token = Some(Default::default());
        }
    }

    fn visit_expr_closure_mut(&mut self, _: &mut ExprClosure) {}

    fn visit_macro_mut(&mut self, _: &mut Macro) {}

    fn visit_item_mut(&mut self, _: &mut Item) {}
}

fn is_arithmetic(op: &BinOp) -> bool {
    use BinOp::*;
    matches!(op, Add(_) | Sub(_) | Mul(_) | Div(_) | Rem(_) | BitXor(_) | BitAnd(_) | BitOr(_) | Shl(_) | Shr(_))
}
