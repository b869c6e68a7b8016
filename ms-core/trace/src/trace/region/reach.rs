//! Probes types for the state that a name can mutate. Regions need this for names whose mutability the syntax does not
//! determine.
//!
//! A probe takes a shared borrow that ends immediately, so it does not affect later uses of the value. Method lookup
//! resolves it by the depth of references (autoref specialisation). So types that implement none of the traits need no
//! bound:
//!
//! ```text
//! region.uses("`w`", (&&&&Probe(&w)).hands());    w is moved or passed on: `f(w)`
//! region.uses("`c`", (&&Probe(&c)).asks());       c is borrowed, or a receiver: `c.set(1)`
//! ```

use ms_ir::error::{Code, Error};
use std::any::type_name;
use std::cell::{Cell, RefCell};
use std::panic::UnwindSafe;
use std::rc::Rc;
use std::sync::{Arc, Mutex, RwLock};

/// The state that can be mutated through a value.
#[derive(Clone, Copy)]
pub enum Reach {
    /// Nothing but the value itself, as far as its type shows.
    Nothing,
    /// The target of a `&mut` in it. Contains the type.
    Hands(&'static str),
    /// The value's content, through shared references. Contains the type.
    Shares(&'static str),
    /// The captures of a closure in it. Contains the names.
    Captures(&'static str),
}

impl Reach {
    /// Returns whether something can be mutated.
    #[inline]
    pub fn is_some(self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// Returns the error of a region on a tensor that uses such a name.
    pub(super) fn refusal(self, name: &str) -> Option<Error> {
        Some(match self {
            Self::Nothing => return None,
            Self::Hands(ty) => {
                let ty = short(ty);
                let whole = name.trim_matches('`');
                let help = match ty.strip_prefix("&mut ") {
                    Some(to) if to.starts_with('[') || to.starts_with("dyn ") || to == "str" => {
                        "hand on a reference to the whole variable that it is a part of".to_owned()
                    }
                    Some(_) => format!("write `&mut *{whole}`, or its type where it is declared: `{whole}: {ty}`"),
                    None => format!("hand on `&mut` of what changes, instead of {name} that holds it"),
                };
                Error::new(Code::HandedOn, format!("{name} (`{ty}`) is handed on in a decision on a tensor")).help(help)
            }
            Self::Captures(names) => {
                let message = format!("{name}, a closure that changes {names}, is handed on in a decision on a tensor");
                Error::new(Code::HandedOn, message).help("write the closure where it is handed on")
            }
            Self::Shares(ty) => {
                let message = format!("{name} (`{}`) changes without `mut` in a decision on a tensor", short(ty));
                Error::new(Code::SharedChange, message)
                    .help("keep what changes in a `let mut` variable, and hand on `&mut` of it")
            }
        })
    }
}

/// Returns the name of a type without its module path.
fn short(name: &str) -> String {
    let mut out = String::new();
    for part in name.split_inclusive(|it: char| !it.is_alphanumeric() && it != '_' && it != ':') {
        out.push_str(part.rsplit("::").next().unwrap_or(part));
    }
    out
}

/// A name whose type is probed.
pub struct Probe<'a, T: ?Sized>(pub &'a T);

/// Types that certainly write, shared or not.
pub trait Writes {
    /// Whether they write through a shared reference.
    const SHARED: bool = false;
}

impl<T: ?Sized> Writes for &mut T {}

macro_rules! shared {
    ($($cell:ident)*) => {$(
        shared! { of $cell: $cell<T>, &$cell<T>, Rc<$cell<T>>, &Rc<$cell<T>>, Arc<$cell<T>>, &Arc<$cell<T>> }
    )*};
    (of $cell:ident: $($ty:ty),*) => {$(
        impl<T> Writes for $ty {
            const SHARED: bool = true;
        }
    )*};
}

shared! { Cell RefCell Mutex RwLock }

/// Moved or passed on: a value that writes.
pub trait HandsWrites {
    /// Returns the state that can be mutated through it.
    fn hands(&self) -> Reach;
}

impl<T: Writes> HandsWrites for &&&Probe<'_, T> {
    #[inline]
    fn hands(&self) -> Reach {
        (&&Probe(self.0)).asks()
    }
}

/// Moved or passed on: a `Clone` type contains no `&mut`.
pub trait HandsClone {
    /// Returns that nothing can be mutated through it.
    #[inline]
    fn hands(&self) -> Reach {
        Reach::Nothing
    }
}

impl<T: Clone> HandsClone for &&Probe<'_, T> {}

/// Moved or passed on: an `UnwindSafe` type, by std's auto trait, contains no `&mut` either.
pub trait HandsStill {
    /// Returns that nothing can be mutated through it.
    #[inline]
    fn hands(&self) -> Reach {
        Reach::Nothing
    }
}

impl<T: UnwindSafe> HandsStill for &Probe<'_, T> {}

/// Moved or passed on: any other type may contain a `&mut`.
pub trait HandsAny {
    /// Returns the state that can be mutated through it.
    fn hands(&self) -> Reach;
}

impl<T> HandsAny for Probe<'_, T> {
    #[inline]
    fn hands(&self) -> Reach {
        Reach::Hands(type_name::<T>())
    }
}

/// Borrowed, or a receiver: a value that writes.
pub trait AsksWrites {
    /// Returns the state that can be mutated through it.
    fn asks(&self) -> Reach;
}

impl<T: Writes> AsksWrites for &Probe<'_, T> {
    #[inline]
    fn asks(&self) -> Reach {
        if T::SHARED { Reach::Shares(type_name::<T>()) } else { Reach::Hands(type_name::<T>()) }
    }
}

