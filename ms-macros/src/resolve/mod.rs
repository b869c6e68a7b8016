//! Derives from the syntax which names and expressions are certainly host values.
//!
//! Code that is certainly host code is left unchanged, so that Rust's own rules apply, including inference of operands.
//! Types decide everything else.

mod host;

pub use crate::types::Known;
pub use host::{is_assignment, is_comparison};

use crate::reach::{self, Reach};
use crate::refers::{self, Refers};
use crate::types::{known_type, names_object};
use proc_macro2::Ident;
use syn::{Expr, Pat, Type};

/// Whether the value of a name can change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutability {
    /// The value cannot change, as far as the syntax shows.
    Fixed,
    /// The variable can be assigned.
    Variable,
    /// The target can change: the value is a `&mut`.
    Reference,
    /// The target can change: the value may be a guard, judging by the name of the method that returned it.
    Guard,
}

/// The facts that the syntax shows about a value that is bound to names.
#[derive(Clone)]
pub struct Subject {
    known: Known,
    refers: Refers,
    reach: Reach,
}

impl Subject {
    /// Describes a value of which only `known` is known.
    pub fn of(known: Known) -> Self {
        Self { known, refers: Refers::Unknown, reach: Reach::Unknown }
    }

    /// Describes a value that refers to `refers`.
    pub fn referring(refers: Refers) -> Self {
        Self { refers, ..Self::of(Known::Nothing) }
    }

    fn part(&self, refers: Refers) -> Self {
        Self { refers, reach: self.reach.parts(), ..self.clone() }
    }
}

/// A local name.
#[derive(Clone)]
struct Name {
    name: String,
    known: Known,
    mutability: Mutability,
    refers: Refers,
    reach: Reach,
    deferred: bool,
    /// Whether the name is certainly a shared reference.
    shared: bool,
}

/// Local names with their known facts, innermost scope last.
#[derive(Clone, Default)]
pub struct Scopes {
    names: Vec<Name>,
    starts: Vec<usize>,
}

impl Scopes {
    /// Begins a scope.
    pub fn push(&mut self) {
        self.starts.push(self.names.len());
    }

    /// Ends the innermost scope, and removes its names.
    pub fn pop(&mut self) {
        if let Some(start) = self.starts.pop() {
            self.names.truncate(start);
        }
    }

    /// Declares the names that `pat` binds; type annotations take precedence over `known`.
    pub fn declare(&mut self, pat: &Pat, known: Known) {
        self.bind(pat, &Subject::of(known));
    }

    /// Declares the names of a pattern that is matched against `subject`.
    pub fn declare_matched(&mut self, pat: &Pat, subject: &Subject) {
        self.bind(pat, subject);
    }

    /// Returns the facts that the syntax shows about the value of an expression.
    pub fn subject(&self, expr: &Expr) -> Subject {
        let (refers, reach) = (refers::of_expr(expr, self), reach::of_expr(expr, self));
        Subject { known: self.known(expr), refers, reach }
    }

    /// Declares the names of a `let` or a loop with the value `init`.
    pub fn declare_as(&mut self, pat: &Pat, init: Option<&Expr>) {
        let subject = init.map_or_else(|| Subject::of(Known::Nothing), |it| self.subject(it));
        self.bind(pat, &subject);
        if matches!((pat, init), (Pat::Ident(_), Some(Expr::Reference(it))) if it.mutability.is_none()) {
            self.share();
        }
        if init.is_none()
            && let Some(last) = self.names.last_mut()
        {
            last.deferred = true;
        }
    }

    /// Declares the names of a `for` over `items`.
    pub fn declare_items(&mut self, pat: &Pat, items: &Expr) {
        // The types of a tensor's rows decide, so the rows are not known to be tensors.
        let subject = self.subject(items);
        let known = Some(subject.known).filter(|it| *it != Known::Tensor).unwrap_or(Known::Nothing);
        self.bind(pat, &Subject { known, ..subject.part(subject.refers.items()) });
    }

    /// Declares a name without a pattern.
    pub fn declare_name(&mut self, name: &str, mutability: Mutability) {
        self.names.push(Name {
            name: name.to_owned(),
            known: Known::Nothing,
            mutability,
            refers: if mutability == Mutability::Reference { Refers::mutable() } else { Refers::Unknown },
            reach: Reach::Unknown,
            deferred: false,
            shared: false,
        });
    }

    /// Marks the last name as a shared reference.
    fn share(&mut self) {
        if let Some(last) = self.names.last_mut() {
            last.shared = true;
        }
    }

