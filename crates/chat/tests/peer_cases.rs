//! Agreement with other engines' parsers: their own test texts, read by this parser.
//!
//! The texts belong to other projects and are not in this repository. `HONE_PEER_CASES` names a JSON-lines file with
//! `id`, `source`, `family`, `format` (ours, `auto` or null), `text`, `tools`, `expect.calls` and `class` (a verdict on
//! an older answer, by which the table is grouped). `HONE_PEER_SHOW=unsupported,D:hone_wrong` prints the differing cases
//! of these classes; `HONE_PEER_AUTO=1` names no format.

//!
//! Of the new formats' cases that differ, most are named faults here where a peer accepts something: arguments that do
//! not fit the schema, a tool that is not offered, values cut off before their end, markup without its spaces. A few
//! are not faults: calls are read here where a peer reads none or another value (muse_glimmer without its head, two
//! TOOLCALL lists, a list entry without arguments, escapes, a union), and functionary's bare `name` and JSON counts as
//! a reply.

#![expect(clippy::expect_used, reason = "a test fails where its data is not as expected")]
#![expect(clippy::print_stdout, reason = "the table is what the run is for")]

use std::collections::BTreeMap;

use hone_chat::parse::{Format, Parsed, ParsedCall, Toolbox, parse};
use hone_trace::ToolSet;
use serde_json::{Value, json};

/// Share of the supported formats' cases that must agree.
const SUPPORTED: f64 = 0.995;
/// Share of the cases whose format was missing when the verdicts were given.
const ADDED: f64 = 0.9;

/// Families whose name is not their format's.
const ALIASES: [(&str, &str); 2] = [("nemotron_toolcall", "nemotron"), ("granite_20b_fc", "granite_fc")];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// The same calls.
    Calls,
    /// A fault whose only reading is the same calls.
    Repaired,
    /// No call on either side; here with a reason.
    Fault,
    Differs,
}

fn calls_json(calls: &[ParsedCall]) -> Value {
    calls.iter().map(|call| json!({"name": call.call.name, "arguments": call.call.arguments})).collect()
}

fn expected(case: &Value) -> Vec<Value> {
    let calls = |expect: &Value| {
        let calls = expect["calls"].as_array().into_iter().flatten();
        calls.map(|call| json!({"name": call["name"], "arguments": call["arguments"]})).collect::<Value>()
    };
    let others = case["alts"].as_array().into_iter().flatten();
    std::iter::once(&case["expect"]).chain(others).map(calls).collect()
}

/// Equality of values, with numbers compared by value: 3 is 3.0.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(key, value): (&String, &Value)| other.get(key).is_some_and(|known| equal(value, known));
            one.len() == other.len() && one.iter().all(same)
        }
        _ => one == other,
    }
}

fn outcome(parsed: &Parsed, expected: &[Value]) -> Outcome {
    let same = |calls: &[ParsedCall]| expected.iter().any(|expected| equal(expected, &calls_json(calls)));
    match (&parsed.error, &parsed.repaired_calls) {
        (None, _) if same(&parsed.calls) => Outcome::Calls,
        (Some(_), Some(repaired)) if same(repaired) => Outcome::Repaired,
        (Some(_), _) if same(&[]) => Outcome::Fault,
        _ => Outcome::Differs,
    }
}

/// The format of a case, if it names one; else it is detected.
fn format_of(case: &Value) -> Option<Format> {
    let family = case["family"].as_str().unwrap_or_default();
    let alias = ALIASES.iter().find(|(known, _)| *known == family).map_or(family, |(_, format)| format);
    match case["format"].as_str() {
        _ if std::env::var_os("HONE_PEER_AUTO").is_some() => None,
        Some("auto") => None,
        Some(name) => Some(name.parse().expect("a known format")),
        None => alias.parse().ok(),
    }
}

#[test]
#[ignore = "needs other engines' parser cases: set HONE_PEER_CASES to a JSON-lines file of them"]
fn peers() {
    let path = std::env::var("HONE_PEER_CASES").expect("HONE_PEER_CASES names the file");
    let shown = std::env::var("HONE_PEER_SHOW").unwrap_or_default();
    let shown: Vec<&str> = shown.split(',').collect();
    let text = std::fs::read_to_string(&path).expect("a readable file");
    let mut tables: [BTreeMap<String, BTreeMap<Outcome, usize>>; 3] = Default::default();
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).expect("a case line");
        let field = |name: &str| case[name].as_str().unwrap_or_default();
        let tools: ToolSet = serde_json::from_value(case["tools"].clone()).expect("tools");
        let seen = Toolbox::new(&tools).map(|tools| {
            let named = parse(field("text"), &tools, format_of(&case));
            (outcome(&named, &expected(&case)), named)
        });
        let (outcome, verdict) = match &seen {
            Ok((outcome, parsed)) => (*outcome, parsed.to_json(None, None)),
            Err(error) => (Outcome::Differs, error.to_string()),
        };
        let class = field("class");
        let changed = outcome == Outcome::Differs || (outcome == Outcome::Fault && class == "agree");
        if changed && shown.contains(&class) {
            println!("{} [{class}]\n  {:?}\n  {}\n  {verdict}", field("id"), field("text"), case["expect"]["calls"]);
        }
        let source = field("source").split('@').next().unwrap_or_default();
        for (table, key) in tables.iter_mut().zip([class, source, field("family")]) {
            *table.entry(key.to_owned()).or_default().entry(outcome).or_default() += 1;
        }
    }
    for (name, table) in ["class", "source", "family"].iter().zip(&tables) {
        println!("by {name}");
        for (key, outcomes) in table {
            println!("  {key:20} {outcomes:?}");
        }
    }
    let share = |classes: &[&str]| {
        let rows = tables[0].iter().filter(|(class, _)| classes.contains(&class.as_str()));
        let (mut right, mut all) = (0.0, 0.0);
        for (outcome, count) in rows.flat_map(|(_, outcomes)| outcomes) {
            all += *count as f64;
            right += if *outcome == Outcome::Differs { 0.0 } else { *count as f64 };
        }
        println!("{classes:?}: {right} of {all}");
        if all > 0.0 { right / all } else { 1.0 }
    };
    let supported = share(&["agree", "agree_fault", "agree_split", "repaired", "D:hone_wrong"]);
    let added = share(&["unsupported"]);
    assert!(
        supported >= SUPPORTED && added >= ADDED,
        "{supported:.4} of the supported formats, {added:.4} of the added"
    );
}
