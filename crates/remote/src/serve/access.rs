//! Access control: the caller is an operator, an agent, or unknown.

use axum::http::{HeaderMap, StatusCode};

/// Rights of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Everything.
    Operator,
    /// Acting in a session that an operator opened. No reset, no state, no reward.
    Agent,
}

/// The tokens of a server.
pub(super) struct Access {
    operator: Option<String>,
    agent: Option<String>,
}

impl Access {
    pub(super) fn new(operator: Option<String>, agent: Option<String>) -> Self {
        Self { operator, agent }
    }

    /// The caller's role, or the status and reason of a refusal.
    pub(super) fn role(&self, headers: &HeaderMap) -> Result<Role, (StatusCode, &'static str)> {
        if self.operator.is_none() && self.agent.is_none() {
            return Ok(Role::Operator);
        }
        let given = headers.get("authorization").and_then(|value| value.to_str().ok());
        let Some(given) = given.and_then(|value| value.strip_prefix("Bearer ")) else {
            return Err((StatusCode::UNAUTHORIZED, "Not authenticated: send Authorization: Bearer TOKEN"));
        };
        let is =
            |token: &Option<String>| token.as_deref().is_some_and(|token| same(token.as_bytes(), given.as_bytes()));
        if is(&self.operator) {
            Ok(Role::Operator)
        } else if is(&self.agent) {
            Ok(Role::Agent)
        } else {
            Err((StatusCode::UNAUTHORIZED, "Not authenticated: the token is not known here"))
        }
    }
}

/// Constant-time comparison.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}
