//! The user's item without our helper attributes, for expansions that fail.
//!
//! Works on tokens, because the item may not parse.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// Attributes inside annotated items that rustc does not know.
const HELPERS: &[&str] = &["cell", "jit", "lazy_inline", "no_inline", "jit_class", "dynamic", "host"];

/// `item` without helper attributes.
pub fn plain(item: TokenStream) -> TokenStream {
    let mut out = TokenStream::new();
    let mut tokens = item.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let attribute = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#');
        if attribute && matches!(tokens.peek(), Some(TokenTree::Group(group)) if is_helper(group)) {
            tokens.next();
            continue;
        }
        out.extend([match token {
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), plain(group.stream()));
                inner.set_span(group.span());
                inner.into()
            }
            other => other,
        }]);
    }
    out
}

fn is_helper(group: &Group) -> bool {
    group.delimiter() == Delimiter::Bracket
        && matches!(group.stream().into_iter().next(),
            Some(TokenTree::Ident(name)) if HELPERS.iter().any(|helper| name == helper))
}
