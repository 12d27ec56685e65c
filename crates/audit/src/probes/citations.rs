use crate::probe::{About, Probe, Role, Sweep, Variant};
use crate::scene::{Fill, Scene};

/// Right citations one by one, then wrong ones.
#[derive(Debug)]
pub(super) struct Citations;

impl Probe for Citations {
    fn about(&self) -> About {
        About {
            name: "citations",
            what: "The solution with none, some and all of its citations, then with wrong ones added one by one.",
            finds: "Citation rewards that fall when a right citation is added, or rise with a wrong one.",
        }
    }

    fn variants(&self, scene: &Scene) -> Vec<Variant> {
        let cites = scene.answer.as_ref().is_some_and(|answer| answer.slots.list.is_some());
        if !cites || scene.gold.is_empty() {
            return Vec::new();
        }
        let wrong: Vec<String> = scene.shown.iter().filter(|id| !scene.gold.contains(id)).cloned().collect();
        let with = |label: String, citations: Vec<String>, sweep, place: usize| {
            let fill = Fill { citations: Some(citations), ..Fill::default() };
            let replies = scene.solved_but(&fill)?;
            Some(Variant::new(label, Role::Defect, replies).at(sweep, place as f64))
        };
        let right = (0..=scene.gold.len()).filter_map(|count| {
            let label = format!("{count} of {} right citations", scene.gold.len());
            let role = if count == scene.gold.len() { Role::Dressed } else { Role::Defect };
            let variant = with(label, scene.gold[..count].to_vec(), Sweep::RightCitations, count)?;
            Some(Variant { role, ..variant })
        });
        let added = (1..=wrong.len().min(4)).filter_map(|count| {
            let citations = scene.gold.iter().chain(&wrong[..count]).cloned().collect();
            with(format!("{count} wrong citations beside the right ones"), citations, Sweep::WrongCitations, count)
        });
        right.chain(added).collect()
    }
}
