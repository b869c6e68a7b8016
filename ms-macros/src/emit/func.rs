//! Expands `#[jit]`: a call of the function computes a signature, and is traced, compiled and run.
//!
//! ```text
//! fn f(x: &Tensor, n: usize) -> Tensor {
//!     static FUNCTION: JitFn = JitFn::new(..);
//!     let mut call = FUNCTION.begin(type_key(&|| {}), |sink| { Arg::visit(x, sink); Arg::visit(&n,
//! sink) });
//!     if let Some(result) = call.cached::<Tensor>() { return result }
//!     let (arg0, arg1) = (call.enter(x), call.enter(&n));
//!     call.finish(move || -> Tensor { let x = &*arg0; let n = arg1.clone(); { the body } })
//! }
//! ```
//!
//! The body stays inside its function, so that `Self`, type parameters and bounds keep their meaning. This holds for
//! free functions, methods and trait methods.

use super::param::{MutableArgument, Param, params};
use super::{callable, receiver};
use crate::args::{JitArgs, is, take_flag, take_jit};
use crate::canon;
use crate::diag::{Code, Diags};
use crate::fingerprint;
use crate::names::{Names, own};
use crate::statics;
use crate::types::last_name;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, FnArg, ImplItemFn, Item, ReturnType, Safety, Signature, Stmt, Type, Visibility, parse_quote,
};

/// A function or a method with a body.
pub struct Func {
    /// Attributes except our own.
    pub attrs: Vec<Attribute>,
    /// Visibility.
    pub vis: Visibility,
    /// Signature.
    pub sig: Signature,
    /// Body.
    pub block: Block,
    /// Whether its calls inside compiled code are never inlined.
    pub no_inline: bool,
    /// For a `construct`: the type of the cell.
    pub cell: Option<Type>,
    /// Whether `try_call`, which returns errors as values, is emitted too.
    pub has_try_call: bool,
}

/// When a function compiles.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Compiles {
    /// Wherever it is called.
    Always {
        /// Whether the user promises that the result of tracing depends on the arguments alone.
        pure: bool,
    },
    /// Wherever it is called, as the `construct` of a cell.
    CellAlways {
        /// Whether the user promises that the result of tracing depends on the arguments alone.
        pure: bool,
    },
    /// In graph mode, as the `construct` of a cell.
    CellInGraphMode,
    /// Only as a part of other functions.
    AsPart,
}

impl Compiles {
    fn is_pure(self) -> bool {
        matches!(self, Self::Always { pure: true } | Self::CellAlways { pure: true })
    }

    fn is_cell(self) -> bool {
        matches!(self, Self::CellAlways { .. } | Self::CellInGraphMode)
    }
}

/// Expands `#[jit]`.
pub fn expand(args: TokenStream, item: TokenStream, diags: &mut Diags) -> Option<TokenStream> {
    let args = JitArgs::parse(args, diags);
    let mut func = parse(item, diags)?;
    func.no_inline = take_flag(&mut func.attrs, "no_inline", diags);
    let name = func.sig.ident.to_string();
    Some(emit(func, &name, Compiles::Always { pure: args.pure }, &args, &args.names(), diags))
}

/// Expands `#[no_inline]` on a function, with `#[jit]` after it or without.
pub fn expand_no_inline(item: ImplItemFn, diags: &mut Diags) -> TokenStream {
    let mut func = Func { no_inline: true, ..Func::from(item) };
    let args = take_jit(&mut func.attrs, diags);
    let compiles = args.as_ref().map_or(Compiles::AsPart, |it| Compiles::Always { pure: it.pure });
    let args = args.unwrap_or_default();
    let name = func.sig.ident.to_string();
    emit(func, &name, compiles, &args, &args.names(), diags)
}

impl From<ImplItemFn> for Func {
    fn from(it: ImplItemFn) -> Self {
        let (no_inline, cell, has_try_call) = (false, None, false);
        Self { attrs: it.attrs, vis: it.vis, sig: it.sig, block: it.block, no_inline, cell, has_try_call }
    }
}

