//! The user's tools that change the phone.

use super::super::super::py::{Dict, Value, ops, text};
use super::super::super::tool::{Failure, arg};
use super::model::{APN, MODES, defaults};
use super::phone::{Phone, on_off};

type Answer = Result<Value, Failure>;

/// Upstream sets the preference before it validates it, unless it is a string.
pub(super) fn set_mode(phone: &mut Phone, arguments: &Dict) -> Answer {
    let mode = arg(arguments, "mode");
    let known = mode.as_str().is_none_or(|mode| MODES.contains(&mode));
    if known {
        phone.set("network_mode_preference", mode.clone());
        phone.search()?;
    }
    match mode {
        Value::Str(mode) if known => Ok(phone.report(&format!("Preferred Network Mode set to: {mode}"))),
        Value::Str(_) | Value::None => Ok(phone.report(&format!(
            "Failed to set network mode: '{}' is not a valid option. Please use one of: {}",
            text::str(mode),
            MODES.join(", ")
        ))),
        other => Err(ops::no_attribute(other, "value").into()),
    }
}

pub(super) fn airplane(phone: &mut Phone, _: &Dict) -> Answer {
    let on = toggle_airplane(phone)?;
    Ok(phone.report(&format!("Airplane Mode is now {}.", on_off(on))))
}

pub(super) fn toggle_airplane(phone: &mut Phone) -> Result<bool, Failure> {
    let on = phone.toggle("airplane_mode");
    if !on {
        phone.set("network_connection_status", "searching");
    }
    if on || phone.on("wifi_enabled") {
        leave_wifi(phone);
    }
    if on && phone.on("vpn_connected") {
        leave_vpn(phone);
    }
    phone.search()?;
    Ok(phone.on("airplane_mode"))
}

fn leave_wifi(phone: &mut Phone) {
    phone.switch("wifi_connected", false);
    phone.set("wifi_ssid", Value::None);
    phone.set("wifi_signal_strength", "none");
}

fn leave_vpn(phone: &mut Phone) {
    phone.switch("vpn_connected", false);
    phone.set("vpn_details", Value::None);
}

pub(super) fn reseat_sim(phone: &mut Phone, _: &Dict) -> Answer {
    phone.switch("sim_card_missing", false);
    phone.search()?;
    super::phone::ensure(phone.sim() != "missing")?;
    Ok(phone.report("SIM card re-seated successfully."))
}

pub(super) fn data(phone: &mut Phone, _: &Dict) -> Answer {
    let on = phone.toggle("data_enabled");
    phone.search()?;
    Ok(phone.report(&format!("Mobile Data is now {}.", on_off(on))))
}

pub(super) fn roaming(phone: &mut Phone, _: &Dict) -> Answer {
    let on = phone.toggle("roaming_enabled");
    phone.search()?;
    Ok(phone.report(&format!("Data Roaming is now {}.", on_off(on))))
}

pub(super) fn data_saver(phone: &mut Phone, _: &Dict) -> Answer {
    let on = phone.toggle("data_saver_mode");
    Ok(phone.report(&format!("Data Saver Mode is now {}.", on_off(on))))
}

/// Upstream stores a value that is not a dictionary before it fails on it.
pub(super) fn set_apn(phone: &mut Phone, arguments: &Dict) -> Answer {
    let given = arg(arguments, "apn_settings");
    let settings = if given.as_dict().is_some() { APN.shape_closed(given)? } else { given.clone() };
    phone.set("active_apn_settings", settings);
    let name = text::str(phone.apn("apn_name")?);
    phone.search()?;
    Ok(phone.report(&format!("APN settings set to: {name}")))
}

pub(super) fn reset_apn(phone: &mut Phone, _: &Dict) -> Answer {
    phone.set_apn("reset_at_reboot", Value::Bool(true))?;
    phone.search()?;
    Ok(phone.report("APN settings will reset at reboot."))
}

pub(super) fn wifi(phone: &mut Phone, _: &Dict) -> Answer {
    if phone.on("airplane_mode") {
        return Ok(phone.report("Cannot change Wi-Fi settings while Airplane Mode is ON."));
    }
    let on = phone.toggle("wifi_enabled");
    if !on {
        leave_wifi(phone);
    }
    Ok(phone.report(&format!("Wi-Fi is now {}.", on_off(on))))
}

pub(super) fn wifi_calling(phone: &mut Phone, _: &Dict) -> Answer {
    let on = phone.toggle("wifi_calling_enabled");
    Ok(phone.report(&format!("Wi-Fi Calling is now {}.", on_off(on))))
}

pub(super) fn connect_vpn(phone: &mut Phone, _: &Dict) -> Answer {
    if phone.on("vpn_connected") {
        return Ok("VPN already connected.".into());
    }
    phone.switch("vpn_connected", true);
    let details = Value::dict([
        ("server_address", "192.168.1.1".into()),
        ("protocol", "OpenVPN".into()),
        ("server_performance", phone.vpn.into()),
    ]);
    phone.set("vpn_details", details);
    Ok(phone.report("VPN connected successfully."))
}

pub(super) fn disconnect_vpn(phone: &mut Phone, _: &Dict) -> Answer {
    if !phone.on("vpn_connected") {
        return Ok(phone.report("No active VPN connection to disconnect."));
    }
    leave_vpn(phone);
    Ok(phone.report("VPN disconnected successfully."))
}

pub(super) fn grant(phone: &mut Phone, arguments: &Dict) -> Answer {
    let (app, permission) = (arg(arguments, "app_name"), arg(arguments, "permission"));
    let tracked: Option<Vec<String>> = phone.permissions(app)?.map(|all| all.keys().map(ToString::to_string).collect());
    let (name, permission) = (text::str(app), ops::lower(permission)?);
    let text = match tracked {
        None => format!("Error. App '{name}' not found. Cannot grant permission."),
        Some(tracked) if !tracked.contains(&permission) => {
            let tracked = text::repr(&Value::list(tracked.into_iter().map(Value::str).collect()));
            format!("Error. Permission '{permission}' not tracked for app '{name}', available permissions: {tracked}")
        }
        Some(_) => {
            phone.permit(&name, &permission, true)?;
            format!("Success. Permission '{permission}' granted to app '{name}'.")
        }
    };
    Ok(phone.report(&text))
}

pub(super) fn reboot(phone: &mut Phone, _: &Dict) -> Answer {
    let mut lines = Vec::new();
    if super::function::truthy(phone.apn("reset_at_reboot")?) {
        lines.push("Resetting APN settings...");
        phone.set("active_apn_settings", defaults(&APN));
    }
    lines.push("Restarting network services...");
    phone.set("network_connection_status", "searching");
    phone.search()?;
    Ok(phone.report(&lines.join("\n")))
}

pub(super) fn pay(phone: &mut Phone, _: &Dict) -> Answer {
    let mut request = phone.around("payment_request").clone();
    let Some(fields) = request.as_dict() else { return Ok("You do not have a payment request.".into()) };
    let of = |name: &str| fields.get(name).map(text::str).unwrap_or_default();
    let paid = format!("Payment of {} USD has been made for bill {}.", of("amount_due"), of("bill_id"));
    ops::set(&mut request, "paid", Value::Bool(true))?;
    phone.set_around("payment_request", request);
    Ok(Value::str(paid))
}
