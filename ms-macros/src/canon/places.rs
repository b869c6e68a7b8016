//! What changes inside a region: places of variables that were declared outside of it.

use crate::names::own_span;
use crate::resolve::{Mutability, Scopes, is_assignment};
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Arm, Block, Expr, ExprClosure, ExprForLoop, ExprIf, ExprWhile, Item, Local, Macro, Member, Pat, Token};

/// A variable, or a part of one.
#[derive(Clone)]
pub struct Place {
    root: Ident,
    parts: Vec<Part>,
    /// Declared without a value.
    pub deferred: bool,
    /// Nothing sees it where the region is left.
    pub passes: bool,
}

#[derive(Clone, PartialEq)]
enum Part {
    Deref,
    Field(Member),
}

impl Place {
    /// A reference to the place, as the user writes it.
    pub fn borrowed(&self, mutably: bool) -> TokenStream {
        let (root, at) = (&self.root, self.span());
        let place = self.parts.iter().fold(quote!(#root), |base, part| match part {
            Part::Deref => quote_spanned!(at=> (*#base)),
            Part::Field(member) => quote_spanned!(at=> #base.#member),
        });
        if mutably { quote_spanned!(at=> &mut #place) } else { quote_spanned!(at=> &#place) }
    }

    /// The place for messages.
    pub fn name(&self) -> String {
        let fields = self.parts.iter().filter_map(|it| match it {
            Part::Deref => None,
            Part::Field(Member::Named(name)) => Some(format!(".{name}")),
            Part::Field(Member::Unnamed(index)) => Some(format!(".{}", index.index)),
        });
        format!("`{}{}`", self.root, fields.collect::<String>())
    }

    /// A name for what belongs to the place.
    pub fn ident(&self) -> Ident {
        let name: String = self.name().chars().map(|it| if it.is_alphanumeric() { it } else { '_' }).collect();
        Ident::new(&format!("__{}", name.trim_matches('_')), own_span(self.span()))
    }

    /// The variable, unless the place is what a reference leads to.
    pub fn variable(&self) -> Option<String> {
        (!self.parts.contains(&Part::Deref)).then(|| self.root.to_string())
    }

    /// Where messages point.
    pub fn span(&self) -> Span {
        self.root.span()
    }

    fn holds(&self, other: &Self) -> bool {
        self.root == other.root && other.parts.starts_with(&self.parts)
    }
}

/// The places that change in what `look` visits.
pub fn changed(scopes: &Scopes, look: impl FnOnce(&mut Changes<'_>)) -> Vec<Place> {
    let mut changes = Changes { scopes, inner: Vec::new(), found: Vec::new() };
    look(&mut changes);
    let mut places: Vec<Place> = Vec::new();
    for place in changes.found {
        if !places.iter().any(|it| it.holds(&place)) {
            places.retain(|it| !place.holds(it));
            places.push(place);
        }
    }
    places
}

/// Methods of std and of tensors that leave their receiver as it is, whatever it is.
const ASKS: &[&str] = &[
    "len",
    "is_empty",
    "iter",
    "get",
    "contains",
    "contains_key",
    "clone",
    "first",
    "last",
    "as_str",
    "as_ref",
    "as_slice",
    "is_some",
    "is_none",
    "is_ok",
    "is_err",
    "to_string",
    "to_owned",
    "to_vec",
    "keys",
    "values",
    "chars",
    "shape",
    "dtype",
    "rank",
    "dim",
    "numel",
    "item",
    "abs",
    "pow",
    "sqrt",
    "exp",
    "min",
    "max",
    "sum",
    "mean",
    "matmul",
    "reshape",
    "cast",
    "relu",
    "tanh",
    "sigmoid",
    "lt",
    "gt",
    "le",
    "ge",
    "eq",
    "ne",
    "select",
    "at",
];

/// Finds what changes.
pub struct Changes<'a> {
    scopes: &'a Scopes,
    /// Names that are declared inside.
    inner: Vec<String>,
    found: Vec<Place>,
}

impl Changes<'_> {
    fn add(&mut self, expr: &Expr) {
        if let Some(place) = self.place(expr) {
            self.found.push(place);
        }
    }

    /// What a method may change: a `mut` variable, or what a `&mut` refers to.
    fn add_receiver(&mut self, expr: &Expr) {
        let Some(mut place) = self.place(expr) else { return };
        match self.scopes.mutability(&place.root.to_string()) {
            Mutability::Reference if place.parts.is_empty() => place.parts.push(Part::Deref),
            Mutability::Fixed => return,
            _ => {}
        }
        self.found.push(place);
    }

    fn place(&self, expr: &Expr) -> Option<Place> {
        match expr {
            Expr::Path(it) => {
                let root = it.path.get_ident()?;
                let name = root.to_string();
                if self.inner.contains(&name) || !self.scopes.is_local(&name) {
                    return None;
                }
                Some(Place {
                    root: root.clone(),
                    parts: Vec::new(),
                    deferred: self.scopes.is_deferred(&name),
                    passes: false,
                })
            }
            Expr::Field(it) => self.place(&it.base).map(|mut place| {
                place.parts.push(Part::Field(it.member.clone()));
                place
            }),
            Expr::Unary(it) if matches!(it.op, syn::UnOp::Deref(_)) => self.place(&it.expr).map(|mut place| {
                place.parts.push(Part::Deref);
                place
            }),
            Expr::Index(it) => self.place(&it.expr),
            Expr::Paren(it) => self.place(&it.expr),
            _ => None,
        }
    }

    /// Looks at a loop.
    pub fn visit_loop(&mut self, cond: Option<&Expr>, pat: Option<&Pat>, body: &Block) {
        self.scoped(|this| {
            cond.into_iter().for_each(|it| this.visit_expr(it));
            pat.into_iter().for_each(|it| this.declare(it));
            this.visit_block(body);
        });
    }

    fn declare(&mut self, pat: &Pat) {
        struct Names<'a>(&'a mut Vec<String>);
        impl Visit<'_> for Names<'_> {
            fn visit_pat_ident(&mut self, it: &syn::PatIdent) {
                self.0.push(it.ident.to_string());
                visit::visit_pat_ident(self, it);
            }
        }
        Names(&mut self.inner).visit_pat(pat);
    }

    fn scoped(&mut self, look: impl FnOnce(&mut Self)) {
        let start = self.inner.len();
        look(self);
        self.inner.truncate(start);
    }

    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    let path: Expr = syn::parse_quote!(#name);
                    self.add_receiver(&path);
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                _ => {}
            }
        }
    }
}

/// Macros that only read their arguments.
const READS: &[&str] = &[
    "vec",
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "format",
    "print",
    "println",
    "eprint",
    "eprintln",
    "panic",
    "matches",
    "tensor",
    "todo",
    "unreachable",
];

impl<'ast> Visit<'ast> for Changes<'_> {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Assign(it) => self.add(&it.left),
            Expr::Binary(it) if is_assignment(&it.op) => self.add(&it.left),
            Expr::Reference(it) if it.mutability.is_some() => self.add(&it.expr),
            Expr::MethodCall(it) if !ASKS.iter().any(|name| it.method == name) => self.add_receiver(&it.receiver),
            Expr::Call(it) => self.add_receiver(&it.func),
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.scoped(|it| visit::visit_block(it, block));
    }

    fn visit_local(&mut self, local: &'ast Local) {
        visit::visit_local(self, local);
        self.declare(&local.pat);
    }

    fn visit_expr_let(&mut self, it: &'ast syn::ExprLet) {
        visit::visit_expr_let(self, it);
        self.declare(&it.pat);
    }

    fn visit_expr_if(&mut self, it: &'ast ExprIf) {
        self.scoped(|this| {
            this.visit_expr(&it.cond);
            this.visit_block(&it.then_branch);
        });
        if let Some((_, other)) = &it.else_branch {
            self.visit_expr(other);
        }
    }

    fn visit_expr_while(&mut self, it: &'ast ExprWhile) {
        self.scoped(|this| {
            this.visit_expr(&it.cond);
            this.visit_block(&it.body);
        });
    }

    fn visit_expr_for_loop(&mut self, it: &'ast ExprForLoop) {
        self.visit_expr(&it.expr);
        self.scoped(|this| {
            this.declare(&it.pat);
            this.visit_block(&it.body);
        });
    }

    fn visit_expr_closure(&mut self, it: &'ast ExprClosure) {
        self.scoped(|this| {
            it.inputs.iter().for_each(|pat| this.declare(pat));
            this.visit_expr(&it.body);
        });
    }

    fn visit_arm(&mut self, it: &'ast Arm) {
        self.scoped(|this| {
            this.declare(&it.pat);
            visit::visit_arm(this, it);
        });
    }

    fn visit_macro(&mut self, it: &'ast Macro) {
        let named = |names: &[&str]| names.iter().any(|name| it.path.is_ident(name));
        let arguments = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(it.tokens.clone());
        match arguments {
            Ok(arguments) if named(READS) || named(&["write", "writeln"]) => {
                if !named(READS)
                    && let Some(to) = arguments.first()
                {
                    self.add_receiver(to);
                }
                // The visitor's lifetime is that of the text; these trees are made here.
                for argument in &arguments {
                    let inner = std::mem::take(&mut self.inner);
                    let found = changed_in(self.scopes, &inner, argument);
                    self.inner = inner;
                    self.found.extend(found);
                }
            }
            _ => self.tokens(it.tokens.clone()),
        }
    }

    fn visit_item(&mut self, _: &'ast Item) {}
}

fn changed_in(scopes: &Scopes, inner: &[String], expr: &Expr) -> Vec<Place> {
    let mut changes = Changes { scopes, inner: inner.to_vec(), found: Vec::new() };
    changes.visit_expr(expr);
    changes.found
}
