//! Catalogue of named options, each with its formula and one line of advice.
//!
//! An entry's text is its documentation everywhere: here, in docs/algorithms.md and in error messages. Losses and
//! estimators have one file each; the few names of a closed set (levels, reductions, masks) are in [`catalogue!`], with
//! their doc comments as text.

use std::fmt::Write as _;

pub use hone_trace::{did_you_mean, nearest};

/// Something a recipe can name.
#[derive(Debug, Clone, Copy)]
pub struct Entry<T: 'static> {
    pub name: &'static str,
    /// One line of maths.
    pub maths: &'static str,
    /// One line of advice: when to use it.
    pub advice: &'static str,
    /// The publication it comes from.
    pub paper: Option<&'static str>,
    pub make: T,
}

/// `"name" => value` entries, each after two lines of doc comment: the maths, then the advice. `after "…"` cites a paper.
macro_rules! catalogue {
    ($(#[doc = $maths:literal] #[doc = $advice:literal] $name:literal => $make:expr $(, after $paper:literal)?;)+) => {
        &[$($crate::catalogue::Entry {
            name: $name,
            maths: $maths,
            advice: $advice,
            paper: $crate::catalogue::catalogue!(@paper $($paper)?),
            make: $make,
        }),+]
    };
    (@paper) => { None };
    (@paper $paper:literal) => { Some($paper) };
}
pub(crate) use catalogue;

/// Serde for a table with a `name` that may be written as just the name: `loss = "dapo"`. The type derives both traits
/// with `#[serde(remote = "Self")]` and has a constructor `named`.
macro_rules! name_or_table {
    ($type:ty, $expected:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                // The derived function, not this one.
                <$type>::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct NameOrTable;
                impl<'de> serde::de::Visitor<'de> for NameOrTable {
                    type Value = $type;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expected)
                    }

                    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<$type, E> {
                        Ok(<$type>::named(name))
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$type, A::Error> {
                        <$type>::deserialize(serde::de::value::MapAccessDeserializer::new(map))
                    }
                }
                deserializer.deserialize_any(NameOrTable)
            }
        }
    };
}
pub(crate) use name_or_table;

/// Unknown name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no {what} {name:?}; {nearest}Known are: {known}")]
pub struct UnknownName {
    pub what: &'static str,
    pub name: String,
    /// Suggestion of the nearest name, as a question; empty if none is close.
    pub nearest: String,
    pub known: String,
}

/// The entry of this name, or the nearest one in the error. Case, `-` and `_` make no difference.
pub fn find<T>(what: &'static str, entries: &'static [Entry<T>], name: &str) -> Result<&'static Entry<T>, UnknownName> {
    let wanted = plain(name);
    entries.iter().find(|entry| plain(entry.name) == wanted).ok_or_else(|| {
        let names: Vec<_> = entries.iter().map(|entry| entry.name).collect();
        let nearest = did_you_mean(&wanted, names.iter().copied());
        UnknownName { what, name: name.to_owned(), nearest, known: names.join(", ") }
    })
}

fn plain(name: &str) -> String {
    name.trim().to_lowercase().replace('-', "_")
}

/// docs/algorithms.md, from the doc comments of the entries.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Algorithms\n\nWritten from the entries in `crates/train`; change them there and run\n\
         `HONE_BLESS=1 cargo test -p hone-train algorithms_page`.\n\n\
         l is the learner's logprob of a sampled token, q the sampler's, f the reference policy's. o is the old logprob: q, or with a\n\
         `loss.correction`, if sampler and learner may differ, the learner's own before its first update on the batch. ρ = e^(l−o);\n\
         sg[·] is held fixed in the gradient. A is the advantage, R a trace's reward, n its sampled tokens. Sums and means run\n\
         over sampled tokens only; masked, excluded and faulted traces are in none of them.\n",
    );
    section(
        &mut page,
        "Credit",
        "Advantage estimators, `credit = \"grpo\"`: from rewards to advantages. The table form, `credit = { name = \
         \"grpo\", … }`, has further options. `negative = 0.1`: negative advantages are scaled by a tenth, for a \
         policy whose failures consist mostly of right tokens; their mean is then positive, which makes it \
         rejection-weighted imitation, not GRPO. `arguments = { confidence = \"calibration\" }`: the tokens of that \
         argument, including the one that ends its value, are credited by that component only, which has weight 0 in \
         the rubric. The baseline is the mean of the batch's episodes with the same reward. It starts after the share \
         `arguments_from` of the steps, with the factor `argument_weight`. Use it for a component that is decided by \
         one argument and would otherwise reward a wrong answer for stating a low confidence. `skill_over = \
         \"correct\"` changes the baseline to the score of the batch's success rate, stated as a constant confidence: \
         the credit is then the Brier skill, 0 for the base rate.",
        crate::credit::CREDITS,
    );
    section(
        &mut page,
        "Losses",
        "`loss = \"dapo\"`: the loss of one token, before the reduction.",
        crate::loss::LOSSES,
    );
    section(&mut page, "Ratio levels", "`loss.level`: the level of the importance ratio ρ.", crate::loss::LEVELS);
    section(
        &mut page,
        "Reductions",
        "`loss.reduction`: the weight of one token. It is computed over the whole optimizer step, so the split into \
         micro-batches changes nothing.",
        crate::loss::REDUCTIONS,
    );
    section(
        &mut page,
        "KL penalty in the loss",
        "`loss.kl`: coefficient × the estimate, with Δ = l−f; times ρ with `bias_correction`.",
        crate::loss::ESTIMATORS,
    );
    section(
        &mut page,
        "Off-policy corrections",
        "`loss.correction`: a factor c on the surrogate, with d = o−b, where b is the logprob the token was actually \
         drawn with (after top-k, top-p, min-p and gates). This is importance sampling of the learner against the \
         sampler.",
        crate::loss::CORRECTIONS,
    );
    section(&mut page, "Masks", "Options that exclude tokens from the surrogate.", crate::loss::MASKS);
    page
}

fn section<T>(page: &mut String, title: &str, lead: &str, entries: &[Entry<T>]) {
    let _ = write!(page, "\n## {title}\n\n{lead}\n");
    for entry in entries {
        let paper = entry.paper.map(|paper| format!(" After {paper}.")).unwrap_or_default();
        let _ = write!(page, "\n**{}**: {}\\\n{}{paper}\n", entry.name, entry.maths.trim(), entry.advice.trim());
    }
}
