//! Options of the attributes.

use crate::diag::{Code, Diags};
use crate::names::Names;
use darling::FromMeta;
use darling::ast::NestedMeta;
use proc_macro2::TokenStream;
use syn::{Attribute, Meta, Path};

/// Options of `#[jit]`, `#[cell]` and `#[jit_class]`.
#[derive(Default, FromMeta)]
#[darling(default)]
pub struct ItemArgs {
    /// The path of the library.
    #[darling(rename = "crate")]
    root: Option<Path>,
}

impl ItemArgs {
    /// Reads the options; mistakes are refused one by one.
    pub fn parse(tokens: TokenStream, diags: &mut Diags) -> Self {
        match NestedMeta::parse_meta_list(tokens).map_err(darling::Error::from).and_then(|it| Self::from_list(&it)) {
            Ok(args) => args,
            Err(errors) => {
                unknown(errors, "the only option is `crate = path`", diags);
                Self::default()
            }
        }
    }

    /// The names for the expansion.
    pub fn names(&self) -> Names {
        Names::new(self.root.as_ref())
    }
}

/// Options of `#[cell(..)]` on a field.
#[derive(Default, FromMeta)]
#[darling(default)]
pub struct FieldArgs {
    /// The field is no part of the cell: not hashed, not searched for parameters.
    pub skip: bool,
}

impl FieldArgs {
    /// Takes `#[cell(..)]` out of a field's attributes.
    pub fn take(attrs: &mut Vec<Attribute>, diags: &mut Diags) -> Self {
        let mut args = Self::default();
        attrs.retain(|attr| {
            if !attr.path().is_ident("cell") {
                return true;
            }
            match Self::from_meta(&attr.meta) {
                Ok(found) => args.skip |= found.skip,
                Err(errors) => unknown(errors, "the only option of a field is `#[cell(skip)]`", diags),
            }
            false
        });
        args
    }
}

fn unknown(errors: darling::Error, help: &str, diags: &mut Diags) {
    for error in errors.flatten() {
        diags.refuse_at(Code::UnknownOption, error.span(), error, help);
    }
}

/// Takes the attribute `name` without options out of `attrs`, and says whether it was there.
pub fn take_flag(attrs: &mut Vec<Attribute>, name: &str, diags: &mut Diags) -> bool {
    let before = attrs.len();
    attrs.retain(|attr| {
        let found = is(attr, name);
        if found && !matches!(attr.meta, Meta::Path(_)) {
            diags.refuse(Code::UnknownOption, attr, format!("`#[{name}]` has no options here"), "write it bare");
        }
        !found
    });
    attrs.len() < before
}

/// Whether `attr` is `#[name]` or `#[ms::name]`.
pub fn is(attr: &Attribute, name: &str) -> bool {
    attr.path().segments.last().is_some_and(|segment| segment.ident == name)
}
