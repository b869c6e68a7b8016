//! Rewrites `if` to a region with two arms, unless the condition is certainly a bool.

use super::changes::{self, Found};
use super::context::TakenExit;
use super::decide::{flatten, has_let};
use super::moves;
use super::places::PlaceExpr;
use super::state::{self, State};
use super::{Rewriter, bare};
use crate::names::{own, own_span, respan, shown};
use crate::refers;
use crate::resolve::Scopes;
use proc_macro2::{Delimiter, Group, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::token::Brace;
use syn::visit_mut::VisitMut;
use syn::{BinOp, Block, Expr, ExprIf, Lifetime, Stmt, Type, parse_quote, parse_quote_spanned};

/// How the value of an expression is used.
#[derive(Clone)]
pub enum Use {
    /// The expression is a statement and has no value.
    Statement,
    /// The value is used. The type is present if it is annotated.
    Value(Option<Box<Type>>),
    /// The value is the result of the function. The type is present if it is annotated.
    Result(Option<Box<Type>>),
    /// The expression always jumps and has no value.
    Never,
}

/// An arm of a region, with the label that leaves it.
pub struct Arm {
    /// The label.
    pub label: Lifetime,
    /// The body of the arm.
    pub block: Block,
    /// The span of the arm's value, for messages.
    pub tail: Span,
    /// The probes of the names that the arm uses.
    pub probed: TokenStream,
}

/// Returns the span of the value of a block, for messages.
pub fn tail(block: &Block) -> Span {
    match block.stmts.last() {
        Some(Stmt::Expr(Expr::If(it), None)) => tail(&it.then_branch),
        Some(stmt) => stmt.span(),
        None => block.brace_token.span.open(),
    }
}

impl Rewriter<'_> {
    /// Rewrites an `if`.
    pub fn branch(&mut self, it: &ExprIf, used: &Use) -> Expr {
        if self.scopes.is_settled_condition(&it.cond) {
            return Expr::If(self.native_if(it.clone(), used));
        }
        let grouped = has_let(&it.cond).then(|| self.regroup_condition(it));
        let it = grouped.as_ref().unwrap_or(it);
        if self.scopes.is_settled_condition(&it.cond) {
            return Expr::If(self.native_if(it.clone(), used));
        }
        let (mut cond, mut first) = ((*it.cond).clone(), it.then_branch.clone());
        let mut second = match &it.else_branch {
            Some((_, other)) => block(other),
            None => parse_quote!({}),
        };
        let tails = [&first, &second].map(tail);
        let mut probes = Vec::new();
        let mut scopes = self.scopes.clone();
        bind(&mut scopes, &cond);
        let Found { mut places, probes: others } = changes::changed(&self.scopes, |look| {
            look.visit_branch(&mut cond, &mut first, &scopes);
            probes = look.probes();
            look.visit_arm_block(&mut second);
        });
        let in_both = |name: &str| [&first, &second].iter().all(|it| moves::mentions(&it.to_token_stream(), &[name]));
        self.drop_consumed(&mut places, used, in_both);
        self.mark_passing(&mut places, used);
        let probed = [probes, others].map(|it| self.probed(&own("region"), &it));
        let mut needed = self.needed(&first.to_token_stream(), &places);
        needed.extend(moves::mentioned([second.to_token_stream()].into_iter()));
        moves::copy(&mut first, needed, &self.scopes, self.rt);
        let needed = self.needed(&second.to_token_stream(), &places);
        moves::copy(&mut second, needed, &self.scopes, self.rt);
        let labels = [self.label("arm"), self.label("arm")];
        self.context.push_arm(labels[0].clone());
        self.scoped(|this| {
            this.region_condition(&mut cond);
            this.arm_block(&mut first, used);
        });
        let mut flows = self.context.pop().flows;
        self.context.push_arm(labels[1].clone());
        self.arm_block(&mut second, used);
        flows.extend(self.context.pop().flows);
        let vote = self.context.vote(&own("region"), flows.iter().copied());
        let leave = self.context.leave();
        let [one, other] = labels;
        let [probed, others] = probed;
        let second = Arm { label: other, block: second, tail: tails[1], probed: others };
        let exits = self.context.exits(&flows);
        let (at, label) = (it.cond.span(), self.label("join"));
        Region { rt: self.rt, at, label, places, exits, vote, leave }.emit(
            &cond,
            &Arm { label: one, block: first, tail: tails[0], probed },
            Some(&second),
            used,
            None,
        )
    }

    /// Regroups a condition so that operands which a tensor may skip mutate nothing.
    ///
    /// In the returned `if`, nothing is mutated after an operand that may be a tensor. The exceptions are the right
    /// operand of a separate `&&`, and a nested `if` after a `let`. No `let` before such an operand binds a mutable
    /// reference.
    fn regroup_condition(&self, it: &ExprIf) -> ExprIf {
        let mut parts = Vec::new();
        flatten(&it.cond, &mut parts);
        let found = |part: &Expr| changes::changed(&self.scopes, |look| look.visit_expr_mut(&mut part.clone()));
        let touches = |part: &Expr| {
            let found = found(part);
            !found.places.is_empty() || !found.probes.is_empty()
        };
        let first = parts.iter().position(|it| !self.scopes.is_settled_condition(it)).unwrap_or(parts.len());
        let end = parts[first..].iter().position(has_let).map_or(parts.len(), |at| first + at);
        let contains_mutable = |part: &Expr| match part {
            Expr::Let(it) => {
                !found(part).places.is_empty() || refers::of_expr(&it.expr, &self.scopes).contains_mutable()
            }
            _ => false,
        };
        let split = match first < parts.len() && parts[..first].iter().any(contains_mutable) {
            true => Some(first),
            false => parts[end..].iter().any(touches).then_some(end),
        };
        if let Some(at) = split {
            let (cond, inner) = (joined(&parts[..at]), joined(&parts[at..]));
            let (then, other) = (&it.then_branch, it.else_branch.as_ref().map(|(_, other)| quote!(else #other)));
            return self.regroup_condition(&parse_quote!(if #cond { if #inner #then #other } #other));
        }
        if parts[first..end].iter().skip(1).any(touches) {
            let decided = joined(&parts[first..end]);
            parts.splice(first..end, [parse_quote!((#decided))]);
        }
        ExprIf { cond: Box::new(joined(&parts)), ..it.clone() }
    }

    /// Returns the names that are needed after an arm, without the names of the other arm. They are the variables that
    /// the region carries and, after an arm that may jump, all names in the code that follows.
    pub fn needed(&self, arm: &TokenStream, places: &[PlaceExpr]) -> BTreeSet<String> {
        let mut needed: BTreeSet<String> = places.iter().filter_map(PlaceExpr::variable).collect();
        if moves::mentions(arm, &["return", "break", "continue"]) {
            needed.extend(self.rests.iter().chain(&self.rounds).flatten().cloned());
        }
        needed
    }

    /// Rewrites the block of an arm. Its last expression is the value of the `if`.
    fn arm_block(&mut self, block: &mut Block, used: &Use) {
        self.used = used.clone();
        self.visit_block_mut(block);
    }

    fn native_if(&mut self, mut it: ExprIf, used: &Use) -> ExprIf {
        self.scoped(|this| {
            this.condition(&mut it.cond);
            this.arm_block(&mut it.then_branch, used);
        });
        if let Some((_, other)) = &mut it.else_branch {
            self.used = used.clone();
            self.visit_expr_mut(other);
        }
        it
    }

    /// Rewrites the condition of a region, and declares the names that its `let`s bind.
    fn region_condition(&mut self, cond: &mut Expr) {
        match cond {
            Expr::Binary(it) if matches!(it.op, BinOp::And(_)) && (has_let(&it.left) || has_let(&it.right)) => {
                self.region_condition(&mut it.left);
                self.region_condition(&mut it.right);
            }
            Expr::Let(it) => {
                self.check_pattern(&it.pat, &mut it.expr);
                self.visit_expr_mut(&mut it.expr);
                self.scopes.declare_as(&it.pat, Some(&it.expr));
            }
            _ if self.scopes.is_settled_condition(cond) => self.visit_expr_mut(cond),
            _ => {
                let at = cond.span();
                self.visit_expr_mut(cond);
                let (region, bare) = (own("region"), bare(cond));
                *cond = parse_quote_spanned!(at=> #region.test(#bare));
            }
        }
    }
}

/// Replaces the braces of a block by braces of the expansion: rustc would warn about the user's braces here.
pub fn with_expansion_braces(block: &Block) -> Block {
    let mut braces = Group::new(Delimiter::Brace, TokenStream::new());
    braces.set_span(own_span(block.brace_token.span.join()));
    Block { brace_token: Brace { span: braces.delim_span() }, stmts: block.stmts.clone() }
}

/// Declares the names that a condition binds.
fn bind(scopes: &mut Scopes, cond: &Expr) {
    match cond {
        Expr::Let(it) => scopes.declare_as(&it.pat, Some(&it.expr)),
        Expr::Binary(it) if matches!(it.op, BinOp::And(_)) => {
            bind(scopes, &it.left);
            bind(scopes, &it.right);
        }
        _ => {}
    }
}

/// Joins the operands by `&&`.
fn joined(parts: &[Expr]) -> Expr {
    let (first, rest) = parts.split_first().expect("a condition has parts");
    rest.iter().fold(first.clone(), |all, part| {
        let (left, right) = (Box::new(all), Box::new(part.clone()));
        let op = BinOp::And(syn::Token![&&](part.span()));
        Expr::Binary(syn::ExprBinary { attrs: Vec::new(), left, op, right })
    })
}

/// Returns the expression as a block.
pub fn block(expr: &Expr) -> Block {
    match expr {
        Expr::Block(it) if it.label.is_none() && it.attrs.is_empty() => it.block.clone(),
        _ => parse_quote!({ #expr }),
    }
}

/// The condition of a guarded region: no jump has left a loop or a function.
#[derive(Clone, Copy)]
pub struct Guard {
    /// The exit of the loop or function.
    pub flow: usize,
    /// Whether no further iteration follows the skipped code.
    pub ends: bool,
}

/// The code around the arms of a region.
pub struct Region<'a> {
    /// The hidden module.
    pub rt: &'a TokenStream,
    /// The span of the region, for messages.
    pub at: Span,
    /// The label of the end of the region.
    pub label: Lifetime,
    /// The places that the region changes.
    pub places: Vec<PlaceExpr>,
    /// The exits that are taken inside the region.
    pub exits: Vec<TakenExit>,
    /// The statement by which the region votes for the kinds of the exits.
    pub vote: Option<TokenStream>,
    /// A jump to the end of the enclosing construct, for a region that a jump leaves.
    pub leave: TokenStream,
}

impl Region<'_> {
    /// Emits the region. Without a second arm, the alternative is empty and the region has no value.
    pub fn emit(&self, cond: &Expr, first: &Arm, second: Option<&Arm>, used: &Use, guards: Option<Guard>) -> Expr {
        let Self { rt, label: join, vote, leave, exits, .. } = self;
        let region = own("region");
        let state = State { rt, region: &region, places: &self.places, exits, own: None };
        let (held, save, carry) = (state.held(), state.save(), state.carry());
        let kind = quote_spanned!(self.at=> #rt::branch());
        let other = matches!(cond, Expr::Binary(_)).then(|| quote!(#region.other();));
        let other = match self.places.iter().any(|it| it.dead_after) {
            true if guards.is_some() => quote!(#other #region.passes();),
            true if matches!(used, Use::Result(_)) => quote!(#other #region.ends();),
            _ => quote!(#other),
        };
        let other = match guards {
            Some(Guard { flow, ends: true }) if let Some(exit) = exits.iter().find(|it| it.flow == flow) => {
                let (held, flow) = (exit.held(), exit.name());
                quote!(#other #region.leaves(&#held, &mut #flow);)
            }
            _ => other,
        };
        let (probed, others) = (&first.probed, second.map(|it| &it.probed));
        let never = matches!(used, Use::Never);
        let leaves = guards.is_some() || !exits.is_empty() || never;
        let hint = match used {
            Use::Statement if !leaves => {
                let block = with_expansion_braces(&first.block);
                let second = second.map(|it| &it.block).filter(|it| !it.stmts.is_empty()).map(with_expansion_braces);
                return parse_quote! {{
                    let mut #region = #kind;
                    #held
                    #[allow(unreachable_code)]
                    #join: {
                        if #cond {
                            #save
                            #region.begin();
                            #probed
                            #block
                            #carry
                            if #region.is_decided() {
                                break #join;
                            }
                            #region.turn();
                        }
                        #other
                        #others
                        #second
                        #carry
                        if #region.is_decided() {
                            break #join;
                        }
                        #region.join();
                        #carry
                    }
                }};
            }
            Use::Statement | Use::Never => Some(quote!(: ())),
            Use::Value(hint) | Use::Result(hint) => hint.as_ref().map(|ty| quote!(: #ty)),
        };
        let (value, one, result) = (own("value"), own("arm"), own("result"));
        let some = quote!(::core::option::Option::Some);
        let arm = |arm: &Arm, binding: TokenStream, given: TokenStream| {
            let (label, block) = (&arm.label, with_expansion_braces(&arm.block));
            match leaves {
                true => quote!(#binding = #label: { let #one #hint = #block; #some(#given) };),
                false => quote!(let #one #hint = #block; #binding = #some(#given);),
            }
        };
        // Without an annotation, rustc compares the types of the arms at one span, the end of the second arm.
        let alike = |arm: &Arm| match &hint {
            Some(_) => quote!(#one),
            None => {
                let at = arm.tail;
                respan(quote!(#rt::SecondArm { first: &#value, value: #one }.value), at)
            }
        };
        // All of them have one span, so that rustc reports an unsupported value once.
        let at = first.tail;
        let [keep_first, keep_second, join_values] = {
            let [region, value, one] = [&region, &value, &one].map(|it| shown(it, at));
            let accepted = state::accepted(rt, &region, quote_spanned!(at=> #one.as_ref()), at);
            let at = own_span(at);
            [
                quote_spanned!(at=> #accepted #region.first(&mut #value, #one);),
                quote_spanned!(at=> #region.second(&mut #value, &mut #one);),
                quote_spanned!(at=> #region.value(#value, #one)),
            ]
        };
        let first = arm(first, quote!(let #one), quote!(#one));
        let second = second.map_or_else(
            || quote!(let mut #one = ::core::option::Option::None;),
            |it| arm(it, quote!(let mut #one), alike(it)),
        );
        let last = match leaves {
            _ if never => quote! {{
                let _ = #result;
                #leave
            }},
            true => quote! {
                match #result {
                    #some(#one) => #one,
                    ::core::option::Option::None => #leave,
                }
            },
            false => quote!(#rt::branch_value(#result)),
        };
        parse_quote! {{
            let mut #region = #kind;
            #vote
            let mut #value = #rt::held("the value");
            #held
            #[allow(unreachable_code, unused_labels)]
            let #result = #join: {
                if #cond {
                    #save
                    #region.begin();
                    #probed
                    #first
                    #keep_first
                    #carry
                    if #region.is_decided() {
                        break #join #region.alone(&mut #value);
                    }
                    #region.turn();
                }
                #other
                #others
                #second
                #keep_second
                #carry
                if #region.is_decided() {
                    break #join #one;
                }
                #region.join();
                #carry
                #join_values
            };
            #last
        }}
    }
}
