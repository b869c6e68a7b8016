//! Finds the places that a region changes, and reborrows the references that it passes on.
//!
//! A name that is certainly a `&mut` and is passed on as a whole in a region may be written through by its receiver. So
//! the region carries its target, as for an explicit `*y = ..`. The use of `y` becomes `&mut *y`, so that it is not
//! moved and can be used after the region.

mod visit;

use super::places::{Part, PlaceExpr};
use super::probes::{Probe, Usage};
use crate::reach::Reach;
use crate::refers;
use crate::resolve::{Mutability, Scopes};
use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, Ident, Pat, UnOp, parse_quote_spanned};

/// The changes of a region.
pub struct Found {
    /// The places that the region changes.
    pub places: Vec<PlaceExpr>,
    /// The names to probe, since the last call of [`Changes::probes`].
    pub probes: Vec<Probe>,
}

/// Finds the changes in the code that `look` visits.
pub fn changed<'a>(scopes: &'a Scopes, look: impl FnOnce(&mut Changes<'a>)) -> Found {
    let mut changes = Changes {
        scopes,
        inner: Vec::new(),
        bound: Vec::new(),
        found: Vec::new(),
        probes: Vec::new(),
        leaves_region: false,
    };
    look(&mut changes);
    let mut places: Vec<PlaceExpr> = Vec::new();
    for mut place in changes.found {
        let related = |it: &&mut PlaceExpr| it.holds(&place) || place.holds(it);
        let consumed = place.consumed && places.iter_mut().filter(related).all(|it| it.consumed);
        places.iter_mut().filter(related).for_each(|it| it.consumed = consumed);
        place.consumed = consumed;
        if !places.iter().any(|it| it.holds(&place)) {
            places.retain(|it| !place.holds(it));
            places.push(place);
        }
    }
    let names: Vec<String> = places.iter().map(PlaceExpr::spelling).collect();
    for (i, place) in places.iter_mut().enumerate() {
        place.duplicates = names[..i].iter().filter(|it| **it == names[i]).count();
    }
    Found { places, probes: changes.probes }
}

/// The visitor that finds changes.
pub struct Changes<'a> {
    scopes: &'a Scopes,
    /// Names that are declared inside the region.
    inner: Vec<String>,
    /// The names in `inner` that the condition of the region binds. They can be probed.
    bound: Vec<String>,
    found: Vec<PlaceExpr>,
    probes: Vec<Probe>,
    /// Whether the value of the expression that is visited next leaves the region. The region reports a reference
    /// there, and host code keeps its borrow.
    leaves_region: bool,
}

impl<'a> Changes<'a> {
    /// Visits an arm. Its last expression is its value.
    pub fn visit_arm_block(&mut self, block: &mut Block) {
        self.leaves_region = true;
        self.visit_block_mut(block);
    }

    /// Visits a condition and the arm that sees its bindings. `scopes` declares them.
    pub fn visit_branch(&mut self, cond: &mut Expr, first: &mut Block, scopes: &'a Scopes) {
        self.scoped(|this| {
            let start = this.inner.len();
            this.visit_expr_mut(cond);
            // The enclosing region probes the names in the condition.
            this.probes.clear();
            this.bound = this.inner[start..].to_vec();
            let around = std::mem::replace(&mut this.scopes, scopes);
            this.visit_arm_block(first);
            this.scopes = around;
            this.bound.clear();
        });
    }

    /// Visits a loop.
    pub fn visit_loop(&mut self, cond: Option<&mut Expr>, pat: Option<&Pat>, body: &mut Block) {
        self.scoped(|this| {
            cond.into_iter().for_each(|it| this.visit_expr_mut(it));
            pat.into_iter().for_each(|it| this.declare(it));
            this.visit_block_mut(body);
        });
    }

    /// Takes the names to probe.
    pub fn probes(&mut self) -> Vec<Probe> {
        std::mem::take(&mut self.probes)
    }

