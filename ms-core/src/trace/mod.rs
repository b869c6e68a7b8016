//! From a Rust call to a graph.
