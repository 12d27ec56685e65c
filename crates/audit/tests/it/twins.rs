//! A broken twin for every law: a rubric with that one fault. It alone is found; what follows from it stands under it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hone_arena::rewards::rouge::rouge_l;
use hone_arena::rewards::{Case, Measure, Rubric, Term, correct::Correct};
use hone_audit::{Component, LAWS, Severity, Subject};
use hone_trace::Verdict;
use serde_json::{Map, Value};

use crate::{audited, broken, recipe};

/// A component by its function over the submitted arguments; `None` is unscored.
struct Twin(fn(&Case, &Map<String, Value>) -> Option<f64>);

impl Measure for Twin {
    fn measure(&self, case: &Case) -> Verdict {
        let turns = case.turns.as_deref().unwrap_or_default();
        let none = Map::new();
        let said = turns.last().and_then(|turn| turn.calls.first()).map_or(&none, |call| &call.arguments);
        match (self.0)(case, said) {
            Some(value) => Verdict::scored(value, "twin: so it is"),
            None => Verdict::unscored("twin: no value"),
        }
    }
}

fn text(said: &Map<String, Value>) -> &str {
    said.get("resolution").and_then(Value::as_str).unwrap_or_default()
}

fn words(said: &Map<String, Value>) -> usize {
    text(said).split_whitespace().count()
}

fn right(case: &Case) -> f64 {
    f64::from(u8::from(case.correct == Some(true)))
}

fn confidence(said: &Map<String, Value>) -> Option<f64> {
    said.get("confidence")?.as_f64()
}

fn overlap(case: &Case, said: &Map<String, Value>) -> f64 {
    let references = case.reference.clone().map(|texts| texts.0).unwrap_or_default();
    references.iter().map(|reference| rouge_l(reference, text(said), true).f).fold(0.0, f64::max)
}

/// The laws broken by `correct` and one faulty component of these weights.
async fn found(name: &str, weights: [f64; 2], twin: fn(&Case, &Map<String, Value>) -> Option<f64>) -> Vec<String> {
    let mut subject = Subject::open(recipe("recipes/triage.toml")).unwrap();
    let terms = vec![Term::new("correct", weights[0], Correct::default()), Term::new(name, weights[1], Twin(twin))];
    let rubric = Rubric::new(terms, Vec::new()).unwrap();
    let component =
        |(name, weight): (&str, f64)| Component { name: name.into(), kind: None, weight, paid: weight > 0.0 };
    subject.components = rubric.weights().map(component).collect();
    subject.rubric = Arc::new(rubric);
    let audit = audited(&subject).await;
    println!("{name}\n{}", audit.text(true));
    broken(&audit).into_iter().map(str::to_owned).collect()
}

macro_rules! twin {
    ($law:ident, $name:literal, $weights:expr, $twin:expr) => {
        #[tokio::test]
        async fn $law() {
            assert_eq!(found($name, $weights, $twin).await, [stringify!($law)]);
        }
    };
}

