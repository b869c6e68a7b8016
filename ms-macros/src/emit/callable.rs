//! Emits the code that makes cells callable: `self.fc1(&x)`, `net.call(&x, &y)`, `net(&x, &y)`.

use crate::names::Names;
use crate::types::last_name;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Field, FnArg, GenericParam, Ident as Name, ImplItemFn, ItemImpl, ItemStruct, Lifetime, ReceiverKind, ReturnType,
    Signature, Type,
};

/// Methods of `Arg`, `Cell` and `Clone`: a field with such a name cannot be called like a method.
const RESERVED: &[&str] = &[
    "visit",
    "enter",
    "named_parameters",
    "parameters",
    "trainable_parameters",
    "set_train",
    "clone",
    "call",
    "apply",
];

/// The numbers of arguments, besides one, with which a field can be called.
const COUNTS: &[usize] = &[0, 2, 3, 4, 5, 6];

/// Names of types that are certainly not cells, and are not called.
const VALUES: &[&str] = &[
    "Parameter",
    "Tensor",
    "String",
    "Option",
    "Vec",
    "Training",
    "Frozen",
    "bool",
    "char",
    "i8",
    "i16",
    "i32",
    "i64",
    "isize",
    "u8",
    "u16",
    "u32",
    "u64",
    "usize",
    "f32",
    "f64",
    "DType",
    "PhantomData",
];

/// Emits methods with the names of the fields, which call the cells in them.
///
/// The methods belong to hidden traits, so that the user's inherent methods take precedence. Each field has one trait
/// for each number of arguments. The bound of the trait's impl holds only for the number that the cell takes. Method
/// resolution finds the fallback method behind one more reference when no bound holds. The fallback carries the error
/// message.
pub fn field_methods(item: &ItemStruct, fields: &[(usize, &Field)], rt: &TokenStream) -> Option<TokenStream> {
    let fields: Vec<(&Name, &Type)> = fields
        .iter()
        .filter_map(|(_, field)| Some((field.ident.as_ref()?, &field.ty)))
        .filter(|it| RESERVED.iter().all(|taken| it.0 != taken))
        .collect();
    if fields.is_empty() {
        return None;
    }
    let (_, arguments, _) = item.generics.split_for_impl();
    let name = &item.ident;
    let methods = format_ident!("__{}Fields", name);
    let lifetime = lifetime();
    let called = fields.iter().filter(|it| !is_value(it.1));
    let counted = called.flat_map(|(field, ty)| {
        std::iter::once(applied(item, field, ty, None, rt))
            .chain(COUNTS.iter().map(|&count| applied(item, field, ty, Some(count), rt)))
    });
    let mut generics = item.generics.clone();
    let outer = Lifetime::new("'__s", Span::call_site());
    generics.params.insert(0, syn::parse_quote!(#outer));
    let (params, _, bounds) = generics.split_for_impl();
    let (plain, _, plain_bounds) = item.generics.split_for_impl();
    let declared = fields.iter().map(|(field, ty)| {
        quote! {
            fn #field<#lifetime>(
                &self,
                argument: <#ty as #rt::Apply<#lifetime>>::Argument,
            ) -> <#ty as #rt::Apply<#lifetime>>::Output
            where
                #ty: #rt::Apply<#lifetime>;
        }
    });
    let defined = fields.iter().map(|(field, ty)| {
        quote! {
            #[inline]
            #[track_caller]
            fn #field<#lifetime>(
                &self,
                argument: <#ty as #rt::Apply<#lifetime>>::Argument,
            ) -> <#ty as #rt::Apply<#lifetime>>::Output
            where
                #ty: #rt::Apply<#lifetime>,
            {
                #rt::Apply::apply(&self.#field, argument)
            }
        }
    });
    Some(quote! {
        #(#counted)*

        #[doc(hidden)]
        #[allow(dead_code, non_camel_case_types)]
        trait #methods #plain #plain_bounds {
            #(#declared)*
        }

        #[automatically_derived]
        impl #params #methods #arguments for &#outer #name #arguments #bounds {
            #(#defined)*
        }
    })
}

/// Whether the last name of a type, or its form, shows that it is not a cell.
fn is_value(ty: &Type) -> bool {
    match ty {
        Type::Path(_) => last_name(ty).is_some_and(|last| VALUES.iter().any(|it| last == it)),
        _ => true,
    }
}