fn parse(item: TokenStream, diags: &mut Diags) -> Option<Func> {
    // Parsing as a method accepts a receiver, which a free function cannot have.
    if let Ok(it) = syn::parse2::<ImplItemFn>(item.clone()) {
        return Some(it.into());
    }
    if let Ok(it) = syn::parse2::<syn::TraitItemFn>(item.clone()) {
        let help = "write `#[jit]` on the method in each impl";
        diags.refuse(Code::Item, &it.sig, "`#[jit]` compiles functions with a body", help);
        return None;
    }
    let (at, what, help) = match diags.parse::<Item>(item)? {
        Item::Struct(it) => (
            it.struct_token.into_token_stream(),
            "a struct",
            "write `#[cell]` on the struct and on its impl, and `#[jit]` on the methods that are to be compiled",
        ),
        Item::Enum(it) => (it.enum_token.into_token_stream(), "an enum", "derive `Static` or `Tree` for it"),
        Item::Impl(it) => {
            (it.impl_token.into_token_stream(), "an impl", "write `#[jit]` on its methods, or `#[cell]` on the impl")
        }
        Item::Trait(it) => (it.trait_token.into_token_stream(), "a trait", "write `#[jit]` on the method in each impl"),
        Item::Mod(it) => (it.mod_token.into_token_stream(), "a module", "write `#[jit]` on its functions"),
        other => (other.into_token_stream(), "this item", "write `#[jit]` on a function or a method"),
    };
    diags.refuse(Code::Item, at, format!("`#[jit]` compiles functions and methods, not {what}"), help);
    None
}

