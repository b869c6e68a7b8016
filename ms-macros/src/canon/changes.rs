//! Finds what changes inside a region, and makes references that are handed on there reborrow.
//!
//! A name that is a `&mut` for certain, and stands whole in the text of a region, may be written
//! through by whatever it is given to. What it refers to is carried, as where the text says `*y = ..`;
//! and `y` becomes `&mut *y`, so that it does not move, and can be mentioned behind the region.

use super::asks::{Ask, Usage};
use super::choose;
use super::methods::{ASKS, GIVES, READS};
use super::places::{Part, Place};
use crate::reach::Reach;
use crate::refers;
use crate::resolve::{Mutability, Scopes, is_assignment};
use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Arm, Block, Expr, ExprClosure, ExprForLoop, ExprIf, ExprMatch, ExprWhile, FieldValue, Ident, Item, Local, Macro,
    Pat, Stmt, Token, UnOp, parse_quote_spanned,
};

/// What is found in the text of a region.
pub struct Found {
    /// The places that change.
    pub places: Vec<Place>,
    /// The names through which something may change, since [`Changes::asks`] was asked last.
    pub asks: Vec<Ask>,
}

/// What is found in what `look` visits.
pub fn changed<'a>(scopes: &'a Scopes, look: impl FnOnce(&mut Changes<'a>)) -> Found {
    let mut changes =
        Changes { scopes, inner: Vec::new(), bound: Vec::new(), found: Vec::new(), asks: Vec::new(), given: false };
    look(&mut changes);
    let mut places: Vec<Place> = Vec::new();
    for mut place in changes.found {
        let related = |it: &&mut Place| it.holds(&place) || place.holds(it);
        let taken = place.taken && places.iter_mut().filter(related).all(|it| it.taken);
        places.iter_mut().filter(related).for_each(|it| it.taken = taken);
        place.taken = taken;
        if !places.iter().any(|it| it.holds(&place)) {
            places.retain(|it| !place.holds(it));
            places.push(place);
        }
    }
    let names: Vec<String> = places.iter().map(Place::spelling).collect();
    for (i, place) in places.iter_mut().enumerate() {
        place.alike = names[..i].iter().filter(|it| **it == names[i]).count();
    }
    Found { places, asks: changes.asks }
}

/// Finds what changes.
pub struct Changes<'a> {
    scopes: &'a Scopes,
    /// Names that are declared inside.
    inner: Vec<String>,
    /// Those of them that the condition of the region binds, so that it can ask them.
    bound: Vec<String>,
    found: Vec<Place>,
    asks: Vec<Ask>,
    /// Whether the expression that is visited next is given to what is around the region: there the
    /// region refuses a reference, and code of the host keeps its borrow.
    given: bool,
}

impl<'a> Changes<'a> {
    /// Looks at an arm, whose last expression is its value.
    pub fn visit_arm_block(&mut self, block: &mut Block) {
        self.given = true;
        self.visit_block_mut(block);
    }

    /// Looks at a condition, and at the arm that sees the names that it binds, which `scopes` has.
    pub fn visit_branch(&mut self, cond: &mut Expr, first: &mut Block, scopes: &'a Scopes) {
        self.scoped(|this| {
            let start = this.inner.len();
            this.visit_expr_mut(cond);
            // What the condition uses, the region around asks.
            this.asks.clear();
            this.bound = this.inner[start..].to_vec();
            let around = std::mem::replace(&mut this.scopes, scopes);
            this.visit_arm_block(first);
            this.scopes = around;
            this.bound.clear();
        });
    }

    /// Looks at a loop.
    pub fn visit_loop(&mut self, cond: Option<&mut Expr>, pat: Option<&Pat>, body: &mut Block) {
        self.scoped(|this| {
            cond.into_iter().for_each(|it| this.visit_expr_mut(it));
            pat.into_iter().for_each(|it| this.declare(it));
            this.visit_block_mut(body);
        });
    }

    /// The names to ask that were found since the last time.
    pub fn asks(&mut self) -> Vec<Ask> {
        std::mem::take(&mut self.asks)
    }

