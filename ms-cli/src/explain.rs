//! Prints the pages of error codes: `ms explain`.

use clap::{Arg, ArgMatches, Command};
use ms::{Code, Error};

/// The sorted codes, and their pages as Markdown.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// Returns the subcommand.
pub fn command() -> Command {
    Command::new("explain")
        .about("Explains an error code")
        .arg(Arg::new("CODE").help("The code, as in `MS100` or `100`; by default, lists all codes"))
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Error> {
    match matches.get_one::<String>("CODE") {
        Some(code) => print!("{}", page(code)?),
        None => PAGES.iter().for_each(|(_, page)| println!("{}", title(page))),
    }
    Ok(())
}

/// Returns the page of a code, in upper or lower case, with or without letters and leading zeros.
fn page(code: &str) -> Result<&'static str, Error> {
    let digits = code.trim_start_matches(['M', 'm']).trim_start_matches(['S', 's']);
    let number = digits.parse::<u16>().ok();
    let found = number.and_then(|it| PAGES.iter().find(|(known, _)| *known == format!("MS{it:03}")));
    found.map(|it| it.1).ok_or_else(|| {
        Error::new(Code::Argument, format!("there is no error `{code}`")).help("`ms explain` lists all codes")
    })
}

/// Returns the heading of a page: the code and its meaning.
fn title(page: &str) -> &str {
    page.lines().next().map_or("", |it| it.trim_start_matches("# "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_however_they_are_written() {
        for code in ["MS100", "ms100", "100"] {
            assert_eq!(title(page(code).expect(code)).split(':').next(), Some("MS100"));
        }
        for code in ["MS003", "3", "ms3"] {
            assert_eq!(title(page(code).expect(code)).split(':').next(), Some("MS003"));
        }
        for code in ["", "MS", "MS999", "E0308", "MS-1", "70000"] {
            let error = page(code).expect_err(code);
            assert_eq!(error.code(), Code::Argument, "{code}");
        }
    }

    #[test]
    fn every_page_begins_with_its_code() {
        assert!(!PAGES.is_empty());
        for (code, page) in PAGES {
            let (known, meaning) = title(page).split_once(": ").expect(code);
            assert_eq!(known, *code);
            assert!(!meaning.is_empty());
        }
    }
}
