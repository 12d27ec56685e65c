use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::probe::{Part, Probe};

pub(super) const CHECK: Check<Probe> = Check {
    name: "model_directory",
    what: "The model directory lacks what turns messages into token ids.",
    measure: "tokenizer.json and the chat template, read as a run reads them. Error.",
    fix: "Save the model's tokenizer and chat template there: AutoTokenizer.from_pretrained(…).save_pretrained(DIR).",
    explains: &["opens", "call_format"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    match &probe.texts {
        Part::Known(_) => Ok(Looked::Healthy),
        Part::Broken(why) if probe.recipe.policy.model.is_some() => {
            Finding::new(Severity::Error, "the policy cannot read or write text").line(why.clone()).into()
        }
        other => other.skipped("policy.model"),
    }
}
