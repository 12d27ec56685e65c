//! Tool descriptions of retail, as the agent sees them.

use super::super::schema::{Parameter, Spec, Type, param};

const TEXTS: Type = Type::List(&Type::Text);

const ORDER: Parameter = param("order_id", "Order id with its leading '#', such as '#W0000000'.", Type::Text);
const USER: Parameter = param("user_id", "User id, such as 'sara_doe_496'.", Type::Text);
const ITEMS: Parameter =
    param("item_ids", "Ids of the items concerned; an id may occur as often as the order has it.", TEXTS);
const NEW_ITEMS: Parameter = param(
    "new_item_ids",
    "Ids of the new items, in the order of item_ids; each a variant of the same product as the item it replaces.",
    TEXTS,
);
const PAYMENT: Parameter = param(
    "payment_method_id",
    "Payment method of the user that pays or receives the difference, such as 'gift_card_0000000'.",
    Type::Text,
);

const fn address(name: &'static str, about: &'static str) -> Parameter {
    param(name, about, Type::Text)
}

const ADDRESS1: Parameter = address("address1", "First address line.");
const ADDRESS2: Parameter = address("address2", "Second address line, or ''.");
const CITY: Parameter = address("city", "City.");
const STATE: Parameter = address("state", "State, two letters.");
const COUNTRY: Parameter = address("country", "Country.");
const ZIP: Parameter = address("zip", "Zip code, as a string.");

pub(crate) const SPECS: [Spec; 16] = [
    Spec {
        name: "calculate",
        about: "Evaluate an arithmetic expression and return the result rounded to cents.",
        parameters: &[param("expression", "Numbers, + - * / ( ) and spaces.", Type::Text)],
    },
    Spec {
        name: "cancel_pending_order",
        about: "Cancel a pending order and refund it: at once to a gift card, in 5 to 7 days otherwise. Needs the user's \
                explicit confirmation.",
        parameters: &[ORDER, param("reason", "Why.", Type::Choice(&["no longer needed", "ordered by mistake"]))],
    },
    Spec {
        name: "exchange_delivered_order_items",
        about: "Request the exchange of items of a delivered order for variants of the same products. Once per order, \
                after the user's explicit confirmation.",
        parameters: &[ORDER, ITEMS, NEW_ITEMS, PAYMENT],
    },
    Spec {
        name: "find_user_id_by_email",
        about: "Find a user id by email address.",
        parameters: &[param("email", "Email address.", Type::Text)],
    },
    Spec {
        name: "find_user_id_by_name_zip",
        about: "Find a user id by name and zip code, when the email is unknown.",
        parameters: &[
            param("first_name", "First name.", Type::Text),
            param("last_name", "Last name.", Type::Text),
            ZIP,
        ],
    },
    Spec { name: "get_order_details", about: "Status and details of an order.", parameters: &[ORDER] },
    Spec {
        name: "get_product_details",
        about: "A product with all its variants: options, price, availability.",
        parameters: &[param("product_id", "Product id, which is not an item id.", Type::Text)],
    },
    Spec {
        name: "get_user_details",
        about: "A user's name, address, payment methods and orders.",
        parameters: &[USER],
    },
    Spec { name: "list_all_product_types", about: "Names and ids of all products.", parameters: &[] },
    Spec {
        name: "modify_pending_order_address",
        about: "Change the shipping address of a pending order. Needs the user's explicit confirmation.",
        parameters: &[ORDER, ADDRESS1, ADDRESS2, CITY, STATE, COUNTRY, ZIP],
    },
    Spec {
        name: "modify_pending_order_items",
        about: "Exchange items of a pending order for variants of the same products. Once per order, after the user's \
                explicit confirmation.",
        parameters: &[ORDER, ITEMS, NEW_ITEMS, PAYMENT],
    },
    Spec {
        name: "modify_pending_order_payment",
        about: "Pay a pending order by another method. Needs the user's explicit confirmation.",
        parameters: &[ORDER, PAYMENT],
    },
    Spec {
        name: "modify_user_address",
        about: "Change a user's default address. Needs the user's explicit confirmation.",
        parameters: &[USER, ADDRESS1, ADDRESS2, CITY, STATE, COUNTRY, ZIP],
    },
    Spec {
        name: "return_delivered_order_items",
        about: "Request the return of items of a delivered order. Once per order, after the user's explicit confirmation.",
        parameters: &[ORDER, ITEMS, PAYMENT],
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
];
