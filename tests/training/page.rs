//! Tests the page that shows a run, and the table of a run.

use ms::Code;
use ms::prelude::*;
use ms::train::{Accuracy, History, LambdaCallback, TrainingPage};
use ms_conformance::folder::Folder;
use std::path::Path;
use std::time::Duration;

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).expect("the page was written")
}

/// Returns points, and whether the sum of their numbers is positive, in batches of four.
fn points(rows: usize) -> DataLoader<impl Dataset<Sample = (Tensor, Tensor)> + 'static> {
    let x = random::uniform([rows, 3], -1.0, 1.0);
    let class = x.sum(-1).gt(0.0).cast(DType::I64);
    DataLoader::new(TensorDataset::new((x, class)).batch(4))
}

macro_rules! model {
    () => {
        Model::new(nn::Dense::new(3, 2), |x, y| ops::cross_entropy(x, y), Adam::new(0.1)).metric(Accuracy::new())
    };
}

/// Returns elements that are opened and not closed, or closed and not opened. Void elements, and elements with an
/// optional end tag, do not count.
fn unbalanced(page: &str) -> Vec<String> {
    const OPEN: [&str; 4] = ["meta", "th", "td", "!doctype"];
    let mut open: Vec<String> = Vec::new();
    let body =
        page.split("<style>").next().unwrap_or_default().to_owned() + page.split("</style>").nth(1).unwrap_or_default();
    for tag in body.split('<').skip(1) {
        let name: String = tag.chars().take_while(|it| !it.is_whitespace() && *it != '>').collect();
        match name.strip_prefix('/') {
            Some(name) if open.last().is_some_and(|it| it == name) => drop(open.pop()),
            Some(name) => return vec![format!("</{name}>"), open.join(" ")],
            None if OPEN.contains(&&*name) || tag.split('>').next().unwrap_or_default().ends_with('/') => {}
            None => open.push(name),
        }
    }
    open
}

#[test]
fn a_run_is_shown_while_it_goes_on() {
    let folder = Folder::new("page");
    let path = folder.0.join("run.html");
    let mut seen = Vec::new();
    let mut look = LambdaCallback::new().on_step_end(|run| {
        seen.push((run.step(), text(&path)));
        Ok(())
    });
    let mut page = TrainingPage::new(&path).title("first").period(Duration::ZERO);
    let mut model = model!();
    model.fit(3, &points(16), &points(8), &mut [&mut page, &mut look]).expect("writable");
    drop(look);
    assert_eq!(seen.len(), 12);
    for (step, page) in &seen {
        assert!(page.contains("http-equiv=\"refresh\"") && page.contains("<title>first: running</title>"));
        assert!(page.contains(&format!("<dd>{step} of 12</dd>")), "step {step}");
        assert!(page.contains("<b>loss</b> <span class=\"c0\">training</span>"), "step {step}");
        assert_eq!(page.contains("<tr><td>1<td>"), *step > 4, "the table has the epochs that ended");
        assert_eq!(unbalanced(page), [""; 0]);
    }
    let last = text(&path);
    assert!(!last.contains("refresh") && last.contains("<title>first: finished</title>"));
    let charts: Vec<&str> = last.split("<figcaption><b>").skip(1).filter_map(|it| it.split('<').next()).collect();
    assert_eq!(charts, ["loss", "accuracy", "learning rate", "steps per second"]);
    let loss = last.split("</figure>").next().unwrap_or_default();
    assert_eq!((loss.matches("<circle class=\"c0\"").count(), loss.matches("<circle class=\"c1\"").count()), (12, 3));
    assert_eq!(std::fs::read_dir(&folder.0).expect("a folder").count(), 1, "nothing else is left in the folder");

    // Losses do not depend on when they are read.
    let losses = |sink_size: usize, period: Duration| {
        random::set_seed(3);
        let mut page = TrainingPage::new(&path).period(period);
        let mut model = model!().sink_size(sink_size);
        model.train(2, &points(20), &mut [&mut page]).expect("writable");
        let page = text(&path);
        let row = page.split("<tr><th>loss/training").nth(1).and_then(|it| it.split("</tr>").next());
        (row.unwrap_or_default().to_owned(), page.matches("<circle class=\"c0\"").count())
    };
    let want = losses(1, Duration::ZERO);
    for (sink_size, period) in [(1, Duration::MAX), (3, Duration::ZERO), (3, Duration::MAX)] {
        assert_eq!(losses(sink_size, period).0, want.0, "{sink_size} steps per call");
    }
}

