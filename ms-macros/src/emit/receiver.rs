//! Renames `self` in a body, so that it can refer to the traced copy.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use syn::visit_mut::{self, VisitMut};
use syn::{Block, ExprPath, Item, Macro};

/// Returns the name that replaces `self` in a body. Its whole span is the user's, so that errors in expressions that
/// begin with it have the user's line.
pub fn renamed(at: Span) -> Ident {
    Ident::new("__self", at)
}

/// Renames every `self` of this body. Nested items keep theirs.
pub fn rename(body: &mut Block) {
    Rename.visit_block_mut(body);
}

struct Rename;

impl VisitMut for Rename {
    fn visit_expr_path_mut(&mut self, expr: &mut ExprPath) {
        if expr.path.is_ident("self") {
            let ident = &mut expr.path.segments[0].ident;
            *ident = renamed(ident.span());
        }
        visit_mut::visit_expr_path_mut(self, expr);
    }

    fn visit_macro_mut(&mut self, it: &mut Macro) {
        it.tokens = tokens(std::mem::take(&mut it.tokens));
    }

    fn visit_item_mut(&mut self, _: &mut Item) {}
}

fn tokens(stream: TokenStream) -> TokenStream {
    let mut stream = stream.into_iter().peekable();
    let mut out = TokenStream::new();
    while let Some(token) = stream.next() {
        // `self::name` is a path to a module.
        let in_path = matches!(stream.peek(), Some(TokenTree::Punct(next)) if next.as_char() == ':');
        out.extend([match token {
            TokenTree::Ident(ident) if ident == "self" && !in_path => renamed(ident.span()).into(),
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), tokens(group.stream()));
                inner.set_span(group.span());
                inner.into()
            }
            other => other,
        }]);
    }
    out
}
