//! Citation grounding: the submission cites the right articles, and only articles it was shown.
//!
//! With K' the distinct ids cited, G the gold ids and C the ids shown: validity V = |K' ∩ C| / |K'| times the F-score
//! of precision and recall against G, with beta 0.5 (a wrong citation costs more than a missing one). Citing all of
//! four articles with one gold among them earns 0.29. If nothing can be cited (G empty), 1 for escalating without
//! citations, 0.3 for an uncited answer, 0 for citing anything.
//!
//! Laws: adding a correct citation (one that was shown) never lowers the value; removing a hallucinated one never
//! lowers it; removing a wrong one never lowers it while nothing is hallucinated. With hallucinated ids present a wrong
//! but real citation props up V, so the last law needs its condition.

use std::collections::HashSet;

use hone_trace::Verdict;
use serde::{Deserialize, Serialize};

use super::catalogue::{ComponentEntry, plain};
use super::submission::on_submission;
use super::{Case, Context, Measure, Submission, not_applicable, scored};
use crate::catalogue::Options;
use crate::documented;

pub(super) const ENTRY: ComponentEntry = ComponentEntry {
    name: "grounding",
    about: "Citation grounding: F-beta of the ids cited against the right ones, times the share that was actually \
        shown, from 0 to 1",
    advice: "For tasks with gold ids and a context; a small beta makes a wrong citation cost more than a missing one",
    paper: None,
    options: Options::of::<Grounding>(),
    make: plain::<Grounding>,
};

documented! {
    #[derive(Debug, Clone, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct Grounding {
        /// Weight of recall against precision.
        pub beta: f64 where over(0.0, 1e3),
    }
}

impl Default for Grounding {
    fn default() -> Self {
        Self { beta: 0.5 }
    }
}

impl Measure for Grounding {
    fn measure(&self, case: &Case) -> Verdict {
        let Some(gold) = &case.gold_ids else { return not_applicable("the task names no `gold_ids`") };
        let Some(context) = &case.context else { return not_applicable("the case has no `context` ids") };
        on_submission(case, |submission| grounding(submission, gold, context, self.beta))
    }
}

pub fn grounding(submission: &Submission, gold: &[String], context: &Context, beta: f64) -> Verdict {
    let cited: HashSet<&str> = submission.citations.iter().map(String::as_str).collect();
    let gold: HashSet<&str> = gold.iter().map(String::as_str).collect();
    if gold.is_empty() {
        return match (cited.is_empty(), submission.escalate) {
            (true, true) => scored(1.0, "escalated: there is nothing to cite"),
            (true, false) => scored(0.3, "not_escalated: there is nothing to cite, and the ticket was not escalated"),
            (false, _) => scored(0.0, format!("cited_nothing_relevant: {} ids where none is right", cited.len())),
        };
    }
    if cited.is_empty() {
        return scored(0.0, format!("no_citations: {} were wanted", gold.len()));
    }
    let share = |count: usize, of: usize| count as f64 / of as f64;
    let hits = cited.intersection(&gold).count();
    let valid = cited.iter().filter(|id| context.contains(id)).count();
    let (precision, recall) = (share(hits, cited.len()), share(hits, gold.len()));
    let validity = share(valid, cited.len());
    let square = beta * beta;
    let f = if hits == 0 { 0.0 } else { (1.0 + square) * precision * recall / (square * precision + recall) };
    scored(validity * f, format!("cited: precision {precision:.2}, recall {recall:.2}, validity {validity:.2}"))
}
