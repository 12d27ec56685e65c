//! Standard output, for programs and for people: all foreign text goes through one of these writers.
//!
//! Text from an environment, a model or a file may contain escape sequences (OSC 52 writes the clipboard), C1 controls
//! and direction controls. In text they are shown as visible escapes, in JSON as JSON's own.

use std::io::{self, Write};
use std::time::Duration;

use hone_trace::{clean, clean_json};

/// Text for people. Ours and foreign alike: it has no colours.
pub(crate) fn text() -> Filtered<io::Stdout> {
    Filtered::new(io::stdout(), clean)
}

/// One JSON value on a line.
pub(crate) fn json() -> Filtered<io::Stdout> {
    Filtered::new(io::stdout(), clean_json)
}

/// Many JSON lines. Flush it: errors on drop are silent.
pub(crate) fn json_lines() -> Filtered<io::BufWriter<io::Stdout>> {
    Filtered::new(io::BufWriter::new(io::stdout()), clean_json)
}

/// A note to the user, on standard error.
pub(crate) fn noted(words: &str) {
    anstream::eprintln!("{}", clean(words));
}

/// A line of text for people.
pub(crate) fn said(words: &str) {
    anstream::println!("{}", clean(words));
}

/// [`noted`] of a format.
macro_rules! note {
    ($($words:tt)*) => { $crate::output::noted(&format!($($words)*)) };
}

/// [`said`] of a format.
macro_rules! say {
    ($($words:tt)*) => { $crate::output::said(&format!($($words)*)) };
}

pub(crate) use {note, say};

/// Waits for work that a program of the user's may hold up, and says so after a few seconds.
pub(crate) async fn patiently<T>(waiting: impl FnOnce() -> String, work: impl Future<Output = T>) -> T {
    const SILENCE: Duration = Duration::from_secs(5);
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(SILENCE) => noted(&waiting()),
    }
    work.await
}

/// A time as people say it: `1 h 24 min`.
pub(crate) fn duration(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match seconds {
        ..0.05 => "under 0.1 s".to_owned(),
        ..9.95 => format!("{seconds:.1} s"),
        ..119.5 => format!("{seconds:.0} s"),
        _ if minutes < 60 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

/// An estimate of a time: `about 5 min`, `under 0.1 s`.
pub(crate) fn about(seconds: f64) -> String {
    let shown = duration(seconds);
    if shown.starts_with("under") { shown } else { format!("about {shown}") }
}

/// A writer that passes whole lines through a cleaner.
#[derive(Debug)]
pub(crate) struct Filtered<W: Write> {
    inner: W,
    pending: Vec<u8>,
    cleaner: fn(&str) -> String,
}

impl<W: Write> Filtered<W> {
    fn new(inner: W, cleaner: fn(&str) -> String) -> Self {
        Self { inner, pending: Vec::new(), cleaner }
    }

    fn pass(&mut self, count: usize) -> io::Result<()> {
        let bytes: Vec<u8> = self.pending.drain(..count).collect();
        self.inner.write_all((self.cleaner)(&String::from_utf8_lossy(&bytes)).as_bytes())
    }
}

impl<W: Write> Write for Filtered<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        // Up to the last newline, so that no character is cut in two.
        if let Some(last) = self.pending.iter().rposition(|byte| *byte == b'\n') {
            self.pass(last + 1)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass(self.pending.len())?;
        self.inner.flush()
    }
}

impl<W: Write> Drop for Filtered<W> {
    fn drop(&mut self) {
        // Errors cannot be reported here; commands flush where it matters.
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_time_is_not_about_under_one() {
        assert_eq!([about(0.01), about(0.3), about(600.0)], ["under 0.1 s", "about 0.3 s", "about 10 min"]);
    }

    #[test]
    fn lines_are_cleaned_whole_however_they_are_written() {
        let mut sink = Vec::new();
        let mut out = Filtered::new(&mut sink, clean);
        for byte in "a\u{9b}2J\nü\u{202e}".bytes() {
            out.write_all(&[byte]).unwrap();
        }
        drop(out);
        assert_eq!(String::from_utf8(sink).unwrap(), "a\\u{9b}2J\nü\\u{202e}");
    }
}
