//! Tool descriptions of telecom, for agent and user, in our own words.

use super::super::super::schema::{Parameter, Spec, Type, param};

const CUSTOMER: Parameter = param("customer_id", "Customer id, such as 'C1001'.", Type::Text);
const LINE: Parameter = param("line_id", "Id of one of the customer's lines, such as 'L1001'.", Type::Text);
const APP: Parameter = param("app_name", "Name of an installed app.", Type::Text);

const fn spec(name: &'static str, about: &'static str, parameters: &'static [Parameter]) -> Spec {
    Spec { name, about, parameters }
}

/// The agent's tools, in the order the model sees them.
pub(in crate::domains) const AGENT: [Spec; 13] = [
    spec("disable_roaming", "Switch international roaming of a line off.", &[CUSTOMER, LINE]),
    spec("enable_roaming", "Switch international roaming of a line on.", &[CUSTOMER, LINE]),
    spec(
        "get_bills_for_customer",
        "A customer's bills, the newest first.",
        &[CUSTOMER, param("limit", "Largest number of bills, 12 where it is not given.", Type::Maybe(&Type::Whole))],
    ),
    spec("get_customer_by_id", "A customer by id.", &[CUSTOMER]),
    spec(
        "get_customer_by_name",
        "The customers of a name who were born on a date.",
        &[
            param("full_name", "First and last name.", Type::Text),
            param("dob", "Date of birth as YYYY-MM-DD.", Type::Text),
        ],
    ),
    spec(
        "get_customer_by_phone",
        "The customer of a phone number: of contact, or of a line.",
        &[param("phone_number", "Phone number, such as '555-123-2002'.", Type::Text)],
    ),
    spec(
        "get_data_usage",
        "Data that a line has used in this billing cycle, its limit and refuelled data.",
        &[CUSTOMER, LINE],
    ),
    spec(
        "get_details_by_id",
        "The record of an id: customer (C…), line (L…), device (D…), bill (B…) or plan (P…).",
        &[param("id", "Id.", Type::Text)],
    ),
    spec(
        "refuel_data",
        "Add data to a line. The customer's next bill is charged by the plan's price for a gigabyte.",
        &[CUSTOMER, LINE, param("gb_amount", "Gigabytes to add, over 0.", Type::Money)],
    ),
    spec("resume_line", "Make a suspended line active again.", &[CUSTOMER, LINE]),
    spec(
        "send_payment_request",
        "Ask the customer to pay a bill. One bill can wait for payment at a time. A bill that is paid already is not \
         noticed: look at its status first.",
        &[CUSTOMER, param("bill_id", "Id of one of the customer's bills.", Type::Text)],
    ),
    spec("suspend_line", "Suspend an active line.", &[CUSTOMER, LINE, param("reason", "Why.", Type::Text)]),
    spec(
        "transfer_to_human_agents",
        "Hand the user over to a human agent. Only what policy and tools cannot solve, or when the user asks for it.",
        &[param("summary", "What the user needs.", Type::Text)],
    ),
];

const NONE: &[Parameter] = &[];

/// The user's tools, on the phone.
pub(in crate::domains) const USER: [Spec; 30] = [
    spec("can_send_mms", "See whether the messaging app can send picture messages.", NONE),
    spec("check_apn_settings", "See the access point that mobile data and picture messages use.", NONE),
    spec("check_app_permissions", "See what an app is permitted to do.", &[APP]),
    spec("check_app_status", "See the state of an app.", &[APP]),
    spec("check_data_restriction_status", "See whether Data Saver limits mobile data.", NONE),
    spec("check_installed_apps", "See which apps are installed.", NONE),
    spec("check_network_mode_preference", "See which kind of network the phone prefers.", NONE),
    spec("check_network_status", "See the connection to cellular networks and Wi-Fi.", NONE),
    spec("check_payment_request", "See whether the carrier asks for a payment.", NONE),
    spec("check_sim_status", "See whether the SIM card works.", NONE),
    spec("check_status_bar", "See the icons at the top of the screen.", NONE),
    spec("check_vpn_status", "See whether a VPN is connected.", NONE),
    spec("check_wifi_calling_status", "See whether Wi-Fi calling is on.", NONE),
    spec("check_wifi_status", "See whether Wi-Fi is on and connected.", NONE),
    spec("connect_vpn", "Connect to the VPN.", NONE),
    spec("disconnect_vpn", "Disconnect from the VPN.", NONE),
    spec(
        "grant_app_permission",
        "Permit an app to do something.",
        &[APP, param("permission", "Name of the permission, in lower case.", Type::Text)],
    ),
    spec("make_payment", "Pay the bill that the carrier asks for.", NONE),
    spec("reboot_device", "Restart the phone.", NONE),
    spec("reseat_sim_card", "Take the SIM card out and put it back.", NONE),
    spec("reset_apn_settings", "Reset the access point to its defaults at the next restart.", NONE),
    spec("run_speed_test", "Measure the speed of mobile data.", NONE),
    spec(
        "set_apn_settings",
        "Set the access point.",
        &[param(
            "apn_settings",
            "The settings.",
            Type::Record(&[
                param("apn_name", "Name.", Type::Maybe(&Type::Choice(&["internet", "broken"]))),
                param("mms_apn", "Name for picture messages.", Type::Maybe(&Type::Text)),
                param("mmsc_url", "Address of the centre for picture messages.", Type::Maybe(&Type::Text)),
                param("mms_proxy", "Proxy for picture messages.", Type::Maybe(&Type::Text)),
                param("mms_port", "The proxy's port.", Type::Maybe(&Type::Whole)),
            ]),
        )],
    ),
    spec(
        "set_network_mode_preference",
        "Set which kind of network the phone prefers.",
        &[param("mode", "The kind.", Type::Choice(&super::model::MODES))],
    ),
    spec("toggle_airplane_mode", "Turn airplane mode over: on where it is off, off where it is on.", NONE),
    spec("toggle_data", "Turn mobile data over.", NONE),
    spec("toggle_data_saver_mode", "Turn Data Saver over.", NONE),
    spec("toggle_roaming", "Turn data roaming over.", NONE),
    spec("toggle_wifi", "Turn Wi-Fi over.", NONE),
    spec("toggle_wifi_calling", "Turn Wi-Fi calling over.", NONE),
];
