//! Tables of tau2's retail and airline databases, as models.

use super::model::Holds::{Choice, Flag, List, Map, Number as Amount, OneOf, Optional, Text, Whole};
use super::model::{Holds, Model};

const TEXTS: Holds = List(&Text);

static NAME: Model = Model { name: "Name", fields: &[("first_name", Text), ("last_name", Text)] };

pub(super) static ADDRESS: Model = Model {
    name: "UserAddress",
    fields: &[
        ("address1", Text),
        ("address2", Text),
        ("city", Text),
        ("country", Text),
        ("state", Text),
        ("zip", Text),
    ],
};

static CREDIT_CARD: Model =
    Model { name: "CreditCard", fields: &[("source", Text), ("id", Text), ("brand", Text), ("last_four", Text)] };
static PAYPAL: Model = Model { name: "Paypal", fields: &[("source", Text), ("id", Text)] };
static RETAIL_GIFT_CARD: Model =
    Model { name: "GiftCard", fields: &[("source", Text), ("id", Text), ("balance", Amount)] };
static AIRLINE_GIFT_CARD: Model =
    Model { name: "GiftCard", fields: &[("source", Text), ("id", Text), ("amount", Amount)] };
pub(super) static CERTIFICATE: Model =
    Model { name: "Certificate", fields: &[("source", Text), ("id", Text), ("amount", Amount)] };

static VARIANT: Model = Model {
    name: "Variant",
    fields: &[("item_id", Text), ("options", Map(&Text)), ("available", Flag), ("price", Amount)],
};

pub(super) static PRODUCT: Model = Model {
    name: "Product",
    fields: &[("name", Text), ("product_id", Text), ("variants", Map(&Holds::Model(&VARIANT)))],
};

pub(super) static RETAIL_USER: Model = Model {
    name: "User",
    fields: &[
        ("user_id", Text),
        ("name", Holds::Model(&NAME)),
        ("address", Holds::Model(&ADDRESS)),
        ("email", Text),
        (
            "payment_methods",
            Map(&OneOf(
                "source",
                &[("credit_card", &CREDIT_CARD), ("gift_card", &RETAIL_GIFT_CARD), ("paypal", &PAYPAL)],
            )),
        ),
        ("orders", TEXTS),
    ],
};

static ORDER_ITEM: Model = Model {
    name: "OrderItem",
    fields: &[("name", Text), ("product_id", Text), ("item_id", Text), ("price", Amount), ("options", Map(&Text))],
};
static FULFILLMENT: Model = Model { name: "OrderFullfilment", fields: &[("tracking_id", TEXTS), ("item_ids", TEXTS)] };
pub(super) static ORDER_PAYMENT: Model = Model {
    name: "OrderPayment",
    fields: &[("transaction_type", Choice(&["payment", "refund"])), ("amount", Amount), ("payment_method_id", Text)],
};

pub(super) static ORDER: Model = Model {
    name: "Order",
    fields: &[
        ("order_id", Text),
        ("user_id", Text),
        ("address", Holds::Model(&ADDRESS)),
        ("items", List(&Holds::Model(&ORDER_ITEM))),
        ("status", Text),
        ("fulfillments", List(&Holds::Model(&FULFILLMENT))),
        ("payment_history", List(&Holds::Model(&ORDER_PAYMENT))),
        ("cancel_reason", Optional(&Text)),
        ("exchange_items", Optional(&TEXTS)),
        ("exchange_new_items", Optional(&TEXTS)),
        ("exchange_payment_method_id", Optional(&Text)),
        ("exchange_price_difference", Optional(&Amount)),
        ("return_items", Optional(&TEXTS)),
        ("return_payment_method_id", Optional(&Text)),
    ],
};

const CABINS: Holds = Map(&Whole);

static AVAILABLE: Model = Model {
    name: "FlightDateStatusAvailable",
    fields: &[("status", Text), ("available_seats", CABINS), ("prices", CABINS)],
};
static LANDED: Model = Model {
    name: "FlightDateStatusLanded",
    fields: &[("status", Text), ("actual_departure_time_est", Text), ("actual_arrival_time_est", Text)],
};
static CANCELLED: Model = Model { name: "FlightDateStatusCancelled", fields: &[("status", Text)] };
static ESTIMATED: Model = Model {
    name: "FlightDateStatusDelayed",
    fields: &[("status", Text), ("estimated_departure_time_est", Text), ("estimated_arrival_time_est", Text)],
};
static FLYING: Model = Model {
    name: "FlightDataStatusFlying",
    fields: &[("status", Text), ("actual_departure_time_est", Text), ("estimated_arrival_time_est", Text)],
};

pub(super) static FLIGHT: Model = Model {
    name: "Flight",
    fields: &[
        ("flight_number", Text),
        ("origin", Text),
        ("destination", Text),
        ("scheduled_departure_time_est", Text),
        ("scheduled_arrival_time_est", Text),
        (
            "dates",
            Map(&OneOf(
                "status",
                &[
                    ("available", &AVAILABLE),
                    ("landed", &LANDED),
                    ("cancelled", &CANCELLED),
                    ("delayed", &ESTIMATED),
                    ("flying", &FLYING),
                    ("on time", &ESTIMATED),
                ],
            )),
        ),
    ],
};

pub(super) static FLIGHT_INFO: Model = Model { name: "FlightInfo", fields: &[("flight_number", Text), ("date", Text)] };
pub(super) static PASSENGER: Model =
    Model { name: "Passenger", fields: &[("first_name", Text), ("last_name", Text), ("dob", Text)] };
pub(super) static PAYMENT: Model = Model { name: "Payment", fields: &[("payment_id", Text), ("amount", Whole)] };
static RESERVATION_FLIGHT: Model = Model {
    name: "ReservationFlight",
    fields: &[("flight_number", Text), ("origin", Text), ("destination", Text), ("date", Text), ("price", Whole)],
};

static AIRLINE_ADDRESS: Model = Model {
    name: "Address",
    fields: &[
        ("address1", Text),
        ("address2", Optional(&Text)),
        ("city", Text),
        ("country", Text),
        ("state", Text),
        ("zip", Text),
    ],
};

pub(super) static AIRLINE_USER: Model = Model {
    name: "User",
    fields: &[
        ("user_id", Text),
        ("name", Holds::Model(&NAME)),
        ("address", Holds::Model(&AIRLINE_ADDRESS)),
        ("email", Text),
        ("dob", Text),
        (
            "payment_methods",
            Map(&OneOf(
                "source",
                &[("credit_card", &CREDIT_CARD), ("gift_card", &AIRLINE_GIFT_CARD), ("certificate", &CERTIFICATE)],
            )),
        ),
        ("saved_passengers", List(&Holds::Model(&PASSENGER))),
        ("membership", Choice(&["gold", "silver", "regular"])),
        ("reservations", TEXTS),
    ],
};

pub(super) static RESERVATION: Model = Model {
    name: "Reservation",
    fields: &[
        ("reservation_id", Text),
        ("user_id", Text),
        ("origin", Text),
        ("destination", Text),
        ("flight_type", Choice(&["round_trip", "one_way"])),
        ("cabin", Choice(&["business", "economy", "basic_economy"])),
        ("flights", List(&Holds::Model(&RESERVATION_FLIGHT))),
        ("passengers", List(&Holds::Model(&PASSENGER))),
        ("payment_history", List(&Holds::Model(&PAYMENT))),
        ("created_at", Text),
        ("total_baggages", Whole),
        ("nonfree_baggages", Whole),
        ("insurance", Choice(&["yes", "no"])),
        ("status", Optional(&Choice(&["cancelled"]))),
    ],
};