twin!(has_values, "silent", [1.0, 0.2], |_, _| None);
twin!(range, "doubled", [1.0, 0.2], |case, _| Some(2.0 * right(case)));
twin!(determinism, "moody", [1.0, 0.1], |_, _| {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    Some((COUNT.fetch_add(1, Ordering::Relaxed) % 50) as f64 * 1e-8)
});
twin!(no_way_out, "picky", [1.0, 0.2], |case, said| (words(said) > 2).then(|| right(case)));
twin!(quasi_concave, "inverted", [1.0, 0.2], |_, said| {
    let long = text(said).len();
    Some(if said.is_empty() || (160..400).contains(&long) { 0.0 } else { 1.0 })
});
twin!(proper_scoring, "clamped", [1.0, 0.2], |case, said| {
    Some(confidence(said).map_or(0.0, |stated| (1.0 - 2.0 * (stated - right(case)).powi(2)).max(0.0)))
});
twin!(accuracy_pays, "brier", [0.2, 1.0], |case, said| {
    Some(confidence(said).map_or(0.0, |stated| 1.0 - (stated - right(case)).powi(2)))
});
twin!(citations, "counted", [1.0, 0.2], |_, said| {
    let cited = said.get("citations").and_then(Value::as_array).map_or(0, Vec::len);
    Some((cited as f64 / 6.0).min(1.0))
});
twin!(precision, "recall", [1.0, 0.2], |case, said| {
    let gold = case.gold_ids.clone().unwrap_or_default();
    let cited: Vec<&str> =
        said.get("citations").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let hits = gold.iter().filter(|id| cited.contains(&id.as_str())).count();
    Some(if gold.is_empty() { right(case) } else { hits as f64 / gold.len() as f64 })
});
twin!(format_content, "format", [1.0, 0.1], |_, said| {
    Some(if said.is_empty() {
        0.0
    } else if text(said).len() > 20 {
        1.0
    } else {
        0.5
    })
});
twin!(oracle_is_best, "wordy", [1.0, 0.2], |_, said| Some((words(said) as f64 / 80.0).min(1.0)));
twin!(defect_costs, "roughly", [0.0, 1.0], |case, said| Some(f64::from(u8::from(overlap(case, said) > 0.5))));
twin!(blind_weight, "polite", [1.0, 0.6], |_, said| Some(if said.is_empty() { 0.0 } else { 1.0 }));
twin!(floor, "generous", [0.0, 1.0], |case, said| {
    Some(if said.is_empty() { 0.0 } else { 0.6 + 0.4 * right(case) })
});

/// A recipe in which nothing can be solved: its numbers would be those of rewards that hold every law.
#[tokio::test]
async fn solution_fits() {
    let mut subject = Subject::open(recipe("recipes/triage.toml")).unwrap();
    subject.recipe.rollout.window = 64;
    let audit = audited(&subject).await;
    let finding = audit.found("solution_fits").unwrap();
    assert!(
        audit.has_errors() && finding.breach.says.starts_with("no solution can be played: the first prompt takes ")
    );
    assert!(finding.breach.says.ends_with(" of 64 tokens"), "{}", finding.breach.says);
    subject.recipe.rollout.window = 16_384;
    subject.recipe.sampling.max_new_tokens = 2;
    let audit = audited(&subject).await;
    let finding = audit.found("solution_fits").unwrap();
    assert!(finding.breach.lines[0].ends_with("raise sampling.max_new_tokens"), "{finding:?}");
}

/// The one law that warns.
#[tokio::test]
async fn shared_gate() {
    let mut subject = Subject::open(recipe("recipes/triage.toml")).unwrap();
    let strict = |case: &Case, _: &Map<String, Value>| {
        let clean = case.turns.iter().flatten().all(|turn| turn.failure.is_none());
        Some(if clean { right(case) } else { 0.0 })
    };
    let term = |name: &str| Term::new(name, 1.0, Twin(strict));
    let rubric = Rubric::new(vec![term("one"), term("two"), term("three")], Vec::new()).unwrap();
    let component = |(name, weight): (&str, f64)| Component { name: name.into(), kind: None, weight, paid: true };
    subject.components = rubric.weights().map(component).collect();
    subject.rubric = Arc::new(rubric);
    subject.recipe.eval.success = "one".into();
    let audit = audited(&subject).await;
    println!("{}", audit.text(true));
    let finding = audit.found("shared_gate").unwrap();
    assert_eq!(finding.breach.severity, Severity::Warning);
    assert_eq!(audit.findings.len(), 1);
}

/// Every law has a twin here, by the name of its test.
#[test]
fn every_law_has_a_twin() {
    let source = include_str!("twins.rs");
    for law in LAWS {
        let name = law.about().name;
        assert!(source.contains(&format!("twin!({name},")) || source.contains(&format!("fn {name}()")), "{name}");
    }
}
