//! The knowledge base of a world: articles, past tickets and incidents with ids, all from one seed.
//!
//! Documents are rendered by [`super::text`]; this file decides what exists. A share of the problems has no article:
//! tickets about those have no answer.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use hone_trace::{Digest, Rng, Seed};
use serde::{Deserialize, Serialize};

use super::bm25::Bm25;
use super::catalog::{self, Cause, DOMAINS, Domain, Failure, SEEN_FAILURES, SEEN_PRODUCTS, VALUES};
use super::{invented, text};

/// Specification of a world. Equal specs give equal worlds on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorldSpec {
    pub seed: u64,
    pub size: Size,
    pub scope: Scope,
    /// Seen products per domain, 1 to 8: fewer make a smaller knowledge base. Held-out products are not counted.
    pub products: usize,
    /// Products and fixes are this world's own words, not the catalogue's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub invented: bool,
}

/// Length of documents and tickets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// One sentence per document, which the answer repeats word for word, and a code word that identifies it: for
    /// policies of a million parameters.
    Tiny,
    /// Two or three sentences: for models with a window of a few hundred tokens.
    #[default]
    Brief,
    /// Sections, letters, side remarks: as service desks write them.
    Full,
}

/// Products and failure modes that a world may mention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Those training may see.
    Seen,
    /// The held-out ones too.
    All,
}

/// One product × failure mode × cause, as positions in the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Problem {
    pub(super) domain: usize,
    pub(super) product: usize,
    pub(super) failure: usize,
    pub(super) cause: usize,
}

impl Problem {
    pub(super) fn domain(self) -> &'static Domain {
        DOMAINS[self.domain]
    }

    pub(super) fn product(self) -> &'static str {
        self.domain().products[self.product]
    }

    pub(super) fn failure(self) -> &'static Failure {
        &self.domain().failures[self.failure]
    }

    pub(super) fn cause(self) -> &'static Cause {
        &self.failure().causes[self.cause]
    }

    pub(super) fn held_out(self) -> bool {
        self.product >= SEEN_PRODUCTS || self.failure >= SEEN_FAILURES
    }

    /// Same product and failure mode, whatever the cause.
    pub(super) fn symptom(self) -> Self {
        Self { cause: 0, ..self }
    }

    /// Number of a problem, the same in every scope.
    fn number(self) -> usize {
        let failures = self.domain().failures.len();
        (self.product_number() * failures + self.failure) * self.failure().causes.len() + self.cause
    }

    /// The number of its product in the catalogue.
    fn product_number(self) -> usize {
        self.domain * self.domain().products.len() + self.product
    }
}

/// A world's draw for a problem.
#[derive(Debug, Clone)]
pub(super) struct Particulars {
    pub(super) product: String,
    /// One sentence with `{value}` and perhaps `{service}`.
    pub(super) fix: String,
    pub(super) service: String,
    pub(super) code: String,
    /// The value of the fix.
    pub(super) value: u32,
    /// Minutes to watch afterwards.
    pub(super) minutes: u32,
    /// True when the fix needs the product's change procedure.
    pub(super) procedure: bool,
    /// True when an article has it.
    pub(super) known: bool,
}

/// An incident: a symptom of a product at one site.
#[derive(Debug, Clone)]
pub(super) struct Incident {
    pub(super) symptom: Problem,
    pub(super) site: &'static str,
    pub(super) open: bool,
    pub(super) workaround: &'static str,
    pub(super) value: u32,
    pub(super) day: u32,
}

/// One document of the knowledge base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub id: String,
    pub title: String,
    pub body: String,
}

impl Document {
    pub fn text(&self) -> String {
        format!("{}\n{}", self.title, self.body)
    }
}

/// One kind of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shelf {
    Articles,
    Tickets,
    Incidents,
}

/// Documents of one kind with their index, which is built on the first search: readers never search.
#[derive(Debug, Default)]
struct Library {
    documents: Vec<Document>,
    index: OnceLock<Bm25>,
}

