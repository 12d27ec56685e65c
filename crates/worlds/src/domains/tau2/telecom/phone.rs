//! The user's phone and surroundings: fields, the search for a network, and their consequences.
//!
//! Fields are records of a [`World`], so that states are compared and hashed like the carrier's. Upstream checks no
//! field that a tool sets: a preference or an access point may hold whatever a call gave, and fails when it is used.

use super::super::super::py::num::round2_float;
use super::super::super::py::{Dict, Value, ops, text};
use super::super::super::tool::{Failure, refuse};
use super::super::super::world::{TableId, World};
use super::function::truthy;

const DEVICE: TableId = TableId(0);
const SURROUNDINGS: TableId = TableId(1);

/// One user's phone.
#[derive(Debug, Clone)]
pub(in crate::domains) struct Phone {
    pub(in crate::domains) world: World,
    /// Performance of the network that `connect_vpn` connects to. Upstream's broken one stays broken.
    pub(super) vpn: &'static str,
}

static NOTHING: Value = Value::None;

impl Phone {
    pub(in crate::domains) fn new(world: World) -> Self {
        Self { world, vpn: "excellent" }
    }

    pub(super) fn device(&self, field: &str) -> &Value {
        self.world.get(DEVICE, field).unwrap_or(&NOTHING)
    }

    pub(super) fn around(&self, field: &str) -> &Value {
        self.world.get(SURROUNDINGS, field).unwrap_or(&NOTHING)
    }

    pub(super) fn is(&self, field: &str, value: &str) -> bool {
        ops::is(self.device(field), value)
    }

    pub(super) fn on(&self, field: &str) -> bool {
        truthy(self.device(field))
    }

