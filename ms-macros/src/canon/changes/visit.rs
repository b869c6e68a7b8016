//! Traverses the code of a region for [`Changes`].

use super::Changes;
use crate::canon::choose;
use crate::canon::macros::{self, Uses};
use crate::canon::methods::{CONSUMING, READING};
use crate::canon::probes::Usage;
use crate::resolve::is_assignment;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Arm, Block, Expr, ExprClosure, ExprForLoop, ExprIf, ExprMatch, ExprWhile, FieldValue, Item, Local, Macro, Pat,
    Stmt, parse_quote_spanned,
};

/// Whether the call constructs a value from its arguments: `Some(y)`.
fn constructs(callee: &Expr) -> bool {
    matches!(callee, Expr::Path(it) if it.path.segments.last().is_some_and(|it| {
        it.ident.to_string().starts_with(char::is_uppercase)
    }))
}

impl VisitMut for Changes<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        let leaves_region = std::mem::take(&mut self.leaves_region);
        match expr {
            Expr::Path(_) | Expr::Field(_) => {
                if !leaves_region && self.is_reference(expr) {
                    return self.reborrow(expr);
                }
                if !leaves_region {
                    self.probe(expr, Usage::Moves);
                }
                return self.mention(expr);
            }
            Expr::Paren(it) => {
                self.leaves_region = leaves_region;
                return self.visit_expr_mut(&mut it.expr);
            }
            Expr::Block(it) => {
                self.leaves_region = leaves_region;
                return self.visit_block_mut(&mut it.block);
            }
            Expr::If(it) => return self.visit_if(it, leaves_region),
            Expr::Match(it) => return self.visit_match(it, leaves_region),
            Expr::Tuple(it) if leaves_region => return it.elems.iter_mut().for_each(|it| self.visit_leaving(it)),
            Expr::Array(it) if leaves_region => return it.elems.iter_mut().for_each(|it| self.visit_leaving(it)),
            Expr::Struct(it) if leaves_region => {
                return it.fields.iter_mut().for_each(|it| self.visit_leaving(&mut it.expr));
            }
            Expr::Call(it) if leaves_region && constructs(&it.func) => {
                return it.args.iter_mut().for_each(|it| self.visit_leaving(it));
            }
            Expr::Return(it) => return it.expr.iter_mut().for_each(|it| self.visit_leaving(it)),
            Expr::Break(it) => return it.expr.iter_mut().for_each(|it| self.visit_leaving(it)),
            Expr::Assign(it) => {
                self.add(&it.left);
                self.mention(&mut it.left);
                self.leaves_region = self.place(&it.left).is_some();
                return self.visit_expr_mut(&mut it.right);
            }
            Expr::Binary(it) if is_assignment(&it.op) => self.add(&it.left),
            Expr::Reference(it) => {
                match it.mutability {
                    Some(_) => self.add(&it.expr),
                    None => self.probe(&it.expr, Usage::Borrows),
                }
                return self.mention(&mut it.expr);
            }
            Expr::MethodCall(it) => {
                if !READING.iter().any(|name| it.method == name) {
                    let before = self.found.len();
                    self.add_receiver(&it.receiver);
                    if CONSUMING.iter().any(|name| it.method == name) || it.method.to_string().starts_with("into_") {
                        self.found[before..].iter_mut().for_each(|it| it.consumed = true);
                        self.probe(&it.receiver, Usage::Moves);
                    }
                }
                if it.method == "into_iter" && self.is_reference(&it.receiver) {
                    self.visit_expr_mut(&mut it.receiver);
                    let (at, receiver) = (it.receiver.span(), &it.receiver);
                    *it.receiver = parse_quote_spanned!(at=> (#receiver));
                } else {
                    self.mention(&mut it.receiver);
                }
                return it.args.iter_mut().for_each(|it| self.visit_expr_mut(it));
            }
            Expr::Call(it) => {
                self.add_receiver(&it.func);
                self.mention(&mut it.func);
                return it.args.iter_mut().for_each(|it| self.visit_expr_mut(it));
            }
            Expr::Closure(it) if it.capture.is_some() => return self.visit_move_closure(expr),
            _ => {}
        }
        match expr {
            // Operators do not take references, and `&` of such a value writes nothing.
            Expr::Binary(it) => {
                self.mention(&mut it.left);
                self.mention(&mut it.right);
            }
            Expr::Unary(it) => self.mention(&mut it.expr),
            Expr::Index(_) => self.mention(expr),
            _ => visit_mut::visit_expr_mut(self, expr),
        }
    }

    fn visit_block_mut(&mut self, block: &mut Block) {
        let leaves_region = std::mem::take(&mut self.leaves_region);
        self.scoped(|this| {
            let last = block.stmts.len().saturating_sub(1);
            for (i, stmt) in block.stmts.iter_mut().enumerate() {
                this.leaves_region = leaves_region && i == last && matches!(stmt, Stmt::Expr(_, None));
                this.visit_stmt_mut(stmt);
            }
        });
    }

    fn visit_local_mut(&mut self, local: &mut Local) {
        if let Some(init) = &mut local.init {
            self.matched(&mut init.expr, std::iter::once(&local.pat));
            if let Some((_, otherwise)) = &mut init.diverge {
                self.visit_expr_mut(otherwise);
            }
        }
        self.declare(&local.pat);
    }

    fn visit_expr_let_mut(&mut self, it: &mut syn::ExprLet) {
        self.matched(&mut it.expr, std::iter::once(&*it.pat));
        self.declare(&it.pat);
    }

    fn visit_expr_while_mut(&mut self, it: &mut ExprWhile) {
        self.visit_loop(Some(&mut it.cond), None, &mut it.body);
    }

    fn visit_expr_for_loop_mut(&mut self, it: &mut ExprForLoop) {
        self.visit_expr_mut(&mut it.expr);
        self.visit_loop(None, Some(&it.pat), &mut it.body);
    }

    fn visit_expr_closure_mut(&mut self, it: &mut ExprClosure) {
        self.scoped(|this| {
            it.inputs.iter().for_each(|pat| this.declare(pat));
            // The result of the closure does not leave the region, but it cannot be a part of a capture.
            if let Expr::Path(_) | Expr::Field(_) = &*it.body
                && this.is_reference(&it.body)
            {
                return this.add_receiver(&it.body);
            }
            this.visit_expr_mut(&mut it.body);
        });
    }

    fn visit_field_value_mut(&mut self, it: &mut FieldValue) {
        self.visit_expr_mut(&mut it.expr);
        if it.colon_token.is_none() && !matches!(it.expr, Expr::Path(_)) {
            it.colon_token = Some(Default::default());
        }
    }

    fn visit_macro_mut(&mut self, it: &mut Macro) {
        let (Some(known), Some(mut arguments)) = (macros::known(it), macros::arguments(&it.tokens)) else {
            return self.tokens(it.tokens.clone());
        };
        if known.uses == Uses::Writes
            && let Some(to) = arguments.first()
        {
            self.add_receiver(to);
        }
        match known.uses {
            Uses::Moves => arguments.iter_mut().for_each(|it| self.visit_expr_mut(it)),
            Uses::Reads | Uses::Writes => arguments.iter_mut().for_each(|it| self.mention(it)),
        }
        it.tokens = arguments.into_token_stream();
    }

    fn visit_pat_mut(&mut self, _: &mut Pat) {}

    fn visit_item_mut(&mut self, _: &mut Item) {}
}

impl Changes<'_> {
    fn visit_leaving(&mut self, expr: &mut Expr) {
        self.leaves_region = true;
        self.visit_expr_mut(expr);
    }

    fn visit_if(&mut self, it: &mut ExprIf, leaves_region: bool) {
        self.scoped(|this| {
            this.visit_expr_mut(&mut it.cond);
            this.leaves_region = leaves_region;
            this.visit_block_mut(&mut it.then_branch);
        });
        if let Some((_, other)) = &mut it.else_branch {
            self.leaves_region = leaves_region;
            self.visit_expr_mut(other);
        }
    }

    fn visit_match(&mut self, it: &mut ExprMatch, leaves_region: bool) {
        if choose::is_choice(it) {
            self.mention(&mut it.expr);
        } else {
            self.matched(&mut it.expr, it.arms.iter().map(|it| &it.pat));
        }
        for Arm { pat, body, .. } in &mut it.arms {
            self.scoped(|this| {
                this.declare(pat);
                if let Pat::Guard(it) = pat {
                    this.visit_expr_mut(&mut it.guard);
                }
                this.leaves_region = leaves_region;
                this.visit_expr_mut(body);
            });
        }
    }
}
