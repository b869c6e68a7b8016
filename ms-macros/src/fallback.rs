//! Emits the user's item without helper attributes, for expansions that fail.
//!
//! This works on tokens, because the item may not parse.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// Helper attributes inside annotated items. rustc does not know them.
const HELPERS: &[&str] = &["cell", "jit", "lazy_inline", "no_inline", "jit_class", "dynamic", "host"];

/// Returns `item` without helper attributes.
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
