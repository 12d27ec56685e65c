//! Catalogue of failures: the products, failure modes, causes and fixes of triage worlds.
//!
//! A case is one product × one failure mode of its domain × one cause of that failure. The fix is the cause's, with a
//! value that every world draws anew: it has to be read from the knowledge base and cannot be memorised. The last
//! products of a domain and its last failure mode are held out for the test split. That is a property of this table,
//! not of a seed or a size, so a larger set or another seed never moves a held-out product into train.

mod cloud;
mod identity;
mod infrastructure;
mod networking;
mod security;
mod storage;

/// Kind of ticket, and the team that takes unanswerable ones.
#[derive(Debug)]
pub(super) struct Domain {
    pub(super) name: &'static str,
    /// The first word is the product's service (`Corelink VPN` runs `corelinkd`): no two share it.
    pub(super) products: [&'static str; 10],
    pub(super) failures: [Failure; 6],
}

/// A failure mode, in the words of the documentation and in those of users.
#[derive(Debug)]
pub(super) struct Failure {
    /// A clause: "tunnels drop every hour".
    pub(super) name: &'static str,
    /// The same in users' words.
    pub(super) says: [&'static str; 2],
    pub(super) causes: [Cause; 3],
}

/// Cause of a failure, its symptom, and its fix.
#[derive(Debug)]
pub(super) struct Cause {
    pub(super) name: &'static str,
    /// The log line that distinguishes this cause from the others.
    pub(super) log: &'static str,
    /// One sentence with `{value}` and perhaps `{service}`.
    pub(super) fix: &'static str,
    /// Values are `low`, `low + step`, …, 20 of them.
    pub(super) low: u32,
    pub(super) step: u32,
}

pub(super) const DOMAINS: [&Domain; 6] = [
    &networking::DOMAIN,
    &security::DOMAIN,
    &cloud::DOMAIN,
    &infrastructure::DOMAIN,
    &identity::DOMAIN,
    &storage::DOMAIN,
];

/// Products of a domain that training may see; the rest is held out.
pub(super) const SEEN_PRODUCTS: usize = 8;
/// Failure modes of a domain that training may see; the rest is held out.
pub(super) const SEEN_FAILURES: usize = 5;

/// Codes of tiny tickets: short, and distinguished by their first letters.
pub(super) const CODE_WORDS: [&str; 64] = [
    "oak", "elm", "ash", "fir", "yew", "fig", "ivy", "fox", "owl", "bee", "ant", "cat", "dog", "hen", "pig", "cow",
    "ram", "bat", "elk", "eel", "jay", "gnu", "sun", "sky", "ice", "fog", "mud", "sea", "bay", "gem", "tin", "zinc",
    "iron", "gold", "jade", "ruby", "opal", "coal", "salt", "sand", "wool", "silk", "hat", "cup", "jar", "key", "map",
    "pen", "box", "bell", "drum", "harp", "lute", "kite", "lamp", "sail", "tent", "vase", "wolf", "bear", "deer",
    "frog", "hawk", "swan",
];

/// Distinct values of a cause.
pub(super) const VALUES: usize = 20;

const fn failure(name: &'static str, says: [&'static str; 2], causes: [Cause; 3]) -> Failure {
    Failure { name, says, causes }
}

const fn cause(name: &'static str, log: &'static str, fix: &'static str, low: u32, step: u32) -> Cause {
    Cause { name, log, fix, low, step }
}

/// The service of a product: the first word of its name, as a daemon.
pub(super) fn service(product: &str) -> String {
    let first = product.split(' ').next().unwrap_or(product);
    format!("{}d", first.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn nothing_in_the_table_is_ambiguous() {
        let mut services = HashSet::new();
        let mut clauses = HashSet::new();
        let mut logs = HashSet::new();
        for domain in DOMAINS {
            for product in domain.products {
                assert!(services.insert(service(product)), "{product}");
            }
            for failure in &domain.failures {
                assert!(clauses.insert(failure.name), "{}", failure.name);
                assert!(failure.says.iter().all(|says| clauses.insert(says)), "{}", failure.name);
                for cause in &failure.causes {
                    assert!(logs.insert(cause.log), "{}", cause.log);
                    assert_eq!(cause.fix.matches("{value}").count(), 1, "{}", cause.fix);
                    assert!(cause.fix.ends_with('.'), "{}", cause.fix);
                    assert!(cause.step > 0);
                }
            }
        }
    }
}