    fn bind(&mut self, pat: &Pat, subject: &Subject) {
        match pat {
            Pat::Ident(it) => {
                let refers = match (&it.by_ref, &it.mutability) {
                    (Some(_), Some(_)) => Refers::Mutable(Box::new(subject.refers.clone())),
                    (Some(_), None) => Refers::Unknown,
                    _ => subject.refers.clone(),
                };
                let mutability = match (&refers, &it.mutability) {
                    (it, _) if it.is_mutable() => Mutability::Reference,
                    (Refers::Guard, _) => Mutability::Guard,
                    (_, Some(_)) if it.by_ref.is_none() => Mutability::Variable,
                    _ => Mutability::Fixed,
                };
                let reach = if refers.contains_mutable() { Reach::Unknown } else { subject.reach.clone() };
                let (name, known) = (it.ident.to_string(), subject.known);
                self.names.push(Name { name, known, mutability, refers, reach, deferred: false, shared: false });
                if let Some((_, inner)) = &it.subpat {
                    self.bind(inner, subject);
                }
            }
            Pat::Type(it) => {
                let refers = refers::of_type(&it.ty).unwrap_or_else(|| subject.refers.clone());
                let reach = match (reach::of_type(&it.ty), &subject.reach) {
                    (Reach::Unknown, Reach::Closure(_)) => subject.reach.clone(),
                    (Reach::Unknown, Reach::Inferred) if refers::of_type(&it.ty).is_none() => Reach::Inferred,
                    (written, _) => written,
                };
                self.bind(&it.pat, &Subject { known: known_type(&it.ty), refers, reach });
                let is_shared = |it: &Type| matches!(it, Type::Reference(it) if it.mutability.is_none());
                if matches!(&*it.pat, Pat::Ident(_)) && is_shared(&it.ty) {
                    self.share();
                }
            }
            Pat::Guard(it) => self.bind(&it.pat, subject),
            Pat::Paren(it) => self.bind(&it.pat, subject),
            Pat::Or(it) => it.cases.iter().for_each(|pat| self.bind(pat, subject)),
            _ => {
                let parts = refers::parts(pat).into_iter().zip(subject.refers.taken(pat));
                parts.for_each(|(pat, part)| self.bind(pat, &subject.part(part)));
            }
        }
    }

    /// Returns the kind of `expr`, as far as the syntax shows.
    pub fn known(&self, expr: &Expr) -> Known {
        match expr {
            _ if self.is_host(expr) => Known::Host,
            Expr::Path(it) => it.path.get_ident().map_or(Known::Nothing, |name| self.name(name)),
            Expr::Reference(it) => self.known(&it.expr),
            Expr::Paren(it) => self.known(&it.expr),
            Expr::Struct(_) => Known::Object,
            Expr::Field(it) if self.is_part(&it.base) => Known::Object,
            Expr::Index(it) if self.known(&it.expr) == Known::Object => Known::Object,
            Expr::MethodCall(it) if PARTS.iter().any(|name| it.method == name) => match self.known(&it.receiver) {
                Known::Object => Known::Object,
                _ => Known::Nothing,
            },
            // `Type::function(..)`
            Expr::Call(it) => match &*it.func {
                Expr::Path(path) if path.path.segments.len() > 1 => {
                    let owner = &path.path.segments[path.path.segments.len() - 2].ident;
                    if names_object(owner) { Known::Object } else { Known::Nothing }
                }
                _ => Known::Nothing,
            },
            _ => Known::Nothing,
        }
    }

    /// Whether fields of `expr` belong to an annotated type: `expr` is `self`, or a part of it.
    fn is_part(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Path(it) => it.path.is_ident("self"),
            _ => self.known(expr) == Known::Object,
        }
    }

    fn find(&self, name: &str) -> Option<&Name> {
        self.names.iter().rev().find(|it| it.name == name)
    }

    fn name(&self, name: &Ident) -> Known {
        self.find(&name.to_string()).map_or(Known::Nothing, |it| it.known)
    }

    /// Whether there is a local of this name.
    pub fn is_local(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns the number of names.
    pub fn mark(&self) -> usize {
        self.names.len()
    }

    /// Whether the local of this name was declared after there were `mark` names.
    pub fn is_younger(&self, name: &str, mark: usize) -> bool {
        self.names.iter().rposition(|it| it.name == name).is_some_and(|at| at >= mark)
    }

    /// Whether the local of this name was declared without an initialiser.
    pub fn is_deferred(&self, name: &str) -> bool {
        self.find(name).is_some_and(|it| it.deferred)
    }

    /// Whether the local of this name is certainly a shared reference.
    pub fn is_shared(&self, name: &str) -> bool {
        self.find(name).is_some_and(|it| it.shared)
    }

    /// Returns the references in the local of this name.
    pub fn refers(&self, name: &str) -> Refers {
        self.find(name).map_or(Refers::Unknown, |it| it.refers.clone())
    }

    /// Returns whether something can be mutated through the local of this name.
    pub fn reach(&self, name: &str) -> Reach {
        self.find(name).map_or(Reach::Unknown, |it| it.reach.clone())
    }

    /// Returns whether the value of the local of this name can change.
    pub fn mutability(&self, name: &str) -> Mutability {
        self.find(name).map_or(Mutability::Fixed, |it| it.mutability)
    }

    /// Whether a call `f(..)` calls the method `call` of an object.
    pub fn calls_object(&self, callee: &Expr) -> bool {
        matches!(callee, Expr::Path(it) if it.path.get_ident().is_some_and(|name| self.name(name) == Known::Object))
    }
}