    /// Adds a probe of a name, unless the syntax shows whether something is mutated through it.
    fn probe(&mut self, expr: &Expr, usage: Usage) {
        let place = match expr {
            Expr::Paren(it) => return self.probe(&it.expr, usage),
            Expr::Index(it) => return self.probe(&it.expr, Usage::Borrows),
            Expr::Unary(it) if matches!(it.op, UnOp::Deref(_)) => return self.probe(&it.expr, Usage::Borrows),
            Expr::Path(_) | Expr::Field(_) => self.part(expr, true),
            _ => None,
        };
        let Some(place) = place.filter(|it| !it.deferred) else { return };
        let is_name = place.parts.is_empty();
        let reach = self.scopes.reach(&place.root.to_string());
        let usage = match if is_name { reach } else { reach.parts() } {
            Reach::Immutable | Reach::Shared | Reach::Inferred => return,
            Reach::Closure(names) if names.is_empty() => return,
            Reach::Closure(names) => Usage::Captures(names),
            Reach::Unknown if (is_name && place.root == "self") || self.is_reference(expr) => return,
            // Nothing can be moved out of a shared reference, and no `&mut` in it can be written through.
            Reach::Unknown if !is_name && self.is_shared(&place.root) => Usage::Borrows,
            // A method may consume the value.
            Reach::Unknown if refers::of_expr(expr, self.scopes).contains_mutable() => Usage::Moves,
            Reach::Unknown => usage,
        };
        Probe { expr: expr.clone(), name: place.name(), usage }.add(&mut self.probes);
    }

    fn add(&mut self, expr: &Expr) {
        if let Some(place) = self.place(expr) {
            self.found.push(place);
        }
    }

    /// Adds the place that a method may mutate: a `mut` variable, or the target of a `&mut`.
    fn add_receiver(&mut self, expr: &Expr) {
        let Some(mut place) = self.place(expr) else { return self.probe(expr, Usage::Borrows) };
        match self.scopes.mutability(&place.root.to_string()) {
            _ if self.is_reference(expr) => place.parts.push(Part::Deref),
            Mutability::Guard if place.parts.is_empty() => place.parts.push(Part::Deref),
            Mutability::Fixed => return self.probe(expr, Usage::Borrows),
            _ => {}
        }
        self.found.push(place);
    }

    fn place(&self, expr: &Expr) -> Option<PlaceExpr> {
        self.part(expr, false)
    }

    /// Returns the place of a variable declared outside, or of a part of one. If `bound`, variables that the condition
    /// binds count as well.
    fn part(&self, expr: &Expr, bound: bool) -> Option<PlaceExpr> {
        match expr {
            Expr::Path(it) => {
                let root = it.path.get_ident()?;
                let name = root.to_string();
                let times = |names: &[String]| names.iter().filter(|it| **it == name).count();
                let is_inner = times(&self.inner) > if bound { times(&self.bound) } else { 0 };
                if is_inner || !self.scopes.is_local(&name) {
                    return None;
                }
                Some(PlaceExpr {
                    root: root.clone(),
                    parts: Vec::new(),
                    deferred: self.scopes.is_deferred(&name),
                    dead_after: false,
                    consumed: false,
                    duplicates: 0,
                })
            }
            Expr::Field(it) => self.part(&it.base, bound).map(|mut place| {
                place.parts.push(Part::Field(it.member.clone()));
                place
            }),
            Expr::Unary(it) if matches!(it.op, UnOp::Deref(_)) => self.part(&it.expr, bound).map(|mut place| {
                place.parts.push(Part::Deref);
                place
            }),
            Expr::Index(it) => self.part(&it.expr, bound).map(|mut place| {
                if self.is_reference(&it.expr) {
                    place.parts.push(Part::Deref);
                }
                place
            }),
            Expr::Paren(it) => self.part(&it.expr, bound),
            _ => None,
        }
    }

