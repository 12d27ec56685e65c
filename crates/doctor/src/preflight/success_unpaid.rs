use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "success_unpaid",
    what: "The success component is not rewarded.",
    measure: "The weight of eval.success in the rubric, products and argument credit included. Warning at 0.",
    fix: "Give the success component a weight, or set eval.success to one that is paid.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let Ok(rubric) = probe.recipe.rubric.build() else { return Looked::skipped("a rubric that can be built") };
    let success = &probe.recipe.eval.success;
    let weight = rubric.weights().find(|(name, _)| name == success).map(|(_, weight)| weight);
    let factor = probe.recipe.rubric.product.iter().any(|product| product.of.contains(success));
    let gate = probe.recipe.rubric.component.iter().any(|component| {
        let named = |key: &str| component.get(key).and_then(serde_json::Value::as_str) == Some(success);
        component.contains_key("gate") && (named("name") || named("kind"))
    });
    if weight == Some(0.0) && !factor && !gate {
        let paid: Vec<&str> = rubric.weights().filter(|(_, weight)| *weight > 0.0).map(|(name, _)| name).collect();
        let says = format!("success is `{success}`, which has no weight; paid are {}", paid.join(", "));
        return Finding::new(Severity::Warning, says).into();
    }
    Ok(Looked::Healthy)
}
