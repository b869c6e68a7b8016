//! Tracks the enclosing regions, loops and functions of the code that is being rewritten, and the jumps out of them.

use crate::names::{own_nth, shown};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use std::collections::BTreeSet;
use syn::{Expr, Lifetime, Type};

/// The enclosing constructs, outermost first, and the exits of loops and functions.
#[derive(Default)]
pub struct Context {
    stack: Vec<Construct>,
    flows: Vec<ExitState>,
    votes: usize,
}

/// The exit of a loop or a function: `__flowN` in the expansion.
#[derive(Default)]
struct ExitState {
    /// The votes of the regions that are left through the exit, and whether each vote is declared with this exit.
    votes: Vec<(usize, bool)>,
    /// The number of jumps through it.
    jumps: usize,
    /// Whether one of the jumps is a `break` of the loop itself.
    breaks: bool,
    /// Whether one of the jumps is a `continue` of the loop itself.
    continues: bool,
    /// Whether one of the jumps has a value.
    valued: bool,
    /// The span of the first jump, for messages.
    at: Option<Span>,
}

/// An exit that is taken inside a region.
#[derive(Clone, Copy)]
pub struct TakenExit {
    /// The number of the exit.
    pub flow: usize,
    /// The span of the exit in messages.
    pub at: Span,
}

impl TakenExit {
    /// Returns the name of the exit's variable.
    pub fn name(&self) -> Ident {
        shown(&flow_name(self.flow), self.at)
    }

    /// Returns the name of the exit's saved copy in a region.
    pub fn held(&self) -> Ident {
        shown(&own_nth("was", self.flow), self.at)
    }
}

/// An arm of a region, a loop, a labelled block, or the body of a function or closure.
pub struct Construct {
    kind: Kind,
    label: Lifetime,
    /// The exits that are taken inside the construct, and are declared outside or by the construct itself.
    pub flows: BTreeSet<usize>,
}

/// A position in a body: the numbers of declared names and of open blocks.
pub type Start = (usize, usize);

enum Kind {
    Arm,
    Loop {
        flow: usize,
        /// The position where the loop begins.
        start: Start,
        user: Option<String>,
        /// Whether jumps to the loop are flags, because they may leave regions.
        managed: bool,
    },
    /// A labelled block.
    Block {
        flow: usize,
        start: Start,
        user: String,
        /// Whether jumps to the block are flags, because they may leave regions.
        managed: bool,
    },
    Body {
        flow: usize,
        /// The number of names that are declared outside.
        mark: usize,
        result: Option<Box<Type>>,
    },
}

/// The target of a jump.
#[derive(Clone, Copy)]
pub struct Target(usize);

impl Context {
    fn push(&mut self, kind: Kind, label: Lifetime) {
        self.stack.push(Construct { kind, label, flows: BTreeSet::new() });
    }

    fn flow(&mut self) -> usize {
        self.flows.push(ExitState::default());
        self.flows.len() - 1
    }

    /// Begins an arm.
    pub fn push_arm(&mut self, label: Lifetime) {
        self.push(Kind::Arm, label);
    }

    /// Begins a loop, and returns its exit.
    pub fn push_loop(&mut self, label: Lifetime, user: Option<String>, managed: bool, start: Start) -> usize {
        let flow = self.flow();
        self.push(Kind::Loop { flow, start, user, managed }, label);
        flow
    }

    /// Begins a labelled block, and returns its exit.
    pub fn push_block(&mut self, label: Lifetime, managed: bool, start: Start) -> usize {
        let flow = self.flow();
        let user = label.to_string();
        self.push(Kind::Block { flow, start, user, managed }, label);
        flow
    }

    /// Begins the body of a function or closure, and returns its exit.
    pub fn push_body(&mut self, label: Lifetime, result: Option<Box<Type>>, mark: usize) -> usize {
        let flow = self.flow();
        self.push(Kind::Body { flow, mark, result }, label);
        flow
    }

    /// Ends the innermost construct.
    pub fn pop(&mut self) -> Construct {
        self.stack.pop().expect("what is pushed is popped")
    }

