//! A generated carrier, and tasks in it: phones on which one to three things are wrong.

use std::sync::Arc;

use hone_arena::users::{Script, Topic};
use hone_trace::{Rng, Task};
use serde_json::{Value, json};

use super::NOTHING;
use super::draw::{Ids, address, chance, date_of_birth, items, name, text};
use crate::domains::py;
use crate::domains::tau2::telecom::{CUSTOMERS, PHONE_TABLES, TABLES, shape_list, shape_phone};
use crate::domains::verdict::judge;
use crate::domains::{Domain, Kind, LoadError, Requestor, actions, tasks};

/// Plans by name, data limit, price of a month and of a gigabyte.
const PLANS: [(&str, f64, f64, f64); 4] = [
    ("Light", 4.0, 18.0, 4.0),
    ("Everyday", 12.0, 35.0, 2.5),
    ("Family", 30.0, 70.0, 2.0),
    ("Endless", 500.0, 90.0, 0.5),
];

pub(super) fn domain(rng: &mut Rng, users: usize) -> Result<Domain, LoadError> {
    let plans = PLANS.iter().enumerate().map(|(at, (name, limit, price, refuel))| {
        json!({"plan_id": format!("P{:03}", at + 1), "name": name, "data_limit_gb": limit, "price_per_month": price,
            "data_refueling_price_per_gb": refuel})
    });
    let plans: Vec<Value> = plans.collect();
    let (mut numbers, mut customers, mut lines, mut devices) = (Ids::default(), Vec::new(), Vec::new(), Vec::new());
    for at in 0..users {
        let mut own = Vec::new();
        for _ in 0..1 + rng.below(2) {
            let id = lines.len() + 1001;
            let plan = rng.below(PLANS.len());
            devices.push(json!({"device_id": format!("D{id}"), "device_type": "phone", "model": format!("Model {}", rng.below(90) + 10),
                "is_esim_capable": chance(rng, 50), "activated": true}));
            lines.push(json!({"line_id": format!("L{id}"), "phone_number": numbers.digits(rng, "555-01", 5), "status": "Active",
                "plan_id": plans[plan]["plan_id"], "device_id": format!("D{id}"), "data_used_gb": PLANS[plan].1 / 4.0,
                "roaming_enabled": false, "contract_end_date": "2026-12-31"}));
            own.push(format!("L{id}"));
        }
        let ((first, last), home) = (name(rng), address(rng));
        let contact = lines.last().map(|line| line["phone_number"].clone());
        customers.push(json!({"customer_id": format!("C{}", at + 1001), "full_name": format!("{first} {last}"),
            "date_of_birth": date_of_birth(rng), "email": format!("{}.{}@example.org", first.to_lowercase(), last.to_lowercase()),
            "phone_number": contact, "account_status": "Active", "line_ids": own,
            "address": {"street": text(&home, "address1"), "city": text(&home, "city"), "state": text(&home, "state"),
                "zip_code": text(&home, "zip")}}));
    }
    let database = json!({"bills": [], "customers": customers, "devices": devices, "lines": lines, "plans": plans});
    let list = |table: &'static str| Ok((table, shape_list(table, &py::Value::from(&database[table]))?));
    let part = |table: &'static str| Ok((table, shape_phone(table, &py::Value::dict(py::Dict::new()))?));
    let lists = TABLES.into_iter().map(list).collect::<Result<_, String>>().map_err(LoadError::Model)?;
    let phone = PHONE_TABLES.into_iter().map(part).collect::<Result<_, String>>().map_err(LoadError::Model)?;
    Ok(Domain::telecom(lists, phone))
}

/// What a user complains of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Symptom {
    Service,
    Data,
    Pictures,
}

