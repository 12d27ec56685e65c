//! docs/doctor.md, written from the list of checks.

use std::fmt::Write as _;

use crate::check::Check;

const HEAD: &str = "# Doctor

`hone doctor RUN` looks at the records of a run, live or finished, and says what is wrong with it: the fault, the arithmetic,
traces that show it, the fix. Findings that follow from another one are shown under it. A check that lacks data says what it
needs. Exit code 1: at least one finding is an error. `--json` prints one object.

An error means that the run teaches nothing or that its numbers do not mean what they say; a warning, that time or signal is
lost or a claim needs a caveat.

This page is written from the checks themselves (crates/doctor/src/checks).
";

/// The page.
pub fn page(checks: &[Check]) -> String {
    let mut text = HEAD.to_owned();
    for Check { name, what, measure, fix, explains, .. } in checks {
        let _ = write!(text, "\n## `{name}`\n\n{what}\n\n- **Measured:** {measure}\n- **Fix:** {fix}\n");
        if !explains.is_empty() {
            let names: Vec<String> = explains.iter().map(|name| format!("`{name}`")).collect();
            let _ = writeln!(text, "- **Explains:** {}", names.join(", "));
        }
    }
    text
}
