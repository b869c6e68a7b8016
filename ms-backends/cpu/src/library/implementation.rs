//! Chooses the implementations of an op, once, when the op is prepared.

use ms_ir::error::Result;
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The reason for which an implementation does not run a problem.
pub type Declined = Cow<'static, str>;

/// An implementation of an op. `P` describes its sizes, and `C` is the prepared code.
pub struct Implementation<P, C> {
    /// The name in profiles and in plans.
    pub name: &'static str,
    /// Whether a call may find operands with elements that the code does not take. Such a call runs the next code that
    /// was prepared.
    pub is_conditional: bool,
    /// Accepts a problem, or declines it.
    pub accepts: fn(&P) -> Result<(), Declined>,
    /// Prepares a problem that was accepted.
    pub prepare: fn(&P) -> Result<C>,
}

/// The implementations that were prepared for an op, and those that declined it.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The names of the prepared codes. All but the last one are conditional.
    prepared: Vec<&'static str>,
    declined: Vec<(&'static str, Declined)>,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.prepared.join(", else "))?;
        for (at, (name, reason)) in self.declined.iter().enumerate() {
            write!(f, "{}{name}: {reason}", if at == 0 { " (not " } else { "; " })?;
        }
        f.write_str(if self.declined.is_empty() { "" } else { ")" })
    }
}

/// The number of lists that the process has queried.
static QUERIES: AtomicU64 = AtomicU64::new(0);

/// Returns the number of lists of implementations that the process has queried.
pub fn queries() -> u64 {
    QUERIES.load(Ordering::Relaxed)
}

thread_local! {
    /// The names of implementations that [`without`] skips.
    static SKIPPED: Cell<&'static [&'static str]> = const { Cell::new(&[]) };
}

/// Runs `f`, in which this thread prepares no implementation with these names, for benchmarks. The last implementation
/// of a list is not skipped.
pub fn without<R>(names: &'static [&'static str], f: impl FnOnce() -> R) -> R {
    struct Restore(&'static [&'static str]);
    impl Drop for Restore {
        fn drop(&mut self) {
            SKIPPED.set(self.0);
        }
    }
    let _restore = Restore(SKIPPED.replace(names));
    f()
}

/// Prepares the first implementation that accepts a problem. If it is conditional, also prepares the next one.
///
/// # Errors
/// The errors of [`Implementation::prepare`].
///
/// # Panics
/// Panics if no implementation accepts the problem. The last one of a list accepts all that the others decline.
pub fn choose<P, C>(list: &[Implementation<P, C>], problem: &P) -> Result<(Vec<C>, Choice)> {
    QUERIES.fetch_add(1, Ordering::Relaxed);
    let (mut codes, mut choice) = (Vec::new(), Choice { prepared: Vec::new(), declined: Vec::new() });
    let skipped = |it: &Implementation<P, C>| SKIPPED.get().contains(&it.name);
    for (at, it) in list.iter().enumerate() {
        let accepts = match skipped(it) && at + 1 < list.len() {
            true => Err("it is skipped".into()),
            false => (it.accepts)(problem),
        };
        match accepts {
            Err(reason) => choice.declined.push((it.name, reason)),
            Ok(()) => {
                codes.push((it.prepare)(problem)?);
                choice.prepared.push(it.name);
                if !it.is_conditional {
                    return Ok((codes, choice));
                }
            }
        }
    }
    unreachable!("the last implementation of a list accepts what the others decline: {choice}")
}

/// Accepts a problem if a condition holds.
///
/// # Errors
/// The reason, if it does not.
pub fn require<R: Into<Declined>>(condition: bool, reason: impl FnOnce() -> R) -> Result<(), Declined> {
    if condition { Ok(()) } else { Err(reason().into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A problem takes the first code that accepts it, and the next ones as long as codes are conditional.
    #[test]
    fn the_first_that_accepts_is_prepared() {
        let list: [Implementation<usize, &str>; 4] = [
            Implementation {
                name: "large",
                is_conditional: false,
                accepts: |it| require(*it > 9, || format!("{it} is at most 9")),
                prepare: |_| Ok("large"),
            },
            Implementation {
                name: "even",
                is_conditional: true,
                accepts: |it| require(it.is_multiple_of(2), || "it is odd"),
                prepare: |_| Ok("even"),
            },
            Implementation { name: "any", is_conditional: false, accepts: |_| Ok(()), prepare: |_| Ok("any") },
            Implementation {
                name: "never",
                is_conditional: false,
                accepts: |_| unreachable!("an earlier one accepts all"),
                prepare: |_| unreachable!("it accepts nothing"),
            },
        ];
        let cases: [(usize, &[&str], &str); 3] = [
            (10, &["large"], "large"),
            (4, &["even", "any"], "even, else any (not large: 4 is at most 9)"),
            (5, &["any"], "any (not large: 5 is at most 9; even: it is odd)"),
        ];
        for (problem, want, text) in cases {
            let before = queries();
            let (codes, choice) = choose(&list, &problem).expect("they are prepared");
            assert_eq!((&codes[..], choice.to_string().as_str()), (want, text));
            assert!(queries() > before);
        }
        let (_, choice) = without(&["even", "any"], || choose(&list[..3], &4)).expect("they are prepared");
        assert_eq!(choice.to_string(), "any (not large: 4 is at most 9; even: it is skipped)");
    }
}
