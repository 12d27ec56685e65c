#!/usr/bin/env python3
"""Records what tau2-bench's telecom does in a small world made up here: tools, scenario functions, and rewards.

The world (customers, lines, bills, a phone) and its tasks are this script's; only behaviour is recorded from upstream.
`tau2.jsonl` has calls with the texts they answer and the SHA-256 of both databases; `results.json` and
`results_solo.json` are result files with the rewards that upstream's evaluators give. Tests replay and grade them.

    git clone https://github.com/sierra-research/tau2-bench && git -C tau2-bench checkout a2c0247
    python3.11 scripts/record_telecom.py --tau2 tau2-bench --out crates/testdata/data/tau/telecom

Needs pydantic 2 and addict. Ids of bills, which upstream draws at random, are drawn as Hone draws them.
"""

import argparse
import copy
import hashlib
import json
import pathlib
import random
import re
import sys
import types

from record_tau import ODD, PYDANTIC, Stubs, digits, odd, package, people

PLANS = [("Small", 4.0, 20.0, 3.0), ("Medium", 12.5, 45.0, 1.75), ("Large", 500.0, 80.0, 0.1)]
PROBLEMS = {
    "airplane": ([("user", "turn_airplane_mode_on", {})], [("user", "toggle_airplane_mode", {})], "service"),
    "sim": ([("user", "unseat_sim_card", {})], [("user", "reseat_sim_card", {})], "service"),
    "apn": (
        [("user", "break_apn_settings", {})],
        [("user", "reset_apn_settings", {}), ("user", "reboot_device", {})],
        "service",
    ),
    "data": ([("user", "turn_data_off", {})], [("user", "toggle_data", {})], "data"),
    "saver": ([("user", "turn_data_saver_mode_on", {})], [("user", "toggle_data_saver_mode", {})], "data"),
    "mode": (
        [("user", "set_network_mode_preference", {"mode": "2g_only"})],
        [("user", "set_network_mode_preference", {"mode": "4g_5g_preferred"})],
        "data",
    ),
    "vpn": ([("user", "break_vpn", {})], [("user", "disconnect_vpn", {})], "data"),
    "permission": (
        [("user", "remove_app_permission", {"app_name": "messaging", "permission": "storage"})],
        [("user", "grant_app_permission", {"app_name": "messaging", "permission": "storage"})],
        "mms",
    ),
    "wifi_calling": (
        [("user", "set_wifi_calling", {"enabled": True, "mms_over_wifi": True})],
        [("user", "toggle_wifi_calling", {})],
        "mms",
    ),
}


