//! Tests the prose of comments and pages.
//!
//! Each rule of [`RULES`] is a function from a paragraph to defects, and is itself tested on planted defects. The rules
//! with their reasons and examples are in `docs/style.md`.

use crate::words::WORDS;
use crate::{files, root, text};
use std::path::Path;

/// Where a paragraph stands.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Doc,
    Comment,
    Page,
}

/// A paragraph of a comment or a page. A heading, an item of a list and a cell of a table are paragraphs too.
struct Paragraph {
    line: usize,
    kind: Kind,
    /// The text on one line. Code spans and the targets of links are still there.
    text: String,
}

impl Paragraph {
    /// Returns the text with `x` for each code span, and without the targets of links.
    fn plain(&self) -> String {
        let spans = self.text.split('`').enumerate().map(|(at, it)| if at % 2 == 0 { it } else { "x" });
        let mut plain: String = spans.collect();
        while let Some(at) = plain.find("](") {
            let end = plain[at..].find(')').map_or(plain.len(), |end| at + end + 1);
            plain.replace_range(at..end, "]");
        }
        plain
    }

    /// Returns the words of a text in lower case.
    fn words(text: &str) -> Vec<String> {
        let words = text.split(|it: char| !it.is_alphanumeric() && !matches!(it, '\'' | '-' | '_'));
        words.filter(|it| !it.is_empty()).map(str::to_lowercase).collect()
    }
}

/// Appends the paragraphs of lines of Markdown, without blocks of code.
fn markdown(lines: &[(usize, &str)], kind: Kind, found: &mut Vec<Paragraph>) {
    let (mut is_code, mut open) = (false, None::<Paragraph>);
    for &(line, text) in lines {
        let text = text.trim();
        let is_fence = text.starts_with("```");
        is_code ^= is_fence;
        let is_heading = text.trim_start_matches('#').starts_with(' ');
        let item = ["- ", "* ", "1. "].iter().find_map(|it| text.strip_prefix(it));
        if is_code || is_fence || text.is_empty() || is_heading || item.is_some() || text.starts_with('|') {
            found.extend(open.take());
        }
        if is_code || is_fence || text.is_empty() {
            continue;
        }
        if is_heading || text.starts_with('|') {
            let cells = if is_heading { vec![text.trim_start_matches('#')] } else { text.split('|').collect() };
            let cells = cells.into_iter().map(str::trim).filter(|it| !it.is_empty());
            found.extend(cells.map(|it| Paragraph { line, kind, text: it.to_owned() }));
            continue;
        }
        let text = item.unwrap_or(text);
        match &mut open {
            Some(it) => it.text.extend([" ", text]),
            None => open = Some(Paragraph { line, kind, text: text.to_owned() }),
        }
    }
    found.extend(open);
}

/// Returns the paragraphs of the comments of a Rust source. Adjacent comments of one kind are one text.
fn comments(source: &str) -> Vec<Paragraph> {
    let marked = |line: &'_ str| -> Option<(&'static str, usize)> {
        let marker = ["////", "///", "//!", "//"].into_iter().find(|it| line.starts_with(it))?;
        Some((marker, marker.len()))
    };
    let (mut found, mut block, mut current) = (Vec::new(), Vec::new(), None);
    let mut end = |block: &mut Vec<(usize, &str)>, marker: Option<&str>| {
        let kind = if matches!(marker, Some("///" | "//!")) { Kind::Doc } else { Kind::Comment };
        markdown(block, kind, &mut found);
        block.clear();
    };
    for (at, line) in source.lines().enumerate() {
        let line = line.trim_start();
        let marker = marked(line);
        if marker.map(|it| it.0) != current {
            end(&mut block, current);
        }
        current = marker.map(|it| it.0);
        block.extend(marker.map(|it| (at + 1, &line[it.1..])));
    }
    end(&mut block, current);
    found
}

/// Returns the paragraphs of a page.
fn page(text: &str) -> Vec<Paragraph> {
    let lines: Vec<(usize, &str)> = text.lines().enumerate().map(|(at, it)| (at + 1, it)).collect();
    let mut found = Vec::new();
    markdown(&lines, Kind::Page, &mut found);
    found
}

