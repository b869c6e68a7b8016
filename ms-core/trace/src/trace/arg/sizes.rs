//! Defines the sizes that the user declares for an argument.

/// The sizes of an argument, as `#[jit(dims(x = [batch, _]))]` declares them.
#[derive(Debug)]
pub struct Sizes {
    /// The name of the argument.
    pub argument: &'static str,
    /// The sizes of the axes, one for each.
    pub axes: &'static [Size],
}

/// The size of one axis of an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// A static size, part of the key: every size compiles a version. Written `_`.
    Fixed,
    /// A size that every call has. Written as a number.
    Exact(usize),
    /// A symbol with a size that each call determines. Written as a name.
    Symbol(&'static str),
}