def telecom(rng):
    plans, customers, lines, bills, devices = [], [], [], [], []
    for at, (name, limit, price, refuel) in enumerate(PLANS):
        plans.append(
            {
                "plan_id": f"P{at + 1}",
                "name": name,
                "data_limit_gb": limit,
                "price_per_month": price,
                "data_refueling_price_per_gb": refuel,
            }
        )
    for at, (_, first, last, address, email) in enumerate(people(rng, 5)):
        mine, owed = [], []
        for _ in range(rng.randrange(1, 4)):
            number = len(lines) + 1
            devices.append(
                {
                    "device_id": f"D{number}",
                    "device_type": rng.choice(["phone", "tablet", "router"]),
                    "model": f"Model {digits(rng, 2)}",
                    "is_esim_capable": rng.random() < 0.5,
                }
                | ({"imei": digits(rng, 15), "activated": True, "activation_date": "2024-11-02T09:15:00"} if number % 2 else {})
            )
            lines.append(
                {
                    "line_id": f"L{number}",
                    "phone_number": f"555-010-{number:04}",
                    "status": rng.choice(["Active", "Active", "Active", "Suspended", "Pending Activation", "Closed"]),
                    "plan_id": rng.choice(plans)["plan_id"],
                    "device_id": f"D{number}",
                    "data_used_gb": rng.choice([0.5, 3.25, 12.5]),
                    "roaming_enabled": rng.random() < 0.4,
                    "contract_end_date": "2026-06-30",
                }
            )
            mine.append(f"L{number}")
        for month in range(rng.randrange(0, 4)):
            number = len(bills) + 1
            status = rng.choice(["Paid", "Issued", "Overdue", "Draft", "Disputed"])
            bills.append(
                {
                    "bill_id": f"B{number}",
                    "customer_id": f"C{at + 1}",
                    "period_start": f"2024-1{month % 3}-01",
                    "period_end": f"2024-1{month % 3}-28",
                    "issue_date": rng.choice(["2024-10-01", f"2024-1{month % 3}-01"]),
                    "total_due": rng.choice([20.0, 45.5]),
                    "due_date": f"2024-1{month % 3}-15",
                    "status": status,
                    "line_items": [
                        {"description": "Plan", "amount": 20.0, "date": "2024-10-01", "item_type": "Plan Charge"}
                    ],
                }
            )
            owed.append(f"B{number}")
        customers.append(
            {
                "customer_id": f"C{at + 1}",
                "full_name": f"{first} {last}",
                "date_of_birth": f"19{rng.randrange(50, 99)}-03-09",
                "email": email,
                "phone_number": f"555-020-{at:04}",
                "address": {
                    "street": address["address1"],
                    "city": address["city"],
                    "state": address["state"],
                    "zip_code": address["zip"],
                },
                "line_ids": mine,
                "bill_ids": owed,
            }
            | ({"account_status": "Active", "created_at": "2023-04-05T10:00:00"} if at % 2 else {})
        )
    # A customer of tasks: a line in order, no bill that matters.
    lines.append({"line_id": "L90", "phone_number": "555-010-0090", "status": "Active", "plan_id": "P1", "data_used_gb": 1.0})
    customers.append(
        {
            "customer_id": "C90",
            "full_name": "Ida Berg",
            "date_of_birth": "1980-01-31",
            "email": "ida.berg@example.org",
            "phone_number": "555-020-0090",
            "address": {"street": "1 Quay", "city": "Boston", "state": "MA", "zip_code": "02101"},
            "line_ids": ["L90"],
        }
    )
    phone = {
        "device": {
            "battery_level": 64,
            "wifi_enabled": True,
            "wifi_connected": True,
            "wifi_ssid": "Café",
            "wifi_signal_strength": "fair",
            "active_apn_settings": {"mms_port": 8080},
        },
        "surroundings": {"signal_strength": {"2G": "poor", "3G": "good", "4G": "good", "5G": "excellent"}},
    }
    db = {"plans": plans, "devices": devices, "lines": lines, "bills": bills, "customers": customers}
    return json.loads(json.dumps(db)), phone


def toml(tables):
    """TOML of a dictionary of lists of tables, or of tables."""

    def value(it):
        if isinstance(it, dict):
            return "{ " + ", ".join(f"{json.dumps(k, ensure_ascii=False)} = {value(v)}" for k, v in it.items()) + " }"
        if isinstance(it, list):
            return "[" + ", ".join(value(v) for v in it) + "]"
        return json.dumps(it, ensure_ascii=False)

    out = []
    for name, table in tables.items():
        for record in table if isinstance(table, list) else [table]:
            out.append(f"[[{name}]]" if isinstance(table, list) else f"[{name}]")
            out += [f"{key} = {value(field)}" for key, field in record.items()] + [""]
    return "\n".join(out)


def environment(db, phone, solo=False):
    from tau2.domains.telecom import tools
    from tau2.domains.telecom.data_model import TelecomDB
    from tau2.domains.telecom.environment import TelecomEnvironment
    from tau2.domains.telecom.user_data_model import PerformanceLevel, TelecomUserDB, VpnDetails
    from tau2.domains.telecom.user_tools import TelecomUserTools

    # Upstream breaks the one object that all episodes of a process share.
    TelecomUserTools.default_vpn_details = VpnDetails(
        server_address="192.168.1.1", protocol="OpenVPN", server_performance=PerformanceLevel.EXCELLENT
    )
    kit = tools.TelecomTools(TelecomDB.model_validate(copy.deepcopy(db)))
    user = TelecomUserTools(TelecomUserDB.model_validate(copy.deepcopy(phone)))
    env = TelecomEnvironment("telecom", "", kit, user)
    env.set_solo_mode(solo)
    charge = kit._apply_one_time_charge

    def charged(customer_id, amount, description):
        text = f"{customer_id}/{len(kit.db.bills)}"
        drawn = types.SimpleNamespace(hex=hashlib.sha256(text.encode()).hexdigest())
        tools.uuid = types.SimpleNamespace(uuid4=lambda: drawn)
        return charge(customer_id, amount, description)

    kit._apply_one_time_charge = charged
    return env


