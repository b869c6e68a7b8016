//! Rewrites labelled blocks: code that a jump may skip is guarded, as in a function.

use super::branch::{Use, tail};
use super::context::flow_name;
use super::{Rewriter, jumps};
use crate::names::{own, own_span, shown};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::visit_mut::VisitMut;
use syn::{Expr, parse_quote};

impl Rewriter<'_> {
    /// Rewrites a block with a label.
    pub fn labelled(&mut self, expr: &mut Expr, used: &Use) {
        let Expr::Block(it) = expr else { return };
        let Some(label) = it.label.clone() else { return };
        let jumps = jumps::of_body(&self.scopes, None, &it.block);
        if !jumps.lead_to(&label) {
            self.used = used.clone();
            return self.visit_block_mut(&mut it.block);
        }
        let managed = jumps.manage(&label);
        let (start, at) = (self.start(), tail(&it.block));
        let flow = self.context.push_block(label.name.clone(), managed, start);
        self.used = used.clone();
        self.visit_block_mut(&mut it.block);
        let flows = self.context.pop().flows;
        if !flows.contains(&flow) {
            return;
        }
        let (rt, name, value, attrs, block) = (self.rt, flow_name(flow), own("value"), &it.attrs, &it.block);
        let ty = match used {
            Use::Statement | Use::Never => quote!(()),
            Use::Value(hint) | Use::Result(hint) => hint.as_ref().map_or_else(|| quote!(_), |ty| quote!(#ty)),
        };
        let declared = self.context.declare(flow, &ty, rt);
        let leave_enclosing = self.leave_enclosing(flow, flows.iter().copied());
        let result = {
            let [name, value] = [&name, &value].map(|it| shown(it, at));
            quote_spanned!(own_span(at)=> #name.result(#value))
        };
        let last = match used {
            Use::Never => self.context.leave(),
            _ => quote!(#rt::branch_value(#result)),
        };
        *expr = parse_quote! {{
            #declared
            #[allow(unreachable_code, unused_labels)]
            #(#attrs)*
            let #value = #label {
                let #value: #ty = #block;
                ::core::option::Option::Some(#value)
            };
            #leave_enclosing
            #last
        }};
    }

    /// Emits a jump to the end of the enclosing construct, for a loop or block out of which a jump may have left it.
    pub fn leave_enclosing(&self, flow: usize, mut flows: impl Iterator<Item = usize>) -> Option<TokenStream> {
        flows.any(|it| it != flow).then(|| {
            let (outer, leave) = (flow_name(self.context.innermost()), self.context.leave());
            quote!(if #outer.is_left() { #leave })
        })
    }
}
