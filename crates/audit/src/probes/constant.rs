use super::TENTHS;
use crate::filler::filler;
use crate::probe::{About, Mark, Probe, Role, Variant};
use crate::scene::{Fill, Scene};

/// Junk at one confidence, whatever the task.
#[derive(Debug)]
pub(super) struct Constant;

impl Probe for Constant {
    fn about(&self) -> About {
        About {
            name: "constant",
            what: "Film trivia of the solution's length, nothing cited, at one confidence for every task.",
            finds: "Calibration rewards that a constant confidence earns.",
        }
    }

    fn variants(&self, scene: &Scene) -> Vec<Variant> {
        let Some(answer) = scene.answer.as_ref().filter(|answer| answer.slots.confidence.is_some()) else {
            return Vec::new();
        };
        let text = filler(answer.text.split_whitespace().count());
        let at = |confidence: f64| {
            let fill = Fill {
                text: Some(&text),
                citations: Some(Vec::new()),
                confidence: Some(confidence),
                flag: Some(false),
            };
            let label = format!("film trivia, confidence always {confidence}");
            let variant = Variant::new(label, Role::Junk, scene.junk(&fill));
            if confidence == 0.0 { variant.marked(Mark::NothingCited) } else { variant }
        };
        TENTHS.map(at).into()
    }
}
