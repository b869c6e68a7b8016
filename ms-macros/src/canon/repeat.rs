//! Rewrites `while`, `loop` and `for`: loops on tensors, and loops that tensors decide to leave early.

use super::branch::{Use, with_expansion_braces};
use super::changes::{self, Found};
use super::context::flow_name;
use super::decide::{flatten, has_let};
use super::jumps::{self, Jumps};
use super::moves;
use super::places::PlaceExpr;
use super::state::State;
use super::{Rewriter, bare};
use crate::names::{own, shown};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Block, Expr, Label, Lit, Stmt, parse_quote, parse_quote_spanned};

/// The head of a loop.
pub enum Head {
    /// `while`, with its condition.
    While(Box<Expr>, Span),
    /// `loop`.
    Loop,
    /// `while` with a condition that contains `let`, up to its first operand that may be a tensor.
    Chain(Vec<Expr>),
    /// `for`.
    For {
        /// The pattern of the items.
        pat: Box<syn::Pat>,
        /// The expression of the iterator.
        over: Box<Expr>,
    },
}

impl Rewriter<'_> {
    /// Rewrites a loop.
    pub fn repeat(&mut self, expr: &mut Expr, used: &Use) {
        self.rounds.push(moves::mentioned([expr.to_token_stream()].into_iter()));
        self.repeat_as(expr, used);
        self.rounds.pop();
    }

    fn repeat_as(&mut self, expr: &mut Expr, used: &Use) {
        let (label, mut body, head) = match expr {
            Expr::While(it) if is_true(&it.cond) => (it.label.clone(), it.body.clone(), Head::Loop),
            Expr::While(it) => (it.label.clone(), it.body.clone(), Head::While(it.cond.clone(), it.cond.span())),
            Expr::Loop(it) => (it.label.clone(), it.body.clone(), Head::Loop),
            Expr::ForLoop(it) => {
                (it.label.clone(), it.body.clone(), Head::For { pat: it.pat.clone(), over: it.expr.clone() })
            }
            _ => return,
        };
        let head = match head {
            Head::While(cond, _) if has_let(&cond) => self.chain(&cond, &mut body),
            head => head,
        };
        let undecided = match &head {
            Head::While(cond, _) => !self.scopes.is_settled_condition(cond),
            Head::Loop | Head::Chain(_) => false,
            Head::For { over, .. } => is_range(over),
        };
        let jumps = {
            self.scopes.push();
            self.declare(&head);
            let jumps = jumps::of_body(&self.scopes, None, &body);
            self.scopes.pop();
            jumps
        };
        let managed = jumps.undecided || (undecided && jumps.any);
        if !undecided && !managed {
            return self.native_loop(expr);
        }
        *expr = self.region_loop(label, head, body, managed.then_some(jumps), used);
    }

    /// Returns the head of a `while` with a condition that contains `let`, and moves its operands that may be tensors
    /// into the body.
    fn chain(&self, cond: &Expr, body: &mut Block) -> Head {
        let mut parts = Vec::new();
        flatten(cond, &mut parts);
        let first = parts.iter().position(|it| !self.scopes.is_settled_condition(it)).unwrap_or(parts.len());
        let rest = parts.split_off(first).into_iter().map(|part| -> Stmt {
            match part {
                Expr::Let(it) => parse_quote!(#it else { break };),
                cond => parse_quote_spanned!(cond.span()=> if !(#cond) { break; }),
            }
        });
        body.stmts.splice(0..0, rest);
        Head::Chain(parts)
    }

    /// Declares the names that the head of a loop binds.
    fn declare(&mut self, head: &Head) {
        match head {
            Head::For { pat, over } => self.scopes.declare_items(pat, over),
            Head::Chain(parts) => parts.iter().for_each(|part| {
                if let Expr::Let(it) = part {
                    self.scopes.declare_as(&it.pat, Some(&it.expr));
                }
            }),
            Head::While(..) | Head::Loop => {}
        }
    }

    fn native_loop(&mut self, expr: &mut Expr) {
        let label = match expr {
            Expr::While(it) => &it.label,
            Expr::Loop(it) => &it.label,
            Expr::ForLoop(it) => &it.label,
            _ => return,
        };
        let user = label.as_ref().map(|it| it.name.to_string());
        let own = self.label("loop");
        let start = self.start();
        self.context.push_loop(own, user, false, start);
        match expr {
            Expr::While(it) => self.scoped(|this| {
                this.condition(&mut it.cond);
                this.used = Use::Statement;
                this.visit_block_mut(&mut it.body);
            }),
            Expr::Loop(it) => {
                self.used = Use::Statement;
                self.visit_block_mut(&mut it.body);
            }
            Expr::ForLoop(it) => {
                let over = (*it.expr).clone();
                self.visit_expr_mut(&mut it.expr);
                self.scoped(|this| {
                    this.scopes.declare_items(&it.pat, &over);
                    this.used = Use::Statement;
                    this.visit_block_mut(&mut it.body);
                });
            }
            _ => {}
        }
        self.context.pop();
    }

    fn region_loop(
        &mut self,
        user: Option<Label>,
        mut head: Head,
        mut body: Block,
        jumps: Option<Jumps>,
        used: &Use,
    ) -> Expr {
        let rt = self.rt;
        let advances = self.advances(&head);
        let Found { places, probes } = changes::changed(&self.scopes, |look| match &mut head {
            Head::While(cond, _) => look.visit_loop(Some(cond), None, &mut body),
            Head::Loop => look.visit_loop(None, None, &mut body),
            Head::Chain(parts) => {
                parts.iter_mut().for_each(|it| look.visit_expr_mut(it));
                let bound = parts.iter().filter_map(|it| match it {
                    Expr::Let(it) => Some(&it.pat),
                    _ => None,
                });
                look.visit_loop(None, Some(&parse_quote!((#(#bound),*))), &mut body);
            }
            Head::For { pat, .. } => look.visit_loop(None, Some(pat), &mut body),
        });
        let label = user.as_ref().map_or_else(|| self.label("repeat"), |it| it.name.clone());
        let region = own("repeat");
        let probed = self.probed(&region, &probes);
        let managed = jumps.is_some();
        let at = match &head {
            Head::While(_, at) => *at,
            Head::For { over, .. } => over.span(),
            Head::Chain(parts) => parts[0].span(),
            Head::Loop => body.brace_token.span.open(),
        };
        let start = self.start();
        self.scopes.push();
        match &mut head {
            Head::For { pat, over } => {
                self.imports.insert("Iterate");
                self.visit_expr_mut(over);
                self.scopes.declare_items(pat, over);
            }
            Head::While(cond, _) => {
                self.visit_expr_mut(cond);
                **cond = bare(cond).clone();
            }
            Head::Chain(parts) => parts.iter_mut().for_each(|it| self.condition(it)),
            Head::Loop => {}
        }
        let flow = self.context.push_loop(label.clone(), user.map(|it| it.name.to_string()), managed, start);
        let body: TokenStream = if managed {
            let guarded = self.guard(body, &Use::Statement);
            quote!(#guarded)
        } else {
            self.used = Use::Statement;
            self.visit_block_mut(&mut body);
            with_expansion_braces(&body).into_token_stream()
        };
        self.scopes.pop();
        let flows = self.context.pop().flows;
        let own_flow = flows.contains(&flow).then(|| flow_name(flow));
        let vote = self.context.vote(&region, flows.iter().copied());
        let exits = self.context.exits(&flows);
        let state = State { rt, region: &region, places: &places, exits: &exits, own: Some(flow) };
        let (held, carry) = (state.held(), state.carry());
        let declared = own_flow.as_ref().map(|_| {
            let value = if self.context.is_valued(flow) { quote!(_) } else { quote!(()) };
            self.context.declare(flow, &value, rt)
        });
        let ends = own_flow.as_ref().map(|flow| quote!(if #flow.ends() { break; }));
        let is_for = matches!(head, Head::For { .. });
        let repeat = if is_for { quote!(#region.region()) } else { quote!(&#region) };
        let refused = self.refused(&advances, flow, &flows, &repeat);
        let begin = own_flow.as_ref().map(|flow| {
            let (flow, at) = (shown(flow, at), at);
            quote_spanned!(at=> #flow.begin(#repeat);)
        });
        // A host condition on a place that the loop changes terminates the loop. Jumps under any other condition are
        // flags.
        let is_about = |names: &BTreeSet<String>| {
            names.is_empty() || places.iter().filter_map(PlaceExpr::variable).any(|it| names.contains(&it))
        };
        let host_exit = jumps.as_ref().is_some_and(|it| it.host_exits.iter().any(is_about));
        let (ahead, advanced) = (refused.before, refused.head);
        let test = test(&head, &region, own_flow.as_ref(), host_exit, &carry);
        let start = quote_spanned!(at=> #region.head(););
        let repeat = quote! {
            #label: loop {
                #start
                #carry
                if #region.is_over() {
                    #carry
                    break;
                }
                #ends
                #advanced
                #test
                #probed
                #begin
                #body
            }
        };
        let leave_enclosing = self.leave_enclosing(flow, flows.iter().copied());
        let is_endless = matches!(head, Head::Loop) && !self.context.breaks_of(flow);
        let value = match (&own_flow, used) {
            (Some(flow_name), _) if self.context.is_valued(flow) => quote!(#rt::branch_value(#flow_name.take())),
            _ if is_endless => {
                let leave = self.context.leave();
                quote!(#leave)
            }
            _ => quote!(),
        };
        match &head {
            Head::For { over, .. } => parse_quote! {{
                #declared
                #ahead
                match #rt::Over(#over).iterate() {
                    mut #region => {
                        #vote
                        #held
                        #repeat
                        #leave_enclosing
                        #value
                    }
                }
            }},
            _ => {
                let kind = quote_spanned!(at=> #rt::repeat());
                parse_quote! {{
                    #declared
                    let mut #region = #kind;
                    #vote
                    #held
                    #repeat
                    #leave_enclosing
                    #value
                }}
            }
        }
    }
}

/// Emits the condition under which an iteration runs.
fn test(
    head: &Head,
    region: &syn::Ident,
    flow: Option<&syn::Ident>,
    host_exit: bool,
    carry: &TokenStream,
) -> TokenStream {
    match (head, flow) {
        (Head::For { pat, .. }, _) => quote! {
            let ::core::option::Option::Some(#pat) = #region.next() else { break };
        },
        (Head::Chain(parts), _) => {
            let parts = parts.iter().map(|part| match part {
                Expr::Let(it) => quote!(#it else { break };),
                cond => quote!(if !(#cond) { break; }),
            });
            quote! {
                if !#region.test(true) {
                    break;
                }
                #carry
                #(#parts)*
            }
        }
        (Head::While(cond, at), flow) => {
            let test = match flow {
                None => quote_spanned!(*at=> #region.test(#cond)),
                Some(flow) => quote_spanned!(*at=> #region.test_unless(#cond, &#flow)),
            };
            quote! {
                if !#test {
                    break;
                }
                #carry
            }
        }
        (Head::Loop, flow) => {
            let cond = match flow {
                Some(flow) if !host_exit => quote!(#flow.repeats()),
                _ => quote!(true),
            };
            quote! {
                if !#region.test(#cond) {
                    break;
                }
                #carry
            }
        }
    }
}

fn is_true(cond: &Expr) -> bool {
    matches!(cond, Expr::Lit(it) if matches!(&it.lit, Lit::Bool(it) if it.value))
}

/// Whether the expression is spelled like a call of `range`. Its type decides whether it is one.
pub fn is_range(expr: &Expr) -> bool {
    match expr {
        Expr::Paren(it) => is_range(&it.expr),
        Expr::MethodCall(it) => it.method == "step" && is_range(&it.receiver),
        Expr::Call(it) => {
            matches!(&*it.func, Expr::Path(it) if it.path.segments.last().is_some_and(|it| it.ident == "range"))
        }
        _ => false,
    }
}
