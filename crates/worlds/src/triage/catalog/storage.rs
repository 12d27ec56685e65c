use super::{Domain, cause, failure};

pub(super) const DOMAIN: Domain = Domain {
    name: "storage",
    products: [
        "Silo Array",
        "Driftwood NAS",
        "Canyon Objectstore",
        "Pebble Filesync",
        "Bedrock SAN",
        "Delta Archive",
        "Harbor Fileserver",
        "Estuary Tiering",
        "Quarry Dedup",
        "Atoll Snapshot",
    ],
    failures: [
        failure(
            "the volume is full too early",
            ["we are told there is no space although there should be plenty", "saving fails because the disk is full"],
            [
                cause(
                    "old snapshots hold the space",
                    "snapshot reserve exceeded",
                    "Keep at most {value} snapshots on {service}.",
                    6,
                    2,
                ),
                cause(
                    "thin volumes are overcommitted",
                    "pool overcommit warning",
                    "Grow the pool by {value} gigabytes.",
                    200,
                    50,
                ),
                cause(
                    "deleted files are not reclaimed",
                    "reclaim task is behind",
                    "Run reclaim every {value} hours on {service}.",
                    2,
                    1,
                ),
            ],
        ),
        failure(
            "writes are slow",
            ["saving a document takes minutes", "putting files there has become a torture"],
            [
                cause(
                    "the write cache is off",
                    "write cache disabled by battery",
                    "Replace battery pack {value} and enable the cache.",
                    2,
                    1,
                ),
                cause(
                    "the stripe is misaligned",
                    "unaligned writes counted",
                    "Set the stripe offset to {value} kilobytes.",
                    64,
                    64,
                ),
                cause(
                    "a rebuild takes all bandwidth",
                    "rebuild at full priority",
                    "Limit the rebuild to {value} percent on {service}.",
                    5,
                    2,
                ),
            ],
        ),
        failure(
            "shares are not visible",
            ["my drive letter is gone", "the team folder has vanished from the list"],
            [
                cause(
                    "the export list was overwritten",
                    "export not found",
                    "Restore export list {value} and reload {service}.",
                    17,
                    3,
                ),
                cause(
                    "the protocol version is disabled",
                    "dialect not supported",
                    "Enable dialect {value} on {service}.",
                    2,
                    1,
                ),
                cause(
                    "access based listing hides the folder",
                    "entry hidden by access rule",
                    "Grant list rights to group {value}.",
                    440,
                    6,
                ),
            ],
        ),
        failure(
            "files come back in old versions",
            ["my changes of yesterday are lost", "the document shows last week's text"],
            [
                cause(
                    "the sync conflict rule prefers the server",
                    "conflict resolved for server",
                    "Set conflict rule {value} for the folder.",
                    2,
                    1,
                ),
                cause(
                    "a tier recall timed out",
                    "recall timed out",
                    "Raise the recall timeout to {value} seconds on {service}.",
                    90,
                    30,
                ),
                cause(
                    "the replica was promoted",
                    "replica promoted without flush",
                    "Resync from replica {value} and restart {service}.",
                    3,
                    1,
                ),
            ],
        ),
        failure(
            "uploads are rejected",
            ["I cannot put my file there", "sending a document to the store gives an error"],
            [
                cause(
                    "the object size limit is too low",
                    "object larger than limit",
                    "Raise the object limit to {value} megabytes.",
                    512,
                    128,
                ),
                cause(
                    "the bucket policy denies the prefix",
                    "prefix denied by bucket policy",
                    "Add prefix rule {value} to the bucket policy.",
                    25,
                    3,
                ),
                cause(
                    "the multipart session expired",
                    "multipart session expired",
                    "Keep multipart sessions for {value} hours on {service}.",
                    12,
                    4,
                ),
            ],
        ),
        failure(
            "checksums do not match",
            ["files arrive damaged", "opened archives are reported as broken"],
            [
                cause(
                    "a cable causes link errors",
                    "link error counter rising",
                    "Replace the cable of port {value}.",
                    7,
                    1,
                ),
                cause(
                    "scrubbing has not run",
                    "scrub overdue",
                    "Schedule a scrub every {value} days on {service}.",
                    7,
                    1,
                ),
                cause(
                    "the dedup index is damaged",
                    "index page invalid",
                    "Rebuild index segment {value} and restart {service}.",
                    70,
                    11,
                ),
            ],
        ),
    ],
};
