//! Rewrites comparisons, `&&`, `||` and control flow in the bodies of annotated code.
//!
//! All other code is left unchanged.

mod advances;
mod assign;
mod blocks;
mod branch;
mod call;
mod changes;
mod choose;
mod compare;
mod context;
mod decide;
mod jumps;
mod labelled;
mod logic;
mod macros;
mod methods;
mod moves;
mod places;
mod probes;
mod repeat;
mod state;

use crate::args::is;
use crate::diag::Diags;
use crate::names::{own, own_span, shown};
use crate::refers::{self, Refers};
use crate::resolve::{Known, Mutability, Scopes, Subject, is_assignment, is_comparison};
use branch::Use;
use context::Context;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use std::collections::BTreeSet;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Arm, BinOp, Block, Expr, ExprAsync, ExprBlock, ExprClosure, ExprConst, ExprMatch, FnArg, ImplItem, Item, ItemImpl,
    Lifetime, Local, Macro, Pat, ReceiverKind, ReturnType, Signature, Stmt, Type, parse_quote,
};

/// Rewrites the body of a function with this signature.
pub fn body(sig: &Signature, block: &mut Block, rt: &TokenStream, diags: &mut Diags) {
    let mut rewriter = Rewriter::new(rt, diags);
    rewriter.scopes.push();
    for input in &sig.inputs {
        match input {
            FnArg::Receiver(it) => {
                let mutability = match (&it.mutability, &it.kind) {
                    (_, ReceiverKind::Reference(_, _, Some(_))) => Mutability::Reference,
                    (Some(_), _) => Mutability::Variable,
                    _ => Mutability::Fixed,
                };
                rewriter.behind_self = matches!(it.kind, ReceiverKind::Reference(_, _, None));
                rewriter.scopes.declare_name("self", mutability);
            }
            FnArg::Typed(it) if it.attrs.iter().any(|it| it.path().is_ident("dynamic")) => {
                rewriter.scopes.declare(&it.pat, Known::Nothing);
            }
            FnArg::Typed(it) => {
                let typed = Pat::Type(syn::PatType { attrs: Vec::new(), ..it.clone() });
                rewriter.scopes.declare(&typed, Known::Nothing);
            }
        }
    }
    let hint = match &sig.output {
        ReturnType::Default => None,
        ReturnType::Type(_, ty) => Some(ty.clone()),
    };
    *block = rewriter.function(block.clone(), hint, 0);
    block.stmts.splice(0..0, rewriter.imports());
}

/// Rewrites the methods of an impl that have a receiver.
pub fn methods(item: &mut ItemImpl, rt: &TokenStream, diags: &mut Diags) {
    for member in &mut item.items {
        if let ImplItem::Fn(method) = member
            && method.sig.receiver().is_some()
            && !method.attrs.iter().any(|it| is(it, "jit") || is(it, "no_inline"))
        {
            body(&method.sig, &mut method.block, rt, diags);
        }
    }
}

/// Rewrites a closure.
pub fn closure(closure: &mut ExprClosure, rt: &TokenStream, diags: &mut Diags) {
    let mut rewriter = Rewriter::new(rt, diags);
    rewriter.visit_expr_closure_mut(closure);
    if !rewriter.imports.is_empty() {
        let (imports, body) = (rewriter.imports(), &closure.body);
        *closure.body = parse_quote!({ #(#imports)* #body });
    }
}

/// Strips the parentheses around an expression that becomes an argument.
fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Paren(it) => bare(&it.expr),
        _ => expr,
    }
}

/// Returns the outer variables that an expression mutates, as messages spell them.
pub fn changed(scopes: &Scopes, expr: &mut Expr) -> Vec<String> {
    changes::changed(scopes, |look| look.visit_expr_mut(expr)).places.iter().map(places::PlaceExpr::name).collect()
}

struct Rewriter<'a> {
    scopes: Scopes,
    rt: &'a TokenStream,
    /// Traits that the rewritten code calls methods of.
    imports: BTreeSet<&'static str>,
    diags: &'a mut Diags,
    /// How the value of the block or expression that is visited next is used.
    used: Use,
    context: Context,
    /// The names mentioned after the current statement, in each enclosing block.
    rests: Vec<BTreeSet<String>>,
    /// The names mentioned in each enclosing loop.
    rounds: Vec<BTreeSet<String>>,
    /// The number of labels so far. Each label has a new name, since rustc warns about labels that shadow others.
    labels: usize,
    /// The argument that the method call passes to the closure that is visited next.
    item: Refers,
    /// Whether the receiver is `&self`.
    behind_self: bool,
}

