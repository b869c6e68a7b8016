//! Represents place expressions that a region changes, rooted at variables that are declared outside it.

use crate::names::own_span;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Member;

/// A variable, or a part of one.
#[derive(Clone)]
pub struct PlaceExpr {
    /// The variable.
    pub root: Ident,
    /// The projections from the variable to the place.
    pub parts: Vec<Part>,
    /// Whether the variable is declared without an initialiser.
    pub deferred: bool,
    /// Whether the place is dead once the region is left.
    pub dead_after: bool,
    /// Whether only methods with the names of consuming methods change the place.
    pub consumed: bool,
    /// The number of earlier places in the region with the same spelling: `a.b` and `a_b`.
    pub duplicates: usize,
}

/// A projection from a variable to a part of it.
#[derive(Clone, PartialEq)]
pub enum Part {
    /// The target of a reference.
    Deref,
    /// A field.
    Field(Member),
}

impl PlaceExpr {
    /// Emits a reference to the place, as the user would write it.
    pub fn borrowed(&self, mutably: bool) -> TokenStream {
        let (root, at) = (&self.root, self.span());
        let place = self.parts.iter().fold(quote!(#root), |base, part| match part {
            Part::Deref => quote_spanned!(at=> (*#base)),
            Part::Field(member) => quote_spanned!(at=> #base.#member),
        });
        if mutably { quote_spanned!(at=> &mut #place) } else { quote_spanned!(at=> &#place) }
    }

    /// Returns the place as messages spell it.
    pub fn name(&self) -> String {
        let fields = self.parts.iter().filter_map(|it| match it {
            Part::Deref => None,
            Part::Field(Member::Named(name)) => Some(format!(".{name}")),
            Part::Field(Member::Unnamed(index)) => Some(format!(".{}", index.index)),
        });
        format!("`{}{}`", self.root, fields.collect::<String>())
    }

    /// Returns the place's name with only letters, digits and `_`.
    pub fn spelling(&self) -> String {
        let name: String = self.name().chars().map(|it| if it.is_alphanumeric() { it } else { '_' }).collect();
        name.trim_matches('_').to_owned()
    }

    /// Returns the name of the expansion's variable for the place.
    pub fn ident(&self) -> Ident {
        let number = if self.duplicates > 0 { self.duplicates.to_string() } else { String::new() };
        Ident::new(&format!("__{}{number}", self.spelling()), own_span(self.span()))
    }

    /// Returns the variable, unless the place is behind a reference.
    pub fn variable(&self) -> Option<String> {
        (!self.parts.contains(&Part::Deref)).then(|| self.root.to_string())
    }

    /// Returns the place's span in messages.
    pub fn span(&self) -> Span {
        self.root.span()
    }

    /// Whether this place contains `other`. A field may be written with an explicit dereference or without.
    pub fn holds(&self, other: &Self) -> bool {
        let fields = |it: &Self| it.parts.iter().filter(|it| **it != Part::Deref).cloned().collect::<Vec<_>>();
        let (outer, inner) = (fields(self), fields(other));
        self.root == other.root
            && (other.parts.starts_with(&self.parts) || (inner.len() > outer.len() && inner.starts_with(&outer)))
    }
}
