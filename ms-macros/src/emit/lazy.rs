//! `#[lazy_inline]`: a constant of the type, which stands before that of the trait `LazyInline`.

use crate::args::is;
use crate::diag::{Code, Diags};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Generics, ItemStruct};

/// Expands `#[lazy_inline]` where it stands before `#[cell]`; behind it, `#[cell]` takes it.
pub fn expand(args: TokenStream, item: TokenStream, diags: &mut Diags) -> Option<TokenStream> {
    if !args.is_empty() {
        diags.refuse(Code::UnknownOption, args, "`#[lazy_inline]` has no options", "write it bare");
    }
    match syn::parse2::<ItemStruct>(item.clone()) {
        Ok(it) if it.attrs.iter().any(|attr| is(attr, "cell")) => {
            let mark = mark(&it);
            Some(quote!(#it #mark))
        }
        _ => {
            let message = "`#[lazy_inline]` marks cells";
            let help = "write it on a `#[cell]` struct, or on `fn new` in its `#[cell]` impl";
            diags.refuse(Code::LazyInline, item.into_iter().take(2).collect::<TokenStream>(), message, help);
            None
        }
    }
}

/// The mark of a struct.
pub fn mark(item: &ItemStruct) -> TokenStream {
    let (_, arguments, _) = item.generics.split_for_impl();
    let name = &item.ident;
    mark_type(&item.generics, &quote!(#name #arguments))
}

/// The mark of a type.
pub fn mark_type(generics: &Generics, ty: &impl ToTokens) -> TokenStream {
    let (params, _, bounds) = generics.split_for_impl();
    quote! {
        impl #params #ty #bounds {
            #[doc(hidden)]
            pub const LAZY_INLINE: bool = true;
        }
    }
}
