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

use hone_arena::rewards::{
    Product, Rubric, RubricError, Term, calibration, correct, format, grounding, parsimony, rouge, support,
};

/// The rubric of both triage environments.
pub fn rubric() -> Result<Rubric, RubricError> {
    let parsimony = parsimony::Parsimony::default();
    // Both look at the same text, the resolution.
    let quality = rouge::RougeL { on: parsimony.on, ..rouge::RougeL::default() };
    let terms = vec![
        Term::new("correct", 0.45, correct::Correct::default()),
        Term::new("quality", 0.0, quality),
        Term::new("parsimony", 0.0, parsimony),
        Term::new("grounding", 0.2, grounding::Grounding::default()),
        Term::new("calibration", 0.1, calibration::Calibration::default()),
        Term::new("format", 0.05, format::Format::default()),
        // Watched: paraphrase is not seen, so the perfect answer need not reach 1.
        Term::new("support", 0.0, support::Support::default()),
    ];
    let product =
        Product { name: "concise_quality".into(), of: vec!["quality".into(), "parsimony".into()], weight: 0.2 };
    Rubric::new(terms, vec![product])
}
