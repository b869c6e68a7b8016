//! Expands `#[derive(Tree)]` and `#[derive(Static)]`.

use super::fields;
use crate::diag::{Code, Diags};
use crate::names::Names;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput};

/// Expands `#[derive(Tree)]`: impls of `Arg` and `Tree`, and gradients with the same structure.
pub fn expand_tree(item: TokenStream, diags: &mut Diags) -> Option<TokenStream> {
    let input = parse("Tree", item, diags)?;
    let rt = Names::new(None).rt();
    let generics = fields::bounded(&input.generics, fields::types(&input.data).into_iter(), &[quote!(#rt::Tree)]);
    let (params, arguments, bounds) = generics.split_for_impl();
    let name = &input.ident;
    let visit = fields::visit_method(&input.data, &rt);
    let rebuild = fields::rebuild_method(&input.data, &rt);
    let template = fields::template_method(&input.data, &rt);
    let stored = fields::stored_methods(&input.data, &rt);
    let tensor = quote!(#rt::Tensor);
    Some(quote! {
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #params #rt::Arg for #name #arguments #bounds {
            #visit

            fn enter(
                &self,
                next: &mut dyn FnMut(&#tensor) -> #tensor,
            ) -> ::core::option::Option<::std::boxed::Box<Self>> {
                ::core::option::Option::Some(::std::boxed::Box::new(#rt::Tree::rebuild(self, next)))
            }
        }

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #params #rt::Tree for #name #arguments #bounds {
            #rebuild

            #template

            #stored
        }

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #params #rt::Differentiable for #name #arguments #bounds {
            type Gradient = Self;

            fn collect(&self, wrt: &mut #rt::Wrt) {
                wrt.tree(self);
            }

            fn substitute(
                &self,
                next: &mut dyn FnMut(&#tensor) -> #tensor,
            ) -> ::core::option::Option<::std::boxed::Box<Self>> {
                ::core::option::Option::Some(::std::boxed::Box::new(#rt::Tree::rebuild(self, next)))
            }

            fn gradient(&self, next: &mut dyn FnMut() -> #tensor) -> Self {
                #rt::Tree::rebuild(self, &mut |_| next())
            }
        }
    })
}

/// Expands `#[derive(Static)]`: an impl of `Arg`, and one of `Tree` that clones.
pub fn expand_static(item: TokenStream, diags: &mut Diags) -> Option<TokenStream> {
    let input = parse("Static", item, diags)?;
    let rt = Names::new(None).rt();
    let bound = [quote!(#rt::Arg), quote!(::core::clone::Clone)];
    let generics = fields::bounded(&input.generics, fields::types(&input.data).into_iter(), &bound);
    let (params, arguments, bounds) = generics.split_for_impl();
    let name = &input.ident;
    let visit = fields::visit_method(&input.data, &rt);
    Some(quote! {
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #params #rt::Arg for #name #arguments #bounds {
            #visit
        }

        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #params #rt::Tree for #name #arguments #bounds {
            fn rebuild(&self, _: &mut dyn FnMut(&#rt::Tensor) -> #rt::Tensor) -> Self {
                ::core::clone::Clone::clone(self)
            }
        }
    })
}

fn parse(derive: &str, item: TokenStream, diags: &mut Diags) -> Option<DeriveInput> {
    let input: DeriveInput = diags.parse(item)?;
    if let Data::Union(it) = &input.data {
        let message = format!("`{derive}` cannot be derived for a union");
        diags.refuse(Code::Item, it.union_token, message, "use an enum");
        return None;
    }
    Some(input)
}
