//! Decides, as far as the syntax shows, whether something besides the value itself can be mutated through a value.
//!
//! Examples are interior mutability and a captured `&mut`.

use crate::refers;
use crate::resolve::{Known, Scopes};
use crate::types::is_host_type;
use syn::{Expr, GenericArgument, PathArguments, Type, UnOp};

/// Whether something can be mutated through a value.
#[derive(Clone, PartialEq, Debug, Default)]
pub enum Reach {
    /// Unknown from the syntax; the type is probed.
    #[default]
    Unknown,
    /// Nothing can be mutated through the value or through its parts.
    Immutable,
    /// Nothing can be mutated through the value itself. Its parts are unknown.
    Shared,
    /// The type is inferred from later code, so it cannot be probed.
    Inferred,
    /// The value holds closures of this body, which mutate these variables. Captures cannot be probed.
    Closure(Vec<String>),
}

use Reach::*;

impl Reach {
    /// Returns the reach of the parts that a pattern binds.
    pub fn parts(&self) -> Self {
        match self {
            Shared => Unknown,
            it => it.clone(),
        }
    }
}

/// Types that can be written through shared references, and types that may hide one.
const SHARING: &[&str] = &["Cell", "RefCell", "Mutex", "RwLock", "Rc", "Arc"];

/// Reads the reach of a type annotation.
pub fn of_type(ty: &Type) -> Reach {
    if is_immutable(ty) {
        return Immutable;
    }
    match ty {
        Type::Reference(it) if it.mutability.is_none() && names_no_cell(&it.elem) => Shared,
        _ => Unknown,
    }
}

fn is_immutable(ty: &Type) -> bool {
    match ty {
        _ if is_host_type(ty) => true,
        Type::Reference(it) => it.mutability.is_none() && is_immutable(&it.elem),
        Type::Paren(it) => is_immutable(&it.elem),
        Type::Slice(it) => is_immutable(&it.elem),
        Type::Array(it) => is_immutable(&it.elem),
        Type::Tuple(it) => it.elems.iter().all(is_immutable),
        Type::Path(it) => it.path.segments.last().is_some_and(|last| {
            let holds = ["Option", "Vec", "VecDeque", "Box", "BTreeMap", "HashMap"].iter().any(|it| last.ident == it);
            match &last.arguments {
                PathArguments::None => last.ident == "Tensor" || last.ident == "Parameter",
                PathArguments::AngleBracketed(it) if holds => {
                    it.args.iter().all(|it| matches!(it, GenericArgument::Type(ty) if is_immutable(ty)))
                }
                _ => false,
            }
        }),
        _ => false,
    }
}

/// Whether the type is a path that mentions no interior mutability.
fn names_no_cell(ty: &Type) -> bool {
    match ty {
        Type::Path(it) => it.path.segments.iter().all(|it| {
            let arguments = match &it.arguments {
                PathArguments::None => true,
                PathArguments::AngleBracketed(it) => it.args.iter().all(|it| match it {
                    GenericArgument::Type(ty) => names_no_cell(ty),
                    _ => true,
                }),
                PathArguments::Parenthesized(_) => false,
            };
            // A single letter is a type parameter.
            arguments && it.ident.to_string().len() > 1 && !SHARING.iter().any(|name| it.ident == name)
        }),
        Type::Reference(it) => it.mutability.is_none() && names_no_cell(&it.elem),
        Type::Slice(it) => names_no_cell(&it.elem),
        _ => false,
    }
}

/// Reads the reach of an expression.
pub fn of_expr(expr: &Expr, scopes: &Scopes) -> Reach {
    if let Some(captured) = captures(expr, scopes) {
        return Closure(captured);
    }
    match expr {
        _ if is_inferred(expr, scopes) => Inferred,
        _ if is_plain(expr, scopes) => Immutable,
        Expr::Path(it) => it.path.get_ident().map_or(Unknown, |name| scopes.reach(&name.to_string())),
        _ => Unknown,
    }
}

/// Whether the value is built from values of [`Immutable`] by operators and by methods of std and of tensors.
fn is_plain(expr: &Expr, scopes: &Scopes) -> bool {
    let is = |expr: &Expr| is_plain(expr, scopes);
    match expr {
        Expr::Lit(_) => true,
        Expr::Path(it) => it.path.get_ident().is_some_and(|it| scopes.reach(&it.to_string()) == Immutable),
        Expr::Paren(it) => is(&it.expr),
        Expr::Reference(it) => it.mutability.is_none() && is(&it.expr),
        Expr::Unary(it) => !matches!(it.op, UnOp::Deref(_)) || is(&it.expr),
        Expr::Binary(_) => true,
        Expr::Cast(it) => is_host_type(&it.ty),
        Expr::Field(it) => is(&it.base),
        Expr::Index(it) => is(&it.expr),
        Expr::Range(it) => it.start.iter().chain(&it.end).all(|it| is(it)),
        Expr::Tuple(it) => it.elems.iter().all(is),
        Expr::Array(it) => it.elems.iter().all(is),
        Expr::Macro(it) => ["tensor", "format"].iter().any(|name| it.mac.path.is_ident(name)),
        Expr::Call(it) => match &*it.func {
            Expr::Path(path) => {
                let names: Vec<String> = path.path.segments.iter().map(|it| it.ident.to_string()).collect();
                let of_library = names.len() > 1 && ["Tensor", "ops", "random"].contains(&&*names[names.len() - 2]);
                of_library || (["Some", "Ok"].contains(&&*names[names.len() - 1]) && it.args.iter().all(is))
            }
            _ => false,
        },
        Expr::MethodCall(it) => {
            is(&it.receiver)
                && it.args.iter().all(is)
                && it.method != "entry"
                && !refers::of_expr(expr, scopes).contains_mutable()
        }
        _ => scopes.known(expr) == Known::Host,
    }
}

