//! Functions on the phone that are not tools: they set up a scenario, or assert on its end.

use super::super::super::py::{Dict, Value, num, ops, text};
use super::super::super::tool::{Failure, arg, refuse};
use super::function::given;
use super::model::STATES;
use super::phone::{Phone, ensure, on_off};
use super::switches::toggle_airplane;

type Answer = Result<Value, Failure>;

pub(super) fn user_info(phone: &mut Phone, arguments: &Dict) -> Answer {
    phone.set_around("name", arg(arguments, "name").clone());
    phone.set_around("phone_number", arg(arguments, "phone_number").clone());
    Ok(Value::None)
}

pub(super) fn user_location(phone: &mut Phone, arguments: &Dict) -> Answer {
    phone.set_around("is_abroad", arg(arguments, "abroad").clone());
    Ok(Value::None)
}

pub(super) fn airplane(phone: &mut Phone, on: bool) -> Answer {
    if toggle_airplane(phone)? != on {
        toggle_airplane(phone)?;
    }
    Ok(Value::str(format!("Airplane Mode is now {}.", on_off(on))))
}

pub(super) fn unseat_sim(phone: &mut Phone, _: &Dict) -> Answer {
    phone.switch("sim_card_missing", true);
    phone.search()?;
    Ok("SIM card un-seated successfully.".into())
}

pub(super) fn lock_sim(phone: &mut Phone, arguments: &Dict) -> Answer {
    let mode = text::str(arg(arguments, "mode"));
    match mode.as_str() {
        "pin" => phone.set("sim_card_status", "locked_pin"),
        "puk" => phone.set("sim_card_status", "locked_puk"),
        _ => {}
    }
    phone.search()?;
    Ok(Value::str(format!("SIM card locked successfully in {mode} mode.")))
}

/// Toggles a switch until it is as wanted, with a network search each time, which may fail.
fn turn(phone: &mut Phone, field: &str, on: bool) -> Result<(), Failure> {
    let now = phone.toggle(field);
    phone.search()?;
    if now != on {
        phone.toggle(field);
        phone.search()?;
    }
    Ok(())
}

pub(super) fn data_on(phone: &mut Phone, _: &Dict) -> Answer {
    phone.switch("data_enabled", true);
    Ok("Data connection restored.".into())
}

pub(super) fn data_off(phone: &mut Phone, _: &Dict) -> Answer {
    turn(phone, "data_enabled", false)?;
    Ok("Data connection broken.".into())
}

pub(super) fn roaming(phone: &mut Phone, on: bool) -> Answer {
    turn(phone, "roaming_enabled", on)?;
    Ok(Value::str(format!("Data Roaming is now {}.", on_off(on))))
}

pub(super) fn data_saver(phone: &mut Phone, on: bool) -> Answer {
    phone.switch("data_saver_mode", on);
    Ok(Value::str(format!("Data Saver Mode is now {}.", on_off(on))))
}

pub(super) fn break_apn(phone: &mut Phone, _: &Dict) -> Answer {
    phone.set_apn("apn_name", "broken".into())?;
    phone.search()?;
    Ok("APN settings broken. Please call reset_apn_settings() to fix.".into())
}

pub(super) fn break_mms(phone: &mut Phone, _: &Dict) -> Answer {
    phone.set_apn("mmsc_url", Value::None)?;
    ensure(!super::function::truthy(&phone.can_send_mms()?))?;
    Ok("APN MMS setting broken. Please call reset_apn_settings() to fix.".into())
}

pub(super) fn wifi_calling(phone: &mut Phone, arguments: &Dict) -> Answer {
    let enabled = arg(arguments, "enabled");
    if !ops::equal(phone.device("wifi_calling_enabled"), enabled) {
        phone.toggle("wifi_calling_enabled");
    }
    let mut text = format!("Wi-Fi Calling is now {}.", on_off(super::function::truthy(enabled)));
    if let Some(over) = given(arguments, "mms_over_wifi").filter(|over| !matches!(over, Value::None)) {
        phone.set("wifi_calling_mms_over_wifi", over.clone());
        text += &format!("\nMMS over Wi-Fi is now {}.", on_off(super::function::truthy(over)));
    }
    Ok(Value::str(text))
}

/// Upstream breaks the network for every later connection too.
pub(super) fn break_vpn(phone: &mut Phone, arguments: &Dict) -> Answer {
    super::switches::connect_vpn(phone, arguments)?;
    let mut details = phone.device("vpn_details").clone();
    if details.as_dict().is_none() {
        return Err(ops::no_attribute(&details, "server_performance").into());
    }
    ops::set(&mut details, "server_performance", "poor".into())?;
    phone.set("vpn_details", details);
    phone.vpn = "poor";
    Ok("VPN connection broken.".into())
}

pub(super) fn revoke(phone: &mut Phone, arguments: &Dict) -> Answer {
    let (app, permission) = (arg(arguments, "app_name"), ops::lower(arg(arguments, "permission"))?);
    let tracked = phone.permissions(app)?.map(|all| all.contains_key(permission.as_str()));
    let name = text::str(app);
    let (done, text) = match tracked {
        None => (false, format!("App '{name}' not found. Cannot remove permission.")),
        Some(false) => (false, format!("Permission '{permission}' not tracked for app '{name}'.")),
        Some(true) => {
            phone.permit(&name, &permission, false)?;
            (true, format!("Permission '{permission}' removed from app '{name}'."))
        }
    };
    Ok(Value::list(vec![Value::Bool(done), Value::str(text)]))
}

/// True if the phone's value is the one that a call expects.
pub(super) fn expect(value: &Value, arguments: &Dict) -> Answer {
    Ok(Value::Bool(ops::equal(value, arg(arguments, "expected_status"))))
}

pub(super) fn assert_service(phone: &mut Phone, arguments: &Dict) -> Answer {
    let expected = arg(arguments, "expected_status");
    if !expected.as_str().is_some_and(|state| STATES.contains(&state)) {
        return refuse(format!("{} is not a valid NetworkStatus", text::repr(expected)));
    }
    expect(phone.device("network_connection_status"), arguments)
}

pub(super) fn assert_speed(phone: &mut Phone, arguments: &Dict) -> Answer {
    let expected = arg(arguments, "expected_speed");
    let (speed, word) = phone.speed().unwrap_or((0.0, "No Connection"));
    let fast = match num::Number::of(expected) {
        Some(expected) => num::compare(&num::Number::Float(speed), &expected).is_some_and(std::cmp::Ordering::is_ge),
        None => return Err(super::function::incomparable(">=", &Value::Float(speed), expected).into()),
    };
    match given(arguments, "expected_desc").filter(|word| !matches!(word, Value::None)) {
        Some(expected) if fast => Ok(Value::Bool(word.to_lowercase() == ops::lower(expected)?)),
        _ => Ok(Value::Bool(fast)),
    }
}

pub(super) fn assert_not_excellent(phone: &mut Phone, _: &Dict) -> Answer {
    Ok(Value::Bool(phone.speed().is_none_or(|(_, word)| word != "Excellent")))
}