impl Symptom {
    fn complaint(self) -> &'static str {
        match self {
            Self::Service => "My phone has no service at all, and I want it back.",
            Self::Data => "Mobile data does not work or is slow on my phone, and I want it to be fast.",
            Self::Pictures => "My phone cannot send picture messages, and I want to send some.",
        }
    }

    fn assertions(self) -> Vec<Value> {
        let user =
            |name: &str, arguments: Value| json!({"env_type": "user", "func_name": name, "arguments": arguments});
        match self {
            Self::Service => vec![user("assert_service_status", json!({"expected_status": "connected"}))],
            Self::Data => vec![
                user("assert_mobile_data_status", json!({"expected_status": true})),
                user("assert_internet_speed", json!({"expected_speed": 200, "expected_desc": "excellent"})),
            ],
            Self::Pictures => vec![user("assert_can_send_mms", json!({"expected_status": true}))],
        }
    }
}

/// Something wrong: how it comes about, and what mends it. `true` is the user's.
struct Problem {
    symptom: Symptom,
    causes: Vec<(bool, &'static str, Value)>,
    fixes: Vec<(bool, &'static str, Value)>,
}

/// Everything that can be wrong with a customer's line and phone.
fn problems(customer: &str, line: &str, limit: f64) -> Vec<Problem> {
    let owner = |more: Value| {
        let mut all = json!({"customer_id": customer, "line_id": line});
        if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
            all.extend(more);
        }
        all
    };
    let problem = |symptom, causes, fixes| Problem { symptom, causes, fixes };
    let phone = |symptom, cause: &'static str, arguments: Value, fix: &'static str, with: Value| {
        problem(symptom, vec![(true, cause, arguments)], vec![(true, fix, with)])
    };
    let none = || json!({});
    let storage = |permission: &str| json!({"app_name": "messaging", "permission": permission});
    vec![
        phone(Symptom::Service, "turn_airplane_mode_on", none(), "toggle_airplane_mode", none()),
        phone(Symptom::Service, "unseat_sim_card", none(), "reseat_sim_card", none()),
        problem(
            Symptom::Service,
            vec![(true, "break_apn_settings", none())],
            vec![(true, "reset_apn_settings", none()), (true, "reboot_device", none())],
        ),
        problem(
            Symptom::Service,
            vec![
                (
                    false,
                    "suspend_line_for_overdue_bill",
                    owner(json!({"new_bill_id": "B9001", "contract_ended": false})),
                ),
                (true, "simulate_network_search", none()),
            ],
            vec![
                (false, "send_payment_request", json!({"customer_id": customer, "bill_id": "B9001"})),
                (true, "make_payment", none()),
                (false, "resume_line", owner(none())),
                (true, "reboot_device", none()),
            ],
        ),
        phone(Symptom::Data, "turn_data_off", none(), "toggle_data", none()),
        phone(Symptom::Data, "turn_data_saver_mode_on", none(), "toggle_data_saver_mode", none()),
        phone(Symptom::Data, "break_vpn", none(), "disconnect_vpn", none()),
        phone(
            Symptom::Data,
            "set_network_mode_preference",
            json!({"mode": "3g_only"}),
            "set_network_mode_preference",
            json!({"mode": "4g_5g_preferred"}),
        ),
        problem(
            Symptom::Data,
            vec![(true, "set_user_location", json!({"abroad": true})), (true, "turn_roaming_on", none())],
            vec![(false, "enable_roaming", owner(none()))],
        ),
        problem(
            Symptom::Data,
            vec![(false, "set_data_usage", owner(json!({"data_used_gb": limit + 1.0})))],
            vec![(false, "refuel_data", owner(json!({"gb_amount": 2.0})))],
        ),
        phone(
            Symptom::Pictures,
            "remove_app_permission",
            storage("storage"),
            "grant_app_permission",
            storage("storage"),
        ),
        phone(Symptom::Pictures, "remove_app_permission", storage("sms"), "grant_app_permission", storage("sms")),
        phone(
            Symptom::Pictures,
            "set_wifi_calling",
            json!({"enabled": true, "mms_over_wifi": true}),
            "toggle_wifi_calling",
            none(),
        ),
    ]
}

/// A task of a customer with as many problems as it is difficult, or none where its solution does not hold.
pub(super) fn task(domain: &Arc<Domain>, place: &str, rng: &mut Rng, difficulty: u8) -> Option<Task> {
    let desk = domain.open();
    let customer = desk.world().get(CUSTOMERS, place)?;
    let (id, full_name) = (text(customer, "customer_id"), text(customer, "full_name"));
    let line_id = items(customer, "line_ids").first()?.as_str()?;
    let (_, line) = crate::domains::tau2::telecom::line_of_id(desk.world(), line_id)?;
    let (number, plan) = (text(line, "phone_number"), text(line, "plan_id"));
    let limit = PLANS.get(plan.get(1..)?.parse::<usize>().ok()?.checked_sub(1)?)?.1;

    let mut all = problems(id, line_id, limit);
    let mut chosen = Vec::new();
    for _ in 0..difficulty {
        chosen.push(all.swap_remove(rng.below(all.len())));
    }
    let mut symptoms: Vec<Symptom> = Vec::new();
    chosen.iter().for_each(|problem| {
        if !symptoms.contains(&problem.symptom) {
            symptoms.push(problem.symptom);
        }
    });
    let complaints: Vec<&str> = symptoms.iter().map(|symptom| symptom.complaint()).collect();
    let side = |user: &bool| if *user { "user" } else { "assistant" };
    let known = (true, "set_user_info", json!({"name": full_name, "phone_number": number}));
    let causes = std::iter::once(&known).chain(chosen.iter().flat_map(|problem| &problem.causes));
    let causes: Vec<Value> =
        causes.map(|(by, name, with)| json!({"env_type": side(by), "func_name": name, "arguments": with})).collect();
    let fixes = chosen.iter().flat_map(|problem| &problem.fixes).enumerate();
    let fixes: Vec<Value> = fixes
        .map(|(at, (by, name, with))| {
            json!({"action_id": format!("{name}_{at}"), "requestor": side(by), "name": name, "arguments": with})
        })
        .collect();
    let assertions: Vec<Value> = symptoms.iter().flat_map(|symptom| symptom.assertions()).collect();
    let told = complaints.join(" ");
    let mut task = tasks::tau2(
        Kind::Telecom,
        &json!({
            "id": place,
            "user_scenario": {"instructions": format!("You are {full_name}, and your phone number is {number}. {told}")},
            "ticket": format!("{full_name}, phone number {number}, says: {told}"),
            "initial_state": {"initialization_actions": causes},
            "evaluation_criteria": {"actions": fixes, "env_assertions": assertions, "reward_basis": ["ENV_ASSERTION"]},
        }),
    )
    .ok()?;
    let topic =
        |asked: &[&str], answer: String| Topic { asked: asked.iter().map(|word| (*word).to_owned()).collect(), answer };
    let knows = vec![
        topic(&["phone number", "number"], format!("My phone number is {number}.")),
        topic(&["name"], format!("I am {full_name}.")),
        topic(&["birth"], format!("I was born on {}.", text(customer, "date_of_birth"))),
    ];
    let script = Script { goals: vec![told], knows, declines: Vec::new() };
    task.extra.insert("user".into(), json!(script));
    holds(domain, &task).then_some(task)
}

/// The solution earns 1, doing nothing 0, and no call of the solution fails.
fn holds(domain: &Arc<Domain>, task: &Task) -> bool {
    let Ok(beginning) = domain.begin(task) else { return false };
    let mut desk = beginning.desk;
    let before = judge(&desk, task, NOTHING).reward();
    let call = |(by, call): (Requestor, _)| desk.call_by(by, &call).is_ok_and(|reply| !reply.failed);
    let runs = actions::reference(task).into_iter().all(call);
    runs && before == Some(0.0) && judge(&desk, task, NOTHING).reward() == Some(1.0)
}
