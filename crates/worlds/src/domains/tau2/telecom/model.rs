//! The models of telecom's two databases: the carrier's lists, the user's phone and surroundings.

use super::super::super::py::{Dict, Value};
use super::super::model::{Holds, Model};

use Holds::{Closed, Date, Enum, Flag, List, Map, Moment, Number as Amount, Optional, Or, Text, Whole};

const TEXTS: Holds = List(&Text);
const NO_LIST: fn() -> Value = || Value::list(Vec::new());
const NOTHING: fn() -> Value = || Value::Float(0.0);
const OFF: Holds = Or(&Flag, || Value::Bool(false));
const DATE: Holds = Optional(&Date);

pub(super) static PLAN: Model = Model {
    name: "Plan",
    fields: &[
        ("plan_id", Text),
        ("name", Text),
        ("data_limit_gb", Amount),
        ("price_per_month", Amount),
        ("data_refueling_price_per_gb", Amount),
    ],
};

pub(super) static DEVICE: Model = Model {
    name: "Device",
    fields: &[
        ("device_id", Text),
        ("device_type", Enum(&["phone", "router", "tablet", "watch", "other"])),
        ("model", Text),
        ("imei", Optional(&Text)),
        ("is_esim_capable", Flag),
        ("activated", OFF),
        ("activation_date", Optional(&Moment)),
        ("last_esim_transfer_date", Optional(&Moment)),
    ],
};

pub(super) static LINE: Model = Model {
    name: "Line",
    fields: &[
        ("line_id", Text),
        ("phone_number", Text),
        ("status", Or(&Enum(&["Active", "Suspended", "Pending Activation", "Closed"]), || "Pending Activation".into())),
        ("plan_id", Text),
        ("device_id", Optional(&Text)),
        ("data_used_gb", Or(&Amount, NOTHING)),
        ("data_refueling_gb", Or(&Amount, NOTHING)),
        ("roaming_enabled", OFF),
        ("contract_end_date", DATE),
        ("last_plan_change_date", DATE),
        ("last_sim_replacement_date", DATE),
        ("suspension_start_date", DATE),
    ],
};

pub(super) static LINE_ITEM: Model = Model {
    name: "LineItem",
    fields: &[("description", Text), ("amount", Amount), ("date", Date), ("item_type", Text)],
};

pub(super) static BILL: Model = Model {
    name: "Bill",
    fields: &[
        ("bill_id", Text),
        ("customer_id", Text),
        ("period_start", Date),
        ("period_end", Date),
        ("issue_date", Date),
        ("total_due", Amount),
        ("due_date", Date),
        ("line_items", Or(&List(&Closed(&LINE_ITEM)), NO_LIST)),
        (
            "status",
            Or(&Enum(&["Draft", "Issued", "Awaiting Payment", "Paid", "Overdue", "Disputed"]), || "Draft".into()),
        ),
    ],
};

static ADDRESS: Model =
    Model { name: "Address", fields: &[("street", Text), ("city", Text), ("state", Text), ("zip_code", Text)] };

static PAYMENT_METHOD: Model = Model {
    name: "PaymentMethod",
    fields: &[
        ("method_type", Enum(&["Credit Card", "Debit Card", "PayPal"])),
        ("account_number_last_4", Text),
        ("expiration_date", Text),
    ],
};

pub(super) static CUSTOMER: Model = Model {
    name: "Customer",
    fields: &[
        ("customer_id", Text),
        ("full_name", Text),
        ("date_of_birth", Text),
        ("email", Text),
        ("phone_number", Text),
        ("address", Closed(&ADDRESS)),
        (
            "account_status",
            Or(&Enum(&["Active", "Suspended", "Pending Verification", "Closed"]), || "Pending Verification".into()),
        ),
        ("payment_methods", Or(&List(&Closed(&PAYMENT_METHOD)), NO_LIST)),
        ("line_ids", Or(&TEXTS, NO_LIST)),
        ("bill_ids", Or(&TEXTS, NO_LIST)),
        ("created_at", Or(&Moment, || "2025-01-01".into())),
        ("last_extension_date", DATE),
        ("goodwill_credit_used_this_year", Or(&Amount, NOTHING)),
    ],
};

const STRENGTH: Holds = Enum(&["none", "poor", "fair", "good", "excellent"]);
const TECHNOLOGY: Holds = Enum(&["none", "2G", "3G", "4G", "5G"]);
const NO_SIGNAL: Holds = Or(&STRENGTH, || "none".into());

/// Network modes that a phone can prefer, as listed to its user.
pub(super) const MODES: [&str; 4] = ["4g_5g_preferred", "4g_only", "3g_only", "2g_only"];

