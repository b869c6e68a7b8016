//! Caches prepared steps of recent ops. An op that repeats on operands of one key infers no types and plans no loops
//! again.
//!
//! Steps of many layouts share [code](super::code), which therefore has a separate table: a step that is replaced here
//! compiles nothing when it returns.

use super::Operands;
use super::key::{Key, OwnedKey};
use super::step::Step;
use std::cell::RefCell;
use std::rc::Rc;

/// The size of a thread's table: pairs of entries. A training step has enough ops for some to collide.
const ENTRIES: usize = 512;

/// A step with its key.
pub(super) struct Entry {
    key: OwnedKey,
    pub step: Step,
}

thread_local! {
    static TABLE: RefCell<[Option<Rc<Entry>>; ENTRIES]> = const { RefCell::new([const { None }; ENTRIES]) };
}

/// Returns the preferred index of a key.
#[inline]
fn slot(key: &Key<'_>, operands: &Operands<'_>) -> usize {
    key.hash(operands) as usize % ENTRIES
}

/// Returns the step of a key, if it is cached.
#[inline(always)]
pub(super) fn find(key: &Key<'_>, operands: &Operands<'_>) -> Option<Rc<Entry>> {
    let slot = slot(key, operands);
    TABLE.with_borrow(|table| {
        let held = |at: usize| table[at].as_ref().filter(|it| it.key.is(key, operands));
        held(slot).or_else(|| held(slot ^ 1)).cloned()
    })
}

/// Caches the step of a key. If entries collide, the two latest ones stay.
#[cold]
#[inline(never)]
pub(super) fn insert(key: &Key<'_>, operands: &Operands<'_>, step: Step) -> Rc<Entry> {
    let entry = Rc::new(Entry { key: key.owned(operands), step });
    let slot = slot(key, operands);
    TABLE.with_borrow_mut(|table| {
        if let Some(older) = table[slot].replace(entry.clone()) {
            table[slot ^ 1] = Some(older);
        }
    });
    entry
}