/// Returns the sentences of a text. A colon or semicolon ends a sentence only before a capital letter.
fn sentences(text: &str) -> Vec<&str> {
    let (mut found, mut start) = (Vec::new(), 0);
    for (at, _) in text.match_indices(' ') {
        let next = text[at + 1..].chars().next().unwrap_or(' ');
        let ends = match text[..at].chars().next_back() {
            Some('.' | '!' | '?') => true,
            Some(':' | ';') => next.is_uppercase() || matches!(next, '[' | '('),
            _ => false,
        };
        if ends {
            found.push(&text[start..at]);
            start = at + 1;
        }
    }
    found.push(&text[start..]);
    found
}

/// Finds comments that begin with a pronoun whose noun is elsewhere.
fn begins_with_a_pronoun(it: &Paragraph) -> Vec<String> {
    const BEGINNINGS: [&str; 6] = ["That of", "Those of", "Those", "The same", "It", "Its"];
    let begins = |words: &&&str| {
        let after = it.text.strip_prefix(**words);
        after.is_some_and(|it| !it.starts_with(|it: char| it.is_alphanumeric() || matches!(it, '\'' | '-' | '_')))
    };
    let found = BEGINNINGS.iter().find(begins).filter(|_| it.kind != Kind::Page);
    found.map(|it| format!("begins with \"{it}\": name the noun, or begin with a verb")).into_iter().collect()
}

/// Finds `SAFETY` comments that name no condition, but another comment or the caller.
fn points_elsewhere(it: &Paragraph) -> Vec<String> {
    const ELSEWHERE: [&str; 7] = ["above", "below", "before", "caller", "caller's", "here", "there"];
    /// Words that name no condition.
    const EMPTY: &str = " a an and any are as at by comment condition conditions contract documented does documentation \
        for from function function's guarantee guarantees guaranteed has have holds in is it like method method's of \
        on or our promise promised promises same see so that the their these this trait trait's upholds what which ";
    let Some((_, reason)) = it.text.split_once("SAFETY:").filter(|_| it.kind == Kind::Comment) else {
        return Vec::new();
    };
    let reason = Paragraph { line: it.line, kind: it.kind, text: reason.to_owned() }.plain();
    let words = Paragraph::words(&reason);
    let is_elsewhere = |it: &String| ELSEWHERE.contains(&&**it);
    let begins = ["as", "see", "like"].iter().any(|it| words.first().is_some_and(|first| first == it))
        || words.starts_with(&["the".to_owned(), "same".to_owned()]);
    let points = begins && words.iter().any(is_elsewhere);
    let is_empty = words.iter().all(|it| is_elsewhere(it) || EMPTY.contains(&format!(" {it} ")));
    let found = (points || is_empty).then(|| "a `SAFETY` comment that names no condition".to_owned());
    found.into_iter().collect()
}

/// Finds sentences of more than 35 words.
fn long_sentences(it: &Paragraph) -> Vec<String> {
    const LIMIT: usize = 35;
    let plain = it.plain();
    let long = sentences(&plain).into_iter().filter(|it| it.split_whitespace().count() > LIMIT);
    long.map(|it| format!("{} words in a sentence, above {LIMIT}: {it}", it.split_whitespace().count())).collect()
}

/// Finds the words of the list.
fn listed_words(it: &Paragraph) -> Vec<String> {
    let plain = it.plain();
    let of_sentence = |sentence| {
        let text = format!(" {} ", Paragraph::words(sentence).join(" "));
        WORDS.iter().filter(move |(word, _)| text.contains(&format!(" {word} ")))
    };
    let found = sentences(&plain).into_iter().flat_map(of_sentence);
    found.map(|(word, instead)| format!("\"{word}\": write {instead}")).collect()
}

/// A rule, with planted texts that violate it and texts that follow it. A text that begins with `//` is a source, and
/// any other a page.
struct Rule {
    defects: fn(&Paragraph) -> Vec<String>,
    violating: &'static [&'static str],
    following: &'static [&'static str],
}

const LONG: &str = "A graph that is optimised twice has the nodes that it had before, and the nodes that it has are in \
    the order in which the first run left them, as the passes are stable and no pass reads a clock.";

