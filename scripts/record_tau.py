#!/usr/bin/env python3
"""Records what tau-bench's and tau2-bench's own tools do in two small worlds made up here.

The worlds (customers, orders, products, flights) are this script's; only behaviour is recorded from upstream: for every
call the text the agent reads and the SHA-256 of the state it leaves. Tests replay the calls and compare byte for byte.

    git clone https://github.com/sierra-research/tau-bench  && git -C tau-bench  checkout 59a200c
    git clone https://github.com/sierra-research/tau2-bench && git -C tau2-bench checkout a2c0247
    python3.11 scripts/record_tau.py --tau tau-bench --tau2 tau2-bench --out crates/testdata/data/tau

Needs pydantic 2. Error texts are CPython 3.11's. Other packages the two import (for LLM users, logging, tables) are
not needed by their tools and are replaced by stubs where they are absent.
"""

import argparse
import copy
import importlib.abc
import importlib.machinery
import json
import pathlib
import random
import re
import sys
import types
from unittest.mock import MagicMock

# pydantic's version stands in its error texts: the one tau2-bench's lock file names.
PYDANTIC = "2.12"

FIRST = ["Ada", "Bo", "Chidi", "Dana", "Emre", "Fumi", "Gül", "Hana", "Ivo", "Jun"]
LAST = ["Okafor", "Lind", "Moreau", "Sato", "Ruiz", "Weiss"]
CITIES = [("Denver", "CO", "802"), ("Austin", "TX", "787"), ("Boston", "MA", "021"), ("Seattle", "WA", "981")]
PRODUCTS = {
    "Desk Lamp": (48, {"color": ["black", "white"], "power source": ["mains", "USB"]}),
    "Travel Mug": (23, {"size": ["small", "large"], "lid": ["screw", "flip"]}),
    "Rain Jacket": (110, {"size": ["S", "M", "L"], "color": ["navy", "yellow"]}),
    "Chess Set": (75, {"material": ["wood", "marble"]}),
    "Café Table": (240, {"shape": ["round", "square"], "height": ["75 cm", "105 cm"]}),
}


def digits(rng, count):
    return "".join(rng.choice("0123456789") for _ in range(count))


def people(rng, count):
    for _ in range(count):
        first, last = rng.choice(FIRST), rng.choice(LAST)
        city, state, zips = rng.choice(CITIES)
        address = {
            "address1": f"{rng.randrange(1, 999)} {rng.choice(['Mill', 'Harbour', 'Station'])} Street",
            "address2": f"Flat {rng.randrange(1, 99)}",
            "city": city,
            "country": "USA",
            "state": state,
            "zip": zips + digits(rng, 2),
        }
        plain = first.lower().replace("ü", "u")
        yield f"{plain}_{last.lower()}_{digits(rng, 4)}", first, last, address, f"{plain}.{last.lower()}@example.org"


def retail(rng):
    products, users, orders = {}, {}, {}
    for name, (price, options) in PRODUCTS.items():
        product, combinations = digits(rng, 10), [{}]
        for option, values in options.items():
            combinations = [{**c, option: value} for c in combinations for value in values]
        variants = {}
        for combination in combinations:
            item = digits(rng, 10)
            cost = round(price * rng.uniform(0.8, 1.2), 2)
            variants[item] = {"item_id": item, "options": combination, "available": rng.random() < 0.7, "price": cost}
        products[product] = {"name": name, "product_id": product, "variants": variants}
    statuses = ["pending", "pending", "delivered", "delivered", "processed", "cancelled"]
    for user, first, last, address, email in people(rng, 9):
        methods = {}
        for source in rng.sample(["credit_card", "paypal", "gift_card", "gift_card"], rng.randrange(1, 4)):
            key = f"{source}_{digits(rng, 7)}"
            methods[key] = {"source": source}
            if source == "credit_card":
                methods[key] |= {"brand": "visa", "last_four": digits(rng, 4)}
            if source == "gift_card":
                methods[key]["balance"] = rng.choice([0, 15, 88.5, 300])
            methods[key]["id"] = key
        users[user] = {
            "name": {"first_name": first, "last_name": last},
            "address": address,
            "email": email,
            "payment_methods": methods,
            "orders": [],
        }
        for _ in range(rng.randrange(1, 4)):
            order, items = "#W" + digits(rng, 7), []
            for _ in range(rng.randrange(1, 4)):
                product = rng.choice(list(products.values()))
                variant = rng.choice(list(product["variants"].values()))
                items.append(
                    {
                        "name": product["name"],
                        "product_id": product["product_id"],
                        "item_id": variant["item_id"],
                        "price": round(variant["price"] + rng.choice([0, 0, -3.5, 2.25]), 2),
                        "options": variant["options"],
                    }
                )
            status = rng.choice(statuses)
            paid = {
                "transaction_type": "payment",
                "amount": round(sum(item["price"] for item in items), 2),
                "payment_method_id": rng.choice(list(methods)),
            }
            shipped = status in ("processed", "delivered")
            parcel = {"tracking_id": [digits(rng, 12)], "item_ids": [item["item_id"] for item in items]}
            orders[order] = {
                "order_id": order,
                "user_id": user,
                "address": address,
                "items": items,
                "fulfillments": [parcel] if shipped else [],
                "status": status,
                "payment_history": [paid] + ([{**paid, "transaction_type": "refund"}] if status == "cancelled" else []),
            }
            users[user]["orders"].append(order)
    return {"orders": orders, "products": products, "users": users}


