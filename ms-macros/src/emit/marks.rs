//! Expands `#[lazy_inline]` and `#[no_inline]`.
//!
//! On cells, a mark is an associated constant of the type, which takes precedence over the constant of the trait
//! `Marked`. `#[no_inline]` also marks functions.

use super::func;
use crate::args::is;
use crate::diag::{Code, Diags};
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::{Attribute, Generics, ItemStruct};

/// A mark of a cell, by the name of its attribute.
#[derive(Clone, Copy)]
pub struct Mark(pub &'static str);

/// Makes equal calls share one sub-graph.
pub const LAZY_INLINE: Mark = Mark("lazy_inline");

/// Prevents inlining of calls.
pub const NO_INLINE: Mark = Mark("no_inline");

/// Expands `#[lazy_inline]` before `#[cell]`; `#[cell]` itself removes the attribute after it.
pub fn lazy_inline(args: TokenStream, item: TokenStream, diags: &mut Diags) -> Option<TokenStream> {
    let help = "write it on a `#[cell]` struct, or on `fn new` in its `#[cell]` impl";
    on_cell(LAZY_INLINE, args, &item, diags).or_else(|| {
        diags.refuse(Code::LazyInline, head(item), "`#[lazy_inline]` marks cells", help);
        None
    })
}

/// Expands `#[no_inline]` before `#[cell]` or `#[jit]`, or on a function alone.
pub fn no_inline(args: TokenStream, item: TokenStream, diags: &mut Diags) -> Option<TokenStream> {
    if let Some(expansion) = on_cell(NO_INLINE, args, &item, diags) {
        return Some(expansion);
    }
    let Ok(function) = syn::parse2::<syn::ImplItemFn>(item.clone()) else {
        let message = "`#[no_inline]` marks cells and functions";
        let help = "write it on a `#[cell]` struct, on its `construct`, or on a function";
        diags.refuse(Code::NoInline, head(item), message, help);
        return None;
    };
    Some(func::expand_no_inline(function, diags))
}

fn on_cell(mark: Mark, args: TokenStream, item: &TokenStream, diags: &mut Diags) -> Option<TokenStream> {
    if !args.is_empty() {
        diags.refuse(Code::UnknownOption, args, format!("`#[{}]` has no options", mark.0), "write it bare");
    }
    let item = syn::parse2::<ItemStruct>(item.clone()).ok()?;
    if !item.attrs.iter().any(|attr| is(attr, "cell")) {
        return None;
    }
    let mark = mark.of_struct(&item);
    Some(quote!(#item #mark))
}

/// Returns the first tokens of an item, for the span of an error.
fn head(item: TokenStream) -> TokenStream {
    item.into_iter().take(2).collect()
}

impl Mark {
    /// Removes the attribute from a struct's attributes. Returns the mark if it was present.
    pub fn take(self, attrs: &mut Vec<Attribute>, diags: &mut Diags) -> Option<Self> {
        crate::args::take_flag(attrs, self.0, diags).then_some(self)
    }

    /// Emits the mark of a struct.
    pub fn of_struct(self, item: &ItemStruct) -> TokenStream {
        let (_, arguments, _) = item.generics.split_for_impl();
        let name = &item.ident;
        self.of_type(&item.generics, &quote!(#name #arguments))
    }

    /// Emits the mark of a type.
    pub fn of_type(self, generics: &Generics, ty: &impl ToTokens) -> TokenStream {
        let (params, _, bounds) = generics.split_for_impl();
        let name = format_ident!("{}", self.0.to_uppercase());
        quote! {
            impl #params #ty #bounds {
                #[doc(hidden)]
                pub const #name: bool = true;
            }
        }
    }
}
