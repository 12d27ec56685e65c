//! The user's tools that read the phone.

use super::super::super::py::{Dict, Value, text};
use super::super::super::tool::{Failure, arg};
use super::function::truthy;
use super::phone::{Phone, enum_value, on_off};

type Answer = Result<Value, Failure>;

fn yes_no(yes: bool) -> &'static str {
    if yes { "Yes" } else { "No" }
}

pub(super) fn status_bar(phone: &mut Phone, _: &Dict) -> Answer {
    Ok(Value::str(format!("Status Bar: {}", phone.status_bar())))
}

pub(super) fn network(phone: &mut Phone, _: &Dict) -> Answer {
    let of = |field: &str| text::str(phone.device(field));
    let mut lines = vec![
        format!("Airplane Mode: {}", on_off(phone.on("airplane_mode"))),
        format!("SIM Card Status: {}", phone.sim()),
        format!("Cellular Connection: {}", of("network_connection_status")),
        format!("Cellular Signal: {}", of("network_signal_strength")),
        format!("Cellular Network Type: {}", of("network_technology_connected")),
        format!("Mobile Data Enabled: {}", yes_no(phone.on("data_enabled"))),
        format!("Data Roaming Enabled: {}", yes_no(phone.on("roaming_enabled"))),
        format!("Wi-Fi Radio: {}", on_off(phone.on("wifi_enabled"))),
        format!("Wi-Fi Connected: {}", yes_no(phone.on("wifi_connected"))),
    ];
    if phone.on("wifi_connected") {
        lines.push(format!("Connected Wi-Fi Network: {}", of("wifi_ssid")));
    }
    Ok(Value::str(lines.join("\n")))
}

pub(super) fn mode(phone: &mut Phone, _: &Dict) -> Answer {
    let mode = enum_value(phone.device("network_mode_preference"))?;
    Ok(Value::str(format!("Network Mode Preference: {mode}")))
}

pub(super) fn speed(phone: &mut Phone, _: &Dict) -> Answer {
    let Some((speed, word)) = phone.speed() else { return Ok("Speed test failed: No Connection.".into()) };
    let advice = match word {
        "Very Poor" => "Connection is very slow. Basic web browsing might be difficult.",
        "Poor" => "Connection is slow. Web browsing may be sluggish, streaming difficult.",
        "Fair" => "Connection is okay for web browsing and some standard definition streaming.",
        "Good" => "Connection is good for most activities, including HD streaming.",
        _ => "Connection is very fast.",
    };
    Ok(Value::str(format!("Speed Test Result: {speed:.2} Mbps ({word}). {advice}")))
}

pub(super) fn sim(phone: &mut Phone, _: &Dict) -> Answer {
    Ok(match phone.sim() {
        "active" => "Your SIM card is active and working.",
        "missing" => "No SIM card detected in the phone.",
        "locked_pin" => "The SIM card is locked with a PIN code.",
        _ => "The SIM card is locked with a PUK code.",
    }
    .into())
}

pub(super) fn restriction(phone: &mut Phone, _: &Dict) -> Answer {
    let on = phone.on("data_saver_mode");
    Ok(if on { "Data Saver mode is ON (limits data usage)." } else { "Data Saver mode is OFF." }.into())
}

pub(super) fn apn(phone: &mut Phone, _: &Dict) -> Answer {
    let settings = phone.device("active_apn_settings");
    if settings.as_dict().is_none() {
        return Err(super::super::super::py::ops::no_attribute(settings, "model_copy").into());
    }
    let (name, url) = (enum_value(phone.apn("apn_name")?)?, phone.apn("mmsc_url")?);
    let url = if truthy(url) { text::str(url) } else { "Not Set".into() };
    Ok(Value::str(format!(
        "Current APN Name: {name}\nMMSC URL (for picture messages): {url}\n(These are technical settings, usually best \
         left unchanged.)"
    )))
}

