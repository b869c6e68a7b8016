//! Rewrites `match` on numbers and bools to a chain of branches, unless the scrutinee is certainly a host value.

use super::Rewriter;
use super::branch::{Use, block};
use super::compare::operand;
use super::decide::has_let;
use crate::diag::Code;
use crate::names::{located, own, own_nth};
use crate::resolve::{Known, Scopes};
use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Arm, Block, Expr, ExprMatch, Lit, Pat, PatIdent, RangeLimits, UnOp, parse_quote, parse_quote_spanned};

/// Whether the patterns are numbers, ranges of numbers and bools, and the last one is irrefutable.
pub fn is_choice(it: &ExprMatch) -> bool {
    let Some((last, arms)) = it.arms.split_last() else { return false };
    let parts = parts(&it.expr);
    let ends = is_irrefutable(&last.pat, parts)
        // rustc accepts the two bools as exhaustive.
        || matches!(arms, [first] if [first, last].iter().all(|it| is_bool(&it.pat)));
    !arms.is_empty()
        && ends
        && arms.iter().all(|arm| is_case(&arm.pat, parts))
        && arms.iter().any(|it| decides(&it.pat))
}

/// Whether the `match` is a choice, and the scrutinee or a guard may be a tensor.
pub fn is_undecided(scopes: &Scopes, it: &ExprMatch) -> bool {
    let is_open = |arm: &Arm| match &arm.pat {
        Pat::Guard(it) => !scopes.is_settled_condition(&it.guard),
        _ => false,
    };
    is_choice(it) && (!scopes.is_settled(&it.expr) || it.arms.iter().any(is_open))
}

/// The number of elements of a tuple expression. Such a scrutinee is matched element by element.
fn parts(scrutinee: &Expr) -> Option<usize> {
    match scrutinee {
        Expr::Paren(it) => parts(&it.expr),
        Expr::Tuple(it) => Some(it.elems.len()),
        _ => None,
    }
}

fn is_bool(pat: &Pat) -> bool {
    matches!(pat, Pat::Lit(it) if matches!(it.lit, Lit::Bool(_)))
}

/// Whether the pattern binds a name and is not a constant.
fn binds(it: &PatIdent) -> bool {
    it.by_ref.is_none() && it.ident.to_string().starts_with(|it: char| it.is_lowercase() || it == '_')
}

/// Whether the pattern is irrefutable.
fn is_irrefutable(pat: &Pat, parts: Option<usize>) -> bool {
    match pat {
        Pat::Wild(_) => true,
        Pat::Paren(it) => is_irrefutable(&it.pat, parts),
        Pat::Ident(it) => it.subpat.is_none() && binds(it),
        Pat::Tuple(it) => parts == Some(it.elems.len()) && it.elems.iter().all(|it| is_irrefutable(it, None)),
        _ => false,
    }
}

/// Whether the pattern tests a number or a bool, or the elements of a tuple.
fn is_case(pat: &Pat, parts: Option<usize>) -> bool {
    match pat {
        Pat::Lit(it) => matches!(it.lit, Lit::Int(_) | Lit::Float(_) | Lit::Bool(_)),
        Pat::Verbatim(it) => negative(it).is_some(),
        Pat::Range(it) => [&it.start, &it.end].into_iter().flatten().all(|it| is_number(it)),
        Pat::Or(it) => it.cases.iter().all(|it| is_case(it, parts) && !names(it)),
        Pat::Paren(it) => is_case(&it.pat, parts),
        Pat::Guard(it) => !has_let(&it.guard) && is_case(&it.pat, parts),
        Pat::Ident(it) => binds(it) && it.subpat.as_ref().is_none_or(|it| is_case(&it.1, parts)),
        Pat::Tuple(it) => parts == Some(it.elems.len()) && it.elems.iter().all(|it| is_case(it, None)),
        Pat::Wild(_) => true,
        _ => false,
    }
}

/// Whether the pattern binds names.
fn names(pat: &Pat) -> bool {
    match pat {
        Pat::Ident(_) => true,
        Pat::Paren(it) => names(&it.pat),
        Pat::Tuple(it) => it.elems.iter().any(names),
        _ => false,
    }
}

/// Whether the pattern contains a number or a bool.
fn decides(pat: &Pat) -> bool {
    match pat {
        Pat::Lit(_) | Pat::Verbatim(_) | Pat::Range(_) => true,
        Pat::Or(it) => it.cases.iter().any(decides),
        Pat::Paren(it) => decides(&it.pat),
        Pat::Guard(it) => decides(&it.pat),
        Pat::Ident(it) => it.subpat.as_ref().is_some_and(|it| decides(&it.1)),
        Pat::Tuple(it) => it.elems.iter().any(decides),
        _ => false,
    }
}

fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(it) => matches!(it.lit, Lit::Int(_) | Lit::Float(_)),
        Expr::Unary(it) => matches!(it.op, UnOp::Neg(_)) && is_number(&it.expr),
        _ => false,
    }
}

/// Parses a negative number, for which syn has no pattern.
fn negative(tokens: &TokenStream) -> Option<Expr> {
    syn::parse2(tokens.clone()).ok().filter(is_number)
}

impl Rewriter<'_> {
    /// Whether a `match` becomes a chain of branches that types decide.
    pub fn is_choice(&self, it: &ExprMatch) -> bool {
        is_undecided(&self.scopes, it)
    }

    /// Rewrites a `match` to a chain of branches.
    pub fn choose(&mut self, it: &ExprMatch, used: &Use) -> Expr {
        let rt = self.rt;
        let mut scrutinee = (*it.expr).clone();
        self.visit_expr_mut(&mut scrutinee);
        // The arms may mutate the scrutinee.
        let (subject, declared) = match parts(&scrutinee).map(|_| super::bare(&scrutinee)) {
            Some(Expr::Tuple(it)) => {
                let names: Vec<Ident> = (0..it.elems.len()).map(|i| own_nth("scrutinee", i)).collect();
                let values = it.elems.iter().map(operand);
                let declared = quote!(let (#(#names,)*) = (#(#rt::matched(&#values),)*););
                (Subject::Parts(names), declared)
            }
            _ => {
                let (name, value) = (own("scrutinee"), operand(&scrutinee));
                let declared = quote!(let #name = #rt::matched(&#value););
                (Subject::Whole(name), declared)
            }
        };
        let (last, arms) = it.arms.split_last().expect("a choice has arms");
        let bound = self.bindings(&subject, &last.pat);
        let Block { stmts, .. } = block(&last.body);
        let rest = parse_quote!({ #(#bound)* #(#stmts)* });
        let mut chain: Expr = arms.iter().rev().fold(rest, |rest, arm| {
            let (mut bound, Block { stmts, .. }) = (self.bindings(&subject, &arm.pat), block(&arm.body));
            if matches!(arm.pat, Pat::Guard(_)) {
                // Names that the guard uses may be unused in the body, and vice versa.
                bound.iter_mut().for_each(|it| *it = quote!(#[allow(unused_variables, unused_mut)] #it));
            }
            let is_case = self.case(&subject, &arm.pat);
            let guard = match &arm.pat {
                Pat::Guard(it) if bound.is_empty() => Some((*it.guard).clone()),
                Pat::Guard(it) => {
                    let guard = &it.guard;
                    Some(parse_quote!({ #(#bound)* #guard }))
                }
                _ => None,
            };
            let cond: Expr = match (is_case, guard) {
                (Some(case), Some(guard)) => parse_quote!(#case && #guard),
                (case, guard) => case.or(guard).unwrap_or_else(|| parse_quote!(true)),
            };
            parse_quote!(if #cond { #(#bound)* #(#stmts)* } else #rest)
        });
        self.used = used.clone();
        self.visit_expr_mut(&mut chain);
        parse_quote! {{
            #declared
            #chain
        }}
    }

    /// Returns the condition that the subject matches the pattern; `None` if the pattern is irrefutable.
    fn case(&self, subject: &Subject, pat: &Pat) -> Option<Expr> {
        let name = match (subject, pat) {
            (_, Pat::Wild(_)) => return None,
            (_, Pat::Paren(it)) => return self.case(subject, &it.pat),
            (_, Pat::Guard(it)) => return self.case(subject, &it.pat),
            (_, Pat::Ident(it)) => return it.subpat.as_ref().and_then(|it| self.case(subject, &it.1)),
            (_, Pat::Or(it)) => {
                let cases = it.cases.iter().map(|it| self.case(subject, it));
                return cases.reduce(|one, other| one.zip(other).map(|(one, other)| parse_quote!(#one || #other)))?;
            }
            (Subject::Parts(names), Pat::Tuple(it)) => {
                let cases = names.iter().zip(&it.elems).filter_map(|(name, pat)| {
                    let part = Subject::Whole(name.clone());
                    self.case(&part, pat)
                });
                return cases.map(|it| parse_quote!((#it))).reduce(|one: Expr, other| parse_quote!(#one && #other));
            }
            (Subject::Whole(name), _) => name,
            (Subject::Parts(_), _) => return None,
        };
        let (at, rt) = (pat.span(), located(self.rt.clone(), pat.span()));
        let literal = |lit: &dyn quote::ToTokens| {
            let case = quote_spanned!(at=> #rt::case(&#name, #lit));
            parse_quote!(#case)
        };
        match pat {
            Pat::Lit(it) => Some(literal(&it.lit)),
            Pat::Verbatim(it) => Some(literal(it)),
            Pat::Range(it) => {
                let start = it.start.as_ref().map(|it| parse_quote_spanned!(at=> #name >= #it));
                let end = it.end.as_ref().map(|end| match it.limits {
                    RangeLimits::HalfOpen(_) => parse_quote_spanned!(at=> #name < #end),
                    RangeLimits::Closed(_) => parse_quote_spanned!(at=> #name <= #end),
                });
                let both: Option<Expr> = match (start, end) {
                    (Some(start), Some(end)) => {
                        let (start, end): (Expr, Expr) = (start, end);
                        Some(parse_quote_spanned!(at=> (#start && #end)))
                    }
                    (one, other) => one.or(other),
                };
                both
            }
            _ => None,
        }
    }

    /// Emits the bindings of a pattern.
    fn bindings(&self, subject: &Subject, pat: &Pat) -> Vec<TokenStream> {
        let rt = self.rt;
        match (subject, pat) {
            (_, Pat::Paren(it)) => self.bindings(subject, &it.pat),
            (_, Pat::Guard(it)) => self.bindings(subject, &it.pat),
            (Subject::Whole(name), Pat::Ident(it)) => {
                let (mutability, bound) = (&it.mutability, &it.ident);
                vec![quote!(let #mutability #bound = #rt::Copied::copy(&#name);)]
            }
            (Subject::Parts(names), Pat::Ident(it)) => {
                let (mutability, bound) = (&it.mutability, &it.ident);
                vec![quote!(let #mutability #bound = (#(#rt::Copied::copy(&#names),)*);)]
            }
            (Subject::Parts(names), Pat::Tuple(it)) => {
                let parts = names.iter().zip(&it.elems);
                parts.flat_map(|(name, pat)| self.bindings(&Subject::Whole(name.clone()), pat)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Reports a pattern that destructures a tensor, or that would compare one by Rust's own rules.
    pub fn check_pattern(&mut self, pat: &Pat, scrutinee: &mut Expr) {
        if self.scopes.known(scrutinee) == Known::Tensor
            && let Some(pat) = foreign(pat)
        {
            let message = "a tensor cannot be matched against this pattern here";
            let help = "a `match` on numbers, ranges and bools whose last arm takes the rest (`_ => ..`) decides on \
                        tensors; elsewhere compare: `x == 0`";
            *scrutinee = self.diags.refuse_in_place(Code::Pattern, pat, message, help);
        }
    }

    /// Reports a `match` on a tensor without an arm for all other values.
    pub fn check_match(&mut self, it: &mut ExprMatch) {
        let mut closed = it.clone();
        closed.arms.push(parse_quote!(_ => {}));
        if self.scopes.known(&it.expr) == Known::Tensor
            && is_choice(&closed)
            && let Some(last) = it.arms.last()
        {
            let message = "a `match` on a tensor ends with an arm for all other values";
            *it.expr = self.diags.refuse_in_place(Code::Pattern, last.pat.clone(), message, "add `_ => ..`");
        }
        let ExprMatch { expr, arms, .. } = it;
        arms.iter().for_each(|arm| self.check_pattern(&arm.pat, expr));
    }
}

/// The scrutinee, as a whole or by its elements.
enum Subject {
    Whole(Ident),
    Parts(Vec<Ident>),
}

/// Returns the part of a pattern that cannot match a tensor.
fn foreign(pat: &Pat) -> Option<&Pat> {
    match pat {
        Pat::Wild(_) | Pat::Type(_) | Pat::Macro(_) | Pat::Rest(_) => None,
        Pat::Ident(it) => it.subpat.as_ref().and_then(|it| foreign(&it.1)),
        Pat::Paren(it) => foreign(&it.pat),
        Pat::Reference(it) => foreign(&it.pat),
        Pat::Guard(it) => foreign(&it.pat),
        Pat::Or(it) => it.cases.iter().find_map(foreign),
        _ => Some(pat),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_seen_from_the_text() {
        for (text, want) in [
            ("match x { 0 => a, 1 | 2 => b, _ => c }", true),
            ("match x { 0..=3 => a, n @ (4 | 7..) => b, -1 => c, other => d }", true),
            ("match x { 0.5 if y > 1.0 => a, _ => b }", true),
            ("match (x, y) { (0, n) if n > 1 => a, (_, true) => b, (m, _) => c }", true),
            ("match x { true => a, false => b }", true),
            ("match x { n if n > 1.0 => a, _ => b }", false),
            ("match x { 0 => a, 1 => b }", false),
            ("match x { Some(0) => a, _ => b }", false),
            ("match x { (0, 1) => a, _ => b }", false),
            ("match x { 'a' => a, _ => b }", false),
            ("match x { LIMIT => a, 0 => b, _ => c }", false),
            ("match (x, y) { (true, _) => a, (false, _) => b }", false),
        ] {
            let it: ExprMatch = syn::parse_str(text).expect("a match");
            assert_eq!(is_choice(&it), want, "{text}");
        }
    }
}
