//! The knowledge base of a world: articles, past tickets and incidents with ids, all from one seed.
//!
//! Documents are rendered by [`super::text`]; this file decides what exists. A share of the problems has no article:
//! tickets about those have no answer.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use hone_trace::{Digest, Seed};
use serde::{Deserialize, Serialize};

use super::bm25::Bm25;
use super::problems::{self, Incident, Particulars, Problem, SITES};
use super::text;

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
    /// Change procedures by domain and product.
    procedure_of: HashMap<(usize, usize), usize>,
    pub(super) known_incidents: Vec<Incident>,
}
impl World {
    pub fn new(spec: WorldSpec) -> Self {
        let seed = Seed::root(spec.seed).with("triage world");
        let problems = problems::all(spec);
        let (codes, products) = (problems::codes(spec.size, seed), problems::products(spec.invented, seed));
        let particulars: HashMap<Problem, Particulars> =
            problems.iter().map(|&problem| (problem, problems::draw(spec, problem, seed, &codes, &products))).collect();
        let known_incidents = problems::incidents(&problems, seed);
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

    /// Particulars of a problem in this world.
    pub(super) fn particulars(&self, problem: Problem) -> &Particulars {
        // `problem` comes from `self.problems`, and every one of those was drawn.
        &self.particulars[&problem]
    }

    /// Name of a problem's product in this world.
    pub(super) fn product(&self, problem: Problem) -> &str {
        &self.particulars(problem).product
    }

    /// True when an open incident explains this symptom at this site.
    pub(super) fn has_open_incident(&self, symptom: Problem, site: &str) -> bool {
        self.known_incidents.iter().any(|known| known.open && known.symptom == symptom && known.site == site)
    }

    /// The value of the change procedure of a problem's product.
    pub(super) fn procedure_value(&self, problem: Problem) -> u32 {
        problems::procedure_value(problem, Seed::root(self.spec.seed).with("triage world"))
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
                    text::procedure(
                        self.spec.size,
                        id,
                        self.product(*problem),
                        problems::procedure_value(*problem, seed),
                    )
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
