//! Remote environments (`kind = "openenv"` and others), played by `hone-remote`.

use hone_arena::catalogue::{self, Options};
use hone_arena::registry::RegistryError;
use hone_remote::fleet::FleetSpec;
use hone_remote::mcp::McpSpec;
use hone_remote::openenv::OpenEnvSpec;
use serde_json::{Map, Value};

use super::{EnvEntry, Make, read};
use crate::BUILTINS;

/// The remote environments, by `kind`.
pub static REMOTE: &[&EnvEntry] = &[&OPENENV, &MCP, &FLEET];

const OPENENV: EnvEntry = EnvEntry {
    name: "openenv",
    about: "An OpenEnv server: a session for each episode, tools from the server, reward and end from its envelope",
    advice: "For any environment with an OpenEnv address, a Hugging Face Space included; docs/remote-environments.md",
    paper: None,
    options: Options::with::<OpenEnvSpec>(r#"{"url": "http://localhost:8000"}"#),
    make: Make { read: read::<OpenEnvSpec>, user: false, floor: None },
};

const MCP: EnvEntry = EnvEntry {
    name: "mcp",
    about: "An MCP server, over HTTP or as a program: its tools, judged by the answer, by a state tool, or by the rubric",
    advice: "For tools that exist as an MCP server; docs/remote-environments.md has complete examples",
    paper: None,
    options: Options::with::<McpSpec>(r#"{"command": ["python3", "server.py"], "task_file": "tasks.jsonl"}"#),
    make: Make { read: read::<McpSpec>, user: false, floor: None },
};

const FLEET: EnvEntry = EnvEntry {
    name: "fleet",
    about: "Fleet tasks: an instance for each episode, its tools over MCP, its verifier's verdict as the reward",
    advice: "For tasks in Fleet's JSON, with a key in FLEET_API_KEY; docs/remote-environments.md",
    paper: None,
    options: Options::with::<FleetSpec>(r#"{"task_file": "all_tool_use.json"}"#),
    make: Make { read: read::<FleetSpec>, user: false, floor: None },
};

/// The entry of a `kind`.
pub(super) fn find(kind: &Value) -> Result<&'static EnvEntry, RegistryError> {
    let Some(kind) = kind.as_str() else {
        return Err(RegistryError::Form(
            "`kind` is the kind of an environment elsewhere, a string; write kind = \"openenv\"".into(),
        ));
    };
    catalogue::find("kind of environment", REMOTE.iter().copied(), kind)
        .map_err(|unknown| RegistryError::Form(unknown.to_string()))
}

/// The name of a table, for messages. A built-in's name is already taken.
pub(super) fn named(table: &Map<String, Value>) -> Result<String, RegistryError> {
    let name = table.get("name").or_else(|| table.get("kind")).and_then(Value::as_str).unwrap_or_default().to_owned();
    if BUILTINS.iter().any(|builtin| builtin.name == name) {
        let what = format!("{name} is a built-in environment; give the server's another `name`, or leave `kind` out");
        return Err(RegistryError::Options { name, what });
    }
    Ok(name)
}
