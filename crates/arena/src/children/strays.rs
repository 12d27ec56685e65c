//! Descendants of a child that left its process group.

use std::collections::HashSet;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

/// The variable that names a child's leash, to it and to its descendants.
pub(super) const VARIABLE: &str = "HONE_LEASH";

/// Prefix of all marks of this process, unique to it.
static OWN: LazyLock<String> = LazyLock::new(|| {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}-", std::process::id(), now.as_nanos())
});

/// A value of [`VARIABLE`] that no other child has.
pub(super) fn fresh_mark() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{}{}.", *OWN, NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Text in the variables of every child of this process and of its descendants.
pub(super) fn every_mark() -> String {
    format!("{VARIABLE}={}", *OWN)
}

/// Maximum scans for strays: a process that starts others faster than they are killed is not waited for.
const LOOKS: usize = 8;

/// Kills strays until there are none.
pub(super) fn kill_all(leader: Pid, mark: &str) {
    for _ in 0..LOOKS {
        let found = of(leader, mark);
        if found.is_empty() {
            return;
        }
        kill(&found);
    }
}

pub(super) fn kill(strays: &[Pid]) {
    for process in strays {
        // One that is already gone is not an error.
        let _ = kill_process(*process, Signal::KILL);
    }
}

/// Live processes with the mark, and all descendants of them or of the leader.
pub(super) fn of(leader: Pid, mark: &str) -> Vec<Pid> {
    descendants(leader, mark, false)
}

/// The same, and on demand those that have ended and were never waited for.
pub(super) fn descendants(leader: Pid, mark: &str, zombies: bool) -> Vec<Pid> {
    let leader = leader.as_raw_nonzero().get();
    let mut rest = Vec::new();
    let mut found = HashSet::new();
    for (process, parent) in processes(zombies) {
        if process != leader && bears(process, mark) {
            found.insert(process);
        } else {
            rest.push((process, parent));
        }
    }
    loop {
        let before = found.len();
        for (process, parent) in &rest {
            if *parent == leader || found.contains(parent) {
                found.insert(*process);
            }
        }
        if found.len() == before {
            return found.into_iter().filter_map(Pid::from_raw).collect();
        }
    }
}

/// Running processes with their parents; empty without `/proc`.
fn processes(zombies: bool) -> Vec<(i32, i32)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let stat = |id: i32| std::fs::read_to_string(format!("/proc/{id}/stat")).ok();
    ids.filter_map(|id: i32| Some((id, parent(&stat(id)?, zombies)?))).collect()
}

/// Parent in a line of `/proc/ID/stat`, `ID (NAME) STATE PARENT …`; `None` for a zombie, unless those are wanted.
fn parent(stat: &str, zombies: bool) -> Option<i32> {
    // A name may contain spaces and parentheses.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") && !zombies {
        return None;
    }
    fields.next()?.parse().ok()
}

fn bears(process: i32, mark: &str) -> bool {
    let variables = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    let wanted = format!("{VARIABLE}={mark}");
    variables.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_behind_any_name() {
        assert_eq!(parent("12 (sh) S 7 12 12", false), Some(7));
        assert_eq!(parent("12 (a) Z (b) S 8 12", false), Some(8));
        assert_eq!(parent("12 (sh) Z 7 12", false), None);
        assert_eq!(parent("12 (sh) Z 7 12", true), Some(7));
        assert_eq!(parent("", false), None);
    }
}
