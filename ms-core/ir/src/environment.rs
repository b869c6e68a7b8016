//! Parses environment variables and checks their values in one place.
//!
//! A variable is a `static` of the module that it configures, declared by
//! [`environment_variables!`](crate::environment_variables). A variable that is unset or empty has no value. The first
//! use of any variable, and of the backend, checks all of them and reports invalid values in one error.

use crate::error::{Code, Error, OrRaise, Result};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;

/// An environment variable.
pub struct Variable<T> {
    name: &'static str,
    parse: fn(&OsStr) -> Option<T>,
    allowed: fn() -> String,
}

impl<T> Variable<T> {
    /// Creates a variable with values that `parse` parses and `allowed` lists in errors.
    pub const fn new(name: &'static str, parse: fn(&OsStr) -> Option<T>, allowed: fn() -> String) -> Self {
        Self { name, parse, allowed }
    }

    /// Returns the value.
    ///
    /// # Panics
    /// Raises [`Code::Environment`] if this variable, or another, has an invalid value.
    pub fn value(&self) -> Option<T> {
        check().or_raise();
        self.read().or_raise()
    }

    fn read(&self) -> Result<Option<T>> {
        self.of(std::env::var_os(self.name))
    }

    /// Parses the value in this text.
    fn of(&self, text: Option<OsString>) -> Result<Option<T>> {
        let Some(text) = text.filter(|it| !it.is_empty()) else { return Ok(None) };
        match (self.parse)(&text) {
            Some(value) => Ok(Some(value)),
            None => {
                let message = format!("the environment variable {} is `{}`", self.name, text.display());
                let help = format!("it may be {}", (self.allowed)());
                Err(Error::new(Code::Environment, message).at_line("the environment of the process").help(help))
            }
        }
    }
}

impl Variable<bool> {
    /// Creates a variable that turns something on or off.
    pub const fn switch(name: &'static str) -> Self {
        Self::new(name, yes_or_no, || "1, true, yes or on, or else 0, false, no or off".to_owned())
    }
}

impl Variable<PathBuf> {
    /// Creates a variable that names a file or a directory.
    pub const fn path(name: &'static str) -> Self {
        Self::new(name, |it| Some(PathBuf::from(it)), || "any path".to_owned())
    }
}

fn yes_or_no(text: &OsStr) -> Option<bool> {
    match text.to_str()?.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Parses a number, ignoring surrounding whitespace.
pub fn number<T: FromStr>(text: &OsStr) -> Option<T> {
    text.to_str()?.trim().parse().ok()
}

/// A variable that is checked with all others.
#[doc(hidden)]
pub struct Declared(pub &'static (dyn Check + Sync));

inventory::collect!(Declared);

/// A variable of any type.
#[doc(hidden)]
pub trait Check {
    /// Checks that the value is valid.
    ///
    /// # Errors
    /// [`Code::Environment`] if it is not.
    fn check(&self) -> Result<()>;
}

impl<T> Check for Variable<T> {
    fn check(&self) -> Result<()> {
        self.read().map(|_| ())
    }
}

/// Checks all variables that the library and the backend read, once.
///
/// # Errors
/// [`Code::Environment`] with all invalid values.
pub fn check() -> Result<()> {
    static CHECKED: OnceLock<Result<()>> = OnceLock::new();
    let all = || {
        let mut wrong: Vec<Error> =
            inventory::iter::<Declared>.into_iter().filter_map(|it| it.0.check().err()).collect();
        wrong.sort_by(|a, b| a.report().message.cmp(&b.report().message));
        match wrong.len() {
            0 => Ok(()),
            1 => Err(wrong.remove(0)),
            count => {
                let message = format!("{count} environment variables are set to what is not allowed");
                Err(Error::new(Code::Environment, message).with_related(wrong))
            }
        }
    };
    CHECKED.get_or_init(all).clone()
}

/// Declares environment variables that are checked with all others.
///
/// ```
/// use ms_core::environment::{Variable, number};
/// ms_core::environment_variables! {
///     /// How often it is tried.
///     static TRIES: Variable<u32> = Variable::new("TRIES", number, || "a number".to_owned());
/// }
/// assert_eq!(TRIES.value(), None);
/// ```
#[macro_export]
macro_rules! environment_variables {
    ($($(#[$about:meta])* $visible:vis static $name:ident: $ty:ty = $value:expr;)*) => {$(
        $(#[$about])*
        $visible static $name: $ty = $value;
        $crate::environment::inventory::submit! { $crate::environment::Declared(&$name) }
    )*};
}

#[doc(hidden)]
pub use inventory;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers() {
        let switch = Variable::switch("SWITCH");
        let tries = Variable::<u8>::new("TRIES", number, || "a number below 256".to_owned());
        let text = |it: &str| Some(OsString::from(it));
        for (words, want) in [
            (["1", "true", "YES", " on "], Some(true)),
            (["0", "False", "no", "OFF"], Some(false)),
            (["", "", "", ""], None),
        ] {
            assert!(words.iter().all(|it| switch.of(text(it)).is_ok_and(|it| it == want)), "{words:?}");
        }
        assert!(switch.of(None).is_ok_and(|it| it.is_none()));
        assert!(tries.of(text(" 17")).is_ok_and(|it| it == Some(17)));
        let refused = |got: Result<()>, words: &[&str]| {
            let error = got.expect_err("not allowed");
            assert_eq!(error.code(), Code::Environment);
            words.iter().for_each(|it| assert!(error.to_string().contains(it), "{error}"));
        };
        for wrong in ["2", "maybe", "-", "truee", " "] {
            refused(switch.of(text(wrong)).map(|_| ()), &["SWITCH", &format!("`{wrong}`"), "true"]);
        }
        for wrong in ["x", "-1", "256", "1.0", "1 2"] {
            refused(tries.of(text(wrong)).map(|_| ()), &["TRIES", &format!("`{wrong}`"), "below 256"]);
        }
    }
}
