//! What a sensor looks like in JSON.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use dwell_events::host::{Sensor, Temperature};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn round_trip<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(sensor: Sensor<T>, json: &str) {
    assert_eq!(serde_json::to_string(&sensor).unwrap(), json);
    assert_eq!(serde_json::from_str::<Sensor<T>>(json).unwrap(), sensor);
}

#[test]
fn a_value_is_itself_and_a_missing_one_its_reason() {
    round_trip(Sensor::Available(7_u64), "7");
    round_trip(Sensor::Available(1.5_f64), "1.5");
    round_trip(Sensor::Available(true), "true");
    round_trip(Sensor::Available("text".to_owned()), "\"text\"");
    round_trip(Sensor::Available(vec!["one".to_owned()]), "[\"one\"]");
    round_trip(Sensor::<u64>::not_available("no fan"), "{\"not_available\":\"no fan\"}");
    round_trip(Sensor::<Vec<u64>>::not_available("no fan"), "{\"not_available\":\"no fan\"}");
    round_trip(Sensor::<Temperature>::not_available("no fan"), "{\"not_available\":\"no fan\"}");
    let temperature = Temperature { source: "zone".to_owned(), start_c: 1.0, mean_c: 2.0, peak_c: 3.0, end_c: 2.5 };
    round_trip(
        Sensor::Available(temperature),
        r#"{"source":"zone","start_c":1.0,"mean_c":2.0,"peak_c":3.0,"end_c":2.5}"#,
    );
}

#[test]
fn what_is_neither_is_refused() {
    assert!(serde_json::from_str::<Sensor<u64>>("\"seven\"").is_err());
    assert!(serde_json::from_str::<Sensor<u64>>("{\"unavailable\":\"no fan\"}").is_err());
}
