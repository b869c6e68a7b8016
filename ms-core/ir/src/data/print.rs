//! Prints tensors as NumPy does: nested brackets, aligned columns, long axes summarised.

use super::array::Array;
use super::dtype::{DType, Kind};
use super::element::{Element, Scalar};
use crate::with_element;
use std::fmt;

/// The number of elements above which only the ends of long axes are printed.
const THRESHOLD: usize = 1000;
/// The number of elements that are printed at each end.
const EDGE: usize = 3;
/// Characters in a line.
const WIDTH: usize = 75;
/// Digits after the point.
const PRECISION: usize = 8;

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.numel() == 0 {
            return f.write_str("[]");
        }
        let host = match self.on_host() {
            Ok(host) => host,
            Err(error) => return write!(f, "<elements that cannot be read: {}>", error.report().message),
        };
        let shown = shown(self);
        let scalars = with_element!(self.dtype(), T => {
            places(&host, &shown).into_iter().map(|at| host.at::<T>(at).to_scalar()).collect::<Vec<_>>()
        });
        if self.layout().rank() == 0 {
            return f.write_str(&alone(scalars[0], self.dtype()));
        }
        let texts = column(&scalars, self.dtype());
        let mut printer = Printer { shown: &shown, texts: texts.iter(), out: String::new() };
        printer.axis(0);
        f.write_str(&printer.out)
    }
}

/// The indices along one axis that are printed.
struct Shown {
    indices: Vec<usize>,
    /// Whether a gap follows the first [`EDGE`] indices.
    gap: bool,
}

fn shown(array: &Array) -> Vec<Shown> {
    let summarise = array.numel() > THRESHOLD;
    let axis = |&size: &usize| {
        if summarise && size > 2 * EDGE {
            Shown { indices: (0..EDGE).chain(size - EDGE..size).collect(), gap: true }
        } else {
            Shown { indices: (0..size).collect(), gap: false }
        }
    };
    array.shape().iter().map(axis).collect()
}

/// Returns the positions of the printed elements, in row-major order.
fn places(array: &Array, shown: &[Shown]) -> Vec<usize> {
    let mut places = vec![array.layout().offset() as isize];
    for (axis, stride) in shown.iter().zip(array.layout().strides()) {
        places = places.iter().flat_map(|at| axis.indices.iter().map(move |&i| at + i as isize * stride)).collect();
    }
    places.into_iter().map(|at| at as usize).collect()
}

struct Printer<'a> {
    shown: &'a [Shown],
    texts: std::slice::Iter<'a, String>,
    out: String,
}

impl Printer<'_> {
    /// Prints one axis. The recursion depth is the rank, which is small.
    fn axis(&mut self, axis: usize) {
        let Shown { indices, gap } = &self.shown[axis];
        let (last, rank) = (axis + 1 == self.shown.len(), self.shown.len());
        self.out.push('[');
        let mut column = axis + 1;
        for i in 0..indices.len() {
            let dots = *gap && i == EDGE;
            if last {
                let text = self.texts.next().expect("one text for each shown element");
                if dots {
                    self.out.push_str(" ...");
                    column += 4;
                }
                let closing = rank;
                if i > 0 && column + 1 + text.len() + closing > WIDTH {
                    self.out.push('\n');
                    self.out.push_str(&" ".repeat(axis + 1));
                    column = axis + 1;
                } else if i > 0 {
                    self.out.push(' ');
                    column += 1;
                }
                self.out.push_str(text);
                column += text.len();
                continue;
            }
            let lines = "\n".repeat(rank - axis - 1) + &" ".repeat(axis + 1);
            if dots {
                self.out.push_str(&lines);
                self.out.push_str("...");
            }
            if i > 0 {
                self.out.push_str(&lines);
            }
            self.axis(axis + 1);
        }
        self.out.push(']');
    }
}

/// Formats a zero-dimensional tensor.
fn alone(value: Scalar, dtype: DType) -> String {
    match value {
        Scalar::Float(it) if it.is_finite() && it != 0.0 && !(1e-4..1e16).contains(&it.abs()) => {
            scientific(&shortest_exponent(it, dtype), 0)
        }
        Scalar::Float(it) if it.is_finite() => {
            let text = shortest(it, dtype);
            if text.contains('.') { text } else { text + ".0" }
        }
        Scalar::Float(it) => special(it),
        other => other.to_string(),
    }
}

/// Formats elements to one width.
fn column(values: &[Scalar], dtype: DType) -> Vec<String> {
    match dtype.kind() {
        Kind::Float => float_column(values, dtype),
        _ => {
            let texts: Vec<String> = values.iter().map(Scalar::to_string).collect();
            align(texts)
        }
    }
}

