//! Tables of numbers.

use ms_core::{Code, Error, Result, Tensor};
use std::path::Path;

/// The numbers of a comma-separated file without a header, as f32 `[lines, columns]`.
///
/// # Errors
/// [`Code::Io`] when the file cannot be read, [`Code::Parse`] with line and column for a field that
/// is not a number and for lines of different lengths, and for a file without a line of numbers.
pub fn read_csv(path: impl AsRef<Path>) -> Result<Tensor> {
    let path = path.as_ref();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::new(Code::Io, format!("cannot read `{}`: {error}", path.display())))?;
    let refuse = |line: usize, what: String| {
        Error::new(Code::Parse, format!("line {line} of `{}`: {what}", path.display())).with_op("read_csv")
    };
    let mut values = Vec::new();
    let (mut rows, mut columns) = (0, 0);
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let before = values.len();
        for (column, field) in line.split(',').enumerate() {
            let value = field.trim().parse::<f32>();
            values.push(value.map_err(|_| refuse(at + 1, format!("column {} is `{field}`, no number", column + 1)))?);
        }
        let found = values.len() - before;
        if rows == 0 {
            columns = found;
        } else if found != columns {
            return Err(refuse(at + 1, format!("{found} columns where the first line has {columns}")));
        }
        rows += 1;
    }
    if rows == 0 {
        return Err(Error::new(Code::Parse, format!("`{}` has no line of numbers", path.display())).with_op("read_csv"));
    }
    Tensor::try_from_slice([rows, columns], &values)
}
