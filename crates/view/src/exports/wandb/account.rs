//! W&B's own settings, from the environment.

use std::fmt;

/// Default project, if `WANDB_PROJECT` is not set.
const PROJECT: &str = "hone";

const SERVER: &str = "https://api.wandb.ai";

/// Destination of the log: nowhere, a directory only, or also a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    Disabled,
    Offline,
    Online(Account),
}

/// A server and its credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    pub server: String,
    pub key: String,
}

/// Omits the key, so that it is never printed or logged.
impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Mode {
    /// `WANDB_MODE`, `WANDB_API_KEY` and `WANDB_BASE_URL`: online if there is a key, unless the mode says otherwise.
    pub fn from_env() -> Result<Self, String> {
        Self::of(set("WANDB_MODE").as_deref(), set("WANDB_API_KEY"), set("WANDB_BASE_URL"))
    }

    fn of(mode: Option<&str>, key: Option<String>, server: Option<String>) -> Result<Self, String> {
        let server = server.unwrap_or_else(|| SERVER.to_owned()).trim_end_matches('/').to_owned();
        match (mode, key) {
            (Some("disabled"), _) => Ok(Self::Disabled),
            (Some("offline" | "dryrun"), _) | (None, None) => Ok(Self::Offline),
            (None | Some("online"), Some(key)) => Ok(Self::Online(Account { server, key })),
            (Some("online"), None) => {
                Err("WANDB_MODE is online and WANDB_API_KEY is not set; set it, or `wandb sync` uploads later"
                    .to_owned())
            }
            (Some(other), _) => Err(format!("WANDB_MODE is {other:?}; it may be online, offline or disabled")),
        }
    }
}

pub(super) fn project() -> String {
    set("WANDB_PROJECT").unwrap_or_else(|| PROJECT.to_owned())
}

/// Absent: W&B uses the user's own.
pub(super) fn entity() -> Option<String> {
    set("WANDB_ENTITY")
}

fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_means_online_unless_the_mode_says_otherwise() {
        let key = || Some("secret".to_owned());
        let online = Mode::of(None, key(), None).unwrap();
        assert_eq!(online, Mode::Online(Account { server: SERVER.to_owned(), key: "secret".to_owned() }));
        assert!(!format!("{online:?}").contains("secret"));
        assert_eq!(Mode::of(Some("online"), key(), None).unwrap(), online);
        assert_eq!(Mode::of(None, None, None).unwrap(), Mode::Offline);
        assert_eq!(Mode::of(Some("offline"), key(), None).unwrap(), Mode::Offline);
        assert_eq!(Mode::of(Some("disabled"), key(), None).unwrap(), Mode::Disabled);
        assert!(Mode::of(Some("online"), None, None).unwrap_err().contains("WANDB_API_KEY is not set"));
        assert!(Mode::of(Some("onlin"), key(), None).unwrap_err().contains("may be online, offline or disabled"));
    }
}
