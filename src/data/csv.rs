//! Reads tables of comma-separated values, as in RFC 4180.
//!
//! The crate `csv` is not used. It accepts a quoted field without an end, and text behind a closing quote.

use super::file::{read, refuse};
use ms_core::error::in_op;
use ms_core::tensor::{Array, Element, push};
use ms_core::{Code, DType, Error, Result, Tensor, ops};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr;

/// The options of [`read_csv`].
///
/// ```
/// use ms::data::{CsvOptions, read_csv};
/// use ms::prelude::*;
/// # let path = std::env::temp_dir().join(format!("ms doc csv {}", std::process::id()));
/// std::fs::write(&path, "x,y,name\n0.5,1,\"a, b\"\n-2,3,c\n").expect("the folder is writable");
/// let table = read_csv(&path, &CsvOptions::new().column("y", DType::I64).text("name"))?;
/// assert_eq!(table.names(), ["x", "y", "name"]);
/// assert_eq!(table.column("x")?.to_vec::<f32>(), [0.5, -2.0]);
/// assert_eq!(table.column("y")?.to_vec::<i64>(), [1, 3]);
/// assert_eq!(table.text("name")?, ["a, b", "c"]);
/// # std::fs::remove_file(&path).expect("it was written");
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CsvOptions {
    delimiter: char,
    header: bool,
    dtype: DType,
    types: Vec<(String, ColumnType)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ColumnType {
    Number(DType),
    Text,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl CsvOptions {
    /// Creates the default options: comma delimiters, a header line with column names, and f32 numbers.
    pub fn new() -> Self {
        Self { delimiter: ',', header: true, dtype: DType::F32, types: Vec::new() }
    }

    /// Sets the delimiter between fields.
    pub fn delimiter(self, delimiter: char) -> Self {
        Self { delimiter, ..self }
    }

    /// Sets whether the first line holds the names of the columns. If not, columns are named `0`, `1`, and so on.
    pub fn header(self, header: bool) -> Self {
        Self { header, ..self }
    }

    /// Sets the dtype of all columns without an explicit dtype.
    pub fn dtype(self, dtype: DType) -> Self {
        Self { dtype, ..self }
    }

    /// Sets the dtype of a column.
    pub fn column(mut self, name: impl Into<String>, dtype: DType) -> Self {
        self.types.push((name.into(), ColumnType::Number(dtype)));
        self
    }

    /// Sets that a column holds text.
    pub fn text(mut self, name: impl Into<String>) -> Self {
        self.types.push((name.into(), ColumnType::Text));
        self
    }
}

/// Named columns of equal length.
///
/// ```
/// use ms::prelude::*;
/// # let path = std::env::temp_dir().join(format!("ms doc table {}", std::process::id()));
/// std::fs::write(&path, "a,b\n1,2\n3,4\n").expect("the folder is writable");
/// let table = read_csv(&path, &CsvOptions::new())?;
/// assert_eq!((table.len(), table.names()), (2, &["a".to_owned(), "b".to_owned()][..]));
/// assert_eq!(table.matrix()?.to_vec::<f32>(), [1.0, 2.0, 3.0, 4.0]);
/// # std::fs::remove_file(&path).expect("it was written");
/// # Ok::<(), ms::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    names: Vec<String>,
    /// The position of each column, by name.
    positions: HashMap<String, usize>,
    columns: Vec<Column>,
    rows: usize,
}

#[derive(Clone, Debug)]
enum Column {
    Numbers(Tensor),
    Text(Vec<String>),
}

impl Table {
    /// Returns the names of the columns, in the order of the file.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    fn get(&self, name: &str) -> Result<&Column> {
        let at = self.positions.get(name).ok_or_else(|| {
            let message = format!("there is no column `{name}` among `{}`", self.names.join("`, `"));
            Error::new(Code::Argument, message).with_op("Table")
        })?;
        Ok(&self.columns[*at])
    }

    /// Returns a numeric column: `[rows]`.
    ///
    /// # Errors
    /// [`Code::Argument`] if there is no such column, or if it holds text.
    pub fn column(&self, name: &str) -> Result<Tensor> {
        match self.get(name)? {
            Column::Numbers(numbers) => Ok(numbers.clone()),
            Column::Text(_) => {
                Err(Error::new(Code::Argument, format!("the column `{name}` is text")).with_op("Table::column"))
            }
        }
    }

    /// Returns a column of text.
    ///
    /// # Errors
    /// [`Code::Argument`] if there is no such column, or if it holds numbers.
    pub fn text(&self, name: &str) -> Result<&[String]> {
        match self.get(name)? {
            Column::Text(text) => Ok(text),
            Column::Numbers(_) => {
                let message = format!("the column `{name}` is of numbers");
                Err(Error::new(Code::Argument, message).with_op("Table::text"))
            }
        }
    }

    /// Returns some numeric columns of one dtype side by side: `[rows, columns]`.
    ///
    /// # Errors
    /// The errors of [`Table::column`]; [`Code::DType`] if the dtypes of the columns differ.
    pub fn columns<S: AsRef<str>>(&self, names: &[S]) -> Result<Tensor> {
        let columns = names.iter().map(|it| self.column(it.as_ref())).collect::<Result<Vec<_>>>()?;
        if let Some(other) = columns.iter().find(|it| it.dtype() != columns[0].dtype()) {
            let message = format!("columns of {} and {} are not one tensor", columns[0].dtype(), other.dtype());
            return Err(Error::new(Code::DType, message).with_op("Table::columns"));
        }
        ms_core::catch(|| ops::stack(&columns, 1))
    }

    /// Returns all columns side by side: `[rows, columns]`.
    ///
    /// # Errors
    /// The errors of [`Table::columns`].
    pub fn matrix(&self) -> Result<Tensor> {
        self.columns(&self.names)
    }
}

