//! Resources of a child and its descendants, counted in `/proc`.

use hone_trace::Held;

use super::{Tree, strays};

impl Tree {
    /// Processes, threads, open files and memory at this moment. Empty without `/proc`, or once the child has ended.
    pub fn holds(&self) -> Vec<Held> {
        let Some(leader) = self.group else { return Vec::new() };
        let id = leader.as_raw_nonzero().get();
        let Some(status) = read(id, "status") else { return Vec::new() };
        let Ok(files) = std::fs::read_dir(format!("/proc/{id}/fd")) else { return Vec::new() };
        let below = self.mark.as_deref().map_or_else(Vec::new, |mark| strays::descendants(leader, mark, true));
        let others = below.iter().filter_map(|process| read(process.as_raw_nonzero().get(), "status"));
        let kib: u64 = others.chain([status.clone()]).filter_map(|status| number(&status, "VmRSS:")).sum();
        let limit = read(id, "limits").and_then(|limits| number(&limits, "Max open files"));
        let held = |kind, count, limit| Held { place: format!("process {id}"), kind, count, in_use: None, limit };
        vec![
            held(PROCESSES, below.len() as u64, None),
            held(FILES, files.count() as u64, limit),
            held(THREADS, number(&status, "Threads:").unwrap_or(0), None),
            held(MEMORY, kib / 1024, None),
        ]
    }
}

const PROCESSES: &str = "child processes";
const FILES: &str = "open files";
const THREADS: &str = "threads";
const MEMORY: &str = "MiB of memory";

fn read(process: i32, file: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{process}/{file}")).ok()
}

/// The first number behind a name at the start of a line.
fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_behind_its_name() {
        assert_eq!(number("Name:\tsh\nThreads:\t3\n", "Threads:"), Some(3));
        assert_eq!(
            number("Max open files            1024                 4096     files", "Max open files"),
            Some(1024)
        );
        assert_eq!(number("Max open files            unlimited            unlimited", "Max open files"), None);
    }
}
