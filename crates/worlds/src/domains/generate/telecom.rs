//! A generated carrier, and tasks in it: phones on which one to three things are wrong.

use std::sync::Arc;

use hone_arena::users::{Script, Topic};
use hone_trace::{Rng, Task};
use serde_json::{Value, json};

use super::draw::{Ids, address, chance, date_of_birth, items, name, text};
use super::{NOTHING, Names};
use crate::domains::py;
use crate::domains::tau2::telecom::{CUSTOMERS, PHONE_TABLES, TABLES, line_of_id, shape_list, shape_phone};
use crate::domains::verdict::judge;
use crate::domains::world::World;
use crate::domains::{Domain, Kind, LoadError, Requestor, actions, tasks};

/// Plans by name, data limit, price of a month and of a gigabyte.
const PLANS: [(&str, f64, f64, f64); 4] = [
    ("Light", 4.0, 18.0, 4.0),
    ("Everyday", 12.0, 35.0, 2.5),
    ("Family", 30.0, 70.0, 2.0),
    ("Endless", 500.0, 90.0, 0.5),
];

pub(super) fn domain(rng: &mut Rng, users: usize, names: Names) -> Result<Domain, LoadError> {
    let plans = PLANS.iter().enumerate().map(|(at, (name, limit, price, refuel))| {
        json!({"plan_id": format!("P{:03}", at + 1), "name": name, "data_limit_gb": limit, "price_per_month": price,
            "data_refueling_price_per_gb": refuel})
    });
    let plans: Vec<Value> = plans.collect();
    let (mut numbers, mut customers, mut lines, mut devices) = (Ids::default(), Vec::new(), Vec::new(), Vec::new());
    for at in 0..users {
        let mut own = Vec::new();
        for _ in 0..=rng.below(2) {
            let id = lines.len() + 1001;
            let plan = rng.below(PLANS.len());
            devices.push(json!({"device_id": format!("D{id}"), "device_type": "phone", "model": format!("Model {}", rng.below(90) + 10),
                "is_esim_capable": chance(rng, 50), "activated": true}));
            lines.push(json!({"line_id": format!("L{id}"), "phone_number": numbers.digits(rng, "555-01", 5), "status": "Active",
                "plan_id": plans[plan]["plan_id"], "device_id": format!("D{id}"), "data_used_gb": PLANS[plan].1 / 4.0,
                "roaming_enabled": false, "contract_end_date": "2026-12-31"}));
            own.push(format!("L{id}"));
        }
        let ((first, last), home) = (name(rng, names), address(rng));
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

/// Complaint of a user.
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

/// A problem: its cause and its fix. `true` marks the user's tools.
struct Problem {
    symptom: Symptom,
    causes: Vec<(bool, &'static str, Value)>,
    fixes: Vec<(bool, &'static str, Value)>,
}

/// A customer with the line that a task is about.
struct Subject<'a> {
    customer: &'a str,
    full_name: &'a str,
    born: &'a str,
    line: &'a str,
    number: &'a str,
    /// Gigabytes of the line's plan.
    limit: f64,
}

impl<'a> Subject<'a> {
    fn read(world: &'a World, place: &str) -> Option<Self> {
        let customer = world.get(CUSTOMERS, place)?;
        let id = items(customer, "line_ids").first()?.as_str()?;
        let (_, line) = line_of_id(world, id)?;
        let plan: usize = text(line, "plan_id").get(1..)?.parse().ok()?;
        Some(Self {
            customer: text(customer, "customer_id"),
            full_name: text(customer, "full_name"),
            born: text(customer, "date_of_birth"),
            line: id,
            number: text(line, "phone_number"),
            limit: PLANS.get(plan.checked_sub(1)?)?.1,
        })
    }

    /// Arguments that name customer and line, and others.
    fn owner(&self, more: Value) -> Value {
        let mut all = json!({"customer_id": self.customer, "line_id": self.line});
        if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
            all.extend(more);
        }
        all
    }
}

/// Problem of the phone only, with one cause and one fix.
fn phone(symptom: Symptom, cause: (&'static str, Value), fix: (&'static str, Value)) -> Problem {
    Problem { symptom, causes: vec![(true, cause.0, cause.1)], fixes: vec![(true, fix.0, fix.1)] }
}

fn none() -> Value {
    json!({})
}

/// Everything that can leave a phone without service.
fn service_problems(subject: &Subject) -> Vec<Problem> {
    let overdue = subject.owner(json!({"new_bill_id": "B9001", "contract_ended": false}));
    vec![
        phone(Symptom::Service, ("turn_airplane_mode_on", none()), ("toggle_airplane_mode", none())),
        phone(Symptom::Service, ("unseat_sim_card", none()), ("reseat_sim_card", none())),
        Problem {
            symptom: Symptom::Service,
            causes: vec![(true, "break_apn_settings", none())],
            fixes: vec![(true, "reset_apn_settings", none()), (true, "reboot_device", none())],
        },
        Problem {
            symptom: Symptom::Service,
            causes: vec![(false, "suspend_line_for_overdue_bill", overdue), (true, "simulate_network_search", none())],
            fixes: vec![
                (false, "send_payment_request", json!({"customer_id": subject.customer, "bill_id": "B9001"})),
                (true, "make_payment", none()),
                (false, "resume_line", subject.owner(none())),
                (true, "reboot_device", none()),
            ],
        },
    ]
}

/// Everything that can stop or slow mobile data.
fn data_problems(subject: &Subject) -> Vec<Problem> {
    let mode = |mode: &str| ("set_network_mode_preference", json!({"mode": mode}));
    vec![
        phone(Symptom::Data, ("turn_data_off", none()), ("toggle_data", none())),
        phone(Symptom::Data, ("turn_data_saver_mode_on", none()), ("toggle_data_saver_mode", none())),
        phone(Symptom::Data, ("break_vpn", none()), ("disconnect_vpn", none())),
        phone(Symptom::Data, mode("3g_only"), mode("4g_5g_preferred")),
        Problem {
            symptom: Symptom::Data,
            causes: vec![(true, "set_user_location", json!({"abroad": true})), (true, "turn_roaming_on", none())],
            fixes: vec![(false, "enable_roaming", subject.owner(none()))],
        },
        Problem {
            symptom: Symptom::Data,
            causes: vec![(false, "set_data_usage", subject.owner(json!({"data_used_gb": subject.limit + 1.0})))],
            fixes: vec![(false, "refuel_data", subject.owner(json!({"gb_amount": 2.0})))],
        },
    ]
}

/// Everything that can keep picture messages from being sent.
fn picture_problems() -> Vec<Problem> {
    let lost = |permission: &str| {
        let arguments = json!({"app_name": "messaging", "permission": permission});
        phone(Symptom::Pictures, ("remove_app_permission", arguments.clone()), ("grant_app_permission", arguments))
    };
    let over_wifi = json!({"enabled": true, "mms_over_wifi": true});
    vec![
        lost("storage"),
        lost("sms"),
        phone(Symptom::Pictures, ("set_wifi_calling", over_wifi), ("toggle_wifi_calling", none())),
    ]
}

/// Task of a customer with one problem per level of difficulty; `None` if its solution does not work.
pub(super) fn task(domain: &Arc<Domain>, place: &str, rng: &mut Rng, difficulty: u8) -> Option<Task> {
    let desk = domain.open();
    let subject = Subject::read(desk.world(), place)?;
    let mut all = service_problems(&subject);
    all.extend(data_problems(&subject));
    all.extend(picture_problems());
    let chosen: Vec<Problem> = (0..difficulty).map(|_| all.swap_remove(rng.below(all.len()))).collect();
    let mut symptoms: Vec<Symptom> = Vec::new();
    for problem in &chosen {
        if !symptoms.contains(&problem.symptom) {
            symptoms.push(problem.symptom);
        }
    }
    let complaints: Vec<&str> = symptoms.iter().map(|symptom| symptom.complaint()).collect();
    let told = complaints.join(" ");
    let mut task = tasks::tau2(Kind::Telecom, &described(&subject, &chosen, &symptoms, &told)).ok()?;
    task.extra.insert("user".into(), json!(script(&subject, told)));
    holds(domain, &task).then_some(task)
}

/// A task as tau2's files have it.
fn described(subject: &Subject, chosen: &[Problem], symptoms: &[Symptom], told: &str) -> Value {
    let Subject { full_name, number, .. } = subject;
    let side = |user: &bool| if *user { "user" } else { "assistant" };
    let known = (true, "set_user_info", json!({"name": full_name, "phone_number": number}));
    let causes = std::iter::once(&known).chain(chosen.iter().flat_map(|problem| &problem.causes));
    let causes: Vec<Value> =
        causes.map(|(by, name, with)| json!({"env_type": side(by), "func_name": name, "arguments": with})).collect();
    let fixes = chosen.iter().flat_map(|problem| &problem.fixes).enumerate();
    let fixes = fixes.map(|(at, (by, name, with))| {
        json!({"action_id": format!("{name}_{at}"), "requestor": side(by), "name": name, "arguments": with})
    });
    let fixes: Vec<Value> = fixes.collect();
    let assertions: Vec<Value> = symptoms.iter().flat_map(|symptom| symptom.assertions()).collect();
    json!({
        "id": subject.customer,
        "user_scenario": {"instructions": format!("You are {full_name}, and your phone number is {number}. {told}")},
        "ticket": format!("{full_name}, phone number {number}, says: {told}"),
        "initial_state": {"initialization_actions": causes},
        "evaluation_criteria": {"actions": fixes, "env_assertions": assertions, "reward_basis": ["ENV_ASSERTION"]},
    })
}

/// The user's goal and knowledge.
fn script(subject: &Subject, told: String) -> Script {
    let topic = |asked: &str, answer: String| Topic { asked: vec![asked.to_owned()], answer };
    let knows = vec![
        topic("number", format!("My phone number is {}.", subject.number)),
        topic("name", format!("I am {}.", subject.full_name)),
        topic("birth", format!("I was born on {}.", subject.born)),
    ];
    Script { goals: vec![told], knows, declines: Vec::new() }
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
