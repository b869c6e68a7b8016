//! Expands `#[jit_class]` on structs and impls.

use super::{callable, cell, fields};
use crate::args::{ItemArgs, is};
use crate::canon;
use crate::diag::{Code, Diags};
use crate::names::Names;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{DeriveInput, Field, ImplItem, Item, ItemImpl, ItemStruct};

/// Expands `#[jit_class]`.
pub fn expand(args: TokenStream, item: TokenStream, diags: &mut Diags) -> Option<TokenStream> {
    let names = ItemArgs::parse(args, diags).names();
    match diags.parse::<Item>(item)? {
        Item::Struct(it) => Some(expand_struct(it, &names, diags)),
        Item::Enum(it) => Some(expand_enum(it.into(), &names)),
        Item::Impl(it) => Some(expand_impl(it, &names, diags)),
        other => {
            let help = "write it on the type and on the impl with its methods";
            diags.refuse(Code::Item, other, "`#[jit_class]` applies to a struct, an enum or an impl", help);
            None
        }
    }
}

fn expand_struct(item: ItemStruct, names: &Names, diags: &mut Diags) -> TokenStream {
    if item.attrs.iter().any(|it| is(it, "cell")) {
        cell::refuse_class(item.struct_token, &item.ident, diags);
        return item.into_token_stream();
    }
    let rt = names.rt();
    let parts: Vec<(usize, &Field)> = item.fields.iter().enumerate().collect();
    let visit = fields::visit_some_method(None, &parts, &rt);
    let methods = callable::field_methods(&item, &parts, &rt);
    let argument = argument(&DeriveInput::from(item.clone()), &item, visit, &rt);
    quote!(#argument #methods)
}

fn expand_enum(item: DeriveInput, names: &Names) -> TokenStream {
    let rt = names.rt();
    let visit = fields::visit_method(&item.data, &rt);
    argument(&item, &item, visit, &rt)
}

/// Emits the item and its impl of `Arg`. A derived `Tree` or `Static` implements `Arg` already.
fn argument(input: &DeriveInput, item: &impl ToTokens, visit: TokenStream, rt: &TokenStream) -> TokenStream {
    if input.attrs.iter().any(derives_arg) {
        return item.to_token_stream();
    }
    let generics = fields::bounded(&input.generics, fields::types(&input.data).into_iter(), &[quote!(#rt::Arg)]);
    let (params, arguments, bounds) = generics.split_for_impl();
    let name = &input.ident;
    quote! {
        #item

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #params #rt::Arg for #name #arguments #bounds {
            #visit
        }
    }
}

fn derives_arg(attr: &syn::Attribute) -> bool {
    let mut found = false;
    if attr.path().is_ident("derive") {
        // rustc reports a list that does not parse.
        let _ = attr.parse_nested_meta(|meta| {
            found |= meta.path.segments.last().is_some_and(|it| it.ident == "Tree" || it.ident == "Static");
            Ok(())
        });
    }
    found
}

fn expand_impl(mut item: ItemImpl, names: &Names, diags: &mut Diags) -> TokenStream {
    canon::methods(&mut item, &names.rt(), diags);
    let call = item.items.iter().find_map(|it| match it {
        ImplItem::Fn(method) if method.sig.ident == "call" && item.trait_.is_none() => Some(method),
        _ => None,
    });
    let callable = call.map(|it| callable::callable(&it.sig, &item, &names.rt()));
    let apply = call.map(|it| callable::apply(&it.sig, &item, &names.rt()));
    quote!(#item #callable #apply)
}
