//! Records that cross from a recorded process to the observer. What can be decoded must survive being encoded.

use dwell_records::{
    Graph, Hello, IndexRuns, Kind, Refusal, Step, Transferred, VisibleCells, WeightPlaced, split_frame,
};

pub(crate) fn run(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((frame, behind))) = split_frame(rest) {
        assert!(behind.len() < rest.len() && frame.first_time_ns() <= frame.time_ns);
        record(Kind::from_number(frame.kind), frame.payload);
        rest = behind;
    }
    let _ = (IndexRuns::decode(bytes), VisibleCells::decode(bytes));
}

fn record(kind: Option<Kind>, payload: &[u8]) {
    match kind {
        Some(Kind::Hello) => {
            if let Ok(hello) = Hello::decode(payload) {
                assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
            }
        }
        Some(Kind::Refusal) => {
            if let Ok(refusal) = Refusal::decode(payload) {
                assert_eq!(Refusal::decode(&refusal.encode()), Ok(refusal));
            }
        }
        Some(Kind::Transferred) => {
            if let Ok(transferred) = Transferred::decode(payload) {
                assert_eq!(Transferred::decode(&transferred.encode()), Ok(transferred));
            }
        }
        Some(Kind::Graph) => drop(Graph::decode(payload)),
        Some(Kind::Step) => drop(Step::decode(payload)),
        Some(Kind::WeightPlaced) => drop(WeightPlaced::decode(payload)),
        Some(Kind::Engine) | None => {}
    }
}
