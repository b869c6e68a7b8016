//! Expands `kernel!`, which compiles a function of elements to one kernel.

use crate::diag::{Code, Diags, Refusals};
use crate::names::Names;
use crate::types::last_name;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    BinOp, Block, Expr, ExprBinary, ExprIf, FnArg, Item, ItemFn, Macro, Pat, ReturnType, Signature, Type, parse_quote,
};

/// The types of operands and results.
const VALUES: [&str; 13] = ["Float", "Int", "Bool", "F32", "F64", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64"];

/// The maximum number of results of a kernel.
const MAX_RESULTS: usize = 8;

/// Expands to the function that applies the kernel. Its body contains the function of elements.
pub fn expand(tokens: TokenStream, diags: &mut Diags) -> Option<TokenStream> {
    let ItemFn { attrs, vis, mut sig, mut block, .. } = diags.parse(tokens)?;
    let rt = Names::new(None).rt();
    let mut refusals = Refusals::new(diags, Code::Kernel);
    let args = arguments(&sig, &mut refusals);
    let results = results(&sig, &mut refusals);
    Body { kernel: quote!(#rt::kernel), refusals: &mut refusals, arms: 0 }.visit_block_mut(&mut block);
    refusals.finish()?;
    let operands: Vec<&Argument> = args.iter().filter(|it| it.is_operand).collect();
    let hosts: Vec<&Argument> = args.iter().filter(|it| !it.is_operand).collect();
    let name = sig.ident.clone();
    let text = name.to_string();
    let taken = args.iter().map(|Argument { name, ty, is_operand }| match is_operand {
        true => quote!(#name: impl #rt::kernel::IntoOperand),
        false => quote!(#name: #ty),
    });
    let kinds =
        operands.iter().map(|it| &it.ty).map(|ty| quote_spanned!(ty.span()=> <#ty as #rt::kernel::Value>::KIND));
    let mut nth = 0usize;
    let passed: Vec<TokenStream> = args
        .iter()
        .map(|Argument { name, is_operand, .. }| {
            if !is_operand {
                return name.to_token_stream();
            }
            nth += 1;
            let at = nth - 1;
            quote!(#rt::kernel::Value::operand(#at))
        })
        .collect();
    let operand_names = operands.iter().map(|it| &it.name);
    sig.ident = Ident::new("__kernel", name.span());
    let made = quote!(#rt::kernel::Kernel::new(#text, &[#(#kinds),*], || __kernel(#(#passed),*)));
    // Without host arguments, one kernel serves all calls.
    let kernel = match hosts.is_empty() {
        true => quote! {
            static KERNEL: ::std::sync::LazyLock<#rt::kernel::Kernel> = ::std::sync::LazyLock::new(|| #made);
            let kernel = &*KERNEL;
        },
        false => quote!(let kernel = &#made;),
    };
    let values = VALUES.map(|it| Ident::new(it, Span::call_site()));
    let all: Vec<Ident> = (0..results).map(|it| format_ident!("result{it}")).collect();
    let (returned, given) = match &all[..] {
        [_] => (quote!(#rt::Tensor), quote!(#(#all)*)),
        several => {
            let tensors = several.iter().map(|_| quote!(#rt::Tensor));
            (quote!((#(#tensors),*)), quote!((#(#all),*)))
        }
    };
    Some(quote! {
        #(#attrs)*
        #[track_caller]
        #vis fn #name(#(#taken),*) -> #returned {
            #[allow(unused_imports, reason = "the declaration names them where it needs them")]
            use #rt::kernel::{#(#values),*};

            #sig #block

            #kernel
            let [#(#all),*] = kernel.apply(&[#(&#operand_names),*]);
            #given
        }
    })
}

/// Checks the results of the signature, and counts them.
fn results(sig: &Signature, refusals: &mut Refusals<'_>) -> usize {
    let declared = match &sig.output {
        ReturnType::Default => {
            refusals.refuse(&sig.ident, "the kernel has no result", "declare `-> Float`");
            return 0;
        }
        ReturnType::Type(_, ty) => ty,
    };
    let results: Vec<&Type> = match &**declared {
        Type::Tuple(it) => it.elems.iter().collect(),
        ty => vec![ty],
    };
    let is_tuple = matches!(&**declared, Type::Tuple(_));
    if results.iter().any(|it| !is_named(it, &VALUES)) {
        let help = "declare `-> Float`, or for several results `-> (Float, Int)`";
        refusals.refuse(declared, "the result of a kernel is a number such as `Float`, or a tuple of them", help);
    } else if results.len() > MAX_RESULTS || (is_tuple && results.len() < 2) {
        let help = "declare one kernel for each result";
        refusals.refuse(declared, "a kernel has one result, or a tuple of two to eight", help);
    }
    results.len()
}

struct Argument {
    name: Ident,
    ty: Type,
    is_operand: bool,
}

/// Checks the signature, and returns its arguments.
fn arguments(sig: &Signature, refusals: &mut Refusals<'_>) -> Vec<Argument> {
    refusals.check_plain(sig, "a kernel", "`Float` is a float of any dtype");
    let mut refuse = |at: &dyn ToTokens, message, help| refusals.refuse(at, message, help);
    let mut args = Vec::new();
    for input in &sig.inputs {
        match input {
            FnArg::Receiver(it) => refuse(it, "a kernel is no method", "pass what it needs as arguments"),
            FnArg::Typed(it) => match &*it.pat {
                Pat::Ident(name) if name.subpat.is_none() => {
                    let is_operand = is_named(&it.ty, &VALUES);
                    if is_named(&it.ty, &["Tensor"])
                        || matches!(&*it.ty, Type::Reference(it) if is_named(&it.elem, &["Tensor"]))
                    {
                        let help = "declare it as `Float`, `Int` or `Bool`: the kernel runs for every element";
                        refuse(&it.ty, "a kernel takes elements, not tensors", help);
                    }
                    args.push(Argument { name: name.ident.clone(), ty: (*it.ty).clone(), is_operand });
                }
                pattern => refuse(pattern, "an argument of a kernel has a name", "take it apart in the body"),
            },
        }
    }
    if args.len() == sig.inputs.len() && !args.iter().any(|it| it.is_operand) {
        refuse(&sig.ident, "a kernel has an operand", "declare one as `x: Float`");
    }
    args
}

fn is_named(ty: &Type, names: &[&str]) -> bool {
    last_name(ty).is_some_and(|it| names.iter().any(|name| it == name))
}

/// Rewrites comparisons, `&&`, `||`, `if` and `as` to calls of traits. Numbers of kernels and host values implement
/// these traits.
struct Body<'a, 'd> {
    kernel: TokenStream,
    refusals: &'a mut Refusals<'d>,
    /// The number of enclosing arms of `if`.
    arms: usize,
}

impl Body<'_, '_> {
    fn refuse(&mut self, at: impl ToTokens, message: &str, help: &str) {
        self.refusals.refuse(at, message, help);
    }

    fn refuse_loop(&mut self, at: impl ToTokens) {
        self.refuse(at, "a kernel has no loop on its numbers", "`for` repeats a fixed number of times");
    }

    fn refuse_jump(&mut self, at: impl ToTokens) {
        let help = "the last expression of the body is the result, and `if` selects one of two values";
        self.refuse(at, "a kernel is not left early", help);
    }

    fn refuse_assignment(&mut self, at: impl ToTokens) {
        let help = "assign the value of the `if`: `y = if condition { a } else { y };`";
        self.refuse(at, "an arm of an `if` in a kernel assigns nothing: both arms are computed", help);
    }

    fn decision(&mut self, it: &mut ExprIf) -> Option<Expr> {
        let Some((_, other)) = &mut it.else_branch else {
            self.refuse(
                it.if_token,
                "an `if` in a kernel has a value, and an `else`",
                "write `let y = if condition { a } else { b };`",
            );
            return None;
        };
        if matches!(&*it.cond, Expr::Let(_)) {
            self.refuse(&it.cond, "a kernel matches no patterns", "compare numbers");
            return None;
        }
        self.visit_expr_mut(&mut it.cond);
        self.arms += 1;
        self.visit_block_mut(&mut it.then_branch);
        self.visit_expr_mut(other);
        self.arms -= 1;
        let (kernel, condition, then) = (&self.kernel, bare(&it.cond), &it.then_branch);
        let other: Block = match &**other {
            Expr::Block(it) => it.block.clone(),
            other => parse_quote!({ #other }),
        };
        Some(expression(
            it.cond.span(),
            quote_spanned! {it.cond.span()=>
                #kernel::Decides::decide(#condition, || #then, || #other)
            },
        ))
    }

    fn binary(&self, it: &ExprBinary) -> Option<TokenStream> {
        let (kernel, left, right, span) = (&self.kernel, bare(&it.left), bare(&it.right), it.op.span());
        let call = |name: &str, a: &Expr, b: &Expr| {
            let name = Ident::new(name, span);
            quote_spanned!(span=> #kernel::Compares::#name(#a, #b))
        };
        Some(match it.op {
            BinOp::Lt(_) => call("less", left, right),
            BinOp::Le(_) => call("at_most", left, right),
            BinOp::Gt(_) => call("less", right, left),
            BinOp::Ge(_) => call("at_most", right, left),
            BinOp::Eq(_) => call("equal", left, right),
            BinOp::Ne(_) => call("unequal", left, right),
            BinOp::And(_) => quote_spanned!(span=> #kernel::Logic::and(#left, || #right)),
            BinOp::Or(_) => quote_spanned!(span=> #kernel::Logic::or(#left, || #right)),
            _ => return None,
        })
    }
}

/// Strips the parentheses around an expression. rustc would warn about them where the expression is passed on.
fn bare(mut expr: &Expr) -> &Expr {
    while let Expr::Paren(it) = expr {
        expr = &it.expr;
    }
    expr
}

/// Parses tokens that form one expression.
fn expression(span: proc_macro2::Span, tokens: TokenStream) -> Expr {
    syn::parse2(tokens).unwrap_or_else(|error| {
        let message = error.to_string();
        let tokens = quote_spanned!(span=> ::core::compile_error!(#message));
        Expr::Verbatim(tokens)
    })
}

impl VisitMut for Body<'_, '_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        match expr {
            Expr::If(it) => {
                if let Some(decision) = self.decision(it) {
                    *expr = decision;
                }
                return;
            }
            Expr::While(it) => return self.refuse_loop(it.while_token),
            Expr::Loop(it) => return self.refuse_loop(it.loop_token),
            Expr::Match(it) => {
                self.refuse(it.match_token, "a kernel matches no patterns", "write a chain of `if` and `else if`");
                return;
            }
            Expr::Return(it) => return self.refuse_jump(it.return_token),
            Expr::Break(it) => return self.refuse_jump(it.break_token),
            Expr::Continue(it) => return self.refuse_jump(it.continue_token),
            Expr::Try(it) => return self.refuse_jump(it.question_token),
            Expr::Unsafe(_) | Expr::Async(_) | Expr::Await(_) | Expr::Yield(_) => {
                let at = expr.clone();
                return self.refuse(
                    at,
                    "a kernel consists of arithmetic",
                    "compute this outside, and pass it as an argument",
                );
            }
            Expr::Cast(it) if is_named(&it.ty, &VALUES) => {
                self.visit_expr_mut(&mut it.expr);
                let (kernel, of, ty) = (&self.kernel, bare(&it.expr), &it.ty);
                let cast = quote_spanned!(it.as_token.span=> #kernel::cast::<#ty>(#of));
                *expr = expression(it.as_token.span, cast);
                return;
            }
            Expr::Assign(it) if self.arms > 0 => return self.refuse_assignment(it.eq_token),
            Expr::Binary(it) if self.arms > 0 && is_assignment(&it.op) => return self.refuse_assignment(it.op),
            _ => {}
        }
        visit_mut::visit_expr_mut(self, expr);
        if let Expr::Binary(it) = expr
            && let Some(call) = self.binary(it)
        {
            *expr = expression(it.op.span(), call);
        }
    }

    fn visit_macro_mut(&mut self, it: &mut Macro) {
        let help = "compute this outside, and pass it as an argument";
        self.refuse(&it.path, "a kernel calls no macros: it runs for every element, on the device", help);
    }

    // Functions in the body run on the host, or use numbers of kernels through their methods.
    fn visit_item_mut(&mut self, _: &mut Item) {}
}

fn is_assignment(op: &BinOp) -> bool {
    use BinOp::{AddAssign, BitAndAssign, BitOrAssign, BitXorAssign, DivAssign, MulAssign, RemAssign, ShlAssign};
    use BinOp::{ShrAssign, SubAssign};
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | BitXorAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}
