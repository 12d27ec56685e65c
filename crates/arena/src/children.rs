//! Child processes on a leash: each runs in its own process group with everything it starts, with a clean environment,
//! and nothing keeps running when it or Hone ends, however that happens.
//!
//! Two mechanisms end a group. A [`Leash`] kills it when it is dropped: when its leader ends, at a deadline, when a
//! runtime is shut down. If Hone itself is killed, the watchdog does it: one shell that reads from a pipe which only
//! Hone holds, and kills the registered groups when the pipe closes. (A parent-death signal would need `unsafe`, and is
//! not inherited by grandchildren.)
//!
//! Some processes leave the group (`setsid`, daemons). A child's environment variables name its leash, descendants
//! inherit them, and `strays` finds those in `/proc`; the watchdog looks there too. On systems other than Linux only
//! groups are killed.

mod holds;
mod strays;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command as StdCommand, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// Environment variables that every child inherits if they are set: those needed to find the program and its libraries,
/// and to write text and files.
const PASSED_ON: [&str; 13] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "PYTHONPATH",
];

/// A command to run on a leash. It sees the variables of [`PASSED_ON`] and those named, and no others: not the key of a
/// judge, nor anything else Hone was started with.
pub fn command(program: &str, variables: &[String]) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    for name in PASSED_ON.into_iter().chain(variables.iter().map(String::as_str)) {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    command.env(strays::VARIABLE, strays::fresh_mark());
    command.process_group(0).kill_on_drop(true);
    command
}

/// The first of the named variables that is not set.
pub fn missing(variables: &[String]) -> Option<&String> {
    variables.iter().find(|name| std::env::var_os(name.as_str()).is_none())
}

/// Reason why a program did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotStarted {
    #[error("there is no directory {}, in which {program} should be started; correct `directory`", directory.display())]
    Directory { program: String, directory: PathBuf },
    #[error("cannot start {program}: {error}")]
    Program { program: String, error: std::io::Error },
}

impl NotStarted {
    pub(crate) fn new(program: impl Into<String>, directory: Option<&Path>, error: std::io::Error) -> Self {
        let program = program.into();
        match directory.filter(|directory| !directory.is_dir()) {
            Some(directory) => Self::Directory { program, directory: directory.to_owned() },
            None => Self::Program { program, error },
        }
    }
}

/// Starts a command of [`command`]. Its whole group ends when the leash is dropped.
pub fn spawn(command: &mut Command) -> std::io::Result<(Child, Leash)> {
    let child = command.spawn()?;
    let variables = command.as_std().get_envs();
    let mark = variables.filter(|(name, _)| *name == strays::VARIABLE).find_map(|(_, mark)| mark?.to_str());
    let leash =
        Leash(Tree { group: child.id().and_then(|id| Pid::from_raw(id.cast_signed())), mark: mark.map(str::to_owned) });
    // A child must not run unwatched: the leash is dropped with the error.
    leash.watch()?;
    Ok((child, leash))
}

/// Process group that is killed when this is dropped, together with processes that left it.
#[derive(Debug)]
pub struct Leash(Tree);

/// A child with all that descends from it.
#[derive(Debug, Clone)]
pub struct Tree {
    group: Option<Pid>,
    /// Value of [`strays::VARIABLE`] in the child.
    mark: Option<String>,
}

impl Leash {
    /// The processes on this leash, to be counted.
    pub fn tree(&self) -> Tree {
        self.0.clone()
    }

    /// Kills the group and processes that left it. A group that is already gone is not an error.
    pub fn kill(&self) {
        let Some(group) = self.0.group else { return };
        // While their parents live, processes that cleared their variables can still be identified.
        let left = self.0.mark.as_deref().map_or_else(Vec::new, |mark| strays::of(group, mark));
        let _ = kill_process_group(group, Signal::KILL);
        strays::kill(&left);
        if let Some(mark) = &self.0.mark {
            strays::kill_all(group, mark);
        }
    }

    /// Registers the group with the watchdog; starts the watchdog if none is running.
    fn watch(&self) -> std::io::Result<()> {
        let Some(group) = self.0.group else { return Ok(()) };
        let mut watchdog = WATCHDOG.lock().unwrap_or_else(PoisonError::into_inner);
        let told = watchdog.as_mut().is_some_and(|pipe| writeln!(pipe, "+ {}", group.as_raw_nonzero()).is_ok());
        if !told {
            writeln!(watchdog.insert(start_watchdog()?), "+ {}", group.as_raw_nonzero())?;
        }
        Ok(())
    }

    fn forget(&self) {
        let mut watchdog = WATCHDOG.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(group), Some(pipe)) = (self.0.group, watchdog.as_mut()) {
            // A watchdog that is gone has nothing to forget.
            let _ = writeln!(pipe, "- {}", group.as_raw_nonzero());
        }
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        // A group's number is not reused while a process is in it, and numbers are assigned in sequence: one that has
        // just become free is not in use yet.
        self.kill();
        self.forget();
    }
}

// Std mutex: held for one write to a pipe.
static WATCHDOG: Mutex<Option<ChildStdin>> = Mutex::new(None);

/// Keeps a list of groups and kills them when its input ends, which is when Hone does.
const SCRIPT: &str = r#"
groups=
while read -r sign group; do
    rest=
    for other in $groups; do [ "$other" = "$group" ] || rest="$rest $other"; done
    groups=$rest
    [ "$sign" = + ] && groups="$groups $group"
done
for group in $groups; do kill -s KILL -- "-$group"; done
for round in 1 2 3; do
    for file in $(command -p grep -lsF "$1" /proc/[0-9]*/environ); do
        process=${file#/proc/}
        kill -s KILL "${process%/environ}"
    done
done
"#;

fn start_watchdog() -> std::io::Result<ChildStdin> {
    use std::os::unix::process::CommandExt as _;
    let mut command = StdCommand::new("/bin/sh");
    command.args(["-c", SCRIPT, "watchdog", &strays::every_mark()]);
    command.env_clear().stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // Its own process group: ctrl-c in the terminal is not meant for it.
    let mut child = command.process_group(0).spawn()?;
    child.stdin.take().ok_or_else(|| std::io::Error::other("the watchdog has no pipe"))
}