    /// Returns the loop or block that a `break` or `continue` refers to.
    pub fn target(&self, label: Option<&Lifetime>) -> Option<Target> {
        let label = label.map(|it| it.to_string());
        let mut inner = self.stack.iter().enumerate().rev().take_while(|it| !matches!(it.1.kind, Kind::Body { .. }));
        let is_meant = |it: &Construct| match (&it.kind, &label) {
            (Kind::Loop { .. }, None) => true,
            (Kind::Loop { user, .. }, Some(_)) => *user == label,
            (Kind::Block { user, .. }, Some(label)) => user == label,
            _ => false,
        };
        inner.find(|it| is_meant(it.1)).map(|it| Target(it.0))
    }

    /// Whether the target is a labelled block. A jump to it ends the block, which has a value.
    pub fn is_block(&self, target: Target) -> bool {
        matches!(self.stack[target.0].kind, Kind::Block { .. })
    }

    /// Returns the function that a `return` refers to.
    pub fn body_target(&self) -> Option<Target> {
        self.stack.iter().rposition(|it| matches!(it.kind, Kind::Body { .. })).map(Target)
    }

    /// Whether a jump to the target may leave a region.
    pub fn is_managed(&self, target: Target) -> bool {
        let leaves = self.stack[target.0 + 1..].iter().any(|it| matches!(it.kind, Kind::Arm));
        leaves
            || matches!(self.stack[target.0].kind, Kind::Loop { managed: true, .. } | Kind::Block { managed: true, .. })
    }

    /// Records a jump, which messages show at `at`. Returns the exits of all constructs that it leaves, from the
    /// innermost one to the target.
    pub fn jump(&mut self, target: Target, jump: &Expr, valued: bool, at: Span) -> Vec<usize> {
        // A loop with plain Rust jumps is left together with its enclosing construct.
        let own = |it: &Construct| match it.kind {
            Kind::Loop { flow, managed: true, .. }
            | Kind::Block { flow, managed: true, .. }
            | Kind::Body { flow, .. } => Some(flow),
            _ => None,
        };
        let left: Vec<(usize, usize)> =
            (target.0..self.stack.len()).rev().filter_map(|i| own(&self.stack[i]).map(|flow| (i, flow))).collect();
        for i in target.0..self.stack.len() {
            self.stack[i].flows.extend(left.iter().filter(|it| it.0 <= i).map(|it| it.1));
        }
        for &(_, flow) in &left {
            self.flows[flow].jumps += 1;
            self.flows[flow].at.get_or_insert(at);
        }
        let flows: Vec<usize> = left.into_iter().map(|it| it.1).collect();
        let last = &mut self.flows[flows[flows.len() - 1]];
        last.valued |= valued;
        last.breaks |= matches!(jump, Expr::Break(_));
        last.continues |= matches!(jump, Expr::Continue(_));
        flows
    }

    /// Returns the label of a target.
    pub fn label(&self, target: Target) -> &Lifetime {
        &self.stack[target.0].label
    }

    /// Returns the annotated result type of a target that is a function.
    pub fn result(&self, target: Target) -> Option<&Type> {
        match &self.stack[target.0].kind {
            Kind::Body { result, .. } => result.as_deref(),
            _ => None,
        }
    }

    /// Returns the exit of the innermost loop, block or function.
    pub fn innermost(&self) -> usize {
        let flows = self.stack.iter().rev().find_map(|it| match it.kind {
            Kind::Loop { flow, .. } | Kind::Block { flow, .. } | Kind::Body { flow, .. } => Some(flow),
            Kind::Arm => None,
        });
        flows.expect("code stands in a function")
    }

    /// Returns the beginnings of the innermost loop or block, and of the loop around it.
    pub fn loop_starts(&self) -> Option<(Start, Option<Start>)> {
        let inner = self.stack.iter().rev().take_while(|it| !matches!(it.kind, Kind::Body { .. }));
        let mut starts = inner.filter_map(|it| match it.kind {
            Kind::Loop { start, .. } => Some((start, true)),
            Kind::Block { start, managed: true, .. } => Some((start, false)),
            _ => None,
        });
        let (first, _) = starts.next()?;
        Some((first, starts.find(|it| it.1).map(|it| it.0)))
    }

