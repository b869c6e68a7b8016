//! Finds the iterators and collections that the head of a host loop consumes.
//!
//! A host loop is unrolled to its end, even where a tensor decides to leave it early. The items that its head has
//! consumed are gone, whatever the value of the tensor. So code after the loop must not use their source.

use super::changes::{self, Found};
use super::context::flow_name;
use super::methods::CONSUMING_LAZILY;
use super::places::{Part, PlaceExpr};
use super::probes::{TRAITS, Usage};
use super::repeat::Head;
use super::{Rewriter, probes::Probe};
use crate::names::{own_nth, own_span};
use crate::reach::{ADAPTERS, Reach};
use crate::refers::Refers;
use crate::resolve::Mutability;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut::VisitMut;
use syn::{Expr, ExprCall, ExprClosure, ExprMethodCall, ExprReference};

/// The iterators and collections that the head of a loop may advance.
#[derive(Default)]
pub struct Advances {
    /// Places that the head certainly changes.
    places: Vec<PlaceExpr>,
    /// Places, with their expressions, that the head consumes if they are references to an iterator.
    iterators: Vec<(PlaceExpr, Expr)>,
    /// Names, for which a probe of the type shows whether the head advances them.
    probes: Vec<Probe>,
}

/// The statements that report an advanced place that is used after the loop.
#[derive(Default)]
pub struct AdvanceReports {
    /// The statements before the loop.
    pub before: TokenStream,
    /// The statements before each evaluation of the head.
    pub head: TokenStream,
}

