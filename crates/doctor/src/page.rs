//! docs/doctor.md, written from the lists of checks.

use std::fmt::Write as _;

use crate::check::Check;
use crate::{CHECKS, LIVE, PREFLIGHT};

const HEAD: &str = "# Doctor

The doctor says what is wrong: the fault, the arithmetic, traces that show it, the fix. It looks three times:

- `hone check RECIPE`, before the first step. Everything the recipe names is opened, the environment is played by scripts and
  by the start policy, and the learner scores what was sampled; on the quickstart this takes under a minute. `hone train` makes
  the checks that need no episodes by itself, in a second or two, and refuses on errors.
- While a run is under way, after every step, in microseconds. A finding is printed once and recorded as a `notice` event.
- `hone doctor RUN`, over the records of a run, live or finished.

An error means that the run teaches nothing or that its numbers do not mean what they say; a warning, that time or signal is
lost or a claim needs a caveat; a note is worth knowing. Each finding also states how sure the doctor is: certain (measured directly),
likely (estimated from a sample), possible. Worst findings come first, and those that follow from another one are shown under
it. A check that lacks data says what it needs. Exit code 1: at least one finding is an error.

To run a recipe in spite of a finding, waive its check, with a reason. Waivers are recorded in the run:

```toml
[doctor]
waive = { do_nothing = \"a third of these tickets need no answer\" }
```

`--json` prints one object: `findings` (each with `check`, `severity`, `confidence`, `says`, `lines`, `traces`, `remedy`, and
where there are any `fix`, `waived` and `consequences`), `skipped` (`check`, `needs`) and `healthy` (names).

This page is written from the checks themselves (crates/doctor/src).
";

/// The page.
pub fn page() -> String {
    let mut text = HEAD.to_owned();
    section(&mut text, "Before the first step: `hone check`", PREFLIGHT);
    section(&mut text, "While a run is under way", LIVE);
    section(&mut text, "Over a run's records: `hone doctor`", CHECKS);
    text
}

fn section<S>(text: &mut String, title: &str, checks: &[Check<S>]) {
    let _ = write!(text, "\n## {title}\n");
    for Check { name, what, measure, fix, explains, .. } in checks {
        let _ = write!(text, "\n### `{name}`\n\n{what}\n\n- **Measured:** {measure}\n- **Fix:** {fix}\n");
        if !explains.is_empty() {
            let names: Vec<String> = explains.iter().map(|name| format!("`{name}`")).collect();
            let _ = writeln!(text, "- **Explains:** {}", names.join(", "));
        }
    }
}
