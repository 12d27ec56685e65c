//! Resource meter of a render: memory, depth and time, which the engine's step count does not cover. A step that joins
//! two strings counts as one however long they are.
//!
//! The meter belongs to the thread, because a render stays on its thread and the engine formats some values where no
//! state can be reached.

use std::cell::Cell;
use std::time::{Duration, Instant};

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use super::python::MAX_DEPTH;

/// Longest string a template may build, in bytes: four million tokens.
pub(super) const MAX_STRING: usize = 16 << 20;

/// Maximum number of values in a value, nested ones included, each counted as often as it is reached: comparing,
/// sorting and writing take that long.
pub(super) const MAX_VALUES: usize = 1 << 20;

/// Bytes that one render may build, including those already dropped. A prompt of the longest kind, copied a few times
/// on its way, stays below.
const MAX_BUILT: u64 = 512 << 20;

/// Time of one render. Prompts take milliseconds.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Bytes that a value takes in a container.
const VALUE_BYTES: usize = 32;

/// A string in a container counts as one more value per this many bytes.
const STRING_UNIT: usize = 64;

#[derive(Clone, Copy)]
struct Meter {
    built: u64,
    since: Instant,
}

thread_local! {
    static METER: Cell<Option<Meter>> = const { Cell::new(None) };
}

/// Limit that stopped a render.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    #[error("builds more than {} MiB of text and values", MAX_BUILT >> 20)]
    Built,
    #[error("builds a string of over {} MiB", MAX_STRING >> 20)]
    Text,
    #[error("builds a value of over {MAX_VALUES} values")]
    Values,
    #[error("nests values deeper than {MAX_DEPTH} levels")]
    Depth,
    #[error("stores a namespace in a namespace")]
    Cycle,
    #[error("takes longer than {} seconds", MAX_TIME.as_secs())]
    Time,
}

impl From<Excess> for Error {
    fn from(excess: Excess) -> Self {
        Self::new(ErrorKind::InvalidOperation, format!("the template {excess}")).with_source(excess)
    }
}

/// Runs a render under a fresh meter.
pub(super) fn metered<T>(work: impl FnOnce() -> T) -> T {
    let before = METER.replace(Some(Meter { built: 0, since: Instant::now() }));
    let result = work();
    METER.set(before);
    result
}

/// Counts bytes that were or will be built.
pub(super) fn charge(bytes: usize) -> Result<(), Excess> {
    let Some(mut meter) = METER.get() else { return Ok(()) };
    meter.built = meter.built.saturating_add(bytes as u64);
    METER.set(Some(meter));
    if meter.built > MAX_BUILT {
        return Err(Excess::Built);
    }
    if meter.since.elapsed() > MAX_TIME { Err(Excess::Time) } else { Ok(()) }
}

pub(super) fn check_string(len: usize) -> Result<(), Excess> {
    if len > MAX_STRING { Err(Excess::Text) } else { Ok(()) }
}

/// Counts the result of a step.
pub(super) fn built(value: &Value) -> Result<(), Error> {
    if let Some(text) = value.as_str() {
        check_string(text.len())?;
        return Ok(charge(text.len())?);
    }
    if is_plain(value.kind()) {
        return Ok(charge(0)?);
    }
    weigh(value, false)
}

/// Counts a part of a value: a copy if it is text, else a view.
pub(super) fn cut(value: &Value) -> Result<(), Error> {
    Ok(charge(value.as_str().map_or(0, str::len))?)
}

/// Counts a value that a namespace is to hold. A namespace outlives loop iterations and is mutable: one that contained
/// itself would be infinite.
pub(super) fn stored(value: &Value) -> Result<(), Error> {
    if is_plain(value.kind()) || value.kind() == ValueKind::String { Ok(()) } else { weigh(value, true) }
}

fn is_plain(kind: ValueKind) -> bool {
    !matches!(kind, ValueKind::String | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable)
}

fn weigh(value: &Value, stored: bool) -> Result<(), Error> {
    let mut left = MAX_VALUES;
    visit(value, stored, 0, &mut left)?;
    // Its contents are shared with their source.
    let held = value.len().unwrap_or(MAX_VALUES - left);
    Ok(charge(if stored { 0 } else { held.saturating_mul(VALUE_BYTES) })?)
}

fn visit(value: &Value, stored: bool, depth: usize, left: &mut usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Excess::Depth.into());
    }
    let units = 1 + value.as_str().map_or(0, |text| text.len() / STRING_UNIT);
    *left = left.checked_sub(units).ok_or(Excess::Values)?;
    if stored && is_namespace(value) {
        return Err(Excess::Cycle.into());
    }
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            for item in value.try_iter()? {
                visit(&item, stored, depth + 1, left)?;
            }
        }
        ValueKind::Map => {
            for key in value.try_iter()? {
                visit(&key, stored, depth + 1, left)?;
                visit(&value.get_item(&key)?, stored, depth + 1, left)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn is_namespace(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace"))
}