    /// A name is used of which the text may not say whether something changes through it.
    fn ask(&mut self, expr: &Expr, usage: Usage) {
        let place = match expr {
            Expr::Paren(it) => return self.ask(&it.expr, usage),
            Expr::Index(it) => return self.ask(&it.expr, Usage::Asks),
            Expr::Unary(it) if matches!(it.op, UnOp::Deref(_)) => return self.ask(&it.expr, Usage::Asks),
            Expr::Path(_) | Expr::Field(_) => self.part(expr, true),
            _ => None,
        };
        let Some(place) = place.filter(|it| !it.deferred) else { return };
        let is_name = place.parts.is_empty();
        let reach = self.scopes.reach(&place.root.to_string());
        let usage = match if is_name { reach } else { reach.parts() } {
            Reach::Still | Reach::Shared | Reach::Open => return,
            Reach::Closure(names) if names.is_empty() => return,
            Reach::Closure(names) => Usage::Captures(names),
            Reach::Asked if (is_name && place.root == "self") || self.is_reference(expr) => return,
            // Nothing moves out of what is shared, and no `&mut` in it is written through.
            Reach::Asked if !is_name && self.is_shared(&place.root) => Usage::Asks,
            // A method may take it.
            Reach::Asked if refers::of_expr(expr, self.scopes).leads_outward() => Usage::Hands,
            Reach::Asked => usage,
        };
        Ask { expr: expr.clone(), name: place.name(), usage }.add(&mut self.asks);
    }

    fn add(&mut self, expr: &Expr) {
        if let Some(place) = self.place(expr) {
            self.found.push(place);
        }
    }

    /// What a method may change: a `mut` variable, or what a `&mut` refers to.
    fn add_receiver(&mut self, expr: &Expr) {
        let Some(mut place) = self.place(expr) else { return self.ask(expr, Usage::Asks) };
        match self.scopes.mutability(&place.root.to_string()) {
            _ if self.is_reference(expr) => place.parts.push(Part::Deref),
            Mutability::Guard if place.parts.is_empty() => place.parts.push(Part::Deref),
            Mutability::Fixed => return self.ask(expr, Usage::Asks),
            _ => {}
        }
        self.found.push(place);
    }

    fn place(&self, expr: &Expr) -> Option<Place> {
        self.part(expr, false)
    }