#[test]
fn a_page_says_how_a_run_ended() {
    let folder = Folder::new("page ends");
    let path = folder.0.join("run.html");
    let page = || TrainingPage::new(&path).period(Duration::ZERO);
    let state = || text(&path).split("</title>").next().and_then(|it| it.rsplit(": ").next().map(str::to_owned));
    let mut stop = LambdaCallback::new().on_step_end(|run| {
        if run.step() == 6 {
            run.stop();
        }
        Ok(())
    });
    let (mut model, data, mut shown) = (model!(), points(16), page());
    model.train(3, &data, &mut [&mut shown, &mut stop]).expect("writable");
    assert_eq!(state().as_deref(), Some("finished"));
    assert!(text(&path).contains("<dd>6 of 12</dd>"));
    // A second run continues the page.
    model.train(3, &data, &mut [&mut shown]).expect("writable");
    assert!(text(&path).contains("<dd>12 of 12</dd>"));
    let losses = text(&path).split("</figure>").next().map(|it| it.matches("<circle class=\"c0\"").count());
    assert_eq!(losses, Some(12));
    model.train(3, &data, &mut [&mut shown]).expect("there is nothing to do");

    let mut fails = LambdaCallback::new().on_step_end(|_| Err(Error::new(Code::Argument, "no more")));
    let mut shown = page();
    assert!(model!().train(1, &points(8), &mut [&mut shown, &mut fails]).is_err());
    drop(shown);
    assert_eq!(state().as_deref(), Some("ended by an error"));
    assert!(!text(&path).contains("refresh"));

    drop(TrainingPage::new(folder.0.join("none.html")));
    assert!(!folder.0.join("none.html").exists(), "a page without a run is no file");
    let error = TrainingPage::new(&folder.0).add("loss", 1, 2.0).expect_err("a folder");
    assert!(error.code() == Code::Io && error.to_string().contains("TrainingPage"), "{error}");
}

#[test]
fn a_page_of_ones_own_loop() {
    let folder = Folder::new("page own");
    let path = folder.0.join("own.html");
    let mut page = TrainingPage::new(&path).title("<script>alert(1)</script> & \"more\"");
    for step in 1..=20_000 {
        page.add("loss/training", step, 1.0 / step as f64).expect("writable");
        page.add("loss/<b>", step, 2.0 / step as f64).expect("writable");
        page.add("norm of 'a'", step, if step == 7 { f64::NAN } else { 1.0 }).expect("writable");
    }
    page.finish().expect("writable");
    let page = text(&path);
    assert_eq!(unbalanced(&page), [""; 0]);
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;more&quot;"));
    assert!(page.contains("loss/&lt;b&gt;") && page.contains("norm of &#39;a&#39;") && page.contains("1 not finite"));
    assert!(page.len() < 120_000, "{} bytes", page.len());
    assert!(!page.contains("NaN") && page.contains(">1e-3<"), "positive values of four powers of ten");
}

#[test]
fn the_table_of_a_run() {
    assert_eq!(History::new().to_string().lines().last(), Some("0 epochs, 0 steps in 0.0 ms"));
    let (mut model, mut history) = (model!(), History::new());
    model.train(1, &points(8), &mut [&mut history]).expect("in memory");
    model.fit(1, &points(12), &points(8), &mut [&mut history]).expect("in memory");
    let steps: Vec<u64> = history.epochs().iter().map(|it| it.steps).collect();
    assert!(steps == [2, 3] && history.epochs().iter().all(|it| !it.time.is_zero()));
    let table = history.to_string();
    let lines: Vec<&str> = table.lines().collect();
    let words: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(words, ["epoch", "loss", "val_accuracy", "val_loss", "steps", "time"]);
    assert!(lines[..3].iter().all(|it| it.chars().count() == lines[0].chars().count()), "{table}");
    assert!(lines[3].starts_with("2 epochs, 5 steps in ") && lines[3].contains("; the lowest val_loss is "), "{table}");
}
