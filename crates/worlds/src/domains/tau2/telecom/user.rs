//! The user's toolkit: tools on the phone, and the functions of scenarios.

use super::super::super::py::{Dict, Value};
use super::super::super::tool::Failure;
use super::function::{Function, Use};
use super::phone::Phone;
use super::{checks, scenario, switches};

const NONE: &[&str] = &[];

type Run = fn(&mut Phone, &Dict) -> Result<Value, Failure>;

const fn read(name: &'static str, run: Run) -> Function<Phone> {
    Function::new(Use::Read, name, NONE, run)
}

const fn write(name: &'static str, run: Run) -> Function<Phone> {
    Function::new(Use::Write, name, NONE, run)
}

const fn scene(name: &'static str, parameters: &'static [&'static str], run: Run) -> Function<Phone> {
    Function::new(Use::Scenario, name, parameters, run)
}

const EXPECTED: &[&str] = &["expected_status"];

/// Functions of the toolkit, in upstream's order.
pub(super) static FUNCTIONS: [Function<Phone>; 57] = [
    read("check_status_bar", checks::status_bar),
    read("check_network_status", checks::network),
    read("check_network_mode_preference", checks::mode),
    Function::new(Use::Write, "set_network_mode_preference", &["mode"], switches::set_mode),
    read("run_speed_test", checks::speed),
    write("toggle_airplane_mode", switches::airplane),
    read("check_sim_status", checks::sim),
    write("reseat_sim_card", switches::reseat_sim),
    write("toggle_data", switches::data),
    write("toggle_roaming", switches::roaming),
    read("check_data_restriction_status", checks::restriction),
    write("toggle_data_saver_mode", switches::data_saver),
    read("check_apn_settings", checks::apn),
    Function::new(Use::Write, "set_apn_settings", &["apn_settings"], switches::set_apn),
    write("reset_apn_settings", switches::reset_apn),
    read("check_wifi_status", checks::wifi),
    write("toggle_wifi", switches::wifi),
    read("check_wifi_calling_status", checks::wifi_calling),
    write("toggle_wifi_calling", switches::wifi_calling),
    read("check_vpn_status", checks::vpn),
    write("connect_vpn", switches::connect_vpn),
    write("disconnect_vpn", switches::disconnect_vpn),
    read("check_installed_apps", checks::apps),
    Function::new(Use::Read, "check_app_status", &["app_name"], checks::app),
    Function::new(Use::Read, "check_app_permissions", &["app_name"], checks::app_permissions),
    Function::new(Use::Write, "grant_app_permission", &["app_name", "permission"], switches::grant),
    read("can_send_mms", checks::mms),
    write("reboot_device", switches::reboot),
    read("check_payment_request", checks::payment_request),
    write("make_payment", switches::pay),
    scene("set_user_info", &["name", "phone_number"], scenario::user_info),
    scene("set_user_location", &["abroad"], scenario::user_location),
    scene("turn_airplane_mode_on", NONE, |phone, _| scenario::airplane(phone, true)),
    scene("turn_airplane_mode_off", NONE, |phone, _| scenario::airplane(phone, false)),
    scene("unseat_sim_card", NONE, scenario::unseat_sim),
    scene("lock_sim_card", &["mode"], scenario::lock_sim),
    scene("turn_data_on", NONE, scenario::data_on),
    scene("turn_data_off", NONE, scenario::data_off),
    scene("turn_roaming_on", NONE, |phone, _| scenario::roaming(phone, true)),
    scene("turn_roaming_off", NONE, |phone, _| scenario::roaming(phone, false)),
    scene("turn_data_saver_mode_on", NONE, |phone, _| scenario::data_saver(phone, true)),
    scene("turn_data_saver_mode_off", NONE, |phone, _| scenario::data_saver(phone, false)),
    scene("break_apn_settings", NONE, scenario::break_apn),
    scene("break_apn_mms_setting", NONE, scenario::break_mms),
    scene("set_wifi_calling", &["enabled"], scenario::wifi_calling).or(&["mms_over_wifi"]),
    scene("break_vpn", NONE, scenario::break_vpn),
    scene("remove_app_permission", &["app_name", "permission"], scenario::revoke),
    scene("simulate_network_search", NONE, |phone, _| phone.search().map(|()| Value::None)),
    scene("assert_airplane_mode_status", EXPECTED, |phone, arguments| {
        scenario::expect(phone.device("airplane_mode"), arguments)
    }),
    scene("assert_service_status", EXPECTED, scenario::assert_service),
    scene("assert_mobile_data_status", EXPECTED, |phone, arguments| {
        scenario::expect(&Value::Bool(phone.is_online()), arguments)
    }),
    scene("assert_mobile_roaming_status", EXPECTED, |phone, arguments| {
        scenario::expect(phone.device("roaming_enabled"), arguments)
    }),
    scene("assert_mobile_data_saver_mode_status", EXPECTED, |phone, arguments| {
        scenario::expect(phone.device("data_saver_mode"), arguments)
    }),
    scene("assert_internet_speed", &["expected_speed"], scenario::assert_speed).or(&["expected_desc"]),
    scene("assert_internet_not_excellent", NONE, scenario::assert_not_excellent),
    scene("assert_can_send_mms", EXPECTED, |phone, arguments| scenario::expect(&phone.can_send_mms()?, arguments)),
    scene("assert_mobile_data_usage_exceeded", EXPECTED, |phone, arguments| {
        scenario::expect(phone.around("mobile_data_usage_exceeded"), arguments)
    }),
];
