//! `bprop`: a cell with a user-defined derivative.

use super::callable::output;
use crate::names::Names;
use proc_macro2::TokenStream;
use quote::{format_ident, quote_spanned};
use syn::{FnArg, Ident, ImplItem, ImplItemFn, ItemImpl, Pat, Type, parse_quote, spanned::Spanned};

/// Whether the impl defines `bprop`.
pub fn is_given(item: &ItemImpl) -> bool {
    item.items.iter().any(|it| matches!(it, ImplItem::Fn(method) if method.sig.ident == "bprop"))
}

/// Moves the body of `construct` to a method of its own, which is returned, and makes `construct`
/// call it as a function whose derivative is `bprop`. Returns `None` if an argument is not a plain
/// name.
pub fn divert(construct: &mut ImplItemFn, names: &Names) -> Option<ImplItemFn> {
    let mut arguments: Vec<(Ident, Type)> = Vec::new();
    for input in &construct.sig.inputs {
        if let FnArg::Typed(typed) = input {
            let Pat::Ident(name) = &*typed.pat else { return None };
            arguments.push((name.ident.clone(), (*typed.ty).clone()));
        }
    }
    let rt = names.rt();
    let (name, ty): (Vec<&Ident>, Vec<&Type>) = arguments.iter().map(|(name, ty)| (name, ty)).unzip();
    let result: TokenStream = output(&construct.sig);
    let mut body = construct.clone();
    body.sig.ident = format_ident!("__construct");
    body.vis = syn::Visibility::Inherited;
    body.attrs = vec![parse_quote!(#[doc(hidden)]), parse_quote!(#[track_caller])];
    let call = quote_spanned! { construct.block.span() =>
        #rt::custom_vjp(
            |#(#name: #ty),*| self.__construct(#(#name),*),
            |#(#name: #ty,)* __out: &#result, __dout: &#result| self.bprop(#(#name,)* __out, __dout),
        )(#(#name),*)
    };
    construct.block = parse_quote!({ #call });
    Some(body)
}
