//! Renders the page as HTML.

use super::{State, TrainingPage};
use crate::train::callback::text::{duration, number};
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// The maximum number of epochs in the table; older ones are omitted.
const EPOCHS: usize = 100;

const STYLE: &str = include_str!("page.css");

/// Escapes a text for HTML elements and attributes.
pub(super) fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, it| {
        match it {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            it if it.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            it => out.push(it),
        }
        out
    })
}

/// Renders the current page.
pub(super) fn page(it: &TrainingPage) -> String {
    let title = escaped(&it.title);
    let (class, state) = match it.state {
        State::Running => ("running", "running"),
        State::Finished => ("finished", "finished"),
        State::Interrupted => ("interrupted", "ended by an error"),
    };
    let mut out = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    if let State::Running = it.state {
        let _ = writeln!(out, "<meta http-equiv=\"refresh\" content=\"{}\">", it.period.as_secs().max(1));
    }
    let _ = writeln!(out, "<title>{title}: {state}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>");
    let _ = writeln!(out, "<h1>{title} <small class=\"{class}\">{state}</small></h1>");
    progress(&mut out, it);
    out += "<main>\n";
    for (chart, curves) in it.charts() {
        out += &super::chart::chart(chart, &curves);
    }
    out += "</main>\n";
    numbers(&mut out, it);
    epochs(&mut out, it);
    out + "</body>\n</html>\n"
}

fn progress(out: &mut String, it: &TrainingPage) {
    let mut facts = Vec::new();
    if let Some(place) = &it.place {
        let share = place.step as f64 / place.steps.max(1) as f64;
        let _ = writeln!(out, "<progress max=\"1\" value=\"{share:.4}\"></progress>");
        facts.push(("epoch", format!("{} of {}", place.epoch, place.epochs)));
        facts.push(("step", format!("{} of {}", place.step, place.steps)));
    }
    facts.push(("time", duration(it.elapsed())));
    if let (State::Running, Some(left)) = (&it.state, it.left()) {
        facts.push(("left", duration(left)));
    }
    facts.push(("written", clock(SystemTime::now())));
    *out += "<dl>\n";
    for (name, value) in facts {
        let _ = writeln!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    *out += "</dl>\n";
}

/// Formats the time of day in UTC.
fn clock(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() % 86400;
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Renders the last, smallest and largest values of all curves.
fn numbers(out: &mut String, it: &TrainingPage) {
    if it.curves.is_empty() {
        return;
    }
    *out += "<section>\n<table>\n<tr><th>number<th>last<th>lowest<th>in step<th>highest<th>in step</tr>\n";
    for (name, curve) in &it.curves {
        let extremes = curve.extremes.map_or_else(
            || "<td><td><td><td>".to_owned(),
            |it| it.map(|(step, value)| format!("<td>{}<td>{step}", number(value))).concat(),
        );
        let _ = writeln!(out, "<tr><th>{}<td>{}{extremes}</tr>", escaped(name), number(curve.last.1));
    }
    *out += "</table>\n</section>\n";
}

/// Renders the epochs, the last one first.
fn epochs(out: &mut String, it: &TrainingPage) {
    let [head, rows @ ..] = &it.history.cells()[..] else { return };
    if rows.is_empty() {
        return;
    }
    let row =
        |cells: &[String], mark: &str| cells.iter().map(|it| format!("<{mark}>{}", escaped(it))).collect::<String>();
    let _ = writeln!(out, "<section>\n<table>\n<tr>{}</tr>", row(head, "th"));
    for cells in rows.iter().rev().take(EPOCHS) {
        let _ = writeln!(out, "<tr>{}</tr>", row(cells, "td"));
    }
    *out += "</table>\n";
    if rows.len() > EPOCHS {
        let _ = writeln!(out, "<p>The last {EPOCHS} of {} epochs.</p>", rows.len());
    }
    *out += "</section>\n";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn text_is_no_markup() {
        assert_eq!(escaped("<a href='x'>&\"\u{0}é"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\u{fffd}é");
        assert_eq!(clock(UNIX_EPOCH + Duration::from_secs(86400 + 3661)), "01:01:01 UTC");
    }
}
