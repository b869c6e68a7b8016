//! Rewrites `break`, `continue` and `return` that jump out of regions.

use super::context::flow_name;
use super::moves;
use super::{Rewriter, bare};
use crate::resolve::Scopes;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut::VisitMut;
use syn::{Block, Expr, ExprAsync, ExprClosure, ExprConst, ExprForLoop, ExprIf, Item, Label, Pat, Stmt, parse_quote};

impl Rewriter<'_> {
    /// Emits a jump out of regions that may be traced; `None` if the jump is plain Rust.
    pub fn jump(&mut self, expr: &Expr) -> Option<Expr> {
        let (target, value) = match expr {
            Expr::Return(it) => (self.context.body_target()?, it.expr.as_deref()),
            Expr::Break(it) => (self.context.target(it.label.as_ref())?, it.expr.as_deref()),
            Expr::Continue(it) => (self.context.target(it.label.as_ref())?, None),
            _ => return None,
        };
        if !self.context.is_managed(target) {
            return None;
        }
        let (is_return, is_block) = (matches!(expr, Expr::Return(_)), self.context.is_block(target));
        let at = value.map_or(expr.span(), Spanned::span);
        let mut value = value.cloned();
        if let Some(value) = &mut value {
            self.visit_expr_mut(value);
            *value = bare(value).clone();
        } else if is_return || is_block {
            value = Some(parse_quote!(()));
        }
        let left = self.context.jump(target, expr, value.is_some(), at);
        let flows: Vec<_> = left.into_iter().map(flow_name).collect();
        let (last, inner) = flows.split_last().expect("a jump has a target");
        let label = self.context.label(target);
        let leave = self.context.leave();
        Some(match expr {
            Expr::Continue(_) => parse_quote! {{
                if #last.is_inside() {
                    continue #label;
                }
                #(#inner.leave();)*
                #last.skip();
                #leave
            }},
            Expr::Break(_) => {
                let give = value.map(|it| quote!(#last.give(#it);));
                let nothing = is_block.then(|| quote!(::core::option::Option::None));
                parse_quote! {{
                    #give
                    if #last.is_near() {
                        break #label #nothing;
                    }
                    #(#flows.leave();)*
                    #leave
                }}
            }
            _ => {
                let left = crate::names::own("left");
                let ty = self.context.result(target).map(|ty| quote!(: #ty));
                parse_quote! {{
                    let #left #ty = #value;
                    if #last.is_near() {
                        return #left;
                    }
                    #last.give(#left);
                    #(#flows.leave();)*
                    #leave
                }}
            }
        })
    }
}

/// Whether a block ends with a jump.
pub fn diverges(block: &Block) -> bool {
    match block.stmts.last() {
        Some(Stmt::Expr(it, _)) => matches!(it, Expr::Return(_) | Expr::Break(_) | Expr::Continue(_)),
        _ => false,
    }
}

/// The jumps out of the body of a loop, found before the body is rewritten.
#[derive(Default)]
pub struct Jumps {
    /// Whether there are jumps.
    pub any: bool,
    /// Whether a jump is under a condition that may be a tensor.
    pub undecided: bool,
    /// For each jump that leaves the loop under host conditions alone, the names in these conditions.
    pub host_exits: Vec<BTreeSet<String>>,
    /// The labels that the jumps target.
    pub labels: BTreeSet<String>,
}

impl Jumps {
    /// Whether the jumps out of a block with this label become flags.
    pub fn manage(&self, label: &Label) -> bool {
        self.undecided && self.lead_to(label)
    }

    /// Whether a jump targets a block with this label.
    pub fn lead_to(&self, label: &Label) -> bool {
        self.labels.contains(&label.name.to_string())
    }
}

/// Finds the jumps out of the body of a loop. `items` is the pattern and iterator of a `for`.
pub fn of_body(scopes: &Scopes, items: Option<(&Pat, &Expr)>, body: &Block) -> Jumps {
    let mut scan =
        Scan { scopes: scopes.clone(), undecided: 0, settled: Vec::new(), loops: Vec::new(), found: Jumps::default() };
    if let Some((pat, over)) = items {
        scan.scopes.declare_items(pat, over);
    }
    scan.visit_block(body);
    scan.found
}

struct Scan {
    scopes: Scopes,
    undecided: usize,
    /// The enclosing host conditions.
    settled: Vec<TokenStream>,
    /// Labels of the nested loops and blocks.
    loops: Vec<Option<String>>,
    found: Jumps,
}

impl Scan {
    fn scoped(&mut self, undecided: bool, look: impl FnOnce(&mut Self)) {
        self.scopes.push();
        self.undecided += undecided as usize;
        look(self);
        self.undecided -= undecided as usize;
        self.scopes.pop();
    }