/// Emits the function around its traced body. Messages and reports use `name`.
pub fn emit(
    mut func: Func,
    name: &str,
    compiles: Compiles,
    args: &JitArgs,
    names: &Names,
    diags: &mut Diags,
) -> TokenStream {
    let refused = diags.count();
    check_modifiers(&func.sig, diags);
    check_result(&func.sig.output, diags);
    if diags.count() > refused {
        return stub(func);
    }
    let signature = func.sig.clone();
    let Func { sig, block, .. } = &func;
    let hash = fingerprint::of(&quote!(#sig #block));
    let rt = names.rt();
    let (function, call, sink) = (own("FUNCTION"), own("call"), own("sink"));
    statics::report(&mut func.block, compiles.is_pure(), names, diags);
    canon::body(&func.sig, &mut func.block, &rt, diags);
    let errors = diags.count();
    let params = params(&mut func.sig, args, func.cell.as_ref(), &rt, &call, &sink, diags);
    if diags.count() > errors {
        return stub(Func { sig: signature, ..func });
    }
    if func.sig.receiver().is_some() {
        receiver::rename(&mut func.block);
    }

    let constructor = match compiles {
        Compiles::CellInGraphMode => quote!(cell),
        Compiles::AsPart => quote!(part),
        Compiles::Always { .. } | Compiles::CellAlways { .. } => quote!(new),
    };
    let pure = compiles.is_pure().then(|| quote!(.pure()));
    let (begin, marks) = begin(compiles, func.no_inline, &rt);
    let line = quote_spanned!(func.sig.ident.span()=> ::core::line!());
    let prepare = params.iter().map(|it| &it.prepare);
    let visits = params.iter().map(|it| &it.visit);
    // `&mut` arguments are written only where the result is no error.
    func.has_try_call &= params.iter().all(|it| it.written.is_none());
    let run = run(&func, &params, &rt, &call);
    let track = (!func.attrs.iter().any(|it| it.path().is_ident("track_caller"))).then(|| quote!(#[track_caller]));
    // An expression that an error replaces uses none of its variables.
    let allow = (diags.count() > refused).then(|| quote!(#[allow(unused, deprecated)]));
    let Func { attrs, vis, sig, .. } = &func;
    let head = quote!(#(#attrs)* #allow #track);
    let body = quote! {
        static #function: #rt::JitFn = #rt::JitFn::#constructor(#name, ::core::file!(), #line, #hash)#pure;
        #(#prepare)*
        let mut #call = #function.#begin(#rt::type_key(&|| {}), #marks |#sink| { #(#visits)* });
        #run
    };
    match func.has_try_call {
        true => with_try_call(&func, head, body, &rt),
        false => quote!(#head #vis #sig { #body }),
    }
}

/// Emits a `construct` and its `try_call`. Both call a generic method with the body: its result, a tree or a `Result`
/// of one, determines what an error becomes.
fn with_try_call(func: &Func, head: TokenStream, body: TokenStream, rt: &TokenStream) -> TokenStream {
    let Func { vis, sig, .. } = func;
    let (ty, returned, called) = (callable::output(sig), returned(), own("called"));
    let mut generic = sig.clone();
    generic.ident = called.clone();
    generic.generics.params.push(parse_quote!(#returned: #rt::JitReturn<Tree = #ty>));
    generic.output = parse_quote!(-> #returned);
    let mut construct = sig.clone();
    let arguments = callable::plain_arguments(&mut construct);
    let mut tried = construct.clone();
    tried.ident = Ident::new("try_call", sig.ident.span());
    tried.output = parse_quote!(-> #rt::Result<#ty>);
    quote! {
        #head
        #generic { #body }

        #head
        #[inline]
        #vis #construct { self.#called(#(#arguments),*) }

        /// Runs the cell like `call`, and returns an error of the library as `Err`.
        #[inline]
        #[track_caller]
        #[allow(dead_code)]
        pub #tried { self.#called(#(#arguments),*) }
    }
}

/// Returns the name of the type parameter for the result of the method behind `construct` and `try_call`.
fn returned() -> Ident {
    own("Returned")
}

/// Emits the function without its body, for a signature with an error. rustc then does not check the body.
pub fn stub(func: Func) -> TokenStream {
    let Func { mut attrs, vis, mut sig, block, .. } = func;
    attrs.retain(|it| !["jit", "no_inline", "lazy_inline"].iter().any(|name| is(it, name)));
    for input in &mut sig.inputs {
        if let FnArg::Typed(it) = input {
            it.attrs.retain(|it| !it.path().is_ident("dynamic"));
        }
    }
    // A result `impl Trait` takes its type from the body.
    let opaque = matches!(&sig.output, ReturnType::Type(_, ty) if quote!(#ty).to_string().contains("impl "));
    let body = if opaque { quote!(#block) } else { quote!({ ::core::unimplemented!() }) };
    quote!(#(#attrs)* #[allow(unused_variables)] #vis #sig #body)
}

/// Emits the start of a call and the argument with its marks. Only cells and functions that are not inlined have marks.
fn begin(compiles: Compiles, no_inline: bool, rt: &TokenStream) -> (TokenStream, Option<TokenStream>) {
    let no_inline = match (compiles.is_cell(), no_inline) {
        (false, false) => return (quote!(begin), None),
        (true, false) => quote!(Self::NO_INLINE),
        (_, true) => quote!(true),
    };
    let marks = match compiles.is_cell() {
        true => quote!({
            use #rt::Marked as _;
            #rt::Marks { lazy_inline: Self::LAZY_INLINE, no_inline: #no_inline }
        }),
        false => quote!(#rt::Marks { lazy_inline: false, no_inline: #no_inline }),
    };
    (quote!(begin_graph), Some(quote!(#marks,)))
}

/// Emits the code that runs an existing version, or traces the body.
fn run(func: &Func, params: &[Param], rt: &TokenStream, call: &Ident) -> TokenStream {
    // rustc would warn about unnecessary braces around a single expression.
    let block = match &func.block.stmts[..] {
        [Stmt::Expr(value, None)] => quote!(#value),
        _ => func.block.to_token_stream(),
    };
    let output = callable::output(&func.sig);
    let enters = params.iter().map(|it| &it.enter);
    let binds = params.iter().map(|it| &it.bind);
    let (result, error) = (own("result"), own("error"));
    let written: Vec<&MutableArgument> = params.iter().filter_map(|it| it.written.as_ref()).collect();
    let writes: Vec<_> = written.iter().map(|it| &it.write).collect();
    let copies: Vec<_> = written.iter().map(|it| &it.copy).collect();
    let replace = written.iter().map(|it| &it.replace);
    let given = own("given");
    let (arguments, entered): (Vec<_>, Vec<_>) = params.iter().filter_map(|it| it.donated.clone()).unzip();
    let donates = !arguments.is_empty();
    let give = donates.then(|| quote!(let mut #given = ::core::option::Option::Some((#(#arguments,)*));));
    let known = if donates { quote!(donating) } else { quote!(cached) };
    let slot = donates.then(|| quote!(&mut #given));
    // The first mention of the result's type is here, so that rustc reports an unsupported one once.
    let accept = match &func.sig.output {
        ReturnType::Default => None,
        ReturnType::Type(_, ty) => Some(quote_spanned!(ty.span()=> <#ty as #rt::JitReturn>::accept();)),
    };
    let keep = donates.then(|| quote!(let (#(#entered,)*) = #rt::take_donated(#given);));
    if writes.is_empty() {
        let (returned, body) = match func.has_try_call {
            true => {
                let body = quote!(#rt::body(|| -> #output { #(#binds)* #block }));
                (returned().into_token_stream(), quote!(#rt::JitReturn::join(#body)))
            }
            false => (output, quote!(#(#binds)* #block)),
        };
        return quote! {
            #accept
            #give
            if let ::core::option::Option::Some(#result) = #call.#known::<#returned>(#slot) {
                return #result;
            }
            #keep
            #(#enters)*
            #call.finish::<#returned>(move || -> #returned { #body })
        };
    }
    // The final values of `&mut` arguments are results too, and reuse the memory of the previous values.
    let none = quote!(&mut ::core::option::Option::None::<()>);
    let slot = slot.unwrap_or(none);
    let known = quote!(lending(&mut [#(&mut #replace),*], #slot));
    let body = quote!(#rt::body(|| -> #output { #(#binds)* #block }));
    let both = quote!((#result, (#(#copies,)*)));
    if is_result(&func.sig.output) {
        let (ok, err) = (quote!(::core::result::Result::Ok), quote!(::core::result::Result::Err));
        return quote! {
            #accept
            #give
            match #call.#known {
                ::core::option::Option::Some(#ok(#both)) => {
                    #(#writes)*
                    return #ok(#result);
                }
                ::core::option::Option::Some(#err(#error)) => return #err(#error),
                ::core::option::Option::None => {}
            }
            #keep
            #(#enters)*
            match #call.finish(move || match #body {
                #ok(#result) => #ok(#both),
                #err(#error) => #err(#error),
            }) {
                #ok(#both) => {
                    #(#writes)*
                    #ok(#result)
                }
                #err(#error) => #err(#error),
            }
        };
    }
    quote! {
        #accept
        #give
        if let ::core::option::Option::Some(#both) = #call.#known {
            #(#writes)*
            return #result;
        }
        #keep
        #(#enters)*
        let #both = #call.finish(move || { let #result = #body; #both });
        #(#writes)*
        #result
    }
}

/// Whether the result is written as a `Result`.
pub(super) fn is_result(output: &ReturnType) -> bool {
    match output {
        ReturnType::Type(_, ty) => last_name(ty).is_some_and(|it| it == "Result"),
        ReturnType::Default => false,
    }
}

fn check_modifiers(sig: &Signature, diags: &mut Diags) {
    let mut refuse = |at: TokenStream, what: &str, help: &str| {
        diags.refuse(Code::Modifier, at, format!("`{what}` functions cannot be compiled"), help);
    };
    if let Some(it) = &sig.asyncness {
        refuse(it.to_token_stream(), "async", "call a plain compiled function from the async one");
    }
    if let Some(it) = &sig.constness {
        refuse(it.to_token_stream(), "const", "remove `const`: compilation happens at run time");
    }
    if let Safety::Unsafe(it) = &sig.safety {
        refuse(it.to_token_stream(), "unsafe", "compile a safe function and call it from the unsafe one");
    }
    if let Some(it) = &sig.abi {
        refuse(it.to_token_stream(), "extern", "compile a Rust function and call it from the extern one");
    }
}

fn check_result(output: &ReturnType, diags: &mut Diags) {
    struct Find<'a>(&'a mut Diags);
    impl Visit<'_> for Find<'_> {
        fn visit_type_reference(&mut self, it: &syn::TypeReference) {
            let message = "a compiled function cannot return a reference: every call creates its results";
            self.0.refuse(
                Code::BorrowedResult,
                it,
                message,
                "return the value itself; cloning a tensor copies no data",
            );
        }

        fn visit_type_impl_trait(&mut self, it: &syn::TypeImplTrait) {
            let message = "the result of a compiled function needs a named type";
            self.0.refuse(Code::OpaqueResult, it, message, "write the type, a structure of tensors, instead of `impl`");
        }

        fn visit_type_path(&mut self, it: &syn::TypePath) {
            if let Some(lifetime) = lifetime(it) {
                let message = "a compiled function cannot return a value that borrows";
                self.0.refuse(Code::BorrowedResult, lifetime, message, "return an owned structure of tensors");
            }
            visit::visit_type_path(self, it);
        }
    }
    if let ReturnType::Type(_, ty) = output {
        Find(diags).visit_type(ty);
    }
}

/// Returns a lifetime argument of the path other than `'static`.
fn lifetime(path: &syn::TypePath) -> Option<&syn::Lifetime> {
    path.path.segments.iter().find_map(|segment| match &segment.arguments {
        syn::PathArguments::AngleBracketed(arguments) => arguments.args.iter().find_map(|it| match it {
            syn::GenericArgument::Lifetime(lifetime) if lifetime.ident != "static" => Some(lifetime),
            _ => None,
        }),
        _ => None,
    })
}
