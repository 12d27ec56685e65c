//! Checks before the first step, one file each. The order is that of a pipeline: an earlier fault explains a later one.

mod after_done;
mod append_only;
mod budget;
mod call_format;
mod calls_as_text;
mod calls_not_run;
mod constant_component;
mod context;
mod decoding_filter;
mod determinism;
mod do_nothing;
mod environment_opens;
mod faulted;
mod held_out_overlap;
mod host_date;
mod identical_rollouts;
mod inert_keys;
mod isolation;
mod kept_state;
mod latency;
mod learning_rate;
mod logprob_mismatch;
mod model_directory;
mod never_done;
mod no_calls;
mod no_op_tasks;
mod no_signal;
mod opens;
mod parse_failures;
mod placeholders;
mod reasoning_stripped;
mod recipe;
mod reference_fails;
mod repeated_tasks;
mod reward_scale;
mod sampler_follows;
mod sampling_filters;
mod script_faults;
mod small_evaluation;
mod small_groups;
mod success_unpaid;
mod temperature;
mod template;
mod time;
mod tool_results;
mod tool_schemas;
mod tools_in_prompt;
mod truncated;
mod unanswered_calls;
mod unscored;
mod vocabulary;
mod waivers;

use hone_trace::rundir::RunDirError;

use crate::check::Check;
use crate::diagnosis::{Diagnosis, Skipped, diagnose};
use crate::probe::Probe;

/// All of them.
pub static PREFLIGHT: &[Check<Probe>] = &[
    recipe::CHECK,
    waivers::CHECK,
    model_directory::CHECK,
    environment_opens::CHECK,
    tool_schemas::CHECK,
    tools_in_prompt::CHECK,
    append_only::CHECK,
    tool_results::CHECK,
    template::CHECK,
    reasoning_stripped::CHECK,
    call_format::CHECK,
    vocabulary::CHECK,
    opens::CHECK,
    script_faults::CHECK,
    kept_state::CHECK,
    determinism::CHECK,
    isolation::CHECK,
    never_done::CHECK,
    reference_fails::CHECK,
    do_nothing::CHECK,
    no_op_tasks::CHECK,
    after_done::CHECK,
    unanswered_calls::CHECK,
    latency::CHECK,
    context::CHECK,
    host_date::CHECK,
    placeholders::CHECK,
    held_out_overlap::CHECK,
    repeated_tasks::CHECK,
    learning_rate::CHECK,
    inert_keys::CHECK,
    temperature::CHECK,
    sampling_filters::CHECK,
    decoding_filter::CHECK,
    success_unpaid::CHECK,
    small_groups::CHECK,
    small_evaluation::CHECK,
    budget::CHECK,
    faulted::CHECK,
    unscored::CHECK,
    calls_as_text::CHECK,
    parse_failures::CHECK,
    no_calls::CHECK,
    calls_not_run::CHECK,
    truncated::CHECK,
    identical_rollouts::CHECK,
    no_signal::CHECK,
    constant_component::CHECK,
    reward_scale::CHECK,
    logprob_mismatch::CHECK,
    sampler_follows::CHECK,
    time::CHECK,
];

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
