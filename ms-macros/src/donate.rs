//! Parses `donate(x, y)`, the arguments that give up their memory to results.

use crate::diag::Diags;
use darling::FromMeta;
use darling::ast::NestedMeta;
use proc_macro2::Ident;
use syn::Meta;

/// The arguments that `donate(..)` names.
#[derive(Default)]
pub struct Donate(Vec<Ident>);

impl FromMeta for Donate {
    fn from_list(items: &[NestedMeta]) -> darling::Result<Self> {
        let mut errors = darling::Error::accumulator();
        let names = items.iter().filter_map(|it| errors.handle(name(it))).collect();
        errors.finish_with(Self(names))
    }
}

fn name(item: &NestedMeta) -> darling::Result<Ident> {
    let name = match item {
        NestedMeta::Meta(Meta::Path(path)) => path.get_ident().cloned(),
        _ => None,
    };
    name.ok_or_else(|| darling::Error::custom("expected the name of an argument").with_span(item))
}

impl Donate {
    /// Whether `donate(..)` names this argument.
    pub fn has(&self, argument: &Ident) -> bool {
        self.0.contains(argument)
    }

    /// Reports names that are not arguments.
    pub fn check(&self, arguments: &[Ident], diags: &mut Diags) {
        for it in self.0.iter().filter(|it| !arguments.contains(it)) {
            diags.refuse_unknown_argument("donate", it, arguments);
        }
    }
}
