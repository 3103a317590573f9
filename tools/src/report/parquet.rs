//! Results as a Parquet file: a table of [`Rows`], of the same columns whichever command writes it.

use std::path::Path;
use std::sync::Arc;

use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::parser::parse_message_type;
use fixtures::whole::WholeFile;

use super::json::complete;
use super::rows::Rows;
use crate::failure::Failure;

/// The version of the columns.
pub const SCHEMA: u32 = 1;

/// A column: where its values come from.
#[derive(Debug, Clone, Copy)]
pub enum Column {
    /// A text of all rows of a site, or null.
    Text(fn(&Rows) -> Option<&str>),
    /// A whole number of all rows of a site, or null.
    Whole(fn(&Rows) -> Option<usize>),
    /// The path of each statistic.
    Statistic,
    /// Its value.
    Value,
}

/// The columns by their names.
pub const COLUMNS: [(&str, Column); 13] = [
    ("model", Column::Text(|rows| rows.model.as_deref())),
    ("candidate", Column::Text(|rows| Some(&rows.candidate))),
    ("baseline", Column::Text(|rows| rows.baseline.as_deref())),
    ("precision", Column::Text(|rows| rows.precision.as_deref())),
    ("request", Column::Whole(|rows| rows.request)),
    ("step", Column::Whole(|rows| rows.step)),
    ("layer", Column::Whole(|rows| rows.layer)),
    ("site", Column::Text(|rows| Some(&rows.site))),
    ("operator", Column::Text(|rows| rows.operator.as_deref())),
    ("lens", Column::Text(|rows| rows.lens.as_deref())),
    ("verdict", Column::Text(|rows| rows.verdict.as_deref())),
    ("statistic", Column::Statistic),
    ("value", Column::Value),
];

/// Sites whose rows are written together.
const GROUP: usize = 1 << 13;

/// A Parquet file that waits for results, if one is asked for. Dropped without them, it leaves what was there.
#[derive(Debug)]
pub struct ParquetFile(Option<WholeFile>);

impl ParquetFile {
    /// Begins it. Refused if it cannot be written.
    pub fn begin(path: Option<&Path>) -> std::result::Result<Self, Failure> {
        Ok(ParquetFile(path.map(WholeFile::create).transpose()?))
    }

    /// Writes the results, which are asked for only if they are, whole or not at all.
    pub fn write(self, rows: impl FnOnce() -> Vec<Rows>) -> std::result::Result<(), Failure> {
        let Some(file) = self.0 else { return Ok(()) };
        let bytes = bytes(&rows()).map_err(|error| Failure::new(format!("{}: {error}", file.path().display())))?;
        complete(file, &bytes)
    }

    /// The file.
    pub(super) fn file(&self) -> Option<&WholeFile> {
        self.0.as_ref()
    }
}

/// Rows as the bytes of a Parquet file.
pub fn bytes(rows: &[Rows]) -> Result<Vec<u8>> {
    let columns = COLUMNS.map(|(name, column)| match column {
        Column::Text(_) | Column::Statistic => format!("OPTIONAL BYTE_ARRAY {name} (STRING);"),
        Column::Whole(_) => format!("OPTIONAL INT64 {name};"),
        Column::Value => format!("OPTIONAL DOUBLE {name};"),
    });
    let schema = parse_message_type(&format!("message parity {{ {} }}", columns.join(" ")))?;
    let told = KeyValue::new("parity.schema".to_owned(), SCHEMA.to_string());
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![told])).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    for some in rows.chunks(GROUP) {
        let mut group = writer.next_row_group()?;
        COLUMNS.iter().try_for_each(|(_, column)| column.write(some, &mut group))?;
        group.close()?;
    }
    writer.into_inner()
}

impl Column {
    fn write(self, rows: &[Rows], group: &mut SerializedRowGroupWriter<'_, Vec<u8>>) -> Result<()> {
        let none = || ParquetError::General("the schema has fewer columns".to_owned());
        let mut column = group.next_column()?.ok_or_else(none)?;
        match self {
            Column::Text(of) => {
                let (values, levels) = repeated(rows, |rows| of(rows).map(ByteArray::from));
                column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
            }
            Column::Whole(of) => {
                let (values, levels) = repeated(rows, |rows| of(rows).and_then(|whole| i64::try_from(whole).ok()));
                column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
            }
            Column::Statistic => {
                let values: Vec<ByteArray> = statistics(rows).map(|(name, _)| name.as_str().into()).collect();
                column.typed::<ByteArrayType>().write_batch(&values, Some(&vec![1; values.len()]), None)?;
            }
            Column::Value => {
                let values: Vec<f64> = statistics(rows).map(|(_, value)| *value).collect();
                column.typed::<DoubleType>().write_batch(&values, Some(&vec![1; values.len()]), None)?;
            }
        }
        column.close()
    }
}

fn statistics(rows: &[Rows]) -> impl Iterator<Item = &(String, f64)> {
    rows.iter().flat_map(|rows| &rows.statistics)
}

/// A value for each row of a site, and for each row whether it has one.
fn repeated<V: Clone>(rows: &[Rows], of: impl Fn(&Rows) -> Option<V>) -> (Vec<V>, Vec<i16>) {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    for rows in rows {
        let (value, count) = (of(rows), rows.statistics.len());
        levels.resize(levels.len() + count, i16::from(value.is_some()));
        if let Some(value) = value {
            values.resize(values.len() + count, value);
        }
    }
    (values, levels)
}
