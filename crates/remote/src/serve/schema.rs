//! Schemas of actions, observations and state, and the description of the routes.

use serde_json::{Map, Value, json};

/// The answer to `/schema`.
pub(super) fn schemas() -> Value {
    json!({
        "action": action(),
        "observation": observation(),
        "state": state(),
        "reset_observation": base_observation("Observation", json!({})),
    })
}

fn action() -> Value {
    json!({
        "additionalProperties": false,
        "description": "Call a tool of the environment.",
        "properties": {
            "metadata": {"additionalProperties": true, "title": "Metadata", "type": "object"},
            "type": {"const": "call_tool", "default": "call_tool", "title": "Type", "type": "string"},
            "tool_name": {"description": "Name of the tool to call", "title": "Tool Name", "type": "string"},
            "arguments": {"additionalProperties": true, "title": "Arguments", "type": "object"},
        },
        "required": ["tool_name"],
        "title": "CallToolAction",
        "type": "object",
    })
}

fn base_observation(title: &str, own: Value) -> Value {
    let mut properties = json!({
        "done": {"default": false, "title": "Done", "type": "boolean"},
        "reward": {
            "anyOf": [{"type": "boolean"}, {"type": "integer"}, {"type": "number"}, {"type": "null"}],
            "default": null,
            "title": "Reward",
        },
        "metadata": {"additionalProperties": true, "title": "Metadata", "type": "object"},
    });
    if let (Some(all), Value::Object(own)) = (properties.as_object_mut(), own) {
        all.extend(own);
    }
    json!({"additionalProperties": false, "properties": properties, "title": title, "type": "object"})
}

fn observation() -> Value {
    let error = json!({
        "additionalProperties": false,
        "properties": {
            "error_type": {
                "enum": ["execution_error", "invalid_args", "transport_error", "tool_not_found", "timeout"],
                "type": "string",
            },
            "message": {"type": "string"},
        },
        "required": ["error_type", "message"],
        "type": "object",
    });
    let mut schema = base_observation(
        "CallToolObservation",
        json!({
            "tool_name": {"title": "Tool Name", "type": "string"},
            "result": {"default": null, "title": "Result"},
            "error": {"anyOf": [error, {"type": "null"}], "default": null},
        }),
    );
    schema["required"] = json!(["tool_name"]);
    schema
}

fn state() -> Value {
    json!({
        "additionalProperties": true,
        "properties": {
            "episode_id": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null, "title": "Episode Id"},
            "step_count": {"default": 0, "minimum": 0, "title": "Step Count", "type": "integer"},
        },
        "title": "State",
        "type": "object",
    })
}

/// The answer to `/openapi.json`. Either all routes of a simulation are listed, or none.
pub(super) fn openapi(simulation: bool) -> Value {
    let mut paths = Map::new();
    let mut add = |path: &str, methods: &[(&str, &str)]| {
        let of = |(method, summary): &(&str, &str)| {
            let good = json!({"description": "Successful Response", "content": {"application/json": {"schema": {}}}});
            ((*method).to_owned(), json!({"summary": summary, "responses": {"200": good}}))
        };
        paths.insert(path.to_owned(), Value::Object(methods.iter().map(of).collect()));
    };
    add("/health", &[("get", "Health")]);
    add("/metadata", &[("get", "Metadata")]);
    add("/schema", &[("get", "Schemas of actions, observations and state")]);
    if simulation {
        add("/reset", &[("post", "Reset")]);
        add("/step", &[("post", "Step")]);
        add("/state", &[("get", "State")]);
    }
    add("/mcp", &[("post", "JSON-RPC: OpenEnv's subset and MCP"), ("delete", "End an MCP session")]);
    add("/list_environments", &[("get", "Environments")]);
    add("/{env_name}/splits", &[("get", "Splits")]);
    add("/{env_name}/tasks", &[("post", "Tasks of a split")]);
    add("/{env_name}/num_tasks", &[("post", "Number of tasks of a split")]);
    add("/{env_name}/task", &[("post", "One task")]);
    add("/{env_name}/task_range", &[("post", "Tasks from start to stop")]);
    json!({
        "openapi": "3.1.0",
        "info": {"title": "OpenEnv Environment HTTP API", "version": "1.0.0"},
        "paths": paths,
    })
}
