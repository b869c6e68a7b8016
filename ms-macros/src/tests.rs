//! Compares expansions with snapshots (`MS_BLESS=1` updates them), and checks errors and broken input.

use crate::diag::{Code, Diags};
use crate::{Attribute, canon, emit, fallback, print};
use proc_macro2::TokenStream;
use quote::ToTokens;
use std::fs;
use std::path::{Path, PathBuf};
use syn::{Attribute as Attr, Item, Meta};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn expander(name: &str) -> Option<Attribute> {
    match name {
        "jit" => Some(emit::func::expand),
        "cell" => Some(emit::cell::expand),
        "jit_class" => Some(emit::class::expand),
        "lazy_inline" => Some(emit::marks::lazy_inline),
        "no_inline" => Some(emit::marks::no_inline),
        "derive_tree" => Some(|_, item, diags| emit::tree::expand_tree(item, diags)),
        "derive_static" => Some(|_, item, diags| emit::tree::expand_static(item, diags)),
        "body" => Some(rewritten),
        _ => None,
    }
}

/// Rewrites the body of a function, without the code that compiles calls.
fn rewritten(_: TokenStream, item: TokenStream, diags: &mut Diags) -> Option<TokenStream> {
    let mut func: syn::ItemFn = syn::parse2(item).expect("a function");
    canon::body(&func.sig, &mut func.block, &quote::quote!(__rt), diags);
    Some(func.into_token_stream())
}

fn attrs(item: &mut Item) -> Option<&mut Vec<Attr>> {
    match item {
        Item::Fn(it) => Some(&mut it.attrs),
        Item::Struct(it) => Some(&mut it.attrs),
        Item::Enum(it) => Some(&mut it.attrs),
        Item::Impl(it) => Some(&mut it.attrs),
        _ => None,
    }
}

/// Expands the first attribute on an item, as rustc does.
fn expand(mut item: Item, diags: &mut Diags) -> Option<TokenStream> {
    let attrs = attrs(&mut item).expect("an item with attributes");
    let first = attrs.remove(0);
    let name = first.path().get_ident().expect("one name").to_string();
    let args = match first.meta {
        Meta::List(list) => list.tokens,
        _ => TokenStream::new(),
    };
    expander(&name).expect("one of our attributes")(args, item.into_token_stream(), diags)
}

#[test]
fn expansions_match_their_snapshots() {
    let mut changed = Vec::new();
    let sources = fs::read_dir(here("tests/expand")).expect("the folder of snapshots");
    for source in sources.map(|it| it.expect("a readable entry").path()) {
        if source.file_name().is_some_and(|it| it.to_string_lossy().ends_with(".expanded.rs")) {
            continue;
        }
        let text = fs::read_to_string(&source).expect("a readable source");
        let file = syn::parse_file(&text).expect("sources are Rust");
        let mut diags = Diags::default();
        let tokens: TokenStream = file.items.into_iter().filter_map(|it| expand(it, &mut diags)).collect();
        assert_eq!(diags.count(), 0, "{} is refused", source.display());
        let got = print::pretty(&tokens);
        let snapshot = source.with_extension("expanded.rs");
        if std::env::var_os("MS_BLESS").is_some_and(|it| it == "1") {
            fs::write(&snapshot, got).expect("snapshots can be written");
        } else if fs::read_to_string(&snapshot).ok().as_deref() != Some(&got) {
            changed.push(format!("{}:\n{got}", snapshot.display()));
        }
    }
    assert!(changed.is_empty(), "MS_BLESS=1 accepts these expansions:\n{}", changed.join("\n"));
}

#[test]
fn every_code_is_explained() {
    for code in Code::ALL {
        let page = here(&format!("../docs/errors/{code}.md"));
        let text = fs::read_to_string(&page).unwrap_or_else(|_| panic!("{} is missing", page.display()));
        assert!(text.starts_with(&format!("# {code}: ")), "{} starts with its code", page.display());
    }
}

#[test]
fn mistakes_are_reported_together() {
    let item = syn::parse_str("#[jit(foo, bar = 1)] async fn f<'a>(x: &'a Tensor) -> &'a Tensor { x }");
    let mut diags = Diags::default();
    expand(item.expect("an item"), &mut diags);
    let errors = diags.all().to_string();
    for part in ["`foo`", "`bar`", "MS002", "MS004"].map(|it| it.trim_matches('`')) {
        assert!(errors.contains(part), "{part} in {errors}");
    }
}

/// Editors expand code while it is typed: the item is emitted, whatever it contains.
#[test]
fn broken_items_come_back() {
    let bodies = ["let y = x.", "if x <", "self.fc1(&x).", "let = ;", "match x { ", "for", "x +", "foo("];
    for body in bodies {
        let text = format!("fn f(#[dynamic] x: f32) {{ {body} }}");
        // Input that does not lex never reaches a macro.
        let Ok(tokens) = text.parse::<TokenStream>() else { continue };
        let mut diags = Diags::default();
        assert!(emit::func::expand(TokenStream::new(), tokens.clone(), &mut diags).is_none(), "{body}");
        assert_ne!(diags.count(), 0, "{body}");
        let back = fallback::plain(tokens).to_string();
        assert!(back.starts_with("fn f (x : f32)"), "{back}");
    }
}

/// Every prefix of a body, with its delimiters closed, either expands or is emitted with an error.
#[test]
fn bodies_that_break_off_are_survived() {
    let text = fs::read_to_string(here("tests/expand/control.rs")).expect("the richest body");
    let item = text.strip_prefix("#[body]").expect("one function");
    let (head, body) = item.split_once('{').expect("a body");
    for end in (0..body.len()).filter(|&end| body.is_char_boundary(end)) {
        let mut open = vec!['}'];
        for c in body[..end].chars() {
            match c {
                '{' => open.push('}'),
                '(' => open.push(')'),
                '[' => open.push(']'),
                '}' | ')' | ']' => drop(open.pop()),
                _ => {}
            }
        }
        let close: String = open.iter().rev().collect();
        let Ok(tokens) = format!("{head}{{{}{close}", &body[..end]).parse::<TokenStream>() else { continue };
        let mut diags = Diags::default();
        let expansion = emit::func::expand(TokenStream::new(), tokens, &mut diags);
        assert!(expansion.is_some() || diags.count() > 0, "{}", &body[..end]);
    }
}

#[test]
fn expansions_are_found_by_name() {
    let mut diags = Diags::default();
    let item = syn::parse_str("#[jit] fn halve(x: &Tensor) -> Tensor { helper(x) }").expect("an item");
    let tokens = expand(item, &mut diags).expect("accepted");
    assert!(print::defines(&tokens, "halve"));
    assert!(!print::defines(&tokens, "helper"));
}
