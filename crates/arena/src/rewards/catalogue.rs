//! Entries of the catalogue of reward components, and docs/rewards.md, which is written from them.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::spec::PlaceSpec;
use super::{COMPONENTS, Component};
use crate::catalogue::{self, Documented, Entry, Options, UnknownName};

/// Constructor of a component from its options.
pub type Make = fn(Value) -> Result<Box<dyn Component>, String>;

pub(crate) type ComponentEntry = Entry<Make>;

/// The entry of a kind, or an error with the nearest one.
pub fn find(kind: &str) -> Result<&'static ComponentEntry, UnknownName> {
    catalogue::find("reward component", COMPONENTS.iter().copied(), kind)
}

/// A component deserialised directly from its options.
pub(crate) fn plain<C: Component + DeserializeOwned + 'static>(options: Value) -> Result<Box<dyn Component>, String> {
    let component: C = serde_json::from_value(options).map_err(|error| error.to_string())?;
    Ok(Box::new(component))
}

/// docs/rewards.md.
pub fn page() -> Result<String, serde_json::Error> {
    let mut page = String::from(
        "# Reward components\n\n\
         Written from the entries in `crates/arena/src/rewards`; change them there and run\n\
         `HONE_BLESS=1 cargo test -p hone-arena --test rewards_page`.\n\n\
         A rubric is a list of components. Each gives an episode a value with a reason, or no value with a reason; the total is\n\
         the weighted sum of those that have one, scaled up by the weight of those that have none. What a component needs and the environment does not say (a reference text,\n\
         a database) leaves it unscored, which never counts as 0. A value beyond ±1e6 is unscored too: nothing that is meant\n\
         pays a million, and one such number would be the whole gradient of its group.\n\n\
         In addition to its own keys, every component's table has these:\n\n",
    );
    let place = Options::with::<PlaceSpec>("{\"kind\": \"tau\"}");
    let (required, complete) = place.defaults()?;
    let keys: Vec<_> = PlaceSpec::KEYS.iter().collect();
    page.push_str(&catalogue::keys_table(&keys, &required, &complete));
    let at = catalogue::Place { header: "[[rubric.component]]", key: Some("kind") };
    for entry in COMPONENTS {
        catalogue::section(&mut page, at, entry)?;
    }
    Ok(page)
}
