//! `hone env import`: the recipe block of an environment from a Python ecosystem, with the adapter that runs it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// Write the recipe block and the adapter of an environment from a Python ecosystem
///
/// The adapter is one file of Python that runs in your own virtual environment, as a child of Hone over stdin and stdout.
/// The block goes to stdout, or to the end of the recipe that --recipe names.
///
/// Examples:
///   hone env import verifiers:reverse-text --python .venv/bin/python
///   hone env import gym:FrozenLake-v1 --python .venv/bin/python --recipe my.toml
///   hone env import tau2:telecom --python .venv/bin/python --arguments '{"solo_mode": true}'
///   hone env import reward:my_rewards.py:format_reward
///   hone env import openenv:http://localhost:8000
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// KIND:NAME. Kinds: verifiers (an installed environment), gym (a Gymnasium id or MODULE:FACTORY), tau2 (a domain of
    /// tau2-bench), reward (a TRL-style function, FILE.py:NAME or MODULE:NAME), openenv (an address)
    source: String,
    /// The Python of your virtual environment
    #[arg(long, default_value = "python3")]
    python: String,
    /// Arguments of the environment, a JSON object: of load_environment (verifiers), of AgentGymEnv (tau2)
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
    /// Output directory of the adapter
    #[arg(long, value_name = "DIR", default_value = "adapters")]
    to: PathBuf,
    /// A recipe to append the block to, instead of printing it
    #[arg(long, value_name = "FILE")]
    recipe: Option<PathBuf>,
}

/// A kind that needs an adapter: its name, the file's name, the file.
const ADAPTERS: [(&str, &str, &str); 4] = [
    ("verifiers", "verifiers_env.py", include_str!("../../../../../adapters/verifiers_env.py")),
    ("gym", "gym_env.py", include_str!("../../../../../adapters/gym_env.py")),
    ("tau2", "tau2_env.py", include_str!("../../../../../adapters/tau2_env.py")),
    ("reward", "reward_function.py", include_str!("../../../../../adapters/reward_function.py")),
];

pub(super) fn run(args: Args) -> Result<()> {
    let Some((kind, name)) = args.source.split_once(':').filter(|(_, name)| !name.is_empty()) else {
        bail!("{:?} is not KIND:NAME; write it like verifiers:reverse-text", args.source);
    };
    let block = match ADAPTERS.into_iter().find(|(known, ..)| *known == kind) {
        Some((_, file, text)) => {
            let path = write_adapter(&args.to, file, text)?;
            block(kind, name, &command(&args, name, &path)?)
        }
        None if kind == "openenv" => format!("[env]\nkind = \"openenv\"\nurl = {name:?}\n\n{COMPONENT}"),
        None => bail!("there is no kind {kind:?}; the kinds are verifiers, gym, tau2, reward and openenv"),
    };
    match &args.recipe {
        None => Ok(write!(std::io::stdout(), "{block}")?),
        Some(path) => append(path, &block),
    }
}

/// A program sees only the variables that are named; a model as the user takes longer than a tool.
const TAU2_KEYS: &str = "\
variables = [\"TAU2_DATA_DIR\"]    # and the key of the user's model, where there is one: \"OPENAI_API_KEY\"
deadline_s = 120
";

/// Pays the environment's own reward.
const COMPONENT: &str = "[[rubric.component]]\nkind = \"env_reward\"\n";

/// The command of an adapter, as TOML.
fn command(args: &Args, name: &str, adapter: &Path) -> Result<String> {
    let mut words = vec![args.python.clone(), adapter.display().to_string(), name.to_owned()];
    if let Some(arguments) = &args.arguments {
        if !args.source.starts_with("verifiers:") && !args.source.starts_with("tau2:") {
            bail!("only verifiers and tau2 take --arguments; leave it out");
        }
        let table: serde_json::Map<String, serde_json::Value> = serde_json::from_str(arguments)
            .context("--arguments is not a JSON object; write it like '{\"level\": 2}'")?;
        words.push(serde_json::to_string(&table)?);
    }
    // JSON's strings and lists are TOML's.
    Ok(serde_json::to_string(&words)?)
}

fn block(kind: &str, name: &str, command: &str) -> String {
    if kind == "reward" {
        return format!("[[rubric.component]]\nkind = \"stdio\"\nname = {:?}\ncommand = {command}\n", short(name));
    }
    let own = short(name);
    let more = if kind == "tau2" { TAU2_KEYS } else { "" };
    format!("[env]\nname = {own:?}\ncommand = {command}\n{more}prompt = \"\"\nstart_deadline_s = 300\n\n{COMPONENT}")
}

/// A name for records: letters, digits and dashes of the last part.
fn short(name: &str) -> String {
    let last = name.rsplit([':', '/']).next().unwrap_or(name);
    let text: String = last.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    text.trim_matches('-').to_owned()
}

fn write_adapter(directory: &Path, file: &str, text: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let path = directory.join(file);
    match std::fs::read_to_string(&path) {
        // A modified file belongs to the user.
        Ok(found) if found != text => {
            crate::output::note!("{} differs from Hone's and is left as it is", path.display());
        }
        Ok(_) => {}
        Err(_) => std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?,
    }
    Ok(path)
}

fn append(path: &Path, block: &str) -> Result<()> {
    let recipe = std::fs::read_to_string(path).with_context(|| format!("cannot read the recipe {}", path.display()))?;
    if block.starts_with("[env]") && recipe.lines().any(|line| matches!(line.trim(), "[env]" | "[[env]]")) {
        bail!("{} has an [env] table already; print the block without --recipe and merge it", path.display());
    }
    let joined = format!("{}\n\n{block}", recipe.trim_end());
    std::fs::write(path, joined).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_recipes() {
        for (kind, name) in [
            ("verifiers", "owner/reverse-text"),
            ("gym", "my_module:make"),
            ("tau2", "telecom"),
            ("reward", "a b.py:f"),
        ] {
            let arguments = matches!(kind, "verifiers" | "tau2").then(|| "{\"a\": \"b\"}".to_owned());
            let (source, python) = (format!("{kind}:{name}"), "venv/bin/python".to_owned());
            let args = Args { source, python, arguments, to: PathBuf::new(), recipe: None };
            let text = block(kind, name, &command(&args, name, Path::new("adapters/x.py")).unwrap());
            let table: toml::Table = toml::from_str(&text).unwrap();
            assert!(table.contains_key("rubric"), "{text}");
            assert_eq!(kind != "reward", table.contains_key("env"), "{text}");
            if matches!(kind, "verifiers" | "tau2") {
                assert_eq!(table["env"]["command"][3].as_str(), Some("{\"a\":\"b\"}"), "{text}");
            }
        }
        assert_eq!(short("owner/reverse-text"), "reverse-text");
        assert_eq!(short("FrozenLake-v1"), "FrozenLake-v1");
    }
}