    pub(super) fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.world.put(DEVICE, field, value.into());
    }

    pub(super) fn switch(&mut self, field: &str, on: bool) {
        self.world.put(DEVICE, field, Value::Bool(on));
    }

    /// Toggles a switch; returns its new state.
    pub(super) fn toggle(&mut self, field: &str) -> bool {
        let on = !self.on(field);
        self.switch(field, on);
        on
    }

    pub(super) fn set_around(&mut self, field: &str, value: Value) {
        self.world.put(SURROUNDINGS, field, value);
    }

    /// An attribute of the access point, which a careless call may have replaced by a value without attributes.
    pub(super) fn apn(&self, field: &str) -> Result<&Value, Failure> {
        let apn = self.device("active_apn_settings");
        apn.as_dict().and_then(|fields| fields.get(field)).ok_or_else(|| ops::no_attribute(apn, field).into())
    }

    pub(super) fn set_apn(&mut self, field: &str, value: Value) -> Result<(), Failure> {
        self.apn(field)?;
        let mut apn = self.device("active_apn_settings").clone();
        ops::set(&mut apn, field, value)?;
        self.set("active_apn_settings", apn);
        Ok(())
    }

    /// Visible state of the SIM card.
    pub(super) fn sim(&self) -> &str {
        if self.on("sim_card_missing") { "missing" } else { self.device("sim_card_status").as_str().unwrap_or("") }
    }

    fn connect(&mut self, state: &str, technology: &str, strength: Value) {
        self.set("network_connection_status", state);
        self.set("network_technology_connected", technology);
        self.set("network_signal_strength", strength);
    }

    fn lose_service(&mut self) {
        self.connect("no_service", "none", "none".into());
    }

    /// Searches for a network: the connection follows from card, preference, place and line.
    pub(super) fn search(&mut self) -> Result<(), Failure> {
        if self.sim() == "active" {
            let signal = |phone: &Self, technology: &str| {
                let known = phone.around("signal_strength").as_dict().and_then(|known| known.get(technology));
                known.cloned().unwrap_or_else(|| "none".into())
            };
            let newest = signal(self, "5G");
            let technology = match self.device("network_mode_preference").as_str() {
                Some("4g_5g_preferred") if !ops::is(&newest, "none") => "5G",
                Some("3g_only") => "3G",
                Some("2g_only") => "2G",
                _ => "4G",
            };
            self.connect("connected", technology, signal(self, technology));
        } else {
            self.lose_service();
        }
        if self.on("airplane_mode") {
            self.lose_service();
        }
        if ops::is(self.apn("apn_name")?, "broken") {
            self.lose_service();
        }
        if !truthy(self.around("line_active")) {
            self.lose_service();
        }
        Ok(())
    }

    pub(super) fn is_online(&self) -> bool {
        let abroad = truthy(self.around("is_abroad"));
        !self.on("airplane_mode")
            && !self.is("network_signal_strength", "none")
            && !self.is("network_connection_status", "no_service")
            && (!abroad || self.on("roaming_enabled") && truthy(self.around("roaming_allowed")))
            && self.on("data_enabled")
            && !truthy(self.around("mobile_data_usage_exceeded"))
    }

    /// Megabits per second with a description; `None` without a connection.
    pub(super) fn speed(&self) -> Option<(f64, &'static str)> {
        if !self.is_online() {
            return None;
        }
        let vpn = self.device("vpn_details");
        let slow = self.on("vpn_connected")
            && vpn.as_dict().and_then(|fields| fields.get("server_performance")).is_some_and(|of| ops::is(of, "poor"));
        let mut factor = if slow { 0.1 } else { 1.0 };
        if self.on("data_saver_mode") {
            factor *= 0.2;
        }
        let (least, most) = match self.device("network_technology_connected").as_str() {
            Some("2G") => (0.1, 0.4),
            Some("3G") => (1.0, 5.0),
            Some("4G") => (10.0, 100.0),
            Some("5G") => (50.0, 500.0),
            _ => (0.0, 0.0),
        };
        let signal = match self.device("network_signal_strength").as_str() {
            Some("poor") => 0.2,
            Some("fair") => 0.5,
            Some("good") => 0.8,
            Some("excellent") => 1.0,
            _ => 0.0,
        };
        let speed = round2_float(f64::midpoint(least, most) * signal * factor);
        let word = match speed {
            speed if speed < 1.0 => "Very Poor",
            speed if speed < 5.0 => "Poor",
            speed if speed < 25.0 => "Fair",
            speed if speed < 100.0 => "Good",
            _ => "Excellent",
        };
        Some((speed, word))
    }

    pub(super) fn can_send_mms(&self) -> Result<Value, Failure> {
        let never = !self.is_online()
            || self.is("network_technology_connected", "2G")
            || self.on("wifi_calling_enabled") && self.on("wifi_calling_mms_over_wifi")
            || matches!(self.apn("mmsc_url")?, Value::None);
        if never {
            return Ok(Value::Bool(false));
        }
        let Some(granted) = self.permissions(&"messaging".into())? else { return Ok(Value::Bool(false)) };
        let of = |name: &str| granted.get(name).cloned().unwrap_or(Value::None);
        // `a and b` is `a` if that is false.
        Ok(if truthy(&of("storage")) { of("sms") } else { of("storage") })
    }

    /// Permissions of an app, by the name a call gave.
    pub(super) fn permissions(&self, app: &Value) -> Result<Option<&Dict>, Failure> {
        let Some(apps) = self.device("app_statuses").as_dict() else { return Ok(None) };
        let Some(app) = ops::lookup(apps, app)? else { return Ok(None) };
        Ok(app.as_dict().and_then(|fields| fields.get("permissions")?.as_dict()))
    }

    pub(super) fn permit(&mut self, app: &str, permission: &str, granted: bool) -> Result<(), Failure> {
        let mut apps = self.device("app_statuses").clone();
        let permissions = ops::field_mut(ops::field_mut(&mut apps, app)?, "permissions")?;
        ops::set(permissions, permission, Value::Bool(granted))?;
        self.set("app_statuses", apps);
        Ok(())
    }

    /// The icons at the top of the screen.
    pub(super) fn status_bar(&self) -> String {
        let mut icons: Vec<String> = Vec::new();
        if self.on("airplane_mode") {
            icons.push("\u{2708}\u{fe0f} Airplane Mode".into());
        } else {
            self.cellular_icons(&mut icons);
        }
        if self.on("wifi_enabled") && self.on("wifi_connected") {
            let network = self.device("wifi_ssid");
            let icon = if truthy(network) { format!("Connected to {}", text::str(network)) } else { "Enabled".into() };
            icons.push(format!("\u{1f4e1} {icon}"));
        }
        if self.on("vpn_connected") {
            icons.push("\u{1f512} VPN Connected".into());
        }
        icons.push(format!("\u{1f50b} {}%", text::str(self.device("battery_level"))));
        icons.join(" | ")
    }

    fn cellular_icons(&self, icons: &mut Vec<String>) {
        let signal = match self.device("network_signal_strength").as_str() {
            Some("poor") => "\u{1f4f6}\u{b9} Poor",
            Some("fair") => "\u{1f4f6}\u{b2} Fair",
            Some("good") => "\u{1f4f6}\u{b3} Good",
            Some("excellent") => "\u{1f4f6}\u{2074} Excellent",
            _ => "\u{1f4f5} No Signal",
        };
        icons.push(signal.into());
        let technology = self.device("network_technology_connected");
        let connected = !ops::is(technology, "none");
        if connected {
            icons.push(text::str(technology));
        }
        if self.on("data_enabled") && connected {
            icons.push("\u{1f4f1} Data Enabled".into());
            if self.on("data_saver_mode") {
                icons.push("\u{1f53d} Data Saver".into());
            }
        } else {
            icons.push("\u{1f4f5} Data Disabled".into());
        }
    }

    /// A report followed by the status bar.
    pub(super) fn report(&self, what: &str) -> Value {
        Value::str(format!("{what}\nStatus Bar: {}", self.status_bar()))
    }
}

/// `value.value` of an enumeration; any other value that a call put there has none.
pub(super) fn enum_value(value: &Value) -> Result<&str, Failure> {
    value.as_str().map_or_else(|| Err(ops::no_attribute(value, "value").into()), Ok)
}

pub(super) fn on_off(on: bool) -> &'static str {
    if on { "ON" } else { "OFF" }
}

/// Refuses impossible states, which upstream asserts.
pub(super) fn ensure(holds: bool) -> Result<(), Failure> {
    if holds { Ok(()) } else { refuse("") }
}
