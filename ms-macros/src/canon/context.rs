//! Where control may leave from: the regions, loops and functions around what is being rewritten.

use crate::names::{own_nth, shown};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use std::collections::BTreeSet;
use syn::{Expr, Lifetime, Type};

/// The constructs around, outermost first, and the ways out of loops and functions.
#[derive(Default)]
pub struct Context {
    stack: Vec<Construct>,
    flows: Vec<Flow>,
    votes: usize,
}

/// A way out of a loop or a function: what the expansion calls `__flowN`.
#[derive(Default)]
struct Flow {
    /// The kinds of regions that are left through it, and whether they are declared with it.
    votes: Vec<(usize, bool)>,
    /// How many jumps go through it.
    jumps: usize,
    /// Whether one of them is a `break` of the loop itself.
    breaks: bool,
    /// Whether one of them is a `continue` of the loop itself.
    continues: bool,
    /// Whether one of them ends it with a value.
    valued: bool,
    /// Where the first of them stands, for messages.
    at: Option<Span>,
}

/// A way out that is taken inside a region.
#[derive(Clone, Copy)]
pub struct Way {
    /// Which one it is.
    pub flow: usize,
    /// Where messages about it point.
    pub at: Span,
}

impl Way {
    /// Its name.
    pub fn name(&self) -> Ident {
        shown(&flow_name(self.flow), self.at)
    }

    /// The name of what a region remembers of it.
    pub fn held(&self) -> Ident {
        shown(&own_nth("was", self.flow), self.at)
    }
}

/// An arm of a region, a loop, a labelled block, or the body of a function or closure.
pub struct Construct {
    kind: Kind,
    label: Lifetime,
    /// The ways out that are taken inside and were declared outside, or by the construct itself.
    pub flows: BTreeSet<usize>,
}

/// A place in a body: how many names were declared, and how many blocks were open.
pub type Start = (usize, usize);

enum Kind {
    Arm,
    Loop {
        flow: usize,
        /// Where it begins.
        start: Start,
        user: Option<String>,
        /// Jumps to it may leave regions, so that they are flags.
        managed: bool,
    },
    /// A block with a label.
    Block {
        flow: usize,
        start: Start,
        user: String,
        /// As those of a loop.
        managed: bool,
    },
    Body {
        flow: usize,
        /// How many names of outside there are.
        mark: usize,
        result: Option<Box<Type>>,
    },
}

/// Where a jump goes.
#[derive(Clone, Copy)]
pub struct Target(usize);

impl Context {
    fn push(&mut self, kind: Kind, label: Lifetime) {
        self.stack.push(Construct { kind, label, flows: BTreeSet::new() });
    }

    fn flow(&mut self) -> usize {
        self.flows.push(Flow::default());
        self.flows.len() - 1
    }

    /// An arm begins.
    pub fn push_arm(&mut self, label: Lifetime) {
        self.push(Kind::Arm, label);
    }

    /// A loop begins; gives its way out.
    pub fn push_loop(&mut self, label: Lifetime, user: Option<String>, managed: bool, start: Start) -> usize {
        let flow = self.flow();
        self.push(Kind::Loop { flow, start, user, managed }, label);
        flow
    }

    /// A block that is jumped out of by its label begins; gives its way out.
    pub fn push_block(&mut self, label: Lifetime, managed: bool, start: Start) -> usize {
        let flow = self.flow();
        let user = label.to_string();
        self.push(Kind::Block { flow, start, user, managed }, label);
        flow
    }

    /// The body of a function or closure begins; gives its way out.
    pub fn push_body(&mut self, label: Lifetime, result: Option<Box<Type>>, mark: usize) -> usize {
        let flow = self.flow();
        self.push(Kind::Body { flow, mark, result }, label);
        flow
    }

    /// The innermost construct ends.
    pub fn pop(&mut self) -> Construct {
        self.stack.pop().expect("what is pushed is popped")
    }

    /// The loop or block that `break` or `continue` means.
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

    /// Whether a jump there ends a block, which has a value.
    pub fn is_block(&self, target: Target) -> bool {
        matches!(self.stack[target.0].kind, Kind::Block { .. })
    }

