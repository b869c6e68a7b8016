//! Tests that the table of functions in `narrow` is complete.

use crate::ops::narrow::NAMES;

/// The table has every function in the files of losses, activations and statistics.
#[test]
fn no_function_is_left_out() {
    let functions = [
        include_str!("../../ms-core/ops/src/ops/composite/nn/activation.rs"),
        include_str!("../../ms-core/ops/src/ops/composite/nn/loss.rs"),
        include_str!("../../ms-core/ops/src/ops/composite/statistics.rs"),
    ];
    let is_name = |it: &char| it.is_alphanumeric() || *it == '_';
    let name = |line: &str| line.chars().take_while(is_name).collect::<String>();
    let mut all: Vec<String> =
        functions.iter().flat_map(|it| it.lines().filter_map(|it| it.strip_prefix("pub fn ")).map(name)).collect();
    let cells = include_str!("../../src/nn/loss/mod.rs");
    let exported = cells.split("pub use ").skip(1).filter_map(|it| it.split_once("::")?.1.split_once(';'));
    all.extend(exported.flat_map(|it| it.0.split(|it| !is_name(&it))).filter(|it| !it.is_empty()).map(str::to_string));
    assert!(all.len() > 40, "{all:?}");
    // `CTCLoss` is a loop; `tests/layers` has cases of it.
    let missing: Vec<&String> = all.iter().filter(|it| !NAMES.contains(&it.as_str()) && *it != "CTCLoss").collect();
    assert!(missing.is_empty(), "without a line in the table: {missing:?}");
}
