//! Rewrites the bodies of annotated code: comparisons, `&&` and `||`, and the places where a
//! program decides. Everything else stays Rust.

mod assign;
mod call;
mod compare;
mod decide;
mod logic;
mod macros;

use crate::args::is;
use crate::diag::Diags;
use crate::resolve::{Known, Scopes, is_assignment, is_comparison, known_type};
use proc_macro2::{Ident, Span, TokenStream};
use std::collections::BTreeSet;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Arm, BinOp, Block, Expr, ExprAsync, ExprClosure, ExprConst, ExprForLoop, ExprIf, ExprMatch, ExprWhile, FnArg,
    ImplItem, Item, ItemImpl, Local, Macro, Pat, Signature, Stmt, parse_quote,
};

/// Rewrites the body of a function with this signature.
pub fn body(sig: &Signature, block: &mut Block, rt: &TokenStream, diags: &mut Diags) {
    let mut rewriter = Rewriter { scopes: Scopes::default(), rt, imports: BTreeSet::new(), diags };
    rewriter.scopes.push();
    for input in &sig.inputs {
        if let FnArg::Typed(it) = input {
            let dynamic = it.attrs.iter().any(|it| it.path().is_ident("dynamic"));
            let known = if dynamic { Known::Nothing } else { known_type(&it.ty) };
            rewriter.scopes.declare(&it.pat, known);
        }
    }
    rewriter.visit_block_mut(block);
    block.stmts.splice(0..0, rewriter.imports());
}

/// Rewrites the methods of an impl that have a receiver.
pub fn methods(item: &mut ItemImpl, rt: &TokenStream, diags: &mut Diags) {
    for member in &mut item.items {
        if let ImplItem::Fn(method) = member
            && method.sig.receiver().is_some()
            && !method.attrs.iter().any(|it| is(it, "jit"))
        {
            body(&method.sig, &mut method.block, rt, diags);
        }
    }
}

/// Rewrites a closure.
pub fn closure(closure: &mut ExprClosure, rt: &TokenStream, diags: &mut Diags) {
    let mut rewriter = Rewriter { scopes: Scopes::default(), rt, imports: BTreeSet::new(), diags };
    rewriter.visit_expr_closure_mut(closure);
    if !rewriter.imports.is_empty() {
        let (imports, body) = (rewriter.imports(), &closure.body);
        *closure.body = parse_quote!({ #(#imports)* #body });
    }
}

struct Rewriter<'a> {
    scopes: Scopes,
    rt: &'a TokenStream,
    /// Traits whose methods the rewritten code calls.
    imports: BTreeSet<&'static str>,
    diags: &'a mut Diags,
}

impl Rewriter<'_> {
    /// What brings the methods that the rewritten code calls into scope.
    fn imports(&self) -> Vec<Stmt> {
        let rt = self.rt;
        let names = self.imports.iter().map(|name| Ident::new(name, Span::mixed_site()));
        names.map(|name| parse_quote!(use #rt::#name as _;)).collect()
    }

    /// Visits inside a scope of its own.
    fn scoped(&mut self, visit: impl FnOnce(&mut Self)) {
        self.scopes.push();
        visit(self);
        self.scopes.pop();
    }
}

impl VisitMut for Rewriter<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if let Expr::Call(call) = expr
            && self.scopes.calls_object(&call.func)
        {
            self.imports.insert("Invoke");
            visit_mut::visit_expr_call_mut(self, call);
            *expr = call::emit(call);
            return;
        }
        if let Expr::Assign(it) = expr {
            assign::check(&it.left, &self.scopes, self.diags);
        }
        let Expr::Binary(binary) = expr else {
            return visit_mut::visit_expr_mut(self, expr);
        };
        // What is host for certain is judged by the user's text, before its parts are rewritten.
        let native = match binary.op {
            BinOp::And(_) | BinOp::Or(_) => {
                self.scopes.is_settled(&binary.left) && self.scopes.is_settled(&binary.right)
            }
            _ => self.scopes.is_native_comparison(binary),
        };
        visit_mut::visit_expr_binary_mut(self, binary);
        match &binary.op {
            op if is_assignment(op) => assign::check(&binary.left, &self.scopes, self.diags),
            _ if native => {}
            BinOp::And(_) | BinOp::Or(_) => *expr = logic::emit(binary, self.rt),
            op if is_comparison(op) => {
                self.imports.insert("Compare");
                *expr = compare::emit(binary, self.rt);
            }
            _ => {}
        }
    }

    fn visit_block_mut(&mut self, block: &mut Block) {
        self.scoped(|it| visit_mut::visit_block_mut(it, block));
    }

    fn visit_local_mut(&mut self, local: &mut Local) {
        let known = local.init.as_ref().map_or(Known::Nothing, |init| self.scopes.known(&init.expr));
        // The name begins after its value.
        visit_mut::visit_local_mut(self, local);
        self.scopes.declare(&local.pat, known);
    }

    fn visit_expr_closure_mut(&mut self, closure: &mut ExprClosure) {
        self.scoped(|it| {
            closure.inputs.iter().for_each(|pat| it.scopes.declare(pat, Known::Nothing));
            it.visit_expr_mut(&mut closure.body);
        });
    }

    fn visit_expr_for_loop_mut(&mut self, it: &mut ExprForLoop) {
        let host = matches!(&*it.expr, Expr::Range(_)) && self.scopes.is_host(&it.expr);
        let known = if host { Known::Host } else { Known::Nothing };
        self.visit_expr_mut(&mut it.expr);
        self.scoped(|this| {
            this.scopes.declare(&it.pat, known);
            this.visit_block_mut(&mut it.body);
        });
    }

    fn visit_expr_if_mut(&mut self, it: &mut ExprIf) {
        self.scoped(|this| {
            this.condition(&mut it.cond);
            this.visit_block_mut(&mut it.then_branch);
        });
        if let Some((_, other)) = &mut it.else_branch {
            self.visit_expr_mut(other);
        }
    }

    fn visit_expr_while_mut(&mut self, it: &mut ExprWhile) {
        self.scoped(|this| {
            this.condition(&mut it.cond);
            this.visit_block_mut(&mut it.body);
        });
    }

    fn visit_expr_match_mut(&mut self, it: &mut ExprMatch) {
        let known = self.scopes.known(&it.expr);
        self.visit_expr_mut(&mut it.expr);
        for arm in &mut it.arms {
            self.scoped(|this| this.arm(arm, known));
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

    /// Items have annotations of their own.
    fn visit_item_mut(&mut self, _: &mut Item) {}

    fn visit_expr_const_mut(&mut self, _: &mut ExprConst) {}

    fn visit_expr_async_mut(&mut self, _: &mut ExprAsync) {}
}

impl Rewriter<'_> {
    fn arm(&mut self, arm: &mut Arm, known: Known) {
        self.scopes.declare(&arm.pat, known);
        if let Pat::Guard(it) = &mut arm.pat {
            self.condition(&mut it.guard);
        }
        self.visit_expr_mut(&mut arm.body);
    }
}
