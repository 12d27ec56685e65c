use hone_arena::rewards::TOTAL;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "constant_component",
    what: "A reward component with weight is the same in every episode: it carries no gradient.",
    measure: "Components with a weight that have one value in all of at least 32 scored episodes of the start \
              policy, while the total varies. Note; warning where it is eval.success and nothing succeeds.",
    fix: "Drop it, or set its weight to 0 to keep monitoring it; one that should tell episodes apart is broken.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Some(played) = probe.played.known() else { return probe.played.skipped("episodes of the start policy") };
    let values = |name: &str| -> Vec<f64> { played.episodes().filter_map(|(_, trace)| trace.reward(name)).collect() };
    let one_value = |values: &[f64]| values.iter().all(|value| (value - values[0]).abs() < 1e-12);
    let totals = values(TOTAL);
    if totals.len() < 32 || one_value(&totals) {
        return Looked::skipped("32 scored episodes that do not all earn the same");
    }
    let Ok(rubric) = probe.recipe.rubric.build() else { return Looked::skipped("a rubric") };
    for (name, weight) in rubric.weights().filter(|(_, weight)| *weight > 0.0) {
        let values = values(name);
        if values.len() >= 32 && one_value(&values) {
            let says = format!("`{name}`, of weight {weight}, is {} in all {} episodes", values[0], values.len());
            if name == probe.recipe.eval.success && values[0] == 0.0 {
                return Finding::new(Severity::Warning, says)
                    .line("nothing succeeds: what the total varies by is all there is to learn from")
                    .fix("Begin with a policy that sometimes succeeds (`hone sft`) or with easier tasks, or pay for parts of success.")
                    .likely()
                    .into();
            }
            return Finding::new(Severity::Note, says).likely().into();
        }
    }
    Ok(Looked::Healthy)
}
