use super::{Domain, cause, failure};

pub(super) const DOMAIN: Domain = Domain {
    name: "security",
    products: [
        "Palisade Firewall",
        "Sentry Endpoint",
        "Cipherbox Vault",
        "Watchtower SIEM",
        "Gatehouse WAF",
        "Moat Mailfilter",
        "Halberd Scanner",
        "Redoubt Sandbox",
        "Bastion Jumphost",
        "Drawbridge NAC",
    ],
    failures: [
        failure(
            "legitimate traffic is blocked",
            ["a site we need for work is refused", "the filter stops things that used to pass"],
            [
                cause(
                    "a signature is too broad",
                    "signature matched on generic header",
                    "Exempt signature {value} in the profile and reload {service}.",
                    4100,
                    7,
                ),
                cause(
                    "the reputation feed is stale",
                    "reputation feed older than limit",
                    "Refresh the feed every {value} minutes.",
                    10,
                    5,
                ),
                cause(
                    "geo blocking covers a partner",
                    "geo rule denied partner network",
                    "Add the partner network to allow list {value}.",
                    20,
                    1,
                ),
            ],
        ),
        failure(
            "updates of definitions fail",
            ["the protection says it is out of date", "the shield icon has turned yellow"],
            [
                cause(
                    "the mirror certificate was pinned",
                    "pinned certificate does not match",
                    "Replace the pin with key {value} and restart {service}.",
                    301,
                    6,
                ),
                cause(
                    "the update cache is corrupt",
                    "checksum of update cache is wrong",
                    "Clear update cache {value} and fetch the definitions again.",
                    2,
                    1,
                ),
                cause(
                    "the proxy needs a longer timeout",
                    "update download timed out",
                    "Set the download timeout to {value} seconds on {service}.",
                    90,
                    15,
                ),
            ],
        ),
        failure(
            "alerts arrive hours late",
            ["we hear of incidents long after the fact", "warnings show up the next morning"],
            [
                cause(
                    "the event queue is too small",
                    "event queue overflow",
                    "Raise the event queue to {value} thousand events on {service}.",
                    40,
                    5,
                ),
                cause(
                    "clocks differ between collectors",
                    "event time in the future",
                    "Sync the collectors with time source {value}.",
                    3,
                    1,
                ),
                cause(
                    "correlation waits for a slow rule",
                    "rule exceeded its time slice",
                    "Limit correlation rules to {value} milliseconds.",
                    50,
                    25,
                ),
            ],
        ),
        failure(
            "secrets cannot be read",
            ["the application gets no password from the store", "credentials are refused to every service"],
            [
                cause(
                    "the store is sealed after a restart",
                    "store is sealed",
                    "Unseal {service} with {value} key shares.",
                    3,
                    1,
                ),
                cause(
                    "the access policy lost a path",
                    "policy denies path",
                    "Attach policy {value} to the application role.",
                    510,
                    3,
                ),
                cause(
                    "the token lives too short",
                    "token expired before use",
                    "Set the token life to {value} minutes on {service}.",
                    20,
                    10,
                ),
            ],
        ),
        failure(
            "scans never finish",
            ["the weekly check hangs forever", "the inspection is stuck at the same percentage"],
            [
                cause(
                    "archives are unpacked without limit",
                    "archive nesting too deep",
                    "Limit archive depth to {value} levels on {service}.",
                    4,
                    1,
                ),
                cause(
                    "a network share is scanned in a loop",
                    "share visited again",
                    "Exclude share {value} from the schedule.",
                    60,
                    4,
                ),
                cause(
                    "the scan pool has too few threads",
                    "scan pool starved",
                    "Give the scan pool {value} threads and restart {service}.",
                    6,
                    2,
                ),
            ],
        ),
        failure(
            "trusted certificates are rejected",
            ["the browser warns about our own pages", "a padlock error appears on internal sites"],
            [
                cause(
                    "the intermediate is missing",
                    "issuer not found in chain",
                    "Install intermediate {value} in the trust list of {service}.",
                    700,
                    9,
                ),
                cause(
                    "the revocation list cannot be fetched",
                    "revocation list unavailable",
                    "Cache the revocation list for {value} hours.",
                    6,
                    2,
                ),
                cause(
                    "the minimum key size was raised",
                    "key size below policy",
                    "Set the minimum key size profile to {value} on {service}.",
                    11,
                    1,
                ),
            ],
        ),
    ],
};