AIRPORTS = ["SFO", "JFK", "ORD", "DEN", "ATL"]


def airline(rng):
    flights, users, reservations = {}, {}, {}
    pairs = [(a, b) for a in AIRPORTS for b in AIRPORTS if a != b]
    rng.shuffle(pairs)
    for at, (origin, destination) in enumerate(pairs[:14] + [("SFO", "JFK"), ("JFK", "ATL")]):
        number, leaves = f"HAT{at + 1:03}", rng.randrange(0, 24)
        lands = leaves + rng.randrange(1, 7)
        arrival = f"{lands % 24:02}:30:00" + ("+1" if lands >= 24 else "")
        dates = {}
        for day in range(13, 24):
            date = f"2024-05-{day}"
            times = (f"{date}T{leaves:02}:05:00", f"{date}T{lands % 24:02}:25:00")
            actual = ("actual_departure_time_est", "actual_arrival_time_est")
            estimated = ("estimated_departure_time_est", "estimated_arrival_time_est")
            if day < 15 and rng.random() < 0.8:
                dates[date] = {"status": "landed", **dict(zip(actual, times))}
            elif day < 16:
                status = rng.choice(["on time", "delayed", "flying", "cancelled"])
                keys = {"flying": (actual[0], estimated[1]), "cancelled": ()}.get(status, estimated)
                dates[date] = {"status": status, **dict(zip(keys, times))}
            else:
                cabins = ["basic_economy", "economy", "business"]
                base = rng.randrange(50, 120)
                dates[date] = {
                    "status": "available",
                    "available_seats": {cabin: rng.randrange(0, 12) for cabin in cabins},
                    "prices": {c: base * (k + 1) + rng.randrange(0, 40) for k, c in enumerate(cabins)},
                }
        flights[number] = {
            "flight_number": number,
            "origin": origin,
            "destination": destination,
            "scheduled_departure_time_est": f"{leaves:02}:00:00",
            "scheduled_arrival_time_est": arrival,
            "dates": dates,
        }
    for user, first, last, address, email in people(rng, 7):
        methods = {}
        sources = [("credit_card", None), ("gift_card", rng.choice([40, 160])), ("gift_card", 900)]
        sources += [("certificate", rng.choice([100, 250])), ("certificate", 500)]
        for source, amount in rng.sample(sources, rng.randrange(2, 6)):
            key = f"{source}_{digits(rng, 7)}"
            methods[key] = {"source": source}
            methods[key] |= {"brand": "visa", "last_four": digits(rng, 4)} if amount is None else {"amount": amount}
            methods[key]["id"] = key
        me = {"first_name": first, "last_name": last, "dob": f"19{rng.randrange(50, 99)}-0{rng.randrange(1, 9)}-14"}
        friend = {"first_name": rng.choice(FIRST), "last_name": rng.choice(LAST), "dob": "1988-11-02"}
        users[user] = {
            "name": {"first_name": first, "last_name": last},
            "address": address,
            "email": email,
            "dob": me["dob"],
            "payment_methods": methods,
            "saved_passengers": [friend],
            "membership": rng.choice(["gold", "silver", "regular"]),
            "reservations": [],
        }
        for _ in range(rng.randrange(1, 3)):
            key, cabin = "".join(rng.choice("ABCDEFGH23456789") for _ in range(6)), rng.choice(["economy", "business"])
            party = [me, friend][: rng.randrange(1, 3)]
            flight = rng.choice(list(flights.values()))
            date = rng.choice([d for d, s in flight["dates"].items() if s["status"] == "available"])
            leg = {k: flight[k] for k in ("origin", "destination", "flight_number")}
            leg |= {"date": date, "price": flight["dates"][date]["prices"][cabin]}
            paying = [k for k, m in methods.items() if m["source"] != "certificate"] or list(methods)
            bags = rng.randrange(0, 3)
            paid = {"payment_id": rng.choice(paying), "amount": leg["price"] * len(party) + 50 * bags}
            reservations[key] = {
                "reservation_id": key,
                "user_id": user,
                "origin": flight["origin"],
                "destination": flight["destination"],
                "flight_type": "one_way",
                "cabin": cabin,
                "flights": [leg],
                "passengers": party,
                "payment_history": [paid],
                "created_at": f"2024-05-0{rng.randrange(1, 9)}T10:20:30",
                "total_baggages": bags + rng.randrange(0, 2),
                "nonfree_baggages": bags,
                "insurance": rng.choice(["yes", "no"]),
            }
            users[user]["reservations"].append(key)
    return {"flights": flights, "reservations": reservations, "users": users}


