//! Defines the arguments and results of the bodies of compiled functions.

use super::Tree;
use ms_ir::error::{Error, Result, catch, raise};
use std::ops::Deref;

/// An argument for the body.
pub enum Entered<'a, T: ?Sized> {
    /// The caller's own value.
    Given(&'a T),
    /// A copy with traced tensors.
    Traced(Box<T>),
}

impl<T: ?Sized> Deref for Entered<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Given(it) => it,
            Self::Traced(it) => it,
        }
    }
}

/// The result of a compiled function: a [`Tree`], or a `Result` of one.
#[diagnostic::on_unimplemented(
    message = "a compiled function cannot give `{Self}`",
    label = "not a structure of tensors",
    note = "results are tensors, host values, structures of them that derive `Tree`, or a `Result` of one whose error is \
            `From<ms::Error>`; for more information, run `ms explain MS051`"
)]
pub trait JitReturn: Sized {
    /// Makes rustc report a result type that a function cannot have.
    #[inline]
    fn accept() {}

    /// The structure of tensors inside.
    type Tree: Tree + Send + Sync + 'static;

    /// Splits off the structure. Returns the whole value if there is none (the user's error).
    ///
    /// # Errors
    /// The value itself.
    fn split(self) -> Result<Self::Tree, Self>;

    /// Builds the value from a structure.
    fn join(tree: Self::Tree) -> Self;

    /// Converts an error of the library to a value, or panics with its text.
    #[track_caller]
    fn refuse(error: Error) -> Self;

    /// Runs a body eagerly, and returns its value. Errors of the library become values as well.
    fn run(body: impl FnOnce() -> Self) -> Self {
        body()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Tree + Send + Sync + 'static> JitReturn for T {
    type Tree = T;

    fn split(self) -> Result<T, Self> {
        Ok(self)
    }

    fn join(tree: T) -> Self {
        tree
    }

    #[track_caller]
    fn refuse(error: Error) -> Self {
        raise(error)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Tree + Send + Sync + 'static, E: From<Error>> JitReturn for Result<T, E> {
    type Tree = T;

    fn split(self) -> Result<T, Self> {
        self.map_err(Err)
    }

    fn join(tree: T) -> Self {
        Ok(tree)
    }

    fn refuse(error: Error) -> Self {
        Err(error.into())
    }

    fn run(body: impl FnOnce() -> Self) -> Self {
        catch(body).unwrap_or_else(Self::refuse)
    }
}
