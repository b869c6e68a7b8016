//! Finds the values that are, contain or return a `&mut`, as far as the syntax shows.

use crate::resolve::Scopes;
use proc_macro2::TokenStream;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Expr, ExprCall, ExprMethodCall, GenericArgument, Ident, Member, Pat, PathArguments, Token, Type, UnOp};

/// The references in a value.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Refers {
    /// Unknown from the syntax.
    #[default]
    Unknown,
    /// A `&mut` to such a value.
    Mutable(Box<Refers>),
    /// A slice, a string slice or a trait object.
    Unsized,
    /// A value that gives mutable access to its target and may not be a `&mut`, such as the guard of a `RefCell`.
    Guard,
    /// An `Option` or a list of such values.
    Contains(Box<Refers>),
    /// An iterator over such values.
    Iterates(Box<Refers>),
    /// A map. A `for` iterates over its entries.
    Map,
    /// A tuple or a struct.
    Parts(Vec<(String, Refers)>),
}

use Refers::*;

impl Refers {
    /// Returns a `&mut` to an unknown value.
    pub fn mutable() -> Self {
        Mutable(Box::default())
    }

    /// Whether the value is a `&mut` to a value that can be carried.
    pub fn is_mutable(&self) -> bool {
        matches!(self, Mutable(to) if **to != Unsized)
    }

    /// Whether the value contains a `&mut`.
    pub fn contains_mutable(&self) -> bool {
        match self {
            Unknown | Unsized | Map => false,
            Mutable(_) | Guard => true,
            Contains(it) | Iterates(it) => it.contains_mutable(),
            Parts(parts) => parts.iter().any(|it| it.1.contains_mutable()),
        }
    }

    /// Returns the value behind references.
    fn target(&self) -> &Self {
        match self {
            Mutable(to) => to.target(),
            it => it,
        }
    }

    /// Returns the items of a `for` over the value.
    pub fn items(&self) -> Self {
        match self {
            Contains(it) | Iterates(it) => (**it).clone(),
            Mutable(to) => match &**to {
                Iterates(it) => (**it).clone(),
                it => it.items_mut(),
            },
            Guard => Guard,
            _ => Unknown,
        }
    }

    /// Returns the items of `iter_mut` on the value.
    fn items_mut(&self) -> Self {
        match self.target() {
            Map => tuple([Unknown, Self::mutable()]),
            Contains(it) => Mutable(it.clone()),
            _ => Self::mutable(),
        }
    }

    /// Returns the content of an `Option` or a `Result`.
    fn inside(&self) -> Self {
        match self {
            Contains(it) => (**it).clone(),
            Guard => Guard,
            _ => Unknown,
        }
    }

    /// Returns a part of a tuple or a struct.
    pub fn part(&self, member: &Member) -> Self {
        let name = member_name(member);
        match self.target() {
            Parts(parts) => parts.iter().find(|it| it.0 == name).map_or(Unknown, |it| it.1.clone()),
            _ => Unknown,
        }
    }

    /// Returns the values that the [`parts`] of a pattern bind when it matches.
    pub fn taken(&self, pat: &Pat) -> Vec<Self> {
        match pat {
            Pat::Tuple(it) => self.positions(it.elems.iter()),
            Pat::TupleStruct(it) => match self {
                Mutable(to) => vec![Mutable(Box::new(to.inside())); it.elems.len()],
                other => vec![other.items(); it.elems.len()],
            },
            Pat::Slice(it) => {
                let item = if matches!(self, Mutable(_)) { self.items_mut() } else { self.items() };
                let rest = if matches!(self, Mutable(_)) { Mutable(Box::new(Unsized)) } else { Unknown };
                let taken = it.elems.iter().map(|it| if is_rest(it) { rest.clone() } else { item.clone() });
                taken.collect()
            }
            Pat::Struct(it) => {
                let part = |member: &Member| match self {
                    Mutable(_) => Mutable(Box::new(self.part(member))),
                    Guard => Guard,
                    _ => self.part(member),
                };
                it.fields.iter().map(|it| part(&it.member)).collect()
            }
            Pat::Reference(_) => match self {
                Mutable(to) => vec![(**to).clone()],
                _ => vec![Unknown],
            },
            _ => Vec::new(),
        }
    }

