//! `if`: a region with two arms, where the type of the condition is to decide.

use super::Rewriter;
use super::places::{self, Place};
use super::{jumps, moves};
use crate::names::own;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::visit_mut::VisitMut;
use syn::{BinOp, Block, Expr, ExprIf, Lifetime, Type, UnOp, parse_quote, parse_quote_spanned};

/// What becomes of the value of an expression.
#[derive(Clone)]
pub enum Use {
    /// There is none: the expression is a statement.
    Statement,
    /// It is taken; the type is known if it is written.
    Value(Option<Box<Type>>),
}

impl Rewriter<'_> {
    /// Rewrites an `if`.
    pub fn branch(&mut self, it: &ExprIf, used: &Use) -> Expr {
        if self.is_settled_condition(&it.cond) || jumps::leave_if(it) {
            return Expr::If(self.native_if(it.clone()));
        }
        let places = places::changed(&self.scopes, |look| {
            look.visit_expr(&it.cond);
            look.visit_block(&it.then_branch);
            if let Some((_, other)) = &it.else_branch {
                look.visit_expr(other);
            }
        });
        let mut first = it.then_branch.clone();
        let mut second = match &it.else_branch {
            Some((_, other)) => block(other),
            None => parse_quote!({}),
        };
        moves::copy(&mut first, &[second.to_token_stream()], &self.scopes, self.rt);
        let mut cond = (*it.cond).clone();
        self.scoped(|this| {
            this.region_condition(&mut cond);
            this.arm_block(&mut first, used);
        });
        self.arm_block(&mut second, used);
        let label = self.label("join");
        Region { rt: self.rt, at: &it.cond, label, places }.emit(&cond, &first, &second, used)
    }

    /// Rewrites the block of an arm, whose last expression is the value of the whole.
    pub fn arm_block(&mut self, block: &mut Block, used: &Use) {
        self.used = used.clone();
        self.visit_block_mut(block);
    }

    fn native_if(&mut self, mut it: ExprIf) -> ExprIf {
        self.scoped(|this| {
            this.condition(&mut it.cond);
            this.visit_block_mut(&mut it.then_branch);
        });
        if let Some((_, other)) = &mut it.else_branch {
            self.visit_expr_mut(other);
        }
        it
    }

    /// Whether the condition is a bool for certain.
    pub fn is_settled_condition(&self, cond: &Expr) -> bool {
        match cond {
            Expr::Let(_) => true,
            Expr::Binary(it) if matches!(it.op, BinOp::And(_) | BinOp::Or(_)) => {
                self.is_settled_condition(&it.left) && self.is_settled_condition(&it.right)
            }
            Expr::Paren(it) => self.is_settled_condition(&it.expr),
            Expr::Unary(it) if matches!(it.op, UnOp::Not(_)) => self.is_settled_condition(&it.expr),
            _ => self.scopes.is_settled(cond),
        }
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
            _ if self.is_settled_condition(cond) => self.visit_expr_mut(cond),
            _ => {
                self.visit_expr_mut(cond);
                let region = own("region");
                *cond = parse_quote_spanned!(cond.span()=> #region.test(#cond));
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

/// What is emitted around the arms.
struct Region<'a> {
    rt: &'a TokenStream,
    at: &'a Expr,
    label: Lifetime,
    places: Vec<Place>,
}

impl Region<'_> {
    fn emit(&self, cond: &Expr, first: &Block, second: &Block, used: &Use) -> Expr {
        let rt = self.rt;
        let (region, join) = (own("region"), &self.label);
        let state = State { rt, region: &region, places: &self.places };
        let (held, save, carry) = (state.held(), state.save(), state.carry());
        let kind = quote_spanned!(self.at.span()=> #rt::branch());
        let other = matches!(cond, Expr::Binary(_)).then(|| quote!(#region.other();));
        let second_is_empty = second.stmts.is_empty();
        let Use::Value(hint) = used else {
            let second = (!second_is_empty).then(|| quote!(#second));
            return parse_quote! {{
                let mut #region = #kind;
                #held
                #[allow(unreachable_code)]
                #join: {
                    if #cond {
                        #save
                        #region.begin();
                        #first
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
        };
        let (value, one, result) = (own("value"), own("first"), own("result"));
        let ty = hint.as_ref().map(|ty| quote!(: #ty));
        let some = quote!(::core::option::Option::Some);
        parse_quote! {{
            let mut #region = #kind;
            let mut #value = #rt::held("the value");
            #held
            #[allow(unreachable_code)]
            let #result = #join: {
                if #cond {
                    #save
                    #region.begin();
                    let #one #ty = #first;
                    if #region.is_decided() {
                        break #join #some(#one);
                    }
                    #region.first(&mut #value, #some(#one));
                    #carry
                    #region.turn();
                }
                #other
                let #one #ty = #second;
                let #one = #some(#one);
                if #region.is_decided() {
                    break #join #one;
                }
                #region.second(&mut #value, &#one);
                #carry
                #region.join();
                #carry
                #region.value(#value, #one)
            };
            #rt::given(#result)
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
            quote!(let mut #held = #rt::held(#name);)
        });
        let deferred: TokenStream = self
            .places
            .iter()
            .filter(|it| it.deferred)
            .map(|place| quote_spanned!(place.span()=> #region.settle();))
            .collect();
        quote!(#held #deferred)
    }

    /// Keeps the places as they are before the region.
    pub fn save(&self) -> TokenStream {
        let region = self.region;
        self.each(|place| {
            let (held, expr) = (place.ident(), place.expr());
            quote_spanned!(place.span()=> #region.save(&mut #held, &#expr);)
        })
    }

    /// Brings the places over a border.
    pub fn carry(&self) -> TokenStream {
        let region = self.region;
        self.each(|place| {
            let (held, expr) = (place.ident(), place.expr());
            quote_spanned!(place.span()=> #region.carry(&mut #held, &mut #expr);)
        })
    }
}
