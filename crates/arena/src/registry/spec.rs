//! `[env]` tables: one environment each, read once, unknown keys refused with the nearest known one.

use std::fmt;
use std::sync::Arc;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Environment, ProgramSpec, RegistryError, ServiceSpec, ShopSpec, TriageSpec, find};
use crate::domains::service::NewUser;

/// One environment as a recipe writes it: a built-in by `name`, or a program by `command`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum EnvSpec {
    Shop(ShopSpec),
    Service(ServiceSpec),
    Triage(TriageSpec),
    Program(ProgramSpec),
}

impl EnvSpec {
    /// Reads a table. `command` makes it a program; otherwise `name` says which built-in it is.
    pub fn read(table: Map<String, Value>) -> Result<Self, RegistryError> {
        if table.contains_key("command") {
            return options("command", table).map(Self::Program);
        }
        let name = match table.get("name") {
            Some(Value::String(name)) => name.clone(),
            Some(_) => return Err(RegistryError::Form("`name` is the name of an environment, a string".into())),
            None => crate::shop::NAME.to_owned(),
        };
        match find(&name)?.name {
            "retail" | "airline" => options(&name, table).map(Self::Service),
            "triage-reader" | "triage-searcher" => options(&name, table).map(Self::Triage),
            _ => options(&name, table).map(Self::Shop),
        }
    }

    /// A built-in with everything at its default.
    pub fn named(name: &str) -> Result<Self, RegistryError> {
        Self::read(Map::from_iter([("name".to_owned(), name.into())]))
    }

    /// What its tasks call it.
    pub fn name(&self) -> &str {
        match self {
            Self::Shop(spec) => &spec.name,
            Self::Service(spec) => &spec.name,
            Self::Triage(spec) => &spec.name,
            Self::Program(spec) => &spec.name,
        }
    }

    /// Training tasks asked for, held-out tasks asked for, and the seed of both.
    pub(super) fn counts(&self) -> (usize, usize, u64) {
        match self {
            Self::Shop(spec) => (spec.tasks, spec.held_out, spec.seed),
            Self::Service(spec) => (spec.tasks, spec.held_out, spec.seed),
            Self::Triage(spec) => (spec.tasks, spec.held_out, spec.seed),
            Self::Program(spec) => (spec.tasks, spec.held_out, spec.seed),
        }
    }

    /// The environment, ready to play.
    pub fn open(&self) -> Result<Environment, RegistryError> {
        self.open_with(None)
    }

    /// The environment with somebody else for the user than the table says.
    pub fn open_with(&self, user: Option<Arc<NewUser>>) -> Result<Environment, RegistryError> {
        match self {
            Self::Shop(spec) => spec.open(),
            Self::Service(spec) => spec.open(user),
            Self::Triage(spec) => spec.open(),
            Self::Program(spec) => spec.open(),
        }
    }

    /// The split that is held out for evaluation.
    pub(super) fn held_out_split(&self) -> &'static str {
        match self {
            Self::Service(spec) => spec.held_out_split(),
            Self::Triage(spec) => spec.held_out_from.name(),
            Self::Shop(_) | Self::Program(_) => super::HELD_OUT,
        }
    }
}

fn options<T: DeserializeOwned>(name: &str, table: Map<String, Value>) -> Result<T, RegistryError> {
    serde_json::from_value(Value::Object(table))
        .map_err(|error| RegistryError::Options { name: name.to_owned(), what: error.to_string() })
}

impl<'de> Deserialize<'de> for EnvSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(Map::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The environments of a recipe: `[env]`, or one `[[env]]` for each of several. Never none.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvSpecs(Vec<EnvSpec>);

impl std::ops::Deref for EnvSpecs {
    type Target = [EnvSpec];

    fn deref(&self) -> &[EnvSpec] {
        &self.0
    }
}

impl EnvSpecs {
    /// Training tasks asked for, of all environments together. A data directory may hold fewer.
    pub fn tasks(&self) -> usize {
        self.iter().map(|spec| spec.counts().0).sum()
    }

    /// Held-out tasks asked for, of all environments together.
    pub fn held_out(&self) -> usize {
        self.iter().map(|spec| spec.counts().1).sum()
    }

    /// The seed of the tasks: the first environment's.
    pub fn seed(&self) -> u64 {
        self.0.first().map_or(0, |spec| spec.counts().2)
    }
}

impl Default for EnvSpecs {
    fn default() -> Self {
        Self(vec![EnvSpec::Shop(ShopSpec::default())])
    }
}

impl From<EnvSpec> for EnvSpecs {
    fn from(spec: EnvSpec) -> Self {
        Self(vec![spec])
    }
}

impl Serialize for EnvSpecs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(serializer),
            several => several.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for EnvSpecs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrSeveral)
    }
}

/// By hand, because an untagged enum would swallow what is wrong with a table.
struct OneOrSeveral;

impl<'de> Visitor<'de> for OneOrSeveral {
    type Value = EnvSpecs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an environment's table, or several: [env], or [[env]] for each")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<EnvSpecs, A::Error> {
        Ok(EnvSpecs(vec![EnvSpec::deserialize(MapAccessDeserializer::new(map))?]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<EnvSpecs, A::Error> {
        let specs = Vec::<EnvSpec>::deserialize(SeqAccessDeserializer::new(seq))?;
        if specs.is_empty() {
            return Err(A::Error::custom("at least one environment is needed: name = \"shop\""));
        }
        Ok(EnvSpecs(specs))
    }
}