    /// The function that `return` means.
    pub fn body_target(&self) -> Option<Target> {
        self.stack.iter().rposition(|it| matches!(it.kind, Kind::Body { .. })).map(Target)
    }

    /// Whether a jump there may leave a region.
    pub fn is_managed(&self, target: Target) -> bool {
        let leaves = self.stack[target.0 + 1..].iter().any(|it| matches!(it.kind, Kind::Arm));
        leaves
            || matches!(self.stack[target.0].kind, Kind::Loop { managed: true, .. } | Kind::Block { managed: true, .. })
    }

    /// Notes a jump, which messages show at `at`; gives the ways out of what it leaves, innermost
    /// first, that of the target last.
    pub fn jump(&mut self, target: Target, jump: &Expr, valued: bool, at: Span) -> Vec<usize> {
        // Loops whose jumps are Rust's own are left with whatever is around them.
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

    /// The label of a target.
    pub fn label(&self, target: Target) -> &Lifetime {
        &self.stack[target.0].label
    }

    /// The type of the result of a target that is a function, if it is written.
    pub fn result(&self, target: Target) -> Option<&Type> {
        match &self.stack[target.0].kind {
            Kind::Body { result, .. } => result.as_deref(),
            _ => None,
        }
    }

    /// The way out of the innermost loop, block or function.
    pub fn innermost(&self) -> usize {
        let flows = self.stack.iter().rev().find_map(|it| match it.kind {
            Kind::Loop { flow, .. } | Kind::Block { flow, .. } | Kind::Body { flow, .. } => Some(flow),
            Kind::Arm => None,
        });
        flows.expect("code stands in a function")
    }

    /// Where the innermost loop or block begins, and the loop around it.
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

    /// Behind which of the blocks around stands what runs where a loop is left early, after its end;
    /// nothing where only `return` leaves it.
    pub fn seen_behind(&self, own: usize, flows: &BTreeSet<usize>) -> Option<usize> {
        let around = self.stack.iter().filter_map(|it| match it.kind {
            Kind::Loop { flow, start, .. } | Kind::Block { flow, start, .. } => Some((flow, start.1)),
            _ => None,
        });
        let targets = around.filter(|it| flows.contains(&it.0) && (self.breaks_of(it.0) || self.continues(it.0)));
        if self.breaks_of(own) { Some(usize::MAX) } else { targets.map(|it| it.1).max() }
    }

    /// How many loops there are around.
    pub fn loops(&self) -> usize {
        self.stack.iter().filter(|it| matches!(it.kind, Kind::Loop { .. })).count()
    }

    /// How many names live on where what is around runs again: the innermost function, or loop.
    pub fn round(&self, loops: bool) -> usize {
        let marks = self.stack.iter().rev().find_map(|it| match it.kind {
            Kind::Loop { start, .. } if loops => Some(start.0),
            Kind::Body { mark, .. } => Some(mark),
            _ => None,
        });
        marks.unwrap_or(0)
    }

    /// Whether an iteration of the loop of a way out may be skipped to the next one.
    pub fn continues(&self, flow: usize) -> bool {
        self.flows[flow].continues
    }

    /// How many jumps leave the innermost loop, iteration or function so far.
    pub fn jumps(&self) -> usize {
        self.flows[self.innermost()].jumps
    }

    /// Whether the loop of a way out is left by `break`.
    pub fn breaks_of(&self, flow: usize) -> bool {
        self.flows[flow].breaks
    }

    /// The ways out with what messages need.
    pub fn ways(&self, flows: &BTreeSet<usize>) -> Vec<Way> {
        flows.iter().map(|&flow| Way { flow, at: self.at(flow) }).collect()
    }

    /// Where messages about a way out point.
    pub fn at(&self, flow: usize) -> Span {
        self.flows[flow].at.unwrap_or_else(Span::call_site)
    }

    /// Whether a way out carries a value.
    pub fn is_valued(&self, flow: usize) -> bool {
        self.flows[flow].valued
    }

    /// To the end of the innermost construct, whose rest is skipped.
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

    /// The vote of a region for the kinds of the ways out that are taken inside; nothing if there
    /// are none.
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

    /// Declares a way out.
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

/// The name of a way out.
pub fn flow_name(flow: usize) -> Ident {
    own_nth("flow", flow)
}