/// A knowledge base. Immutable: episodes share it.
#[derive(Debug)]
pub struct World {
    pub spec: WorldSpec,
    digest: Digest,
    articles: Library,
    tickets: Library,
    incidents: Library,
    place: HashMap<String, (Shelf, usize)>,
    pub(super) problems: Vec<Problem>,
    particulars: HashMap<Problem, Particulars>,
    article_of: HashMap<Problem, usize>,
    problem_of: HashMap<usize, Problem>,
    /// By domain and product.
    procedure_of: HashMap<(usize, usize), usize>,
    pub(super) known_incidents: Vec<Incident>,
}

/// Percentage of problems that have an article.
const KNOWN_PERCENT: usize = 85;
/// Percentage of problems whose fix needs the change procedure.
const PROCEDURE_PERCENT: usize = 25;

pub(super) const SITES: [&str; 12] =
    ["Lyon", "Porto", "Gdansk", "Osaka", "Denver", "Nairobi", "Tromso", "Adelaide", "Quito", "Leeds", "Izmir", "Hanoi"];

const WORKAROUNDS: [&str; 4] = [
    "Switch the users to standby node {value}.",
    "Fail over to pool {value} until the incident is closed.",
    "Limit clients to {value} percent until the incident is closed.",
    "Send the users through relay {value} for now.",
];

impl World {
    pub fn new(spec: WorldSpec) -> Self {
        let seed = Seed::root(spec.seed).with("triage world");
        let problems = problems(spec);
        let (codes, products) = (codes(spec.size, seed), products(spec.invented, seed));
        let particulars: HashMap<Problem, Particulars> =
            problems.iter().map(|&problem| (problem, draw(spec, problem, seed, &codes, &products))).collect();
        let known_incidents = draw_incidents(&problems, seed);
        let mut world = Self {
            spec,
            digest: Digest::of(b""),
            articles: Library::default(),
            tickets: Library::default(),
            incidents: Library::default(),
            place: HashMap::new(),
            problems,
            particulars,
            article_of: HashMap::new(),
            problem_of: HashMap::new(),
            procedure_of: HashMap::new(),
            known_incidents,
        };
        world.write_articles(seed);
        world.write_tickets(seed);
        world.incidents = Library::new(
            world
                .known_incidents
                .iter()
                .enumerate()
                .map(|(n, incident)| text::incident(spec.size, n, world.product(incident.symptom), incident))
                .collect(),
        );
        world.place_documents();
        world
    }

