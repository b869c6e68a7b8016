//! Describes the inputs of a function that is traced on examples.

/// The name of an input, and of each of its axes that has a symbolic size.
#[derive(Clone, Debug)]
pub struct InputSpec {
    /// The name.
    pub name: String,
    /// The name of the size of each axis; `None` for the size in the example.
    pub axes: Vec<Option<String>>,
}
