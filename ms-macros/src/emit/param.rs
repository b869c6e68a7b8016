//! Emits the parameters of a compiled function: how each is added to the signature, entered, and bound in the body.

use super::receiver;
use crate::args::{JitArgs, take_flag};
use crate::diag::{Code, Diags};
use crate::names::{located, own, own_nth, respan};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{FnArg, Pat, Receiver, ReceiverKind, Signature, Type};

/// The code of one parameter.
pub struct Param {
    /// Statements before the call begins.
    pub prepare: TokenStream,
    /// Visits the argument for the signature.
    pub visit: TokenStream,
    /// Creates the value for the body.
    pub enter: TokenStream,
    /// Binds the value to the user's name, inside the body.
    pub bind: TokenStream,
    /// For `&mut`: the code that writes the caller's value.
    pub written: Option<MutableArgument>,
    /// For a donated parameter: the caller's value, and its name once the call has begun.
    pub donated: Option<(TokenStream, Ident)>,
}

/// An argument behind `&mut`.
pub struct MutableArgument {
    /// The statement that writes the new value to the caller's.
    pub write: TokenStream,
    /// The closure that replaces the tensors of the caller's value.
    pub replace: TokenStream,
    /// The name of the body's copy.
    pub copy: Ident,
}

/// How a parameter is declared.
#[derive(PartialEq, Eq)]
enum Mode {
    Owned,
    Donated,
    Shared,
    Mutable,
    Dynamic,
}

/// Parses the parameters, and replaces their patterns in the signature by plain names. `cell` is the type of the cell
/// for a `construct`.
pub fn params(
    sig: &mut Signature,
    args: &JitArgs,
    cell: Option<&Type>,
    rt: &TokenStream,
    call: &Ident,
    sink: &Ident,
    diags: &mut Diags,
) -> Vec<Param> {
    let emit = Emit { args, cell, rt, call, sink };
    let mut arguments = Vec::new();
    let params = sig.inputs.iter_mut().enumerate().filter_map(|(i, input)| match input {
        FnArg::Receiver(receiver) => emit.receiver(i, receiver, diags),
        FnArg::Typed(typed) => {
            let dynamic = take_flag(&mut typed.attrs, "dynamic", diags);
            let mode = match &*typed.ty {
                _ if dynamic => Mode::Dynamic,
                Type::Reference(it) if it.mutability.is_some() => Mode::Mutable,
                Type::Reference(_) => Mode::Shared,
                _ => Mode::Owned,
            };
            let pat = typed.pat.to_token_stream();
            let shown = pat.to_string().trim_start_matches("mut ").to_owned();
            let name = plain_name(&mut typed.pat, i);
            let at = typed.ty.span();
            let mode = emit.donated(&name, mode, typed.ty.to_token_stream(), diags);
            let of = argument_type(&typed.ty);
            let at = of.as_ref().map_or(at, Spanned::span);
            let mut param = emit.param(i, &shown, &name.to_token_stream(), &pat, mode, (of, at));
            param.visit = args.dims.wrap(&name, param.visit, rt, sink);
            arguments.push(name);
            Some(param)
        }
    });
    let params = params.collect();
    args.dims.check(&arguments, diags);
    arguments.extend(sig.receiver().map(|it| Ident::new("self", it.self_token.span)));
    args.donate.check(&arguments, diags);
    params
}

/// Returns the parameter's name. A pattern is replaced by a name of the expansion.
fn plain_name(pat: &mut Box<Pat>, i: usize) -> Ident {
    if let Pat::Ident(it) = &mut **pat
        && it.by_ref.is_none()
        && it.subpat.is_none()
    {
        it.mutability = None;
        return it.ident.clone();
    }
    let name = own_nth("param", i);
    **pat = syn::parse_quote!(#name);
    name
}

/// Returns the type of an argument, behind a reference if it is one; `None` if the body cannot name it.
fn argument_type(ty: &Type) -> Option<Type> {
    struct Opaque(bool);
    impl Visit<'_> for Opaque {
        fn visit_type_impl_trait(&mut self, _: &syn::TypeImplTrait) {
            self.0 = true;
        }
    }
    let ty = match ty {
        Type::Reference(it) => &it.elem,
        ty => ty,
    };
    let mut opaque = Opaque(false);
    opaque.visit_type(ty);
    (!opaque.0).then(|| ty.clone())
}

struct Emit<'a> {
    args: &'a JitArgs,
    /// The type of the cell for a `construct`. rustc reports a receiver that is not a cell there.
    cell: Option<&'a Type>,
    rt: &'a TokenStream,
    call: &'a Ident,
    sink: &'a Ident,
}

