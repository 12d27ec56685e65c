use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "learning_rate",
    what: "The learning rate is 0, close to 0, or implausibly large.",
    measure: "The highest rate of the schedule over the run's steps. Error at 0 and over 0.05; warning under 1e-8, \
              over 1e-2, and over 1e-4 for a billion parameters and more without an adapter.",
    fix: "Set train.learning_rate: 1e-6 to 1e-5 for billions of parameters, 1e-4 to 1e-3 for a million.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let train = &probe.recipe.train;
    let schedule = train.schedule();
    let most = (1..=train.steps.min(10_000)).map(|step| schedule.at(step)).fold(0.0, f64::max);
    let parameters = probe.budget.as_ref().and_then(|budget| budget.memory).map(|memory| memory.parts.parameters);
    let whole = probe.recipe.policy.lora.is_none();
    let found = |severity, says: String| Finding::new(severity, says).into();
    if train.steps == 0 {
        let finding = Finding::new(Severity::Error, "train.steps is 0: nothing is trained");
        return finding.fix("Set train.steps; `hone eval` measures a policy without training it.").into();
    }
    if most == 0.0 {
        return found(
            Severity::Error,
            format!("the learning rate is 0 at all {} steps: nothing can change", train.steps),
        );
    }
    if !(most.is_finite() && most <= 0.05) {
        return found(
            Severity::Error,
            format!("the learning rate reaches {most}: AdamW moves every weight by that much a step"),
        );
    }
    if most < 0.5 * train.rate() {
        let says = format!(
            "the rate reaches {most:.1e} of {:.1e}: train.warmup = {} does not end within {} steps",
            train.rate(),
            train.warmup,
            train.steps
        );
        return found(Severity::Warning, says);
    }
    if most < 1e-8 {
        return found(
            Severity::Warning,
            format!("the learning rate is at most {most:.1e}: the policy will hardly move"),
        );
    }
    if most > 1e-2 {
        return found(
            Severity::Warning,
            format!("the learning rate reaches {most:.1e}, more than any policy here has learned at"),
        );
    }
    match parameters {
        Some(count) if whole && count >= 1_000_000_000 && most > 1e-4 => {
            let says = format!("the learning rate reaches {most:.1e} for {:.1} billion parameters", count as f64 / 1e9);
            found(Severity::Warning, says)
        }
        _ => Ok(Looked::Healthy),
    }
}
