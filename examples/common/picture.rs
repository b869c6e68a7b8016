//! Draws SVG pictures in the folder `target/pictures`, beside the build.

use ms::prelude::*;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::path::PathBuf;

/// The points of a curve.
pub type Points = Vec<(f64, f64)>;

/// Returns the path of an example's picture, with a suffix. The folder is created if it is missing.
pub fn path(name: &str, suffix: &str) -> PathBuf {
    let program = std::env::current_exe().expect("this program has a file");
    // The path of the executable is `target/release/examples/program`.
    let folder = program.ancestors().nth(3).expect("examples are built in a folder of the target").join("pictures");
    std::fs::create_dir_all(&folder).expect("the folder of the build is writable");
    folder.join(format!("{name}.{suffix}"))
}

/// Draws a picture and prints its path.
fn draw(name: &str, size: (u32, u32), draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, Shift>)) {
    let path = path(name, "svg");
    let area = SVGBackend::new(&path, size).into_drawing_area();
    area.fill(&WHITE).expect(VALID);
    draw(&area);
    area.present().expect("the folder of the build is writable");
    println!("a picture is in {}", path.display());
}

/// The reason why drawing cannot fail: only writing the file can.
const VALID: &str = "shapes are kept in memory";

/// Draws named curves over one axis. A curve without a name belongs to the previous one.
pub fn curves(name: &str, title: &str, axis: &str, curves: &[(&str, Points)]) {
    let bounds = |number: fn(&(f64, f64)) -> f64| {
        let all = || curves.iter().flat_map(|it| &it.1).map(number);
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        let room = 0.03 * (high - low);
        low - room..high + room
    };
    let (x, y) = (bounds(|it| it.0), bounds(|it| it.1));
    let points = || curves.iter().flat_map(|it| &it.1);
    let relative = points().map(|it| ((it.0 - x.start) / (x.end - x.start), (it.1 - y.start) / (y.end - y.start)));
    let place = free_place(&relative.collect::<Points>());
    draw(name, (640, 360), |area| {
        let mut chart = ChartBuilder::on(area);
        chart.caption(title, ("sans-serif", 18)).margin(14).x_label_area_size(36).y_label_area_size(52);
        let mut chart = chart.build_cartesian_2d(x, y).expect(VALID);
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT).x_desc(axis).x_label_formatter(&short).y_label_formatter(&short);
        mesh.draw().expect(VALID);
        for (at, (name, points)) in curves.iter().enumerate() {
            // A curve without a name has the colour of the previous one.
            let color = COLORS[curves[..=at].iter().filter(|it| !it.0.is_empty()).count() % COLORS.len()];
            // The first curve is wider, so that it remains visible below the next one.
            let width = if at == 0 { 4 } else { 2 };
            let line = LineSeries::new(points.iter().copied(), color.stroke_width(width));
            let drawn = chart.draw_series(line).expect(VALID);
            if name.is_empty() {
                continue;
            }
            drawn.label(*name).legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(width)));
        }
        let mut labels = chart.configure_series_labels();
        labels.position(place).background_style(WHITE).border_style(BLACK.mix(0.3)).draw().expect(VALID);
    });
}

/// Finds the position for the legend that covers the fewest points; coordinates are from 0 to 1.
fn free_place(points: &[(f64, f64)]) -> SeriesLabelPosition {
    use SeriesLabelPosition::*;
    let places = [
        (UpperRight, 0.7, 0.7),
        (LowerRight, 0.7, 0.0),
        (UpperLeft, 0.0, 0.7),
        (LowerLeft, 0.0, 0.0),
        (MiddleRight, 0.7, 0.35),
        (MiddleMiddle, 0.35, 0.35),
    ];
    let covered = |left: f64, bottom: f64| {
        let covers = |it: &&(f64, f64)| (left..left + 0.3).contains(&it.0) && (bottom..bottom + 0.3).contains(&it.1);
        points.iter().filter(covers).count()
    };
    places.into_iter().min_by_key(|it| covered(it.1, it.2)).expect("there are places").0
}

const COLORS: [RGBColor; 4] =
    [RGBColor(170, 80, 150), RGBColor(224, 160, 88), RGBColor(48, 110, 180), RGBColor(70, 150, 90)];

/// Formats a number of an axis without trailing zeros.
fn short(value: &f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Draws named rows of grey images `[count, height, width]` with values from 0 to 1.
pub fn images(name: &str, rows: &[(&str, Tensor)]) {
    const PIXEL: i32 = 6;
    const LEFT: i32 = 100;
    let [count, height, width] = *rows[0].1.shape() else { panic!("images have three axes") };
    let (tall, wide) = ((height as i32 + 1) * PIXEL, (width as i32 + 1) * PIXEL);
    let size = (LEFT + wide * count as i32, tall * rows.len() as i32);
    draw(name, (size.0 as u32, size.1 as u32), |area| {
        for (row, (label, images)) in rows.iter().enumerate() {
            let top = tall * row as i32;
            let text = Text::new(label.to_string(), (8, top + tall / 2 - 8), ("sans-serif", 15));
            area.draw(&text).expect(VALID);
            for (at, value) in images.to_vec::<f32>().into_iter().enumerate() {
                let (x, y, image) = (at % width, at / width % height, at / width / height);
                let corner = (LEFT + wide * image as i32 + PIXEL * x as i32, top + PIXEL * y as i32);
                let grey = 255 - (255.0 * value.clamp(0.0, 1.0)) as u8;
                let color = RGBColor(grey, grey, grey).filled();
                let pixel = Rectangle::new([corner, (corner.0 + PIXEL, corner.1 + PIXEL)], color);
                area.draw(&pixel).expect(VALID);
            }
        }
    });
}
