use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "small_evaluation",
    what: "The evaluation is too small to show the gains that runs make.",
    measure: "The half width of a 95 % interval at a success of one half, 0.98 / root of eval.tasks x eval.samples \
              at best. Note over 10 points.",
    fix: "Add held-out tasks: raise env.held_out, then eval.tasks. 256 tasks show a gain of about 6 points.",
    explains: &[],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let (eval, held_out) = (&probe.recipe.eval, probe.recipe.env.held_out());
    let episodes = eval.most_tasks().min(held_out) * eval.samples.max(1) as usize;
    let half = 0.98 / (episodes.max(1) as f64).sqrt();
    if half <= 0.1 {
        return Ok(Looked::Healthy);
    }
    Finding::new(
        Severity::Note,
        format!("{episodes} held-out episodes measure success with an error of up to {:.0} points", 100.0 * half),
    )
    .into()
}
