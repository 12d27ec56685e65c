//! The checks, one file each. The order is that of a pipeline: an earlier fault explains a later one.

mod calls_not_run;
mod constant_confidence;
mod dead_component;
mod decoding_filter;
mod do_nothing;
mod entropy_collapse;
mod faulted;
mod gradients;
mod held_out_overlap;
mod identical_rollouts;
mod kl_runaway;
mod learning_rate;
mod length_paid;
mod logprob_mismatch;
mod no_recovery;
mod no_signal;
mod nothing_trained;
mod parse_failures;
mod placebo_collapse;
mod rejection_weighted;
mod reward_without_success;
mod scripted_shortcut;
mod shared_gate;
mod sharpening;
mod staleness;
mod too_few_tasks;
pub(crate) mod truncated;
mod unscored;

use crate::check::Check;

/// All checks.
pub static CHECKS: &[Check] = &[
    faulted::CHECK,
    unscored::CHECK,
    parse_failures::CHECK,
    calls_not_run::CHECK,
    truncated::CHECK,
    identical_rollouts::CHECK,
    learning_rate::CHECK,
    no_signal::CHECK,
    nothing_trained::CHECK,
    logprob_mismatch::CHECK,
    staleness::CHECK,
    gradients::CHECK,
    kl_runaway::CHECK,
    entropy_collapse::CHECK,
    dead_component::CHECK,
    shared_gate::CHECK,
    constant_confidence::CHECK,
    length_paid::CHECK,
    reward_without_success::CHECK,
    rejection_weighted::CHECK,
    held_out_overlap::CHECK,
    decoding_filter::CHECK,
    do_nothing::CHECK,
    scripted_shortcut::CHECK,
    no_recovery::CHECK,
    sharpening::CHECK,
    placebo_collapse::CHECK,
    too_few_tasks::CHECK,
];

/// A share in words: `12 of 128 (9.4 %)`.
pub(crate) fn share(part: usize, of: usize) -> String {
    format!("{part} of {of} ({:.1} %)", 100.0 * part as f64 / of.max(1) as f64)
}
