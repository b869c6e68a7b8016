//! Expands `#[cell]` on structs and impls.

use super::func::{self, Compiles, Func};
use super::marks::{LAZY_INLINE, NO_INLINE};
use super::{bprop, callable, fields};
use crate::args::{FieldArgs, ItemArgs, JitArgs, is, take_flag, take_jit};
use crate::canon;
use crate::diag::{Code, Diags};
use crate::names::Names;
use crate::types::last_name;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::{Field, FnArg, ImplItem, ImplItemFn, Item, ItemImpl, ItemStruct, ReceiverKind, Type, parse_quote};

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
    if let Some(at) = item.attrs.iter().position(|it| is(it, "jit_class")) {
        refuse_class(item.attrs.remove(at), &item.ident, diags);
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
        #[diagnostic::do_not_recommend]
        impl #params #rt::Arg for #name #arguments #bounds {
            #visit
        }

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
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
    let mut extra = TokenStream::new();
    let mut construct = None;
    let (bprop, mut diverted) = (bprop::find_bprop(&item), None);
    let defines_try_call = item.items.iter().any(|it| matches!(it, ImplItem::Fn(it) if it.sig.ident == "try_call"));
    for member in &mut item.items {
        let ImplItem::Fn(method) = member else { continue };
        if method.sig.ident == "new" {
            let mark = LAZY_INLINE.take(&mut method.attrs, diags);
            extra.extend(mark.map(|it| it.of_type(&item.generics, &item.self_ty)));
        }
        if method.sig.ident == "construct" {
            let is_method = check_receiver(method, diags);
            construct = Some(method.clone());
            if !is_method {
                *member = ImplItem::Verbatim(func::stub(method.clone().into()));
                continue;
            }
            if let Some(bprop) = &bprop
                && bprop::check(bprop, method, diags)
            {
                diverted = bprop::move_body(method, bprop, names);
            }
            *member = ImplItem::Verbatim(compiled(method, &item.self_ty, defines_try_call, names, diags));
        }
    }
    item.items.extend(diverted.map(ImplItem::Fn));
    if construct.is_none() {
        construct = misnamed(&item, diags);
        item.items.extend(construct.clone().map(|it| ImplItem::Verbatim(func::stub(it.into()))));
    }
    // The impl holds `construct` as tokens that are already rewritten.
    canon::methods(&mut item, &names.rt(), diags);
    if let Some(construct) = construct
        && !defines_call(&item, diags)
    {
        extra.extend(callable::call(&construct, &item, names));
    }
    if diags.count() > 0 {
        item.attrs.push(parse_quote!(#[allow(unused)]));
    }
    Some(quote!(#item #extra))
}

/// Reports a method that is meant to be `construct`, and returns it in the form of one.
fn misnamed(item: &ItemImpl, diags: &mut Diags) -> Option<ImplItemFn> {
    let method = item.items.iter().find_map(|it| match it {
        ImplItem::Fn(method) if method.sig.ident == "forward" && method.sig.receiver().is_some() => Some(method),
        _ => None,
    })?;
    let message = "the method that `call` runs is named `construct`";
    diags.refuse(Code::Construct, &method.sig.ident, message, "rename `forward` to `construct`");
    let mut construct = method.clone();
    construct.sig.ident = Ident::new("construct", method.sig.ident.span());
    Some(construct)
}

/// Emits the compiled `construct`. With `#[jit]` the cell gets `try_call`, unless it has the method already, or
/// `construct` returns a `Result` itself.
fn compiled(
    method: &mut ImplItemFn,
    ty: &Type,
    defines_try_call: bool,
    names: &Names,
    diags: &mut Diags,
) -> TokenStream {
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
        cell: Some(ty.clone()),
        has_try_call: matches!(compiles, Compiles::CellAlways { .. })
            && !defines_try_call
            && !func::is_result(&method.sig.output),
    };
    func::emit(func, &format!("{}::construct", type_name(ty)), compiles, &args, names, diags)
}

/// Checks that the receiver of `construct` is `&self`, and otherwise reports it and writes `&self` there. Returns
/// whether it was `&self`.
fn check_receiver(construct: &mut ImplItemFn, diags: &mut Diags) -> bool {
    match construct.sig.inputs.first_mut() {
        Some(FnArg::Receiver(it)) if matches!(it.kind, ReceiverKind::Reference(_, _, None)) => return true,
        Some(FnArg::Receiver(it)) => {
            let help = "write `&self`; a `Parameter` is written through a shared reference";
            diags.refuse(Code::Construct, &*it, "`construct` takes `&self`", help);
            *it = parse_quote!(&self);
        }
        _ => {
            diags.refuse(Code::Construct, &construct.sig, "`construct` is a method", "write `&self` first");
            construct.sig.inputs.insert(0, parse_quote!(&self));
        }
    }
    false
}

/// Reports a method with the name `call`, which the expansion of `construct` defines.
fn defines_call(item: &ItemImpl, diags: &mut Diags) -> bool {
    let call = item.items.iter().find_map(|it| match it {
        ImplItem::Fn(method) if method.sig.ident == "call" => Some(&method.sig),
        _ => None,
    });
    if let Some(sig) = call {
        let message = "`call` is made from `construct`, with the same signature";
        diags.refuse(Code::Construct, sig, message, "remove this method or give it another name");
    }
    call.is_some()
}

/// Returns the last path segment of a type, for messages.
fn type_name(ty: &Type) -> String {
    last_name(ty).map_or_else(|| ty.to_token_stream().to_string(), ToString::to_string)
}