    /// Returns how many of the outermost blocks have remaining statements that run after the loop is left early. `None`
    /// stands for a loop that only `return` leaves.
    pub fn blocks_after(&self, own: usize, flows: &BTreeSet<usize>) -> Option<usize> {
        let around = self.stack.iter().filter_map(|it| match it.kind {
            Kind::Loop { flow, start, .. } | Kind::Block { flow, start, .. } => Some((flow, start.1)),
            _ => None,
        });
        let targets = around.filter(|it| flows.contains(&it.0) && (self.breaks_of(it.0) || self.continues(it.0)));
        if self.breaks_of(own) { Some(usize::MAX) } else { targets.map(|it| it.1).max() }
    }

    /// Returns the number of enclosing loops.
    pub fn loops(&self) -> usize {
        self.stack.iter().filter(|it| matches!(it.kind, Kind::Loop { .. })).count()
    }

    /// Returns the number of names that outlive one iteration of the innermost loop if `loops`, and otherwise one call
    /// of the innermost function.
    pub fn round(&self, loops: bool) -> usize {
        let marks = self.stack.iter().rev().find_map(|it| match it.kind {
            Kind::Loop { start, .. } if loops => Some(start.0),
            Kind::Body { mark, .. } => Some(mark),
            _ => None,
        });
        marks.unwrap_or(0)
    }

    /// Whether a jump may skip to the next iteration of the loop with this exit.
    pub fn continues(&self, flow: usize) -> bool {
        self.flows[flow].continues
    }

    /// Returns the number of jumps so far out of the innermost loop, block or function.
    pub fn jumps(&self) -> usize {
        self.flows[self.innermost()].jumps
    }

    /// Whether `break` leaves the loop with this exit.
    pub fn breaks_of(&self, flow: usize) -> bool {
        self.flows[flow].breaks
    }

    /// Returns the exits with their spans for messages.
    pub fn exits(&self, flows: &BTreeSet<usize>) -> Vec<TakenExit> {
        flows.iter().map(|&flow| TakenExit { flow, at: self.at(flow) }).collect()
    }

    /// Returns the span of an exit in messages.
    pub fn at(&self, flow: usize) -> Span {
        self.flows[flow].at.unwrap_or_else(Span::call_site)
    }

    /// Whether an exit carries a value.
    pub fn is_valued(&self, flow: usize) -> bool {
        self.flows[flow].valued
    }

    /// Emits a jump to the end of the innermost construct.
    pub fn leave(&self) -> TokenStream {
        let is_open = |it: &&Construct| {
            !matches!(it.kind, Kind::Loop { managed: false, .. } | Kind::Block { managed: false, .. })
        };
        match self.stack.iter().rev().find(is_open) {
            Some(Construct { kind: Kind::Loop { .. }, label, .. }) => quote!(continue #label),
            Some(Construct { label, .. }) => quote!(break #label ::core::option::Option::None),
            None => quote!(::core::unreachable!()),
        }
    }

    /// Emits the vote of a region for the kinds of the exits that are taken inside; `None` if there are none.
    pub fn vote(&mut self, region: &Ident, flows: impl Iterator<Item = usize>) -> Option<TokenStream> {
        let flows: Vec<usize> = flows.collect();
        let outermost = *flows.iter().min()?;
        self.votes += 1;
        for &flow in &flows {
            self.flows[flow].votes.push((self.votes, flow == outermost));
        }
        let vote = own_nth("vote", self.votes);
        Some(quote!(#region.votes(#vote);))
    }

    /// Emits the declaration of an exit.
    pub fn declare(&self, flow: usize, value: &TokenStream, rt: &TokenStream) -> TokenStream {
        let name = flow_name(flow);
        let votes = &self.flows[flow].votes;
        let declared = votes.iter().filter(|it| it.1).map(|it| own_nth("vote", it.0));
        let all = votes.iter().rev().fold(quote!(()), |rest, it| {
            let vote = own_nth("vote", it.0);
            quote!((#vote, #rest))
        });
        quote! {
            #(let #declared = #rt::vote();)*
            let mut #name: #rt::Flow<_, #value> = #rt::flow(#all);
        }
    }
}

/// Returns the name of an exit's variable.
pub fn flow_name(flow: usize) -> Ident {
    own_nth("flow", flow)
}
