//! Parses the options of the attributes.

use crate::diag::{Code, Diags};
use crate::dims::Dims;
use crate::donate::Donate;
use crate::names::Names;
use darling::FromMeta;
use darling::ast::NestedMeta;
use proc_macro2::TokenStream;
use syn::{Attribute, Meta, Path};

/// Options of `#[jit]`.
#[derive(Default, FromMeta)]
#[darling(default)]
pub struct JitArgs {
    /// The path to the library.
    #[darling(rename = "crate")]
    root: Option<Path>,
    /// Whether the user promises that the result of tracing depends on the arguments alone.
    pub pure: bool,
    /// Declared sizes of tensor arguments.
    pub dims: Dims,
    /// Donated arguments: results may reuse their memory.
    pub donate: Donate,
}

impl JitArgs {
    /// Parses the options, and reports each invalid one.
    pub fn parse(tokens: TokenStream, diags: &mut Diags) -> Self {
        parse(
            tokens,
            "the options of `#[jit]` are `dims(x = [batch, _])`, `donate(x)`, `pure` and `crate = path`",
            diags,
        )
    }

    /// Returns the names that the expansion uses.
    pub fn names(&self) -> Names {
        Names::new(self.root.as_ref())
    }
}

fn parse<T: FromMeta + Default>(tokens: TokenStream, help: &str, diags: &mut Diags) -> T {
    let parsed = NestedMeta::parse_meta_list(tokens).map_err(darling::Error::from).and_then(|it| T::from_list(&it));
    parsed.unwrap_or_else(|errors| {
        unknown(errors, help, diags);
        T::default()
    })
}

/// Options of `#[cell]` and `#[jit_class]`.
#[derive(Default, FromMeta)]
#[darling(default)]
pub struct ItemArgs {
    /// The path to the library.
    #[darling(rename = "crate")]
    root: Option<Path>,
}

impl ItemArgs {
    /// Parses the options, and reports each invalid one.
    pub fn parse(tokens: TokenStream, diags: &mut Diags) -> Self {
        parse(tokens, "the only option is `crate = path`", diags)
    }

    /// Returns the names that the expansion uses.
    pub fn names(&self) -> Names {
        Names::new(self.root.as_ref())
    }
}

/// Options of `#[cell(..)]` on a field.
#[derive(Default, FromMeta)]
#[darling(default)]
pub struct FieldArgs {
    /// Whether the cell leaves the field out: it is neither hashed nor searched for parameters.
    pub skip: bool,
}

impl FieldArgs {
    /// Removes `#[cell(..)]` from a field's attributes and parses it.
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

/// Removes `#[jit(..)]` from `attrs` and parses its options.
pub fn take_jit(attrs: &mut Vec<Attribute>, diags: &mut Diags) -> Option<JitArgs> {
    let at = attrs.iter().position(|it| is(it, "jit"))?;
    Some(match attrs.remove(at).meta {
        Meta::List(it) => JitArgs::parse(it.tokens, diags),
        _ => JitArgs::default(),
    })
}

/// Removes the attribute `name`, which takes no options, from `attrs`. Returns whether it was present.
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
