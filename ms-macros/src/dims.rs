//! Parses `dims(x = [batch, 64, _])`, the sizes of arguments.

use crate::diag::Diags;
use darling::FromMeta;
use darling::ast::NestedMeta;
use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Expr, ExprArray, ExprLit, Lit, LitInt, Meta};

/// The declarations of `dims(..)`.
#[derive(Default)]
pub struct Dims(Vec<Declared>);

/// The sizes of one argument.
struct Declared {
    argument: Ident,
    axes: Vec<Axis>,
}

/// The size of one axis.
enum Axis {
    /// `_`.
    Fixed,
    /// A number.
    Exact(LitInt),
    /// The name of a symbol.
    Symbol(Ident),
}

impl FromMeta for Dims {
    fn from_list(items: &[NestedMeta]) -> darling::Result<Self> {
        let mut errors = darling::Error::accumulator();
        let declared = items.iter().filter_map(|it| errors.handle(declared(it))).collect();
        errors.finish_with(Self(declared))
    }
}

fn declared(item: &NestedMeta) -> darling::Result<Declared> {
    let refuse =
        || darling::Error::custom("expected the sizes of an argument, such as `x = [batch, _]`").with_span(item);
    let NestedMeta::Meta(Meta::NameValue(pair)) = item else { return Err(refuse()) };
    let argument = pair.path.get_ident().ok_or_else(refuse)?.clone();
    let Expr::Array(ExprArray { elems, .. }) = &pair.value else { return Err(refuse()) };
    let axis = |expr: &Expr| match expr {
        Expr::Infer(_) => Ok(Axis::Fixed),
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => Ok(Axis::Exact(number.clone())),
        Expr::Path(path) => path.path.get_ident().cloned().map(Axis::Symbol).ok_or_else(refuse),
        other => {
            let message = "a size is a name, a number, or `_` for a size that is part of the key";
            Err(darling::Error::custom(message).with_span(other))
        }
    };
    Ok(Declared { argument, axes: elems.iter().map(axis).collect::<darling::Result<_>>()? })
}

impl Dims {
    /// Reports sizes that are declared for names that are not arguments.
    pub fn check(&self, arguments: &[Ident], diags: &mut Diags) {
        for it in self.0.iter().filter(|it| !arguments.contains(&it.argument)) {
            diags.refuse_unknown_argument("dims", &it.argument, arguments);
        }
    }

    /// Emits the visit of an argument together with its declared sizes.
    pub fn wrap(&self, argument: &Ident, visit: TokenStream, rt: &TokenStream, sink: &Ident) -> TokenStream {
        let Some(declared) = self.0.iter().find(|it| it.argument == *argument) else { return visit };
        let name = argument.to_string();
        let axes = declared.axes.iter().map(|axis| match axis {
            Axis::Fixed => quote!(#rt::Size::Fixed),
            Axis::Exact(number) => quote!(#rt::Size::Exact(#number)),
            Axis::Symbol(symbol) => {
                let symbol = symbol.to_string();
                quote!(#rt::Size::Symbol(#symbol))
            }
        });
        quote! {
            #sink.sizes(::core::option::Option::Some(const { &#rt::Sizes { argument: #name, axes: &[#(#axes),*] } }));
            #visit
            #sink.sizes(::core::option::Option::None);
        }
    }
}