    /// Whether the expression is certainly a `&mut` declared outside.
    fn is_reference(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Path(_) | Expr::Field(_) => {
                self.place(expr).is_some() && refers::of_expr(expr, self.scopes).is_mutable()
            }
            Expr::Paren(it) => self.is_reference(&it.expr),
            _ => false,
        }
    }

    /// Whether the variable is a shared reference; a receiver `&self` is one.
    fn is_shared(&self, root: &Ident) -> bool {
        let name = root.to_string();
        self.scopes.is_shared(&name) || (name == "self" && self.scopes.mutability(&name) == Mutability::Fixed)
    }

    /// Reborrows a `&mut` that is passed on as a whole: its target may change.
    fn reborrow(&mut self, expr: &mut Expr) {
        if let Some(mut place) = self.place(expr) {
            place.parts.push(Part::Deref);
            self.found.push(place);
        }
        let at = expr.span();
        *expr = parse_quote_spanned!(at=> &mut *#expr);
    }

    /// Visits an expression that is used as a place, and is neither moved nor passed on.
    pub fn mention(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Path(_) => {}
            Expr::Field(it) => self.mention(&mut it.base),
            Expr::Paren(it) => self.mention(&mut it.expr),
            Expr::Unary(it) if matches!(it.op, UnOp::Deref(_)) => self.mention(&mut it.expr),
            Expr::Index(it) => {
                self.mention(&mut it.expr);
                self.visit_expr_mut(&mut it.index);
            }
            _ => self.visit_expr_mut(expr),
        }
    }

    /// Visits an expression that is matched against patterns.
    fn matched<'p>(&mut self, scrutinee: &mut Expr, mut pats: impl Iterator<Item = &'p Pat>) {
        if pats.any(binds_mutably) {
            self.add(scrutinee);
            self.mention(scrutinee);
        } else {
            self.visit_expr_mut(scrutinee);
        }
    }

    fn declare(&mut self, pat: &Pat) {
        bound(pat, &mut |it| self.inner.push(it.ident.to_string()));
    }

    fn scoped(&mut self, look: impl FnOnce(&mut Self)) {
        let start = self.inner.len();
        look(self);
        self.inner.truncate(start);
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    self.add_receiver(&path(&name));
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                _ => {}
            }
        }
    }

    /// Visits a `move` closure, and makes it capture reborrows of the references that it mentions.
    fn visit_move_closure(&mut self, expr: &mut Expr) {
        let mut names: Vec<Ident> = Vec::new();
        mentioned(expr.to_token_stream(), &mut |name| {
            if !names.contains(name) && self.is_reference(&path(name)) {
                names.push(name.clone());
            }
        });
        visit_mut::visit_expr_mut(self, expr);
        if !names.is_empty() {
            let at = expr.span();
            let own = names.iter().map(|name| quote_spanned!(at=> let #name = &mut *#name;));
            *expr = parse_quote_spanned!(at=> { #(#own)* #expr });
        }
    }
}

/// Returns the name as an expression, also if it is a keyword.
fn path(name: &Ident) -> Expr {
    Expr::Path(syn::ExprPath { attrs: Vec::new(), qself: None, path: name.clone().into() })
}

/// Calls `each` with the names that a pattern binds.
pub fn bound(pat: &Pat, each: &mut dyn FnMut(&syn::PatIdent)) {
    struct Names<'a>(&'a mut dyn FnMut(&syn::PatIdent));
    impl syn::visit::Visit<'_> for Names<'_> {
        fn visit_pat_ident(&mut self, it: &syn::PatIdent) {
            (self.0)(it);
            syn::visit::visit_pat_ident(self, it);
        }
    }
    syn::visit::Visit::visit_pat(&mut Names(each), pat);
}

/// Whether the pattern contains `ref mut`.
pub fn binds_mutably(pat: &Pat) -> bool {
    let mut found = false;
    bound(pat, &mut |it| found |= it.by_ref.is_some() && it.mutability.is_some());
    found
}

fn mentioned(tokens: TokenStream, each: &mut dyn FnMut(&Ident)) {
    for token in tokens {
        match token {
            TokenTree::Ident(name) => each(&name),
            TokenTree::Group(group) => mentioned(group.stream(), each),
            _ => {}
        }
    }
}
