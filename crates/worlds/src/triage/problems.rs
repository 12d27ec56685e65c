//! Problems of a world, and their particulars, drawn from its seed.

use std::collections::HashSet;

use hone_trace::{Rng, Seed};

use super::catalog::{self, Cause, DOMAINS, Domain, Failure, SEEN_FAILURES, SEEN_PRODUCTS, VALUES};
use super::invented;
use super::world::{Scope, Size, WorldSpec};

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

    /// Symptom of the problem: product and failure mode, whatever the cause.
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

/// Particulars of a problem in one world.
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

/// Problems of a world's scope, in the catalogue's order.
pub(super) fn all(spec: WorldSpec) -> Vec<Problem> {
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
pub(super) fn codes(size: Size, seed: Seed) -> Vec<String> {
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
pub(super) fn products(invented: bool, seed: Seed) -> Vec<String> {
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

/// Particulars drawn for a problem.
pub(super) fn draw(
    spec: WorldSpec,
    problem: Problem,
    seed: Seed,
    codes: &[String],
    products: &[String],
) -> Particulars {
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
pub(super) fn procedure_value(problem: Problem, seed: Seed) -> u32 {
    let product = Problem { failure: 0, cause: 0, ..problem };
    100 + seed.with("procedure").at(product.number() as u64).rng().below(800) as u32
}

/// One incident for every third symptom; half of them are open.
pub(super) fn incidents(problems: &[Problem], seed: Seed) -> Vec<Incident> {
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
