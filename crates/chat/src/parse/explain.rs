//! Explanation of a parse: every format's view of a reply.

use serde::Serialize;

use super::{Format, ParseFailure, Toolbox, parse};

/// One format's reading of a reply.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attempt {
    pub format: Format,
    /// The format `auto` takes.
    pub detected: bool,
    /// Calls it would run.
    pub calls: usize,
    /// In words: calls found, no markers, or the fault.
    pub outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ParseFailure>,
}

/// Reads `text` in every format and says what each found or why it failed.
pub fn explain(text: &str, tools: &Toolbox) -> Vec<Attempt> {
    let detected = Format::detect(text, tools);
    let attempt = |format| {
        let parsed = parse(text, tools, Some(format));
        let outcome = match (&parsed.error, parsed.calls.len()) {
            (Some(error), _) => format!("{error} (at byte {})", error.at),
            (None, 0) => "no call in this format: a plain reply".to_owned(),
            (None, 1) => "1 valid call".to_owned(),
            (None, count) => format!("{count} valid calls"),
        };
        Attempt { format, detected: detected == Some(format), calls: parsed.calls.len(), outcome, error: parsed.error }
    };
    Format::ALL.into_iter().map(attempt).collect()
}
