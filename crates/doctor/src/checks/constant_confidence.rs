use hone_trace::rundir::RunDirError;
use hone_train::report::EpisodeSet;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "constant_confidence",
    what: "A calibration reward that a constant confidence would earn: the policy does not know when it is right.",
    measure: "Brier skill over the base rate on held-out tasks after training: its 95 % interval does not lie above 0, \
              while a calibration component is paid. Warning.",
    fix: "Pay for resolution (`credit.skill_over`), and include tasks whose answer cannot be known.",
    explains: &[],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let held_out = run.report.calibration.iter().filter(|(set, _)| matches!(set, EpisodeSet::HeldOut { .. }));
    let Some((set, calibration)) = held_out.max_by_key(|(set, _)| **set) else {
        return Looked::skipped("stated confidences on held-out tasks");
    };
    let Some(skill) = calibration.skill else { return Looked::skipped("answers that did not all come out alike") };
    if calibration.is_skilled() {
        return Ok(Looked::Healthy);
    }
    let mut finding = Finding::new(Severity::Warning, format!("{set}: {}", calibration.verdict()))
        .line(format!("resolution {:.4} of an uncertainty of {:.4}", calibration.resolution, calibration.uncertainty))
        .line(format!("permutation p-value of the resolution: {:.3}", skill.resolution_p));
    if let Some(change) = calibration.change {
        finding = finding.line(format!(
            "the reward changed by {:+.4}: {:+.4} because of accuracy, {:+.4} because of the confidences",
            change.total, change.accuracy, change.confidence
        ));
    }
    finding.into()
}