/// Borrowed, or a receiver: nothing is known to be mutated through it.
pub trait AsksAny {
    /// Returns that nothing can be mutated through it.
    #[inline]
    fn asks(&self) -> Reach {
        Reach::Nothing
    }
}

impl<T: ?Sized> AsksAny for Probe<'_, T> {}

/// The iterator of a `for`: a reference to an iterator, which outlives the loop.
pub trait Advances {
    /// Returns whether its target advances.
    #[inline]
    fn advances(&self) -> bool {
        true
    }
}

impl<I: Iterator + ?Sized> Advances for &Probe<'_, &mut I> {}

/// The iterator of a `for`: anything else.
pub trait AdvancesNothing {
    /// Returns that nothing that outlives the loop advances.
    #[inline]
    fn advances(&self) -> bool {
        false
    }
}

impl<T: ?Sized> AdvancesNothing for Probe<'_, T> {}

#[cfg(test)]
mod tests {
    use super::*;

    struct Hold<'a>(#[expect(dead_code, reason = "its type is asked")] &'a mut i32);

    fn told(reach: Reach) -> String {
        reach.refusal("`w`").map_or_else(String::new, |it| it.to_string())
    }

    #[test]
    #[expect(clippy::needless_borrow, reason = "the depth of references chooses among the traits")]
    fn types_tell_what_changes_through_them() {
        let (mut one, cell, shared) = (1, Cell::new(1), Rc::new(RefCell::new(vec![1])));
        let list = vec![String::new()];
        assert_eq!(told((&&&&Probe(&list)).hands()), "");
        assert_eq!(told((&&&&Probe(&Box::new(|| 1))).hands()), "");
        assert!(told((&&&&Probe(&cell)).hands()).contains("`w` (`Cell<i32>`) changes without `mut`"));
        assert!(told((&&Probe(&&cell)).asks()).starts_with("error[MS035]"));
        assert!(told((&&&&Probe(&shared)).hands()).contains("`Rc<RefCell<Vec<i32>>>`"));
        assert!(
            told((&&Probe(&&mut one)).asks())
                .contains("write `&mut *w`, or its type where it is declared: `w: &mut i32`")
        );
        assert!(
            told((&&&&Probe(&Some(&mut one))).hands())
                .starts_with("error[MS034]: `w` (`Option<&mut i32>`) is handed on")
        );
        assert!(told((&&&&Probe(&Hold(&mut one))).hands()).contains("hand on `&mut` of what changes"));
        assert!(told((&&Probe(&&mut [1][..])).asks()).contains("the whole variable"));
    }
}