EXPRESSIONS = ["2 + 2", "10 / 4 * 3", "(1.5 - 0.25) * 100", "1/0", "2 **", "7 // 2", "1e3", "0.1+0.2", "(3", "5 5", "-4**2"]


def retail_call(rng, data):
    """A tool and arguments that make sense, or nearly."""
    order = rng.choice(list(data["orders"].values()))
    pending = [o for o in data["orders"].values() if o["status"] == "pending"]
    delivered = [o for o in data["orders"].values() if o["status"] == "delivered"]
    kind = rng.choice(
        "find_email find_zip order product user products calculate think transfer cancel address items items payment "
        "payment user_address return exchange exchange item".split()
    )
    if kind in ("cancel", "address", "items", "payment"):
        order = rng.choice(pending if rng.random() < 0.85 else [order])
    if kind in ("return", "exchange"):
        order = rng.choice(delivered if rng.random() < 0.85 else [order])
    user = data["users"][order["user_id"]]
    method = rng.choice(list(user["payment_methods"]))
    chosen = rng.sample(order["items"], rng.randrange(1, len(order["items"]) + 1))
    old = [item["item_id"] for item in chosen]
    new = []
    for item in chosen:
        variants = data["products"][item["product_id"]]["variants"]
        in_stock = [key for key, variant in variants.items() if variant["available"]] or list(variants)
        new.append(rng.choice(in_stock if rng.random() < 0.9 else list(variants)))
    where = dict(zip(["address1", "address2", "city", "state", "country", "zip"], ["9 Öst Road", "", "Reno", "NV", "USA", "89501"]))
    first, last = user["name"]["first_name"], user["name"]["last_name"]
    return {
        "find_email": ("find_user_id_by_email", {"email": rng.choice([user["email"], user["email"].upper(), "x@y"])}),
        "find_zip": (
            "find_user_id_by_name_zip",
            {"first_name": rng.choice([first, first.upper(), "Zed"]), "last_name": last.lower(), "zip": user["address"]["zip"]},
        ),
        "order": ("get_order_details", {"order_id": rng.choice([order["order_id"], order["order_id"][1:]])}),
        "product": ("get_product_details", {"product_id": rng.choice([order["items"][0]["product_id"], "1"])}),
        "item": ("get_item_details", {"item_id": rng.choice([old[0], "1"])}),
        "user": ("get_user_details", {"user_id": rng.choice([order["user_id"], "nobody_0000"])}),
        "products": ("list_all_product_types", {}),
        "calculate": ("calculate", {"expression": rng.choice(EXPRESSIONS)}),
        "think": ("think", {"thought": "hm"}),
        "transfer": ("transfer_to_human_agents", {"summary": "s"}),
        "cancel": (
            "cancel_pending_order",
            {"order_id": order["order_id"], "reason": rng.choice(["no longer needed", "ordered by mistake", "bored"])},
        ),
        "address": ("modify_pending_order_address", {"order_id": order["order_id"], **where}),
        "user_address": ("modify_user_address", {"user_id": order["user_id"], **where}),
        "items": (
            "modify_pending_order_items",
            {"order_id": order["order_id"], "item_ids": old, "new_item_ids": new, "payment_method_id": method},
        ),
        "exchange": (
            "exchange_delivered_order_items",
            {"order_id": order["order_id"], "item_ids": old, "new_item_ids": new, "payment_method_id": method},
        ),
        "payment": (
            "modify_pending_order_payment",
            {"order_id": order["order_id"], "payment_method_id": method},
        ),
        "return": (
            "return_delivered_order_items",
            {"order_id": order["order_id"], "item_ids": old, "payment_method_id": method},
        ),
    }[kind]


