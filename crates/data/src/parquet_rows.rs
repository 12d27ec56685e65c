//! Rows of a parquet file as JSON records. Row by row, so that a file of any length is read in the memory of a row group.

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::{Map, Value};

use crate::DataError;
use crate::source::Source;

/// Calls `each` with every row and its number from 1.
pub(crate) fn read(
    source: &Source,
    each: &mut dyn FnMut(u64, Result<Map<String, Value>, String>) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let bad = |what: String| DataError::Form { path: source.name.clone(), what };
    let file = std::fs::File::open(source.path())
        .map_err(|error| DataError::Read { path: source.name.clone(), source: error })?;
    let reader = SerializedFileReader::new(file);
    let reader = reader.map_err(|error| bad(format!("it is not a readable parquet file: {error}")))?;
    for (at, row) in reader.get_row_iter(None).map_err(|error| bad(error.to_string()))?.enumerate() {
        each(at as u64 + 1, row.map(|row| record(&row)).map_err(|error| error.to_string()))?;
    }
    Ok(())
}

fn record(row: &Row) -> Map<String, Value> {
    row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
}

fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => (*value).into(),
        Field::Byte(value) => (*value).into(),
        Field::Short(value) => (*value).into(),
        Field::Int(value) => (*value).into(),
        Field::Long(value) => (*value).into(),
        Field::UByte(value) => (*value).into(),
        Field::UShort(value) => (*value).into(),
        Field::UInt(value) => (*value).into(),
        Field::ULong(value) => (*value).into(),
        Field::Float(value) => f64::from(*value).into(),
        Field::Double(value) => (*value).into(),
        Field::Str(text) => text.as_str().into(),
        // Some writers do not mark text columns as text.
        Field::Bytes(bytes) => String::from_utf8_lossy(bytes.data()).into_owned().into(),
        Field::Group(row) => record(row).into(),
        Field::ListInternal(list) => list.elements().iter().map(value).collect(),
        Field::MapInternal(map) => {
            let name = |key: &Field| value(key).as_str().map_or_else(|| key.to_string(), str::to_owned);
            Value::Object(map.entries().iter().map(|(key, own)| (name(key), value(own))).collect())
        }
        // Dates, times and decimals, as they are written.
        other => other.to_string().into(),
    }
}
