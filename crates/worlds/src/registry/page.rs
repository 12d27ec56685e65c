//! docs/environments-reference.md, from the entries.

use hone_arena::catalogue::{Documented as _, Options, Place, keys_table, section};
use hone_arena::chat_client::ChatSpec;

use super::{PROGRAM, REMOTE};
use crate::BUILTINS;
use crate::domains::StrategySpec;

/// The reference page of environments: every name, every key.
pub fn page() -> Result<String, serde_json::Error> {
    let mut page = String::from(
        "# Environments: reference\n\n\
         Written from the entries in `crates/worlds/src`; change them there and run\n\
         `HONE_BLESS=1 cargo test -p hone-worlds --test environments_page`. docs/environments.md says what the environments\n\
         are like.\n\n\
         A recipe has one `[env]` table, or a `[[env]]` table for each of several environments. Keys that an environment does\n\
         not have are errors, and so are unknown names.\n",
    );
    for entry in BUILTINS {
        section(&mut page, Place { header: "[env]", key: Some("name") }, entry)?;
        if let Some(floor) = entry.make.floor {
            page.push_str(&format!("\nFloor: no scripted policy earns over {} on average.\n", floor.at_most));
        }
    }
    section(&mut page, Place { header: "[env]", key: None }, &PROGRAM)?;
    for entry in REMOTE {
        section(&mut page, Place { header: "[env]", key: Some("kind") }, entry)?;
    }
    page.push_str(
        "\n## user\n\n\
         The user of retail, airline and telecom. `user = \"scripted\"`, the default, follows the script of a generated task, or states the\n\
         task's instruction: free and repeatable. A table is a model behind an OpenAI-compatible server, which plays the task's\n\
         instruction as tau-bench's users do; an episode whose user does not answer is left out, never scored 0. With `data = DIR` and\n\
         `profile = \"compat\"` it is told tau-bench's own prompts, so that results compare with published ones: `user_prompts.json` in DIR or\n\
         beside it, with the texts of tau_bench/envs/user.py under `llm_system`, `react_system`, `verify_user_prompt` and `reflect_user_prompt`.\n\
         Everywhere else the prompts are Hone's.\n\n\
         ```toml\n[env]\nname = \"retail\"\nuser = { url = \"http://localhost:8000/v1\", model = \"user\" }\n```\n\n",
    );
    let (required, complete) =
        Options::both::<StrategySpec, ChatSpec>(r#"{"url": "http://localhost:8000/v1", "model": "user"}"#)
            .defaults()?;
    let keys: Vec<_> = StrategySpec::KEYS.iter().chain(ChatSpec::KEYS).collect();
    page.push_str(&keys_table(&keys, &required, &complete));
    Ok(page)
}
