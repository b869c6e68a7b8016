//! Emits a cell with a user-defined derivative, `bprop`.

use super::callable::output;
use crate::diag::{Code, Diags};
use crate::names::Names;
use crate::types::last_name;
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::{
    FnArg, Ident, ImplItem, ImplItemFn, ItemImpl, Pat, ReturnType, Signature, Type, parse_quote, spanned::Spanned,
};

/// Returns the signature of `bprop`, if the impl defines it.
pub fn find_bprop(item: &ItemImpl) -> Option<Signature> {
    item.items.iter().find_map(|it| match it {
        ImplItem::Fn(method) if method.sig.ident == "bprop" => Some(method.sig.clone()),
        _ => None,
    })
}

/// Checks the arguments and the result of `bprop` as far as the text shows them. Returns whether they fit `construct`.
pub fn check(bprop: &Signature, construct: &ImplItemFn, diags: &mut Diags) -> bool {
    let arguments: Vec<&syn::PatType> = construct
        .sig
        .inputs
        .iter()
        .filter_map(|it| match it {
            FnArg::Typed(typed) => Some(typed),
            FnArg::Receiver(_) => None,
        })
        .collect();
    let counts = match &bprop.output {
        ReturnType::Type(_, ty) => match &**ty {
            Type::Tuple(it) => it.elems.len() == arguments.len(),
            // Any other name may be an alias of a tuple.
            Type::Path(_) => last_name(ty).is_none_or(|it| it != "Tensor"),
            _ => true,
        },
        ReturnType::Default => arguments.is_empty(),
    };
    let takes = bprop.inputs.iter().filter(|it| matches!(it, FnArg::Typed(_))).count();
    if takes == arguments.len() + 2 && counts {
        return true;
    }
    let output = output(&construct.sig);
    let owned = arguments.iter().map(|it| match &*it.ty {
        Type::Reference(it) => &*it.elem,
        ty => ty,
    });
    let (owned, one) = (quote!(#(#owned),*), if arguments.len() == 1 { "," } else { "" });
    let inputs: String = arguments.iter().map(|it| format!("{}, ", quote!(#it))).collect();
    let text = format!("fn bprop(&self, {inputs}out: &{output}, dout: &{output}) -> ({owned}{one})");
    let text = text.replace("& ", "&").replace(" : ", ": ").replace(" ,", ",");
    let message = "`bprop` takes the arguments of `construct`, its result and the gradient of that, and returns a tuple \
                   of one gradient per argument";
    diags.refuse(Code::Bprop, bprop, message, format!("write `{text}`"));
    false
}

/// Moves the body of `construct` to the returned method. `construct` then calls this method as a function with the
/// derivative `bprop`. Returns `None` if an argument is not a plain name.
pub fn move_body(construct: &mut ImplItemFn, bprop: &Signature, names: &Names) -> Option<ImplItemFn> {
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
    // rustc reports types that do not fit at the declaration of `bprop`.
    let backward = quote_spanned! { bprop.ident.span() =>
        |#(#name: #ty,)* __out: &#result, __dout: &#result| self.bprop(#(#name,)* __out, __dout)
    };
    let call = quote_spanned! { construct.block.span() =>
        #rt::custom_vjp(|#(#name: #ty),*| self.__construct(#(#name),*), #backward)(#(#name),*)
    };
    construct.block = parse_quote!({ #call });
    Some(body)
}