const RULES: [Rule; 4] = [
    Rule {
        defects: begins_with_a_pronoun,
        violating: &[
            "/// That of no elements.",
            "//! Those of this machine.",
            "    /// Those\n    /// of the op.",
            "/// The same elements.",
            "/// Returns the length.\n///\n/// It is at most two.",
            "// Its lock is taken.",
        ],
        following: &[
            "/// Iterates.",
            "/// Itself.",
            "/// The sameness.",
            "/// Returns the length. It is at most two.",
            "/// Returns\n/// It.",
            "/// ```\n/// // It is code.\n/// ```",
            "It begins a page.",
            "fn f() {} // It stands behind code.",
        ],
    },
    Rule {
        defects: points_elsewhere,
        violating: &[
            "// SAFETY: as above.",
            "// SAFETY: As the caller's.",
            "// SAFETY: the caller promises.",
            "// SAFETY: By this function's contract.",
            "// SAFETY: see the comment above, on\n// `other`.",
            "// SAFETY: the same as below: `at` is a position.",
            "// SAFETY:",
        ],
        following: &[
            "// SAFETY: the caller promises that `at < len`.",
            "// SAFETY: `data` is valid for `len` reads by this function's contract.",
            "/// # Safety\n/// As above.",
            "// As above.",
        ],
    },
    Rule {
        defects: long_sentences,
        violating: &[
            LONG,
            "/// A graph that is optimised twice has the nodes that it had before, and the nodes that it has are\n/// in \
             the order in which the first run left them, as the passes are stable and no pass reads a clock.",
            "| A | A graph that is optimised twice has the nodes that it had before, and the nodes that it has are in \
             the order in which the first run left them, as the passes are stable and no pass reads a clock. |",
        ],
        following: &[
            "The list `a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q` is code.",
            "- One has an end here, and has few words, as has the next item of the list, which is apart from it\n- Two \
             has an end here, and has few words, as has the item of the list before, which is apart from it",
            "One has an end here, and has few words, as has the next sentence, which is apart from it: The second \
             has an end here, and has few words, as has the sentence before, which is apart from it.",
        ],
    },
    Rule {
        defects: listed_words,
        violating: &[
            "// Copies so many elements.",
            "/// Aligned to a line\n/// of the cache.",
            "| x | Lines of the cache |",
            "# The roof",
            "1. [In no memory](a.md)",
        ],
        following: &["/// The roofline of `roof`.", "Not so. Many.", "[cache line](what/roof.md)"],
    },
];

/// Returns the paragraphs of a planted text.
fn planted(text: &str) -> Vec<Paragraph> {
    if text.trim_start().starts_with("//") || text.starts_with("fn ") { comments(text) } else { page(text) }
}

#[test]
fn rules_of_prose_find_planted_violations() {
    for rule in &RULES {
        let defects = |text: &str| planted(text).iter().flat_map(rule.defects).count();
        for text in rule.violating {
            assert_eq!(defects(text), 1, "{text}");
        }
        for text in rule.following {
            assert_eq!(defects(text), 0, "{text}");
        }
    }
    for (word, instead) in WORDS {
        assert_eq!(*word, word.to_lowercase(), "texts are compared in lower case");
        let is_found = planted(&format!("The {word}.")).iter().any(|it| !listed_words(it).is_empty());
        assert!(is_found && !instead.is_empty(), "{word}");
    }
}

/// Returns the sources and pages of the workspace. Inputs of tests and generated files are exempt.
fn texts() -> Vec<(String, Vec<Paragraph>)> {
    const EXEMPT: [&str; 2] = ["ui-tests/fail/", "ui-tests/pass/"];
    let mut found = Vec::new();
    for path in files(root()) {
        let name = path.strip_prefix(root()).expect("below the root").to_string_lossy().replace('\\', "/");
        let is_exempt = EXEMPT.iter().any(|it| name.starts_with(it)) || name.ends_with(".expanded.rs");
        match Path::new(&name).extension().and_then(|it| it.to_str()) {
            Some("rs") if !is_exempt => found.push((name, comments(&text(&path)))),
            Some("md") => found.push((name, page(&text(&path)))),
            _ => {}
        }
    }
    found
}

#[test]
fn comments_and_pages_follow_the_rules_of_prose() {
    let texts = texts();
    let count = |kind: Kind| texts.iter().flat_map(|it| &it.1).filter(|it| it.kind == kind).count();
    let counts = [Kind::Doc, Kind::Comment, Kind::Page].map(count);
    assert!(counts.iter().all(|it| *it > 2000), "only {counts:?} paragraphs were found");

    let mut defects = Vec::new();
    for (name, paragraphs) in &texts {
        for it in paragraphs {
            // The page of the rules quotes the words.
            let rules = RULES.iter().filter(|_| name != "docs/style.md");
            let found = rules.flat_map(|rule| (rule.defects)(it));
            defects.extend(found.map(|defect| format!("{name}:{}: {defect}", it.line)));
        }
    }
    assert!(defects.is_empty(), "docs/style.md has the rules:\n{}", defects.join("\n"));
}
