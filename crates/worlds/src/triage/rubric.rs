//! Rubric of a triage episode.
//!
//! Correctness weighs more than calibration, or being predictably wrong would pay. The perfect answer earns 1. A test
//! (`tests/triage/floors.rs`) holds the mean reward of policies without understanding under these floors, in both modes
//! and sizes:
//!
//! | policy | floor |
//! |---|---|
//! | does nothing | 0 |
//! | submits the ticket's text, cites nothing, confidence 0 | 0.20 |
//! | submits the ticket's text, cites everything it was shown, confidence 0 | 0.27 |
//! | submits filler, cites everything, confidence 0 | 0.27 |
//! | takes the first document for the right one, confidence 0.5 | 0.42 |
//! | copies all documents, cites everything, confidence 0.5 | 0.27 |
//! | escalates always, confidence 1 | 0.27 |
//! | escalates always, at the share of tickets without an answer (0.2) | 0.34 |

use hone_arena::rewards::spec::{ProductSpec, RubricSpec};
use serde_json::{Map, Value};

/// One component of the rubric.
struct Row {
    kind: &'static str,
    name: &'static str,
    weight: f64,
    /// Text that it measures, if it can measure several.
    on: Option<&'static str>,
}

const fn row(kind: &'static str, name: &'static str, weight: f64, on: Option<&'static str>) -> Row {
    Row { kind, name, weight, on }
}

/// The components. `support` is only recorded: it does not recognise paraphrase, so the perfect answer need not reach 1.
const COMPONENTS: [Row; 7] = [
    row("correct", "correct", 0.45, None),
    // Parsimony measures the same text.
    row("rouge_l", "quality", 0.0, Some("resolution")),
    row("parsimony", "parsimony", 0.0, None),
    row("grounding", "grounding", 0.2, None),
    row("calibration", "calibration", 0.1, None),
    row("format", "format", 0.05, None),
    row("support", "support", 0.0, None),
];

/// The rubric of both triage environments.
pub fn rubric() -> RubricSpec {
    let component = |Row { kind, name, weight, on }: Row| {
        let keys = [("kind", kind.into()), ("name", name.into()), ("weight", Value::from(weight))];
        let keys = keys.into_iter().chain(on.map(|on| ("on", on.into())));
        keys.map(|(key, value)| (key.to_owned(), value)).collect::<Map<String, Value>>()
    };
    let of = ["quality", "parsimony"].map(String::from).to_vec();
    let product = ProductSpec { name: "concise_quality".into(), of, weight: 0.2 };
    RubricSpec { component: COMPONENTS.map(component).to_vec(), product: vec![product] }
}
