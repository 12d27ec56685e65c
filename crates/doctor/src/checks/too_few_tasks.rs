use hone_trace::rundir::RunDirError;
use hone_trace::signed;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "too_few_tasks",
    what: "Too few held-out tasks for the observed difference: it may be luck.",
    measure: "The paired 95 % interval of the sampled gain includes 0, and the gain is at least 2 points. Note, with the \
              number of tasks that would show a gain of this size.",
    fix: "Add held-out tasks: raise env.held_out, then eval.tasks. Or sample each task several times with eval.samples.",
    explains: &[],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let Some(judgement) = &run.report.held_out.judgement else {
        return Looked::skipped("an evaluation before and one after training");
    };
    let gain = judgement.sampled;
    if gain.is_gain() || gain.mean < 0.02 {
        return Ok(Looked::Healthy);
    }
    let says = format!(
        "the gain of {} on {} tasks may be luck: [{}]",
        signed(gain.mean),
        gain.tasks,
        gain.ci.map(signed).join(", ")
    );
    let mut finding = Finding::new(Severity::Note, says);
    if let Some(needed) = gain.tasks_needed() {
        finding = finding.line(format!("about {needed} tasks would show a gain of this size"));
    }
    finding.into()
}