    fn exit(&mut self) {
        self.found.host_exits.push(moves::mentioned(self.settled.iter().cloned()));
    }

    fn jump(&mut self, label: Option<&syn::Lifetime>, exits: bool) {
        let inside = match label {
            Some(label) => self.loops.contains(&Some(label.to_string())),
            None => !self.loops.is_empty(),
        };
        if !inside {
            self.found.any = true;
            self.found.labels.extend(label.map(|it| it.to_string()));
            self.found.undecided |= self.undecided > 0;
            if exits && self.undecided == 0 {
                self.exit();
            }
        }
    }

    fn inner(&mut self, label: Option<&Label>, undecided: bool, look: impl FnOnce(&mut Self)) {
        self.loops.push(label.map(|it| it.name.to_string()));
        self.scoped(undecided, look);
        self.loops.pop();
    }
}

impl<'ast> Visit<'ast> for Scan {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Return(_) => {
                self.found.any = true;
                self.found.undecided |= self.undecided > 0;
                if self.undecided == 0 {
                    self.exit();
                }
            }
            Expr::Break(it) => self.jump(it.label.as_ref(), true),
            Expr::Continue(it) => self.jump(it.label.as_ref(), false),
            Expr::While(it) => {
                let undecided =
                    !self.scopes.is_settled_condition(&it.cond) || of_body(&self.scopes, None, &it.body).undecided;
                return self.inner(it.label.as_ref(), undecided, |this| visit::visit_expr_while(this, it));
            }
            Expr::Loop(it) => {
                let undecided = of_body(&self.scopes, None, &it.body).undecided;
                return self.inner(it.label.as_ref(), undecided, |this| visit::visit_expr_loop(this, it));
            }
            Expr::ForLoop(it) => {
                let items = Some((&*it.pat, &*it.expr));
                let undecided = super::repeat::is_range(&it.expr) || of_body(&self.scopes, items, &it.body).undecided;
                return self.inner(it.label.as_ref(), undecided, |this| this.visit_expr_for_loop(it));
            }
            Expr::Block(syn::ExprBlock { label: Some(label), block, .. }) => {
                let undecided = of_body(&self.scopes, None, block).manage(label);
                return self.inner(Some(label), undecided, |this| this.visit_block(block));
            }
            Expr::Match(it) => {
                self.visit_expr(&it.expr);
                let undecided = super::choose::is_undecided(&self.scopes, it);
                self.settled.push(it.expr.to_token_stream());
                self.scoped(undecided, |this| it.arms.iter().for_each(|arm| this.visit_arm(arm)));
                self.settled.pop();
                return;
            }
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_expr_if(&mut self, it: &'ast ExprIf) {
        let undecided = !self.scopes.is_settled_condition(&it.cond);
        self.settled.push(it.cond.to_token_stream());
        self.scoped(undecided, |this| {
            this.visit_expr(&it.cond);
            this.visit_block(&it.then_branch);
        });
        if let Some((_, other)) = &it.else_branch {
            self.scoped(undecided, |this| this.visit_expr(other));
        }
        self.settled.pop();
    }

    fn visit_expr_for_loop(&mut self, it: &'ast ExprForLoop) {
        self.visit_expr(&it.expr);
        self.scopes.declare_items(&it.pat, &it.expr);
        self.visit_block(&it.body);
    }

    fn visit_expr_let(&mut self, it: &'ast syn::ExprLet) {
        self.visit_expr(&it.expr);
        self.scopes.declare_as(&it.pat, Some(&it.expr));
    }

    fn visit_block(&mut self, it: &'ast Block) {
        self.scoped(false, |this| visit::visit_block(this, it));
    }

    fn visit_local(&mut self, it: &'ast syn::Local) {
        let refuted = it.init.as_ref().filter(|it| it.diverge.is_some());
        self.settled.extend(refuted.map(|it| it.expr.to_token_stream()));
        visit::visit_local(self, it);
        self.settled.truncate(self.settled.len() - refuted.iter().len());
        self.scopes.declare_as(&it.pat, it.init.as_ref().map(|it| &*it.expr));
    }

    fn visit_arm(&mut self, it: &'ast syn::Arm) {
        self.scoped(false, |this| {
            this.scopes.declare(&it.pat, crate::resolve::Known::Nothing);
            visit::visit_arm(this, it);
        });
    }

    fn visit_expr_closure(&mut self, _: &'ast ExprClosure) {}

    fn visit_expr_async(&mut self, _: &'ast ExprAsync) {}

    fn visit_expr_const(&mut self, _: &'ast ExprConst) {}

    fn visit_item(&mut self, _: &'ast Item) {}
}
