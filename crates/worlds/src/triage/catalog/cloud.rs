use super::{Domain, cause, failure};

pub(super) const DOMAIN: Domain = Domain {
    name: "cloud",
    products: [
        "Nimbus Compute",
        "Stratus Functions",
        "Cirrus Pipelines",
        "Skiff Containers",
        "Armada Clusters",
        "Zephyr Queue",
        "Tempest Scheduler",
        "Altitude Registry",
        "Updraft Gateway",
        "Thermal Autoscaler",
    ],
    failures: [
        failure(
            "deployments stay pending",
            ["my release never starts", "the rollout has been waiting since this morning"],
            [
                cause(
                    "the project quota is used up",
                    "quota exceeded for project",
                    "Raise the project quota to {value} units.",
                    40,
                    8,
                ),
                cause(
                    "no node carries the label",
                    "no node matches selector",
                    "Label node pool {value} for the deployment.",
                    3,
                    1,
                ),
                cause(
                    "the image pull is throttled",
                    "image pull rate limited",
                    "Limit {service} to {value} parallel pulls.",
                    2,
                    1,
                ),
            ],
        ),
        failure(
            "instances restart in a loop",
            ["the app comes up and dies again and again", "it keeps rebooting by itself"],
            [
                cause(
                    "the memory limit is too low",
                    "killed by memory limit",
                    "Raise the memory limit to {value} megabytes.",
                    768,
                    64,
                ),
                cause(
                    "the health check starts too early",
                    "health check failed during start",
                    "Delay the health check by {value} seconds on {service}.",
                    20,
                    5,
                ),
                cause(
                    "a config map has a bad revision",
                    "config revision rejected",
                    "Roll the config back to revision {value} and restart {service}.",
                    12,
                    3,
                ),
            ],
        ),
        failure(
            "calls fail with throttling",
            ["we get told to slow down all the time", "half of our requests are turned away"],
            [
                cause(
                    "one client has the default rate",
                    "client over default rate",
                    "Set the client rate to {value} per second.",
                    150,
                    25,
                ),
                cause(
                    "retries come without pause",
                    "retry storm detected",
                    "Set the retry pause to {value} milliseconds on {service}.",
                    200,
                    50,
                ),
                cause("the burst credit is spent", "burst credit is zero", "Move the workload to tier {value}.", 2, 1),
            ],
        ),
        failure(
            "jobs run twice",
            ["every report is sent double", "the same work is done again a minute later"],
            [
                cause(
                    "the lock expires before the job ends",
                    "lock lost while running",
                    "Extend the job lock to {value} minutes on {service}.",
                    15,
                    5,
                ),
                cause(
                    "two schedulers are active",
                    "second leader elected",
                    "Set the leader lease to {value} seconds and restart {service}.",
                    12,
                    3,
                ),
                cause(
                    "messages are redelivered too soon",
                    "message visible before ack",
                    "Raise the visibility timeout to {value} seconds.",
                    120,
                    30,
                ),
            ],
        ),
        failure(
            "costs jump without new load",
            ["the bill doubled and nobody did anything", "spending exploded overnight"],
            [
                cause(
                    "idle instances are not scaled in",
                    "scale in blocked by cooldown",
                    "Cut the cooldown to {value} minutes on {service}.",
                    4,
                    1,
                ),
                cause("logs are kept forever", "log retention not set", "Set log retention to {value} days.", 7, 7),
                cause(
                    "traffic leaves through another region",
                    "cross region egress above plan",
                    "Route egress through zone {value}.",
                    4,
                    1,
                ),
            ],
        ),
        failure(
            "builds cannot reach the registry",
            ["our pipeline fails to fetch its base image", "the build stops right at the download"],
            [
                cause(
                    "the pull token has expired",
                    "pull token expired",
                    "Issue pull token {value} and restart {service}.",
                    8010,
                    11,
                ),
                cause(
                    "the private endpoint changed",
                    "private endpoint not found",
                    "Set the private endpoint to 10.60.0.{value}.",
                    21,
                    4,
                ),
                cause(
                    "the egress rule is missing",
                    "egress denied by policy",
                    "Add egress rule {value} to the build network.",
                    330,
                    5,
                ),
            ],
        ),
    ],
};
