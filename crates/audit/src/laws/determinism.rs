use crate::evidence::Evidence;
use crate::law::{Breach, Checked, Law, LawText, if_paid};

/// The same episode earns the same.
#[derive(Debug)]
pub(super) struct Determinism;

impl Law for Determinism {
    fn about(&self) -> LawText {
        LawText {
            name: "determinism",
            law: "The same replies to the same task earn the same, and scoring a record again gives the recorded \
                  values.",
            measure: "Solutions, trivia and echoes of four tasks, played a second time with the same seed and scored a second \
                      time from the record. Any difference over 1e-9.",
            repair: "Seed the scorer by the case, read no clock and no counter; for a judge set `temperature = 0`, and watch \
                     it at `weight = 0` until its scores agree.",
            explains: &["oracle_is_best"],
        }
    }

    fn check(&self, evidence: &Evidence) -> Checked {
        if evidence.repeats.is_empty() {
            return Checked::Skipped("an episode that does not break".into());
        }
        let differs = |first: Option<f64>, second: Option<f64>| match (first, second) {
            (Some(first), Some(second)) => (first - second).abs() > 1e-9,
            (first, second) => first.is_some() != second.is_some(),
        };
        let mut breaches = Vec::new();
        for component in &evidence.components {
            let mine = || evidence.repeats.iter().filter(|repeat| repeat.component == component.name);
            let different: Vec<_> = mine().filter(|repeat| differs(repeat.first, repeat.second)).collect();
            let Some(repeat) = different.first() else { continue };
            let shown = |value: Option<f64>| value.map_or("unscored".to_owned(), |value| format!("{value:.4}"));
            let how = if repeat.played { "played again" } else { "scored again from its record" };
            let says = format!(
                "`{}` gave {} and, {how}, {} for {}",
                component.name,
                shown(repeat.first),
                shown(repeat.second),
                repeat.label
            );
            let line = format!("{} of {} repetitions differ", different.len(), mine().count());
            breaches.push(Breach::new(if_paid(evidence, &component.name), &component.name, says).line(line));
        }
        Checked::of(breaches)
    }
}
