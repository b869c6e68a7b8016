//! Collects errors, each with a code, a span in the user's code, and a suggestion.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use std::fmt;
use syn::{Expr, Signature};

/// The stable number of an error; `docs/errors/MSxxx.md` explains each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Code {
    /// The attribute does not belong on this kind of item.
    Item = 1,
    /// `async`, `const`, `unsafe` or `extern` functions.
    Modifier = 2,
    /// An option that the attribute does not have.
    UnknownOption = 3,
    /// A result that borrows.
    BorrowedResult = 4,
    /// A result of type `impl Trait`.
    OpaqueResult = 5,
    /// A receiver that is neither `self`, `&self` nor `&mut self`.
    Receiver = 6,
    /// `#[jit_class]` on a cell.
    ClassOnCell = 7,
    /// A `construct` that cannot be called as a layer.
    Construct = 8,
    /// Tokens that are not valid Rust syntax.
    Syntax = 9,
    /// A pattern that no tensor can be matched against.
    Pattern = 10,
    /// `#[lazy_inline]` on something that is not a cell.
    LazyInline = 11,
    /// `#[no_inline]` on something that is neither a cell nor a function.
    NoInline = 17,
    /// A custom op with an invalid declaration.
    CustomOp = 28,
    /// A kernel that is not a function of numbers.
    Kernel = 29,
    /// An assignment to a field through `&self`.
    FieldAssignment = 19,
    /// A `bprop` with arguments or a result that do not fit `construct`.
    Bprop = 27,
    /// A closure that captures.
    Captures = 22,
    /// An assignment to a static.
    StaticAssignment = 23,
    /// A pure function that depends on more than its arguments.
    Impure = 24,
    /// A donated argument that is borrowed.
    DonatedReference = 26,
}

impl Code {
    /// Every code, for the test that each is documented.
    #[cfg(test)]
    pub const ALL: &[Self] = &[
        Self::Item,
        Self::Modifier,
        Self::UnknownOption,
        Self::BorrowedResult,
        Self::OpaqueResult,
        Self::Receiver,
        Self::ClassOnCell,
        Self::Construct,
        Self::Syntax,
        Self::Pattern,
        Self::LazyInline,
        Self::NoInline,
        Self::CustomOp,
        Self::Kernel,
        Self::FieldAssignment,
        Self::Bprop,
        Self::Captures,
        Self::StaticAssignment,
        Self::Impure,
        Self::DonatedReference,
    ];
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MS{:03}", *self as u16)
    }
}

/// Collects refusals of one declaration.
pub struct Refusals<'a> {
    diags: &'a mut Diags,
    code: Code,
    any: bool,
}

impl<'a> Refusals<'a> {
    /// Creates an empty collection. Its refusals have this code.
    pub fn new(diags: &'a mut Diags, code: Code) -> Self {
        Self { diags, code, any: false }
    }

    /// Reports an error: see [`Diags::refuse`].
    pub fn refuse(&mut self, at: impl ToTokens, message: impl fmt::Display, help: impl fmt::Display) {
        self.any = true;
        self.diags.refuse(self.code, at, message, help);
    }

    /// Refuses modifiers and type parameters of a function. `what` names the kind of function, and `generic` is the
    /// help for type parameters.
    pub fn check_plain(&mut self, sig: &Signature, what: &str, generic: &str) {
        let modifiers =
            [sig.constness.to_token_stream(), sig.asyncness.to_token_stream(), sig.safety.to_token_stream()];
        for modifier in modifiers.iter().filter(|it| !it.is_empty()) {
            self.refuse(modifier, format!("{what} is a plain function"), "remove this");
        }
        if !sig.generics.params.is_empty() {
            self.refuse(&sig.generics, format!("{what} has no type parameters"), generic);
        }
    }

    /// Returns `None` if there is a refusal.
    pub fn finish(self) -> Option<()> {
        (!self.any).then_some(())
    }
}

/// All errors of one expansion.
#[derive(Default)]
pub struct Diags {
    /// Errors that are emitted after the expansion.
    after: Vec<syn::Error>,
    /// Errors that replace an expression in the expansion.
    in_place: Vec<syn::Error>,
}

impl Diags {
    /// Reports an error at the tokens `at`. The message is one sentence without a full stop, and `help` is a
    /// suggestion.
    pub fn refuse(&mut self, code: Code, at: impl ToTokens, message: impl fmt::Display, help: impl fmt::Display) {
        self.after.push(syn::Error::new_spanned(at, text(code, message, help)));
    }

    /// Reports an error at the tokens `at`. The returned expression replaces them in the expansion: rustc reports
    /// nothing else about them, and checks the rest of the function.
    pub fn refuse_in_place(
        &mut self,
        code: Code,
        at: impl ToTokens,
        message: impl fmt::Display,
        help: impl fmt::Display,
    ) -> Expr {
        let error = syn::Error::new_spanned(at, text(code, message, help));
        let place = Expr::Verbatim(error.to_compile_error());
        self.in_place.push(error);
        place
    }

    /// Reports an error at `span`.
    pub fn refuse_at(&mut self, code: Code, span: Span, message: impl fmt::Display, help: impl fmt::Display) {
        self.after.push(syn::Error::new(span, text(code, message, help)));
    }

    /// Reports a name in an option that is not the name of an argument.
    pub fn refuse_unknown_argument(&mut self, option: &str, name: &Ident, arguments: &[Ident]) {
        let help = match arguments {
            [] => "the function has no arguments that it could name".to_owned(),
            [one] => format!("the argument is `{one}`"),
            all => {
                let names: Vec<String> = all.iter().map(|it| format!("`{it}`")).collect();
                format!("the arguments are {}", names.join(", "))
            }
        };
        self.refuse(Code::UnknownOption, name, format!("`{option}` names `{name}`, which is no argument"), help);
    }

    /// Parses `tokens`, and reports syntax errors.
    pub fn parse<T: syn::parse::Parse>(&mut self, tokens: TokenStream) -> Option<T> {
        match syn::parse2(tokens) {
            Ok(tree) => Some(tree),
            Err(errors) => {
                for error in errors {
                    self.refuse_at(Code::Syntax, error.span(), &error, "fix the syntax here");
                }
                None
            }
        }
    }

    /// Returns the number of errors so far.
    pub fn count(&self) -> usize {
        self.after.len() + self.in_place.len()
    }

    /// Emits one `compile_error!` for each error that is not in the expansion.
    pub fn after(&self) -> TokenStream {
        self.after.iter().map(syn::Error::to_compile_error).collect()
    }

    /// Emits one `compile_error!` for each error, where there is no expansion.
    pub fn all(&self) -> TokenStream {
        self.after.iter().chain(&self.in_place).map(syn::Error::to_compile_error).collect()
    }
}

fn text(code: Code, message: impl fmt::Display, help: impl fmt::Display) -> String {
    format!("{code}: {message}\n\nhelp: {help}\nfor more information, run `ms explain {code}`")
}
