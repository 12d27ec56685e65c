//! Display of errors: what is wrong, its causes, and what to do about it.
//!
//! An error's text says what is wrong and then, after a semicolon or as a separate sentence, what to do: "cannot read
//! x; give the domain's own directory". Here the second part becomes a `hint:` line, after all causes.

use hone_trace::{Fault, FaultKind, clean};

/// The two parts of an error's text.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    what: String,
    fix: Option<String>,
}

/// Starts of a line that is advice as a whole, and whether the start is part of it.
const ADVICE: [(&str, bool); 3] = [("hint: ", false), ("fix: ", false), ("did you mean ", true)];

impl Problem {
    fn read(text: &str) -> Self {
        let text = text.trim_end();
        let (what, fix) = advice_line(text).or_else(|| advice_clause(text)).unwrap_or((text, String::new()));
        Self { what: what.trim_end().to_owned(), fix: Some(fix).filter(|fix| !fix.is_empty()) }
    }
}

/// Advice on a separate line, with everything after it.
fn advice_line(text: &str) -> Option<(&str, String)> {
    let mut starts = text.match_indices('\n').map(|(at, _)| at + 1);
    starts.find_map(|start| {
        let line = text[start..].trim_start();
        let (mark, kept) = ADVICE.into_iter().find(|(mark, _)| line.starts_with(mark))?;
        let advice = if kept { line } else { &line[mark.len()..] };
        let lines: Vec<&str> = advice.lines().map(str::trim).collect();
        Some((&text[..start], lines.join(" ")))
    })
}

/// Advice after the first semicolon or full stop of the last line that is neither quoted nor in brackets.
fn advice_clause(text: &str) -> Option<(&str, String)> {
    let start = text.rfind('\n').map_or(0, |at| at + 1);
    let (mut quote, mut depth) = (None, 0usize);
    for (at, c) in text[start..].char_indices() {
        let (before, rest) = text.split_at(start + at);
        match c {
            '"' | '`' if quote == Some(c) => quote = None,
            '"' | '`' if quote.is_none() => quote = Some(c),
            '(' | '[' | '{' if quote.is_none() => depth += 1,
            ')' | ']' | '}' if quote.is_none() => depth = depth.saturating_sub(1),
            ';' | '.' if quote.is_none() && depth == 0 => {
                let Some(advice) = rest[1..].strip_prefix(' ') else { continue };
                // "v. 2" and "e.g. this" do not end sentences.
                if c == ';' || advice.starts_with(char::is_uppercase) {
                    return Some((before, advice.to_owned()));
                }
            }
            _ => {}
        }
    }
    None
}

/// The lines of an error and its causes, hints last.
pub(crate) fn shown(error: &anyhow::Error) -> String {
    let (mut lines, mut hints) = (Vec::new(), Vec::new());
    let mut said = String::new();
    // Errors quote environments, templates, models and files.
    for (depth, cause) in error.chain().map(|cause| clean(&cause.to_string())).enumerate() {
        // Many errors quote the one below them.
        if depth > 0 && said.contains(&cause) {
            continue;
        }
        let Problem { what, fix } = Problem::read(&cause);
        lines.push(match depth {
            0 => format!("{}: {what}\n", owo_colors::OwoColorize::red(&"error")),
            _ => format!("  because: {what}\n"),
        });
        let hint = fix.map(|fix| format!("{}: {fix}\n", owo_colors::OwoColorize::cyan(&"hint")));
        hints.extend(hint.filter(|hint| !hints.contains(hint)));
        said = cause;
    }
    lines.extend(hints);
    lines.concat()
}

/// A fault with the usual advice for its kind.
pub(crate) fn advised(fault: Fault) -> anyhow::Error {
    let advice = match fault.kind {
        FaultKind::Other => return fault.into(),
        FaultKind::Unreachable => "start the server, or correct its address: url = \"http://HOST:PORT\"",
        FaultKind::UnknownHost => "correct the server's address: url = \"http://HOST:PORT\"",
        FaultKind::NotStarted => {
            "install it, or name it in full; it is started in the recipe's directory (env.directory)"
        }
        FaultKind::Garbled => "print to stderr: stdout is for answers, one JSON object a line",
        FaultKind::Ended => "correct the program; `hone env show RECIPE` tries it again",
        FaultKind::ServerLate => "look at the server, or raise deadline_s (open_deadline_s before the first step)",
        // A program of the user's own answers with ids per line; for a server the protocol takes care of that.
        FaultKind::ProgramLate => {
            "answer every request with its id and flush stdout after it, or raise deadline_s (start_deadline_s for \
             the first)"
        }
    };
    anyhow::anyhow!("{fault}\nhint: {advice}")
}

#[cfg(test)]
mod tests {
    use hone_trace::Boundary;

    use super::*;

    #[test]
    fn advice_is_told_from_what_is_wrong() {
        for (text, what, fix) in [
            (
                "no format is named \"x\"; did you mean \"y\"? Formats: a, y",
                "no format is named \"x\"",
                "did you mean \"y\"? Formats: a, y",
            ),
            (
                "the temperature is 0. Train at 1.0 (eval may be 0)",
                "the temperature is 0",
                "Train at 1.0 (eval may be 0)",
            ),
            (
                "at line 2\n2 | a; b\nunknown field `a`\ndid you mean `b`?",
                "at line 2\n2 | a; b\nunknown field `a`",
                "did you mean `b`?",
            ),
            ("no driver\n  fix: install it,\n  or use the CPU", "no driver", "install it, or use the CPU"),
            ("no driver\nhint: install it", "no driver", "install it"),
            ("at line 2\n2 | a; b\nthere is no `c; d`; use `e`", "at line 2\n2 | a; b\nthere is no `c; d`", "use `e`"),
        ] {
            let expected = Problem { what: what.into(), fix: Some(fix.into()) };
            assert_eq!(Problem::read(text), expected, "{text}");
        }
    }

    #[test]
    fn a_program_and_a_server_that_are_late_are_advised_apart() {
        let advice = |kind| advised(Fault::new(Boundary::Environment, "w").of_kind(kind)).to_string();
        assert!(advice(FaultKind::ProgramLate).contains("\nhint: answer every request"));
        assert!(advice(FaultKind::ServerLate).contains("open_deadline_s"));
        assert!(advice(FaultKind::Unreachable).contains("start the server"));
    }

    #[test]
    fn a_fault_is_advised_by_its_kind_and_not_by_its_words() {
        let quoted = Fault::new(Boundary::Environment, "open by e.py: RuntimeError: Connection refused");
        assert_eq!(advised(quoted.clone()).to_string(), quoted.to_string());
    }

    #[test]
    fn what_is_quoted_or_abbreviated_is_no_advice() {
        for text in
            ["cannot open \"a; b. C\"", "found [1; 2], (x; y)", "version 1.5. is odd", "plain", "ends here.", ""]
        {
            assert_eq!(Problem::read(text), Problem { what: text.into(), fix: None });
        }
    }

    #[test]
    fn causes_come_before_hints_and_nothing_is_said_twice() {
        let error =
            anyhow::anyhow!("no file; make one").context("in a.toml: no file; make one").context("cannot start");
        let text = anstream::adapter::strip_str(&shown(&error)).to_string();
        assert_eq!(text, "error: cannot start\n  because: in a.toml: no file\nhint: make one\n");
    }
}
