//! What is carried over the borders of a region: the places that change in it, and the ways out that
//! are taken in it.

use super::context::Way;
use super::places::Place;
use crate::names::{own_span, shown};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};

/// The statements for what changes inside a region.
pub struct State<'a> {
    /// The hidden module.
    pub rt: &'a TokenStream,
    /// The region.
    pub region: &'a syn::Ident,
    /// What changes.
    pub places: &'a [Place],
    /// The ways out that are taken inside.
    pub ways: &'a [Way],
    /// The way out of the region itself, if it is a loop.
    pub own: Option<usize>,
}

impl State<'_> {
    fn each(&self, emit: impl Fn(&Place) -> TokenStream) -> TokenStream {
        self.places.iter().filter(|it| !it.deferred).map(emit).collect()
    }

    /// Declares what the region remembers.
    pub fn held(&self) -> TokenStream {
        let (rt, region) = (self.rt, self.region);
        let held = self.each(|place| {
            let (held, name) = (place.ident(), place.name());
            match place.passes {
                true => quote!(let mut #held = #rt::passing(#name);),
                false => quote!(let mut #held = #rt::held(#name);),
            }
        });
        let deferred: TokenStream = self
            .places
            .iter()
            .filter(|it| it.deferred)
            .map(|place| {
                let (at, region) = (own_span(place.span()), shown(region, place.span()));
                quote_spanned!(at=> #region.settle();)
            })
            .collect();
        let ways = self.ways.iter().map(Way::held);
        quote!(#held #(let mut #ways = #rt::held_flow();)* #deferred)
    }

    /// Keeps the places as they are before the region.
    pub fn save(&self) -> TokenStream {
        let region = self.region;
        let ways = self.ways.iter().map(|it| {
            let (held, flow, at, region) = (it.held(), it.name(), own_span(it.at), shown(region, it.at));
            quote_spanned!(at=> #region.save_flow(&mut #held, &#flow);)
        });
        let places = self.each(|place| {
            let (held, at, region) = (place.ident(), own_span(place.span()), shown(region, place.span()));
            let place = place.borrowed(false);
            quote_spanned!(at=> #region.save(&mut #held, #place);)
        });
        quote!(#places #(#ways)*)
    }

    /// Brings the places over a border.
    pub fn carry(&self) -> TokenStream {
        let region = self.region;
        let ways = self.ways.iter().map(|it| {
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
        quote!(#(#ways)* #places)
    }
}