def airline_call(rng, data):
    """A tool and arguments that make sense, or nearly."""
    reservation = rng.choice(list(data["reservations"].values()))
    user_id = reservation["user_id"]
    user = data["users"][user_id]
    method = rng.choice(list(user["payment_methods"]))
    flight = rng.choice(list(data["flights"].values()))
    date = rng.choice([f"2024-05-{day}" for day in (14, 15, 17, 19, 20, 22)])
    cabin = rng.choice(["basic_economy", "economy", "business"])
    party = [reservation["passengers"][0], *user["saved_passengers"]][: rng.randrange(1, 3)]
    bags, insurance = rng.randrange(0, 3), rng.choice(["yes", "no"])
    price = flight["dates"].get(date, {}).get("prices", {}).get(cabin, 100)
    total = price * len(party) + 50 * bags + (30 * len(party) if insurance == "yes" else 0)
    payments = [{"payment_id": method, "amount": total}]
    if rng.random() < 0.3:
        other = rng.choice(list(user["payment_methods"]))
        payments = [{"payment_id": method, "amount": total - 40}, {"payment_id": other, "amount": 40}]
    kind = rng.choice(
        "book book book cancel reservation user airports direct onestop certificate baggages baggages flights flights "
        "passengers calculate think transfer status".split()
    )
    route = {"origin": flight["origin"], "destination": flight["destination"], "date": date}
    keep = [{"flight_number": leg["flight_number"], "date": leg["date"]} for leg in reservation["flights"]]
    back = {"flight_number": flight["flight_number"], "date": date}
    key = reservation["reservation_id"]
    return {
        "book": (
            "book_reservation",
            {
                "user_id": user_id,
                "origin": flight["origin"],
                "destination": flight["destination"],
                "flight_type": "one_way",
                "cabin": cabin,
                "flights": [back],
                "passengers": party,
                "payment_methods": payments,
                "total_baggages": bags,
                "nonfree_baggages": bags,
                "insurance": insurance,
            },
        ),
        "cancel": ("cancel_reservation", {"reservation_id": rng.choice([key, key, "HATHAT", "ZZZZZZ"])}),
        "reservation": ("get_reservation_details", {"reservation_id": rng.choice([key, "HATHAT"])}),
        "user": ("get_user_details", {"user_id": user_id}),
        "airports": ("list_all_airports", {}),
        "direct": ("search_direct_flight", route),
        "onestop": ("search_onestop_flight", {**route, "origin": rng.choice(AIRPORTS)}),
        "certificate": ("send_certificate", {"user_id": user_id, "amount": rng.choice([50, 100, 12.5])}),
        "baggages": (
            "update_reservation_baggages",
            {"reservation_id": key, "total_baggages": bags + 1, "nonfree_baggages": bags, "payment_id": method},
        ),
        "flights": (
            "update_reservation_flights",
            {
                "reservation_id": key,
                "cabin": rng.choice([cabin, reservation["cabin"]]),
                "flights": rng.choice([keep, [back], keep + [back]]),
                "payment_id": method,
            },
        ),
        "passengers": ("update_reservation_passengers", {"reservation_id": key, "passengers": party}),
        "calculate": ("calculate", {"expression": rng.choice(EXPRESSIONS)}),
        "think": ("think", {"thought": "hm"}),
        "transfer": ("transfer_to_human_agents", {"summary": "s"}),
        "status": ("get_flight_status", {"flight_number": flight["flight_number"], "date": date}),
    }[kind]


ODD = [None, True, 0, -1, 2.5, 1e300, "", "x", "é'\"", [], ["x"], [None], {}, {"a": 1}, [{}], [["x"]]]


def odd(rng, arguments):
    """Arguments as a careless model might send them: missing, unknown, of another type."""
    arguments = copy.deepcopy(arguments)
    way = rng.randrange(8)
    names = list(arguments)
    if way == 0 and names:
        del arguments[rng.choice(names)]
    elif way == 1:
        arguments[rng.choice(["extra", "self", "data", "tool_name", "requestor"])] = "x"
    elif way == 2 and names:
        name = rng.choice(names)
        arguments[name + "s"] = arguments.pop(name)
    elif names:
        name = rng.choice(names)
        if isinstance(arguments[name], list) and arguments[name] and rng.random() < 0.5:
            inner = rng.choice(arguments[name])
            if isinstance(inner, dict) and rng.random() < 0.5:
                inner[rng.choice(list(inner))] = rng.choice(ODD)
            else:
                arguments[name] = arguments[name] + [rng.choice(ODD)]
        else:
            arguments[name] = rng.choice(ODD)
    return arguments