/// Methods of std that return parts of a container, or iterate over them.
const PARTS: &[&str] = &[
    "iter",
    "values",
    "enumerate",
    "rev",
    "zip",
    "skip",
    "take",
    "next",
    "get",
    "first",
    "last",
    "as_ref",
    "unwrap",
    "expect",
];

#[cfg(test)]
mod tests {
    use super::host::is_open;
    use super::*;
    use syn::parse::Parser;

    fn pat(text: &str) -> Pat {
        Pat::parse_single.parse_str(text).expect("a pattern")
    }

    fn check(text: &str, host: bool, open: bool) {
        let mut scopes = Scopes::default();
        scopes.push();
        scopes.declare(&pat("n"), Known::Host);
        scopes.declare(&pat("x"), Known::Nothing);
        let expr: Expr = syn::parse_str(text).expect("an expression");
        assert_eq!((scopes.is_host(&expr), is_open(&expr)), (host, open), "{text}");
    }

    #[test]
    fn host_values_are_seen_from_the_text() {
        for text in [
            "<_ as ::ms::__rt::Copied>::copy(&n)",
            "3",
            "n",
            "n + 1",
            "-n",
            "x.len()",
            "y as usize",
            "n.pow(2)",
            "v[0].is_some()",
            "(n, 1).0",
            "!n",
        ] {
            check(text, true, false);
        }
        for text in ["x", "x + 1", "f(n)", "y", "self.n", "n.map(f)", "x.sum()", "{ n }"] {
            check(text, false, false);
        }
    }

    #[test]
    fn open_types_are_seen_from_the_text() {
        for text in [
            "s.parse()?",
            "s.parse().unwrap()",
            "v.iter().copied().sum()",
            "(0..3).product()",
            "3u8.into()",
            "x.item()",
        ] {
            check(text, false, true);
        }
        for text in ["s.parse::<u8>()?", "x.sum()", "x.relu().sum()", "x.item::<f32>()", "y.unwrap()"] {
            check(text, false, false);
        }
    }

    #[test]
    fn scopes_shadow_and_end() {
        let mut scopes = Scopes::default();
        let n: Expr = syn::parse_str("n").expect("a name");
        scopes.push();
        scopes.declare(&pat("n"), Known::Host);
        scopes.push();
        scopes.declare(&pat("(n, _)"), Known::Nothing);
        assert!(!scopes.is_host(&n));
        scopes.pop();
        assert!(scopes.is_host(&n));
        scopes.pop();
        assert!(!scopes.is_host(&n));
    }

    #[test]
    fn objects_are_seen_from_the_text() {
        for (ty, known) in [
            ("&InnerNet", Known::Object),
            ("nn::Conv2d", Known::Object),
            ("&[f32]", Known::Host),
            ("&mut ms::Tensor", Known::Tensor),
            ("F", Known::Nothing),
            ("Box<dyn Fn()>", Known::Nothing),
            ("impl Fn(usize)", Known::Nothing),
        ] {
            assert_eq!(known_type(&syn::parse_str(ty).expect("a type")), known, "{ty}");
        }
        let scopes = Scopes::default();
        for (expr, known) in [
            ("InnerNet::with(2)", Known::Object),
            ("&InnerNet { number: 2 }", Known::Object),
            ("ms::grad(f)", Known::Nothing),
            ("Box::new(f)", Known::Nothing),
            ("|x| x", Known::Nothing),
        ] {
            assert_eq!(scopes.known(&syn::parse_str(expr).expect("an expression")), known, "{expr}");
        }
    }
}
