//! Comma-separated text, as little of it as the tables need.

use std::fmt::Display;

/// Lines of fields under a header.
pub(crate) struct Csv {
    pub(crate) text: String,
}

impl Csv {
    pub(crate) fn new(columns: &[&str]) -> Self {
        Self { text: columns.join(",") + "\n" }
    }

    pub(crate) fn line(&mut self, fields: &[String]) {
        for (place, field) in fields.iter().enumerate() {
            if place > 0 {
                self.text.push(',');
            }
            self.push_field(field);
        }
        self.text.push('\n');
    }

    /// Names of region types come from the trace and may hold anything.
    fn push_field(&mut self, field: &str) {
        if field.contains([',', '"', '\n', '\r']) {
            self.text.push('"');
            self.text.push_str(&field.replace('"', "\"\""));
            self.text.push('"');
        } else {
            self.text.push_str(field);
        }
    }
}

/// The number, or an empty field.
pub(crate) fn number(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
