use crate::probe::{About, Probe, Role, Variant};
use crate::scene::{Fill, Scene};

/// The task's own solution.
#[derive(Debug)]
pub(super) struct Oracle;

impl Probe for Oracle {
    fn about(&self) -> About {
        About {
            name: "oracle",
            what: "Plays the task's own solution, as it stands and with full confidence.",
            finds: "Rewards whose best answer is not the right one.",
        }
    }

    fn variants(&self, scene: &Scene) -> Vec<Variant> {
        let mut variants = Vec::new();
        let whole = scene.moves.as_deref().and_then(|moves| scene.script(moves));
        variants.extend(whole.map(|replies| Variant::new("the solution", Role::Oracle, replies)));
        let sure = scene.answer.as_ref().is_some_and(|answer| answer.slots.confidence.is_some());
        let fill = Fill { confidence: Some(1.0), ..Fill::default() };
        if let Some(replies) = sure.then(|| scene.solved_but(&fill)).flatten() {
            variants.push(Variant::new("the solution, fully confident", Role::Oracle, replies));
        }
        variants
    }
}
