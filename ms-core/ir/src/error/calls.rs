//! Tracks the active calls of cells and compiled functions on this thread.

use super::{Code, Error, raise};
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::rc::Rc;

/// The size of the stack above which calls count as infinite recursion: half of a thread's default.
const STACK_BYTES: usize = 1 << 20;

/// A crate of the library, by the path of its `lib.rs`, as `file!()` returns it there. Lines of these crates
/// are not the user's.
pub enum LibrarySource {
    /// A crate of the compiler.
    Compiler(&'static str),
    /// The facade: the lines of its layers are shown as callers.
    Facade(&'static str),
}

inventory::collect!(LibrarySource);

/// An active call.
struct Frame {
    name: &'static str,
    /// The path of the called cell, if known.
    path: Option<Rc<str>>,
    location: &'static Location<'static>,
}

/// Formats a call: the name, the path of the cell, and the source location of the caller.
fn text(name: &str, path: Option<&str>, location: &Location<'_>) -> String {
    let called = match path {
        Some(path) => format!("`{path}` (`{name}`)"),
        None => format!("`{name}`"),
    };
    // A call through `dyn Fn` is located in the standard library, and one through `dyn Layer` in the compiler.
    let is_dynamic = location.file().starts_with("/rustc/") || is_compiler(location);
    if is_dynamic { called } else { format!("{called} at {location}") }
}

/// The active calls of a thread, outermost first, for errors that occur after them: see
/// [`Error::in_those_calls`](super::Error::in_those_calls).
#[derive(Clone, Debug)]
pub struct ActiveCalls(Vec<Call>);

/// A call that was active.
type Call = (&'static str, Option<Box<str>>, &'static Location<'static>);

impl ActiveCalls {
    /// Returns the active calls of the calling thread.
    pub fn current() -> Self {
        calls(|frames| {
            Self(frames.iter().map(|it| (it.name, it.path.as_deref().map(Box::from), it.location)).collect())
        })
    }

    /// Formats the calls, innermost first.
    pub(super) fn texts(&self) -> Vec<String> {
        self.0.iter().rev().map(|(name, path, location)| text(name, path.as_deref(), location)).collect()
    }

    /// Returns the innermost source location outside the library.
    pub fn user_line(&self) -> Option<&'static Location<'static>> {
        self.0.iter().rev().map(|it| it.2).find(|it| !is_library(it))
    }
}

thread_local! {
    static CALLS: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
    /// The stack address of the outermost call.
    static BOTTOM: Cell<usize> = const { Cell::new(0) };
}

/// A guard for an active call.
struct Active;

impl Active {
    /// Begins a call. Raises [`Code::Recursion`] for infinite recursion.
    fn begin(name: &'static str, path: Option<Rc<str>>, location: &'static Location<'static>) -> Self {
        let here = stack_address();
        let depth = CALLS.with(|it| it.borrow().len());
        if depth == 0 {
            BOTTOM.set(here);
        } else if BOTTOM.get().abs_diff(here) > STACK_BYTES {
            endless(name, depth, location);
        }
        CALLS.with(|it| it.borrow_mut().push(Frame { name, path, location }));
        Self
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        CALLS.with(|it| it.borrow_mut().pop());
    }
}

#[cold]
fn endless(name: &str, depth: usize, location: &'static Location<'static>) -> ! {
    raise(
        Error::new(Code::Recursion, format!("`{name}` is called {depth} calls deep, without an end in sight"))
            .at(location)
            .within(format!("{depth} calls"))
            .help("end the recursion by a condition on a host value: both ways of a condition on a tensor are traced"),
    );
}

/// Runs `f` as the call of a named function, or of a cell at this path, so that errors inside name it.
///
/// Raises [`Code::Recursion`] for infinite recursion.
pub fn in_call<R>(
    name: &'static str,
    path: Option<Rc<str>>,
    location: &'static Location<'static>,
    f: impl FnOnce() -> R,
) -> R {
    let _active = Active::begin(name, path, location);
    f()
}

/// Returns the approximate stack address of the caller.
///
/// AddressSanitizer may store the locals of instrumented functions outside of the stack.
#[cfg_attr(ms_sanitize, sanitize(address = "off"), inline(never))]
#[cfg_attr(not(ms_sanitize), inline(always))]
pub fn stack_address() -> usize {
    let marker = 0u8;
    (&raw const marker).addr()
}

/// Passes the active calls to `f`, outermost first.
fn calls<R>(f: impl FnOnce(&[Frame]) -> R) -> R {
    CALLS.with(|it| f(&it.borrow()))
}

/// Returns whether the location is in the library.
pub(super) fn is_library(location: &Location<'_>) -> bool {
    inventory::iter::<LibrarySource>.into_iter().any(|it| match it {
        LibrarySource::Compiler(root) | LibrarySource::Facade(root) => lies_beside(location, root),
    })
}

/// Returns whether the location is in a crate of the compiler.
fn is_compiler(location: &Location<'_>) -> bool {
    inventory::iter::<LibrarySource>
        .into_iter()
        .any(|it| matches!(it, LibrarySource::Compiler(root) if lies_beside(location, root)))
}

/// Returns whether the location is in the directory of the `lib.rs` at `root`.
fn lies_beside(location: &Location<'_>, root: &str) -> bool {
    root.strip_suffix("lib.rs").is_some_and(|it| location.file().starts_with(it))
}
