//! `#[cell]` on structs and impls.

use super::func::{self, Compiles, Func};
use super::marks::{LAZY_INLINE, NO_INLINE};
use super::{bprop, callable, fields};
use crate::args::{FieldArgs, ItemArgs, JitArgs, is, take_flag, take_jit};
use crate::canon;
use crate::diag::{Code, Diags};
use crate::names::Names;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Field, ImplItem, ImplItemFn, Item, ItemImpl, ItemStruct, ReceiverKind, Type};

/// Expands `#[cell]`.
pub fn expand(args: TokenStream, item: TokenStream, diags: &mut Diags) -> Option<TokenStream> {
    let names = ItemArgs::parse(args, diags).names();
    match diags.parse::<Item>(item)? {
        Item::Struct(it) => Some(expand_struct(it, &names, diags)),
        Item::Impl(it) => expand_impl(it, &names, diags),
        other => {
            let help = "write it on the struct with the parameters and on the impl with `construct`";
            diags.refuse(Code::Item, other, "`#[cell]` applies to a struct or an impl", help);
            None
        }
    }
}

fn expand_struct(mut item: ItemStruct, names: &Names, diags: &mut Diags) -> TokenStream {
    if let Some(attr) = item.attrs.iter().find(|it| is(it, "jit_class")) {
        refuse_class(attr, &item.ident, diags);
    }
    let marks = [LAZY_INLINE, NO_INLINE].map(|it| it.take(&mut item.attrs, diags));
    let marks: Vec<TokenStream> = marks.iter().flatten().map(|it| it.of_struct(&item)).collect();
    let skipped: Vec<bool> = item.fields.iter_mut().map(|it| FieldArgs::take(&mut it.attrs, diags).skip).collect();
    let parts: Vec<(usize, &Field)> = item.fields.iter().enumerate().filter(|it| !skipped[it.0]).collect();

    let rt = names.rt();
    let generics = fields::bounded(&item.generics, parts.iter().map(|it| &it.1.ty), &[quote!(#rt::Arg)]);
    let (params, arguments, bounds) = generics.split_for_impl();
    let name = &item.ident;
    let visit = fields::visit_some_method(Some(&item.ident), &parts, &rt);
    let methods = callable::field_methods(&item, &parts, &rt);
    quote! {
        #item

        #[automatically_derived]
        impl #params #rt::Arg for #name #arguments #bounds {
            #visit
        }

        #[automatically_derived]
        impl #params #rt::Cell for #name #arguments #bounds {}

        #methods
        #(#marks)*
    }
}

/// Reports `#[jit_class]` on a cell.
pub fn refuse_class(at: impl ToTokens, name: impl std::fmt::Display, diags: &mut Diags) {
    let message = format!("jit_class is for user-defined types and cannot be used on a cell: `{name}`");
    diags.refuse(Code::ClassOnCell, at, message, "remove it: a cell can be used in compiled functions as it is");
}

fn expand_impl(mut item: ItemImpl, names: &Names, diags: &mut Diags) -> Option<TokenStream> {
    if let Some((path, _)) = &item.trait_ {
        let help = "write `#[cell]` on the impl with `construct`, and `#[jit]` on single methods of trait impls";
        diags.refuse(Code::Item, path, "`#[cell]` applies to inherent impls", help);
        return None;
    }
    let type_name = type_name(&item.self_ty);
    let mut extra = TokenStream::new();
    let mut construct = None;
    let (has_bprop, mut diverted) = (bprop::is_given(&item), None);
    for member in &mut item.items {
        let ImplItem::Fn(method) = member else { continue };
        if method.sig.ident == "new" {
            let mark = LAZY_INLINE.take(&mut method.attrs, diags);
            extra.extend(mark.map(|it| it.of_type(&item.generics, &item.self_ty)));
        }
        if method.sig.ident == "construct" {
            construct = Some(method.clone());
            if has_bprop {
                diverted = bprop::divert(method, names);
            }
            *member = ImplItem::Verbatim(compiled(method, &type_name, names, diags));
        }
    }
    item.items.extend(diverted.map(ImplItem::Fn));
    // `construct` is already rewritten, and is in the impl as tokens.
    canon::methods(&mut item, &names.rt(), diags);
    if let Some(construct) = construct {
        check_construct(&construct, &item, diags);
        extra.extend(callable::call(&construct, &item, names));
    }
    Some(quote!(#item #extra))
}

/// `construct`, compiled.
fn compiled(method: &mut ImplItemFn, type_name: &str, names: &Names, diags: &mut Diags) -> TokenStream {
    let (compiles, args) = match take_jit(&mut method.attrs, diags) {
        Some(args) => (Compiles::CellAlways { pure: args.pure }, args),
        None => (Compiles::CellInGraphMode, JitArgs::default()),
    };
    let no_inline = take_flag(&mut method.attrs, NO_INLINE.0, diags);
    let func = Func {
        attrs: std::mem::take(&mut method.attrs),
        vis: method.vis.clone(),
        sig: method.sig.clone(),
        block: method.block.clone(),
        no_inline,
    };
    func::emit(func, &format!("{type_name}::construct"), compiles, &args, names, diags)
}

fn check_construct(construct: &ImplItemFn, item: &ItemImpl, diags: &mut Diags) {
    match construct.sig.receiver() {
        Some(it) if matches!(it.kind, ReceiverKind::Reference(_, _, None)) => {}
        Some(it) => {
            let help = "write `&self`; a `Parameter` is written through a shared reference";
            diags.refuse(Code::Construct, it, "`construct` takes `&self`", help);
        }
        None => diags.refuse(Code::Construct, &construct.sig, "`construct` is a method", "write `&self` first"),
    }
    let call = item.items.iter().find_map(|it| match it {
        ImplItem::Fn(method) if method.sig.ident == "call" => Some(&method.sig),
        _ => None,
    });
    if let Some(sig) = call {
        let message = "`call` is made from `construct`, with the same signature";
        diags.refuse(Code::Construct, sig, message, "remove this method or give it another name");
    }
}

/// The last path segment of a type, for messages.
fn type_name(ty: &Type) -> String {
    match ty {
        Type::Path(it) => it.path.segments.last().map(|it| it.ident.to_string()),
        _ => None,
    }
    .unwrap_or_else(|| ty.to_token_stream().to_string())
}
