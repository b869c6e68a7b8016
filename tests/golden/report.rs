//! Counts passing cases by category and path, and lists the failures.

use crate::case::cases;
use crate::difference;
use crate::paths::Path;
use ms::catch;
use std::collections::BTreeMap;
use std::fmt;

/// The results of one path.
#[derive(Default)]
pub struct Column {
    /// The name of the path.
    pub name: String,
    /// The number of cases that passed, by category.
    pub passed: BTreeMap<String, usize>,
    /// The failures.
    pub wrong: Vec<String>,
}

impl Column {
    /// Runs all cases on a path.
    pub fn run(path: Path, name: String) -> Self {
        let mut column = Self { name, ..Self::default() };
        for (at, case) in cases().iter().enumerate() {
            match wrong(path, at) {
                None => *column.passed.entry(case.category.clone()).or_default() += 1,
                Some(what) => column.wrong.push(format!("{}: {what}", case.name)),
            }
        }
        column
    }

    /// Writes the column as lines for another process.
    pub fn write(&self) -> String {
        let name = &self.name;
        let passed =
            self.passed.iter().map(|(category, count)| format!("golden\t{name}\tpassed\t{category}\t{count}\n"));
        let wrong = self.wrong.iter().map(|it| format!("golden\t{name}\twrong\t{}\n", it.replace(['\n', '\t'], " ")));
        passed.chain(wrong).collect()
    }

    /// Reads the columns that another process wrote as lines.
    pub fn read(text: &str) -> Vec<Self> {
        let mut columns: Vec<Self> = Vec::new();
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let ["golden", name, rest @ ..] = &*fields else { continue };
            if columns.last().is_none_or(|it| it.name != *name) {
                columns.push(Self { name: name.to_string(), ..Self::default() });
            }
            let column = columns.last_mut().expect("pushed above");
            match rest {
                ["passed", category, count] => {
                    column.passed.insert(category.to_string(), count.parse().expect("a count"));
                }
                ["wrong", what] => column.wrong.push(what.to_string()),
                other => panic!("{other:?} is no line of a column"),
            }
        }
        columns
    }
}

/// Returns the failure of a case on a path, if there is one.
fn wrong(path: Path, at: usize) -> Option<String> {
    let case = &cases()[at];
    let got = match catch(|| path.answers(at)) {
        Ok(Ok(got)) => got,
        Ok(Err(error)) | Err(error) => return Some(error.to_string()),
    };
    let want: Vec<_> = case.outputs.iter().chain(case.gradients.iter().flatten()).collect();
    if got.len() != want.len() {
        return Some(format!("{} answers, not {}", got.len(), want.len()));
    }
    let places = (0..case.outputs.len()).map(|i| format!("result {i}"));
    let places = places.chain((0..).map(|i| format!("gradient {i}")));
    let differences = got.iter().zip(want).map(|(got, want)| difference(got, want, case.tolerance));
    differences.zip(places).find_map(|(what, place)| Some(format!("{place}: {}", what?)))
}

/// Prints all columns beside each other.
pub struct Table(pub Vec<Column>);

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for case in cases() {
            let (count, gradients) = all.entry(&case.category).or_default();
            *count += 1;
            *gradients += usize::from(!case.cotangents.is_empty());
        }
        write!(f, "{:18}{:>7}{:>11}", "category", "cases", "gradients")?;
        self.0.iter().try_for_each(|it| write!(f, "{:>15}", it.name))?;
        for (category, (count, gradients)) in &all {
            write!(f, "\n{category:18}{count:7}{gradients:11}")?;
            for column in &self.0 {
                write!(f, "{:15}", column.passed.get(*category).unwrap_or(&0))?;
            }
        }
        let sum = |of: fn(&(usize, usize)) -> usize| all.values().map(of).sum::<usize>();
        write!(f, "\n{:18}{:7}{:11}", "all", sum(|it| it.0), sum(|it| it.1))?;
        self.0.iter().try_for_each(|it| write!(f, "{:15}", it.passed.values().sum::<usize>()))
    }
}
