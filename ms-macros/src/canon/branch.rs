//! `if`: a region with two arms, where the type of the condition is to decide.

use super::context::{flow_name, held_flow_name};
use super::moves;
use super::places::{self, Place};
use super::{Rewriter, bare};
use crate::names::own;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{BinOp, Block, Expr, ExprIf, Lifetime, Type, parse_quote, parse_quote_spanned};

/// What becomes of the value of an expression.
#[derive(Clone)]
pub enum Use {
    /// There is none: the expression is a statement.
    Statement,
    /// It is taken; the type is known if it is written.
    Value(Option<Box<Type>>),
    /// It is the result of the function.
    Result(Option<Box<Type>>),
}

/// An arm of a region, and the label that leads to its end.
pub struct Arm {
    /// The label.
    pub label: Lifetime,
    /// The code.
    pub block: Block,
}

impl Rewriter<'_> {
    /// Rewrites an `if`.
    pub fn branch(&mut self, it: &ExprIf, used: &Use) -> Expr {
        if self.scopes.is_settled_condition(&it.cond) {
            return Expr::If(self.native_if(it.clone(), used));
        }
        let mut places = places::changed(&self.scopes, |look| {
            look.visit_expr(&it.cond);
            look.visit_block(&it.then_branch);
            if let Some((_, other)) = &it.else_branch {
                look.visit_expr(other);
            }
        });
        self.mark_passing(&mut places, used);
        let mut first = it.then_branch.clone();
        let mut second = match &it.else_branch {
            Some((_, other)) => block(other),
            None => parse_quote!({}),
        };
        moves::copy(&mut first, &[second.to_token_stream()], &self.scopes, self.rt);
        let mut cond = (*it.cond).clone();
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
        let second = Arm { label: other, block: second };
        Region { rt: self.rt, at: &it.cond, label: self.label("join"), places, flows, vote, leave }.emit(
            &cond,
            &Arm { label: one, block: first },
            Some(&second),
            used,
            None,
        )
    }

    /// Rewrites the block of an arm, whose last expression is the value of the whole.
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

    /// Rewrites the condition of a region; names that `let` binds in it are declared.
    fn region_condition(&mut self, cond: &mut Expr) {
        match cond {
            Expr::Binary(it) if matches!(it.op, BinOp::And(_)) && has_let(&it.left, &it.right) => {
                self.region_condition(&mut it.left);
                self.region_condition(&mut it.right);
            }
            Expr::Let(it) => {
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

fn has_let(left: &Expr, right: &Expr) -> bool {
    fn one(expr: &Expr) -> bool {
        match expr {
            Expr::Let(_) => true,
            Expr::Binary(it) if matches!(it.op, BinOp::And(_)) => has_let(&it.left, &it.right),
            _ => false,
        }
    }
    one(left) || one(right)
}

/// The expression as a block.
pub fn block(expr: &Expr) -> Block {
    match expr {
        Expr::Block(it) if it.label.is_none() && it.attrs.is_empty() => it.block.clone(),
        _ => parse_quote!({ #expr }),
    }
}

/// That a region runs unless a loop or a function was left.
#[derive(Clone, Copy)]
pub struct Guard {
    /// The way out.
    pub flow: usize,
    /// Whether no next iteration follows what is skipped.
    pub ends: bool,
}

/// What is emitted around the arms.
pub struct Region<'a> {
    /// The hidden module.
    pub rt: &'a TokenStream,
    /// What decides.
    pub at: &'a Expr,
    /// The label of the end.
    pub label: Lifetime,
    /// What changes inside.
    pub places: Vec<Place>,
    /// The ways out that are taken inside.
    pub flows: BTreeSet<usize>,
    /// What settles their kinds.
    pub vote: Option<TokenStream>,
    /// To the end of what is around, where the region is left.
    pub leave: TokenStream,
}

impl Region<'_> {
    /// The region; without a second arm nothing runs in its place, and there is no value.
    pub fn emit(&self, cond: &Expr, first: &Arm, second: Option<&Arm>, used: &Use, guards: Option<Guard>) -> Expr {
        let Self { rt, label: join, vote, leave, .. } = self;
        let region = own("region");
        let state = State { rt, region: &region, places: &self.places, flows: &self.flows, own: None };
        let (held, save, carry) = (state.held(), state.save(), state.carry());
        let kind = quote_spanned!(self.at.span()=> #rt::branch());
        let other = matches!(cond, Expr::Binary(_)).then(|| quote!(#region.other();));
        let other = match self.places.iter().any(|it| it.passes) {
            true if guards.is_some() => quote!(#other #region.passes();),
            true if matches!(used, Use::Result(_)) => quote!(#other #region.ends();),
            _ => quote!(#other),
        };
        let other = match guards {
            Some(Guard { flow, ends: true }) if self.flows.contains(&flow) => {
                let (held, flow) = (held_flow_name(flow), flow_name(flow));
                quote!(#other #region.leaves(&#held, &mut #flow);)
            }
            _ => other,
        };
        let leaves = guards.is_some() || !self.flows.is_empty();
        let hint = match used {
            Use::Statement if !leaves => {
                let block = &first.block;
                let second = second.map(|it| &it.block).filter(|it| !it.stmts.is_empty());
                return parse_quote! {{
                    let mut #region = #kind;
                    #held
                    #[allow(unreachable_code)]
                    #join: {
                        if #cond {
                            #save
                            #region.begin();
                            #block
                            if #region.is_decided() {
                                break #join;
                            }
                            #carry
                            #region.turn();
                        }
                        #other
                        #second
                        if #region.is_decided() {
                            break #join;
                        }
                        #carry
                        #region.join();
                        #carry
                    }
                }};
            }
            Use::Statement => Some(quote!(: ())),
            Use::Value(hint) | Use::Result(hint) => hint.as_ref().map(|ty| quote!(: #ty)),
        };
        let (value, one, result) = (own("value"), own("arm"), own("result"));
        let some = quote!(::core::option::Option::Some);
        let arm = |arm: &Arm| {
            let Arm { label, block } = arm;
            match leaves {
                true => quote!(let #one = #label: { let #one #hint = #block; #some(#one) };),
                false => quote!(let #one #hint = #block; let #one = #some(#one);),
            }
        };
        let first = arm(first);
        let second = second.map_or_else(|| quote!(let #one = ::core::option::Option::None;), arm);
        let last = match leaves {
            true => quote! {
                match #result {
                    #some(#one) => #one,
                    ::core::option::Option::None => #leave,
                }
            },
            false => quote!(#rt::given(#result)),
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
                    #first
                    if #region.is_decided() {
                        break #join #one;
                    }
                    #region.first(&mut #value, #one);
                    #carry
                    #region.turn();
                }
                #other
                #second
                if #region.is_decided() {
                    break #join #one;
                }
                #region.second(&mut #value, &#one);
                #carry
                #region.join();
                #carry
                #region.value(#value, #one)
            };
            #last
        }}
    }
}

/// The statements for what changes inside a region.
pub struct State<'a> {
    /// The hidden module.
    pub rt: &'a TokenStream,
    /// The region.
    pub region: &'a syn::Ident,
    /// What changes.
    pub places: &'a [Place],
    /// The ways out that are taken inside.
    pub flows: &'a BTreeSet<usize>,
    /// The way out of the region itself, if it is a loop.
    pub own: Option<usize>,
}

impl State<'_> {
    fn each(&self, emit: impl Fn(&Place) -> TokenStream) -> TokenStream {
        self.places.iter().filter(|it| !it.deferred).map(emit).collect()
    }

    /// Declares what the region remembers.
    pub fn held(&self) -> TokenStream {
        let (rt, region) = (self.rt, self.region);
        let held = self.each(|place| {
            let (held, name) = (place.ident(), place.name());
            match place.passes {
                true => quote!(let mut #held = #rt::passing(#name);),
                false => quote!(let mut #held = #rt::held(#name);),
            }
        });
        let deferred: TokenStream = self
            .places
            .iter()
            .filter(|it| it.deferred)
            .map(|place| quote_spanned!(place.span()=> #region.settle();))
            .collect();
        let flows = self.flows.iter().map(|it| held_flow_name(*it));
        quote!(#held #(let mut #flows = #rt::held_flow();)* #deferred)
    }

    /// Keeps the places as they are before the region.
    pub fn save(&self) -> TokenStream {
        let region = self.region;
        let flows = self.flows.iter().map(|&it| {
            let (held, flow) = (held_flow_name(it), flow_name(it));
            quote!(#region.save_flow(&mut #held, &#flow);)
        });
        let places = self.each(|place| {
            let (held, expr) = (place.ident(), place.expr());
            quote_spanned!(place.span()=> #region.save(&mut #held, &#expr);)
        });
        quote!(#places #(#flows)*)
    }

    /// Brings the places over a border.
    pub fn carry(&self) -> TokenStream {
        let region = self.region;
        let flows = self.flows.iter().map(|&it| {
            let (held, flow) = (held_flow_name(it), flow_name(it));
            let own = self.own.map(|own| {
                let own = own == it;
                quote!(, #own)
            });
            quote!(#region.carry_flow(&mut #held, &mut #flow #own);)
        });
        let places = self.each(|place| {
            let (held, expr) = (place.ident(), place.expr());
            quote_spanned!(place.span()=> #region.carry(&mut #held, &mut #expr);)
        });
        quote!(#(#flows)* #places)
    }
}
