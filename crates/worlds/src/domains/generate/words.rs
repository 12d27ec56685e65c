//! Vocabulary of the generated worlds.

pub(super) const FIRST_NAMES: [&str; 32] = [
    "Ada", "Alma", "Anton", "Bruno", "Carla", "Cem", "Dara", "Dimitri", "Edith", "Emil", "Farah", "Felix", "Greta",
    "Hugo", "Ines", "Ivo", "Jana", "Jonas", "Kaya", "Kofi", "Lena", "Luca", "Mara", "Milo", "Nadia", "Nils", "Olga",
    "Omar", "Petra", "Rafael", "Sina", "Tomas",
];

pub(super) const LAST_NAMES: [&str; 32] = [
    "Acosta", "Adler", "Baker", "Berg", "Castro", "Chen", "Dubois", "Eriksen", "Fischer", "Gallo", "Haas", "Ibrahim",
    "Jansen", "Keller", "Kowalski", "Larsen", "Lindgren", "Marino", "Mendes", "Nakamura", "Novak", "Okafor", "Olsen",
    "Park", "Quinn", "Reyes", "Schmidt", "Silva", "Tanaka", "Vogel", "Weber", "Zhang",
];

/// Parts of the syllables of invented names.
pub(super) const ONSETS: [&str; 20] =
    ["b", "c", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z", "br", "st"];
pub(super) const VOWELS: [&str; 8] = ["a", "e", "i", "o", "u", "ai", "ea", "ou"];
pub(super) const CODAS: [&str; 8] = ["", "", "l", "n", "r", "s", "t", "x"];

/// City, state, first three digits of the zip code.
pub(super) const CITIES: [(&str, &str, &str); 14] = [
    ("New York", "NY", "100"),
    ("Los Angeles", "CA", "900"),
    ("Chicago", "IL", "606"),
    ("Houston", "TX", "770"),
    ("Phoenix", "AZ", "850"),
    ("Philadelphia", "PA", "191"),
    ("San Diego", "CA", "921"),
    ("Dallas", "TX", "752"),
    ("Austin", "TX", "787"),
    ("Columbus", "OH", "432"),
    ("Charlotte", "NC", "282"),
    ("Seattle", "WA", "981"),
    ("Denver", "CO", "802"),
    ("Boston", "MA", "021"),
];

pub(super) const STREETS: [&str; 10] = [
    "Oak Street",
    "Maple Avenue",
    "River Road",
    "Hill Lane",
    "Lake Drive",
    "Cedar Court",
    "Elm Street",
    "Park Way",
    "Mill Road",
    "Sunset Boulevard",
];

/// Options of a product, and its usual price in dollars.
pub(super) struct Product {
    pub(super) name: &'static str,
    pub(super) price: usize,
    pub(super) options: &'static [(&'static str, &'static [&'static str])],
}

pub(super) const PRODUCTS: [Product; 16] = [
    Product {
        name: "Desk Lamp",
        price: 60,
        options: &[("color", &["black", "white", "brass"]), ("brightness", &["low", "medium", "high"])],
    },
    Product {
        name: "Backpack",
        price: 110,
        options: &[
            ("color", &["grey", "green", "navy"]),
            ("size", &["small", "large"]),
            ("material", &["nylon", "canvas"]),
        ],
    },
    Product {
        name: "Water Bottle",
        price: 30,
        options: &[("capacity", &["500ml", "750ml", "1000ml"]), ("material", &["steel", "glass"])],
    },
    Product {
        name: "Running Shoes",
        price: 140,
        options: &[("size", &["8", "9", "10", "11"]), ("color", &["red", "white", "blue"])],
    },
    Product {
        name: "Office Chair",
        price: 320,
        options: &[
            ("material", &["leather", "mesh"]),
            ("color", &["black", "grey"]),
            ("armrest", &["fixed", "adjustable"]),
        ],
    },
    Product {
        name: "Bluetooth Speaker",
        price: 90,
        options: &[
            ("color", &["black", "green"]),
            ("battery life", &["10 hours", "20 hours"]),
            ("water resistance", &["no", "yes"]),
        ],
    },
    Product {
        name: "Coffee Maker",
        price: 180,
        options: &[
            ("type", &["drip", "espresso"]),
            ("capacity", &["4 cups", "8 cups"]),
            ("color", &["black", "silver"]),
        ],
    },
    Product {
        name: "Wall Clock",
        price: 45,
        options: &[("diameter", &["10 inches", "14 inches"]), ("color", &["white", "wood", "black"])],
    },
    Product {
        name: "Yoga Mat",
        price: 50,
        options: &[
            ("thickness", &["4mm", "6mm"]),
            ("color", &["purple", "teal", "pink"]),
            ("material", &["rubber", "cork"]),
        ],
    },
    Product {
        name: "Mechanical Keyboard",
        price: 150,
        options: &[
            ("switch", &["linear", "tactile", "clicky"]),
            ("size", &["full", "80%"]),
            ("backlight", &["white", "none"]),
        ],
    },
    Product {
        name: "Wireless Earbuds",
        price: 130,
        options: &[("color", &["black", "white"]), ("battery life", &["6 hours", "8 hours"])],
    },
    Product {
        name: "Garden Hose",
        price: 40,
        options: &[("length", &["25ft", "50ft", "100ft"]), ("color", &["green", "orange"])],
    },
    Product {
        name: "Cookware Set",
        price: 230,
        options: &[("pieces", &["5", "10", "14"]), ("material", &["ceramic", "steel"])],
    },
    Product {
        name: "Travel Suitcase",
        price: 200,
        options: &[
            ("size", &["carry-on", "medium", "large"]),
            ("color", &["black", "red"]),
            ("shell", &["soft", "hard"]),
        ],
    },
    Product {
        name: "Electric Kettle",
        price: 70,
        options: &[("capacity", &["1L", "1.7L"]), ("color", &["white", "black", "mint"])],
    },
    Product {
        name: "Table Tent Lantern",
        price: 55,
        options: &[("power", &["solar", "battery"]), ("brightness", &["300 lumens", "600 lumens"])],
    },
];
