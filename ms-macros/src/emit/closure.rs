//! Expands `jit!(|x: &Tensor| ..)`.

use crate::canon;
use crate::diag::{Code, Diags};
use crate::names::Names;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{ExprClosure, Pat, ReturnType};

/// Expands to a call of `ms::jit` with the rewritten closure.
pub fn expand(tokens: TokenStream, diags: &mut Diags) -> Option<TokenStream> {
    let mut closure: ExprClosure = diags.parse(tokens)?;
    if let Some(capture) = &closure.capture {
        let message = "a compiled closure captures nothing";
        diags.refuse(Code::Captures, capture, message, "pass what it needs as arguments, and remove `move`");
        return None;
    }
    let rt = Names::new(None).rt();
    let captures_nothing = function_type(&closure);
    canon::closure(&mut closure, &rt, diags);
    Some(match captures_nothing {
        Some(ty) => quote!(#rt::jit(#rt::uncaptured(#closure, |closure| -> #ty { closure }))),
        None => quote!(#rt::jit(#closure)),
    })
}

/// Returns the function type to which the closure coerces if it captures nothing; `None` unless all its types are
/// written.
fn function_type(closure: &ExprClosure) -> Option<TokenStream> {
    let inputs = closure.inputs.iter().map(|it| match it {
        Pat::Type(it) => Some(&it.ty),
        _ => None,
    });
    let inputs = inputs.collect::<Option<Vec<_>>>()?;
    let output = match &closure.output {
        ReturnType::Default => quote!(_),
        ReturnType::Type(_, ty) => quote!(#ty),
    };
    Some(quote!(fn(#(#inputs),*) -> #output))
}
