//! The prompts that dwell has.

/// A prompt as it is compiled in.
pub(crate) struct BuiltinPrompt {
    pub(crate) id: &'static str,
    pub(crate) category: &'static str,
    pub(crate) text: &'static str,
    pub(crate) follow_ups: &'static [&'static str],
    pub(crate) fill_context: Option<f64>,
}

/// Categories of the prompts that dwell has.
pub(crate) const BUILTIN_CATEGORIES: &[&str] = &["short", "long", "follow_up", "generation"];

/// A text of some 300 words to be asked about.
const LIGHTHOUSE: &str = "\
Read the report and then answer the question below it.

The lighthouse on the northern reef was finished in the autumn of 1871, after four summers of work. In the first summer \
the builders could land on only twenty-six days, because the rock is covered at high water and the swell comes from \
three sides. They bolted an iron frame to the reef, slept in a wooden hut on top of it, and lost the hut in a storm in \
the second winter. The stone was cut in a yard on the mainland, where every ring of the tower was first put together on \
a level floor, numbered, and taken apart again. Each block is dovetailed into its neighbours, so that no ring can turn \
on the one below. The lowest eleven rings are solid.

The lamp burned rapeseed oil until 1889 and paraffin after that. A clockwork turned the lens once a minute; the keepers \
wound it every fifty minutes, by night and in fog also by day. Three keepers lived in the tower at a time and one was \
on leave ashore. Relief boats were due every four weeks. In the winter of 1894 none could land for eleven weeks, and the \
keepers lived on ship's biscuit and on fish that they caught from the gallery. Their log for those weeks mentions the \
weather twice a day and their hunger once.

The light was made electric in 1962, with two diesel generators in the old oil store, and the last keepers left in 1985. \
Since then it has been watched by radio from the harbour office. Solar panels replaced the generators in 2004. The lens, \
which weighs two tonnes and floats in a bath of mercury, was taken out in the same year and stands in the town museum, \
where a motor turns it on Sundays.

Question: which changes to the light are reported, in which years, and what did each of them mean for the people who \
kept it?";

/// A text that makes sense when it is repeated.
const INVENTORY: &str = "\
Shelf by shelf the clerk reads the list aloud: brass screws, forty boxes; copper wire, nine rolls; lamp glass, sixteen \
panes, two of them cracked; cotton wick, thirty yards; linseed oil, five cans. The storekeeper repeats each line and \
makes a mark. When the last line has been read they change places and begin again with the first. ";

pub(crate) const BUILTIN: &[BuiltinPrompt] = &[
    BuiltinPrompt {
        id: "short-fact",
        category: "short",
        text: "Why does ice float on water? Answer in two sentences.",
        follow_ups: &[],
        fill_context: None,
    },
    BuiltinPrompt {
        id: "short-list",
        category: "short",
        text: "Name three tools that a carpenter uses and say what each is for.",
        follow_ups: &[],
        fill_context: None,
    },
    BuiltinPrompt { id: "long-question", category: "long", text: LIGHTHOUSE, follow_ups: &[], fill_context: None },
    BuiltinPrompt { id: "long-fill", category: "long", text: INVENTORY, follow_ups: &[], fill_context: Some(0.75) },
    BuiltinPrompt {
        id: "follow-up-recipe",
        category: "follow_up",
        text: "How do I make a simple tomato soup for four people?",
        follow_ups: &["One of them does not eat onions. What do I change?", "What can I prepare the day before?"],
        fill_context: None,
    },
    BuiltinPrompt {
        id: "follow-up-journey",
        category: "follow_up",
        text: "I have one week to see a country by train and I like mountains and old towns. What should I think of first?",
        follow_ups: &[
            "Make a plan with one line for each day.",
            "It will rain on the third day. Change that day only.",
            "Which of these days is the most tiring, and why?",
        ],
        fill_context: None,
    },
    BuiltinPrompt {
        id: "generation-story",
        category: "generation",
        text: "Write a long story about a clockmaker who moves to an island where nobody keeps time.",
        follow_ups: &[],
        fill_context: None,
    },
];
