//! Evidence: every episode that was played, and the questions laws ask of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use hone_arena::rewards::{Rubric, TOTAL};
use hone_trace::{Outcome, Trace};
use hone_train::recipe::Recipe;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::probe::{Mark, Role, Sweep};

/// A component of the rubric, or a product.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Component {
    pub name: String,
    /// Its entry in the catalogue; absent for a product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    pub weight: f64,
    /// True when it moves the policy: by its weight, as a factor or a gate, or through `credit.arguments`.
    pub paid: bool,
}

impl Component {
    /// The components of a recipe's rubric, products last.
    pub(crate) fn of(rubric: &Rubric, recipe: &Recipe) -> Vec<Self> {
        let text = |table: &Map<String, Value>, key: &str| Some(table.get(key)?.as_str()?.to_owned());
        let table = |name: &str| {
            let mut tables = recipe.rubric.component.iter();
            tables.find(|table| text(table, "name").or_else(|| text(table, "kind")).as_deref() == Some(name))
        };
        let paid = |name: &str, weight: f64| {
            let mut products = recipe.rubric.product.iter();
            weight > 0.0
                || table(name).is_some_and(|table| table.contains_key("gate"))
                || products.any(|product| product.weight > 0.0 && product.of.iter().any(|factor| factor == name))
                || recipe.credit.arguments.values().any(|component| component == name)
        };
        rubric
            .weights()
            .map(|(name, weight)| Self {
                name: name.to_owned(),
                kind: table(name).and_then(|table| text(table, "kind")),
                weight,
                paid: paid(name, weight),
            })
            .collect()
    }

    /// True when it says that it measures form alone.
    pub(crate) fn is_format(&self) -> bool {
        self.kind.as_deref() == Some("format") || self.name.to_lowercase().contains("format")
    }
}

/// One played episode.
#[derive(Debug, Clone)]
pub(crate) struct Played {
    pub(crate) probe: &'static str,
    pub(crate) label: String,
    pub(crate) role: Role,
    pub(crate) point: Option<(Sweep, f64)>,
    pub(crate) mark: Option<Mark>,
    pub(crate) task: usize,
    pub(crate) replies: Vec<String>,
    pub(crate) trace: Trace,
}

impl Played {
    pub(crate) fn value(&self, component: &str) -> Option<f64> {
        self.trace.reward(component)
    }

    /// Verdict of the environment's own test, confidence and wording aside.
    pub(crate) fn solved(&self, success: &str) -> Option<bool> {
        let fact = |key: &str| self.trace.facts.get(key).and_then(Value::as_bool);
        let finished = self.trace.outcome == Outcome::Finished;
        let by_facts = fact("correct").or_else(|| fact("db_match").map(|right| right && finished));
        by_facts.or_else(|| Some(self.value(success)? == 1.0))
    }

    pub(crate) fn is_fault(&self) -> bool {
        matches!(self.trace.outcome, Outcome::Fault { .. })
    }
}

/// The same episode, valued twice.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Repeat {
    pub(crate) label: String,
    pub(crate) component: String,
    pub(crate) first: Option<f64>,
    pub(crate) second: Option<f64>,
    /// Played again; else scored again from its record.
    pub(crate) played: bool,
}

/// All that was played.
#[derive(Debug, Default)]
pub struct Evidence {
    pub(crate) components: Vec<Component>,
    /// The component whose value of 1 is success.
    pub(crate) success: String,
    pub(crate) tasks: usize,
    /// Tokens of a whole episode.
    pub(crate) window: usize,
    pub(crate) played: Vec<Played>,
    pub(crate) repeats: Vec<Repeat>,
    /// Indices of each task's solutions in `played`.
    solutions: OnceLock<HashMap<usize, Vec<usize>>>,
}

/// One probe's variant over all tasks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    pub probe: &'static str,
    pub label: String,
    pub role: Role,
    pub tasks: usize,
    /// Mean value by component, including the total. An unscored component is absent.
    pub means: BTreeMap<String, f64>,
    /// Share that the environment's own test finds right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub solved: Option<f64>,
    /// Its place on a curve: what is varied, and how much of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub point: Option<(Sweep, f64)>,
    #[serde(skip)]
    pub(crate) mark: Option<Mark>,
}

impl Line {
    pub(crate) fn total(&self) -> Option<f64> {
        self.means.get(TOTAL).copied()
    }
}

impl Evidence {
    /// Components that move the policy, and the total.
    pub(crate) fn paid(&self) -> impl Iterator<Item = &str> {
        let paid = self.components.iter().filter(|component| component.paid).map(|component| component.name.as_str());
        paid.chain([TOTAL])
    }

