use hone_arena::rewards::TOTAL;

use crate::evidence::Evidence;
use crate::law::{Breach, Checked, Law, LawText, Severity};

/// Most of the weight reads the answer.
#[derive(Debug)]
pub(super) struct BlindWeight;

/// Of what the solution earns: in full, but for rounding.
const FULL: f64 = 0.95;
const SHARE: f64 = 1.0 / 3.0;

impl Law for BlindWeight {
    fn about(&self) -> LawText {
        LawText {
            name: "blind_weight",
            law: "At most a third of the weight is earned in full by an episode that solves nothing.",
            measure: "For the junk with the highest total: the weights of the components of which it earns at least 95 % of \
                      what the solution does, over all weights. Components that only punish are left out.",
            repair: "Lower the `weight` of those components, make them factors of one that reads the answer \
                     ([[rubric.product]] of = [\"quality\", \"parsimony\"]), or a `gate` of weight 0.",
            explains: &["floor", "honest_work"],
        }
    }

    fn check(&self, evidence: &Evidence) -> Checked {
        let (Some(worst), true) = (evidence.worst_junk(), evidence.oracle_mean(TOTAL).is_some()) else {
            return Checked::Skipped("tasks with a reference".into());
        };
        let all: f64 = evidence.components.iter().map(|component| component.weight).sum();
        let full = evidence.components.iter().filter(|component| {
            let (oracle, junk) = (evidence.oracle_mean(&component.name), worst.means.get(&component.name));
            component.weight > 0.0
                && oracle.zip(junk).is_some_and(|(oracle, junk)| oracle > 0.0 && *junk >= FULL * oracle)
        });
        let full: Vec<_> = full.collect();
        let weight: f64 = full.iter().map(|component| component.weight).sum();
        if weight <= SHARE * all + 1e-9 {
            return Checked::Holds;
        }
        let names: Vec<String> =
            full.iter().map(|component| format!("`{}` ({})", component.name, component.weight)).collect();
        let says = format!(
            "{:.0} % of the weight is paid in full to {}: {}",
            100.0 * weight / all,
            worst.label,
            names.join(", ")
        );
        Checked::Broken(vec![Breach::new(Severity::Error, TOTAL, says)])
    }
}