    /// SHA-256 of every document: a task generated for other documents is refused, not answered wrongly.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    pub fn documents(&self, shelf: Shelf) -> &[Document] {
        &self.library(shelf).documents
    }

    pub fn get(&self, id: &str) -> Option<(Shelf, &Document)> {
        let &(shelf, index) = self.place.get(id)?;
        Some((shelf, &self.library(shelf).documents[index]))
    }

    /// The best documents of a shelf for a query, best first.
    pub fn search(&self, shelf: Shelf, query: &str, limit: usize) -> Vec<&Document> {
        let library = self.library(shelf);
        library.index().search(query, limit).into_iter().map(|(index, _)| &library.documents[index]).collect()
    }

    pub(super) fn article(&self, problem: Problem) -> Option<&Document> {
        self.article_of.get(&problem).map(|&index| &self.articles.documents[index])
    }

    /// The problem an article solves.
    pub(super) fn problem_of(&self, id: &str) -> Option<Problem> {
        match self.place.get(id)? {
            (Shelf::Articles, index) => self.problem_of.get(index).copied(),
            _ => None,
        }
    }

    pub(super) fn procedure(&self, problem: Problem) -> Option<&Document> {
        self.procedure_of.get(&(problem.domain, problem.product)).map(|&index| &self.articles.documents[index])
    }

    pub(super) fn incident_document(&self, index: usize) -> &Document {
        &self.incidents.documents[index]
    }

    /// This world's draw for a problem.
    pub(super) fn particulars(&self, problem: Problem) -> &Particulars {
        // `problem` comes from `self.problems`, and every one of those was drawn.
        &self.particulars[&problem]
    }

    /// This world's name of a problem's product.
    pub(super) fn product(&self, problem: Problem) -> &str {
        &self.particulars(problem).product
    }

    /// True when an open incident explains this symptom at this site.
    pub(super) fn has_open_incident(&self, symptom: Problem, site: &str) -> bool {
        self.known_incidents.iter().any(|known| known.open && known.symptom == symptom && known.site == site)
    }

    fn library(&self, shelf: Shelf) -> &Library {
        match shelf {
            Shelf::Articles => &self.articles,
            Shelf::Tickets => &self.tickets,
            Shelf::Incidents => &self.incidents,
        }
    }

    /// Articles of the known problems and one change procedure per product, in random order.
    fn write_articles(&mut self, seed: Seed) {
        enum Entry {
            Fix(Problem),
            Procedure(Problem),
        }
        let mut entries: Vec<Entry> =
            self.problems.iter().filter(|problem| self.particulars[problem].known).map(|&p| Entry::Fix(p)).collect();
        let mut products = HashSet::new();
        for &problem in &self.problems {
            if products.insert((problem.domain, problem.product)) {
                entries.push(Entry::Procedure(problem));
            }
        }
        seed.with("articles").rng().shuffle(&mut entries);
        let first = self.first_article(seed);
        let mut documents = Vec::with_capacity(entries.len());
        for (number, entry) in entries.iter().enumerate() {
            let id = format!("KB-{}", first + number);
            documents.push(match entry {
                Entry::Fix(problem) => {
                    self.article_of.insert(*problem, number);
                    self.problem_of.insert(number, *problem);
                    text::article(self.spec.size, id, *problem, &self.particulars[problem])
                }
                Entry::Procedure(problem) => {
                    self.procedure_of.insert((problem.domain, problem.product), number);
                    text::procedure(self.spec.size, id, self.product(*problem), procedure_value(*problem, seed))
                }
            });
        }
        self.articles = Library::new(documents);
    }

    /// Number of the first article.
    fn first_article(&self, seed: Seed) -> usize {
        match self.spec.size {
            Size::Tiny if self.spec.invented => 100 + seed.with("first article").rng().below(8000),
            Size::Tiny => 100,
            Size::Brief | Size::Full => 1000,
        }
    }

    /// Past tickets: two of every three problems have been seen before, some of them several times.
    fn write_tickets(&mut self, seed: Seed) {
        let mut rng = seed.with("tickets").rng();
        let mut documents = Vec::new();
        for _ in 0..self.problems.len() {
            let problem = self.problems[rng.below(self.problems.len())];
            let site = SITES[rng.below(SITES.len())];
            let solved_by = self.article(problem).map(|article| article.id.as_str());
            let particulars = &self.particulars[&problem];
            documents.push(text::past_ticket(
                self.spec.size,
                documents.len(),
                problem,
                particulars,
                site,
                solved_by,
                &mut rng,
            ));
        }
        self.tickets = Library::new(documents);
    }

    fn place_documents(&mut self) {
        let mut content = String::new();
        for shelf in [Shelf::Articles, Shelf::Tickets, Shelf::Incidents] {
            let ids: Vec<String> = self.documents(shelf).iter().map(|document| document.id.clone()).collect();
            self.documents(shelf)
                .iter()
                .for_each(|document| content.extend([&document.id, "\n", &document.text(), "\n"]));
            self.place.extend(ids.into_iter().enumerate().map(|(index, id)| (id, (shelf, index))));
        }
        self.digest = Digest::of(content.as_bytes());
    }
}

impl Library {
    fn new(documents: Vec<Document>) -> Self {
        Self { documents, index: OnceLock::new() }
    }

    fn index(&self) -> &Bm25 {
        self.index.get_or_init(|| {
            let texts: Vec<String> = self.documents.iter().map(Document::text).collect();
            Bm25::new(texts.iter().map(String::as_str))
        })
    }
}

fn problems(spec: WorldSpec) -> Vec<Problem> {
    let seen = spec.products.clamp(1, SEEN_PRODUCTS);
    let mut problems = Vec::new();
    for (domain, described) in DOMAINS.iter().enumerate() {
        for product in (0..described.products.len()).filter(|&product| product < seen || product >= SEEN_PRODUCTS) {
            for failure in 0..described.failures.len() {
                for cause in 0..described.failures[failure].causes.len() {
                    let problem = Problem { domain, product, failure, cause };
                    if spec.scope == Scope::All || !problem.held_out() {
                        problems.push(problem);
                    }
                }
            }
        }
    }
    problems
}