    /// A variable of outside, or a part of one; or one that the condition binds.
    fn part(&self, expr: &Expr, bound: bool) -> Option<Place> {
        match expr {
            Expr::Path(it) => {
                let root = it.path.get_ident()?;
                let name = root.to_string();
                let times = |names: &[String]| names.iter().filter(|it| **it == name).count();
                let is_inner = times(&self.inner) > if bound { times(&self.bound) } else { 0 };
                if is_inner || !self.scopes.is_local(&name) {
                    return None;
                }
                Some(Place {
                    root: root.clone(),
                    parts: Vec::new(),
                    deferred: self.scopes.is_deferred(&name),
                    passes: false,
                    taken: false,
                    alike: 0,
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

    /// Whether the expression is a `&mut` of outside for certain.
    fn is_reference(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Path(_) | Expr::Field(_) => {
                self.place(expr).is_some() && refers::of_expr(expr, self.scopes).is_mutable()
            }
            Expr::Paren(it) => self.is_reference(&it.expr),
            _ => false,
        }
    }

    /// Whether the variable is a shared reference, or the receiver of a method, which holds no other.
    fn is_shared(&self, root: &Ident) -> bool {
        let name = root.to_string();
        self.scopes.is_shared(&name) || (name == "self" && self.scopes.mutability(&name) == Mutability::Fixed)
    }

    /// What is handed on as a whole: what it refers to may change.
    fn reborrow(&mut self, expr: &mut Expr) {
        if let Some(mut place) = self.place(expr) {
            place.parts.push(Part::Deref);
            self.found.push(place);
        }
        let at = expr.span();
        *expr = parse_quote_spanned!(at=> &mut *#expr);
    }

    /// Looks at an expression that is mentioned as a place: it is neither moved nor handed on.
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

    /// Looks at an expression that is matched against patterns.
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

    /// A closure that takes what it mentions gets references of its own.
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

/// The name as an expression, keyword or not.
fn path(name: &Ident) -> Expr {
    Expr::Path(syn::ExprPath { attrs: Vec::new(), qself: None, path: name.clone().into() })
}

/// The names that a pattern binds.
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

/// Whether the pattern binds by `ref mut`.
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

/// Whether the call makes a value out of its arguments: `Some(y)`.
fn constructs(callee: &Expr) -> bool {
    matches!(callee, Expr::Path(it) if it.path.segments.last().is_some_and(|it| {
        it.ident.to_string().starts_with(char::is_uppercase)
    }))
}

impl VisitMut for Changes<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        let given = std::mem::take(&mut self.given);
        match expr {
            Expr::Path(_) | Expr::Field(_) => {
                if !given && self.is_reference(expr) {
                    return self.reborrow(expr);
                }
                if !given {
                    self.ask(expr, Usage::Hands);
                }
                return self.mention(expr);
            }
            Expr::Paren(it) => {
                self.given = given;
                return self.visit_expr_mut(&mut it.expr);
            }
            Expr::Block(it) => {
                self.given = given;
                return self.visit_block_mut(&mut it.block);
            }
            Expr::If(it) => return self.visit_if(it, given),
            Expr::Match(it) => return self.visit_match(it, given),
            Expr::Tuple(it) if given => return it.elems.iter_mut().for_each(|it| self.visit_given(it)),
            Expr::Array(it) if given => return it.elems.iter_mut().for_each(|it| self.visit_given(it)),
            Expr::Struct(it) if given => return it.fields.iter_mut().for_each(|it| self.visit_given(&mut it.expr)),
            Expr::Call(it) if given && constructs(&it.func) => {
                return it.args.iter_mut().for_each(|it| self.visit_given(it));
            }
            Expr::Return(it) => return it.expr.iter_mut().for_each(|it| self.visit_given(it)),
            Expr::Break(it) => return it.expr.iter_mut().for_each(|it| self.visit_given(it)),
            Expr::Assign(it) => {
                self.add(&it.left);
                self.mention(&mut it.left);
                self.given = self.place(&it.left).is_some();
                return self.visit_expr_mut(&mut it.right);
            }
            Expr::Binary(it) if is_assignment(&it.op) => self.add(&it.left),
            Expr::Reference(it) => {
                match it.mutability {
                    Some(_) => self.add(&it.expr),
                    None => self.ask(&it.expr, Usage::Asks),
                }
                return self.mention(&mut it.expr);
            }
            Expr::MethodCall(it) => {
                if !ASKS.iter().any(|name| it.method == name) {
                    let before = self.found.len();
                    self.add_receiver(&it.receiver);
                    if GIVES.iter().any(|name| it.method == name) || it.method.to_string().starts_with("into_") {
                        self.found[before..].iter_mut().for_each(|it| it.taken = true);
                        self.ask(&it.receiver, Usage::Hands);
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
            // Operators take no reference, and `&` of one writes nothing.
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
        let given = std::mem::take(&mut self.given);
        self.scoped(|this| {
            let last = block.stmts.len().saturating_sub(1);
            for (i, stmt) in block.stmts.iter_mut().enumerate() {
                this.given = given && i == last && matches!(stmt, Stmt::Expr(_, None));
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
            // What the closure gives is not behind the region; but it cannot give a part of a capture.
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
        let named = |names: &[&str]| names.iter().any(|name| it.path.is_ident(name));
        let arguments = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(it.tokens.clone());
        match arguments {
            Ok(mut arguments) if named(READS) || named(&["write", "writeln"]) => {
                if !named(READS)
                    && let Some(to) = arguments.first()
                {
                    self.add_receiver(to);
                }
                let takes = named(&["vec"]);
                arguments.iter_mut().for_each(|it| if takes { self.visit_expr_mut(it) } else { self.mention(it) });
                it.tokens = arguments.into_token_stream();
            }
            _ => self.tokens(it.tokens.clone()),
        }
    }

    fn visit_pat_mut(&mut self, _: &mut Pat) {}

    fn visit_item_mut(&mut self, _: &mut Item) {}
}

impl Changes<'_> {
    fn visit_given(&mut self, expr: &mut Expr) {
        self.given = true;
        self.visit_expr_mut(expr);
    }

    fn visit_if(&mut self, it: &mut ExprIf, given: bool) {
        self.scoped(|this| {
            this.visit_expr_mut(&mut it.cond);
            this.given = given;
            this.visit_block_mut(&mut it.then_branch);
        });
        if let Some((_, other)) = &mut it.else_branch {
            self.given = given;
            self.visit_expr_mut(other);
        }
    }

    fn visit_match(&mut self, it: &mut ExprMatch, given: bool) {
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
                this.given = given;
                this.visit_expr_mut(body);
            });
        }
    }
}