/// Reads a table with one row for each line of a file. Quoted fields may contain delimiters, line ends, and doubled
/// quotes. Empty lines are skipped.
///
/// ```
/// use ms::prelude::*;
/// # let path = std::env::temp_dir().join(format!("ms doc read_csv {}", std::process::id()));
/// std::fs::write(&path, "1;2.5\n3;4.5\n").expect("the folder is writable");
/// let table = read_csv(&path, &CsvOptions::new().delimiter(';').header(false))?;
/// assert_eq!(table.column("1")?.to_vec::<f32>(), [2.5, 4.5]);
/// # std::fs::remove_file(&path).expect("it was written");
/// # Ok::<(), ms::Error>(())
/// ```
///
/// # Errors
/// - [`Code::Io`] if the file cannot be read.
/// - [`Code::Parse`] with line and column for a field that does not have the type of its column. The same code reports
///   lines with different numbers of fields, an unterminated quoted field, and a file without a row.
/// - [`Code::Argument`] for the type of a column that does not exist.
pub fn read_csv(path: impl AsRef<Path>, options: &CsvOptions) -> Result<Table> {
    let path = path.as_ref();
    let bytes = read(path).map_err(|it| it.with_op("read_csv"))?;
    in_op(|| table(&bytes, path, options)).map_err(|it| it.with_op("read_csv"))
}

pub(crate) fn table(bytes: &[u8], path: &Path, options: &CsvOptions) -> Result<Table> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| refuse(path, format!("it is no text: {error}")))?;
    let mut records = Records { rest: text, line: 1, delimiter: options.delimiter };
    let wrong = |line: usize, what: String| refuse(path, format!("line {line}: {what}"));
    let mut next = || records.next().map_err(|(line, what)| wrong(line, what.to_owned()));
    let Some(first) = next()? else { return Err(refuse(path, "it has no line")) };
    let names: Vec<String> = match options.header {
        true => first.1.iter().map(|it| it.trim().to_owned()).collect(),
        false => (0..first.1.len()).map(|it| it.to_string()).collect(),
    };
    let mut positions = HashMap::with_capacity(names.len());
    for (at, name) in names.iter().enumerate() {
        if positions.insert(name.clone(), at).is_some() {
            return Err(wrong(first.0, format!("column {} is called `{name}` like another one", at + 1)));
        }
    }
    if let Some((missing, _)) = options.types.iter().find(|it| !positions.contains_key(&it.0)) {
        let message = format!("`{}` has no column `{missing}`, only `{}`", path.display(), names.join("`, `"));
        return Err(Error::new(Code::Argument, message));
    }
    let mut types = vec![ColumnType::Number(options.dtype); names.len()];
    options.types.iter().for_each(|(name, own)| types[positions[name]] = *own);
    let mut fields: Vec<Fields> = types.into_iter().map(Fields::new).collect();
    let mut rows = 0;
    let mut record = if options.header { next()? } else { Some(first) };
    while let Some((line, row)) = record {
        if row.len() != names.len() {
            return Err(wrong(line, format!("{} columns where the first line has {}", row.len(), names.len())));
        }
        for (at, (field, into)) in row.iter().zip(&mut fields).enumerate() {
            let kind = |dtype| wrong(line, format!("column `{}` is `{field}`, no {dtype}", names[at]));
            into.add(field).map_err(kind)?;
        }
        rows += 1;
        record = next()?;
    }
    if rows == 0 {
        return Err(refuse(path, "it has no row"));
    }
    let columns = fields.into_iter().map(|it| it.into_column(rows)).collect::<Result<_>>()?;
    Ok(Table { names, positions, columns, rows })
}

/// An iterator over the rows of a text.
struct Records<'a> {
    rest: &'a str,
    /// The line number of the unread rest.
    line: usize,
    delimiter: char,
}

