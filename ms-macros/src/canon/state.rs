//! Emits the state that a region carries across its borders: the places that it changes, and the exits that are taken
//! in it.

use super::context::TakenExit;
use super::places::PlaceExpr;
use crate::names::{own_span, shown};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};

/// Emits the statements for the state of a region.
pub struct State<'a> {
    /// The path to the hidden module `__rt`.
    pub rt: &'a TokenStream,
    /// The name of the region's variable.
    pub region: &'a syn::Ident,
    /// The places that the region changes.
    pub places: &'a [PlaceExpr],
    /// The exits that are taken inside the region.
    pub exits: &'a [TakenExit],
    /// The exit of the region itself, if it is a loop.
    pub own: Option<usize>,
}

/// Emits the statement at which rustc reports a variable that the region cannot change. It is the first one that needs
/// the trait, so rustc does not report the statements after it.
pub fn accepted(rt: &TokenStream, region: &syn::Ident, value: TokenStream, at: Span) -> TokenStream {
    let region = shown(region, at);
    quote_spanned!(own_span(at)=> <_ as #rt::Carry<_>>::accept(#region.kind(), #value);)
}

fn some(value: TokenStream) -> TokenStream {
    quote!(::core::option::Option::Some(#value))
}

impl State<'_> {
    fn each(&self, emit: impl Fn(&PlaceExpr) -> TokenStream) -> TokenStream {
        self.places.iter().filter(|it| !it.deferred).map(emit).collect()
    }

    /// Declares the variables for saved values.
    pub fn held(&self) -> TokenStream {
        let (rt, region) = (self.rt, self.region);
        let held = self.each(|place| {
            let (held, name) = (place.ident(), place.name());
            let accepted = accepted(rt, region, some(place.borrowed(false)), place.span());
            match place.dead_after {
                true => quote!(let mut #held = #rt::passing(#name); #accepted),
                false => quote!(let mut #held = #rt::held(#name); #accepted),
            }
        });
        let deferred: TokenStream = self
            .places
            .iter()
            .filter(|it| it.deferred)
            .map(|place| {
                let at = place.span();
                let (shown, region) = (quote_spanned!(at=> _), shown(region, at));
                quote_spanned!(own_span(at)=> <#shown as #rt::Deferring>::accept(#region.kind());)
            })
            .collect();
        let exits = self.exits.iter().map(TakenExit::held);
        quote!(#held #(let mut #exits = #rt::held_flow();)* #deferred)
    }

    /// Saves the values of the places before the region.
    pub fn save(&self) -> TokenStream {
        let region = self.region;
        let exits = self.exits.iter().map(|it| {
            let (held, flow, at, region) = (it.held(), it.name(), own_span(it.at), shown(region, it.at));
            quote_spanned!(at=> #region.save_flow(&mut #held, &#flow);)
        });
        let places = self.each(|place| {
            let (held, at, region) = (place.ident(), own_span(place.span()), shown(region, place.span()));
            let place = place.borrowed(false);
            quote_spanned!(at=> #region.save(&mut #held, #place);)
        });
        quote!(#places #(#exits)*)
    }

    /// Carries the places across a border.
    pub fn carry(&self) -> TokenStream {
        let region = self.region;
        let exits = self.exits.iter().map(|it| {
            let (held, flow, at, region) = (it.held(), it.name(), own_span(it.at), shown(region, it.at));
            let own = self.own.map(|own| {
                let own = own == it.flow;
                quote!(, #own)
            });
            quote_spanned!(at=> #region.carry_flow(&mut #held, &mut #flow #own);)
        });
        let places = self.each(|place| {
            let (held, at, region) = (place.ident(), own_span(place.span()), shown(region, place.span()));
            let place = place.borrowed(true);
            quote_spanned!(at=> #region.carry(&mut #held, #place);)
        });
        quote!(#(#exits)* #places)
    }
}