impl Emit<'_> {
    fn receiver(&self, i: usize, receiver: &mut Receiver, diags: &mut Diags) -> Option<Param> {
        let mode = match &receiver.kind {
            ReceiverKind::Value => Mode::Owned,
            ReceiverKind::Reference(_, _, None) => Mode::Shared,
            ReceiverKind::Reference(_, _, Some(_)) => Mode::Mutable,
            ReceiverKind::Typed(_, ty) if matches!(&**ty, Type::Reference(it) if it.mutability.is_none()) => {
                Mode::Shared
            }
            _ => {
                let message = "the receiver of a compiled method is `self`, `&self` or `&mut self`";
                diags.refuse(Code::Receiver, receiver, message, "write `&self`");
                return None;
            }
        };
        let at = receiver.self_token.span;
        let name = Ident::new("self", at);
        let mode = self.donated(&name, mode, receiver.to_token_stream(), diags);
        let mutability = receiver.mutability.take();
        let name = receiver::renamed(at);
        let mut value = receiver.self_token.to_token_stream();
        let (mut at, mut prepare) = (at, TokenStream::new());
        if let (Some(cell), Mode::Shared) = (self.cell, &mode) {
            let rt = self.rt;
            at = cell.span();
            let own = own("own");
            prepare = {
                let function = located(quote!(<#cell as #rt::Own<_>>::own), at);
                quote_spanned!(at=> let #own = #function(#value);)
            };
            value = quote!(#own);
        }
        let named = !matches!(receiver.kind, ReceiverKind::Typed(..)) && self.cell.is_none();
        let of = named.then(|| Type::Verbatim(Ident::new("Self", at).to_token_stream()));
        let mut param = self.param(i, "self", &value, &quote!(#mutability #name), mode, (of, at));
        prepare.extend(param.prepare);
        param.prepare = prepare;
        Some(param)
    }

    /// Returns the mode of an argument that may be donated, and reports a borrowed one.
    fn donated(&self, name: &Ident, mode: Mode, ty: TokenStream, diags: &mut Diags) -> Mode {
        if !self.args.donate.has(name) {
            return mode;
        }
        if mode == Mode::Owned {
            return Mode::Donated;
        }
        let message = format!("`{name}` is donated, but not taken by value");
        diags.refuse(Code::DonatedReference, ty, message, "take it by value, such as `x: Tensor`");
        mode
    }

    /// Emits the code of one parameter.
    ///
    /// `value` is the argument outside the body, and `pat` its pattern inside. `name` is the user's name, for messages.
    /// `of` is the argument's type behind a reference, if it can be named. rustc reports errors about it at the span
    /// `at`.
    fn param(
        &self,
        i: usize,
        name: &str,
        value: &TokenStream,
        pat: &TokenStream,
        mode: Mode,
        (of, at): (Option<Type>, Span),
    ) -> Param {
        let Self { rt, call, sink, .. } = self;
        // With a named type, rustc reports the type itself instead of the argument of a call.
        let ty = of.as_ref().map_or_else(|| quote!(_), ToTokens::to_token_stream);
        let arg = match (&of, &mode) {
            (Some(_), Mode::Owned | Mode::Donated | Mode::Shared) => quote!(<#ty as #rt::Arg>),
            _ => quote!(#rt::Arg),
        };
        let entered = own_nth("arg", i);
        let scalar = own_nth("scalar", i);
        let own = own_nth("own", i);
        let borrow = located(quote!(&), at);
        let shared = respan(
            match mode {
                Mode::Owned | Mode::Donated => quote!(#borrow #value),
                Mode::Shared => quote!(#value),
                Mode::Mutable => quote!((#own.get)(&*#value)),
                Mode::Dynamic => quote!(&#scalar),
            },
            at,
        );
        let clone = quote!(::core::clone::Clone::clone(&*#entered));
        let mut param = Param {
            prepare: TokenStream::new(),
            visit: {
                let visit = respan(quote!(#arg::visit(#shared, #sink)), at);
                quote!(#sink.argument(#name); #visit;)
            },
            enter: quote!(let #entered = #call.enter(#shared);),
            bind: quote!(let #pat = #clone;),
            written: None,
            donated: None,
        };
        match mode {
            Mode::Owned => {}
            Mode::Donated => {
                let kept = respan(quote!(#entered), at);
                param.enter = quote!(let #entered = #call.take(#kept););
                param.bind = quote!(let #pat = #entered;);
                param.donated = Some((value.clone(), entered));
            }
            Mode::Shared => param.bind = quote!(let #pat = &*#entered;),
            Mode::Dynamic => {
                let argument = respan(value.clone(), at);
                param.prepare = quote!(let #scalar = #rt::dynamic(#argument););
            }
            Mode::Mutable => {
                let copy = own_nth("copy", i);
                let inner = quote!(&*#call.enter(#shared));
                param.enter = quote!(let mut #copy = ::core::clone::Clone::clone(#inner););
                param.bind = quote!(let #pat = &mut #copy;);
                let function = located(quote!(<#ty as #rt::Mutable<_>>::own), at);
                param.prepare = quote_spanned!(at=> let #own = #function(&*#value););
                let next = self::own("next");
                param.written = Some(MutableArgument {
                    write: quote!(*#value = (#own.back)(#copy);),
                    replace: quote!(|#next| (#own.replace)(&mut *#value, #next)),
                    copy,
                });
            }
        }
        param
    }
}
