use hone_arena::rewards::TOTAL;

use crate::evidence::Evidence;
use crate::law::{Breach, Checked, Law, LawText, Severity};
use crate::probe::Role;

/// Junk stays near the floor.
#[derive(Debug)]
pub(super) struct Floor;

const ERROR: f64 = 0.5;
const WARNING: f64 = 0.4;

impl Law for Floor {
    fn about(&self) -> LawText {
        LawText {
            name: "floor",
            law: "An episode that solves nothing earns less than half of what the solution earns.",
            measure: "Mean total of each junk variant on a scale from an empty reply (0) to the solution (1): error over 0.5, \
                      warning over 0.4. The seeded search is one of them.",
            repair: "Raise the `weight` of the environment's own test (`kind = \"correct\"`), or make it a `gate`: below it \
                     the total is at most 0.",
            explains: &["honest_work"],
        }
    }

    fn check(&self, evidence: &Evidence) -> Checked {
        if evidence.share(0.0).is_none() {
            return Checked::Skipped("tasks with a reference that earns more than an empty reply".into());
        }
        let share = |total: Option<f64>| total.and_then(|total| evidence.share(total)).unwrap_or(0.0);
        let mut over: Vec<_> = evidence
            .lines()
            .into_iter()
            .filter(|line| line.role == Role::Junk && 2 * line.tasks > evidence.tasks && share(line.total()) > WARNING)
            .collect();
        over.sort_by(|a, b| share(b.total()).total_cmp(&share(a.total())));
        let Some(worst) = over.first() else { return Checked::Holds };
        let severity = if share(worst.total()) > ERROR { Severity::Error } else { Severity::Warning };
        let says = format!(
            "{} earns {:.3} of the solution's {:.3}: {:.0} % of the way from nothing",
            worst.label,
            worst.total().unwrap_or_default(),
            evidence.oracle_mean(TOTAL).unwrap_or_default(),
            100.0 * share(worst.total())
        );
        let mut breach = Breach::new(severity, TOTAL, says);
        for line in over.iter().skip(1).take(4) {
            breach = breach.line(format!("{}: {:.0} %", line.label, 100.0 * share(line.total())));
        }
        Checked::Broken(vec![breach])
    }
}
