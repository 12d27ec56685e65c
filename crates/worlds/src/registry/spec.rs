//! `[env]` tables: one environment each, read once, unknown keys refused with the nearest known one.

use std::fmt;
use std::sync::Arc;

use hone_arena::registry::{Counts, EnvOptions, Environment, RegistryError};
use hone_arena::rewards::spec::RubricSpec;
use hone_arena::users::NewUser;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{DeserializeOwned, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{PROGRAM, find, remote};
use crate::BUILTINS;
use crate::shop::ShopSpec;

/// One environment as a recipe writes it: a built-in by `name`, a program by `command`, or a remote one by `kind`.
#[derive(Debug, Clone)]
pub struct EnvSpec(Arc<dyn EnvOptions>);

impl EnvSpec {
    pub fn new(options: impl EnvOptions + 'static) -> Self {
        Self(Arc::new(options))
    }

    /// Reads a table. `kind` makes it a remote environment and `command` a program; otherwise `name` selects a built-in
    /// one.
    pub fn read(table: Map<String, Value>) -> Result<Self, RegistryError> {
        if let Some(kind) = table.get("kind") {
            return (remote::find(kind)?.make.read)(&remote::named(&table)?, table);
        }
        let program = table.contains_key("command");
        if table.get("command").is_some_and(|command| !command.is_array()) {
            let what = "`command` is a list, the program and its arguments\nhint: write command = [\"python3\", \"my_env.py\"]";
            return Err(RegistryError::Form(what.into()));
        }
        let name = match table.get("name") {
            Some(Value::String(name)) => name.clone(),
            Some(_) => {
                return Err(RegistryError::Form(
                    "`name` is the name of an environment, a string; write name = \"shop\"".into(),
                ));
            }
            None => crate::shop::NAME.to_owned(),
        };
        if !program {
            return (find(&name)?.make.read)(&name, table);
        }
        if table.contains_key("name") && BUILTINS.iter().any(|builtin| builtin.name == name) {
            let what = format!("{name} is a built-in environment; give the program another `name`, or no `command`");
            return Err(RegistryError::Options { name, what });
        }
        let called = if table.contains_key("name") { name.as_str() } else { PROGRAM.name };
        (PROGRAM.make.read)(called, table)
    }

    /// A built-in with everything at its default.
    pub fn named(name: &str) -> Result<Self, RegistryError> {
        Self::read(Map::from_iter([("name".to_owned(), name.into())]))
    }

    /// Name used in tasks.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Tasks asked for.
    pub fn counts(&self) -> Counts {
        self.0.counts()
    }

    /// Default reward of an episode, for recipes without a rubric.
    pub fn rubric(&self) -> RubricSpec {
        self.0.rubric()
    }

    /// The environment, ready to play.
    pub fn open(&self) -> Result<Environment, RegistryError> {
        self.0.open(None)
    }

    /// Opens the environment with a different user from the one in the table.
    pub fn open_with(&self, user: Option<Arc<NewUser>>) -> Result<Environment, RegistryError> {
        self.0.open(user)
    }
}

impl AsRef<dyn EnvOptions> for EnvSpec {
    fn as_ref(&self) -> &(dyn EnvOptions + 'static) {
        &*self.0
    }
}

/// Reads the options of the environment called `name`.
pub(crate) fn read<T: EnvOptions + DeserializeOwned + 'static>(
    name: &str,
    table: Map<String, Value>,
) -> Result<EnvSpec, RegistryError> {
    serde_json::from_value::<T>(Value::Object(table))
        .map(EnvSpec::new)
        .map_err(|error| RegistryError::Options { name: name.to_owned(), what: error.to_string() })
}

impl Serialize for EnvSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.table().map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for EnvSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(Map::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The environments of a recipe: `[env]`, or one `[[env]]` for each of several. Never empty.
#[derive(Debug, Clone)]
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
        self.iter().map(|spec| spec.counts().tasks).sum()
    }

    /// Held-out tasks asked for, of all environments together.
    pub fn held_out(&self) -> usize {
        self.iter().map(|spec| spec.counts().held_out).sum()
    }

    /// The seed of the tasks: the first environment's.
    pub fn seed(&self) -> u64 {
        self.0.first().map_or(0, |spec| spec.counts().seed)
    }
}

impl Default for EnvSpecs {
    fn default() -> Self {
        Self(vec![EnvSpec::new(ShopSpec::default())])
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

/// Written by hand, because an untagged enum would hide the error in a table.
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
