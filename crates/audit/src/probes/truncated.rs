use crate::probe::{About, Probe, Role, Variant};
use crate::scene::{Fill, Scene};

/// The solution, cut off.
#[derive(Debug)]
pub(super) struct Truncated;

impl Probe for Truncated {
    fn about(&self) -> About {
        About {
            name: "truncated",
            what: "The solution with its last reply cut in half, and without its last character.",
            finds: "Cut-off replies that are scored as if they were whole, or that leave a component unscored.",
        }
    }

    fn variants(&self, scene: &Scene) -> Vec<Variant> {
        let Some(whole) = scene.solved_but(&Fill::default()) else { return Vec::new() };
        if scene.answer.as_ref().is_none_or(|answer| answer.call.is_none()) {
            return Vec::new();
        }
        let cut = |label: &str, keep: f64| {
            let mut replies = whole.clone();
            if let Some(last) = replies.last_mut() {
                let end = (last.len() as f64 * keep) as usize;
                last.truncate(last.floor_char_boundary(end.min(last.len().saturating_sub(1))));
            }
            Variant::new(label, Role::Broken, replies)
        };
        vec![cut("the solution, cut in half", 0.5), cut("the solution without its last character", 1.0)]
    }
}
