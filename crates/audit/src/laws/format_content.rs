use hone_trace::Outcome;

use crate::evidence::{Evidence, Played, mean};
use crate::law::{Breach, Checked, Law, LawText, if_paid};
use crate::probe::Sweep;

/// Form does not read content.
#[derive(Debug)]
pub(super) struct FormatContent;

impl Law for FormatContent {
    fn about(&self) -> LawText {
        LawText {
            name: "format_content",
            law: "A format component has one value for one form, whatever the fields say.",
            measure: "Components of kind `format`, or with \"format\" in their name, over valid answers that say one letter, \
                      one word and up to a paragraph and meet no limit: values that differ on one task.",
            repair: "`kind = \"format\"`: seven steps from one call span to no extra keys, none of which looks at a \
                     field's content. What a text must contain belongs in a content component.",
            explains: &[],
        }
    }

    fn check(&self, evidence: &Evidence) -> Checked {
        let (mut breaches, mut seen) = (Vec::new(), false);
        // A reply that met a limit has another form.
        let whole = |played: &Played| !matches!(played.trace.outcome, Outcome::Truncated { .. });
        for component in evidence.components.iter().filter(|component| component.is_format()) {
            let name = component.name.as_str();
            let differs = |task: usize| {
                let curve = evidence.curve(Sweep::Contents, name, |played| played.task == task && whole(played));
                let low = curve.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
                let high = curve.iter().map(|(_, value)| *value).fold(f64::NEG_INFINITY, f64::max);
                (curve.len() > 1).then_some(high - low)
            };
            let differences: Vec<f64> = (0..evidence.tasks).filter_map(differs).collect();
            seen |= !differences.is_empty();
            let Some(difference) = mean(differences.iter().copied()).filter(|mean| *mean > 1e-6) else { continue };
            let says =
                format!("`{name}` changes by {difference:.2} with what the fields say, in a form that stays the same");
            let labels = evidence
                .episodes()
                .filter(|played| played.task == 0 && matches!(played.point, Some((Sweep::Contents, _))));
            let shown = labels.filter_map(|played| Some(format!("{}: {:.2}", played.label, played.value(name)?)));
            let breach = Breach::new(if_paid(evidence, name), name, says);
            breaches.push(shown.fold(breach, Breach::line));
        }
        if seen {
            Checked::of(breaches)
        } else {
            Checked::Skipped("a format component, and an answer with a place for text".into())
        }
    }
}