    /// Episodes that tell something about the rewards.
    pub(crate) fn episodes(&self) -> impl Iterator<Item = &Played> {
        self.played.iter().filter(|played| !played.is_fault())
    }

    /// Episodes of one mark.
    pub(crate) fn marked(&self, mark: Mark) -> impl Iterator<Item = &Played> {
        self.episodes().filter(move |played| played.mark == Some(mark))
    }

    /// Evidence of nothing yet.
    pub(crate) fn new(components: Vec<Component>, success: &str, tasks: usize) -> Self {
        Self { components, success: success.to_owned(), tasks, ..Self::default() }
    }

    /// The most that the solution of a task earned of a component. Asked only when everything is played.
    pub(crate) fn oracle(&self, task: usize, component: &str) -> Option<f64> {
        let solutions = self.solutions.get_or_init(|| {
            let mut solutions: HashMap<usize, Vec<usize>> = HashMap::new();
            for (at, played) in self.played.iter().enumerate() {
                if played.role == Role::Oracle && !played.is_fault() {
                    solutions.entry(played.task).or_default().push(at);
                }
            }
            solutions
        });
        let mine = solutions.get(&task)?.iter().filter_map(|&at| self.played[at].value(component));
        mine.max_by(f64::total_cmp)
    }

    /// Mean over tasks of what the solution earns.
    pub(crate) fn oracle_mean(&self, component: &str) -> Option<f64> {
        mean((0..self.tasks).filter_map(|task| self.oracle(task, component)))
    }

    /// Mean over tasks of what an empty reply earns: the zero of the scale on which junk is measured.
    pub(crate) fn nothing(&self) -> Option<f64> {
        let empty = self.marked(Mark::EmptyReply);
        mean(empty.filter_map(|played| played.value(TOTAL)))
    }

    /// A total between what nothing earns (0) and what the solution earns (1).
    pub(crate) fn share(&self, total: f64) -> Option<f64> {
        let (nothing, oracle) = (self.nothing()?, self.oracle_mean(TOTAL)?);
        (oracle > nothing).then(|| (total - nothing) / (oracle - nothing))
    }

    /// Every variant over its tasks, in the order of play.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let mut at: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut groups: Vec<Vec<&Played>> = Vec::new();
        for played in self.episodes() {
            let place = *at.entry((played.probe, &played.label)).or_insert(groups.len());
            if place == groups.len() {
                groups.push(Vec::new());
            }
            groups[place].push(played);
        }
        groups.into_iter().map(|group| self.line(&group)).collect()
    }

    fn line(&self, group: &[&Played]) -> Line {
        let names = self.components.iter().map(|component| component.name.as_str()).chain([TOTAL]);
        let means = names
            .filter_map(|name| Some((name.to_owned(), mean(group.iter().filter_map(|played| played.value(name)))?)));
        let solved =
            group.iter().filter_map(|played| played.solved(&self.success)).map(|right| f64::from(u8::from(right)));
        Line {
            probe: group[0].probe,
            label: group[0].label.clone(),
            role: group[0].role,
            tasks: group.len(),
            means: means.collect(),
            solved: mean(solved),
            point: group[0].point,
            mark: group[0].mark,
        }
    }

    /// The line of junk with the highest mean total, among those that most tasks have.
    pub(crate) fn worst_junk(&self) -> Option<Line> {
        let junk = self.lines().into_iter().filter(|line| line.role == Role::Junk && 2 * line.tasks > self.tasks);
        junk.filter(|line| line.total().is_some())
            .max_by(|a, b| a.total().unwrap_or(f64::MIN).total_cmp(&b.total().unwrap_or(f64::MIN)))
    }

    /// Mean value of a component along a sweep. `keep` chooses episodes.
    pub(crate) fn curve(&self, sweep: Sweep, component: &str, keep: impl Fn(&Played) -> bool) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64, f64)> = Vec::new();
        for played in self.episodes().filter(|played| keep(played)) {
            let Some((_, place)) = played.point.filter(|(other, _)| *other == sweep) else { continue };
            let Some(value) = played.value(component) else { continue };
            match points.iter_mut().find(|(at, ..)| *at == place) {
                Some((_, sum, count)) => (*sum, *count) = (*sum + value, *count + 1.0),
                None => points.push((place, value, 1.0)),
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points.into_iter().map(|(at, sum, count)| (at, sum / count)).collect()
    }
}

/// The mean of what there is; `None` of nothing.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        (sum, count) = (sum + value, count + 1.0);
    }
    (count > 0.0).then(|| sum / count)
}
