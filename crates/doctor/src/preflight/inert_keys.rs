use hone_trace::rundir::RunDirError;
use hone_train::plan::ZeroVariance;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "inert_keys",
    what: "Some keys of the recipe have no effect.",
    measure: "Keys that the recipe sets, against what the run will do: a clip or a mask where the ratio is 1 by \
              construction, a KL of coefficient 0, a reference nothing compares with, and the like. Warning.",
    fix: "Leave the key out, or change the setting that disables it.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let dead = dead(probe);
    let Some((key, why)) = dead.first() else { return Ok(Looked::Healthy) };
    let says = match dead.len() {
        1 => format!("`{key}` does nothing here: {why}"),
        more => format!("{more} keys do nothing here"),
    };
    let lines = dead.iter().filter(|_| dead.len() > 1).map(|(key, why)| format!("`{key}`: {why}"));
    Finding::new(Severity::Warning, says).lines(lines.collect::<Vec<_>>()).into()
}

/// Keys without effect, and why.
fn dead(probe: &Probe) -> Vec<(&'static str, String)> {
    let (recipe, train) = (&probe.recipe, &probe.recipe.train);
    let given = |key: &str| probe.given.contains(key);
    let mut dead: Vec<(&'static str, String)> = Vec::new();
    let mut note = |key: &'static str, holds: bool, why: &str| {
        if holds {
            dead.push((key, why.to_owned()));
        }
    };
    let sequences = train.groups * train.group_size as usize;
    let one_step = train.epochs_per_batch <= 1 && (train.mini_batch == 0 || train.mini_batch >= sequences);
    let fresh = one_step && recipe.overlap.staleness == 0;
    let ratio = "there is one optimizer step a batch, so the ratio is 1 and nothing is ever clipped; lower train.mini_batch or \
                 raise train.epochs_per_batch";
    for key in ["loss.clip_low", "loss.clip_high", "loss.clip", "loss.off_policy_mask"] {
        note(key, fresh && given(key), ratio);
    }
    note(
        "loss.correction",
        recipe.overlap.staleness == 0 && recipe.loss.correction.is_some() && recipe.engine.kind == "native",
        "the sampler's and the learner's logprobs are bit-identical on this engine",
    );
    let penalised = recipe.loss.kl.is_some_and(|kl| kl.coefficient != 0.0);
    note("loss.kl", recipe.loss.kl.is_some_and(|kl| kl.coefficient == 0.0), "its coefficient is 0");
    note(
        "kl_reward",
        recipe.kl_reward.is_some_and(|kl| kl.coefficient == 0.0 && kl.target.is_none()),
        "its coefficient is 0",
    );
    note(
        "policy.reference",
        recipe.policy.reference.is_some() && !penalised && recipe.kl_reward.is_none(),
        "nothing compares with it: there is no KL in the loss or the reward",
    );
    note(
        "async.learner_threads",
        recipe.overlap.learner_threads > 0 && recipe.overlap.staleness == 0,
        "with async.staleness = 0 sampler and learner take turns on all threads",
    );
    let filtered = recipe.sampling.truncates();
    note("eval.filters", recipe.eval.filters && !filtered, "the recipe has no top_k, top_p or min_p");
    note(
        "plan.rounds",
        given("plan.rounds") && recipe.plan.zero_variance != ZeroVariance::Replace,
        "it counts only with plan.zero_variance = \"replace\"",
    );
    note(
        "train.mini_batch",
        train.mini_batch >= sequences && train.mini_batch > 0,
        "a step has no more sequences than that",
    );
    note("eval.every", recipe.eval.every > train.steps, "the run is shorter than that");
    note("checkpoint.every", recipe.checkpoint.every > train.steps, "the run is shorter than that");
    note(
        "train.max_grad_norm",
        given("train.max_grad_norm") && train.max_grad_norm >= 1e6,
        "no gradient is that large",
    );
    dead
}
