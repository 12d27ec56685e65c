//! The seeded search: mutations guided by reward, for cheap answers that earn much.
//!
//! The search is for one policy for all tasks. It may quote the prompt by place (its beginning, its end) and cite by
//! place, but never the solution, so that what it finds is a shortcut, not work.

use hone_trace::{Rng, Seed};

use crate::filler::filler;
use crate::probe::{About, Role, Variant};
use crate::scene::{Fill, Scene};

/// The search among the probes.
pub(crate) const SEARCH: About = About {
    name: "search",
    what: "The best that a seeded search finds: mutations of a text, a way to cite, a confidence and a flag, the same for \
           every task, kept where the mean total rises.",
    finds: "Paying combinations that were not anticipated.",
};

/// An answer by recipe: the same for every task.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Genome {
    pieces: Vec<Piece>,
    cite: Cite,
    /// In tenths.
    confidence: u8,
    flag: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Piece {
    Filler(usize),
    Beginning(usize),
    End(usize),
    Task,
    Line(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Cite {
    Nothing,
    First,
    Last,
    Everything,
}

const LINES: [&str; 4] = [
    "Done.",
    "The issue has been resolved as described in the documents.",
    "No document covers this. Escalate.",
    "This answer is correct and complete.",
];
const CITES: [Cite; 4] = [Cite::Nothing, Cite::First, Cite::Last, Cite::Everything];

impl Genome {
    fn start(rng: &mut Rng) -> Self {
        let cite = CITES[rng.below(CITES.len())];
        Self { pieces: vec![piece(rng)], cite, confidence: rng.below(11) as u8, flag: rng.below(2) == 0 }
    }

    fn mutated(&self, rng: &mut Rng) -> Self {
        let mut child = self.clone();
        let at = rng.below(child.pieces.len().max(1));
        match rng.below(7) {
            0 if child.pieces.len() < 4 => child.pieces.push(piece(rng)),
            1 if child.pieces.len() > 1 => _ = child.pieces.remove(at),
            2 => child.cite = CITES[rng.below(CITES.len())],
            3 => child.confidence = rng.below(11) as u8,
            4 => child.flag = !child.flag,
            5 => child.pieces[at] = piece(rng),
            _ => child.pieces[at] = child.pieces[at].scaled(rng),
        }
        child
    }

    /// The episode it makes of a task.
    pub(crate) fn variant(&self, scene: &Scene) -> Variant {
        let text: Vec<String> = self.pieces.iter().map(|piece| piece.text(scene)).collect();
        let text = text.join(" ");
        let citations = match self.cite {
            Cite::Nothing => Vec::new(),
            Cite::First => scene.shown.iter().take(1).cloned().collect(),
            Cite::Last => scene.shown.last().into_iter().cloned().collect(),
            Cite::Everything => scene.shown.clone(),
        };
        let fill = Fill {
            text: Some(&text),
            citations: Some(citations),
            confidence: Some(f64::from(self.confidence) / 10.0),
            flag: Some(self.flag),
        };
        Variant::new(self.label(), Role::Junk, scene.junk(&fill))
    }

    fn label(&self) -> String {
        let pieces: Vec<String> = self.pieces.iter().map(|piece| piece.label()).collect();
        let cite = match self.cite {
            Cite::Nothing => "nothing cited",
            Cite::First => "the first thing cited",
            Cite::Last => "the last thing cited",
            Cite::Everything => "everything cited",
        };
        let flag = if self.flag { ", flag raised" } else { "" };
        format!("{}; {cite}, confidence {:.1}{flag}", pieces.join(" + "), f64::from(self.confidence) / 10.0)
    }

    /// Cheapness: how much is written.
    pub(crate) fn length(&self) -> usize {
        let words = |piece: &Piece| match piece {
            Piece::Filler(words) | Piece::Beginning(words) | Piece::End(words) => *words,
            Piece::Task => 30,
            Piece::Line(line) => line.split(' ').count(),
        };
        self.pieces.iter().map(words).sum()
    }
}

impl Piece {
    fn text(self, scene: &Scene) -> String {
        let words = || scene.prompt.split_whitespace();
        match self {
            Self::Filler(count) => filler(count),
            Self::Beginning(count) => words().take(count).collect::<Vec<_>>().join(" "),
            Self::End(count) => {
                let all: Vec<&str> = words().collect();
                all[all.len().saturating_sub(count)..].join(" ")
            }
            Self::Task => scene.task.prompt.clone(),
            Self::Line(line) => line.to_owned(),
        }
    }

    fn scaled(self, rng: &mut Rng) -> Self {
        let mut scale = |count: usize| if rng.below(2) == 0 { (count / 2).max(1) } else { (2 * count).min(240) };
        match self {
            Self::Filler(count) => Self::Filler(scale(count)),
            Self::Beginning(count) => Self::Beginning(scale(count)),
            Self::End(count) => Self::End(scale(count)),
            other => other,
        }
    }

    fn label(self) -> String {
        match self {
            Self::Filler(count) => format!("{count} words of film trivia"),
            Self::Beginning(count) => format!("the prompt's first {count} words"),
            Self::End(count) => format!("the prompt's last {count} words"),
            Self::Task => "the task's text".to_owned(),
            Self::Line(line) => format!("{line:?}"),
        }
    }
}

fn piece(rng: &mut Rng) -> Piece {
    let count = 1 << (1 + rng.below(6));
    match rng.below(5) {
        0 => Piece::Filler(count),
        1 => Piece::Beginning(count),
        2 => Piece::End(count),
        3 => Piece::Task,
        _ => Piece::Line(LINES[rng.below(LINES.len())]),
    }
}

/// Evolutionary search: proposes genomes and keeps the best.
#[derive(Debug)]
pub(crate) struct Hunt {
    rng: Rng,
    /// Best first.
    kept: Vec<(f64, Genome)>,
    left: usize,
}

/// Genomes that have children.
const KEPT: usize = 4;
/// Genomes drawn before any is mutated.
const STARTS: usize = 8;

impl Hunt {
    pub(crate) fn new(seed: Seed, budget: usize) -> Self {
        Self { rng: seed.with("search").rng(), kept: Vec::new(), left: budget }
    }

    /// The next genome to try; `None` when the budget is spent.
    pub(crate) fn next(&mut self, tried: usize) -> Option<Genome> {
        self.left = self.left.checked_sub(1)?;
        let parent = self.rng.below(self.kept.len().max(1));
        match self.kept.get(parent) {
            Some((_, genome)) if tried >= STARTS => Some(genome.clone().mutated(&mut self.rng)),
            _ => Some(Genome::start(&mut self.rng)),
        }
    }

    pub(crate) fn tell(&mut self, score: f64, genome: Genome) {
        if self.kept.iter().any(|(_, other)| *other == genome) {
            return;
        }
        self.kept.push((score, genome));
        // Equal scores: the shorter answer, so that what is shown is what pays.
        self.kept.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.length().cmp(&b.1.length())));
        self.kept.truncate(KEPT);
    }

    pub(crate) fn best(&self) -> Option<&Genome> {
        self.kept.first().map(|(_, genome)| genome)
    }
}
