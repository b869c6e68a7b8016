//! Expands `custom_op!`, which declares an op that the program implements.

use crate::diag::{Code, Diags, Refusals};
use crate::fingerprint;
use crate::names::{Names, located};
use crate::types::last_name;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Attribute, FnArg, Item, ItemConst, ItemFn, Pat, ReturnType, Signature, Token, Type, TypeParamBound, Visibility,
};

const FORM: &str = "declare `fn name(x: &Tensor, attribute: i64) -> Tensor;`, then `fn types` and `fn run`, and where \
                    they are needed `fn derivative`, `fn batching` and `const VERSION`";

/// The maximum number of results of an op.
const MAX_RESULTS: usize = 8;

/// The declaration and the items after it.
struct Input {
    attrs: Vec<Attribute>,
    vis: Visibility,
    sig: Signature,
    items: Vec<Item>,
}

impl Parse for Input {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let sig = input.parse()?;
        input.parse::<Token![;]>()?;
        let mut items = Vec::new();
        while !input.is_empty() {
            items.push(input.parse()?);
        }
        Ok(Self { attrs, vis, sig, items })
    }
}

/// The checked signature of the op's function.
struct Declared {
    args: Vec<Argument>,
    results: usize,
}

struct Argument {
    name: Ident,
    ty: Type,
    is_operand: bool,
}

/// The items after the declaration, by name.
#[derive(Default)]
struct Rules {
    types: Option<ItemFn>,
    run: Option<ItemFn>,
    derivative: Option<ItemFn>,
    batching: Option<ItemFn>,
    version: Option<ItemConst>,
}

