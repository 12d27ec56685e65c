use super::TENTHS;
use super::defect::spoilt;
use crate::probe::{About, Probe, Role, Sweep, Variant};
use crate::scene::{Fill, Scene};

/// Every tenth of confidence on a right and on a wrong answer.
#[derive(Debug)]
pub(super) struct Confidence;

impl Probe for Confidence {
    fn about(&self) -> About {
        About {
            name: "confidence",
            what: "The solution, and the solution with one figure or word wrong, each stated with confidences from 0 to 1.",
            finds: "Improper scoring rules: clamps that bind, targets that are graded, and weights that pay for being \
                    predictably wrong.",
        }
    }

    fn variants(&self, scene: &Scene) -> Vec<Variant> {
        let Some(answer) = scene.answer.as_ref().filter(|answer| answer.slots.confidence.is_some()) else {
            return Vec::new();
        };
        let wrong = spoilt(&answer.text);
        let mut variants = Vec::new();
        for confidence in TENTHS {
            let right = Fill { confidence: Some(confidence), ..Fill::default() };
            let spoilt = Fill { text: wrong.as_deref(), ..right.clone() };
            let right = scene.solved_but(&right).map(|replies| {
                let label = format!("the solution at confidence {confidence}");
                Variant::new(label, Role::Dressed, replies).at(Sweep::ConfidenceRight, confidence)
            });
            let wrong = wrong.as_ref().and_then(|_| scene.solved_but(&spoilt)).map(|replies| {
                let label = format!("a wrong answer at confidence {confidence}");
                Variant::new(label, Role::Defect, replies).at(Sweep::ConfidenceWrong, confidence)
            });
            variants.extend(right.into_iter().chain(wrong));
        }
        variants
    }
}
