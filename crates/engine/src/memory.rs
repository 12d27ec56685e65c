//! Available memory of the machine.

use std::fs::read_to_string;

/// Available bytes, the smaller of the kernel's report and the control group's limit; `None` if neither is known.
pub(crate) fn available() -> Option<u64> {
    let free = available_in(&read_to_string("/proc/meminfo").ok()?)?;
    let number = |path: &str| read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let group =
        number("/sys/fs/cgroup/memory.max").zip(number("/sys/fs/cgroup/memory.current")).map(|(limit, used)| {
            // The control group counts the page cache as used, although the kernel may drop it at any time.
            let cached = read_to_string("/sys/fs/cgroup/memory.stat").ok().and_then(|stat| cached_in(&stat));
            limit.saturating_sub(used.saturating_sub(cached.unwrap_or(0)))
        });
    Some(group.map_or(free, |group| group.min(free)))
}

fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

fn cached_in(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("inactive_file "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        assert_eq!(available_in("MemTotal:  100 kB\nMemAvailable:   24 kB\n"), Some(24 << 10));
        assert_eq!(available_in("MemTotal:  100 kB\n"), None);
        assert_eq!(cached_in("anon 5\ninactive_anon 1\ninactive_file 4096\n"), Some(4096));
    }
}
