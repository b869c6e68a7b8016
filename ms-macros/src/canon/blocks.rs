//! Rewrites blocks: the statements after a conditional jump become a guarded region.

use super::Rewriter;
use super::branch::{Arm, Guard, Region, Use, tail};
use super::changes;
use super::context::flow_name;
use super::jumps::diverges;
use super::moves;
use super::places::PlaceExpr;
use crate::resolve::Mutability;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use std::collections::BTreeSet;
use syn::visit_mut::VisitMut;
use syn::{Block, Expr, ExprIf, Stmt, parse_quote, parse_quote_spanned};

impl Rewriter<'_> {
    /// Rewrites the statements of a block.
    pub fn statements(&mut self, stmts: &mut Vec<Stmt>, used: &Use) {
        let mut i = 0;
        while i < stmts.len() {
            if i + 1 == stmts.len()
                && matches!(used, Use::Result(_))
                && let Stmt::Expr(Expr::Return(it), _) = &stmts[i]
            {
                let value = it.expr.as_deref().cloned().unwrap_or_else(|| parse_quote!(()));
                stmts[i] = Stmt::Expr(value, None);
            }
            if i + 1 < stmts.len()
                && let Stmt::Expr(Expr::If(it), _) = &stmts[i]
                && !self.scopes.is_settled_condition(&it.cond)
                && let Some(mut it) = open_arm(it)
            {
                let rest = stmts.split_off(i + 1);
                it.take(rest);
                stmts[i] = Stmt::Expr(Expr::If(it.0), None);
            }
            self.used = match &stmts[i] {
                Stmt::Expr(_, None) if i + 1 == stmts.len() => used.clone(),
                Stmt::Expr(..) => Use::Statement,
                _ => Use::Value(None),
            };
            let before = self.context.jumps();
            self.rests.push(names_after(&stmts[i + 1..]));
            self.visit_stmt_mut(&mut stmts[i]);
            self.rests.pop();
            i += 1;
            if self.context.jumps() > before && i < stmts.len() {
                let rest = stmts.split_off(i);
                let guarded = self.guard(Block { brace_token: Default::default(), stmts: rest }, used);
                stmts.push(Stmt::Expr(guarded, None));
                return;
            }
        }
    }

    /// Returns the numbers of declared names and of open blocks.
    pub fn start(&self) -> (usize, usize) {
        (self.scopes.mark(), self.rests.len())
    }

    /// Marks the variables that are dead once the enclosing region is left. Their scope ends with the function, or with
    /// the enclosing loop.
    pub fn mark_passing(&self, places: &mut [PlaceExpr], used: &Use) {
        let is_over = |name: &str| {
            if self.scopes.mutability(name) != Mutability::Variable || self.scopes.refers(name).contains_mutable() {
                return false;
            }
            if matches!(used, Use::Result(_)) {
                return true;
            }
            let Some(((_, rests), outer)) = self.context.loop_starts() else { return false };
            self.scopes.is_younger(name, outer.map_or(0, |it| it.0))
                && !self.rests[..rests].iter().any(|it| it.contains(name))
        };
        for place in places {
            place.dead_after = place.variable().is_some_and(|it| is_over(&it));
        }
    }

    /// Removes the places that methods may have moved inside the region and that are not mentioned outside.
    pub fn drop_consumed(&self, places: &mut Vec<PlaceExpr>, used: &Use, other: impl Fn(&str) -> bool) {
        // Nothing is known about the code that follows the region in its own statement, or that a loop head repeats.
        if matches!(used, Use::Value(_)) || self.rounds.len() != self.context.loops() {
            return;
        }
        places.retain(|it| {
            !it.consumed || self.is_seen(it, Some(usize::MAX)) || it.variable().is_none_or(|name| other(&name))
        });
    }

    /// Emits the region of `rest`: it runs unless a jump left the enclosing iteration or function.
    pub fn guard(&mut self, mut rest: Block, used: &Use) -> Expr {
        let flow = self.context.innermost();
        let tail = tail(&rest);
        let found = changes::changed(&self.scopes, |look| look.visit_arm_block(&mut rest));
        let probed = self.probed(&crate::names::own("region"), &found.probes);
        let mut places = found.places;
        self.drop_consumed(&mut places, used, |_| false);
        // The next iteration uses the places that `continue` leaves unchanged.
        let ends = !self.context.continues(flow);
        if ends {
            self.mark_passing(&mut places, used);
        }
        let label = self.label("rest");
        let needed = self.needed(&rest.to_token_stream(), &places);
        moves::copy(&mut rest, needed, &self.scopes, self.rt);
        self.context.push_arm(label.clone());
        self.scoped(|this| this.statements(&mut rest.stmts, used));
        let flows = self.context.pop().flows;
        let name = flow_name(flow);
        let region = crate::names::own("region");
        let at = self.context.at(flow);
        let cond = parse_quote_spanned!(at=> #region.test(#name.goes_on()));
        let votes = flows.iter().copied().filter(|it| *it != flow);
        let vote = self.context.vote(&region, votes);
        let leave = self.context.leave();
        let exits = self.context.exits(&flows);
        Region { rt: self.rt, at, label: self.label("join"), places, exits, vote, leave }.emit(
            &cond,
            &Arm { label, block: rest, tail, probed },
            None,
            used,
            Some(Guard { flow, ends }),
        )
    }
}

/// Collects the names that statements mention, except those that a `let` among them declares.
fn names_after(stmts: &[Stmt]) -> BTreeSet<String> {
    let (mut names, mut declared) = (BTreeSet::new(), BTreeSet::new());
    for stmt in stmts {
        let text = match stmt {
            Stmt::Local(it) => it.init.as_ref().map_or_else(TokenStream::new, |it| {
                let other = it.diverge.as_ref().map(|it| &it.1);
                let expr = &it.expr;
                quote!(#expr #other)
            }),
            stmt => stmt.to_token_stream(),
        };
        names.extend(moves::mentioned([text].into_iter()).difference(&declared).cloned());
        if let Stmt::Local(it) = stmt {
            changes::bound(&it.pat, &mut |it| {
                declared.insert(it.ident.to_string());
            });
        }
    }
    names
}

/// An `if` with an arm that always jumps. The other arm takes the statements after the `if`.
struct OpenArm(ExprIf, bool);

fn open_arm(it: &ExprIf) -> Option<OpenArm> {
    if diverges(&it.then_branch) {
        return Some(OpenArm(it.clone(), false));
    }
    match &it.else_branch {
        Some((_, other)) if matches!(&**other, Expr::Block(it) if diverges(&it.block)) => {
            Some(OpenArm(it.clone(), true))
        }
        _ => None,
    }
}

impl OpenArm {
    fn take(&mut self, rest: Vec<Stmt>) {
        let Self(it, first) = self;
        if *first {
            let inner = it.then_branch.clone();
            let mut stmts = if inner.stmts.is_empty() { Vec::new() } else { vec![parse_quote!(#inner)] };
            stmts.extend(rest);
            it.then_branch.stmts = stmts;
            return;
        }
        let mut stmts: Vec<Stmt> = match it.else_branch.take() {
            Some((_, other)) => vec![Stmt::Expr(*other, None)],
            None => Vec::new(),
        };
        stmts.extend(rest);
        let block = Block { brace_token: Default::default(), stmts };
        it.else_branch = Some((Default::default(), parse_quote!(#block)));
    }
}