/// States of a connection.
pub(super) const STATES: [&str; 4] = ["connected", "searching", "no_service", "emergency_only"];

pub(super) static APN: Model = Model {
    name: "APNSettings",
    fields: &[
        ("apn_name", Or(&Enum(&["internet", "broken"]), || "internet".into())),
        ("reset_at_reboot", OFF),
        ("mms_apn", Or(&Optional(&Text), || "mms".into())),
        ("mmsc_url", Or(&Optional(&Text), || "http://mms.carrier.com/mms/wapenc".into())),
        ("mms_proxy", Optional(&Text)),
        ("mms_port", Optional(&Whole)),
    ],
};

static VPN: Model = Model {
    name: "VpnDetails",
    fields: &[
        ("server_address", Optional(&Text)),
        ("protocol", Optional(&Text)),
        ("server_performance", Or(&Enum(&["unknown", "poor", "fair", "good", "excellent"]), || "unknown".into())),
    ],
};

static PERMISSIONS: Model =
    Model { name: "AppPermissions", fields: &[("sms", OFF), ("storage", OFF), ("phone", OFF), ("network", OFF)] };

static APP: Model = Model {
    name: "AppStatus",
    fields: &[("app_name", Text), ("permissions", Or(&Closed(&PERMISSIONS), || defaults(&PERMISSIONS)))],
};

pub(super) static PHONE: Model = Model {
    name: "MockPhoneAttributes",
    fields: &[
        ("sim_card_status", Or(&Enum(&["active", "missing", "locked_pin", "locked_puk"]), || "active".into())),
        ("sim_card_missing", OFF),
        ("airplane_mode", OFF),
        ("network_signal_strength", Or(&STRENGTH, || "good".into())),
        ("network_technology_connected", Or(&TECHNOLOGY, || "5G".into())),
        ("network_connection_status", Or(&Enum(&STATES), || "connected".into())),
        ("battery_level", Or(&Whole, || Value::Int(80))),
        ("data_enabled", Or(&Flag, || Value::Bool(true))),
        ("roaming_enabled", OFF),
        ("network_mode_preference", Or(&Enum(&MODES), || "4g_5g_preferred".into())),
        ("active_apn_settings", Or(&Closed(&APN), || defaults(&APN))),
        ("wifi_enabled", OFF),
        ("wifi_connected", OFF),
        ("wifi_ssid", Optional(&Text)),
        ("wifi_signal_strength", NO_SIGNAL),
        ("wifi_calling_enabled", OFF),
        ("wifi_calling_mms_over_wifi", OFF),
        ("data_saver_mode", OFF),
        ("vpn_enabled_setting", OFF),
        ("vpn_connected", OFF),
        ("vpn_details", Optional(&Closed(&VPN))),
        ("app_statuses", Or(&Map(&Closed(&APP)), apps)),
    ],
};

pub(super) static PAYMENT_REQUEST: Model =
    Model { name: "PaymentRequest", fields: &[("bill_id", Text), ("amount_due", Amount), ("paid", OFF)] };

pub(super) static SURROUNDINGS: Model = Model {
    name: "UserSurroundings",
    fields: &[
        ("name", Optional(&Text)),
        ("phone_number", Optional(&Text)),
        ("is_abroad", OFF),
        ("roaming_allowed", OFF),
        ("signal_strength", Or(&Map(&STRENGTH), signals)),
        ("mobile_data_usage_exceeded", OFF),
        ("line_active", Or(&Flag, || Value::Bool(true))),
        ("payment_request", Optional(&Closed(&PAYMENT_REQUEST))),
    ],
};

/// A model with all fields at their defaults.
pub(super) fn defaults(model: &'static Model) -> Value {
    // Every field of these models has a default.
    model.shape_closed(&Value::dict(Dict::new())).unwrap_or(Value::None)
}

/// Default apps of a phone.
fn apps() -> Value {
    let app = |name: &str, granted: &[&str]| {
        let fields = PERMISSIONS.fields.iter();
        let permissions = Value::dict(fields.map(|(field, _)| (*field, Value::Bool(granted.contains(field)))));
        Value::dict([("app_name", name.into()), ("permissions", permissions)])
    };
    Value::dict([
        ("messaging", app("messaging", &["sms", "storage", "phone"])),
        ("browser", app("browser", &["network", "storage"])),
    ])
}

/// Default signal strengths at the user's location.
fn signals() -> Value {
    let signals = [("2G", "poor"), ("3G", "fair"), ("4G", "good"), ("5G", "excellent")];
    Value::dict(signals.map(|(technology, strength)| (technology, strength.into())))
}
