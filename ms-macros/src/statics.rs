//! Reports host state that annotated code reads besides its arguments: statics, the environment, files.
//!
//! Tracing freezes such a value into the graph. Where the syntax shows it, rustc warns, and `#[jit(pure)]` makes it an
//! error.

use crate::diag::{Code, Diags};
use crate::names::Names;
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, ExprPath, ExprUnsafe, Item, PatIdent, Path, Stmt, parse_quote};

/// Host functions with results that change from call to call or from process to process, by their last two path
/// segments.
const HOST: &[(&str, &str)] = &[
    ("env", "var"),
    ("env", "var_os"),
    ("env", "vars"),
    ("env", "args"),
    ("env", "current_dir"),
    ("fs", "read"),
    ("fs", "read_to_string"),
    ("File", "open"),
    ("io", "stdin"),
    ("Instant", "now"),
    ("SystemTime", "now"),
    ("process", "id"),
];

/// Functions that create parameters.
const MAKERS: &[(&str, &str)] = &[("Parameter", "new"), ("Parameter", "init")];

/// Adds code to each block that makes rustc report the statics named in it.
pub fn report(block: &mut Block, pure: bool, names: &Names, diags: &mut Diags) {
    let mut locals = Locals(BTreeSet::new());
    locals.visit_block(block);
    if pure {
        Impure(diags).visit_block(block);
    }
    Report { rt: names.rt(), pure, locals: locals.0, named: Vec::new(), in_unsafe: false, diags }
        .visit_block_mut(block);
}

/// Collects all names that patterns bind.
struct Locals(BTreeSet<Ident>);

impl<'ast> Visit<'ast> for Locals {
    fn visit_pat_ident(&mut self, it: &'ast PatIdent) {
        self.0.insert(it.ident.clone());
        visit::visit_pat_ident(self, it);
    }
}

/// Reports calls that a pure function must not make.
struct Impure<'a>(&'a mut Diags);

impl<'ast> Visit<'ast> for Impure<'_> {
    fn visit_expr_path(&mut self, it: &'ast ExprPath) {
        if ends_with(&it.path, HOST) {
            let message = "a pure function is built from its arguments only, and this depends on the process";
            self.0.refuse(Code::Impure, it, message, "pass the value as an argument, or remove `pure`");
        } else if ends_with(&it.path, MAKERS) {
            let message = "a pure function makes no parameters: they live in the process";
            let help = "make them outside and pass the cell as an argument, or remove `pure`";
            self.0.refuse(Code::Impure, it, message, help);
        }
    }

    fn visit_item(&mut self, _: &'ast Item) {}
}

/// Gives all tokens of the path the span `span`, so that rustc points at the user's tokens only.
fn placed(path: TokenStream, span: Span) -> TokenStream {
    path.into_iter()
        .map(|mut token| {
            token.set_span(span);
            token
        })
        .collect()
}

fn ends_with(path: &Path, known: &[(&str, &str)]) -> bool {
    let mut names = path.segments.iter().rev().map(|it| &it.ident);
    let (Some(last), Some(owner)) = (names.next(), names.next()) else { return false };
    known.iter().any(|(of, name)| owner == of && last == name)
}

struct Report<'a> {
    rt: TokenStream,
    pure: bool,
    locals: BTreeSet<Ident>,
    /// The probes of statics named in the current block.
    named: Vec<Stmt>,
    in_unsafe: bool,
    diags: &'a mut Diags,
}

impl VisitMut for Report<'_> {
    fn visit_block_mut(&mut self, block: &mut Block) {
        let outer = std::mem::take(&mut self.named);
        visit_mut::visit_block_mut(self, block);
        let named = std::mem::replace(&mut self.named, outer);
        block.stmts.splice(0..0, named);
    }

    fn visit_expr_unsafe_mut(&mut self, it: &mut ExprUnsafe) {
        let outer = std::mem::replace(&mut self.in_unsafe, true);
        visit_mut::visit_expr_unsafe_mut(self, it);
        self.in_unsafe = outer;
    }

    fn visit_expr_call_mut(&mut self, it: &mut syn::ExprCall) {
        // A callee is not a static.
        if !matches!(&*it.func, Expr::Path(_)) {
            self.visit_expr_mut(&mut it.func);
        }
        it.args.iter_mut().for_each(|it| self.visit_expr_mut(it));
    }

    fn visit_expr_assign_mut(&mut self, it: &mut syn::ExprAssign) {
        // `canon` reports assignments to statics.
        self.visit_expr_mut(&mut it.right);
    }

    fn visit_expr_path_mut(&mut self, it: &mut ExprPath) {
        if !self.may_be_static(&it.path) {
            return;
        }
        let span = it.span();
        let rt = &self.rt;
        if !self.in_unsafe {
            // Only the type distinguishes a mutable static from a constant.
            let method = Ident::new(if self.pure { "pure_read" } else { "read" }, span);
            let rt = placed(rt.clone(), span);
            let probe = quote_spanned!(span=> #rt::Named(&#it).#method());
            self.named.push(parse_quote! {
                #[allow(clippy::all, clippy::declare_interior_mutable_const, clippy::borrow_interior_mutable_const)]
                if false {
                    use #rt::{ChangingStatic as _, ComputedStatic as _, FixedValue as _};
                    #probe;
                }
            });
        } else if self.pure {
            let message = "a pure function reads no static";
            self.diags.refuse(Code::Impure, it, message, "pass the value as an argument, or remove `pure`");
        } else {
            let rt = placed(rt.clone(), span);
            let warning = quote_spanned!(span=> #rt::static_mut);
            self.named.push(parse_quote!(if false { #warning(); }));
        }
    }

    fn visit_item_mut(&mut self, _: &mut Item) {}
}

impl Report<'_> {
    /// Whether the path is spelled like a static or a constant, and is not a local.
    fn may_be_static(&self, path: &Path) -> bool {
        let Some(last) = path.segments.last() else { return false };
        let name = last.ident.to_string();
        let upper = name.len() > 1 && name.contains(char::is_uppercase) && !name.contains(char::is_lowercase);
        let plain = path.segments.iter().all(|it| it.arguments.is_none());
        upper && plain && !(path.segments.len() == 1 && self.locals.contains(&last.ident))
    }
}
