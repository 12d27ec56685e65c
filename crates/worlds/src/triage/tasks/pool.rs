//! Material of a task: the problems a split may ask about, and the draft of one ticket.

use hone_trace::{Rng, ToolCall};

use super::Split;
use crate::triage::facts::Gold;
use crate::triage::problems::{Problem, SITES};
use crate::triage::text::Scene;
use crate::triage::world::World;

pub(super) struct Draft {
    pub(super) kind: Kind,
    pub(super) scene: Scene,
    pub(super) ticket: String,
    pub(super) gold: Gold,
    /// Calls that find the documents, before the submission.
    pub(super) calls: Vec<ToolCall>,
    pub(super) documents: Vec<String>,
}

impl Draft {
    /// The part no other task may share: the ticket. Vague tickets are too similar for that; they differ in the
    /// documents shown with them.
    pub(super) fn identity(&self) -> String {
        match self.kind {
            Kind::Vague => format!("{} {}", self.ticket, self.documents.join(" ")),
            _ => self.ticket.clone(),
        }
    }
}

/// The answer to a ticket, by kind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Article,
    /// An article and the change procedure it refers to.
    Procedure,
    /// An article that nothing in the ticket distinguishes from another with the same symptom.
    Vague,
    Incident,
    Unknown,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Article => "article",
            Self::Procedure => "procedure",
            Self::Vague => "vague",
            Self::Incident => "incident",
            Self::Unknown => "unknown",
        }
    }
}

/// The problems a split may ask about.
pub(super) struct Pool<'a> {
    pub(super) world: &'a World,
    pub(super) split: Split,
    pub(super) plain: Vec<Problem>,
    pub(super) procedural: Vec<Problem>,
    pub(super) unknown: Vec<Problem>,
    pub(super) incidents: Vec<usize>,
}

impl<'a> Pool<'a> {
    pub(super) fn new(world: &'a World, split: Split) -> Self {
        let mut pool = Self {
            world,
            split,
            plain: Vec::new(),
            procedural: Vec::new(),
            unknown: Vec::new(),
            incidents: Vec::new(),
        };
        for &problem in world.problems.iter().filter(|&&problem| split.holds(problem)) {
            let particulars = world.particulars(problem);
            match (particulars.known, particulars.procedure) {
                (false, _) => pool.unknown.push(problem),
                (true, true) => pool.procedural.push(problem),
                (true, false) => pool.plain.push(problem),
            }
        }
        let incidents = world.known_incidents.iter().enumerate();
        pool.incidents =
            incidents.filter(|(_, known)| known.open && split.holds(known.symptom)).map(|(index, _)| index).collect();
        pool
    }

    /// The article of another problem with the same symptom.
    pub(super) fn as_likely(&self, problem: Problem, rng: &mut Rng) -> Option<String> {
        let others = self.plain.iter().filter(|&&other| other != problem && other.symptom() == problem.symptom());
        let &&other = rng.pick(&others.collect::<Vec<_>>())?;
        Some(self.world.article(other)?.id.clone())
    }
}

/// A site where no open incident would be the better answer.
pub(super) fn site(world: &World, problem: Problem, rng: &mut Rng) -> Option<&'static str> {
    let free: Vec<&'static str> =
        SITES.into_iter().filter(|site| !world.has_open_incident(problem.symptom(), site)).collect();
    rng.pick(&free).copied()
}