def text_of(error):
    return re.sub(r"errors.pydantic.dev/[0-9.]+", f"errors.pydantic.dev/{PYDANTIC}", str(error))


def call(env, by, name, arguments):
    """As `Environment.get_response` does."""
    try:
        answer = env.make_tool_call(name, requestor=by, **copy.deepcopy(arguments))
        env.sync_tools()
    except Exception as error:
        answer = f"Error: {text_of(error)}"
    return env.to_json_str(answer)


MODES = ["4g_5g_preferred", "4g_only", "3g_only", "2g_only"]


def draw_agent(rng, db):
    customer = rng.choice(db["customers"])
    line = rng.choice(customer["line_ids"] if rng.random() < 0.85 else ["L1", "L99"])
    owner = {"customer_id": rng.choice([customer["customer_id"]] * 5 + ["C77"]), "line_id": line}
    bill = rng.choice((customer.get("bill_ids") or []) + ["B1", "B99"])
    someone = rng.choice(db["lines"])["phone_number"]
    return rng.choice(
        [
            ("get_customer_by_phone", {"phone_number": rng.choice([customer["phone_number"], someone, "1"])}),
            ("get_customer_by_id", {"customer_id": owner["customer_id"]}),
            (
                "get_customer_by_name",
                {
                    "full_name": rng.choice([customer["full_name"], customer["full_name"].upper(), "X"]),
                    "dob": customer["date_of_birth"],
                },
            ),
            ("get_details_by_id", {"id": rng.choice([line, bill, owner["customer_id"], "D1", "P2", "P9", "D99", "X", ""])}),
            ("suspend_line", {**owner, "reason": "asked"}),
            ("resume_line", owner),
            ("get_bills_for_customer", {"customer_id": owner["customer_id"]}),
            (
                "get_bills_for_customer",
                {"customer_id": owner["customer_id"], "limit": rng.choice([1, 2, 0, -1, True, None, "2", 2.0])},
            ),
            ("send_payment_request", {"customer_id": owner["customer_id"], "bill_id": bill}),
            ("get_data_usage", owner),
            ("enable_roaming", owner),
            ("disable_roaming", owner),
            ("transfer_to_human_agents", {"summary": "s"}),
            ("refuel_data", {**owner, "gb_amount": rng.choice([2, 1.5, 2.0, 0, -1, 0.1, True, 7])}),
            ("toggle_data", {}),
        ]
    )


def draw_user(rng, env):
    name = rng.choice(list(env.user_tools.tools))
    app = rng.choice(["messaging", "browser", "camera"])
    permission = rng.choice(["storage", "SMS", "phone", "network", "camera"])
    apn = rng.choice(
        [
            {},
            {"apn_name": "internet", "mmsc_url": None},
            {"apn_name": "broken"},
            {"apn_name": "other", "extra": 1, "mms_port": "80x"},
            {"reset_at_reboot": "yes", "mms_port": "80"},
            "internet",
            None,
        ]
    )
    arguments = {
        "set_network_mode_preference": {"mode": rng.choice(MODES + ["5g", "", 5, None])},
        "set_apn_settings": {"apn_settings": apn},
        "check_app_status": {"app_name": app},
        "check_app_permissions": {"app_name": app},
        "grant_app_permission": {"app_name": app, "permission": permission},
    }
    return name, arguments.get(name, {})


