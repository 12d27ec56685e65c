//! The audit against rubrics that are known: our own, a published one, and one with a fault each.
#![expect(clippy::unwrap_used, reason = "tests")]

mod page;
mod rubrics;
mod stage;
mod twins;

use std::path::{Path, PathBuf};

use hone_audit::{Audit, LAWS, Options, PROBES, Severity, Subject, audit, write_texts};
use hone_train::recipe::Recipe;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A recipe of the tree on few tasks.
fn recipe(path: &str) -> Recipe {
    let text = std::fs::read_to_string(root().join(path)).unwrap();
    // Programs of a recipe run from the repository's directory.
    let text = text.replace("kind = \"stdio\"", &format!("kind = \"stdio\"\ndirectory = \"{}\"", root().display()));
    // A tokenizer trained on few tasks takes more tokens for a call than the policy's own.
    let few = ["env.tasks=48", "env.held_out=8", "eval.tasks=8", "train.groups=8"];
    let roomy = ["sampling.max_new_tokens=512", "rollout.window=16384"];
    let few: Vec<String> = few.iter().chain(&roomy).map(|&setting| setting.to_owned()).collect();
    Recipe::parse(&text, &few).unwrap()
}

const FEW: Options = Options { tasks: 8, search: 16, group_size: 0, seed: 0 };

async fn audited(subject: &Subject) -> Audit {
    let texts = tempfile::tempdir().unwrap();
    write_texts(&*subject.arena, &subject.tasks, texts.path()).await.unwrap();
    audit(subject, texts.path(), FEW, PROBES, LAWS, &mut |_| ()).await.unwrap()
}

/// The laws that are broken by what is paid.
fn broken(audit: &Audit) -> Vec<&str> {
    let errors = audit.findings.iter().filter(|finding| finding.breach.severity == Severity::Error);
    let mut laws: Vec<&str> = errors.map(|finding| finding.law).collect();
    laws.dedup();
    laws
}
