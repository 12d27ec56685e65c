//! Filler: talk about films that no task is about.

/// Sentences that answer nothing. They have no digits, so that no verifier finds a figure in them.
const SENTENCES: [&str; 13] = [
    "The second film of the trilogy opened on a rainy Friday and split the critics at once.",
    "Nobody expected the quiet pilot from the first scene to return as the villain of the last.",
    "Its score borrows a lullaby that the composer had written for his daughter years before.",
    "The desert chase was shot in a quarry behind the studio, with painted cardboard for mountains.",
    "Fans still argue whether the robot understood the joke or merely waited for the laughter.",
    "A deleted ending shows the smuggler opening a bakery on the moon of his childhood.",
    "The space princess was first imagined as an elderly librarian with a fondness for duels.",
    "Every sword in the throne room was carved from the same beam of an abandoned theatre.",
    "The director kept a parrot on set because silence made him forget the plot.",
    "Test audiences preferred the monster without its hat, so the hat was given to a waiter.",
    "The sequel spends its opening hour on a wedding that no character wants to attend.",
    "Collectors pay fortunes for the poster on which the hero's name is spelt backwards.",
    "In the novel the asteroid is a metaphor, in the film it is mostly papier-mache.",
];

/// `words` words of filler. Later rounds start elsewhere, so that the text does not simply repeat.
pub(crate) fn filler(words: usize) -> String {
    // The number of sentences is prime, so that every stride visits them all.
    let stride = |round: usize| 1 + (5 * round + 2) % (SENTENCES.len() - 1);
    let order =
        (0..).flat_map(|round| (0..SENTENCES.len()).map(move |at| (at * stride(round) + round) % SENTENCES.len()));
    let text = order.flat_map(|sentence| SENTENCES[sentence].split(' '));
    text.take(words).collect::<Vec<_>>().join(" ")
}