    /// Returns the parts of a tuple by position. After `..`, positions count from the end.
    fn positions<'a>(&self, pats: impl ExactSizeIterator<Item = &'a Pat>) -> Vec<Self> {
        let count = pats.len();
        let mut behind = false;
        let part = |at: usize, behind: bool| {
            let Parts(parts) = self.target() else { return Unknown };
            let at = if behind { (parts.len() + at).checked_sub(count) } else { Some(at) };
            at.and_then(|at| parts.get(at)).map_or(Unknown, |it| it.1.clone())
        };
        let taken = pats.enumerate().map(|(at, pat)| {
            behind |= matches!(pat, Pat::Rest(_));
            match self {
                Mutable(_) => Mutable(Box::new(part(at, behind))),
                Guard => Guard,
                _ => part(at, behind),
            }
        });
        taken.collect()
    }
}

/// Returns the patterns for the parts of a value, in order.
pub fn parts(pat: &Pat) -> Vec<&Pat> {
    match pat {
        Pat::Reference(it) => vec![&*it.pat],
        Pat::Tuple(it) => it.elems.iter().collect(),
        Pat::TupleStruct(it) => it.elems.iter().collect(),
        Pat::Slice(it) => it.elems.iter().collect(),
        Pat::Struct(it) => it.fields.iter().map(|it| &*it.pat).collect(),
        _ => Vec::new(),
    }
}

/// Whether the pattern is `..` or `rest @ ..`.
fn is_rest(pat: &Pat) -> bool {
    match pat {
        Pat::Rest(_) => true,
        Pat::Ident(it) => it.subpat.as_ref().is_some_and(|it| is_rest(&it.1)),
        _ => false,
    }
}