/// Emits the trait that calls a field with `count` arguments. `None` stands for one argument of the type that the cell
/// determines.
fn applied(item: &ItemStruct, field: &Name, ty: &Type, count: Option<usize>, rt: &TokenStream) -> TokenStream {
    let name = &item.ident;
    let method = format_ident!("__{}_{}_{}", name, field, count.unwrap_or(1));
    let types: Vec<Ident> = (0..count.unwrap_or(0)).map(|i| format_ident!("__A{i}")).collect();
    let arguments: Vec<Ident> = (0..count.unwrap_or(1)).map(|i| format_ident!("argument{i}")).collect();
    let lifetime = lifetime();
    let (apply, bound) = match count {
        None => (quote!(#rt::Apply::apply(&self.#field, #(#arguments)*)), quote!(#rt::Apply<#lifetime>)),
        Some(_) => (
            quote!(#rt::ApplyAll::apply_all(&self.#field, (#(#arguments,)*))),
            quote!(#rt::ApplyAll<#lifetime, Arguments = (#(#types,)*)>),
        ),
    };
    let (declared, argument, output) = match count {
        None => (
            quote!(
                type Argument;
            ),
            Some(quote!(type Argument = <#ty as #rt::Apply<#lifetime>>::Argument;)),
            quote!(<#ty as #rt::Apply<#lifetime>>::Output),
        ),
        Some(_) => (TokenStream::new(), None, quote!(<#ty as #rt::ApplyAll<#lifetime>>::Output)),
    };
    let parameters = match count {
        None => quote!(, #(#arguments: Self::Argument)*),
        Some(_) => quote!(#(, #arguments: #types)*),
    };
    let mut generics = item.generics.clone();
    generics.params.insert(0, syn::parse_quote!(#lifetime));
    generics.params.extend(types.iter().map(|it| -> GenericParam { syn::parse_quote!(#it) }));
    generics.make_where_clause().predicates.push(syn::parse_quote!(#ty: #bound));
    let (params, _, bounds) = generics.split_for_impl();
    let (_, of, _) = item.generics.split_for_impl();
    quote! {
        #[doc(hidden)]
        #[allow(dead_code, non_camel_case_types)]
        trait #method<#lifetime #(, #types)*> {
            #declared
            type Output;

            fn #field(&self #parameters) -> Self::Output;
        }

        #[automatically_derived]
        impl #params #method<#lifetime #(, #types)*> for #name #of #bounds {
            #argument
            type Output = #output;

            #[inline]
            #[track_caller]
            fn #field(&self #parameters) -> Self::Output {
                #apply
            }
        }
    }
}

/// Emits `call` with the signature of `construct`, and the impls that make the cell callable.
pub fn call(construct: &ImplItemFn, item: &ItemImpl, names: &Names) -> TokenStream {
    let rt = names.rt();
    let (params, _, bounds) = item.generics.split_for_impl();
    let ty = &item.self_ty;
    let mut sig = construct.sig.clone();
    sig.ident = Name::new("call", construct.sig.ident.span());
    let arguments = plain_arguments(&mut sig);
    let apply = apply(&construct.sig, item, &rt);
    let callable = callable(&sig, item, &rt);
    quote! {
        impl #params #ty #bounds {
            /// Runs the cell: see `construct`.
            #[inline]
            #[track_caller]
            #[allow(dead_code)]
            pub #sig {
                self.construct(#(#arguments),*)
            }
        }

        #apply
        #callable
    }
}

/// Gives every parameter a plain name, and returns these names.
pub(super) fn plain_arguments(sig: &mut Signature) -> Vec<Ident> {
    let mut names = Vec::new();
    for (i, input) in sig.inputs.iter_mut().enumerate() {
        if let FnArg::Typed(typed) = input {
            typed.attrs.clear();
            let name = match &*typed.pat {
                syn::Pat::Ident(it) => it.ident.clone(),
                _ => format_ident!("argument{i}"),
            };
            *typed.pat = syn::parse_quote!(#name);
            names.push(name);
        }
    }
    names
}

/// Emits the impl of `Apply` for a method of one argument, and of `ApplyAll` otherwise.
pub fn apply(call: &Signature, item: &ItemImpl, rt: &TokenStream) -> Option<TokenStream> {
    let types = argument_types(call)?;
    let (params, bounds) = with_lifetime(item);
    let ty = &item.self_ty;
    let output = output(call);
    let lifetime = lifetime();
    let method = &call.ident;
    let [argument] = &types[..] else {
        let indices = (0..types.len()).map(syn::Index::from);
        return Some(quote! {
            #[automatically_derived]
            #[diagnostic::do_not_recommend]
            impl #params #rt::ApplyAll<#lifetime> for #ty #bounds {
                type Arguments = (#(#types,)*);
                type Output = #output;

                #[inline]
                #[track_caller]
                fn apply_all(&self, arguments: (#(#types,)*)) -> #output {
                    self.#method(#(arguments.#indices),*)
                }
            }
        });
    };
    Some(quote! {
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #params #rt::Apply<#lifetime> for #ty #bounds {
            type Argument = #argument;
            type Output = #output;

            #[inline]
            #[track_caller]
            fn apply(&self, argument: #argument) -> #output {
                self.#method(argument)
            }
        }
    })
}

/// Emits the impl of `Callable` that forwards to `call`, which has this signature.
pub fn callable(call: &Signature, item: &ItemImpl, rt: &TokenStream) -> Option<TokenStream> {
    let types = argument_types(call)?;
    let (params, bounds) = with_lifetime(item);
    let ty = &item.self_ty;
    let output = output(call);
    let indices = (0..types.len()).map(syn::Index::from);
    Some(quote! {
        #[automatically_derived]
        #[diagnostic::do_not_recommend]
        impl #params #rt::Callable<(#(#types,)*)> for #ty #bounds {
            type Output = #output;

            #[inline]
            #[track_caller]
            fn call_with(&self, arguments: (#(#types,)*)) -> #output {
                self.call(#(arguments.#indices),*)
            }
        }
    })
}

/// Returns the lifetime of borrowed arguments.
fn lifetime() -> Lifetime {
    Lifetime::new("'__a", Span::call_site())
}

/// Returns the types of the arguments, borrowed for [`lifetime`]. Returns `None` for signatures that the trait cannot
/// express: without `&self`, with type parameters, or with `impl Trait`.
fn argument_types(sig: &Signature) -> Option<Vec<Type>> {
    let shared = matches!(sig.receiver()?.kind, ReceiverKind::Reference(_, _, None));
    let simple = sig.generics.params.iter().all(|it| matches!(it, GenericParam::Lifetime(_)));
    let mut borrow = WithLifetime { opaque: false };
    let types = sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) => {
            let mut ty = (*typed.ty).clone();
            borrow.visit_type_mut(&mut ty);
            Some(ty)
        }
        FnArg::Receiver(_) => None,
    });
    let types = types.collect();
    (shared && simple && !borrow.opaque).then_some(types)
}

/// Gives every reference the lifetime of [`lifetime`].
struct WithLifetime {
    opaque: bool,
}

impl VisitMut for WithLifetime {
    fn visit_type_reference_mut(&mut self, it: &mut syn::TypeReference) {
        if it.lifetime.as_ref().is_none_or(|lifetime| lifetime.ident != "static") {
            it.lifetime = Some(lifetime());
        }
        visit_mut::visit_type_reference_mut(self, it);
    }

    fn visit_lifetime_mut(&mut self, it: &mut Lifetime) {
        if it.ident != "static" {
            *it = lifetime();
        }
    }

    fn visit_type_impl_trait_mut(&mut self, _: &mut syn::TypeImplTrait) {
        self.opaque = true;
    }
}

pub(super) fn output(sig: &Signature) -> TokenStream {
    match &sig.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ty) => quote!(#ty),
    }
}

/// Returns the parameters and bounds of the impl's generics with [`lifetime`] added.
fn with_lifetime(item: &ItemImpl) -> (TokenStream, TokenStream) {
    let mut generics = item.generics.clone();
    let lifetime = lifetime();
    generics.params.insert(0, syn::parse_quote!(#lifetime));
    let (params, _, bounds) = generics.split_for_impl();
    (quote!(#params), quote!(#bounds))
}
