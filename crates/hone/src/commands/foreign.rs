//! Records of other trainers, for the commands that read runs.

use std::path::Path;

use anyhow::Result;
use hone_doctor::{CHECKS, Check, Diagnosis, Run, Skipped, diagnose};
use hone_trace::rundir::is_recorded;

/// Diagnosis of another trainer's record; `None` for one of our own run directories. Checks that the record cannot
/// answer are skipped, and say what they need.
pub(super) fn diagnosed(path: &Path) -> Result<Option<Diagnosis>> {
    // Our own, even if the recipe is gone: reading it is refused then.
    if path.join("recipe.toml").is_file() || is_recorded(path) {
        return Ok(None);
    }
    let record = hone_foreign::read(path)?;
    let (steps, episodes) = (record.steps().len(), record.episodes.len());
    crate::output::note!(
        "{}: {episodes} episodes and the curves of {} steps, over {steps} steps",
        record.format,
        record.curves.len()
    );
    for note in &record.notes {
        crate::output::note!("  {note}");
    }
    let scratch = crate::scratch::Scratch::new()?;
    hone_foreign::write_run(&record, scratch.path())?;
    let able: Vec<Check> = CHECKS.iter().copied().filter(|check| record.lacks(check.name).is_none()).collect();
    let mut diagnosis = diagnose(&able, &Run::read(scratch.path())?)?;
    let lacking = CHECKS.iter().filter_map(|check| Some((check.name, record.lacks(check.name)?)));
    diagnosis.skipped.extend(lacking.map(|(check, needs)| Skipped { check, needs: needs.to_owned() }));
    Ok(Some(diagnosis))
}