fn align(texts: Vec<String>) -> Vec<String> {
    let width = texts.iter().map(String::len).max().unwrap_or(0);
    texts.into_iter().map(|text| format!("{text:>width$}")).collect()
}

/// Chooses between positional and scientific form, and aligns at the point, like NumPy.
fn float_column(values: &[Scalar], dtype: DType) -> Vec<String> {
    let values: Vec<f64> = values.iter().map(|it| it.as_f64()).collect();
    let finite = || values.iter().copied().filter(|it| it.is_finite());
    let largest = finite().map(f64::abs).fold(0.0, f64::max);
    let smallest = finite().map(f64::abs).filter(|&it| it != 0.0).fold(f64::INFINITY, f64::min);
    let texts: Vec<String> = if largest >= 1e8 || (largest > 0.0 && (smallest < 1e-4 || largest / smallest > 1000.0)) {
        let parts: Vec<Option<String>> =
            values.iter().map(|&it| it.is_finite().then(|| rounded_exponent(it, dtype))).collect();
        let digits = parts.iter().flatten().map(|it| fraction_digits(it)).max().unwrap_or(0);
        parts
            .iter()
            .zip(&values)
            .map(|(part, &it)| part.as_ref().map_or_else(|| special(it), |it| scientific(it, digits)))
            .collect()
    } else {
        let parts: Vec<Option<String>> = values.iter().map(|&it| it.is_finite().then(|| rounded(it, dtype))).collect();
        let digits = parts.iter().flatten().map(|it| fraction_digits(it)).max().unwrap_or(0);
        let pad = |text: &String| format!("{text}{}", " ".repeat(digits - fraction_digits(text)));
        parts.iter().zip(&values).map(|(part, &it)| part.as_ref().map_or_else(|| special(it), pad)).collect()
    };
    align(texts)
}

fn special(value: f64) -> String {
    if value.is_nan() { "nan".into() } else { value.to_string() }
}

/// Returns the digits between the point and the end or the exponent.
fn fraction_digits(text: &str) -> usize {
    let mantissa = text.split('e').next().unwrap_or(text);
    mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len())
}

/// Formats the fewest digits that identify the value in its dtype, without an exponent.
fn shortest(value: f64, dtype: DType) -> String {
    match dtype {
        DType::F64 => value.to_string(),
        DType::F32 => (value as f32).to_string(),
        _ => narrow_shortest(value, dtype),
    }
}

fn shortest_exponent(value: f64, dtype: DType) -> String {
    match dtype {
        DType::F64 => format!("{value:e}"),
        DType::F32 => format!("{:e}", value as f32),
        _ => format!("{:e}", narrow_shortest(value, dtype).parse::<f64>().unwrap_or(value)),
    }
}

/// Formats the fewest digits that round to the value in a 16-bit dtype.
fn narrow_shortest(value: f64, dtype: DType) -> String {
    let same = |text: &String| {
        let parsed = text.parse::<f64>().unwrap_or(f64::NAN);
        Scalar::Float(parsed).to_bits(dtype) == Scalar::Float(value).to_bits(dtype)
    };
    (0..9)
        .map(|digits| format!("{value:.digits$e}"))
        .find(same)
        .and_then(|text| text.parse::<f64>().ok())
        .unwrap_or(value)
        .to_string()
}

/// Formats at most [`PRECISION`] digits after the point, which is always printed.
fn rounded(value: f64, dtype: DType) -> String {
    let mut text = shortest(value, dtype);
    if fraction_digits(&text) > PRECISION {
        text = format!("{value:.PRECISION$}");
        text.truncate(text.trim_end_matches('0').len());
    }
    if !text.contains('.') {
        text.push('.');
    }
    text
}

/// Formats mantissa and exponent with at most [`PRECISION`] digits after the point.
fn rounded_exponent(value: f64, dtype: DType) -> String {
    let text = shortest_exponent(value, dtype);
    if fraction_digits(&text) <= PRECISION {
        return text;
    }
    let text = format!("{value:.PRECISION$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    format!("{}e{exponent}", mantissa.trim_end_matches('0').trim_end_matches('.'))
}

/// Formats Rust's `1.5e-7` as `1.50e-07`, with at least `digits` after the point.
fn scientific(text: &str, digits: usize) -> String {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let zeros = "0".repeat(digits.saturating_sub(fraction_digits(mantissa)));
    let point = if mantissa.contains('.') { "" } else { "." };
    let (sign, power) = match exponent.strip_prefix('-') {
        Some(power) => ('-', power),
        None => ('+', exponent),
    };
    format!("{mantissa}{point}{zeros}e{sign}{power:0>2}")
}
