use super::{Domain, cause, failure};

pub(super) const DOMAIN: Domain = Domain {
    name: "identity",
    products: [
        "Passkey Directory",
        "Signet SSO",
        "Badge MFA",
        "Rosterly HR",
        "Crest Federation",
        "Ledgerman Accounts",
        "Herald Provisioning",
        "Latchkey PAM",
        "Emblem Portal",
        "Tessera Tokens",
    ],
    failures: [
        failure(
            "accounts are locked again and again",
            ["I am shut out although my password is right", "the login gets blocked several times a day"],
            [
                cause(
                    "a phone keeps an old password",
                    "bad password from mobile agent",
                    "Remove device profile {value} and unlock the account.",
                    610,
                    7,
                ),
                cause(
                    "the lockout threshold is too low",
                    "lockout threshold reached",
                    "Raise the lockout threshold to {value} attempts on {service}.",
                    8,
                    1,
                ),
                cause(
                    "a stale ticket is replayed",
                    "stale ticket presented",
                    "Purge ticket cache {value} on the client.",
                    2,
                    1,
                ),
            ],
        ),
        failure(
            "single sign on asks for the password",
            ["I have to type my password in every application", "the automatic login stopped working"],
            [
                cause(
                    "the service name is registered twice",
                    "duplicate service name",
                    "Delete service name entry {value} and restart {service}.",
                    140,
                    9,
                ),
                cause(
                    "the cookie lives too short",
                    "session cookie expired",
                    "Set the session cookie to {value} hours on {service}.",
                    8,
                    1,
                ),
                cause(
                    "the browser zone is missing",
                    "origin not in trusted zone",
                    "Add the portal to zone list {value}.",
                    3,
                    1,
                ),
            ],
        ),
        failure(
            "second factors are not accepted",
            ["my code is always wrong", "the prompt on my phone is refused"],
            [
                cause(
                    "the token clock has drifted",
                    "code outside time window",
                    "Resync the token with a window of {value} steps.",
                    4,
                    1,
                ),
                cause(
                    "push messages use a retired key",
                    "push key rejected",
                    "Upload push key {value} to {service}.",
                    2201,
                    17,
                ),
                cause(
                    "the user is in two factor groups",
                    "two factor policies apply",
                    "Remove the user from factor group {value}.",
                    51,
                    2,
                ),
            ],
        ),
        failure(
            "new employees get no account",
            ["our starter cannot log on on the first day", "the colleague who joined has no access at all"],
            [
                cause(
                    "the HR feed has a bad record",
                    "feed record rejected",
                    "Correct field {value} of the feed and rerun {service}.",
                    6,
                    1,
                ),
                cause(
                    "the naming rule has a collision",
                    "account name already taken",
                    "Switch to naming rule {value}.",
                    2,
                    1,
                ),
                cause(
                    "the provisioning queue is paused",
                    "queue paused by operator",
                    "Resume queue {value} on {service}.",
                    12,
                    3,
                ),
            ],
        ),
        failure(
            "group changes take days",
            ["I was added to the team but still see nothing", "rights arrive far too late"],
            [
                cause(
                    "replication runs over a slow link",
                    "replication backlog",
                    "Set the replication interval to {value} minutes on {service}.",
                    5,
                    5,
                ),
                cause(
                    "nested groups exceed the limit",
                    "group nesting limit hit",
                    "Flatten the groups to {value} levels.",
                    3,
                    1,
                ),
                cause(
                    "the token carries too many groups",
                    "group claim truncated",
                    "Raise the claim limit to {value} groups and restart {service}.",
                    120,
                    20,
                ),
            ],
        ),
        failure(
            "federated logins fail",
            ["partners cannot sign in", "guests end up on an error page"],
            [
                cause(
                    "the metadata is outdated",
                    "metadata expired",
                    "Import metadata version {value} into {service}.",
                    30,
                    3,
                ),
                cause(
                    "the audience does not match",
                    "audience mismatch",
                    "Set the audience to application {value}.",
                    9010,
                    12,
                ),
                cause(
                    "the clock skew is not tolerated",
                    "assertion not yet valid",
                    "Allow a clock skew of {value} seconds on {service}.",
                    60,
                    15,
                ),
            ],
        ),
    ],
};