def episodes(seed, draw, data, count):
    rng = random.Random(seed)
    for _ in range(count):
        calls = []
        for _ in range(rng.choice([1, 1, 2, 4, 6])):
            name, arguments = draw(rng, data)
            if rng.random() < 0.3:
                arguments = odd(rng, arguments)
            calls.append((name, copy.deepcopy(arguments)))
        yield calls


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for packages that the tools never call."""

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("tau_bench", "tau2"):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.__path__, module.__spec__, module.__name__ = [], spec, spec.name
        return module

    def exec_module(self, module):
        pass


def package(name, directory):
    """A package without running its `__init__`, which imports far more than the tools."""
    module = types.ModuleType(name)
    module.__path__ = [str(directory)]
    sys.modules[name] = module


def tau_env(kind, world):
    from tau_bench.envs.base import consistent_hash, to_hashable

    tools = importlib.import_module(f"tau_bench.envs.{kind}.tools").ALL_TOOLS
    by_name = {tool.get_info()["function"]["name"]: tool for tool in tools}
    data = copy.deepcopy(world)

    def call(name, arguments):
        if name not in by_name:
            return f"Unknown action {name}"
        try:
            return by_name[name].invoke(data=data, **arguments)
        except Exception as error:
            return f"Error: {error}"

    return call, lambda: consistent_hash(to_hashable(data))


def tau2_env(kind, world):
    from tau2.environment.environment import Environment

    models = importlib.import_module(f"tau2.domains.{kind}.data_model")
    tools = importlib.import_module(f"tau2.domains.{kind}.tools")
    world = copy.deepcopy(world)
    for key, user in world["users"].items():
        user["user_id"] = key
    if kind == "retail":
        db = models.RetailDB.model_validate(world)
        env = Environment("retail", "", tools.RetailTools(db))
    else:
        db = models.FlightDB.model_validate(world)
        env = Environment("airline", "", tools.AirlineTools(db))

    def call(name, arguments):
        try:
            answer = env.make_tool_call(name, requestor="assistant", **arguments)
        except Exception as error:
            return re.sub(r"errors.pydantic.dev/[0-9.]+", f"errors.pydantic.dev/{PYDANTIC}", f"Error: {error}")
        return env.to_json_str(answer)

    return call, db.get_hash


def record(out, kind, world, env, name, seed, draw, count):
    lines, steps, failed = [], 0, 0
    for calls in episodes(seed, draw, world, count):
        call, state = env(kind, world)
        recorded = []
        for tool, arguments in calls:
            # Upstream may keep or change what it is given.
            text = call(tool, copy.deepcopy(arguments))
            if text is None:
                break
            recorded.append({"name": tool, "kwargs": arguments, "observation": text, "state_sha256": state()})
            steps, failed = steps + 1, failed + text.startswith("Error")
        lines.append(json.dumps({"steps": recorded}, ensure_ascii=False))
    path = out / kind / f"{name}.jsonl"
    path.write_text("\n".join(lines) + "\n")
    print(f"{path}: {len(lines)} episodes, {steps} calls, {failed} refused")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tau", type=pathlib.Path, required=True)
    parser.add_argument("--tau2", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--episodes", type=int, default=150)
    args = parser.parse_args()
    sys.meta_path.append(Stubs())
    for name in ("", ".envs", ".envs.retail", ".envs.airline"):
        package("tau_bench" + name, args.tau / ("tau_bench" + name).replace(".", "/"))
    package("tau2", args.tau2 / "src/tau2")
    for kind, make, draw, seed in (("retail", retail, retail_call, 1), ("airline", airline, airline_call, 2)):
        world = make(random.Random(seed))
        # Shared objects become copies, as they are when upstream reads its files.
        world = json.loads(json.dumps(world))
        (args.out / kind).mkdir(parents=True, exist_ok=True)
        for table, records in world.items():
            text = json.dumps(records, ensure_ascii=False, indent=1)
            (args.out / kind / f"{table}.json").write_text(text + "\n")
        record(args.out, kind, world, tau_env, "tau", seed + 10, draw, args.episodes)
        record(args.out, kind, world, tau2_env, "tau2", seed + 20, draw, args.episodes)


if __name__ == "__main__":
    main()