def draw_function(rng, db):
    """A function that sets a scenario up or asserts on one."""
    customer = rng.choice(db["customers"])
    owner = {"customer_id": customer["customer_id"], "line_id": rng.choice(customer["line_ids"] + ["L99"])}
    line = rng.choice(db["lines"])
    user = [
        ("set_user_info", {"name": "A", "phone_number": rng.choice([line["phone_number"]] * 6 + ["none"])}),
        ("set_user_location", {"abroad": rng.random() < 0.5}),
        ("turn_airplane_mode_on", {}),
        ("turn_airplane_mode_off", {}),
        ("unseat_sim_card", {}),
        ("lock_sim_card", {"mode": rng.choice(["pin", "puk"])}),
        ("turn_data_on", {}),
        ("turn_data_off", {}),
        ("turn_roaming_on", {}),
        ("turn_roaming_off", {}),
        ("turn_data_saver_mode_on", {}),
        ("turn_data_saver_mode_off", {}),
        ("break_apn_settings", {}),
        ("break_apn_mms_setting", {}),
        ("set_wifi_calling", {"enabled": rng.random() < 0.5}),
        ("set_wifi_calling", {"enabled": True, "mms_over_wifi": rng.choice([True, False, None])}),
        ("break_vpn", {}),
        ("remove_app_permission", {"app_name": rng.choice(["messaging", "x"]), "permission": rng.choice(["sms", "y"])}),
        ("simulate_network_search", {}),
        ("assert_airplane_mode_status", {"expected_status": True}),
        ("assert_service_status", {"expected_status": rng.choice(["connected", "no_service", "gone"])}),
        ("assert_mobile_data_status", {"expected_status": True}),
        ("assert_mobile_roaming_status", {"expected_status": True}),
        ("assert_mobile_data_saver_mode_status", {"expected_status": False}),
        ("assert_internet_speed", {"expected_speed": rng.choice([1, 50.5, 275])}),
        ("assert_internet_speed", {"expected_speed": 200, "expected_desc": rng.choice(["Excellent", "good", None])}),
        ("assert_internet_not_excellent", {}),
        ("assert_can_send_mms", {"expected_status": True}),
        ("assert_mobile_data_usage_exceeded", {"expected_status": True}),
    ]
    agent = [
        ("set_data_usage", {**owner, "data_used_gb": rng.choice([0.0, 15, 700.5])}),
        ("suspend_line_for_overdue_bill", {**owner, "new_bill_id": "B777", "contract_ended": rng.random() < 0.5}),
        ("assert_data_refueling_amount", {**owner, "expected_amount": rng.choice([2.0, 0])}),
        ("assert_line_status", {**owner, "expected_status": rng.choice(["Active", "Suspended"])}),
        ("assert_overdue_bill_exists", {"customer_id": owner["customer_id"], "overdue_bill_id": rng.choice(["B777", "B1"])}),
        ("assert_no_overdue_bill", {"overdue_bill_id": rng.choice(["B777", "B1", "B2"])}),
        ("enable_roaming", owner),
        ("disable_roaming", owner),
    ]
    of = rng.choice(["user", "user", "assistant"])
    return of, *rng.choice(user if of == "user" else agent)


def function(env, of, name, arguments):
    from tau2.data_model.tasks import EnvFunctionCall

    try:
        value = env.run_env_function_call(EnvFunctionCall(env_type=of, func_name=name, arguments=copy.deepcopy(arguments)))
    except Exception as error:
        return {"raised": text_of(error)}
    return {"value": value} if isinstance(value, bool) else {}


