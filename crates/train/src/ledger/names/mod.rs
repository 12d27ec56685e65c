//! Every metric a run writes, one line each, and the only way to name one: a name that is not on the list does not
//! compile. docs/metrics.md is generated from here, and a test compares a run with it.

use std::borrow::Cow;
use std::fmt::{self, Display, Write as _};

/// A metric, or a family of them: `{env}`, `{component}`, `{kind}` and `{n}` are placeholders for names and numbers of
/// the run.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    pub name: &'static str,
    pub what: &'static str,
    pub better: Better,
}

/// Direction in which a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    Higher,
    Lower,
    /// Neither is better in itself.
    Neither,
}

/// Metrics that differ in `N` parts of their names.
#[derive(Debug, Clone, Copy)]
pub struct Family<const N: usize> {
    name: &'static str,
}

/// The name of a metric on the list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(Cow<'static, str>);

/// Metrics of one subject.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    pub title: &'static str,
    pub lead: &'static str,
    pub metrics: &'static [Metric],
}

/// A constant per metric, and all of them in the order of the page. `(Higher)` or `(Lower)` after a name: what is better.
macro_rules! metrics {
    ($($title:literal, $lead:literal {
        $($metric:ident $([$parts:literal])? = $name:literal $(($better:ident))?: $what:literal,)+
    })+) => {
        $($(metrics!(@one $metric $([$parts])? $name, $what, metrics!(@better $($better)?));)+)+
        /// All of them, in the order of the page.
        pub static SECTIONS: &[Section] = &[$(Section {
            title: $title,
            lead: $lead,
            metrics: &[$(Metric { name: $name, what: $what, better: metrics!(@better $($better)?) }),+],
        }),+];
    };
    (@better) => { Better::Neither };
    (@better $better:ident) => { Better::$better };
    (@one $metric:ident $name:literal, $what:literal, $better:expr) => {
        #[doc = $what]
        pub const $metric: Metric = Metric { name: $name, what: $what, better: $better };
        const _: () = assert!(open($name) == 0);
    };
    (@one $metric:ident [$parts:literal] $name:literal, $what:literal, $better:expr) => {
        #[doc = $what]
        pub const $metric: Family<$parts> = Family { name: $name };
        const _: () = assert!(open($name) == $parts);
    };
}

mod list;

pub use list::*;

/// The total reward, a member of [`BATCH_REWARD_COMPONENT`].
pub const BATCH_REWARD_TOTAL: Metric =
    Metric { name: "batch_reward/total", what: "mean total reward", better: Better::Higher };

/// Parts that a family leaves open.
const fn open(name: &str) -> usize {
    let (bytes, mut at, mut open) = (name.as_bytes(), 0, 0);
    while at < bytes.len() {
        open += (bytes[at] == b'{') as usize;
        at += 1;
    }
    open
}

impl From<Metric> for Name {
    fn from(metric: Metric) -> Self {
        Self(Cow::Borrowed(metric.name))
    }
}

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<const N: usize> Family<N> {
    /// The member with these parts, in order.
    pub fn of(self, parts: [&dyn Display; N]) -> Name {
        let mut name = String::new();
        let mut rest = self.name;
        for part in parts {
            let (before, after) = rest.split_once('{').unwrap_or((rest, ""));
            let _ = write!(name, "{before}{part}");
            rest = after.split_once('}').map_or("", |(_, after)| after);
        }
        name.push_str(rest);
        Name(Cow::Owned(name))
    }
}

impl Family<1> {
    /// The part that makes `name` a member. `None` for a name of another family: parts have no `/`.
    pub fn part(self, name: &str) -> Option<&str> {
        let (before, after) = self.name.split_once('{')?;
        let (_, after) = after.split_once('}')?;
        name.strip_prefix(before)?.strip_suffix(after).filter(|part| !part.contains('/'))
    }
}

/// The name, if a metric has it.
pub fn named(name: &str) -> Option<Name> {
    find(name).map(|_| Name(Cow::Owned(name.to_owned())))
}

/// The documented metric a written name belongs to.
pub fn find(name: &str) -> Option<&'static Metric> {
    let all = || SECTIONS.iter().flat_map(|section| section.metrics);
    // Full names before families: `reward/success_rate` is not a component.
    all().find(|metric| metric.name == name).or_else(|| all().find(|metric| matches(metric.name, name)))
}

/// True when `name` is one of the family: part by part, with `{n}` a number and the others any text.
fn matches(family: &str, name: &str) -> bool {
    let (family, name): (Vec<_>, Vec<_>) = (family.split('/').collect(), name.split('/').collect());
    family.len() == name.len() && family.iter().zip(&name).all(|(pattern, part)| part_matches(pattern, part))
}

fn part_matches(pattern: &str, part: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('{') else { return pattern == part };
    let Some((variable, after)) = rest.split_once('}') else { return false };
    let value = part.strip_prefix(before).and_then(|part| part.strip_suffix(after));
    value.is_some_and(|value| if variable == "n" { value.parse::<u32>().is_ok() } else { !value.is_empty() })
}

/// docs/metrics.md.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Metrics\n\nThe fields of a line of `metrics.jsonl`, one line per step. Generated from \
         `crates/train/src/ledger/names/list.rs`; change it there and run\n`HONE_BLESS=1 cargo test -p hone-train \
         metrics_page`.\n\nAn unknown value is absent, never 0.\n",
    );
    for Section { title, lead, metrics } in SECTIONS {
        let _ = write!(page, "\n## {title}\n\n{lead}\n\n| metric | is |\n|---|---|\n");
        for Metric { name, what, .. } in *metrics {
            let _ = writeln!(page, "| `{name}` | {} |", what.replace('|', "\\|"));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_a_component() {
        assert_eq!(BATCH_REWARD_COMPONENT.part(BATCH_REWARD_TOTAL.name), Some("total"));
    }
}