/// The error code of every problem of the whole catalogue. No two of a product are the same; in larger sizes no two.
fn codes(size: Size, seed: Seed) -> Vec<String> {
    let mut rng = seed.with("codes").rng();
    let of_product = |domain: &Domain| domain.failures.iter().map(|failure| failure.causes.len()).sum::<usize>();
    let products = DOMAINS.iter().flat_map(|domain| domain.products.iter().map(|_| of_product(domain)));
    match size {
        Size::Tiny => products
            .flat_map(|problems| {
                let mut words = catalog::CODE_WORDS;
                rng.shuffle(&mut words);
                words.into_iter().take(problems).map(str::to_owned)
            })
            .collect(),
        Size::Brief | Size::Full => {
            let mut codes: Vec<String> = (0..products.sum()).map(|n: usize| format!("E{}", 1000 + 7 * n)).collect();
            rng.shuffle(&mut codes);
            codes
        }
    }
}

/// The name of every product of the catalogue in this world. No two share their first word, which names the service.
fn products(invented: bool, seed: Seed) -> Vec<String> {
    let names = DOMAINS.iter().flat_map(|domain| domain.products);
    if !invented {
        return names.map(str::to_owned).collect();
    }
    let (mut rng, mut services) = (seed.with("products").rng(), HashSet::new());
    names
        .map(|_| {
            std::iter::repeat_with(|| invented::product(&mut rng))
                .find(|name| services.insert(catalog::service(name)))
                .unwrap_or_default()
        })
        .collect()
}

fn draw(spec: WorldSpec, problem: Problem, seed: Seed, codes: &[String], products: &[String]) -> Particulars {
    let mut rng = seed.with("problem").at(problem.number() as u64).rng();
    let cause = problem.cause();
    let product = products[problem.product_number()].clone();
    let fix = if spec.invented {
        invented::fix(&mut seed.with("fix").at(problem.number() as u64).rng())
    } else {
        cause.fix.to_owned()
    };
    Particulars {
        service: catalog::service(&product),
        product,
        fix,
        code: codes[problem.number()].clone(),
        value: match spec.size {
            Size::Tiny => 10 + rng.below(90) as u32,
            Size::Brief | Size::Full => cause.low + cause.step * rng.below(VALUES) as u32,
        },
        minutes: 5 * (1 + rng.below(11) as u32),
        procedure: rng.below(100) < PROCEDURE_PERCENT,
        known: rng.below(100) < KNOWN_PERCENT,
    }
}

/// The value of a product's change procedure.
fn procedure_value(problem: Problem, seed: Seed) -> u32 {
    let product = Problem { failure: 0, cause: 0, ..problem };
    100 + seed.with("procedure").at(product.number() as u64).rng().below(800) as u32
}

impl World {
    /// The value of the change procedure of a problem's product.
    pub(super) fn procedure_value(&self, problem: Problem) -> u32 {
        procedure_value(problem, Seed::root(self.spec.seed).with("triage world"))
    }
}

/// One incident for every third symptom; half of them are open.
fn draw_incidents(problems: &[Problem], seed: Seed) -> Vec<Incident> {
    let mut rng: Rng = seed.with("incidents").rng();
    let mut symptoms: Vec<Problem> = problems.iter().map(|problem| problem.symptom()).collect();
    symptoms.dedup();
    rng.shuffle(&mut symptoms);
    symptoms.truncate(symptoms.len().div_ceil(3));
    symptoms
        .into_iter()
        .map(|symptom| Incident {
            symptom,
            site: SITES[rng.below(SITES.len())],
            open: rng.below(2) == 0,
            workaround: WORKAROUNDS[rng.below(WORKAROUNDS.len())],
            value: 11 + rng.below(80) as u32,
            day: 1 + rng.below(28) as u32,
        })
        .collect()
}
