//! `jit!(|x: &Tensor| ..)`.

use crate::canon;
use crate::diag::{Code, Diags};
use crate::names::Names;
use proc_macro2::TokenStream;
use quote::quote;
use syn::ExprClosure;

/// Expands to `ms::jit` of the rewritten closure.
pub fn expand(tokens: TokenStream, diags: &mut Diags) -> Option<TokenStream> {
    let mut closure: ExprClosure = diags.parse(tokens)?;
    if let Some(capture) = &closure.capture {
        let message = "a compiled closure captures nothing";
        diags.refuse(Code::Captures, capture, message, "pass what it needs as arguments, and remove `move`");
    }
    let rt = Names::new(None).rt();
    canon::closure(&mut closure, &rt, diags);
    Some(quote!(#rt::jit(#closure)))
}
