//! Faults on one line.

use hone_trace::clean_line;

/// Start of what a program wrote to stderr, in a fault that quotes it.
const STDERR: &str = " (stderr: ";

/// A fault on one line: of a traceback the last line, which names the exception.
pub(crate) fn in_short(fault: &str) -> String {
    let Some((what, said)) = fault.split_once(STDERR) else { return clean_line(fault) };
    let said = said.trim_end().trim_end_matches(')').trim_end();
    match said.lines().next_back() {
        Some(last) if said.lines().count() > 1 => clean_line(&format!("{what}: {}", last.trim())),
        _ => clean_line(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceback_is_cut_to_its_exception() {
        let fault = "step by e.py: it ended (stderr: Traceback:\n  File \"e.py\", line 3\nKeyError: 'plantt')";
        assert_eq!(in_short(fault), "step by e.py: it ended: KeyError: 'plantt'");
        assert_eq!(in_short("it ended (stderr: gone)"), "it ended (stderr: gone)");
        assert_eq!(in_short("two\nlines"), clean_line("two\nlines"));
    }
}