/// Expands to the function of the op. Its body contains the rules and the declaration.
pub fn expand(tokens: TokenStream, diags: &mut Diags) -> Option<TokenStream> {
    let source = fingerprint::of(&tokens);
    let Input { attrs, vis, sig, items } = diags.parse(tokens)?;
    let declared = declared(&sig, diags);
    let rules = rules(&sig, items, diags);
    let (declared, Rules { types: Some(types), run: Some(run), derivative, batching, version }) = (declared?, rules?)
    else {
        return None;
    };
    let rt = Names::new(None).rt();
    let core = quote!(#rt::custom);
    let (operands, attributes): (Vec<&Argument>, Vec<&Argument>) = declared.args.iter().partition(|it| it.is_operand);
    let wanted = |function: &ItemFn, count: usize, what: &str, diags: &mut Diags| {
        let given = function.sig.inputs.len();
        if given != count {
            let plural = if count == 1 { "" } else { "s" };
            let message = format!("`{}` takes {count} argument{plural}, not {given}", function.sig.ident);
            diags.refuse(Code::CustomOp, &function.sig.inputs, message, what);
        }
        given == count
    };
    let all = declared.args.len();
    let fits = [
        wanted(
            &types,
            all,
            "it takes the types of the operands, and the attributes, in the declaration's order",
            diags,
        ),
        wanted(
            &run,
            all + declared.results,
            "it takes views of the operands, and the attributes, in the declaration's order, then views of the results",
            diags,
        ),
        derivative
            .as_ref()
            .is_none_or(|it| wanted(it, 1 + attributes.len(), "it takes `it: &Vjp<'_>`, then the attributes", diags)),
        batching.as_ref().is_none_or(|it| {
            wanted(it, 1 + attributes.len(), "it takes `lanes: &BatchedCall<'_>`, then the attributes", diags)
        }),
    ];
    if fits.contains(&false) {
        return None;
    }
    // Arguments have the spans of the function's declaration, so that rustc reports them there.
    let run_types: Vec<&Type> = run.sig.inputs.iter().filter_map(type_of).collect();
    let shown = |tokens: TokenStream, argument: &FnArg| {
        located(tokens, type_of(argument).map_or_else(|| argument.span(), Spanned::span))
    };
    let attribute = |argument: &FnArg, nth: usize| shown(quote!(#core::attribute(attrs, #nth)), argument);
    let passed = |function: &ItemFn, operand: &dyn Fn(&FnArg, usize) -> TokenStream| -> Vec<TokenStream> {
        let (mut operands, mut attributes) = (0usize, 0usize);
        let mut next = |(argument, of): (&FnArg, &Argument)| {
            let count = if of.is_operand { &mut operands } else { &mut attributes };
            let nth = *count;
            *count += 1;
            if of.is_operand { operand(argument, nth) } else { attribute(argument, nth) }
        };
        function.sig.inputs.iter().zip(&declared.args).map(&mut next).collect()
    };
    let of_types = passed(&types, &|argument, nth| shown(quote!(inputs[#nth]), argument));
    let mut of_run = passed(&run, &|argument, nth| shown(quote!(#core::operand(&host[#nth])?), argument));
    let results: Vec<Ident> = (0..declared.results).map(|it| format_ident!("result{it}")).collect();
    let views = run.sig.inputs.iter().skip(all).zip(&results);
    of_run.extend(views.map(|(argument, result)| shown(quote!(#core::result(#result)?), argument)));
    let reads = declared.args.iter().zip(&run_types).filter(|it| it.0.is_operand).map(|(argument, ty)| {
        let name = argument.name.to_string();
        located(quote!((#name, <#ty as #core::OperandView<'_>>::DTYPE)), ty.span())
    });
    let writes = run_types[all..].iter().map(|ty| located(quote!(<#ty as #core::ResultView<'_>>::DTYPE), ty.span()));
    let of_rule = |function: &ItemFn| -> Vec<TokenStream> {
        function.sig.inputs.iter().skip(1).enumerate().map(|(nth, it)| attribute(it, nth)).collect()
    };
    let derivative_rule = match &derivative {
        Some(function) => {
            let (passed, name) = (of_rule(function), &function.sig.ident);
            let call = located(
                quote!(#core::gradients(&DECLARATION, it, || #name(it, #(#passed),*))),
                function.sig.output.span(),
            );
            quote!(#core::Derivative::Rule(|it| {
                let attrs = it.attrs;
                let _ = attrs;
                #call
            }))
        }
        None => quote!(#core::Derivative::None("its `custom_op!` has no `fn derivative`")),
    };
    let batching_rule = match &batching {
        Some(function) => {
            let (passed, name) = (of_rule(function), &function.sig.ident);
            quote!(#core::Batching::Rule(|lanes| {
                let attrs = lanes.attrs;
                let _ = attrs;
                #name(lanes, #(#passed),*)
            }))
        }
        None => quote!(#core::Batching::Derived),
    };
    let declarations = attributes.iter().map(|Argument { name, ty, .. }| {
        let name = name.to_string();
        let kind = located(quote!(<#ty as #core::AttributeValue<'_>>::KIND), ty.span());
        quote!(#core::AttrInfo::any(#name, #kind))
    });
    let given = attributes
        .iter()
        .map(|Argument { name, ty, .. }| located(quote!(#core::AttributeValue::attr(#name)), ty.span()));
    let operand_names = operands.iter().map(|it| &it.name);
    let (types_name, run_name) = (&types.sig.ident, &run.sig.ident);
    let outcome_at = match &run.sig.output {
        ReturnType::Type(_, ty) => ty.span(),
        ReturnType::Default => run_name.span(),
    };
    let ran = located(quote!(#run_name(#(#of_run),*)), outcome_at);
    let outcome = located(quote!(#core::Outcome::outcome), outcome_at);
    let outcome = quote!(#outcome(#ran));
    let (name, versioned) = (sig.ident.to_string(), version.is_some());
    let version = version.map(|it| quote!(#[allow(dead_code, reason = "a part of the source")] #it));
    Some(quote! {
        #(#attrs)*
        #[track_caller]
        #vis #sig {
            #types
            #run
            #derivative
            #batching
            #version

            fn __infer(attrs: &#core::Attrs, inputs: &[&#core::Type]) -> #core::Result<#core::Types> {
                let _ = attrs;
                #core::infer(inputs, &[#(#reads),*], &[#(#writes),*], |inputs| {
                    let _ = inputs;
                    #types_name(#(#of_types),*)
                })
            }

            static DECLARATION: #core::Declaration = #core::Declaration {
                module: ::core::module_path!(),
                name: #name,
                source: #source,
                versioned: #versioned,
                attrs: &[#(#declarations),*],
                rules: || #core::Rules {
                    infer: __infer,
                    eval: |attrs, inputs| {
                        #core::evaluate(__infer, attrs, inputs, |host, results| {
                            let _ = host;
                            let [#(#results),*] = results else { ::core::unreachable!("they were inferred") };
                            #outcome
                        })
                    },
                    derivative: #derivative_rule,
                    batching: #batching_rule,
                },
            };

            #core::inventory::submit! { #core::Registered(&DECLARATION) }

            #core::apply(
                &DECLARATION,
                [#(#given),*],
                &[#(&*#core::AsTensor::as_tensor(&#operand_names)),*],
            )
        }
    })
}

/// Checks the signature of the declaration.
fn declared(sig: &Signature, diags: &mut Diags) -> Option<Declared> {
    let mut refusals = Refusals::new(diags, Code::CustomOp);
    refusals.check_plain(sig, "a custom op", "`AnyView` in `fn run` takes every dtype");
    let mut refuse = |at: &dyn ToTokens, message, help| refusals.refuse(at, message, help);
    let mut args = Vec::new();
    for input in &sig.inputs {
        match input {
            FnArg::Receiver(it) => refuse(it, "a custom op is no method", "pass what it needs as arguments"),
            FnArg::Typed(it) => match (&*it.pat, is_operand(&it.ty)) {
                (Pat::Ident(name), Some(is_operand)) if name.subpat.is_none() && name.mutability.is_none() => {
                    args.push(Argument { name: name.ident.clone(), ty: (*it.ty).clone(), is_operand });
                }
                (Pat::Ident(name), None) if name.subpat.is_none() => {
                    refuse(&it.ty, "an operand of a custom op is read", "declare it as `&Tensor` or `impl AsTensor`");
                }
                _ => refuse(&it.pat, "an argument of a custom op has a name", "take it apart in `fn run`"),
            },
        }
    }
    let results = match &sig.output {
        ReturnType::Type(_, ty) => match &**ty {
            Type::Tuple(it) if it.elems.iter().all(is_tensor) => it.elems.len(),
            ty => usize::from(is_tensor(ty)),
        },
        ReturnType::Default => 0,
    };
    if !(1..=MAX_RESULTS).contains(&results) {
        let at = if sig.output.to_token_stream().is_empty() {
            sig.ident.to_token_stream()
        } else {
            sig.output.to_token_stream()
        };
        refuse(&at, "the result of a custom op is a tensor, or a tuple of up to eight", "declare `-> Tensor`");
    }
    refusals.finish().map(|()| Declared { args, results })
}

fn is_tensor(ty: &Type) -> bool {
    last_name(ty).is_some_and(|it| it == "Tensor")
}

/// Whether an argument of this type is an operand; `None` for a tensor that cannot be an operand.
fn is_operand(ty: &Type) -> Option<bool> {
    match ty {
        Type::Reference(it) if is_tensor(&it.elem) => it.mutability.is_none().then_some(true),
        Type::ImplTrait(it) => it
            .bounds
            .iter()
            .any(|it| match it {
                TypeParamBound::Trait(it) => it.path.segments.last().is_some_and(|it| it.ident == "AsTensor"),
                _ => false,
            })
            .then_some(true),
        ty if is_tensor(ty) => None,
        _ => Some(false),
    }
}

fn type_of(argument: &FnArg) -> Option<&Type> {
    match argument {
        FnArg::Typed(it) => Some(&it.ty),
        FnArg::Receiver(_) => None,
    }
}

/// Sorts the items after the declaration by name.
fn rules(sig: &Signature, items: Vec<Item>, diags: &mut Diags) -> Option<Rules> {
    let mut rules = Rules::default();
    let mut fits = true;
    for item in items {
        let slot = match &item {
            Item::Fn(it) if it.sig.ident == "types" => &mut rules.types,
            Item::Fn(it) if it.sig.ident == "run" => &mut rules.run,
            Item::Fn(it) if it.sig.ident == "derivative" => &mut rules.derivative,
            Item::Fn(it) if it.sig.ident == "batching" => &mut rules.batching,
            Item::Const(it) if it.ident == "VERSION" => {
                rules.version = Some(it.clone());
                continue;
            }
            other => {
                let at = match other {
                    Item::Fn(it) => it.sig.ident.to_token_stream(),
                    other => other.to_token_stream(),
                };
                diags.refuse(Code::CustomOp, at, "this is no part of a custom op", FORM);
                fits = false;
                continue;
            }
        };
        let Item::Fn(function) = item else { continue };
        if !function.sig.generics.params.is_empty() {
            let message = "the rules of a custom op have no type parameters";
            diags.refuse(
                Code::CustomOp,
                &function.sig.generics,
                message,
                "`AnyView` and `AnyViewMut` take every dtype",
            );
            fits = false;
        }
        if slot.is_some() {
            let message = format!("`{}` is declared twice", function.sig.ident);
            diags.refuse(Code::CustomOp, &function.sig.ident, message, "remove one of them");
            fits = false;
        }
        *slot = Some(function);
    }
    for (missing, what) in [(rules.types.is_none(), "types"), (rules.run.is_none(), "run")] {
        if missing {
            diags.refuse(Code::CustomOp, &sig.ident, format!("the custom op `{}` has no `fn {what}`", sig.ident), FORM);
            fits = false;
        }
    }
    fits.then_some(rules)
}