impl<'a> Rewriter<'a> {
    fn new(rt: &'a TokenStream, diags: &'a mut Diags) -> Self {
        Self {
            scopes: Scopes::default(),
            rt,
            imports: BTreeSet::new(),
            diags,
            used: Use::Value(None),
            context: Context::default(),
            rests: Vec::new(),
            rounds: Vec::new(),
            labels: 0,
            item: Refers::Unknown,
            behind_self: false,
        }
    }

    /// Returns imports of the traits that the rewritten code calls methods of.
    fn imports(&self) -> Vec<Stmt> {
        let rt = self.rt;
        let import = |name: &&'static str| -> Stmt {
            let path = Ident::new(name, Span::mixed_site());
            match *name {
                probes::TRAITS => parse_quote!(use #rt::#path::*;),
                _ => parse_quote!(use #rt::#path as _;),
            }
        };
        self.imports.iter().map(import).collect()
    }

    /// Returns a new label of the expansion.
    fn label(&mut self, name: &str) -> Lifetime {
        self.labels += 1;
        Lifetime::new(&format!("'{name}{}", self.labels), Span::mixed_site())
    }

    /// Rewrites the body of a function or closure with this result. The first `mark` names are declared outside.
    fn function(&mut self, mut block: Block, result: Option<Box<Type>>, mark: usize) -> Block {
        let label = self.label("body");
        let flow = self.context.push_body(label.clone(), result.clone(), mark);
        self.used = Use::Result(result.clone());
        self.visit_block_mut(&mut block);
        if self.context.pop().flows.is_empty() {
            return block;
        }
        let (rt, name, value, at) = (self.rt, context::flow_name(flow), own("value"), self.context.at(flow));
        let ty = result.map_or_else(|| quote!(()), |ty| quote!(#ty));
        let declared = self.context.declare(flow, &ty, rt);
        let result = {
            let [name, value] = [&name, &value].map(|it| shown(it, at));
            quote_spanned!(own_span(at)=> #name.result(#value))
        };
        parse_quote! {{
            #declared
            #[allow(unreachable_code, unused_labels)]
            let #value = #label: {
                let #value: #ty = #block;
                ::core::option::Option::Some(#value)
            };
            #rt::branch_value(#result)
        }}
    }

    /// Calls `visit` in a new scope.
    fn scoped(&mut self, visit: impl FnOnce(&mut Self)) {
        self.scopes.push();
        visit(self);
        self.scopes.pop();
    }
}

impl VisitMut for Rewriter<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        let used = std::mem::replace(&mut self.used, Use::Value(None));
        if !matches!(expr, Expr::Closure(_)) {
            self.item = Refers::Unknown;
        }
        match expr {
            Expr::If(it) => {
                *expr = self.branch(&it.clone(), &used);
                return;
            }
            Expr::While(_) | Expr::Loop(_) | Expr::ForLoop(_) => return self.repeat(expr, &used),
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => {
                if let Some(jump) = self.jump(expr) {
                    *expr = jump;
                    return;
                }
            }
            Expr::Match(it) if self.is_choice(it) => {
                *expr = self.choose(&it.clone(), &used);
                return;
            }
            Expr::Block(ExprBlock { label: Some(_), .. }) => return self.labelled(expr, &used),
            Expr::Block(_) | Expr::Paren(_) | Expr::Match(_) => self.used = used.clone(),
            _ => {}
        }
        if let Expr::Call(call) = expr
            && self.scopes.calls_object(&call.func)
        {
            self.imports.insert("Invoke");
            visit_mut::visit_expr_call_mut(self, call);
            *expr = call::emit(call, self.rt);
            return;
        }
        if let Expr::MethodCall(it) = expr {
            let item = refers::passed(it, &self.scopes);
            self.visit_expr_mut(&mut it.receiver);
            for argument in &mut it.args {
                self.item = item.clone();
                self.visit_expr_mut(argument);
            }
            self.item = Refers::Unknown;
            return;
        }
        if let Expr::Assign(it) = expr
            && let Some(refused) = self.refused_assignment(&it.left, None)
        {
            *expr = refused;
            return;
        }
        let Expr::Binary(binary) = expr else {
            return visit_mut::visit_expr_mut(self, expr);
        };
        // The user's text shows whether the operands are host values, so this precedes their rewriting.
        let native = match binary.op {
            BinOp::And(_) | BinOp::Or(_) => {
                self.scopes.is_settled(&binary.left) && self.scopes.is_settled(&binary.right)
            }
            _ => self.scopes.is_native_comparison(binary),
        };
        if !native && let BinOp::And(_) | BinOp::Or(_) = binary.op {
            let it = binary.clone();
            *expr = self.logic(it, &used);
            return;
        }
        visit_mut::visit_expr_binary_mut(self, binary);
        match &binary.op {
            op if is_assignment(op) => {
                if let Some(refused) = self.refused_assignment(&binary.left, Some(op)) {
                    *expr = refused;
                }
            }
            _ if native => {}
            op if is_comparison(op) => {
                self.imports.insert("Compare");
                *expr = compare::emit(binary, self.rt);
            }
            _ => {}
        }
    }

    fn visit_block_mut(&mut self, block: &mut Block) {
        let used = std::mem::replace(&mut self.used, Use::Value(None));
        self.scoped(|this| this.statements(&mut block.stmts, &used));
    }

    fn visit_local_mut(&mut self, local: &mut Local) {
        let init = local.init.as_ref().map(|it| (*it.expr).clone());
        if let Some(it) = &mut local.init {
            self.check_pattern(&local.pat, &mut it.expr);
        }
        if let Pat::Type(it) = &local.pat {
            self.used = Use::Value(Some(it.ty.clone()));
        }
        // The scope of the name begins after its value.
        self.visit_pat_mut(&mut local.pat);
        if let Some(init) = &mut local.init {
            self.visit_expr_mut(&mut init.expr);
            if let Some((_, otherwise)) = &mut init.diverge {
                self.used = Use::Never;
                self.visit_expr_mut(otherwise);
            }
        }
        self.scopes.declare_as(&local.pat, init.as_ref());
        let bound = match &mut local.pat {
            Pat::Type(it) => &mut *it.pat,
            pat => pat,
        };
        if let (Pat::Ident(it), None) = (bound, &init)
            && it.mutability.is_none()
        {
            // Both arms of a region assign the variable.
            it.mutability = Some(Default::default());
            local.attrs.push(parse_quote!(#[allow(unused_mut)]));
        }
    }

    fn visit_expr_closure_mut(&mut self, closure: &mut ExprClosure) {
        let (item, mark) = (Subject::referring(std::mem::take(&mut self.item)), self.scopes.mark());
        self.scoped(|it| {
            closure.inputs.iter().for_each(|pat| it.scopes.declare_matched(pat, &item));
            let result = match &closure.output {
                ReturnType::Default => Some(parse_quote!(_)),
                ReturnType::Type(_, ty) => Some(ty.clone()),
            };
            let block = match &*closure.body {
                Expr::Block(body) if body.label.is_none() && body.attrs.is_empty() => body.block.clone(),
                body => parse_quote!({ #body }),
            };
            let is_block = matches!(&*closure.body, Expr::Block(_));
            let block = it.function(block, result, mark);
            *closure.body = match (&block.stmts[..], is_block) {
                ([Stmt::Expr(value, None)], false) => value.clone(),
                _ => parse_quote!(#block),
            };
        });
    }

    fn visit_expr_match_mut(&mut self, it: &mut ExprMatch) {
        let subject = self.scopes.subject(&it.expr);
        self.check_match(it);
        let used = std::mem::replace(&mut self.used, Use::Value(None));
        self.visit_expr_mut(&mut it.expr);
        for arm in &mut it.arms {
            self.used = used.clone();
            self.scoped(|this| this.arm(arm, &subject));
        }
    }

    fn visit_stmt_mut(&mut self, stmt: &mut Stmt) {
        if let Stmt::Macro(it) = stmt {
            return self.visit_macro_mut(&mut it.mac);
        }
        visit_mut::visit_stmt_mut(self, stmt);
    }

    fn visit_macro_mut(&mut self, it: &mut Macro) {
        self.macro_call(it);
    }

    /// Nested items have their own attributes.
    fn visit_item_mut(&mut self, _: &mut Item) {}

    fn visit_expr_const_mut(&mut self, _: &mut ExprConst) {}

    fn visit_expr_async_mut(&mut self, _: &mut ExprAsync) {}
}

impl Rewriter<'_> {
    fn arm(&mut self, arm: &mut Arm, subject: &Subject) {
        self.scopes.declare_matched(&arm.pat, subject);
        let used = std::mem::replace(&mut self.used, Use::Value(None));
        if let Pat::Guard(it) = &mut arm.pat {
            self.condition(&mut it.guard);
        }
        self.used = used;
        self.visit_expr_mut(&mut arm.body);
    }
}