/// The line number of a row's start, and its fields.
type Row<'a> = (usize, Vec<Cow<'a, str>>);

/// A syntax error: the line number and a description.
type Wrong = (usize, &'static str);

impl<'a> Records<'a> {
    /// Parses the next row.
    fn next(&mut self) -> Result<Option<Row<'a>>, Wrong> {
        while let Some(end) = self.rest.find('\n') {
            if !self.rest[..end].trim().is_empty() {
                break;
            }
            self.rest = &self.rest[end + 1..];
            self.line += 1;
        }
        if self.rest.trim().is_empty() {
            return Ok(None);
        }
        let (line, mut row) = (self.line, Vec::new());
        loop {
            row.push(self.field()?);
            match self.rest.strip_prefix(self.delimiter) {
                Some(rest) => self.rest = rest,
                None => break,
            }
        }
        let rest = self.rest.strip_prefix('\r').unwrap_or(self.rest);
        self.rest = rest.strip_prefix('\n').unwrap_or(rest);
        self.line += 1;
        Ok(Some((line, row)))
    }

    /// Parses the next field. The rest then starts with a delimiter or the end of the line.
    fn field(&mut self) -> Result<Cow<'a, str>, Wrong> {
        let Some(mut inside) = self.rest.strip_prefix('"') else {
            let end = self.rest.find(['\n', self.delimiter]).unwrap_or(self.rest.len());
            let field = &self.rest[..end];
            let field = if self.rest[end..].starts_with(self.delimiter) { field } else { field.trim_end_matches('\r') };
            self.rest = &self.rest[field.len()..];
            return Ok(Cow::Borrowed(field));
        };
        let mut value = Cow::Borrowed("");
        loop {
            let end = inside.find('"').ok_or((self.line, "a quoted field has no end"))?;
            value += &inside[..end];
            inside = &inside[end + 1..];
            let Some(after) = inside.strip_prefix('"') else { break };
            value += "\"";
            inside = after;
        }
        self.rest = inside;
        let ended = inside.is_empty() || inside.starts_with(['\n', '\r']) || inside.starts_with(self.delimiter);
        if !ended {
            return Err((self.line, "a quoted field goes on after its closing quote"));
        }
        self.line += value.matches('\n').count();
        Ok(value)
    }
}

/// The values of a column during parsing.
enum Fields {
    Numbers { dtype: DType, bytes: Vec<u8> },
    Text(Vec<String>),
}

impl Fields {
    fn new(of: ColumnType) -> Self {
        match of {
            ColumnType::Number(dtype) => Self::Numbers { dtype, bytes: Vec::new() },
            ColumnType::Text => Self::Text(Vec::new()),
        }
    }

    /// Parses and appends a field, or returns the dtype that it does not have.
    fn add(&mut self, field: &str) -> Result<(), DType> {
        match self {
            Self::Text(all) => push(all, field.to_owned()),
            Self::Numbers { dtype: DType::Bool, bytes } => push(bytes, u8::from(truth(field).ok_or(DType::Bool)?)),
            Self::Numbers { dtype, bytes } => {
                ms_core::with_element!(*dtype, T => {
                    let value: T = number(field).ok_or(*dtype)?;
                    bytemuck::bytes_of(&value).iter().for_each(|it| push(bytes, *it));
                });
            }
        }
        Ok(())
    }

    fn into_column(self, rows: usize) -> Result<Column> {
        match self {
            Self::Text(all) => Ok(Column::Text(all)),
            Self::Numbers { dtype, bytes } => {
                Ok(Column::Numbers(Tensor::placed(Array::from_bytes(&[rows], dtype, &bytes))?))
            }
        }
    }
}

fn number<T: Element + FromStr>(field: &str) -> Option<T> {
    field.trim().parse().ok()
}

fn truth(field: &str) -> Option<bool> {
    match field.trim() {
        "1" | "true" | "True" | "TRUE" => Some(true),
        "0" | "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parsing takes time linear in the size of the file.
    #[test]
    fn many_columns() {
        const COUNT: usize = 100_000;
        let begin = std::time::Instant::now();
        let line = |of: &dyn Fn(usize) -> String| (0..COUNT).map(of).collect::<Vec<_>>().join(",");
        let text = format!("{}\n{}\n", line(&|it| format!("c{it}")), line(&|it| it.to_string()));
        let options = (0..COUNT).step_by(2).fold(CsvOptions::new(), |all, it| all.column(format!("c{it}"), DType::I64));
        let table = table(text.as_bytes(), Path::new("many"), &options).expect("it is a table");
        for at in (0..COUNT).step_by(2) {
            assert_eq!(table.column(&format!("c{at}")).expect("it is a column").to_vec::<i64>(), [at as i64]);
        }
        assert!(begin.elapsed().as_secs() < 30, "{:?}", begin.elapsed());
    }
}
