//! docs/audit.md, written from the lists of probes and laws.

use std::fmt::Write as _;

use crate::law::{Law, LawText};
use crate::probe::{About, Probe};
use crate::report::HONEST_WORK;
use crate::search::SEARCH;

const HEAD: &str = include_str!("page.md");

/// The page.
pub fn page(probes: &[&dyn Probe], laws: &[&dyn Law]) -> String {
    let mut text = HEAD.to_owned();
    text.push_str("\n## Probes\n\n| probe | what it does | what it finds |\n|---|---|---|\n");
    for About { name, what, finds } in probes.iter().map(|probe| probe.about()).chain([SEARCH]) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| `{name}` | {what} | {finds} |");
    }
    text.push_str("\n## Laws\n");
    for law in laws.iter().map(|law| law.about()).chain([HONEST_WORK]) {
        let LawText { name, law, measure, repair, explains } = law;
        let _ = write!(text, "\n### `{name}`\n\n{law}\n\n- **Measured:** {measure}\n- **Repair:** {repair}\n");
        if !explains.is_empty() {
            let names: Vec<String> = explains.iter().map(|name| format!("`{name}`")).collect();
            let _ = writeln!(text, "- **Explains:** {}", names.join(", "));
        }
    }
    text
}
