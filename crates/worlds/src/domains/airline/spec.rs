//! Tool descriptions of the airline, as the agent sees them.

use super::super::schema::{Parameter, Spec, Type, param};

const CABINS: Type = Type::Choice(&["basic_economy", "economy", "business"]);

const USER: Parameter = param("user_id", "User id, such as 'sara_doe_496'.", Type::Text);
const RESERVATION: Parameter = param("reservation_id", "Reservation id, such as '8JX2WO'.", Type::Text);
const ORIGIN: Parameter = param("origin", "Airport of departure in three letters, such as 'JFK'.", Type::Text);
const DESTINATION: Parameter = param("destination", "Airport of arrival in three letters, such as 'LAX'.", Type::Text);
const DATE: Parameter = param("date", "Date as YYYY-MM-DD.", Type::Text);
const CABIN: Parameter = param("cabin", "Cabin, the same for all flights of a reservation.", CABINS);
const FLIGHTS: Parameter = param(
    "flights",
    "All flights of the reservation in order, also those that do not change.",
    Type::List(&Type::Record(&[
        param("flight_number", "Flight number, such as 'HAT001'.", Type::Text),
        param("date", "Date as YYYY-MM-DD.", Type::Text),
    ])),
);
const PASSENGERS: Parameter = param(
    "passengers",
    "All passengers.",
    Type::List(&Type::Record(&[
        param("first_name", "First name.", Type::Text),
        param("last_name", "Last name.", Type::Text),
        param("dob", "Date of birth as YYYY-MM-DD.", Type::Text),
    ])),
);
const BAGS: Parameter = param("total_baggages", "All checked bags.", Type::Whole);
const PAID_BAGS: Parameter = param("nonfree_baggages", "Checked bags beyond the free allowance.", Type::Whole);
const PAYMENT: Parameter =
    param("payment_id", "Payment method of the user, such as 'credit_card_0000000'.", Type::Text);

pub(crate) const SPECS: [Spec; 14] = [
    Spec {
        name: "book_reservation",
        about: "Book a reservation. Needs the user's explicit confirmation.",
        parameters: &[
            USER,
            ORIGIN,
            DESTINATION,
            param("flight_type", "Kind of trip.", Type::Choice(&["one_way", "round_trip"])),
            CABIN,
            FLIGHTS,
            PASSENGERS,
            param(
                "payment_methods",
                "How the total is paid.",
                Type::List(&Type::Record(&[PAYMENT, param("amount", "Dollars from this method.", Type::Money)])),
            ),
            BAGS,
            PAID_BAGS,
            param("insurance", "Travel insurance.", Type::Choice(&["yes", "no"])),
        ],
    },
    Spec {
        name: "calculate",
        about: "Evaluate an arithmetic expression and return the result rounded to cents.",
        parameters: &[param("expression", "Numbers, + - * / ( ) and spaces.", Type::Text)],
    },
    Spec {
        name: "cancel_reservation",
        about: "Cancel a whole reservation. Needs the user's explicit confirmation.",
        parameters: &[RESERVATION],
    },
    Spec { name: "get_reservation_details", about: "Details of a reservation.", parameters: &[RESERVATION] },
    Spec {
        name: "get_user_details",
        about: "A user's profile, payment methods and reservations.",
        parameters: &[USER],
    },
    Spec { name: "list_all_airports", about: "All airports with their cities.", parameters: &[] },
    Spec {
        name: "search_direct_flight",
        about: "Direct flights with seats between two airports on a date.",
        parameters: &[ORIGIN, DESTINATION, DATE],
    },
    Spec {
        name: "search_onestop_flight",
        about: "Pairs of connecting flights with seats between two airports, leaving on a date.",
        parameters: &[ORIGIN, DESTINATION, DATE],
    },
    Spec {
        name: "send_certificate",
        about: "Send a user a travel certificate. Be careful!",
        parameters: &[USER, param("amount", "Its value in dollars.", Type::Whole)],
    },
    Spec {
        name: "think",
        about: "Write down a thought. Changes and returns nothing.",
        parameters: &[param("thought", "The thought.", Type::Text)],
    },
    Spec {
        name: "transfer_to_human_agents",
        about: "Hand the user to a human agent, when they ask for one or the tools cannot help.",
        parameters: &[param("summary", "The user's issue in short.", Type::Text)],
    },
    Spec {
        name: "update_reservation_baggages",
        about: "Change the checked bags of a reservation. Needs the user's explicit confirmation.",
        parameters: &[RESERVATION, BAGS, PAID_BAGS, PAYMENT],
    },
    Spec {
        name: "update_reservation_flights",
        about: "Change the flights or the cabin of a reservation. Needs the user's explicit confirmation.",
        parameters: &[RESERVATION, CABIN, FLIGHTS, PAYMENT],
    },
    Spec {
        name: "update_reservation_passengers",
        about: "Change the passengers of a reservation, not their number. Needs the user's explicit confirmation.",
        parameters: &[RESERVATION, PASSENGERS],
    },
];
