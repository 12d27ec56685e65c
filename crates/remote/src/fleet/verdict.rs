//! Verdict of a verifier: pass, fail, or unknown, with the results of its checks.

use serde_json::Value;

use crate::openenv::wire::plain;

/// Finding of a verifier.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Judged {
    /// A score, and the reasons that it printed.
    Score { value: f64, why: String },
    /// No verdict was reached. Never 0.
    Unknown(String),
}

/// The checks that a verifier prints: failed ones and passed ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Accumulators {
    pub errors: Vec<String>,
    pub successes: Vec<String>,
    /// Apps of a task over several, with whether each passed.
    pub apps: Vec<(String, bool)>,
}

impl Judged {
    /// Reads the answer to an execution.
    pub(super) fn read(answer: &Value, partial: bool) -> Self {
        let stdout = answer.get("stdout").and_then(Value::as_str).unwrap_or_default();
        if let Some(line) = stdout.lines().find(|line| line.starts_with("JUDGE ERROR:")) {
            return Self::Unknown(line.chars().take(300).collect());
        }
        if answer.get("success").and_then(Value::as_bool) != Some(true) {
            let error = answer.get("error").filter(|error| !error.is_null());
            let message = error.map(|error| error.get("message").map_or_else(|| plain(error), plain));
            let message = message.unwrap_or_else(|| "it gave no reason".into());
            return Self::Unknown(format!("the verifier did not run: {}", crate::http::excerpt(message.as_bytes())));
        }
        let checks = Accumulators::read(stdout);
        let result = answer.get("result").unwrap_or(&Value::Null);
        let value = match result {
            // A verifier that returns nothing has raised nothing: it passed.
            Value::Null => Some(1.0),
            Value::Object(fields) => fields.get("score").and_then(number),
            other => number(other),
        };
        match value {
            None => Self::Unknown(format!(
                "the verifier returned no score: {}",
                crate::http::excerpt(plain(result).as_bytes())
            )),
            Some(value) => {
                let share = (partial && value == 0.0).then(|| checks.share()).flatten();
                Self::Score { value: share.unwrap_or(value), why: checks.why(share.is_some()) }
            }
        }
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(passed) => Some(f64::from(*passed)),
        other => other.as_f64().filter(|number| number.is_finite()),
    }
}

impl Accumulators {
    /// Reads what a verifier printed.
    pub(super) fn read(stdout: &str) -> Self {
        let list = |name: &str| {
            let (open, close) = (format!(">>> {name}_ACCUMULATOR >>>"), format!("<<< {name}_ACCUMULATOR <<<"));
            let mut entries = Vec::new();
            let mut rest = stdout;
            while let Some((_, after)) = rest.split_once(&open) {
                let Some((block, after)) = after.split_once(&close) else { break };
                entries.extend(strings(block));
                rest = after;
            }
            entries
        };
        let app = |line: &str| {
            let (name, verdict) = line.strip_prefix("App ")?.rsplit_once(':')?;
            match verdict.trim() {
                "0" => Some((name.trim().to_owned(), false)),
                "1" => Some((name.trim().to_owned(), true)),
                _ => None,
            }
        };
        Self { errors: list("ERROR"), successes: list("SUCCESS"), apps: stdout.lines().filter_map(app).collect() }
    }

    /// The share that passed: of the apps, else of the checks. `None` if nothing was checked.
    pub(super) fn share(&self) -> Option<f64> {
        let (passed, all) = if self.apps.is_empty() {
            // Checks that nothing else changed are no achievement of an episode that did nothing.
            let real = self.successes.iter().filter(|text| !is_idle(text)).count();
            (real, real + self.errors.len())
        } else {
            (self.apps.iter().filter(|(_, passed)| *passed).count(), self.apps.len())
        };
        (all > 0 && passed + self.errors.len() + self.apps.len() > 0).then(|| passed as f64 / all as f64)
    }

    fn why(&self, partial: bool) -> String {
        let kind = if partial { "partial" } else { "verified" };
        let (passed, failed) = (self.successes.len(), self.errors.len());
        let mut text = format!("{kind}: {passed} checks passed, {failed} failed");
        for error in self.errors.iter().take(3) {
            text = format!("{text}; {}", error.chars().take(160).collect::<String>());
        }
        text
    }
}

/// True if a passed check says only that nothing was touched.
fn is_idle(text: &str) -> bool {
    let text = text.to_lowercase();
    ["no unexpected changes", "no filesystem changes", "no-unexpected-envelopes"].iter().any(|idle| text.contains(idle))
}

/// The strings of a Python list literal.
fn strings(literal: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut chars = literal.chars();
    while let Some(quote) = chars.find(|c| matches!(c, '"' | '\'')) {
        let mut text = String::new();
        let closed = loop {
            match chars.next() {
                None => break false,
                Some(c) if c == quote => break true,
                Some('\\') => match chars.next() {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some(other) => text.push(other),
                    None => break false,
                },
                Some(c) => text.push(c),
            }
        };
        if closed {
            found.push(text);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const STDOUT: &str = ">>> ERROR_ACCUMULATOR >>>\n['[X] it\\'s wrong', \"[X] two\"]\n<<< ERROR_ACCUMULATOR <<<\n\
        >>> SUCCESS_ACCUMULATOR >>>\n['[C] booked', '[C] No unexpected changes']\n<<< SUCCESS_ACCUMULATOR <<<\n";

    #[test]
    fn what_did_not_run_is_unknown_and_never_zero() {
        for answer in [
            json!({}),
            json!({"success": false, "result": 0.0, "error": {"message": "timed out"}}),
            json!({"success": true, "result": 0, "stdout": "x\nJUDGE ERROR: 503"}),
            json!({"success": true, "result": "well"}),
            json!({"success": true, "result": {"scores": 1}}),
        ] {
            assert!(matches!(Judged::read(&answer, true), Judged::Unknown(_)), "{answer}");
        }
    }

    #[test]
    fn scores_and_partial_credit() {
        let value = |answer: Value, partial| match Judged::read(&answer, partial) {
            Judged::Score { value, .. } => value,
            Judged::Unknown(why) => panic!("{why}"),
        };
        assert_eq!(value(json!({"success": true, "result": null}), false), 1.0);
        assert_eq!(value(json!({"success": true, "result": {"score": 0.5}}), false), 0.5);
        assert_eq!(value(json!({"success": true, "result": 0, "stdout": STDOUT}), false), 0.0);
        assert_eq!(value(json!({"success": true, "result": 0, "stdout": STDOUT}), true), 1.0 / 3.0);
        assert_eq!(value(json!({"success": true, "result": 0, "stdout": "App a: 1\nApp b: 0\n"}), true), 0.5);
        let Judged::Score { why, .. } = Judged::read(&json!({"success": true, "result": 0, "stdout": STDOUT}), false)
        else {
            panic!("no score");
        };
        assert!(why.contains("it's wrong") && why.contains("2 failed"), "{why}");
    }
}
