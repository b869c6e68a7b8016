//! Prints the expansions of the items named by `MS_EXPAND=name` while compiling.

use proc_macro2::{TokenStream, TokenTree};

/// Prints the expansion if `MS_EXPAND` requests it.
pub fn traced(expansion: TokenStream) -> TokenStream {
    // rustc does not rebuild when a variable changes: `touch` the file to see an expansion.
    if let Some(name) = std::env::var("MS_EXPAND").ok().filter(|it| !it.is_empty())
        && defines(&expansion, &name)
    {
        eprintln!("{}", pretty(&expansion));
    }
    expansion
}

/// Whether the tokens define a `fn`, `struct` or other item of that name, or implement it (`impl name`).
pub fn defines(tokens: &TokenStream, name: &str) -> bool {
    let mut after_keyword = false;
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => {
            let found = after_keyword && ident == name;
            after_keyword = ["fn", "struct", "enum", "impl", "for"].iter().any(|keyword| ident == keyword);
            found
        }
        TokenTree::Group(group) => defines(&group.stream(), name),
        _ => false,
    })
}

/// Formats the tokens like rustfmt, or leaves them unformatted if they do not parse as a file.
pub fn pretty(tokens: &TokenStream) -> String {
    match syn::parse2(tokens.clone()) {
        Ok(file) => prettyplease::unparse(&file),
        Err(_) => tokens.to_string(),
    }
}