impl Rewriter<'_> {
    /// Finds the places that a head advances, from its text before it is rewritten.
    pub fn advances(&self, head: &Head) -> Advances {
        let conditions: Vec<Expr> = match head {
            Head::While(cond, _) => vec![(**cond).clone()],
            Head::Chain(parts) => parts.clone(),
            Head::Loop => Vec::new(),
            Head::For { over, .. } => {
                let mut sources = Sources { rewriter: self, found: Advances::default() };
                sources.visit_expr(over);
                return sources.found;
            }
        };
        let Found { mut places, probes } = changes::changed(&self.scopes, |look| {
            conditions.into_iter().for_each(|mut it| look.visit_expr_mut(&mut it));
        });
        // Calling a closure of this body changes its captures.
        let captured = places.iter().filter(|it| it.parts.is_empty()).filter_map(|it| {
            match self.scopes.reach(&it.root.to_string()) {
                Reach::Closure(names) => Some((it.clone(), names)),
                _ => None,
            }
        });
        let captured: Vec<PlaceExpr> = captured.flat_map(|(place, names)| self.captured(&place, &names)).collect();
        places.extend(captured);
        Advances { places, iterators: Vec::new(), probes }
    }

    /// Returns the captured variables `names`, spelled as in messages, with the span of the closure's call.
    fn captured(&self, closure: &PlaceExpr, names: &[String]) -> Vec<PlaceExpr> {
        let roots = names.iter().filter_map(|it| syn::parse_str(it.trim_matches('`').split('.').next()?).ok());
        roots
            .map(|mut root: syn::Ident| {
                root.set_span(closure.root.span());
                PlaceExpr { root, ..closure.clone() }
            })
            .collect()
    }

    /// Reports the places that the head of the loop with exit `flow` advances and that are used after the loop.
    pub fn refused(
        &mut self,
        all: &Advances,
        flow: usize,
        flows: &BTreeSet<usize>,
        repeat: &TokenStream,
    ) -> AdvanceReports {
        let (mut refused, rt, name) = (AdvanceReports::default(), self.rt, flow_name(flow));
        if !flows.contains(&flow) {
            return refused;
        }
        let mut probed = false;
        let blocks = self.context.blocks_after(flow, flows);
        let is_seen = |it: &PlaceExpr| self.is_seen(it, blocks);
        // These tokens have the user's span, so that the error has the line of the name.
        let mut refuse = |at: proc_macro2::Span, place: &str, does: TokenStream| {
            refused.head.extend(quote_spanned!(at=> #name.advances(#repeat, #place, #does);));
        };
        for place in all.places.iter().filter(|it| is_seen(it)) {
            refuse(place.span(), &place.name(), quote!(true));
        }
        for (i, (place, expr)) in all.iterators.iter().enumerate().filter(|it| is_seen(&it.1.0)) {
            let (ahead, at) = (own_nth("ahead", i), own_span(place.span()));
            refused.before.extend(quote_spanned!(at=> let #ahead = (&&#rt::Probe(&#expr)).advances();));
            refuse(place.span(), &place.name(), quote!(#ahead));
            probed = true;
        }
        for Probe { expr, name, usage } in &all.probes {
            let at = own_span(expr.span());
            let does = match usage {
                Usage::Captures(_) => quote!(true),
                _ => quote_spanned!(at=> (&&#rt::Probe(&#expr)).asks().is_some()),
            };
            refuse(expr.span(), name, does);
            probed = true;
        }
        if probed {
            self.imports.insert(TRAITS);
        }
        refused
    }

    /// Whether a place is used after the loop is left. The remaining statements of the outermost `blocks` blocks run
    /// then; `None` stands for a loop that `return` leaves.
    pub fn is_seen(&self, place: &PlaceExpr, blocks: Option<usize>) -> bool {
        let name = place.root.to_string();
        let mutability = self.scopes.mutability(&name);
        mutability != Mutability::Variable
            || place.parts.contains(&Part::Deref)
            || matches!(self.scopes.refers(&name), Refers::Mutable(_) | Refers::Guard)
            || !self.scopes.is_younger(&name, self.context.round(blocks.is_some()))
            || blocks.is_some_and(|it| self.rests.iter().take(it).any(|it| it.contains(&name)))
    }
}

/// Finds the places that the iterator of a `for` consumes.
struct Sources<'a, 'b> {
    rewriter: &'a Rewriter<'b>,
    found: Advances,
}

impl Sources<'_, '_> {
    fn place(&self, expr: &Expr) -> Option<PlaceExpr> {
        // The changes of a `&mut` borrow of the expression name its place.
        let mut lent: Expr = syn::parse_quote!(&mut #expr);
        let found = changes::changed(&self.rewriter.scopes, |look| look.visit_expr_mut(&mut lent));
        found.places.into_iter().next()
    }

    fn iterator(&mut self, place: Option<PlaceExpr>, expr: &Expr) {
        self.found.iterators.extend(place.filter(|it| !it.deferred).map(|it| (it, expr.clone())));
    }

    /// Whether a name may be a reference to an iterator. A variable that the loop moves cannot be used again.
    fn may_refer(&self, place: &PlaceExpr) -> bool {
        let (scopes, name) = (&self.rewriter.scopes, place.root.to_string());
        scopes.mutability(&name) != Mutability::Variable
            && matches!(scopes.reach(&name), Reach::Unknown | Reach::Inferred)
    }
}

impl Visit<'_> for Sources<'_, '_> {
    fn visit_expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Path(_) | Expr::Field(_) => {
                let place = self.place(expr).filter(|it| self.may_refer(it));
                self.iterator(place, expr);
            }
            Expr::Range(_) | Expr::Index(_) | Expr::Binary(_) | Expr::Cast(_) => {}
            _ => visit::visit_expr(self, expr),
        }
    }

    fn visit_expr_reference(&mut self, it: &ExprReference) {
        if it.mutability.is_some() {
            let place = self.place(&it.expr);
            self.iterator(place, &Expr::Reference(it.clone()));
        }
    }

    fn visit_expr_method_call(&mut self, it: &ExprMethodCall) {
        if CONSUMING_LAZILY.iter().any(|name| it.method == name)
            && let Some(place) = self.place(&it.receiver)
        {
            self.found.places.push(place);
        } else if ADAPTERS.iter().any(|name| it.method == name)
            || !matches!(&*it.receiver, Expr::Path(_) | Expr::Field(_))
        {
            self.visit_expr(&it.receiver);
        }
        let is_run_over = it.method == "zip" || it.method == "chain";
        let given = it.args.iter().filter(|it| is_run_over || !matches!(it, Expr::Path(_) | Expr::Field(_)));
        given.for_each(|it| self.visit_expr(it));
    }

    fn visit_expr_call(&mut self, it: &ExprCall) {
        it.args.iter().for_each(|it| self.visit_expr(it));
    }

    fn visit_expr_closure(&mut self, it: &ExprClosure) {
        let mut closure = Expr::Closure(it.clone());
        let found = changes::changed(&self.rewriter.scopes, |look| look.visit_expr_mut(&mut closure));
        // Names that the syntax does not determine are probed where they are used.
        self.found.places.extend(found.places);
    }
}
