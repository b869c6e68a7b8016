//! Tests that the program of `README.md` prints what is shown, and that its measurements are those of the book.

#[path = "../common/program.rs"]
mod program;

use crate::{root, text};
use program::Program;

/// Returns the first block of code of a language after `start`.
fn block<'a>(page: &'a str, start: &str, language: &str) -> &'a str {
    let (_, after) = page.split_once(start).unwrap_or_else(|| panic!("README lacks `{start}`"));
    let (_, block) = after.split_once(&format!("```{language}\n")).expect("a block of code");
    block.split_once("```").expect("the block ends").0
}

#[test]
fn the_program_prints_what_is_shown() {
    let page = text(&root().join("README.md"));
    let source = block(&page, "# ms", "rust");
    let shown = block(&page, source, "text");
    let run = Program::compile("readme", source, &[]).run(&[]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(String::from_utf8_lossy(&run.stdout), shown);

    // The call whose error is shown replaces the last statement of `main`.
    let start = "If `main` ends with ";
    let call = page.split_once(start).expect("the call is shown").1.split('`').nth(1).expect("code");
    let (before, _) = source.trim_end().rsplit_once("\n    ").expect("a last statement");
    let run = Program::compile("readme error", &format!("{before}\n    {call}\n}}\n"), &[]).run(&[]);
    assert!(!run.status.success());
    let printed = String::from_utf8_lossy(&run.stderr).replace("program.rs", "src/main.rs");
    let of_user: Vec<&str> = printed.lines().filter(|it| !it.starts_with("   = library: ")).collect();
    let shown: Vec<&str> = block(&page, start, "text").lines().collect();
    assert!(of_user.windows(shown.len()).any(|it| it == shown), "{printed}");
}

#[test]
fn the_measurements_are_those_of_the_book() {
    let [readme, book] = ["README.md", "docs/performance.md"].map(|it| text(&root().join(it)));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|it| it.trim().to_owned()).collect::<Vec<_>>();
    let (_, table) = readme.split_once("## Measurements").expect("a section of measurements");
    let rows = table.split("\n## ").next().unwrap_or_default().lines().filter(|it| it.contains("(`"));
    let rows: Vec<Vec<String>> = rows.map(cells).collect();
    assert!(rows.len() >= 6, "{rows:?}");
    for row in rows {
        let name = row[0].split('`').nth(1).expect("the name of a workload");
        let line = book.lines().find(|it| it.starts_with(&format!("| `{name}` |"))).expect("the row of the book");
        assert_eq!(row[1..], cells(line)[1..row.len()], "{name}");
    }
}