def calls(db, phone, seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        env, steps = environment(db, phone), []
        for at in range(rng.choice([2, 4, 8, 12])):
            kind = rng.random()
            if at < 2 or kind < 0.3:
                of, name, arguments = draw_function(rng, db)
                if at == 0:
                    of, name = "user", "set_user_info"
                    arguments = {"name": "A", "phone_number": rng.choice(db["lines"])["phone_number"]}
                step = {"of": of, "function": name, "kwargs": arguments, **function(env, of, name, arguments)}
            else:
                by, (name, arguments) = rng.choice([("assistant", draw_agent(rng, db)), ("user", draw_user(rng, env))])
                if rng.random() < 0.2:
                    arguments = odd(rng, arguments)
                if rng.random() < 0.05 and by == "user":
                    name, arguments = "set_apn_settings", {"apn_settings": rng.choice(ODD)}
                step = {"by": by, "name": name, "kwargs": arguments, "observation": call(env, by, name, arguments)}
            steps.append({**step, "state_sha256": env.get_db_hash(), "user_state_sha256": env.get_user_db_hash()})
        yield {"steps": steps}


def acts(entries):
    return [
        {"action_id": f"{name}_{at}", "requestor": by, "name": name, "arguments": arguments}
        for at, (by, name, arguments) in enumerate(entries)
    ]


def functions(entries):
    return [{"env_type": of, "func_name": name, "arguments": arguments} for of, name, arguments in entries]


GOALS = {
    "service": [("user", "assert_service_status", {"expected_status": "connected"})],
    "data": [
        ("user", "assert_mobile_data_status", {"expected_status": True}),
        ("user", "assert_internet_speed", {"expected_speed": 200, "expected_desc": "excellent"}),
    ],
    "mms": [("user", "assert_can_send_mms", {"expected_status": True})],
}
ME = ("user", "set_user_info", {"name": "Ida Berg", "phone_number": "555-010-0090"})
OWNER = {"customer_id": "C90", "line_id": "L90"}


def task(key, setup, actions, assertions, basis=("ENV_ASSERTION",), state=None, **criteria):
    return {
        "id": key,
        "user_scenario": {"persona": None, "instructions": "Something is wrong with your phone. You are Ida Berg, 555-010-0090."},
        "ticket": f"The phone of Ida Berg, 555-010-0090, does not work ({key}).",
        "initial_state": {"initialization_actions": functions([ME, *setup]), **(state or {})},
        "evaluation_criteria": {
            "actions": None if actions is None else acts(actions),
            "env_assertions": None if assertions is None else functions(assertions),
            "reward_basis": list(basis),
            **criteria,
        },
    }


def tasks(rng):
    made = []
    names = list(PROBLEMS)
    for several in [1] * len(names) + [2, 2, 2, 3]:
        chosen = [names[len(made)]] if several == 1 else rng.sample(names, several)
        setup = [step for name in chosen for step in PROBLEMS[name][0]]
        fixes = [step for name in chosen for step in PROBLEMS[name][1]]
        goals = [goal for kind in dict.fromkeys(PROBLEMS[name][2] for name in chosen) for goal in GOALS[kind]]
        made.append(task("|".join(chosen), setup, fixes, goals))
    overdue = [("assistant", "suspend_line_for_overdue_bill", {**OWNER, "new_bill_id": "B900", "contract_ended": False})]
    overdue += [("user", "simulate_network_search", {})]
    paying = [
        ("assistant", "send_payment_request", {"customer_id": "C90", "bill_id": "B900"}),
        ("user", "make_payment", {}),
        ("assistant", "resume_line", OWNER),
        ("user", "reboot_device", {}),
    ]
    paid = GOALS["service"] + [("assistant", "assert_no_overdue_bill", {"overdue_bill_id": "B900"})]
    made.append(task("overdue", overdue, paying, paid))
    used = [("assistant", "set_data_usage", {**OWNER, "data_used_gb": 4.5})]
    fuel = [("assistant", "refuel_data", {**OWNER, "gb_amount": 2.0})]
    fuelled = GOALS["data"] + [("assistant", "assert_data_refueling_amount", {**OWNER, "expected_amount": 2.0})]
    made.append(task("refuel", used, fuel, fuelled))
    # Upstream makes a reference's calls without bringing the databases into step: they must not need it.
    made.append(task("refuel_db", [], fuel, None, ["DB", "COMMUNICATE"], communicate_info=["2 GB"]))
    made.append(task("no_criteria", [], None, None, ["DB"]))
    locked = task("locked", [("user", "lock_sim_card", {"mode": "pin"})], [], [], ["ENV_ASSERTION", "ACTION"])
    locked["evaluation_criteria"]["actions"] = [
        {"action_id": "t", "name": "transfer_to_human_agents", "arguments": {"summary": "locked"}, "compare_args": []}
    ]
    made.append(locked)
    made.append(
        task(
            "history",
            [("user", "turn_data_off", {})],
            [("user", "toggle_data", {})],
            GOALS["data"],
            ["ENV_ASSERTION", "ACTION"],
            {
                "message_history": [
                    {"role": "user", "content": "No data."},
                    {
                        "role": "assistant",
                        "tool_calls": [{"id": "h", "name": "enable_roaming", "arguments": OWNER, "requestor": "assistant"}],
                    },
                    {"role": "tool", "id": "h", "content": "Roaming enabled successfully", "requestor": "assistant"},
                ]
            },
        )
    )
    return made


def play(env, steps):
    messages = []
    for at, (by, name, arguments) in enumerate(steps):
        identity = f"call-{at}"
        whose = "assistant" if env.solo_mode else by
        asked = {"id": identity, "name": name, "arguments": arguments, "requestor": whose}
        messages.append({"role": whose, "content": None, "tool_calls": [asked]})
        answer = call(env, whose, name, arguments)
        messages.append({"role": "tool", "id": identity, "content": answer, "requestor": whose})
    return messages


def reward(db, phone, entry, messages, solo):
    from tau2.data_model.message import AssistantMessage, ToolMessage, UserMessage
    from tau2.data_model.tasks import Task
    from tau2.evaluator.evaluator_action import ActionEvaluator
    from tau2.evaluator.evaluator_communicate import CommunicateEvaluator
    from tau2.evaluator.evaluator_env import EnvironmentEvaluator

    kinds = {"assistant": AssistantMessage, "user": UserMessage, "tool": ToolMessage}
    trajectory = [kinds[message["role"]](**message) for message in messages]
    read = Task(**entry)
    basis = set(entry["evaluation_criteria"]["reward_basis"])
    env = EnvironmentEvaluator.calculate_reward(
        lambda solo_mode=False: environment(db, phone, solo_mode), read, trajectory, solo, strict_replay=False
    )
    parts = [env.reward]
    if "ACTION" in basis:
        parts.append(ActionEvaluator.calculate_reward(read, trajectory).reward)
    if "COMMUNICATE" in basis:
        parts.append(CommunicateEvaluator.calculate_reward(read, trajectory).reward)
    return min(parts)


def results(db, phone, entries, seed, solo):
    from tau2.data_model.tasks import Task

    rng, simulations = random.Random(seed), []
    for entry in entries:
        if solo and "history" in entry["id"]:
            continue
        reference = [(a.get("requestor", "assistant"), a["name"], a["arguments"]) for a in entry["evaluation_criteria"]["actions"] or []]
        ways = [reference, [], reference[:-1], reference + [("user", "toggle_wifi", {})], reference[::-1]]
        ways += [[rng.choice(reference) for _ in range(3)]] if reference else []
        for trial, way in enumerate(ways):
            env = environment(db, phone, solo)
            read = Task(**entry)
            before = entry["initial_state"].get("message_history") or []
            env.set_state(None, read.initial_state.initialization_actions, read.initial_state.message_history or [])
            messages = before + play(env, way) + [{"role": "assistant", "content": "That is 2 GB." if trial % 2 else "Done."}]
            found = reward(db, phone, entry, messages, solo)
            simulations.append(
                {
                    "task_id": entry["id"],
                    "trial": trial,
                    "termination_reason": "user_stop",
                    "reward_info": {"reward": found},
                    "messages": messages,
                }
            )
    agent = "llm_agent_solo" if solo else "llm_agent"
    return {"info": {"agent_info": {"implementation": agent}}, "tasks": entries, "simulations": simulations}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tau2", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=31)
    args = parser.parse_args()
    sys.meta_path.append(Stubs())
    package("tau2", args.tau2 / "src/tau2")
    package("tau2.evaluator", args.tau2 / "src/tau2/evaluator")
    db, phone = telecom(random.Random(3))
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "db.toml").write_text(toml(db))
    (args.out / "user_db.toml").write_text(toml(phone))
    lines = [json.dumps(episode, ensure_ascii=False) for episode in calls(db, phone, args.seed, args.episodes)]
    (args.out / "tau2.jsonl").write_text("\n".join(lines) + "\n")
    entries = tasks(random.Random(4))
    (args.out / "tasks.json").write_text(json.dumps(entries, indent=1) + "\n")
    names = [entry["id"] for entry in entries]
    (args.out / "split_tasks.json").write_text(json.dumps({"train": names[::2], "test": names[1::2], "base": names}) + "\n")
    for name, solo in (("results", False), ("results_solo", True)):
        found = results(db, phone, entries, 5, solo)
        (args.out / f"{name}.json").write_text(json.dumps(found, ensure_ascii=False) + "\n")
        rewards = [simulation["reward_info"]["reward"] for simulation in found["simulations"]]
        print(f"{name}: {len(rewards)} episodes, {sum(rewards):.0f} of them earn 1")
    print(f"{len(lines)} episodes, {sum(len(json.loads(line)['steps']) for line in lines)} steps")


if __name__ == "__main__":
    main()