/// Types for which `new` returns an empty container.
const CONTAINERS: &[&str] =
    &["Vec", "VecDeque", "HashMap", "BTreeMap", "HashSet", "BTreeSet", "BinaryHeap", "LinkedList", "Default"];

/// Whether later code determines the type of the value: `Vec::new()`, `None`, `text.parse()?`.
fn is_inferred(expr: &Expr, scopes: &Scopes) -> bool {
    match expr {
        Expr::Path(it) => it.path.is_ident("None"),
        Expr::Paren(it) => is_inferred(&it.expr, scopes),
        Expr::Array(it) => it.elems.is_empty(),
        Expr::Tuple(it) => it.elems.iter().any(|it| is_inferred(it, scopes)),
        Expr::Macro(it) => it.mac.path.is_ident("vec") && it.mac.tokens.is_empty(),
        Expr::Call(it) => matches!(&*it.func, Expr::Path(path) if {
            let names: Vec<String> = path.path.segments.iter().map(|it| it.ident.to_string()).collect();
            let makes = ["new", "with_capacity", "default"].contains(&&*names[names.len() - 1]);
            makes && names.len() > 1 && CONTAINERS.contains(&&*names[names.len() - 2])
        }),
        _ => scopes.is_settled(expr) && !scopes.is_host(expr),
    }
}

/// Methods that return an iterator over the items of their receiver and store the closure in it.
pub const ADAPTERS: &[&str] = &[
    "map",
    "filter",
    "filter_map",
    "flat_map",
    "inspect",
    "take_while",
    "skip_while",
    "map_while",
    "scan",
    "zip",
    "chain",
    "enumerate",
    "rev",
    "peekable",
    "skip",
    "take",
    "step_by",
    "by_ref",
    "into_iter",
    "clone",
];

/// Methods that call the closure and drop it.
const CONSUMERS: &[&str] = &[
    "collect",
    "fold",
    "sum",
    "product",
    "count",
    "any",
    "all",
    "max_by",
    "min_by",
    "max_by_key",
    "min_by_key",
    "for_each",
    "reduce",
    "find",
    "position",
    "unwrap_or_else",
    "map_or",
    "map_or_else",
    "is_some_and",
    "last",
];

/// Returns the outer variables that closures in the value mutate; `None` if it holds no closure.
fn captures(expr: &Expr, scopes: &Scopes) -> Option<Vec<String>> {
    let all = |exprs: &mut dyn Iterator<Item = &Expr>| -> Option<Vec<String>> {
        let names: Vec<Vec<String>> = exprs.filter_map(|it| captures(it, scopes)).collect();
        (!names.is_empty()).then(|| names.concat())
    };
    match expr {
        Expr::Closure(it) => Some(crate::canon::changed(scopes, &mut Expr::Closure(it.clone()))),
        Expr::Path(it) => match it.path.get_ident().map(|it| scopes.reach(&it.to_string())) {
            Some(Closure(names)) => Some(names),
            _ => None,
        },
        Expr::Paren(it) => captures(&it.expr, scopes),
        Expr::Reference(it) => captures(&it.expr, scopes),
        Expr::Tuple(it) => all(&mut it.elems.iter()),
        Expr::Array(it) => all(&mut it.elems.iter()),
        Expr::Struct(it) => all(&mut it.fields.iter().map(|it| &it.expr)),
        Expr::MethodCall(it) if CONSUMERS.iter().any(|name| it.method == name) => None,
        Expr::MethodCall(it) if ADAPTERS.iter().any(|name| it.method == name) => {
            all(&mut std::iter::once(&*it.receiver).chain(&it.args))
        }
        Expr::MethodCall(it) => all(&mut std::iter::once(&*it.receiver).chain(&it.args)).map(|_| Vec::new()),
        Expr::Call(it) => {
            let names = all(&mut it.args.iter());
            let keeps = matches!(&*it.func, Expr::Path(path) if path.path.segments.iter().any(|it| {
                it.ident.to_string().starts_with(char::is_uppercase)
            }));
            if keeps { names } else { names.map(|_| Vec::new()) }
        }
        _ => None,
    }
}
