//! Checks before the first step, one file each. The order is that of a pipeline: an earlier fault explains a later one.

use hone_trace::entries;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::diagnosis::{Diagnosis, Skipped, diagnose};
use crate::probe::{Probe, RefusalKind};

entries! {
    /// Preflight checks, causes before consequences.
    pub static PREFLIGHT: [Check<Probe>];
    mod recipe: CHECK;
    mod waivers: CHECK;
    mod model_directory: CHECK;
    mod environment_opens: CHECK;
    mod tool_schemas: CHECK;
    mod tools_in_prompt: CHECK;
    mod append_only: CHECK;
    mod tool_results: CHECK;
    mod template: CHECK;
    mod reasoning_stripped: CHECK;
    mod call_format: CHECK;
    mod vocabulary: CHECK;
    mod opens: CHECK;
    mod leaked_instances: CHECK;
    mod script_faults: CHECK;
    mod kept_state: CHECK;
    mod determinism: CHECK;
    mod isolation: CHECK;
    mod answer_roles: CHECK;
    mod failed_answers: CHECK;
    mod never_done: CHECK;
    mod reference_fails: CHECK;
    mod do_nothing: CHECK;
    mod no_op_tasks: CHECK;
    mod after_done: CHECK;
    mod unanswered_calls: CHECK;
    mod latency: CHECK;
    mod context: CHECK;
    mod host_date: CHECK;
    mod placeholders: CHECK;
    mod held_out_overlap: CHECK;
    mod repeated_tasks: CHECK;
    mod learning_rate: CHECK;
    mod inert_keys: CHECK;
    mod temperature: CHECK;
    mod sampling_filters: CHECK;
    mod decoding_filter: CHECK;
    mod success_unpaid: CHECK;
    mod small_groups: CHECK;
    mod small_evaluation: CHECK;
    mod budget: CHECK;
    mod faulted: CHECK;
    mod unscored: CHECK;
    mod calls_as_text: CHECK;
    mod parse_failures: CHECK;
    mod no_calls: CHECK;
    mod calls_not_run: CHECK;
    mod truncated: CHECK;
    mod identical_rollouts: CHECK;
    mod no_signal: CHECK;
    mod constant_component: CHECK;
    mod reward_scale: CHECK;
    mod logprob_mismatch: CHECK;
    mod sampler_follows: CHECK;
    mod time: CHECK;
}

/// Makes every check before the first step, with the recipe's waivers. A recipe that cannot be read leaves nothing else to
/// look at.
pub fn preflight(probe: &Probe) -> Result<Diagnosis, RunDirError> {
    let made = if probe.unreadable.is_some() { 1 } else { PREFLIGHT.len() };
    let mut diagnosis = diagnose(&PREFLIGHT[..made], probe)?;
    let left = PREFLIGHT[made..].iter();
    diagnosis
        .skipped
        .extend(left.map(|check| Skipped { check: check.name, needs: "a recipe that can be read".into() }));
    Ok(diagnosis.waive(&probe.recipe.doctor.waive))
}

/// The measurement of checks that look at a template beyond the first prompt.
const FOLLOWED: &str = "The first prompt of one task per environment, rendered with its tools, and rendered again once a reply \
                        and a tool's answer follow. Error.";

/// The first prompt that the chat template refuses in one way: an error, which `says` states of its task.
fn refused(probe: &Probe, kind: RefusalKind, says: fn(&str) -> String) -> Result<Looked, RunDirError> {
    let Some(world) = probe.world.known() else { return probe.world.skipped("an environment that opens") };
    let mut refusals = world.openings.iter().filter_map(|opening| Some((opening, opening.refusal.as_ref()?)));
    if let Some((opening, refusal)) = refusals.find(|(_, refusal)| refusal.kind == kind) {
        return Finding::new(Severity::Error, says(&opening.task)).line(refusal.words.clone()).into();
    }
    if world.openings.iter().all(|opening| opening.rendered.known().is_none() && opening.refusal.is_none()) {
        return Looked::skipped("a rendered prompt");
    }
    Ok(Looked::Healthy)
}