fn member_name(member: &Member) -> String {
    match member {
        Member::Named(name) => name.to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}

fn tuple(parts: impl IntoIterator<Item = Refers>) -> Refers {
    Parts(parts.into_iter().enumerate().map(|(i, it)| (i.to_string(), it)).collect())
}

fn contains(it: Refers) -> Refers {
    Contains(Box::new(it))
}

fn iterates(it: Refers) -> Refers {
    Iterates(Box::new(it))
}

fn is_map(name: &Ident) -> bool {
    name == "BTreeMap" || name == "HashMap"
}

/// Reads the references from a type annotation; `None` if a part of it is inferred.
pub fn of_type(ty: &Type) -> Option<Refers> {
    Some(match ty {
        Type::Infer(_) => return None,
        Type::Reference(it) if it.mutability.is_some() => Mutable(Box::new(of_type(&it.elem).unwrap_or_default())),
        Type::Slice(_) | Type::TraitObject(_) => Unsized,
        Type::Paren(it) => of_type(&it.elem)?,
        Type::Array(it) => contains(of_type(&it.elem)?),
        Type::Tuple(it) => tuple(it.elems.iter().map(of_type).collect::<Option<Vec<_>>>()?),
        Type::Path(it) => {
            let Some(last) = it.path.segments.last() else { return Some(Unknown) };
            let argument = match &last.arguments {
                PathArguments::AngleBracketed(it) => it.args.last(),
                _ => None,
            };
            match argument {
                _ if last.ident == "str" => Unsized,
                _ if is_map(&last.ident) => Map,
                Some(GenericArgument::Type(ty)) => {
                    let inner = of_type(ty)?;
                    let is_list = ["Option", "Vec", "VecDeque"].iter().any(|it| last.ident == it);
                    if is_list { contains(inner) } else { Unknown }
                }
                _ => Unknown,
            }
        }
        _ => Unknown,
    })
}

/// Reads the references from an expression.
pub fn of_expr(expr: &Expr, scopes: &Scopes) -> Refers {
    let of = |expr: &Expr| of_expr(expr, scopes);
    match expr {
        Expr::Path(it) => it.path.get_ident().map_or(Unknown, |name| scopes.refers(&name.to_string())),
        Expr::Paren(it) => of(&it.expr),
        Expr::Group(it) => of(&it.expr),
        Expr::Reference(it) if it.mutability.is_some() => match &*it.expr {
            Expr::Index(index) if matches!(*index.index, Expr::Range(_)) => Mutable(Box::new(Unsized)),
            place => Mutable(Box::new(of(place))),
        },
        Expr::Unary(it) if matches!(it.op, UnOp::Deref(_)) => match of(&it.expr) {
            Mutable(to) => *to,
            _ => Unknown,
        },
        Expr::Tuple(it) => tuple(it.elems.iter().map(of)),
        Expr::Array(it) => it.elems.first().map_or(Unknown, |it| contains(of(it))),
        Expr::Struct(it) => Parts(it.fields.iter().map(|it| (member_name(&it.member), of(&it.expr))).collect()),
        Expr::Macro(it) if it.mac.path.is_ident("vec") => {
            arguments(&it.mac.tokens).first().map_or(Unknown, |it| contains(of(it)))
        }
        Expr::Field(it) => of(&it.base).part(&it.member),
        Expr::Try(it) => of(&it.expr).inside(),
        Expr::Call(it) => of_call(it, scopes),
        Expr::MethodCall(it) => of_method(it, scopes),
        _ => Unknown,
    }
}

/// Parses the arguments of a macro; the list is empty if they are not expressions.
fn arguments(tokens: &TokenStream) -> Vec<Expr> {
    let parsed = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(tokens.clone());
    parsed.map(|it| it.into_iter().collect()).unwrap_or_default()
}

fn of_call(it: &ExprCall, scopes: &Scopes) -> Refers {
    let Expr::Path(callee) = &*it.func else { return Unknown };
    let names: Vec<&Ident> = callee.path.segments.iter().map(|it| &it.ident).collect();
    let argument = |at: usize| it.args.get(at).map_or(Unknown, |it| of_expr(it, scopes));
    match names.last() {
        Some(name) if *name == "Some" || *name == "Ok" => contains(argument(0)),
        Some(name) if *name == "zip" => iterates(tuple([argument(0).items(), argument(1).items()])),
        _ if names.iter().any(|it| is_map(it)) => Map,
        _ => Unknown,
    }
}

fn of_method(it: &ExprMethodCall, scopes: &Scopes) -> Refers {
    let receiver = of_expr(&it.receiver, scopes);
    let target = receiver.target();
    match it.method.to_string().as_str() {
        "iter_mut" => iterates(target.items_mut()),
        "values_mut" => iterates(Refers::mutable()),
        "chunks_mut" | "chunks_exact_mut" | "rchunks_mut" | "rchunks_exact_mut" => iterates(Mutable(Box::new(Unsized))),
        "split_at_mut" => tuple([Mutable(Box::new(Unsized)), Mutable(Box::new(Unsized))]),
        "split_first_mut" | "split_last_mut" => contains(tuple([Refers::mutable(), Mutable(Box::new(Unsized))])),
        "as_mut_slice" | "as_mut_str" => Mutable(Box::new(Unsized)),
        "get_mut" if matches!(it.args.first(), Some(Expr::Range(_))) => contains(Mutable(Box::new(Unsized))),
        "get_mut" | "first_mut" | "last_mut" | "front_mut" | "back_mut" | "as_mut" => {
            contains(target.items_mut().second())
        }
        "or_insert" | "or_insert_with" | "or_default" | "get_or_insert" | "get_or_insert_with" => Refers::mutable(),
        "enumerate" => iterates(tuple([Unknown, receiver.items()])),
        "zip" => {
            let other = it.args.first().map_or(Unknown, |it| of_expr(it, scopes));
            iterates(tuple([receiver.items(), other.items()]))
        }
        "into_iter" => iterates(receiver.items()),
        "rev" | "skip" | "take" | "step_by" | "by_ref" | "fuse" | "peekable" | "skip_while" | "take_while"
        | "filter" | "chain" | "inspect" => match target {
            Iterates(_) | Contains(_) => target.clone(),
            _ => iterates(Unknown),
        },
        "next" | "last" | "nth" | "next_back" | "find" | "max_by" | "min_by" | "max_by_key" | "min_by_key" => {
            match target {
                Iterates(it) => Contains(it.clone()),
                _ => Unknown,
            }
        }
        "collect" => match target {
            Iterates(it) => Contains(it.clone()),
            _ => Unknown,
        },
        "unwrap" | "expect" => receiver.inside(),
        "ok" | "ok_or" | "ok_or_else" => receiver,
        "clone" | "to_owned" if matches!(target, Map | Contains(_)) => target.clone(),
        "iter" | "map" | "filter_map" | "flat_map" | "chars" | "bytes" | "lines" | "windows" | "chunks" | "drain"
        | "cloned" | "copied" | "keys" | "values" | "into_values" => iterates(Unknown),
        method if method.ends_with("_mut") => Guard,
        _ => Unknown,
    }
}

/// Returns the argument that a method passes to its closure.
pub fn passed(it: &ExprMethodCall, scopes: &Scopes) -> Refers {
    const CALLS: &[&str] =
        &["for_each", "try_for_each", "map", "flat_map", "filter_map", "all", "any", "is_some_and", "and_then"];
    match CALLS.iter().any(|name| it.method == name) {
        true => of_expr(&it.receiver, scopes).items(),
        false => Unknown,
    }
}

impl Refers {
    /// Returns the value of an entry of a map, and anything else unchanged.
    fn second(self) -> Self {
        match self {
            Parts(mut parts) if parts.len() == 2 => parts.remove(1).1,
            it => it,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::Mutability;
    use syn::Local;

    /// Checks which of the names that the statements bind are certainly `&mut`.
    fn check(text: &str, want: &str) {
        let mut scopes = Scopes::default();
        scopes.declare_name("y", Mutability::Reference);
        scopes.declare_name("v", Mutability::Variable);
        let block: syn::Block = syn::parse_str(&format!("{{ {text}; }}")).expect("statements");
        let mut names = Vec::new();
        let mut name = |pat: &Pat, scopes: &Scopes| {
            let text = quote::ToTokens::to_token_stream(pat).to_string();
            let words = text.split(|it: char| !it.is_alphanumeric()).filter(|it| it.len() == 1);
            names.extend(words.filter(|it| scopes.refers(it).is_mutable()).map(str::to_owned));
        };
        for stmt in &block.stmts {
            match stmt {
                syn::Stmt::Local(Local { pat, init, .. }) => {
                    scopes.declare_as(pat, init.as_ref().map(|it| &*it.expr));
                    name(pat, &scopes);
                }
                syn::Stmt::Expr(Expr::ForLoop(it), _) => {
                    scopes.declare_items(&it.pat, &it.expr);
                    name(&it.pat, &scopes);
                }
                _ => panic!("{text}"),
            }
        }
        assert_eq!(names.join(" "), want, "{text}");
    }

    #[test]
    fn references_are_seen_from_the_text() {
        for (text, want) in [
            ("let r = &mut v", "r"),
            ("let r = &v", ""),
            ("let r: &mut Tensor = f()", "r"),
            ("let r: &Tensor = y", ""),
            ("let r: &mut [Tensor] = y", ""),
            ("let r = y", "r"),
            ("let r = &mut v[1..]", ""),
            ("let (a, b) = (&mut v, 1)", "a"),
            ("let (a, .., b) = (1, 2, &mut v)", "b"),
            ("let (a, b): (i32, &mut Tensor) = f()", "b"),
            ("let Pair { a, b } = y", "a b"),
            ("let Pair { a, b } = Pair { a: 1, b: y }", "b"),
            ("let [a, b, r @ ..] = &mut v", "a b"),
            ("let &mut a = y", ""),
            ("let (ref mut a, ref b) = v", "a"),
            ("let Some(w) = &mut v else { return }", "w"),
            ("let Some(w) = v.get_mut(0) else { return }", "w"),
            ("let o = v.get_mut(0)", ""),
            ("let w = v.get_mut(0).unwrap()", "w"),
            ("let w = v.last_mut()?", "w"),
            ("let w = c.borrow_mut()", ""),
            ("let w = f(y)", ""),
            ("let e = v.entry(1).or_default()", "e"),
            ("let (a, b) = v.split_at_mut(1)", ""),
            ("let mut a = v.iter_mut(); let b = a.next().unwrap()", "b"),
            ("for t in v.iter_mut() {}", "t"),
            ("for t in &mut v {}", "t"),
            ("for t in y {}", "t"),
            ("for t in v.iter() {}", ""),
            ("for (i, t) in v.iter_mut().rev().enumerate().skip(1) {}", "t"),
            ("for (i, (a, t)) in x.iter().zip(&mut v).enumerate() {}", "t"),
            ("for (a, t) in v.iter_mut().zip(x) {}", "a"),
            ("for (k, t) in &mut m {}", "k t"),
            ("let m = BTreeMap::new(); for (k, t) in &mut m {}", "t"),
            ("let m: HashMap<String, Tensor> = f(); for (k, t) in m.iter_mut() {}", "t"),
            ("let mut m = x.iter(); for t in &mut m {}", ""),
            ("let mut m = v.iter_mut(); for t in &mut m {}", "t"),
            ("let m: Vec<_> = v.iter_mut().collect(); for t in m {}", "t"),
            ("for c in v.chunks_mut(2) {}", ""),
            ("for t in vec![&mut a, &mut b] {}", "t"),
        ] {
            check(text, want);
        }
    }
}
