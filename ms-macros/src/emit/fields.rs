//! Emits methods that visit and rebuild the fields of structs and enums.

use crate::names::{own, own_nth};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Data, Field, Fields, GenericParam, Generics, Member, Type, TypeParamBound, parse_quote};

/// The constructor of a struct, or of a variant of an enum.
struct Shape<'a> {
    /// `Self` or `Self::Variant`.
    path: TokenStream,
    fields: &'a Fields,
    /// The number of the variant; `None` for a struct.
    variant: Option<u64>,
}

fn shapes(data: &Data) -> Vec<Shape<'_>> {
    match data {
        Data::Struct(it) => vec![Shape { path: quote!(Self), fields: &it.fields, variant: None }],
        Data::Enum(it) => it
            .variants
            .iter()
            .enumerate()
            .map(|(i, variant)| {
                let name = &variant.ident;
                Shape { path: quote!(Self::#name), fields: &variant.fields, variant: Some(i as u64) }
            })
            .collect(),
        Data::Union(_) => Vec::new(),
    }
}

impl Shape<'_> {
    /// Emits the pattern `Self::V { 0: __field0, name: __field1 }`.
    fn pattern(&self) -> TokenStream {
        let path = &self.path;
        let fields = self.fields.members().enumerate().map(|(i, member)| {
            let field = own_nth("field", i);
            quote!(#member: #field)
        });
        quote!(#path { #(#fields),* })
    }

    fn visits(&self, rt: &TokenStream, sink: &Ident) -> TokenStream {
        let number = self.variant.map(|number| quote!(#sink.fixed(#number);));
        let fields = self.fields.iter().enumerate();
        let visits = fields.map(|(i, field)| visit_field(own_nth("field", i), field, i, rt, sink));
        quote!(#number #(#visits)*)
    }
}

/// Emits `Name::Field("name")`, or `Name::Index(0)` for a field without a name.
fn field_name(ident: Option<&Ident>, i: usize, rt: &TokenStream) -> TokenStream {
    match ident {
        Some(ident) => {
            let name = ident.unraw().to_string();
            quote!(#rt::Name::Field(#name))
        }
        None => quote!(#rt::Name::Index(#i)),
    }
}

/// Emits the visit of one field; `value` is a reference to it. rustc reports a type that is not an `Arg` at the type.
fn visit_field(value: impl ToTokens, field: &Field, i: usize, rt: &TokenStream, sink: &Ident) -> TokenStream {
    let (ty, name) = (&field.ty, field_name(field.ident.as_ref(), i, rt));
    let visit = quote_spanned!(ty.span()=> <#ty as #rt::Arg>::visit(#value, #sink););
    quote!(#sink.begin(#name); #visit #sink.end();)
}

/// Emits the method `visit` of a struct for some of its fields, each with its number. A cell with a name also records
/// its path.
pub fn visit_some_method(cell: Option<&Ident>, fields: &[(usize, &Field)], rt: &TokenStream) -> TokenStream {
    let sink = own("sink");
    let cell = cell.map(|name| {
        let name = name.unraw().to_string();
        quote!(#sink.cell(#name, self);)
    });
    let visits = fields.iter().map(|&(i, field)| {
        let member = match &field.ident {
            Some(ident) => Member::Named(ident.clone()),
            None => Member::Unnamed(i.into()),
        };
        visit_field(quote!(&self.#member), field, i, rt, &sink)
    });
    quote! {
        #[inline]
        fn visit(&self, #sink: &mut #rt::Sink<'_>) {
            #cell
            #(#visits)*
        }
    }
}

/// Emits a `match` on `self` that binds fields by reference. An enum without variants has no values.
fn match_self(arms: Vec<TokenStream>) -> TokenStream {
    if arms.is_empty() { quote!(match *self {}) } else { quote!(match self { #(#arms)* }) }
}

/// Emits the method `visit` of a value with these fields.
pub fn visit_method(data: &Data, rt: &TokenStream) -> TokenStream {
    let sink = own("sink");
    let arms = shapes(data).into_iter().map(|shape| {
        let (pattern, visits) = (shape.pattern(), shape.visits(rt, &sink));
        quote!(#pattern => { #visits })
    });
    let body = match_self(arms.collect());
    quote! {
        #[inline]
        fn visit(&self, #sink: &mut #rt::Sink<'_>) {
            #body
        }
    }
}

/// Emits the method `rebuild` of a value with these fields.
pub fn rebuild_method(data: &Data, rt: &TokenStream) -> TokenStream {
    let next = own("next");
    let arms = shapes(data).into_iter().map(|shape| {
        let (path, pattern) = (&shape.path, shape.pattern());
        let fields = shape.fields.members().zip(shape.fields).enumerate().map(|(i, (member, field))| {
            let (value, ty) = (own_nth("field", i), &field.ty);
            let rebuild = quote_spanned!(ty.span()=> <#ty as #rt::Tree>::rebuild(#value, #next));
            quote!(#member: #rebuild)
        });
        quote!(#pattern => #path { #(#fields),* },)
    });
    let body = match_self(arms.collect());
    quote! {
        fn rebuild(&self, #next: &mut dyn FnMut(&#rt::Tensor) -> #rt::Tensor) -> Self {
            #body
        }
    }
}

/// Emits the method `as_template` of a value with these fields.
pub fn template_method(data: &Data, rt: &TokenStream) -> TokenStream {
    let arms = shapes(data).into_iter().map(|shape| {
        let (path, pattern) = (&shape.path, shape.pattern());
        let fields = shape.fields.members().zip(shape.fields).enumerate().map(|(i, (member, field))| {
            let (value, ty) = (own_nth("field", i), &field.ty);
            let template = quote_spanned!(ty.span()=> <#ty as #rt::Tree>::as_template(#value));
            quote!(#member: #template)
        });
        quote!(#pattern => #path { #(#fields),* },)
    });
    let body = match_self(arms.collect());
    quote! {
        fn as_template(&self) -> Self {
            #body
        }
    }
}

/// Emits the methods `store` and `restore` of a value with these fields.
pub fn stored_methods(data: &Data, rt: &TokenStream) -> TokenStream {
    let (words, next) = (own("words"), own("next"));
    let stores = shapes(data).into_iter().map(|shape| {
        let pattern = shape.pattern();
        let number = shape.variant.map(|number| quote!(#words.push(#number);));
        let fields = shape.fields.iter().enumerate().map(|(i, field)| {
            let (value, ty) = (own_nth("field", i), &field.ty);
            quote!(&& <#ty as #rt::Tree>::store(#value, #words))
        });
        quote!(#pattern => { #number true #(#fields)* })
    });
    let stores = match_self(stores.collect());
    let made = |shape: &Shape<'_>| {
        let path = &shape.path;
        let fields = shape.fields.members().zip(shape.fields).map(|(member, field)| {
            let ty = &field.ty;
            quote!(#member: <#ty as #rt::Tree>::restore(#words, #next)?)
        });
        quote!(#path { #(#fields),* })
    };
    let restores = shapes(data).into_iter().map(|shape| {
        let value = made(&shape);
        match shape.variant {
            Some(number) => quote!(#number => #value,),
            None => value,
        }
    });
    let restores = match data {
        Data::Enum(_) => quote! {
            match #words.next()? {
                #(#restores)*
                _ => return ::core::option::Option::None,
            }
        },
        _ => quote!(#(#restores)*),
    };
    quote! {
        fn store(&self, #words: &mut ::std::vec::Vec<u64>) -> bool {
            #stores
        }

        fn restore(
            #words: &mut dyn ::core::iter::Iterator<Item = u64>,
            #next: &mut dyn FnMut() -> ::core::option::Option<#rt::Tensor>,
        ) -> ::core::option::Option<Self> {
            ::core::option::Option::Some(#restores)
        }
    }
}

/// Adds `bounds` to every type parameter that one of `types` mentions.
pub fn bounded<'a>(generics: &Generics, types: impl Iterator<Item = &'a Type>, bounds: &[TokenStream]) -> Generics {
    struct Mentioned(Vec<Ident>);
    impl<'ast> Visit<'ast> for Mentioned {
        fn visit_ident(&mut self, ident: &'ast Ident) {
            self.0.push(ident.clone());
        }
    }
    let mut mentioned = Mentioned(Vec::new());
    types.for_each(|ty| mentioned.visit_type(ty));
    let mut generics = generics.clone();
    for param in &mut generics.params {
        if let GenericParam::Type(param) = param
            && mentioned.0.contains(&param.ident)
        {
            param.bounds.extend(bounds.iter().map(|bound| -> TypeParamBound { parse_quote!(#bound) }));
        }
    }
    generics
}

/// Returns the types of all fields.
pub fn types(data: &Data) -> Vec<&Type> {
    shapes(data).into_iter().flat_map(|shape| shape.fields.iter().map(|it| &it.ty)).collect()
}
