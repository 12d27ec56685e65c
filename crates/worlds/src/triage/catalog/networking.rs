use super::{Domain, cause, failure};

pub(super) const DOMAIN: Domain = Domain {
    name: "networking",
    products: [
        "Corelink VPN",
        "Peregrine Router",
        "Switchyard Fabric",
        "Beacon DNS",
        "Tallow Proxy",
        "Wavefront WLAN",
        "Quorum Balancer",
        "Lattice SDWAN",
        "Meridian Gateway",
        "Sparrow DHCP",
    ],
    failures: [
        failure(
            "sessions drop every hour",
            ["everybody is thrown out about once an hour", "connections are cut at regular intervals"],
            [
                cause(
                    "the rekey timer is shorter than the peer's",
                    "rekey refused by peer",
                    "Set the rekey timer to {value} seconds on {service}.",
                    3000,
                    60,
                ),
                cause(
                    "idle sessions are reaped too early",
                    "idle reaper closed session",
                    "Raise the idle limit to {value} minutes and reload {service}.",
                    65,
                    5,
                ),
                cause(
                    "keepalives are lost in a busy queue",
                    "keepalive missed three times",
                    "Move keepalives to queue {value} of {service}.",
                    2,
                    1,
                ),
            ],
        ),
        failure(
            "large transfers stall",
            ["small pages load but big files hang", "copying anything sizeable gets stuck halfway"],
            [
                cause(
                    "the path MTU is too high",
                    "fragment needed but DF set",
                    "Lower the MTU to {value} bytes on {service}.",
                    1280,
                    8,
                ),
                cause(
                    "the window scale is clamped",
                    "window scale option stripped",
                    "Set the window scale to {value} and restart {service}.",
                    3,
                    1,
                ),
                cause(
                    "the shaper drops bursts",
                    "burst bucket exhausted",
                    "Raise the burst bucket to {value} kilobytes in the shaper.",
                    256,
                    32,
                ),
            ],
        ),
        failure(
            "names do not resolve",
            ["host names are not found any more", "only numeric addresses work"],
            [
                cause(
                    "the forwarder list is out of date",
                    "forwarder unreachable",
                    "Point the forwarder to 10.20.0.{value} and flush {service}.",
                    11,
                    3,
                ),
                cause(
                    "the negative cache is too long",
                    "negative answer served from cache",
                    "Cut the negative cache to {value} seconds on {service}.",
                    15,
                    5,
                ),
                cause(
                    "the zone serial went backwards",
                    "zone serial lower than current",
                    "Raise the zone serial by {value} and transfer the zone again.",
                    100,
                    10,
                ),
            ],
        ),
        failure(
            "latency rises at peak time",
            ["everything crawls around noon", "the connection gets sluggish when the office is full"],
            [
                cause(
                    "one worker handles all queues",
                    "queue pinned to a single core",
                    "Spread {service} over {value} workers.",
                    4,
                    1,
                ),
                cause(
                    "the connection table is nearly full",
                    "connection table above high mark",
                    "Grow the connection table to {value} thousand entries.",
                    64,
                    16,
                ),
                cause(
                    "voice traffic has lost its class",
                    "class map has no match",
                    "Map voice traffic to class {value} and reload {service}.",
                    10,
                    2,
                ),
            ],
        ),
        failure(
            "new devices get no address",
            ["fresh laptops cannot join the network", "a just installed phone stays offline"],
            [
                cause(
                    "the lease pool is exhausted",
                    "no free lease in pool",
                    "Shorten the lease to {value} hours and restart {service}.",
                    2,
                    1,
                ),
                cause(
                    "the relay points to a retired server",
                    "relay target does not answer",
                    "Set the relay target to 10.30.0.{value} on {service}.",
                    12,
                    4,
                ),
                cause(
                    "port security blocks unknown cards",
                    "port security violation",
                    "Allow {value} hardware addresses per port.",
                    3,
                    1,
                ),
            ],
        ),
        failure(
            "routes flap between two paths",
            ["the link keeps switching back and forth", "traffic jumps from one line to the other"],
            [
                cause(
                    "both paths have equal cost",
                    "equal cost path toggled",
                    "Set the cost of the backup path to {value}.",
                    110,
                    10,
                ),
                cause(
                    "hello packets time out",
                    "hello timer expired",
                    "Raise the dead interval to {value} seconds on {service}.",
                    20,
                    5,
                ),
                cause(
                    "damping is switched off",
                    "damping disabled for prefix",
                    "Enable damping with a half life of {value} minutes.",
                    10,
                    1,
                ),
            ],
        ),
    ],
};
