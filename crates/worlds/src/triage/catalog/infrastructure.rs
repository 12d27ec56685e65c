use super::{Domain, cause, failure};

pub(super) const DOMAIN: Domain = Domain {
    name: "infrastructure",
    products: [
        "Foundry Hypervisor",
        "Granite Server",
        "Keystone Monitor",
        "Girder Orchestrator",
        "Cobalt Database",
        "Plumbline Backup",
        "Anvil Printserver",
        "Trestle Mailhub",
        "Rivet Patchmanager",
        "Scaffold Imaging",
    ],
    failures: [
        failure(
            "the service does not start after patching",
            ["since the update night nothing comes up", "it stayed down after the maintenance"],
            [
                cause(
                    "a library version is pinned",
                    "library version conflict",
                    "Pin the library to build {value} and start {service}.",
                    210,
                    4,
                ),
                cause(
                    "the start order changed",
                    "dependency not ready",
                    "Set the start delay of {service} to {value} seconds.",
                    15,
                    5,
                ),
                cause("a driver is unsigned", "driver signature missing", "Roll driver package {value} back.", 31, 2),
            ],
        ),
        failure(
            "the processor is always busy",
            ["the machine is hot and slow all day", "the fans never stop and the load is at the limit"],
            [
                cause(
                    "a debug trace is left on",
                    "trace level is verbose",
                    "Set the trace level to {value} on {service}.",
                    1,
                    1,
                ),
                cause(
                    "the power plan caps the clock",
                    "clock capped by power plan",
                    "Select power plan {value} in the firmware.",
                    4,
                    1,
                ),
                cause(
                    "a poller runs without pause",
                    "poll interval is zero",
                    "Set the poll interval to {value} seconds and restart {service}.",
                    10,
                    5,
                ),
            ],
        ),
        failure(
            "jobs wait in the queue forever",
            ["nothing is worked off any more", "my task sits there and never gets its turn"],
            [
                cause(
                    "a spool file is broken",
                    "spool entry unreadable",
                    "Delete spool entry {value} and restart {service}.",
                    1020,
                    13,
                ),
                cause(
                    "all slots are held by dead jobs",
                    "slot owner is gone",
                    "Release slots older than {value} minutes.",
                    30,
                    10,
                ),
                cause(
                    "the worker licence count is reached",
                    "no licence for worker",
                    "Assign licence pack {value} to {service}.",
                    41,
                    3,
                ),
            ],
        ),
        failure(
            "backups are incomplete",
            ["some folders are missing when we restore", "the nightly copy lacks files"],
            [
                cause(
                    "open files are skipped",
                    "open file skipped",
                    "Enable snapshot provider {value} for the backup job.",
                    2,
                    1,
                ),
                cause(
                    "the window closes too early",
                    "backup window closed",
                    "Extend the backup window to {value} minutes on {service}.",
                    200,
                    20,
                ),
                cause(
                    "the exclude list is too wide",
                    "exclude pattern matched folder",
                    "Remove exclude pattern {value} from the job.",
                    5,
                    1,
                ),
            ],
        ),
        failure(
            "connections to the database are refused",
            ["the application says it cannot log on to its data", "records cannot be opened by anyone"],
            [
                cause(
                    "the connection pool leaks",
                    "pool exhausted",
                    "Set the pool size to {value} and recycle {service}.",
                    80,
                    20,
                ),
                cause(
                    "the listener moved to another port",
                    "listener not on port",
                    "Point the clients to port {value}.",
                    5440,
                    3,
                ),
                cause(
                    "statistics lock the catalogue",
                    "catalogue lock wait",
                    "Run statistics at {value} minutes past midnight on {service}.",
                    12,
                    7,
                ),
            ],
        ),
        failure(
            "monitoring shows gaps",
            ["the graphs have holes in them", "there are stretches without any readings"],
            [
                cause(
                    "the collector drops samples",
                    "sample buffer full",
                    "Raise the sample buffer to {value} thousand on {service}.",
                    16,
                    4,
                ),
                cause(
                    "the agent certificate rolled over",
                    "agent certificate unknown",
                    "Enrol agent group {value} again.",
                    70,
                    5,
                ),
                cause(
                    "the retention job runs at noon",
                    "retention job blocks writes",
                    "Move the retention job to {value} minutes after midnight.",
                    25,
                    5,
                ),
            ],
        ),
    ],
};