pub(super) fn wifi(phone: &mut Phone, _: &Dict) -> Answer {
    Ok(Value::str(if !phone.on("wifi_enabled") {
        "Wi-Fi is turned OFF.".to_owned()
    } else if phone.on("wifi_connected") {
        let (network, signal) = (text::str(phone.device("wifi_ssid")), text::str(phone.device("wifi_signal_strength")));
        format!("Wi-Fi is ON and connected to '{network}'. Signal strength: {signal}.")
    } else {
        "Wi-Fi is ON but not connected to any network.".to_owned()
    }))
}

pub(super) fn wifi_calling(phone: &mut Phone, _: &Dict) -> Answer {
    Ok(Value::str(format!("Wi-Fi Calling is currently turned {}.", on_off(phone.on("wifi_calling_enabled")))))
}

pub(super) fn vpn(phone: &mut Phone, _: &Dict) -> Answer {
    let details = phone.device("vpn_details").as_dict();
    Ok(Value::str(match (phone.on("vpn_connected"), details) {
        (true, Some(details)) => {
            let of = |name: &str| details.get(name).map_or_else(|| "None".to_owned(), text::repr);
            let performance = details.get("server_performance").and_then(Value::as_str).unwrap_or_default();
            format!(
                "VPN is ON and connected. Details: {{'server_address': {}, 'protocol': {}, 'server_performance': \
                 <PerformanceLevel.{}: '{performance}'>}}",
                of("server_address"),
                of("protocol"),
                performance.to_uppercase()
            )
        }
        (true, None) => "VPN is ON and connected (no specific details available).".to_owned(),
        (false, _) if phone.on("vpn_enabled_setting") => {
            "VPN is turned ON in settings, but currently not connected.".to_owned()
        }
        (false, _) => "VPN is turned OFF.".to_owned(),
    }))
}

pub(super) fn apps(phone: &mut Phone, _: &Dict) -> Answer {
    let apps = phone.device("app_statuses").as_dict();
    let names: Vec<&str> = apps.into_iter().flatten().map(|(name, _)| &**name).collect();
    Ok(Value::str(format!("The following apps are installed on the phone: {}", names.join(", "))))
}

/// Names of an app's permissions that are granted; `None` without the app.
fn granted(phone: &Phone, app: &Value) -> Result<Option<Vec<String>>, Failure> {
    let permissions = phone.permissions(app)?;
    Ok(permissions.map(|all| {
        all.iter()
            .filter(|(_, granted)| truthy(granted))
            .map(|(name, _)| name.replace('_', " ").to_lowercase())
            .collect()
    }))
}

pub(super) fn app(phone: &mut Phone, arguments: &Dict) -> Answer {
    let name = arg(arguments, "app_name");
    let shown = text::str(name);
    Ok(Value::str(match granted(phone, name)? {
        None => format!("App '{shown}' not found on this phone."),
        Some(granted) if granted.is_empty() => format!("Status for App: {shown}\n - Permissions: None granted."),
        Some(granted) => {
            format!("Status for App: {shown}\n - Permissions Granted:\n   - {}", granted.join("\n   - "))
        }
    }))
}

pub(super) fn app_permissions(phone: &mut Phone, arguments: &Dict) -> Answer {
    let name = arg(arguments, "app_name");
    let shown = text::str(name);
    Ok(Value::str(match granted(phone, name)? {
        None => format!("App '{shown}' not found on this phone."),
        Some(granted) if granted.is_empty() => format!("App '{shown}' currently has no permissions granted."),
        Some(granted) => format!("App '{shown}' has permission for: {}.", granted.join(", ")),
    }))
}

pub(super) fn mms(phone: &mut Phone, _: &Dict) -> Answer {
    let word = if truthy(&phone.can_send_mms()?) { "can" } else { "cannot" };
    Ok(Value::str(format!("Your messaging app {word} send MMS messages.")))
}

pub(super) fn payment_request(phone: &mut Phone, _: &Dict) -> Answer {
    let Some(request) = phone.around("payment_request").as_dict() else {
        return Ok("No payment request has been made.".into());
    };
    let of = |name: &str| request.get(name).map(text::str).unwrap_or_default();
    Ok(Value::str(format!("You have a payment request for bill {} of {} USD.", of("bill_id"), of("amount_due"))))
}
