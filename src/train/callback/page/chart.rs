//! Draws curves as SVG line charts.

use super::curve::Curve;
use super::html::escaped;
use crate::train::callback::text::number;
use std::fmt::Write;

/// The size of a chart and the margins around its plot area, in SVG units.
const SIZE: (f64, f64) = (640.0, 250.0);
const LEFT: f64 = 62.0;
const TOP: f64 = 10.0;
const AREA: (f64, f64) = (564.0, 208.0);

/// The maximum number of points for which a curve has markers with tooltips.
const MARKS: usize = 60;

/// The tolerance for whole numbers in quotients and logarithms.
const ROUNDING: f64 = 1e-9;

/// The range of an axis.
struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Axis {
    /// Creates an axis for values. It is logarithmic if that is permitted and they are positive and span more than two
    /// decades.
    fn of(values: impl Iterator<Item = f64>, may_be_logarithmic: bool) -> Self {
        let bounds = (f64::INFINITY, f64::NEG_INFINITY);
        let (low, high) = values.fold(bounds, |(low, high), it| (low.min(it), high.max(it)));
        let logarithmic = may_be_logarithmic && low > 0.0 && high / low > 100.0;
        // A constant curve is drawn in the middle.
        let room = if high - low > 1e-9 * high.abs().max(low.abs()) { 0.0 } else { (0.5 * high.abs()).max(1e-9) };
        Self { low: low - room, high: high + room, logarithmic }
    }

    /// Maps a value to the axis: 0 at the low end, 1 at the high end.
    fn place(&self, value: f64) -> f64 {
        if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// Returns round tick values with their labels; `least` is the minimum distance between two ticks.
    fn ticks(&self, least: f64) -> Vec<(f64, String)> {
        if self.logarithmic {
            let (first, last) =
                ((self.low.log10() - ROUNDING).ceil() as i32, (self.high.log10() + ROUNDING).floor() as i32);
            // Every power of ten gets a tick, or every n-th if there are many.
            let apart = (last - first) as usize / 6 + 1;
            return (first..=last).step_by(apart).map(|it| (10f64.powi(it), format!("1e{it}"))).collect();
        }
        let raw = (self.high - self.low) / 5.0;
        let power = 10f64.powf(raw.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|it| it * power);
        let step = steps.into_iter().find(|it| *it >= raw * (1.0 - ROUNDING)).unwrap_or(raw).max(least);
        if !step.is_normal() {
            return vec![(self.low, number(self.low)), (self.high, number(self.high))];
        }
        let first = (self.low / step - ROUNDING).ceil();
        let all = (0..8).map(|it| (first + f64::from(it)) * step).take_while(|it| *it <= self.high + ROUNDING * step);
        all.map(|it| (it, tick_text(it, step))).collect()
    }
}

/// Formats a tick with enough digits to distinguish it from its neighbours.
fn tick_text(value: f64, step: f64) -> String {
    let digits = |it: f64| (it.abs().log10() + ROUNDING).floor();
    match value {
        0.0 => "0".to_owned(),
        it if it.abs() >= 1e6 || step < 1e-4 => {
            let after = (digits(it) - digits(step)).clamp(0.0, 12.0) as usize;
            format!("{it:.after$e}")
        }
        it => format!("{it:.after$}", after = (-digits(step)).max(0.0) as usize),
    }
}

/// Draws a chart of named curves.
pub(super) fn chart(name: &str, curves: &[(String, Curve)]) -> String {
    let mut out = format!("<figure>\n<figcaption><b>{}</b>", escaped(name));
    for (at, (name, curve)) in curves.iter().enumerate() {
        if !name.is_empty() {
            let _ = write!(out, " <span class=\"c{}\">{}</span>", at % 6, escaped(name));
        }
        if curve.not_finite > 0 {
            let _ = write!(out, " <em>{} not finite</em>", curve.not_finite);
        }
    }
    let _ = writeln!(out, "</figcaption>");
    let points: Vec<Vec<(f64, f64)>> = curves.iter().map(|it| it.1.points()).collect();
    if points.iter().any(|it| !it.is_empty()) {
        draw(&mut out, &points);
    }
    out + "</figure>\n"
}

fn draw(out: &mut String, curves: &[Vec<(f64, f64)>]) {
    let x = Axis::of(curves.iter().flatten().map(|it| it.0), false);
    let y = Axis::of(curves.iter().flatten().map(|it| it.1), true);
    let left = |value: f64| LEFT + AREA.0 * x.place(value);
    let top = |value: f64| TOP + AREA.1 * (1.0 - y.place(value));
    let (right, bottom) = (LEFT + AREA.0, TOP + AREA.1);

    let _ = writeln!(out, "<svg viewBox=\"0 0 {} {}\" role=\"img\">", SIZE.0, SIZE.1);
    for (value, text) in y.ticks(0.0) {
        let at = top(value);
        let _ = writeln!(out, "<path class=\"grid\" d=\"M{LEFT:.1} {at:.1}H{right:.1}\"/>");
        let _ = writeln!(out, "<text class=\"y\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>", LEFT - 8.0, at + 4.0);
    }
    for (value, text) in x.ticks(1.0) {
        let at = left(value);
        let _ = writeln!(out, "<path class=\"grid\" d=\"M{at:.1} {bottom:.1}v5\"/>");
        let _ = writeln!(out, "<text class=\"x\" x=\"{at:.1}\" y=\"{:.1}\">{text}</text>", bottom + 20.0);
    }
    let _ = writeln!(out, "<path class=\"grid\" d=\"M{LEFT:.1} {bottom:.1}H{right:.1}\"/>");
    for (at, points) in curves.iter().enumerate() {
        let line: Vec<String> = points.iter().map(|it| format!("{:.1} {:.1}", left(it.0), top(it.1))).collect();
        if line.len() > 1 {
            let _ = writeln!(out, "<path class=\"c{}\" d=\"M{}\"/>", at % 6, line.join("L"));
        }
        for (step, value) in points.iter().filter(|_| points.len() <= MARKS) {
            let (x, y) = (left(*step), top(*value));
            let _ = write!(out, "<circle class=\"c{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\">", at % 6);
            let _ = writeln!(out, "<title>step {step:.0}: {}</title></circle>", number(*value));
        }
    }
    let _ = writeln!(out, "</svg>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        let cases: &[(&[f64], f64, &str)] = &[
            (&[0.0, 1.0], 0.0, "0 0.2 0.4 0.6 0.8 1.0"),
            (&[-1.2, 0.7], 0.0, "-1.0 -0.5 0 0.5"),
            (&[1.0, 3.0], 1.0, "1 2 3"),
            (&[0.0, 12345.0], 1.0, "0 5000 10000"),
            (&[1.0, 12345.0], 1.0, "1e0 1e1 1e2 1e3 1e4"),
            (&[0.001, 0.9], 0.0, "1e-3 1e-2 1e-1"),
            (&[1e-30, 1e30], 0.0, "1e-30 1e-19 1e-8 1e3 1e14 1e25"),
            (&[1e-5, 3e-5], 0.0, "1.0e-5 1.5e-5 2.0e-5 2.5e-5 3.0e-5"),
            (&[0.01, 0.01], 0.0, "0.006 0.008 0.010 0.012 0.014"),
            (&[0.0, 0.0], 0.0, "-1.0e-9 -5e-10 0 5e-10 1.0e-9"),
            (&[0.0, f64::MIN_POSITIVE / 8.0], 0.0, "0 2.781e-309"),
            (&[2e9, 8e9], 0.0, "2e9 4e9 6e9 8e9"),
        ];
        for (values, least, want) in cases {
            let axis = Axis::of(values.iter().copied(), true);
            let texts: Vec<String> = axis.ticks(*least).into_iter().map(|it| it.1).collect();
            assert_eq!(texts.join(" "), *want, "{values:?}");
            assert!(axis.ticks(*least).iter().all(|it| (-1e-9..=1.0 + 1e-9).contains(&axis.place(it.0))), "{values:?}");
        }
    }

    #[test]
    fn every_curve_has_finite_places() {
        for values in
            [vec![], vec![1.0], vec![f64::MAX, -f64::MAX], vec![1e16, 1e16 + 2.0], vec![5e-324, 0.0], vec![1e-300; 9]]
        {
            let mut curve = Curve::new();
            values.iter().zip(1..).for_each(|(value, step)| curve.add(step, *value));
            let figure = chart("a", &[(String::new(), curve)]);
            assert!(!figure.contains("NaN") && !figure.contains("inf"), "{values:?}: {figure}");
            assert_eq!(figure.contains("<svg"), !values.is_empty());
        }
    }
}
